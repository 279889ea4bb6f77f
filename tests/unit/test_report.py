"""The report: jobs that never fit, accounts, preempted jobs, and figures as text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import evolve

from gangsched import (
    Event,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodUpdated,
    Preemption,
    Resources,
    presets,
)
from gangsched.errors import ManifestError
from gangsched.simulation import (
    Arrival,
    Report,
    Simulator,
    Workload,
    load_manifests,
    load_trace,
    parse_nodes_shape,
    report,
)
from gangsched.simulation.render import area_text, share_text
from gangsched.testing import make_pod
from support.documents import printed_by

pytest.importorskip("rich")

HEADER: Final = "job,submit_s,workers,gpus_per_worker,duration_s"


def node(name: str, gpu: int = 4) -> NodeAdded:
    return NodeAdded(Node(name=NodeName(name), allocatable={"nvidia.com/gpu": gpu}))


def run(*events: Event | tuple[float, Event], until: float = 100.0) -> tuple[Simulator, Report]:
    arrivals = [e if isinstance(e, tuple) else (0.0, e) for e in events]
    workload = Workload(tuple(Arrival(at, event) for at, event in arrivals))
    simulator = Simulator(workload, presets.coscheduling)
    simulator.run(until=until)
    simulator.jobs._check()
    return simulator, report(simulator)


def test_gated_and_waiting_jobs_are_not_reported_as_never_fitting() -> None:
    gated = evolve(make_pod("gated", gpu=4), scheduling_gates=("later",))
    running = [PodAdded(make_pod(f"running-{n}", gpu=4)) for n in range(2)]
    waits = PodAdded(make_pod("waits", gpu=4))
    _simulator, result = run(node("a"), node("b"), PodAdded(gated), *running, waits)
    assert result.summary.never_fit == ()
    assert result.summary.singles.pending == 2


def test_gang_larger_than_the_cluster_never_fits_and_an_incomplete_one_may() -> None:
    huge = [make_pod(f"h-{n}", group="h", min_available=3, gpu=4) for n in range(3)]
    refused = [make_pod(f"g-{n}", group="g", min_available=2 + n, gpu=1) for n in range(2)]
    _simulator, result = run(node("a"), node("b"), *map(PodAdded, [*huge, *refused]))
    assert result.summary.never_fit == ("default/h",)
    assert (result.summary.gangs.never_fit, result.summary.gangs.pending) == (1, 1)


def test_gangs_that_differ_only_in_roles_are_tried_apart() -> None:
    """In one gang the small pod is the server, in the other the pod that fills a node."""
    arrivals: list[Event] = [node("a"), PodAdded(make_pod("runs", gpu=4, priority=1))]
    for name, server in (("a", 0), ("b", 2)):
        arrivals.append(PodGroupAdded(PodGroup(name=name, roles={"ps": 1, "worker": 1})))
        for n, gpu in enumerate((1, 1, 4)):
            role = "ps" if n == server else "worker"
            arrivals.append(PodAdded(make_pod(f"{name}-{n}", group=name, role=role, gpu=gpu)))
    _simulator, result = run(*arrivals)
    assert result.summary.never_fit == ("default/b",)


def test_resized_running_pod_is_accounted_for() -> None:
    pod = make_pod("p", gpu=1)
    grown = evolve(pod, requests=Resources({"nvidia.com/gpu": 2}), node_name=NodeName("a"))
    simulator, _result = run(
        node("a"), PodAdded(pod), (10.0, PodUpdated(grown)), (20.0, PodDeleted(pod.uid))
    )
    assert simulator.jobs.used.amounts() == Resources()
    assert simulator.jobs.used.areas(now=100.0) == {"nvidia.com/gpu": 10 * 1 + 10 * 2}


def test_pods_of_a_deleted_node_are_deleted() -> None:
    simulator, result = run(
        node("a"), PodAdded(make_pod("p", gpu=1)), (10.0, NodeDeleted(NodeName("a")))
    )
    assert list(simulator.cluster.pods()) == []
    assert result.summary.utilisation["nvidia.com/gpu"] == pytest.approx(1 / 4)


def of_trace(*rows: str, nodes: str, more: str = "", make: Any = presets.gang) -> Report:
    fleet = Workload([Arrival(0.0, NodeAdded(each)) for each in parse_nodes_shape(nodes)])
    lines = [f"{each}\n" for each in (HEADER + more, *rows)]
    simulator = Simulator(fleet + load_trace(lines, file="t.csv"), make)
    simulator.run()
    return report(simulator)


def test_utilisation_counts_from_the_first_pod() -> None:
    early, late = (
        of_trace(f"a,{at:.0f},1,1,100", f"b,{at + 50:.0f},1,1,100", nodes="1x2").summary
        for at in (0.0, 1.5e7)
    )
    assert (early.begin, early.end, late.begin, late.end) == (0.0, 150.0, 1.5e7, 1.5e7 + 150)
    assert early.utilisation == {"nvidia.com/gpu": 200 / 300}
    assert late.utilisation["nvidia.com/gpu"] == pytest.approx(200 / 300, rel=1e-6)


def test_pods_of_a_job_are_counted_on_each_node_and_again_after_an_eviction() -> None:
    large, single = of_trace("a,0,6,1,10", "b,0,1,1,10", nodes="2x4").jobs
    counts = dict(zip(large.nodes, large.pods_per_node, strict=True))
    assert counts == {"node-001": 4, "node-000": 2}  # the smaller rest goes to the other
    assert single.pods_per_node == (1,)
    low = of_trace(
        *("low,0,2,1,100,0", "high,10,2,1,5,9"),
        nodes="1x2",
        more=",priority",
        make=lambda cluster: presets.gang(cluster, preemption=Preemption()),
    ).jobs[0]
    assert (low.nodes, low.pods_per_node) == (("node-000",), (4,))


# Jobs without a group -------------------------------------------------------------------------

TRAINING = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: train}
spec:
  tfReplicaSpecs:
    PS: {replicas: 1, template: {spec: {containers: [{resources: {limits: {cpu: 1}}}]}}}
    Worker:
      replicas: WORKERS
      template:
        metadata: {annotations: {simulation.gangsched.io/run-seconds: "30"}}
        spec: {containers: [{resources: {limits: {nvidia.com/gpu: 2}}}]}
"""


def training(workers: int) -> Report:
    nodes = [
        Arrival(0.0, NodeAdded(Node(name=f"n{n}", allocatable={"cpu": 8, "nvidia.com/gpu": 2})))
        for n in range(2)
    ]
    jobs = load_manifests(TRAINING.replace("WORKERS", str(workers)), file="f.yaml")
    simulator = Simulator(Workload(nodes) + jobs, presets.coscheduling)
    simulator.run(until=60.0)
    simulator.jobs._check()
    return report(simulator)


def test_training_job_without_group_labels_wastes_its_nodes_if_it_cannot_run() -> None:
    result = training(workers=4)
    summary = result.summary
    assert summary.wasted["nvidia.com/gpu"] == 4 * 60.0
    assert summary.deadlock is not None
    assert summary.deadlock.jobs == ("default/train",)
    assert summary.deadlock.held == Resources({"cpu": 1, "nvidia.com/gpu": 4})
    assert (summary.gangs.submitted, summary.gangs.partial, summary.singles.submitted) == (1, 1, 0)
    assert summary.never_fit == ("default/train",)
    (pending,) = result.pending
    assert pending.job == "default/train"
    assert "train-worker-2 does not fit" in pending.why


def test_training_job_without_group_labels_runs_when_all_its_pods_are_bound() -> None:
    result = training(workers=2)
    assert (result.summary.wasted, result.summary.deadlock) == ({}, None)
    (job,) = result.jobs
    assert (job.key, job.members, job.quorum) == ("default/train", 3, 3)
    assert (job.started_at, result.summary.gangs.started_whole) == (0.0, 1)


def of_job(name: str, pods: int) -> dict[str, str]:
    return {"simulation.gangsched.io/job": name, "simulation.gangsched.io/job-pods": str(pods)}


def test_pods_of_a_job_may_name_it_by_annotations() -> None:
    pods = [evolve(make_pod(f"p-{n}", gpu=3), annotations=of_job("j", 2)) for n in range(2)]
    _simulator, result = run(node("a"), *map(PodAdded, pods))
    assert result.summary.gangs.partial == 1
    assert result.summary.wasted == {"nvidia.com/gpu": 300.0}
    assert result.summary.never_fit == ("default/j",)


def test_job_a_group_and_a_pod_of_one_name_are_three_jobs() -> None:
    pods = [
        make_pod("j", gpu=1, uid="default/j"),
        make_pod("g-0", group="j", min_available=1, gpu=1),
        evolve(make_pod("p", gpu=1), annotations=of_job("j", 1)),
    ]
    _simulator, result = run(node("a"), *map(PodAdded, pods))
    assert [job.key for job in result.jobs] == ["default/j"] * 3
    assert result.summary.gangs.started_whole + result.summary.singles.started_whole == 3


def test_number_of_a_jobs_pods_is_a_whole_number() -> None:
    text = TRAINING.replace("WORKERS", "1").replace(
        "run-seconds: ", 'job: x, simulation.gangsched.io/job-pods: "many", a: '
    )
    with pytest.raises(ManifestError, match=r"job-pods.*an int >= 1, got 'many'"):
        load_manifests(text, file="f.yaml")


# Figures as text ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0.0%"),
        (0.799, "79.9%"),
        (1.0, "100.0%"),
        (0.0123, "1.2%"),
        (0.00234, "0.23%"),
        (0.0000257, "0.0026%"),
        (0.00996, "1.0%"),
        (1e-9, "0.00000010%"),
    ],
)
def test_small_share_has_two_significant_digits(share: float, text: str) -> None:
    assert share_text(share) == text


def test_memory_over_time_is_in_gi_hours() -> None:
    assert area_text("memory", 3600.0 * 2**30 * 5.842) == "5.84 Gi-hours of memory"
    assert area_text("memory", 3600.0 * 2**30 * 0.00123) == "0.0012 Gi-hours of memory"
    assert area_text("nvidia.com/gpu", 840.0) == "840 GPU-seconds"


def simulated(*rows: str, nodes: str, more: str = "", words: tuple[str, ...] = ()) -> str:
    Path("t.csv").write_text("\n".join((HEADER + more, *rows)) + "\n")
    return printed_by("simulate", "--trace", "t.csv", "--nodes", nodes, *words)


def both(*rows: str, nodes: str, more: str = "", words: tuple[str, ...] = ()) -> tuple[str, Any]:
    """Return the summary of a run as text, and its report."""
    text = simulated(*rows, nodes=nodes, more=more, words=(*words, "--detail", "summary"))
    data = simulated(*rows, nodes=nodes, more=more, words=(*words, "--output", "json"))
    return text, json.loads(data)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_faults_are_counted_by_kind_in_the_settings() -> None:
    text, found = both("x,0,1,4,9", nodes="1x4", words=("--fault-seed", "3"))
    (line,) = [line for line in text.splitlines() if line.startswith("policy=")]
    assert "{" not in line
    plan = found["settings"]["faults"]["faults"]
    assert f"faults={len(plan)} (" in line
    for kind in {each["kind"] for each in plan}:
        assert f"{sum(each['kind'] == kind for each in plan)} {kind}" in line


def test_one_decision_and_one_column_are_singular() -> None:
    text, _report = both("a,0,1,1,9,red", nodes="1x1", more=",color")
    assert "in 1 decision\n" in text
    assert "the column color was not taken over" in text


# Tenants ----------------------------------------------------------------------------------------


def test_report_has_the_figures_of_each_tenant() -> None:
    rows = ("a,0,1,4,100,red", "b,0,2,4,9,blue", "c,10,1,4,50,red", "d,9,9,4,5,blue")
    text, found = both(*rows, nodes="2x4", more=",tenant")
    shown = [line.split(maxsplit=2) for line in text.splitlines() if line.startswith("tenant ")]
    assert [(row[1], row[2]) for row in shown] == [
        (
            "blue",
            "2 submitted, waited: mean 100s, median 100s, p95 100s, p99 100s, max 100s,"
            " of the 1 that started; 1 did not",
        ),
        (
            "red",
            "2 submitted, waited: mean 0s, median 0s, p95 0s, p99 0s, max 0s,"
            " of the 2 that started; none did not",
        ),
    ]
    tenants = found["summary"]["tenants"]
    assert {name: (each["submitted"], each["never_fit"]) for name, each in tenants.items()} == {
        "blue": (2, 1),
        "red": (2, 0),
    }
    assert {job["key"]: job["namespace"] for job in found["jobs"]} == {
        f"{row[-4:].strip(',')}/{row[0]}": row[-4:].strip(",") for row in rows
    }


def test_tables_leave_out_the_rows_of_one_tenant_and_of_many() -> None:
    assert "tenant" not in simulated("a,0,1,4,100,red", nodes="9x4", more=",tenant")
    rows = [f"a,0,1,1,100,team-{n}" for n in range(9)]
    text = simulated(*rows, nodes="9x4", more=",tenant", words=("--detail", "summary"))
    assert "9; --output json has the figures of each" in text
    assert "tenant" not in printed_by("compare", "--trace", "t.csv", "--nodes", "9x4")


def test_comparison_has_the_waits_of_each_tenant() -> None:
    simulated("a,0,1,4,100,red", "b,10,1,4,9,blue", nodes="1x4", more=",tenant")
    words = ("--trace", "t.csv", "--nodes", "1x4", "--policy", "gang", "--policy", "pod_by_pod")
    text = printed_by("compare", *words)
    rows = [line.split() for line in text.splitlines() if line.startswith("  tenant ")]
    assert rows == [
        ["tenant", name, "waited,", figure, *waits]
        for name, waits in (("blue", ["90s", "90s"]), ("red", ["0s", "0s"]))
        for figure in ("mean", "median", "p95", "p99")
    ]


# Preempted jobs ---------------------------------------------------------------------------------


def preempted(workers: int, *words: str) -> tuple[str, Any]:
    """Run a job that another one of the same size preempts if that is allowed."""
    rows = (f"a,0,{workers},1,100,0", f"b,90,{workers},1,100,10")
    return both(*rows, nodes=f"{workers}x1", more=",priority", words=words)


@pytest.mark.parametrize(
    ("workers", "kind", "pods"), [(1, "singles", "1 pod"), (2, "gangs", "2 pods")]
)
def test_preempted_job_has_its_lost_work_and_the_slowdown_of_its_complete_run(
    workers: int, kind: str, pods: str
) -> None:
    text, found = preempted(workers, "--preempt")
    victim, preemptor = found["jobs"]
    assert (victim["started_at"], victim["last_started_at"]) == (0.0, 190.0)
    assert (preemptor["started_at"], preemptor["last_started_at"]) == (90.0, 90.0)
    assert found["summary"][kind]["slowdown"]["max"] == pytest.approx(2.9)
    assert found["summary"][kind]["slowdown"]["median"] == 1.0
    assert found["summary"]["lost"] == {"nvidia.com/gpu": 90 * workers}
    lines = [line for line in text.splitlines() if line.startswith(("lost", "preempted"))]
    assert dict(line.split(maxsplit=1) for line in lines) == {
        "preempted": pods,
        "lost": f"{90 * workers} GPU-seconds of pods that did not finish",
    }


def test_run_of_a_job_goes_on_while_one_of_its_pods_runs() -> None:
    words = ("--preempt", "--policy", "pod_by_pod")
    rows = ("a,0,2,1,100,0", "b,90,1,1,100,10")
    _text, found = both(*rows, nodes="2x1", more=",priority", words=words)
    assert found["summary"]["preempted"] == 1
    assert found["jobs"][0]["last_started_at"] == found["jobs"][0]["started_at"] == 0.0


CONFIG: Final = "profiles: [{pluginConfig: [{name: DefaultPreemption, args: {graceSeconds: 60}}]}]"


def test_preemption_is_stated_where_the_command_decides_about_it() -> None:
    Path("c.yaml").write_text(CONFIG)
    text, found = preempted(1)
    assert found["summary"]["lost"] == {}
    assert "preempted" not in text
    assert "lost" not in text
    assert found["settings"]["preempt"] is False
    assert preempted(1, "--preempt")[1]["settings"]["preempt"] is True
    for words in (("--config", "c.yaml"), ("--policy", "gangsched.presets:gang")):
        text, found = preempted(1, *words)
        assert "preempt=" not in text
        assert found["settings"]["preempt"] is None
