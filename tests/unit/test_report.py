"""The report: jobs that never fit, and the accounts."""

from __future__ import annotations

import pytest
from attrs import evolve

from gangsched import (
    Event,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodUpdated,
    Resources,
    presets,
)
from gangsched.errors import ManifestError
from gangsched.simulation import Arrival, Report, Simulator, Workload, load_manifests, report
from gangsched.testing import make_pod


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


def test_gang_larger_than_the_cluster_never_fits() -> None:
    huge: list[Pod] = [make_pod(f"h-{n}", group="h", min_available=3, gpu=4) for n in range(3)]
    _simulator, result = run(node("a"), node("b"), *(PodAdded(pod) for pod in huge))
    assert result.summary.never_fit == ("default/h",)


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


def test_gang_with_a_refused_member_is_incomplete_not_too_large() -> None:
    pods = [make_pod(f"g-{n}", group="g", min_available=2 + n, gpu=1) for n in range(2)]
    _simulator, result = run(node("a"), *(PodAdded(pod) for pod in pods))
    assert result.summary.never_fit == ()
    assert result.summary.gangs.pending == 1


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


# Jobs without a group -------------------------------------------------------------------------

NODES = "".join(
    f"""
apiVersion: v1
kind: Node
metadata: {{name: n{number}}}
status: {{allocatable: {{cpu: "8", nvidia.com/gpu: "2"}}}}
---"""
    for number in range(2)
)
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


def training(workers: int) -> tuple[Simulator, Report]:
    text = NODES + TRAINING.replace("WORKERS", str(workers))
    simulator = Simulator(load_manifests(text, file="f.yaml"), presets.coscheduling)
    simulator.run(until=60.0)
    simulator.jobs._check()
    return simulator, report(simulator)


def test_training_job_without_group_labels_wastes_its_nodes_if_it_cannot_run() -> None:
    _simulator, result = training(workers=4)
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
    _simulator, result = training(workers=2)
    assert result.summary.wasted == {}
    assert result.summary.deadlock is None
    (job,) = result.jobs
    assert (job.key, job.members, job.quorum) == ("default/train", 3, 3)
    assert (job.started_at, result.summary.gangs.started_whole) == (0.0, 1)


def test_pods_of_a_job_may_name_it_by_annotations() -> None:
    named = {"simulation.gangsched.io/job": "j", "simulation.gangsched.io/job-pods": "2"}
    pods = [evolve(make_pod(f"p-{n}", gpu=3), annotations=named) for n in range(2)]
    _simulator, result = run(node("a"), *(PodAdded(pod) for pod in pods))
    assert result.summary.gangs.partial == 1
    assert result.summary.wasted == {"nvidia.com/gpu": 300.0}
    assert result.summary.never_fit == ("default/j",)


def test_job_a_group_and_a_pod_of_one_name_are_three_jobs() -> None:
    named = {"simulation.gangsched.io/job": "j", "simulation.gangsched.io/job-pods": "1"}
    pods = [
        make_pod("j", gpu=1, uid="default/j"),
        make_pod("g-0", group="j", min_available=1, gpu=1),
        evolve(make_pod("p", gpu=1), annotations=named),
    ]
    _simulator, result = run(node("a"), *(PodAdded(pod) for pod in pods))
    assert [job.key for job in result.jobs] == ["default/j"] * 3
    assert result.summary.gangs.started_whole + result.summary.singles.started_whole == 3


def test_number_of_a_jobs_pods_is_a_whole_number() -> None:
    text = NODES + TRAINING.replace("WORKERS", "1").replace(
        "run-seconds: ", 'job: x, simulation.gangsched.io/job-pods: "many", a: '
    )
    with pytest.raises(ManifestError, match=r"job-pods.*an int >= 1, got 'many'"):
        load_manifests(text, file="f.yaml")
