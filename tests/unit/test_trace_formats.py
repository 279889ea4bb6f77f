"""Traces of other formats: openb, dlrm, SWF; further columns; nodes from a CSV; streams."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    ClusterState,
    InvalidValueError,
    NodeAdded,
    Pod,
    PodAdded,
    PodGroupAdded,
    Preemption,
    Resources,
    Scheduler,
    presets,
)
from gangsched.cli import main
from gangsched.constraints import NodeSelectorRequirement, NodeSelectorTerm
from gangsched.errors import TraceError
from gangsched.simulation import (
    RUN_SECONDS,
    TIME_LIMIT,
    Arrival,
    Simulator,
    Workload,
    load_nodes,
    load_trace,
    open_trace,
    parse_nodes_shape,
    report,
)
from support.documents import ROOT

TRACES = ROOT.parent / "shared" / "traces"
COLUMNS = "job,submit_s,workers,gpus_per_worker,duration_s"


def pods(workload: Iterable[Arrival]) -> list[Pod]:
    return [each.event.pod for each in workload if isinstance(each.event, PodAdded)]


def jobs(*rows: str, more: str = "") -> list[Pod]:
    header = f"{COLUMNS},{more}" if more else COLUMNS
    return pods(load_trace([f"{header}\n", *(f"{row}\n" for row in rows)], file="t.csv").arrivals)


def test_further_columns_of_a_job_are_read() -> None:
    more = "cpu_per_worker,memory_per_worker,priority,tenant,time_limit_s"
    (pod,) = jobs("j,0,1,2,60,500m,4Gi,-7,blue,90.5", more=more)
    assert pod.requests == Resources({"nvidia.com/gpu": 2, "cpu": "500m", "memory": "4Gi"})
    assert (pod.priority, pod.namespace) == (-7, "blue")
    assert (pod.annotations[RUN_SECONDS], pod.annotations[TIME_LIMIT]) == ("60", "90.5")


def test_empty_cells_of_further_columns_mean_none() -> None:
    more = "cpu_per_worker,memory_per_worker,priority,time_limit_s"
    (pod,) = jobs("j,0,1,0,60,,,,", more=more)
    assert (pod.requests, pod.priority) == (Resources(), 0)
    assert TIME_LIMIT not in pod.annotations


def test_job_ends_at_its_time_limit() -> None:
    (pod,) = jobs("j,0,1,0,60,30", more="time_limit_s")
    assert pod.annotations[RUN_SECONDS] == "30"


def test_jobs_that_their_time_limits_end_are_counted() -> None:
    rows = ["j,0,1,0,60,30", "k,0,1,0,60,60", "l,0,1,0,60,", "m,0,1,0,9.5,9"]
    lines = [f"{COLUMNS},time_limit_s\n", *(f"{row}\n" for row in rows)]
    said = "t.csv: 2 jobs are ended by their time limits, and count as finished"
    assert load_trace(lines, file="t.csv").skipped == (said,)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("cpu_per_worker", "two"),
        ("cpu_per_worker", "-1"),
        ("memory_per_worker", "4 GB"),
        ("priority", "high"),
        ("tenant", "a/b"),
        ("time_limit_s", "0"),
    ],
)
def test_bad_cell_of_a_further_column_is_named(column: str, value: str) -> None:
    with pytest.raises(TraceError) as caught:
        jobs(f"j,0,1,1,60,{value}", more=column)
    assert (caught.value.line, caught.value.column) == (2, column)
    assert repr(value) in caught.value.problem


def test_tenants_may_have_jobs_of_one_name() -> None:
    found = jobs("j,0,1,1,60,a", "j,0,1,1,60,b", more="tenant")
    assert [pod.uid for pod in found] == ["a/j-0", "b/j-0"]
    with pytest.raises(TraceError, match="line 4: job: expected a unique name"):
        jobs("j,0,1,1,60,a", "k,0,1,1,60,a", "j,0,1,1,60,a", more="tenant")


def test_column_that_is_not_taken_over_is_reported() -> None:
    workload = load_trace([f"{COLUMNS},colour\n", "j,0,1,1,60,red\n"], file="t.csv")
    assert workload.skipped == ("t.csv: the column colour was not taken over",)


OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time\n"
)


def test_openb_pod_requests_its_share_and_its_models() -> None:
    lines = [OPENB, "p,12000,16384,1,460,V100M16|V100M32,LS,Running,5,100,10\n"]
    workload = load_trace(lines, file="o.csv")
    (pod,) = pods(workload.arrivals)
    assert pod.requests == Resources({"cpu": 12, "memory": "16Gi", "nvidia.com/gpu": "460m"})
    models = NodeSelectorRequirement("nvidia.com/gpu.product", "In", ("V100M16", "V100M32"))
    assert pod.affinity == (NodeSelectorTerm((models,)),)
    assert (pod.created_at, pod.annotations[RUN_SECONDS]) == (5.0, "90")
    assert any("shares of a GPU" in sentence for sentence in workload.skipped)
    assert any("qos, pod_phase" in sentence for sentence in workload.skipped)


def test_openb_pod_that_was_never_scheduled_runs_as_long_as_it_waited() -> None:
    (pod,) = pods(load_trace([OPENB, "p,1,1,0,0,,BE,Pending,5,7.5,\n"], file="o.csv").arrivals)
    assert pod.annotations[RUN_SECONDS] == "2.5"
    assert pod.affinity == ()


DLRM = "instance,app,role,cpu,gpu,memory_gib,max_per_node,created_s,deleted_s\n"


def test_dlrm_app_is_a_group_whose_first_instances_are_its_minimum() -> None:
    rows = ["c,a,CN,64,0,1.5,-1,,\n", "h,a,HN,8,1,2,-1,,50\n", "late,a,CN,64,0,1.5,-1,30,40\n"]
    workload = load_trace([DLRM, *rows], file="d.csv")
    (group,) = [
        each.event.group for each in workload.arrivals if isinstance(each.event, PodGroupAdded)
    ]
    assert (dict(group.roles), group.min_available) == ({"CN": 1, "HN": 1}, 2)
    found = {pod.name: pod for pod in pods(workload.arrivals)}
    assert found["h"].requests == Resources({"cpu": 8, "nvidia.com/gpu": 1, "memory": "2Gi"})
    assert [each.at for each in workload.arrivals] == [0.0, 0.0, 0.0, 30.0]
    assert found["late"].annotations[RUN_SECONDS] == "10"
    assert RUN_SECONDS not in found["c"].annotations


def swf(*fields: str) -> str:
    """Return a line of 18 fields: job, submit, run, allocated, requested, limit, memory, user."""
    job, submit, ran, allocated, asked, limit, memory, user = fields
    rest = "-1 -1 -1 -1 -1 -1"
    return f"{job} {submit} -1 {ran} {allocated} -1 -1 {asked} {limit} {memory} 1 {user} {rest}\n"


def test_swf_job_is_a_gang_of_its_processors() -> None:
    header = ["; Version: 2.2\n", "; MaxNodes: 2\n", "; MaxProcs: 5\n"]
    lines = [*header, swf("7", "10", "60", "3", "2", "90", "1024", "4")]
    trace = open_trace(lambda: lines, file="t.swf")
    found = pods(trace.arrivals())
    assert [pod.uid for pod in found] == ["user-4/7-0", "user-4/7-1"]
    assert found[0].requests == Resources({"cpu": 1, "memory": "1Mi"})
    assert (found[0].annotations[RUN_SECONDS], found[0].annotations[TIME_LIMIT]) == ("60", "90")
    assert [node.allocatable.quantity("cpu") for node in trace.nodes] == ["3", "2"]


def test_swf_job_without_processors_or_run_time_is_left_out_and_counted() -> None:
    lines = [
        "; x\n",
        swf("1", "0", "-1", "4", "4", "-1", "-1", "-1"),
        swf("2", "0", "5", "-1", "-1", "-1", "-1", "-1"),
        swf("3", "0", "5", "1", "-1", "-1", "-1", "-1"),
    ]
    trace = open_trace(lambda: lines, file="t.swf")
    assert [pod.uid for pod in pods(trace.arrivals())] == ["default/3-0"]
    assert trace.skipped == (
        "t.swf: 1 job has no run time (field 4) and was left out",
        "t.swf: 1 job has no number of processors (fields 5 and 8) and was left out",
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("1 2 3\n", "line 2: expected 18 fields, got 3"),
        (swf("1", "x", "5", "1", "1", "-1", "-1", "-1"), "line 2: submit time: expected a number"),
        (swf("1", "0", "5", "1", "1.5", "-1", "-1", "-1"), "line 2: requested processors"),
    ],
)
def test_malformed_swf_line_is_named(line: str, problem: str) -> None:
    with pytest.raises(TraceError, match=problem):
        open_trace(lambda: ["; x\n", line], file="t.swf")


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


# Streams --------------------------------------------------------------------------------------


def test_trace_makes_no_pod_before_its_arrival() -> None:
    lines = [f"{COLUMNS}\n", *(f"j{n},{n},1,1,1\n" for n in range(1000))]
    trace = open_trace(lambda: lines, file="t.csv")
    assert trace.pods == 1000
    nodes = [Arrival(0.0, NodeAdded(node)) for node in parse_nodes_shape("1x1")]

    def arrivals() -> Iterator[Arrival]:
        yield from nodes
        yield from trace.arrivals()

    simulator = Simulator(arrivals(), presets.gang, delete_finished=True)
    most = 0
    while simulator.step() is not None:
        most = max(most, len(list(simulator.cluster.pods())))
    assert most <= 2
    result = report(simulator)
    assert (len(simulator.jobs), len(result.jobs), result.summary.singles.finished) == (
        0,
        1000,
        1000,
    )


def test_rows_that_are_not_in_time_order_arrive_in_time_order() -> None:
    lines = [f"{COLUMNS}\n", "late,9,1,1,1\n", "early,2,1,1,1\n", "also,2,1,1,1\n"]
    trace = open_trace(lambda: lines, file="t.csv")
    assert [each.at for each in trace.arrivals()] == [2.0, 2.0, 9.0]
    assert [pod.name for pod in pods(trace.arrivals())] == ["early-0", "also-0", "late-0"]


def test_stream_that_is_not_in_time_order_is_refused() -> None:
    late, early = (
        Arrival(at, NodeAdded(n))
        for at, n in zip((9.0, 2.0), parse_nodes_shape("2x1"), strict=True)
    )
    simulator = Simulator(iter([late, early]), presets.gang)
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
    lines = [f"{COLUMNS}\n"]
    lines += [f"j{n},{at},{w},{g},{d}\n" for n, (at, w, g, d) in enumerate(rows)]
    nodes = Workload([Arrival(0.0, NodeAdded(node)) for node in parse_nodes_shape("2x3")])
    kept = Simulator(nodes + load_trace(lines, file="t.csv"), preset)
    trace = open_trace(lambda: lines, file="t.csv")
    streamed = Simulator([*nodes.arrivals, *trace.arrivals()], preset, delete_finished=True)
    kept.run(until=1000.0)
    streamed.run(until=1000.0)
    kept.jobs._check()
    streamed.jobs._check()
    mine, theirs = (report(each) for each in (streamed, kept))
    assert mine.summary == theirs.summary
    assert mine.pending == theirs.pending
    without = [
        [evolve(job, members=0, quorum=None) for job in each.jobs] for each in (mine, theirs)
    ]
    assert without[0] == without[1]


# The command ----------------------------------------------------------------------------------


def test_job_has_one_key_whatever_its_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{COLUMNS},priority\none,0,1,1,20,3\nfour,0,4,1,10,5\n")
    words = ["simulate", "--trace", str(path), "--nodes", "2x2", "--output", "json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)["jobs"]
    assert [job["key"] for job in found] == ["default/one", "default/four"]
    assert [(job["size"], job["priority"], job["finished_at"]) for job in found] == [
        (1, 3, 30.0),
        (4, 5, 10.0),
    ]
    assert [len(job["nodes"]) for job in found] == [1, 2]


def test_report_counts_the_jobs_behind_each_median(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{COLUMNS}\na,0,2,2,100\nb,0,2,2,7200\nc,0,2,3,1\n")
    assert main(["simulate", "--trace", str(path), "--nodes", "2x2", "--detail", "summary"]) == 0
    text = capsys.readouterr().out
    assert (
        "waited              median 0s, p95 100s, max 100s, of the 2 that started; 1 did not"
        in text
    )
    assert (
        "took                median 100s, p95 2h1m40s, max 2h1m40s, of the 2 that finished" in text
    )
    assert "slowdown            median 1.00, p95 1.01, max 1.01" in text


def test_tables_name_the_namespace_if_there_are_several(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{COLUMNS},tenant\na,0,1,1,10,blue\nb,0,1,1,10,red\n")
    assert main(["simulate", "--trace", str(path), "--nodes", "1x2"]) == 0
    assert "NAMESPACE   NAME   READY" in capsys.readouterr().out
    path.write_text(f"{COLUMNS},tenant\na,0,1,1,10,blue\nb,0,1,1,10,blue\n")
    assert main(["simulate", "--trace", str(path), "--nodes", "1x2"]) == 0
    assert "NAMESPACE" not in capsys.readouterr().out


def test_pod_that_a_manifest_and_a_trace_give_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.csv").write_text(f"{COLUMNS}\na,5,1,1,10\n")
    (tmp_path / "p.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a-0}\nspec: {containers: [{name: c}]}\n"
    )
    words = ["simulate", str(tmp_path / "p.yaml"), "--trace", str(tmp_path / "t.csv")]
    assert main([*words, "--nodes", "1x1"]) == 2
    assert "pod default/a-0 is given by two files" in capsys.readouterr().err


def test_estimates_are_the_time_limits_if_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    rows = ["run,0,1,1,10,100", "wide,1,2,1,10,10", "short,2,1,1,20,20"]
    path.write_text(f"{COLUMNS},time_limit_s\n" + "\n".join(rows) + "\n")
    words = ["simulate", "--trace", str(path), "--nodes", "2x1", "--backfill", "--output", "json"]
    started = []
    for estimates in ("run_time", "time_limit"):
        assert main([*words, "--estimates", estimates]) == 0
        printed = json.loads(capsys.readouterr().out)
        assert printed["settings"]["estimates"] == estimates
        started.append({job["key"]: job["started_at"] for job in printed["jobs"]})
    # the limit of `run` says that `short` delays nothing; its run time says that it does
    assert [each["default/short"] for each in started] == [20.0, 2.0]
    assert main([*words[:-3], "--estimates", "time_limit"]) == 2


def test_openb_runs_as_one_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    if not TRACES.exists():
        pytest.skip(f"the real traces are not in {TRACES}")
    head = (TRACES / "openb_pods.csv").read_text().splitlines(keepends=True)[:201]
    (tmp_path / "p.csv").write_text("".join(head))
    nodes = str(TRACES / "openb_nodes.csv")
    assert main(["simulate", "--trace", str(tmp_path / "p.csv"), "--nodes", nodes]) == 0
    assert "single pods           200 submitted, 200 started whole" in capsys.readouterr().out


def test_model_of_the_gpus_of_a_job_is_a_term_of_node_affinity() -> None:
    one, two, none = jobs("a,0,1,1,9,A100", "b,0,1,1,9,A100|H100", "c,0,1,1,9,", more="gpu_model")
    assert one.affinity == (
        NodeSelectorTerm((NodeSelectorRequirement("nvidia.com/gpu.product", "In", ("A100",)),)),
    )
    assert two.affinity == (
        NodeSelectorTerm(
            (NodeSelectorRequirement("nvidia.com/gpu.product", "In", ("A100", "H100")),)
        ),
    )
    assert none.affinity == ()


@pytest.mark.parametrize("model", ["A100|", "|", " "])
def test_blank_model_of_a_gpu_is_refused(model: str) -> None:
    with pytest.raises(TraceError, match="expected the model of a GPU"):
        jobs(f"a,0,1,1,9,{model}", more="gpu_model")


def test_all_missing_columns_are_named_at_once() -> None:
    with pytest.raises(TraceError, match="the columns gpus_per_worker, duration_s are missing"):
        load_trace(["job,submit_s,workers\n", "a,0,1\n"], file="t.csv")


def test_utilisation_counts_from_the_first_pod() -> None:
    def summary(at: float) -> Any:
        rows = [f"{COLUMNS}\n", f"a,{at:.0f},1,1,100\n", f"b,{at + 50:.0f},1,1,100\n"]
        nodes = Workload([Arrival(0.0, NodeAdded(each)) for each in parse_nodes_shape("1x2")])
        simulator = Simulator(nodes + load_trace(rows, file="t.csv"), presets.gang)
        simulator.run()
        return report(simulator).summary

    early, late = summary(0.0), summary(1.5e7)
    assert (early.begin, early.end, late.begin, late.end) == (0.0, 150.0, 1.5e7, 1.5e7 + 150)
    assert early.utilisation == {"nvidia.com/gpu": 200 / 300}
    assert late.utilisation["nvidia.com/gpu"] == pytest.approx(200 / 300, rel=1e-6)


def test_run_without_pods_begins_at_its_end() -> None:
    nodes = Workload([Arrival(3.0, NodeAdded(each)) for each in parse_nodes_shape("1x2")])
    simulator = Simulator(nodes, presets.gang)
    simulator.run()
    assert (report(simulator).summary.begin, report(simulator).summary.end) == (3.0, 3.0)


def test_report_counts_the_pods_of_a_job_on_each_node() -> None:
    nodes = Workload([Arrival(0.0, NodeAdded(each)) for each in parse_nodes_shape("2x4")])
    trace = load_trace([f"{COLUMNS}\n", "a,0,6,1,10\n", "b,0,1,1,10\n"], file="t.csv")
    simulator = Simulator(nodes + trace, presets.gang)
    simulator.run()
    large, single = report(simulator).jobs
    counts = dict(zip(large.nodes, large.pods_per_node, strict=True))
    assert counts == {"node-001": 4, "node-000": 2}  # the smaller rest goes to the other
    assert single.pods_per_node == (1,)


def test_pods_that_are_bound_again_after_an_eviction_count_again() -> None:
    rows = [f"{COLUMNS},priority\n", "low,0,2,1,100,0\n", "high,10,2,1,5,9\n"]
    nodes = Workload([Arrival(0.0, NodeAdded(each)) for each in parse_nodes_shape("1x2")])

    def made(cluster: ClusterState) -> Scheduler:
        return presets.gang(cluster, preemption=Preemption())

    simulator = Simulator(nodes + load_trace(rows, file="t.csv"), made)
    simulator.run()
    low = report(simulator).jobs[0]
    assert (low.nodes, low.pods_per_node) == (("node-000",), (4,))
