"""The published job log of Microsoft's Philly cluster, in JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import Pod, PodAdded, Resources, presets
from gangsched.errors import TraceError
from gangsched.events import NodeAdded
from gangsched.simulation import (
    RUN_SECONDS,
    Simulator,
    Trace,
    Workload,
    _json_list,
    load_nodes,
    load_trace,
    open_trace,
    parse_nodes_shape,
    report,
)
from gangsched.simulation.workload import Arrival
from support.documents import printed_by

DAY = "2017-10-07"


def attempt(start: str | None, end: str | None, *servers: int, ips: str = "abc") -> dict[str, Any]:
    """Return an attempt on servers with so many GPUs each."""
    detail = [
        {"ip": f"m{ip}", "gpus": [f"gpu{n}" for n in range(gpus)]}
        for ip, gpus in zip(ips, servers, strict=False)
    ]
    times = (None if each is None else f"{DAY} {each}" for each in (start, end))
    return {**dict(zip(("start_time", "end_time"), times, strict=True)), "detail": detail}


def job(name: str, submitted: str | None, *attempts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "status": "Pass",
        "vc": "ee9e8c",
        "jobid": name,
        "attempts": list(attempts),
        "submitted_time": None if submitted is None else f"{DAY} {submitted}",
        "user": "ce2f4c",
        **more,
    }


def opened(*jobs: Any, indent: int | None = 4) -> Trace:
    lines = json.dumps(list(jobs), indent=indent).splitlines(keepends=True)
    return open_trace(lambda: lines, file="log")


def pods(trace: Trace) -> list[Pod]:
    return [each.event.pod for each in trace.arrivals() if isinstance(each.event, PodAdded)]


def fails(*jobs: Any) -> TraceError:
    with pytest.raises(TraceError) as caught:
        opened(*jobs)
    return caught.value


def test_job_is_a_gang_of_workers_with_one_gpu() -> None:
    found = pods(opened(job("a", "01:11:39", attempt("01:12:09", "01:13:23", 8, 4))))
    assert [pod.name for pod in found] == [f"a-{n}" for n in range(12)]
    assert {pod.requests for pod in found} == {Resources({"nvidia.com/gpu": 1})}
    assert {pod.namespace for pod in found} == {"ee9e8c"}
    assert {pod.labels["pod-group.scheduling.sigs.k8s.io/min-available"] for pod in found} == {"12"}
    assert {pod.annotations[RUN_SECONDS] for pod in found} == {"74"}


def test_time_begins_with_the_first_submission() -> None:
    late = job("late", "00:01:00", attempt("00:02:00", "00:03:00", 1))
    early = job("early", "00:00:30", attempt("00:02:00", "00:03:00", 1))
    trace = opened(late, early)
    assert [(pod.name, pod.created_at) for pod in pods(trace)] == [
        ("early-0", 0.0),
        ("late-0", 30.0),
    ]
    assert [pod.name for pod in pods(trace)] == ["early-0", "late-0"], "it can be read again"


ENDLESS = "attempt with a start and a later end"


@pytest.mark.parametrize("absent", [None, "", "None"], ids=["null", "empty", "text"])
def test_run_time_is_the_sum_of_the_attempts_that_have_both_times(absent: str | None) -> None:
    first, second = attempt("01:00:00", "01:00:10", 1), attempt("02:00:00", "02:00:30", 2)
    partly = {**attempt("02:00:00", None, 1), "end_time": absent}
    trace = opened(job("a", "00:00:00", first, second, partly))
    assert [pod.annotations[RUN_SECONDS] for pod in pods(trace)] == ["40"]
    assert trace.skipped[1] == (
        "log: 1 attempt has no start, or no end after it, and counts as no time"
    )


@pytest.mark.parametrize(
    ("given_job", "why"),
    [
        (job("a", "00:00:00"), "GPUs in its first attempt, or no attempt,"),
        (
            job("a", "00:00:00", attempt("01:00:00", "02:00:00")),
            "GPUs in its first attempt, or no attempt,",
        ),
        (job("a", "00:00:00", attempt("01:00:00", None, 1)), ENDLESS),
        (job("a", "00:00:00", attempt("01:00:00", "01:00:00", 1)), ENDLESS),
        (job("a", "00:00:00", attempt("01:00:00", "00:59:00", 1)), ENDLESS),
        (job("a", None, attempt("01:00:00", "02:00:00", 1)), "submission"),
    ],
    ids=["no attempt", "no GPU", "no end", "no time", "ends before", "no submission"],
)
def test_job_that_never_ran_is_left_out_and_counted(given_job: dict[str, Any], why: str) -> None:
    trace = opened(given_job, job("b", "00:00:00", attempt("01:00:00", "02:00:00", 1)))
    assert [pod.name for pod in pods(trace)] == ["b-0"]
    assert trace.skipped[1:-1] == (f"log: 1 job has no {why} and was left out",)


def test_what_is_not_taken_over_is_said() -> None:
    said, begun = opened(job("a", "00:00:00", attempt("01:00:00", "02:00:00", 1))).skipped
    assert begun.startswith("log: dates count from the first submission, 2017-10-07 00:00:00 UTC")
    assert "status, user and the servers of attempts" in said


GOOD = attempt("01:00:00", "02:00:00", 1)


@pytest.mark.parametrize(
    ("bad", "field", "problem"),
    [
        ({"jobid": ""}, "jobid", "expected a non-empty string without a slash, got ''"),
        ({"vc": "a/b"}, "vc", "expected a non-empty string without a slash, got 'a/b'"),
        (
            {"submitted_time": "2017-13-07 01:12:09"},
            "submitted_time",
            "expected a time such as '2017-10-07 01:12:09', or null, got '2017-13-07 01:12:09'",
        ),
        ({"attempts": None}, "attempts", "expected a list, got None"),
        ({"attempts": [1]}, "attempts[0]", "expected an object, got 1"),
        (
            {"attempts": [GOOD, {**GOOD, "end_time": 5}]},
            "attempts[1].end_time",
            "expected a time such as '2017-10-07 01:12:09', or null, got 5",
        ),
        (
            {"attempts": [{**GOOD, "detail": [{"ip": "m1", "gpus": [1]}]}]},
            "attempts[0].detail[0].gpus[0]",
            "expected a string, got 1",
        ),
        (
            {"attempts": [{**GOOD, "detail": [{"ip": "m1"}]}]},
            "attempts[0].detail[0].gpus",
            "is missing",
        ),
    ],
)
def test_bad_value_is_named_by_line_field_and_value(
    bad: dict[str, Any], field: str, problem: str
) -> None:
    error = fails(job("a", "00:00:00", GOOD), {**job("b", "00:00:00", GOOD), **bad})
    assert (error.file, error.line) == ("log", 23)
    assert (error.column, error.problem) == (field, problem)


@pytest.mark.parametrize("field", ["jobid", "vc", "submitted_time", "attempts"])
def test_missing_field_is_an_error(field: str) -> None:
    given_job = job("a", "00:00:00", GOOD)
    del given_job[field]
    assert str(fails(given_job)) == f"log: line 2: {field}: is missing"


def test_job_given_twice_is_an_error() -> None:
    one = job("a", "00:00:00", GOOD)
    assert fails(one, one).column == "jobid"
    assert len(pods(opened(one, {**one, "vc": "other"}))) == 2


def test_numbers_of_gpus_and_pods_are_bounded() -> None:
    error = fails(job("a", "00:00:00", attempt("01:00:00", "02:00:00", 150_001)))
    assert (error.column, error.problem) == ("attempts[0].detail", "expected at most 150000 GPUs")
    lines = [json.dumps([job("a", "00:00:00", attempt("01:00:00", "02:00:00", 3))])]
    with pytest.raises(TraceError, match=r"attempts\[0\].detail: with it the file has more than 2"):
        open_trace(lambda: lines, file="log", most=2)


# The JSON ---------------------------------------------------------------------------------------


def objects(text: str) -> list[tuple[int, dict[str, Any]]]:
    return list(_json_list.objects_of(text.splitlines(keepends=True), "log"))


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("", 1, "expected '[', got the end of the file"),
        ("{}", 1, "expected '[', got '{'"),
        ("[\n{}\n", 2, "expected ',' or ']', got the end of the file"),
        ("[{},\n]", 2, "expected an object, got ']'"),
        ("[\n1]", 2, "expected an object or ']', got '1'"),
        ("[{}\n{}]", 2, "expected ',' or ']', got '{'"),
        ('[{\n"a": 1\n} 7]', 3, "expected ',' or ']', got '7'"),
        ("[{}]\n[", 2, "expected nothing more, got '['"),
        ('[\n{"a": 1,\n"a": 2}]', 2, "the key 'a' occurs twice in one object"),
        ('[{"a":\nNaN}]', 1, "not JSON: NaN is not a number in JSON"),
        ('[{"a":\n 1 2}]', 2, "not JSON: Expecting ',' delimiter"),
        ('[{"a": "x}]', 1, "not JSON: Unterminated string starting at"),
        ("[{" + '"a":{' * 100_000, 1, "the object is nested too deeply to be read"),
    ],
)
def test_malformed_text_is_an_error_that_names_the_line(text: str, line: int, problem: str) -> None:
    with pytest.raises(TraceError) as caught:
        objects(text)
    assert (caught.value.line, caught.value.problem) == (line, problem)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["{", "}, {", '"']),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def lines_of(found: list[dict[str, Any]], form: int | str | None, ascii_only: bool) -> list[str]:
    """Return the lines of a list; in the form *shared*, an object begins where one has ended."""
    if form != "shared":
        text = json.dumps(found, indent=form, ensure_ascii=ascii_only)
    else:
        parts = (json.dumps(each, indent=1, ensure_ascii=ascii_only) for each in found)
        text = f"[{', '.join(parts)}]"
    return [f"{line}\n" for line in text.split("\n")]


@given(
    st.lists(st.dictionaries(st.text(), values), max_size=5),
    st.sampled_from([None, 0, 1, "shared"]),
    st.booleans(),
)
def test_objects_are_those_of_the_whole_text(
    given_objects: list[dict[str, Any]], form: int | str | None, ascii_only: bool
) -> None:
    lines = lines_of(given_objects, form, ascii_only)
    found = list(_json_list.objects_of(lines, "log"))
    assert [each for _line, each in found] == json.loads("".join(lines))
    numbers = [line for line, _each in found]
    assert numbers == sorted(numbers)
    if form != "shared":
        assert all(lines[number - 1].lstrip().startswith(("{", "[")) for number in numbers)


def test_object_is_read_before_the_next_line_is() -> None:
    lines = iter(["[\n", "{},\n", "{},\n", "{}\n", "]\n"])
    next(_json_list.objects_of(lines, "log"))
    assert len(list(lines)) == 3


def test_length_of_an_object_is_bounded_and_not_that_of_the_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_json_list, "LONGEST", 100)
    lines = lines_of([{"a": n, "b": n} for n in range(50)], "shared", ascii_only=True)
    assert [each["a"] for _line, each in _json_list.objects_of(lines, "log")] == list(range(50))
    with pytest.raises(TraceError, match="line 2: expected an object of at most 100 characters"):
        objects('[\n{"a": [\n' + "1,\n" * 50 + "1]}]")


# The whole --------------------------------------------------------------------------------------


def test_log_on_one_line_is_the_same_trace() -> None:
    log = [job(f"j{n}", f"00:00:{n:02}", attempt("01:00:00", "02:00:00", n)) for n in range(1, 9)]
    assert pods(opened(*log, indent=None)) == pods(opened(*log, indent=2))


def test_jobs_of_a_log_start_whole_in_a_simulation() -> None:
    log = [job(f"j{n}", "00:00:00", attempt("01:00:00", "01:01:00", 3)) for n in range(3)]
    nodes = Workload([Arrival(0.0, NodeAdded(node)) for node in parse_nodes_shape("2x2")])
    lines = json.dumps(log).splitlines()
    simulator = Simulator(nodes + load_trace(lines, file="log"), presets.gang)
    simulator.run()
    assert report(simulator).summary.gangs.started_whole == 3
    assert sorted(row.finished_at or 0 for row in report(simulator).jobs) == [60, 120, 180]


def test_command_recognises_a_log(tmp_path: Path) -> None:
    log = tmp_path / "cluster_job_log"
    log.write_text(json.dumps([job("a", "00:00:00", attempt("01:00:00", "02:00:00", 2))], indent=1))
    text = printed_by("simulate", "--trace", str(log), "--nodes", "1x2", "--detail", "summary")
    assert "1 started whole" in text
    assert "a worker has one GPU" in text


# The machines -----------------------------------------------------------------------------------


def machines(*rows: str) -> list[tuple[str, int, str]]:
    header = "machineId, number of GPUs, single GPU mem"
    nodes = load_nodes([f"{row}\n" for row in (header, *rows)], file="machines")
    return [
        (node.name, node.allocatable["nvidia.com/gpu"], node.labels["nvidia.com/gpu.memory"])
        for node in nodes
    ]


def test_machine_list_becomes_nodes() -> None:
    assert machines("m31,8, 24GB", "m4,2,12GB") == [("m31", 8000, "24576"), ("m4", 2000, "12288")]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("m1, many, 24GB", "line 2:  number of GPUs: expected a whole number of GPUs, got ' many'"),
        ("m1,8, big", "line 2:  single GPU mem: expected a size such as 24GB, got ' big'"),
        (",8, 24GB", "line 2: machineId: expected a non-empty string, got ''"),
        ("m1,8,24GB\nm1,8,24GB", "line 3: machineId: expected a unique name, got 'm1' again"),
    ],
)
def test_bad_cell_of_the_machine_list_is_named(row: str, problem: str) -> None:
    with pytest.raises(TraceError) as caught:
        machines(*row.split("\n"))
    assert str(caught.value).startswith(f"machines: {problem}")
