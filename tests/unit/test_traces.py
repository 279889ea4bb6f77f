"""Traces: rows to pods, and every way in which a row can be wrong."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.errors import InvalidValueError, TraceError
from gangsched.events import PodAdded
from gangsched.membership import membership
from gangsched.model import Pod, Resources, group_key
from gangsched.simulation.traces import COLUMNS, load_trace, parse_nodes_shape
from gangsched.simulation.workload import Workload, run_seconds

HEADER = "job,vc,submit_s,workers,gpus_per_worker,duration_s\n"


def _load(*rows: str, header: str = HEADER) -> Workload:
    return load_trace([header, *(f"{row}\n" for row in rows)], file="t.csv")


def _pods(workload: Workload) -> list[Pod]:
    return [
        arrival.event.pod for arrival in workload.arrivals if isinstance(arrival.event, PodAdded)
    ]


def test_job_of_several_workers_is_a_gang_of_all_of_them() -> None:
    workload = _load("j,v,7,3,2,60.5")

    pods = _pods(workload)
    assert [pod.name for pod in pods] == ["j-0", "j-1", "j-2"]
    assert {arrival.at for arrival in workload.arrivals} == {7.0}
    for pod in pods:
        claim = membership(pod)
        assert claim is not None
        assert (claim.group, claim.min_available) == (group_key("v", "j"), 3)
        assert pod.requests == Resources({"nvidia.com/gpu": 2})
        assert pod.created_at == 7.0
        assert run_seconds(pod) == 60.5
        assert f"v/{pod.name}" == pod.uid


def test_job_of_one_worker_is_a_regular_pod() -> None:
    (pod,) = _pods(_load("j,v,0,1,1,60"))

    assert pod.name == "j-0"
    assert membership(pod) is None
    assert len(pod.labels) == 0


def test_worker_may_request_no_gpu() -> None:
    (pod,) = _pods(_load("j,v,0,1,0,60"))

    assert pod.requests == Resources()


def test_pods_of_a_job_share_what_they_have_in_common() -> None:
    one, two, other = _pods(_load("j,v,0,2,1,60", "k,v,0,1,1,60"))

    assert one.labels is two.labels
    assert one.annotations is two.annotations
    assert one.requests is two.requests
    assert one.requests is other.requests


def test_columns_may_come_in_any_order_and_rows_at_any_time() -> None:
    workload = _load(
        "60,1,4,x,late,9",
        "60,1,1,x,early,2.5",
        header="duration_s,gpus_per_worker,workers,note,job,submit_s\n",
    )

    assert [pod.name for pod in _pods(workload)] == ["early-0", *(f"late-{n}" for n in range(4))]
    assert [arrival.at for arrival in workload.arrivals] == [2.5, 9.0, 9.0, 9.0, 9.0]


def test_jobs_of_one_instant_stay_in_the_order_of_their_lines() -> None:
    pods = _pods(_load("b,v,5,1,1,60", "a,v,5,1,1,60", "c,v,1,1,1,60"))

    assert [pod.name for pod in pods] == ["c-0", "b-0", "a-0"]


def test_quotes_blank_lines_and_a_byte_order_mark_are_no_obstacle() -> None:
    workload = _load('"j,1","v ""x""",0,1,1,60', "", '"k\nk",v,0,1,1,60', header="\ufeff" + HEADER)

    assert [pod.name for pod in _pods(workload)] == ["j,1-0", "k\nk-0"]


def test_trace_without_jobs_is_an_empty_workload() -> None:
    assert _load() == Workload()


@pytest.mark.parametrize("lines", [[], ["\n", "\n"]])
def test_trace_without_a_header_is_refused(lines: list[str]) -> None:
    with pytest.raises(TraceError, match=re.escape("t.csv: line 1: expected a header with job,")):
        load_trace(lines, file="t.csv")


@pytest.mark.parametrize("column", COLUMNS)
def test_missing_column_is_named(column: str) -> None:
    header = ",".join(name for name in COLUMNS if name != column)
    with pytest.raises(TraceError, match="is missing") as caught:
        _load(header=header)

    assert (1, column) == (caught.value.line, caught.value.column)


def test_column_that_is_given_twice_is_refused() -> None:
    with pytest.raises(TraceError, match="line 1: job: the column is given twice"):
        _load(header="job,job,submit_s,workers,gpus_per_worker,duration_s")


BAD_VALUES = [
    *(("job", value) for value in ("", " ")),
    *(("submit_s", value) for value in ("", "-1", "nan", "inf", "1e3", "x", " 1", "9" * 400)),
    *(("workers", value) for value in ("", "0", "-1", "1.5", "1e1", "x", "+1", "150001", "\u0661")),
    *(("gpus_per_worker", value) for value in ("-1", "1e1", "1000000000", "x", "9" * 5000)),
    *(("duration_s", value) for value in ("", "0", "-1", "nan", "inf", "x", "9" * 400)),
]


@pytest.mark.parametrize(
    ("column", "value"), BAD_VALUES, ids=[f"{c}={v[:9]!r}" for c, v in BAD_VALUES]
)
def test_bad_value_is_named_with_its_line_and_column(column: str, value: str) -> None:
    row = {"job": "k", "submit_s": "0", "workers": "2", "gpus_per_worker": "1", "duration_s": "60"}
    row[column] = value
    lines = [",".join(COLUMNS), "j,0,1,1,60", "", ",".join(row[name] for name in COLUMNS)]

    with pytest.raises(TraceError) as caught:
        load_trace(lines, file="t.csv")

    error = caught.value
    assert (error.file, error.line, error.column) == ("t.csv", 4, column)
    assert repr(value)[:50] in error.problem
    assert len(str(error)) < 200


def test_numbers_of_workers_and_gpus_are_bounded() -> None:
    pods = _pods(_load("j,v,0,1,999999999,60"))
    assert pods[0].requests == Resources({"nvidia.com/gpu": 999_999_999})

    with pytest.raises(TraceError, match="workers: expected an int from 1 to 150000"):
        _load("j,v,0,999999999,1,60")


def test_job_that_is_given_twice_is_refused_with_both_lines() -> None:
    with pytest.raises(TraceError, match=re.escape("line 4: job: expected a unique name (line 2")):
        _load("j,v,0,1,1,60", "k,v,0,1,1,60", "j,v,9,1,1,60")


@pytest.mark.parametrize(("row", "count"), [("j,v,0,1,1", 5), ("j,v,0,1,1,60,", 7), (" ", 1)])
def test_too_few_or_too_many_fields_are_refused(row: str, count: int) -> None:
    with pytest.raises(TraceError, match=f"line 2: expected 6 fields, got {count}"):
        _load(row)


@pytest.mark.parametrize("row", ['j,"v,0,1,1,60', 'j,"v"x,0,1,1,60'])
def test_broken_quotes_are_refused(row: str) -> None:
    with pytest.raises(TraceError, match="line 2: not CSV"):
        _load(row)


@given(st.lists(st.text(max_size=30), max_size=5), st.booleans())
def test_no_text_raises_anything_but_the_documented_error(lines: list[str], header: bool) -> None:
    with contextlib.suppress(TraceError):
        load_trace([HEADER, *lines] if header else lines, file="t.csv")


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(1, 4), st.integers(0, 8), st.integers(1, 99)),
        max_size=6,
    )
)
def test_every_worker_of_every_job_arrives_once(jobs: list[tuple[int, int, int, int]]) -> None:
    rows = [f"j{n},v,{at},{w},{g},{d}" for n, (at, w, g, d) in enumerate(jobs)]
    workload = _load(*rows)

    expected = {f"j{n}-{i}": job for n, job in enumerate(jobs) for i in range(job[1])}
    assert Counter(expected) == Counter({pod.name: expected[pod.name] for pod in _pods(workload)})
    assert len(expected) == len(workload.arrivals)
    for pod in _pods(workload):
        at, _, gpus, duration = expected[pod.name]
        assert (at, duration) == (pod.created_at, run_seconds(pod))
        assert gpus * 1000 == pod.requests.amount("nvidia.com/gpu")


@pytest.mark.parametrize(
    ("text", "count", "gpus", "first", "last"),
    [
        ("40x8", 40, 8, "node-000", "node-039"),
        ("1x1", 1, 1, "node-000", "node-000"),
        ("1000x4", 1000, 4, "node-000", "node-999"),
        ("1001x4", 1001, 4, "node-0000", "node-1000"),
    ],
)
def test_shape_gives_nodes_and_their_gpus(
    text: str, count: int, gpus: int, first: str, last: str
) -> None:
    nodes = parse_nodes_shape(text)

    assert count == len({node.name for node in nodes})
    assert (first, last) == (nodes[0].name, nodes[-1].name)
    assert {Resources({"nvidia.com/gpu": gpus})} == {node.allocatable for node in nodes}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "40",
        "40x",
        "x8",
        "40X8",
        "40x8 ",
        "40x8x2",
        "-1x8",
        "0x8",
        "40x0",
        "1.5x8",
        "\u0664x8",
        "999999999x1",
        pytest.param("9" * 5000 + "x1", id="too many digits"),
    ],
)
def test_malformed_shape_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError, match="such as 40x8"):
        parse_nodes_shape(text)


def test_whole_philly_trace_loads_in_order(traces: Path) -> None:
    path = traces / "philly_gangs.csv"
    if not path.exists():
        pytest.skip(f"the Philly trace is not at {path}")
    with path.open(encoding="utf-8", newline="") as lines:
        workload = load_trace(lines, file=path.name)

    pods = _pods(workload)
    jobs = Counter(pod.name.rpartition("-")[0] for pod in pods)
    assert len(pods) == 42_192
    assert len(jobs) == 15_264
    assert max(jobs.values()) == 64
    assert all(
        (membership(pod) is None) == (jobs[pod.name.rpartition("-")[0]] == 1) for pod in pods
    )
    instants = [arrival.at for arrival in workload.arrivals]
    assert sorted(instants) == instants


def test_trace_has_a_bound_on_its_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gangsched.simulation.traces.MOST_OBJECTS", 5)
    assert len(_load("a,v,0,3,1,1", "b,v,0,2,1,1").arrivals) == 5
    with pytest.raises(TraceError) as caught:
        _load("a,v,0,3,1,1", "b,v,0,2,1,1", "c,v,0,1,1,1")
    assert str(caught.value) == ("t.csv: line 4: workers: with it the file has more than 5 pods")


def test_cell_keeps_its_line_break(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(f'{HEADER}"a\nb",v,0,1,1,1\n'.encode())
    with path.open(encoding="utf-8", newline="") as file:
        (pod,) = _pods(load_trace(file, file="t.csv"))
    assert pod.name == "a\nb-0"
