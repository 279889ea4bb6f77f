"""Traces: rows to pods, every way in which a row can be wrong, and rows that do not count."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    InvalidValueError,
    NodeAdded,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    Resources,
    RestartPolicy,
    Topology,
    presets,
)
from gangsched.constraints import NodeSelectorRequirement, NodeSelectorTerm
from gangsched.errors import TraceError
from gangsched.events import Event, PodDeleted, PodGroupDeleted
from gangsched.membership import membership
from gangsched.model import group_key
from gangsched.simulation import (
    RUN_SECONDS,
    TIME_LIMIT,
    Arrival,
    Simulator,
    Trace,
    Workload,
    load_nodes,
    load_trace,
    open_trace,
    parse_nodes_shape,
    report,
)
from gangsched.simulation.traces import COLUMNS
from gangsched.simulation.workload import run_seconds
from support.documents import ROOT, printed_by, refuses

TRACES = ROOT.parent / "shared" / "traces"
HEADER = "job,vc,submit_s,workers,gpus_per_worker,duration_s\n"
JOBS = "job,submit_s,workers,gpus_per_worker,duration_s"
MORE = "cpu_per_worker,memory_per_worker,priority,tenant,time_limit_s"
OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,"
    "creation_time,deletion_time,scheduled_time\n"
)
DLRM = "instance,app,role,cpu,gpu,memory_gib,created_s,deleted_s\n"


def _load(*rows: str, header: str = HEADER) -> Workload:
    return load_trace([f"{header.rstrip()}\n", *(f"{row}\n" for row in rows)], file="t.csv")


def _pods(workload: Workload | Trace | Iterable[Arrival]) -> list[Pod]:
    arrivals: Any = workload
    if isinstance(workload, Workload):
        arrivals = workload.arrivals
    elif isinstance(workload, Trace):
        arrivals = workload.arrivals()
    return [each.event.pod for each in arrivals if isinstance(each.event, PodAdded)]


def _names(workload: Workload | Trace) -> list[str]:
    return [pod.name for pod in _pods(workload)]


def jobs(*rows: str, more: str) -> list[Pod]:
    return _pods(_load(*rows, header=f"{JOBS},{more}"))


def opened(*lines: str, own_nodes: bool = False) -> Trace:
    return open_trace(lambda: lines, file="t", own_nodes=own_nodes)


# Jobs -------------------------------------------------------------------------------------------


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
        assert (pod.created_at, run_seconds(pod), pod.uid) == (7.0, 60.5, f"v/{pod.name}")


def test_job_of_one_worker_is_a_regular_pod_and_may_request_no_gpu() -> None:
    one, none = _pods(_load("j,v,0,1,1,60", "k,v,0,1,0,60"))
    assert (one.name, membership(one), len(one.labels)) == ("j-0", None, 0)
    assert none.requests == Resources()


def test_pods_of_a_job_share_what_they_have_in_common() -> None:
    one, two, other = _pods(_load("j,v,0,2,1,60", "k,v,0,1,1,60"))
    assert one.labels is two.labels
    assert one.annotations is two.annotations
    assert one.requests is two.requests
    assert one.requests is other.requests


def test_columns_may_come_in_any_order_and_rows_at_any_time() -> None:
    header = "duration_s,gpus_per_worker,workers,note,job,submit_s"
    workload = _load("60,1,4,x,late,9", "60,1,1,x,early,2.5", "60,1,1,x,also,2.5", header=header)
    assert _names(workload) == ["early-0", "also-0", *(f"late-{n}" for n in range(4))]
    assert [arrival.at for arrival in workload.arrivals] == [2.5, 2.5, 9.0, 9.0, 9.0, 9.0]
    assert workload.skipped == ("t.csv: the column note was not taken over",)


def test_quotes_blank_lines_line_breaks_and_a_byte_order_mark_are_no_obstacle() -> None:
    workload = _load('"j,1","v ""x""",0,1,1,60', "", '"k\nk",v,0,1,1,60', header="\ufeff" + HEADER)
    assert _names(workload) == ["j,1-0", "k\nk-0"]
    assert _load() == Workload()


@pytest.mark.parametrize("separator", [";", "\t"])
def test_cells_may_be_separated_by_semicolons_or_tabs(separator: str, tmp_path: Path) -> None:
    rows = ("a,0,4,1,100", "b,10,1,0.5,1h30m")
    lines = [f"{row}\n".replace(",", separator) for row in (JOBS, *rows)]
    assert load_trace(["\n", *lines], file="t.csv") == _load(*rows, header=JOBS)
    nodes = ("node,gpus,label:rack", "n,4,r")
    split = [row.replace(",", separator) for row in nodes]
    assert load_nodes(split, file="n") == load_nodes(nodes, file="n")
    with pytest.raises(TraceError, match=r"^t: line 2: workers: .* got 'x,y'$"):
        load_trace([lines[0], separator.join(("a", "0", "x,y", "1", "9"))], file="t")


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("0", "2026-11-02", "seconds since the trace began as in line 2, which has '0', got '20"),
        ("10", "1700000000", "seconds since the trace began as in line 2, which has '10', got '17"),
        ("1700000000", "10", "a date or seconds since 1970 as in line 2, which has '1700000000'"),
        ("2026-11-02", "90", "a date or seconds since 1970 as in line 2, which has '2026-11-02'"),
        ("2024-01-01", "1704067210000", "a date or seconds since 1970 as in line 2, which has"),
        ("1704067210000", "90", "a number >= 100000000000 as in line 2, which has '1704067210000'"),
    ],
)
def test_instants_of_two_clocks_are_refused_with_both_lines(
    first: str, second: str, said: str
) -> None:
    rows = [f"job{n},{at},1,1,9" for n, at in enumerate((first, second, second, first))]
    with pytest.raises(TraceError, match=re.escape(f"line 3: submit_s: expected {said}")) as error:
        _load(*rows, header=JOBS)
    assert "line 4: submit_s: " in str(error.value)


def test_instants_of_one_clock_are_accepted() -> None:
    """A trace may be long, and ISO dates may stand beside seconds since 1970."""
    for instants in ("10 1e7 1e8 9e8", "1e8 1.7e9", "1.7e12 1.8e12"):
        rows = [f"job{n},{float(at):.0f},1,1,9" for n, at in enumerate(instants.split())]
        assert len(_pods(_load(*rows, header=JOBS))) == len(rows)
    epoch = str(int(1.8e9))
    assert len(_pods(_load(f"a,{epoch},1,1,9", "b,2026-11-02,1,1,9", header=JOBS))) == 2


def test_further_columns_of_a_job_are_read() -> None:
    full, empty = jobs("j,0,1,2,60,500m,4Gi,-7,blue,90.5", "k,0,1,0,60,,,,a,", more=MORE)
    assert full.requests == Resources({"nvidia.com/gpu": 2, "cpu": "500m", "memory": "4Gi"})
    assert (full.priority, full.namespace) == (-7, "blue")
    assert (full.annotations[RUN_SECONDS], full.annotations[TIME_LIMIT]) == ("60", "90.5")
    assert (empty.requests, empty.priority) == (Resources(), 0)
    assert TIME_LIMIT not in empty.annotations


IN_RACKS = f"{JOBS},topology,prefer,slices,apart,exclusive\n"


def groups(workload: Workload | Trace) -> dict[str, PodGroup]:
    arrivals = workload.arrivals() if isinstance(workload, Trace) else workload.arrivals
    events = (each.event for each in arrivals)
    return {e.group.key: e.group for e in events if isinstance(e, PodGroupAdded)}


@pytest.mark.parametrize(
    ("cells", "meant"),
    [
        ("rack,,,,", Topology("rack")),
        (",rack,,,", Topology("rack", required=False)),
        ("block,rack,,,", Topology("block", prefer="rack")),
        ("block,,rack:8|host:4,,", Topology("block", slices={"rack": 8, "host": 4})),
        (",,rack:8,rack,", Topology(slices={"rack": 8}, apart="rack")),
        (",,,,block", Topology(exclusive="block")),
        ("none,nan,,,", None),
    ],
)
def test_columns_state_the_topology_of_a_gang(cells: str, meant: Topology | None) -> None:
    work = _load(f"a,5,4,1,9,{cells}", f"b,5,1,1,9,{cells}", header=IN_RACKS)
    found = groups(work)
    assert {key: group.topology for key, group in found.items()} == (
        {"default/a": meant} if meant else {}  # a job of one worker is no gang
    )
    for group in found.values():
        assert (group.min_available, group.created_at, group.restart) == (4, 5.0, None)
    pods = _pods(work)
    assert [member.group for pod in pods if (member := membership(pod))] == ["default/a"] * 4


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ("rack,rack,,,", "prefer: expected a finer level than rack, or None, got 'rack'"),
        (",,rack,,", "slices: expected LABEL:SIZE such as rack:16"),
        (",,rack:4|rack:2,,", "slices: expected LABEL:SIZE such as rack:16"),
        (",,rack:4|host:3,,", "slices: expected a size that divides 4"),
    ],
)
def test_malformed_topology_of_a_row_is_named(cells: str, said: str) -> None:
    with pytest.raises(TraceError, match=re.escape(said)):
        _load(f"a,5,4,1,9,{cells}", header=IN_RACKS)


def test_gangs_that_state_no_topology_get_that_of_the_caller() -> None:
    lines = [IN_RACKS, "a,0,2,1,9,,,,,\n", "b,0,2,1,9,rack,,,,\n", "c,0,1,1,9,,,,,\n"]
    work = load_trace(lines, file="t.csv", topology=Topology("block"), restarts=True)
    assert {key: group.topology for key, group in groups(work).items()} == {
        "default/a": Topology("block"),
        "default/b": Topology("rack"),
    }
    assert {group.restart for group in groups(work).values()} == {RestartPolicy()}
    # what a caller without a type checker passes
    with pytest.raises(InvalidValueError, match="topology must be a Topology or None, got 'rack'"):
        load_trace(lines, file="t.csv", topology="rack")  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="restarts must be a bool"):
        load_trace(lines, file="t.csv", restarts=1)  # type: ignore[arg-type]


class Ended:
    """Observes which objects are deleted."""

    def __init__(self) -> None:
        self.kinds: list[type[object]] = []

    def event(self, event: Event, now: float) -> None:
        if isinstance(event, PodDeleted | PodGroupDeleted):
            self.kinds.append(type(event))

    def effects(self, effects: tuple[object, ...], now: float) -> None:
        """Do nothing."""

    def settled(self, now: float) -> None:
        """Do nothing."""


def test_group_of_a_job_that_is_over_is_deleted_with_its_pods() -> None:
    lines = [f"{JOBS}\n", "a,0,2,1,9\n", "b,5,2,1,20\n"]
    work = load_trace(lines, file="t.csv", topology=Topology("zone", required=False))
    nodes = [Arrival(0.0, NodeAdded(node)) for node in parse_nodes_shape("1x4")]
    ended = Ended()
    simulator = Simulator(
        [*nodes, *work.arrivals], presets.gang, delete_finished=True, observers=[ended]
    )
    simulator.run(until=10.0)
    assert ended.kinds == [PodDeleted, PodDeleted, PodGroupDeleted]
    assert [group.key for group in simulator.cluster.pod_groups()] == ["default/b"]
    simulator.run()
    assert list(simulator.cluster.pod_groups()) == []
    rows = report(simulator).jobs
    assert [(row.key, row.quorum, row.finished_at) for row in rows] == [
        ("default/a", 2, 9.0),
        ("default/b", 2, 25.0),
    ]


def test_jobs_that_their_time_limits_end_are_counted() -> None:
    rows = ("j,0,1,0,60,30", "k,0,1,0,60,60", "l,0,1,0,60,", "m,0,1,0,9.5,9")
    workload = _load(*rows, header=f"{JOBS},time_limit_s")
    assert _pods(workload)[0].annotations[RUN_SECONDS] == "30"
    said = "t.csv: 2 jobs are ended by their time limits, and count as finished"
    assert workload.skipped == (said,)


def product(*models: str) -> tuple[NodeSelectorTerm, ...]:
    requirement = NodeSelectorRequirement("nvidia.com/gpu.product", "In", models)
    return (NodeSelectorTerm((requirement,)),)


def test_model_of_the_gpus_of_a_job_is_a_term_of_node_affinity() -> None:
    one, two, none = jobs("a,0,1,1,9,A100", "b,0,1,1,9,A100|H100", "c,0,1,1,9,", more="gpu_model")
    assert one.affinity == product("A100")
    assert two.affinity == product("A100", "H100")
    assert none.affinity == ()


BAD_VALUES = [
    *(("job", value) for value in ("", " ")),
    *(("submit_s", value) for value in ("", "-1", "nan", "1e3", "x", " 1", "9" * 400)),
    *(("workers", value) for value in ("", "0", "1.5", "x", "+1", "150001", "\u0661")),
    *(("gpus_per_worker", value) for value in ("-1", "1e1", "1000000000", "9" * 5000)),
    *(("duration_s", value) for value in ("", "0", "-1", "inf", "9" * 400)),
    *(("cpu_per_worker", value) for value in ("two", "-1")),
    ("memory_per_worker", "4 GB"),
    ("priority", "high"),
    ("tenant", "a/b"),
    ("time_limit_s", "0"),
    *(("gpu_model", value) for value in ("A100|", " ")),
]


@pytest.mark.parametrize(
    ("column", "value"), BAD_VALUES, ids=[f"{c}={v[:9]!r}" for c, v in BAD_VALUES]
)
def test_bad_value_is_named_with_its_line_and_column(column: str, value: str) -> None:
    row = {"job": "k", "submit_s": "0", "workers": "2", "gpus_per_worker": "1", "duration_s": "60"}
    header = ",".join(row if column in row else (*row, column))
    row[column] = value
    good = ["j,0,1,1,60" + "," * (len(row) - 5), "", ",".join(row.values())]
    with pytest.raises(TraceError) as caught:
        _load(*good, header=header)
    error = caught.value
    assert (error.file, error.line, error.column) == ("t.csv", 4, column)
    assert repr(value)[:50] in error.problem
    assert len(str(error)) < 200


@pytest.mark.parametrize(
    ("header", "rows", "said"),
    [
        ("", (), "line 1: expected a header with job,"),
        *((",".join(c for c in COLUMNS if c != name), (), f"{name}: ") for name in COLUMNS),
        ("job,submit_s,workers", (), "the columns gpus_per_worker, duration_s are missing"),
        (f"job,{JOBS}", (), "line 1: job: the column is given twice"),
        (f"{JOBS},tenant,vc", (), "line 1: tenant: expected tenant or vc, got both"),
        (HEADER, ("j,v,0,1,1,60", "k,v,0,1,1,60", "j,v,9,1,1,60"), "line 4: job: expected a uniq"),
        (HEADER, ("j,v,0,1,1",), "line 2: expected 6 fields, got 5"),
        (HEADER, ("j,v,0,1,1,60,",), "line 2: expected 6 fields, got 7"),
        (HEADER, ('j,"v,0,1,1,60',), "line 2: not CSV"),
        (HEADER, ('j,"v"x,0,1,1,60',), "line 2: not CSV"),
    ],
)
def test_malformed_table_is_refused(header: str, rows: tuple[str, ...], said: str) -> None:
    with pytest.raises(TraceError, match=re.escape(said)):
        _load(*rows, header=header)


def test_tenants_may_have_jobs_of_one_name() -> None:
    found = jobs("j,0,1,1,60,a", "j,0,1,1,60,b", more="tenant")
    assert [pod.uid for pod in found] == ["a/j-0", "b/j-0"]


def test_trace_has_a_bound_on_its_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gangsched.simulation.traces.MOST_OBJECTS", 5)
    assert len(_load("a,v,0,3,1,1", "b,v,0,2,1,1").arrivals) == 5
    with pytest.raises(TraceError) as caught:
        _load("a,v,0,3,1,1", "b,v,0,2,1,1", "c,v,0,1,1,1")
    assert str(caught.value) == "t.csv: line 4: workers: with it the file has more than 5 pods"


@given(st.lists(st.text(max_size=30), max_size=5), st.booleans())
def test_no_text_raises_anything_but_the_documented_error(lines: list[str], header: bool) -> None:
    with contextlib.suppress(TraceError):
        load_trace([HEADER, *lines] if header else lines, file="t.csv")


def test_whole_philly_trace_loads_in_order(traces: Path) -> None:
    path = traces / "philly_gangs.csv"
    if not path.exists():
        pytest.skip(f"the Philly trace is not at {path}")
    with path.open(encoding="utf-8", newline="") as lines:
        workload = load_trace(lines, file=path.name)
    pods = _pods(workload)
    sizes = Counter(pod.name.rpartition("-")[0] for pod in pods)
    assert (len(pods), len(sizes), max(sizes.values())) == (42_192, 15_264, 64)
    assert all(
        (membership(pod) is None) == (sizes[pod.name.rpartition("-")[0]] == 1) for pod in pods
    )
    instants = [arrival.at for arrival in workload.arrivals]
    assert sorted(instants) == instants


# Streams ----------------------------------------------------------------------------------------


def nodes(shape: str) -> list[Arrival]:
    return [Arrival(0.0, NodeAdded(node)) for node in parse_nodes_shape(shape)]


def test_trace_makes_no_pod_before_its_arrival() -> None:
    trace = opened(f"{JOBS}\n", *(f"j{n},{n},1,1,1\n" for n in range(300)))
    assert trace.pods == 300

    def arrivals() -> Iterator[Arrival]:
        yield from nodes("1x1")
        yield from trace.arrivals()

    simulator = Simulator(arrivals(), presets.gang, delete_finished=True)
    most = 0
    while simulator.step() is not None:
        most = max(most, len(list(simulator.cluster.pods())))
    assert most <= 2
    result = report(simulator)
    assert (len(simulator.jobs), len(result.jobs)) == (0, 300)
    assert result.summary.singles.finished == 300


def test_stream_that_is_not_in_time_order_is_refused() -> None:
    first, _second = nodes("2x1")
    simulator = Simulator(iter([evolve(first, at=9.0), evolve(first, at=2.0)]), presets.gang)
    with pytest.raises(InvalidValueError, match="not before 9"):
        simulator.run()


ROWS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 4), st.integers(0, 3), st.integers(1, 30)),
    max_size=8,
)


@given(ROWS, st.sampled_from([presets.gang, presets.coscheduling, presets.pod_by_pod]))
def test_stream_and_workload_give_the_same_jobs(
    rows: list[tuple[int, int, int, int]], preset: Any
) -> None:
    """A stream, with finished pods deleted, differs from a workload in no figure of a job."""
    lines = [f"{JOBS}\n"]
    lines += [f"j{n},{at},{w},{g},{d}\n" for n, (at, w, g, d) in enumerate(rows)]
    kept = Simulator(Workload(nodes("2x3")) + load_trace(lines, file="t.csv"), preset)
    streamed = Simulator([*nodes("2x3"), *opened(*lines).arrivals()], preset, delete_finished=True)
    reports = []
    for each in (streamed, kept):
        each.run(until=1000.0)
        each.jobs._check()
        found = report(each)
        reports.append(
            (
                found.summary,
                found.pending,
                [evolve(job, members=0, quorum=None) for job in found.jobs],
            )
        )
    assert reports[0] == reports[1]


# Nodes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "count", "gpus", "first", "last"),
    [
        ("40x8", 40, 8, "node-000", "node-039"),
        ("1000x4", 1000, 4, "node-000", "node-999"),
        ("1001x4", 1001, 4, "node-0000", "node-1000"),
    ],
)
def test_shape_gives_nodes_and_their_gpus(
    text: str, count: int, gpus: int, first: str, last: str
) -> None:
    found = parse_nodes_shape(text)
    assert count == len({node.name for node in found})
    assert (first, last) == (found[0].name, found[-1].name)
    assert {Resources({"nvidia.com/gpu": gpus})} == {node.allocatable for node in found}


MALFORMED = (
    *("", "x", "40", "40x", "x8", "40X8", "40x8 ", "40x8x2", "-1x8", "0x8", "40x0", "1.5x8"),
    *("\u0664x8", "999999999x1", "9" * 5000 + "x1"),
)


@pytest.mark.parametrize("text", MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_shape_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError, match="such as 40x8"):
        parse_nodes_shape(text)


def test_nodes_are_read_from_a_csv() -> None:
    lines = ["node,cpu,memory,gpus,model,label:zone,resource:x/nic,count\n"]
    lines += ["a,8,64Gi,4,A100,east,2,2\n", "b,500m,,,,,,1\n"]
    one, two, other = load_nodes(lines, file="n.csv")
    assert [node.name for node in (one, two, other)] == ["a-000", "a-001", "b-000"]
    offered: dict[str, str | int] = {"cpu": 8, "memory": "64Gi", "nvidia.com/gpu": 4, "x/nic": 2}
    assert one.allocatable == two.allocatable == Resources(offered)
    assert dict(one.labels) == {"zone": "east", "nvidia.com/gpu.product": "A100"}
    assert (other.allocatable, dict(other.labels)) == (Resources({"cpu": "500m"}), {})


@pytest.mark.parametrize(
    ("header", "row", "problem"),
    [
        ("cpu", "1", "line 1: node: expected one of the columns node, name, sn"),
        ("node,name", "a,b", "line 1: node: expected one of the columns"),
        ("node,colour", "a,red", "line 1: colour: expected one of cpu"),
        ("node,cpu,cpu_milli", "a,1,1", "line 1: cpu: expected cpu or cpu_milli, got both"),
        ("node,cpu", "a,much", "line 2: cpu: expected a quantity"),
        ("node,gpu", "a,-1", "line 2: gpu: expected an int"),
        ("node,count", "a,0", "line 2: count: expected an int from 1"),
        ("node,cpu", "a,1\na,2", "line 3: node: expected a unique name, got 'a' again"),
    ],
)
def test_malformed_table_of_nodes_is_refused(header: str, row: str, problem: str) -> None:
    with pytest.raises(TraceError, match=problem):
        load_nodes([f"{header}\n", *(f"{line}\n" for line in row.split("\n"))], file="n.csv")


# Alibaba's pods (openb) ---------------------------------------------------------------------------


def test_openb_pod_requests_its_share_and_its_models() -> None:
    header = OPENB.replace("gpu_spec,", "gpu_spec,qos,pod_phase,")
    waited = "q,1,1,0,0,,BE,Pending,5,7.5,\n"
    trace = opened(header, "p,12000,16384,1,460,V100M16|V100M32,LS,Running,5,100,10\n", waited)
    pod, never_scheduled = _pods(trace)
    assert pod.requests == Resources({"cpu": 12, "memory": "16Gi", "nvidia.com/gpu": "460m"})
    assert pod.affinity == product("V100M16", "V100M32")
    assert (pod.created_at, pod.annotations[RUN_SECONDS]) == (5.0, "90")
    assert (never_scheduled.annotations[RUN_SECONDS], never_scheduled.affinity) == ("2.5", ())
    assert any("shares of a GPU" in sentence for sentence in trace.skipped)
    assert any("qos, pod_phase" in sentence for sentence in trace.skipped)


NEVER = "t: 2 pods were never scheduled, and run for as long as they waited"
AT_ONCE = "t: 2 pods were deleted at the instant at which they started, and run for 1 s"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (("5,9,", "5,8,", "5,9,6"), NEVER),
        (("5,5,", "5,9,"), NEVER),
        (("5,9,9", "5,9,9", "5,9,6"), AT_ONCE),
    ],
)
def test_openb_pods_whose_times_say_little_are_counted(rows: tuple[str, ...], said: str) -> None:
    trace = opened(OPENB, *(f"p{n},1,1,0,0,,{row}\n" for n, row in enumerate(rows)))
    assert trace.pods == len(rows)
    assert [s for s in trace.skipped if "never" in s or "at the instant" in s] == [said]


def test_openb_runs_as_one_command(tmp_path: Path) -> None:
    if not TRACES.exists():
        pytest.skip(f"the real traces are not in {TRACES}")
    head = (TRACES / "openb_pods.csv").read_text().splitlines(keepends=True)[:101]
    (tmp_path / "p.csv").write_text("".join(head))
    words = ("--trace", str(tmp_path / "p.csv"), "--nodes", str(TRACES / "openb_nodes.csv"))
    text = printed_by("simulate", *words, "--detail", "summary")
    assert "single pods           100 submitted, 100 started whole" in text


# Alibaba's recommendation models ------------------------------------------------------------------


def test_dlrm_app_has_the_topology_of_the_caller() -> None:
    lines = [DLRM, "c,a,CN,64,0,1.5,,\n"]
    work = load_trace(lines, file="t.csv", topology=Topology("rack"), restarts=True)
    (group,) = groups(work).values()
    assert (group.topology, group.restart) == (Topology("rack"), RestartPolicy())


def test_dlrm_app_is_a_group_whose_first_instances_are_its_minimum() -> None:
    header = DLRM.replace("memory_gib,", "memory_gib,max_per_node,")
    rows = ["c,a,CN,64,0,1.5,-1,,\n", "h,a,HN,8,1,2,-1,,50\n", "late,a,CN,64,0,1.5,-1,30,40\n"]
    arrivals = list(opened(header, *rows).arrivals())
    (group,) = [each.event.group for each in arrivals if isinstance(each.event, PodGroupAdded)]
    assert (dict(group.roles), group.min_available) == ({"CN": 1, "HN": 1}, 2)
    found = {pod.name: pod for pod in _pods(arrivals)}
    assert found["h"].requests == Resources({"cpu": 8, "nvidia.com/gpu": 1, "memory": "2Gi"})
    assert [each.at for each in arrivals] == [0.0, 0.0, 0.0, 30.0]
    assert found["late"].annotations[RUN_SECONDS] == "10"
    assert RUN_SECONDS not in found["c"].annotations


def test_dlrm_instance_that_was_deleted_as_it_was_created_is_left_out_and_counted() -> None:
    rows = ("i0,a,CN,1,0,1,5,5\n", "i1,a,CN,1,0,1,6,9\n", "i2,b,CN,1,0,1,7,7\n")
    trace = opened(DLRM, *rows)
    groups = [e.event.group for e in trace.arrivals() if isinstance(e.event, PodGroupAdded)]
    assert [(group.name, dict(group.roles), group.created_at) for group in groups] == [
        ("a", {"CN": 1}, 6.0)
    ]
    assert _names(trace) == ["i1"]
    left_out = "t: 2 instances were deleted at the instant of their creation and were left out"
    assert trace.skipped[-1] == left_out
    one = "t: 1 instance was deleted at the instant of its creation and was left out"
    assert opened(DLRM, *rows[:2]).skipped[-1] == one


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((DLRM, "i0,a,C/N,1,0,1,5,9\n"), "line 2: role: expected a name without a slash"),
        ((DLRM, "i0,a,CN,1,0,1,5,4\n"), "line 2: deleted_s: expected an instant not before cr"),
        (
            (OPENB, "a,1,1,0,0,,5,7,9\n"),
            "line 2: deletion_time: expected an instant not before scheduled_time, got '7'",
        ),
    ],
)
def test_deletion_before_the_start_is_an_error(lines: tuple[str, ...], said: str) -> None:
    with pytest.raises(TraceError, match=said):
        opened(*lines)


def test_published_trace_of_recommendation_models_is_read_whole() -> None:
    path = TRACES / "dlrm_instances.csv"
    if not path.exists():
        pytest.skip(f"the real traces are not in {TRACES}")
    lines = path.read_text().splitlines(keepends=True)
    trace = opened(*lines)
    assert len(_pods(trace)) == len(lines) - 1 - 15
    assert "t: 15 instances were deleted" in trace.skipped[-1]


# SWF --------------------------------------------------------------------------------------------

OF_HEADER = ("; MaxNodes: 2\n", "; MaxProcs: 5\n")


def swf(
    name: int,
    *,
    at: int | str = 0,
    ran: int = 10,
    processors: int = 1,
    wanted: int | float = -1,
    limit: int = -1,
    memory: int = -1,
    status: int = 1,
    user: int = 1,
    before: int = -1,
    think: int = -1,
) -> str:
    requested = f"{wanted} {limit} {memory}"
    rest = f"1 -1 1 1 {before} {think}"
    return f"{name} {at} -1 {ran} {processors} -1 -1 {requested} {status} {user} {rest}\n"


def test_swf_job_is_a_gang_of_its_processors() -> None:
    line = swf(7, at=10, ran=60, processors=3, wanted=2, limit=90, memory=1024, user=4)
    trace = opened("; Version: 2.2\n", *OF_HEADER, line)
    found = _pods(trace)
    assert [pod.uid for pod in found] == ["user-4/7-0", "user-4/7-1"]
    assert found[0].requests == Resources({"cpu": 1, "memory": "1Mi"})
    assert (found[0].annotations[RUN_SECONDS], found[0].annotations[TIME_LIMIT]) == ("60", "90")
    assert [node.allocatable.quantity("cpu") for node in trace.nodes] == ["3", "2"]


PARTS = "lines are partial executions (status 2, 3 or 4) and were left out"
LACKS = {
    "submit": "no submit time (field 2)",
    "size": "no number of processors (fields 5 and 8)",
    "time": "no run time (field 4)",
}


@pytest.mark.parametrize(
    ("lines", "names", "said"),
    [
        (
            [
                swf(1, at=-1),
                swf(2, processors=-1, ran=-1),
                swf(3, processors=0, status=5),
                swf(4, ran=0),
                swf(5, at=-1, ran=-1),
            ],
            [],
            [
                f"1 job has {LACKS['submit']} and was left out",
                f"2 jobs have {LACKS['size']} and were left out",
                f"2 jobs have {LACKS['time']} and were left out",
            ],
        ),
        (
            [swf(1, ran=-1, processors=-1, status=5), swf(2, ran=0, status=5), swf(3)],
            ["3-0"],
            ["2 jobs were cancelled before they ran (status 5) and were left out"],
        ),
        ([swf(1, status=5)], ["1-0"], []),  # it was cancelled while it ran
        *(
            ([*lines, swf(2, status=0)], ["1-0", "2-0"], [f"2 {PARTS}"])
            for lines in (
                [swf(1), swf(1, status=2), swf(1, at=-1, status=3)],
                [swf(1, status=2), swf(1, at=-1, status=3), swf(1)],
            )
        ),
        (
            [swf(1), swf(2, status=2), swf(2, status=4), swf(3)],
            ["1-0", "3-0"],
            [
                f"2 {PARTS}",
                "1 job has partial executions only, no line that summarises it, and was left out",
            ],
        ),
        (
            [swf(1), swf(2, before=1, think=100), swf(3, before=1), swf(4, think=5)],
            ["1-0", "2-0", "3-0", "4-0"],
            [
                "3 jobs name a preceding job or a think time (fields 17 and 18), which does not"
                " count"
            ],
        ),
    ],
)
def test_swf_jobs_that_do_not_count_as_they_are_are_counted_by_the_reason(
    lines: list[str], names: list[str], said: list[str]
) -> None:
    trace = opened(*lines)
    assert _names(trace) == names
    assert list(trace.skipped) == [f"t: {sentence}" for sentence in said]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("1 2 3\n", "line 2: expected 18 fields, got 3"),
        (swf(1, at="x"), "line 2: submit time: expected a number"),
        (swf(1, wanted=1.5), "line 2: requested processors"),
        (swf(1) + swf(1, status=3) + swf(1), "expected a unique name"),
    ],
)
def test_malformed_swf_line_is_named(line: str, problem: str) -> None:
    with pytest.raises(TraceError, match=problem):
        opened("; x\n", *line.splitlines(keepends=True))


def test_jobs_request_memory_on_nodes_that_say_what_they_have() -> None:
    def memories(*header: str, own_nodes: bool) -> tuple[list[str], tuple[str, ...]]:
        trace = opened(*header, swf(1, memory=1024), swf(2), own_nodes=own_nodes)
        return [pod.requests.quantity("memory") for pod in _pods(trace)], trace.skipped

    assert memories(own_nodes=True) == memories(*OF_HEADER, own_nodes=False) == (["1Mi", "0"], ())
    said = (
        "t: 1 job requests memory, which does not count: the header does not say what memory a"
        " node has"
    )
    assert memories(*OF_HEADER, own_nodes=True) == (["0", "0"], (said,))
    wrong: Any = "no"
    with pytest.raises(InvalidValueError, match="own_nodes"):
        opened(swf(1), own_nodes=wrong)


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ("; MaxProcs: 4\n", "need MaxNodes and MaxProcs, got only MaxProcs 4"),
        ("; MaxNodes: 4\n", "need MaxNodes and MaxProcs, got only MaxNodes 4"),
        ("; MaxNodes: 4\n; MaxProcs: 2\n", "need MaxProcs >= MaxNodes"),
    ],
)
def test_header_that_describes_no_nodes_says_why(header: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "t.swf"
    path.write_text(header + swf(1))
    said = refuses("simulate", "--trace", str(path))
    assert "--trace: expected --nodes, or manifests with nodes; nodes of the header" in said
    assert problem in said
    printed_by("simulate", "--trace", str(path), "--nodes", "1x1")


def test_command_runs_jobs_with_memory_on_nodes_of_the_header(tmp_path: Path) -> None:
    path, table = tmp_path / "t.swf", tmp_path / "n.csv"
    path.write_text("".join((*OF_HEADER, swf(1, memory=1024))))
    table.write_text("node,cpu\nn,4\n")
    words = ("simulate", "--trace", str(path), "--detail", "summary")
    text = printed_by(*words)
    assert "1 submitted, 1 started whole" in text
    assert "1 job requests memory, which does not count" in text
    assert "Insufficient memory" in printed_by(*words, "--nodes", str(table))
