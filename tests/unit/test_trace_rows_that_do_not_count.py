"""Rows and fields of traces that a simulation cannot take over: each kind is counted, not lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gangsched.cli import main
from gangsched.errors import InvalidValueError, TraceError
from gangsched.events import PodAdded, PodGroupAdded
from gangsched.simulation import Arrival, Trace, open_trace

TRACES = Path(__file__).resolve().parents[3] / "shared" / "traces"
DLRM = "instance,app,role,cpu,gpu,memory_gib,created_s,deleted_s\n"
OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,"
    "creation_time,deletion_time,scheduled_time\n"
)
JOBS = "job,submit_s,workers,gpus_per_worker,duration_s"


def opened(*lines: str, own_nodes: bool = False) -> Trace:
    return open_trace(lambda: lines, file="t", own_nodes=own_nodes)


def swf(
    name: int, *, at: int = 0, memory: int = -1, status: int = 1, before: int = -1, think: int = -1
) -> str:
    return f"{name} {at} -1 10 1 -1 -1 1 20 {memory} {status} 1 1 -1 1 1 {before} {think}\n"


def pods(trace: Trace) -> list[tuple[float, str, str]]:
    found: list[tuple[float, str, str]] = []
    for each in trace.arrivals():
        if isinstance(each.event, PodAdded):
            pod = each.event.pod
            found.append((each.at, pod.name, pod.requests.quantity("memory")))
    return found


def read(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(words)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


# Alibaba's recommendation models ---------------------------------------------------------------


def test_instance_that_was_deleted_as_it_was_created_is_left_out_and_counted() -> None:
    rows = ("i0,a,CN,1,0,1,5,5\n", "i1,a,CN,1,0,1,6,9\n", "i2,a,CN,1,0,1,6,\n")
    trace = opened(DLRM, *rows)
    assert [(at, name) for at, name, _memory in pods(trace)] == [(6.0, "i1"), (6.0, "i2")]
    left_out = "t: 1 instance was deleted at the instant of its creation and was left out"
    assert trace.skipped[-1] == left_out
    two = opened(DLRM, *rows, "i3,a,CN,1,0,1,7,7\n")
    assert two.skipped[-1].startswith("t: 2 instances were deleted")


def test_instance_that_is_left_out_does_not_count_for_the_minimum() -> None:
    trace = opened(DLRM, "i0,a,CN,1,0,1,5,5\n", "i1,a,CN,1,0,1,6,9\n", "i2,b,CN,1,0,1,7,7\n")
    groups = [e.event.group for e in trace.arrivals() if isinstance(e.event, PodGroupAdded)]
    assert [(group.name, dict(group.roles), group.created_at) for group in groups] == [
        ("a", {"CN": 1}, 6.0)
    ]


def test_instance_that_was_deleted_before_it_was_created_is_an_error() -> None:
    with pytest.raises(TraceError, match="line 2: deleted_s: expected an instant not before cr"):
        opened(DLRM, "i0,a,CN,1,0,1,5,4\n")


def test_published_trace_of_recommendation_models_is_read_whole() -> None:
    path = TRACES / "dlrm_instances.csv"
    if not path.exists():
        pytest.skip(f"the real traces are not in {TRACES}")
    lines = path.read_text().splitlines(keepends=True)
    trace = open_trace(lambda: lines, file="dlrm")
    arrivals: list[Arrival] = list(trace.arrivals())
    assert sum(isinstance(each.event, PodAdded) for each in arrivals) == len(lines) - 1 - 15
    assert "dlrm: 15 instances were deleted" in trace.skipped[-1]


# Alibaba's pods ---------------------------------------------------------------------------------


def test_pod_that_was_deleted_as_it_started_is_counted() -> None:
    trace = opened(OPENB, "a,1,1,0,0,,5,9,9\n", "b,1,1,0,0,,5,9,9\n", "c,1,1,0,0,,5,9,6\n")
    assert len(pods(trace)) == 3
    at_once = "t: 2 pods were deleted at the instant at which they started, and run for 1 s"
    assert trace.skipped[-1] == at_once


def test_pod_that_was_deleted_at_once_and_never_scheduled_is_counted_as_never_scheduled() -> None:
    trace = opened(OPENB, "a,1,1,0,0,,5,5,\n", "b,1,1,0,0,,5,9,\n")
    assert len(pods(trace)) == 2
    never = "t: 2 pods were never scheduled, and run for as long as they waited"
    assert trace.skipped[-1] == never
    assert not any("deleted at the instant" in sentence for sentence in trace.skipped)


def test_pod_that_was_deleted_before_it_started_is_an_error() -> None:
    message = "line 2: deletion_time: expected an instant not before scheduled_time, got '7'"
    with pytest.raises(TraceError, match=message):
        opened(OPENB, "a,1,1,0,0,,5,7,9\n")


# Jobs -------------------------------------------------------------------------------------------


def test_two_columns_with_the_tenant_are_an_error() -> None:
    with pytest.raises(TraceError, match="line 1: tenant: expected tenant or vc, got both"):
        opened(f"{JOBS},tenant,vc\n", "a,0,1,1,1,red,blue\n")


# SWF --------------------------------------------------------------------------------------------

NODES = ("; MaxNodes: 1\n", "; MaxProcs: 4\n")


def test_jobs_on_nodes_of_the_header_request_no_memory() -> None:
    lines = (*NODES, swf(1, memory=1024), swf(2), swf(3, memory=1))
    trace = opened(*lines, own_nodes=True)
    assert [memory for _at, _name, memory in pods(trace)] == ["0", "0", "0"]
    assert trace.skipped == (
        "t: 2 jobs request memory, which does not count: the header does not say what memory a"
        " node has",
    )


@pytest.mark.parametrize("header", [(), NODES])
def test_jobs_on_other_nodes_request_their_memory(header: tuple[str, ...]) -> None:
    trace = opened(*header, swf(1, memory=1024), own_nodes=not header)
    assert [memory for _at, _name, memory in pods(trace)] == ["1Mi"]
    assert trace.skipped == ()


def test_own_nodes_is_a_bool() -> None:
    wrong: Any = "no"
    with pytest.raises(InvalidValueError, match="own_nodes"):
        open_trace(lambda: [*NODES, swf(1)], file="t", own_nodes=wrong)


def test_partial_executions_are_left_out_beside_their_summary() -> None:
    parts = (swf(1, status=2), swf(1, at=-1, status=2), swf(1, at=-1, status=3))
    for lines in ((swf(1), *parts), (*parts, swf(1))):
        trace = opened(*lines, swf(2, status=0), swf(3, status=5))
        assert [name for _at, name, _memory in pods(trace)] == ["1-0", "2-0", "3-0"]
        assert trace.skipped == (
            "t: 3 lines are partial executions (status 2, 3 or 4) and were left out",
        )


def test_job_without_a_summary_is_counted() -> None:
    trace = opened(swf(1), swf(2, status=2), swf(2, status=4), swf(3))
    assert [name for _at, name, _memory in pods(trace)] == ["1-0", "3-0"]
    assert trace.skipped == (
        "t: 2 lines are partial executions (status 2, 3 or 4) and were left out",
        "t: 1 job has partial executions only, no line that summarises it, and was left out",
    )


def test_summary_that_is_given_twice_is_an_error() -> None:
    with pytest.raises(TraceError, match="expected a unique name"):
        opened(swf(1), swf(1, status=3), swf(1))


def test_jobs_that_follow_others_are_counted() -> None:
    trace = opened(swf(1), swf(2, before=1, think=100), swf(3, before=1), swf(4, think=5))
    assert trace.skipped == (
        "t: 3 jobs name a preceding job or a think time (fields 17 and 18), which does not count",
    )


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ("; MaxProcs: 4\n", "need MaxNodes and MaxProcs, got only MaxProcs 4"),
        ("; MaxNodes: 4\n", "need MaxNodes and MaxProcs, got only MaxNodes 4"),
        ("; MaxNodes: 4\n; MaxProcs: 2\n", "need MaxProcs >= MaxNodes"),
    ],
)
def test_header_that_describes_no_nodes_says_why(
    header: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.swf"
    path.write_text(header + swf(1))
    code, _out, err = read(capsys, "simulate", "--trace", str(path))
    assert (code, err.count("\n")) == (2, 1)
    assert "--trace: expected --nodes, or manifests with nodes; nodes of the header" in err
    assert problem in err
    assert read(capsys, "simulate", "--trace", str(path), "--nodes", "1x1")[0] == 0


def test_command_runs_jobs_with_memory_on_nodes_of_the_header(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.swf"
    path.write_text("".join((*NODES, swf(1, memory=1024))))
    code, out, _err = read(capsys, "simulate", "--trace", str(path), "--detail", "summary")
    assert code == 0
    assert "1 submitted, 1 started whole" in out
    assert "1 job requests memory, which does not count" in out
    (tmp_path / "n.csv").write_text("node,cpu\nn,4\n")
    words = ("simulate", "--trace", str(path), "--nodes", str(tmp_path / "n.csv"))
    assert "Insufficient memory" in read(capsys, *words, "--detail", "summary")[1]
