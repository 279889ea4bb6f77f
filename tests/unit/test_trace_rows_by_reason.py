"""Jobs of a trace that are left out are counted once each, by the reason."""

from __future__ import annotations

from gangsched.simulation import Trace, open_trace

OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,"
    "creation_time,deletion_time,scheduled_time\n"
)


def opened(*lines: str) -> Trace:
    return open_trace(lambda: lines, file="t")


def swf(name: int, *, at: int = 0, ran: int = 10, processors: int = 1, status: int = 1) -> str:
    return f"{name} {at} -1 {ran} {processors} -1 -1 -1 -1 -1 {status} 1 1 -1 1 1 -1 -1\n"


def test_cancelled_job_without_run_time_is_counted_as_cancelled() -> None:
    trace = opened(swf(1, ran=-1, processors=-1, status=5), swf(2, ran=0, status=5), swf(3))
    assert trace.pods == 1
    assert trace.skipped == (
        "t: 2 jobs were cancelled before they ran (status 5) and were left out",
    )


def test_job_that_was_cancelled_while_it_ran_is_a_job() -> None:
    trace = opened(swf(1, status=5))
    assert (trace.pods, trace.skipped) == (1, ())


def test_each_reason_is_counted_in_the_order_of_its_first_job() -> None:
    trace = opened(
        swf(1, at=-1),
        swf(2, processors=-1, ran=-1),
        swf(3, processors=0, status=5),
        swf(4, ran=0),
        swf(5, at=-1, ran=-1),
    )
    assert trace.pods == 0
    assert trace.skipped == (
        "t: 1 job has no submit time (field 2) and was left out",
        "t: 2 jobs have no number of processors (fields 5 and 8) and were left out",
        "t: 2 jobs have no run time (field 4) and were left out",
    )


def test_pods_of_openb_that_were_never_scheduled_are_counted() -> None:
    trace = opened(OPENB, "a,1,1,0,0,,5,9,\n", "b,1,1,0,0,,5,8,\n", "c,1,1,0,0,,5,9,6\n")
    assert trace.pods == 3
    assert trace.skipped[-1] == (
        "t: 2 pods were never scheduled, and run for as long as they waited"
    )
