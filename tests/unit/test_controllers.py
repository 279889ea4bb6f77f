"""Jobs to pods: names, numbers, order, labels, groups."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from gangsched.errors import ManifestError
from gangsched.events import PodAdded, PodGroupAdded
from gangsched.membership import Membership, membership
from gangsched.model import Pod, PodGroup, Resources, group_key
from gangsched.simulation.manifests import load_manifests
from gangsched.simulation.workload import FAIL_SECONDS, JOB_PODS, Workload

GPU = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 2}}}]}}


def _load(*documents: dict[str, Any]) -> Workload:
    return load_manifests(yaml.safe_dump_all(documents), file="f.yaml", at=7.0)


def _job(kind: str, version: str = "kubeflow.org/v1", /, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "j"}, "spec": spec}


def _batch(**spec: Any) -> dict[str, Any]:
    return _job("Job", "batch/v1", template=GPU, **spec)


def _replicas(**counts: int | None) -> dict[str, Any]:
    return {
        kind: {"template": GPU} if count is None else {"replicas": count, "template": GPU}
        for kind, count in counts.items()
    }


def _scheduled(policy: dict[str, Any], replicas: dict[str, Any]) -> dict[str, Any]:
    return _job("TFJob", tfReplicaSpecs=replicas, runPolicy={"schedulingPolicy": policy})


def _pods(workload: Workload) -> list[Pod]:
    return [a.event.pod for a in workload.arrivals if isinstance(a.event, PodAdded)]


def _groups(workload: Workload) -> list[PodGroup]:
    return [a.event.group for a in workload.arrivals if isinstance(a.event, PodGroupAdded)]


def _names(workload: Workload) -> list[str]:
    return [pod.name for pod in _pods(workload)]


def _refused(*documents: dict[str, Any]) -> ManifestError:
    with pytest.raises(ManifestError) as caught:
        _load(*documents)
    return caught.value


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ({}, 1),
        ({"parallelism": 3}, 3),
        ({"parallelism": 0}, 0),
        ({"parallelism": 3, "completions": 5}, 3),
        ({"parallelism": 5, "completions": 3}, 3),
        ({"completions": 3}, 1),
        ({"parallelism": 3, "completions": 0}, 0),
    ],
)
def test_job_has_as_many_pods_as_run_at_first(spec: dict[str, Any], count: int) -> None:
    assert [f"j-{index}" for index in range(count)] == _names(_load(_batch(**spec)))


def test_job_expands_into_the_pods_its_controller_would_create() -> None:
    template = {**GPU, "metadata": {"labels": {"app": "x"}, "annotations": {"note": "text"}}}
    workload = _load(
        _job("Job", "batch/v1", template=template, parallelism=2, completions=2)
        | {"metadata": {"name": "j", "namespace": "team"}}
    )
    first, second = _pods(workload)
    assert (first.uid, second.uid) == ("team/j-0", "team/j-1")
    assert first.namespace == "team"
    assert first.created_at == 7.0
    assert dict(first.labels) == {
        "app": "x",
        "batch.kubernetes.io/job-name": "j",
        "job-name": "j",
    }
    assert dict(first.annotations) == {"note": "text"}
    assert first.requests == Resources({"nvidia.com/gpu": 2})
    assert first.requests is second.requests
    assert workload.skipped == ()


def test_indexed_job_labels_its_pods_with_their_index() -> None:
    pods = _pods(_load(_batch(completionMode="Indexed", completions=2, parallelism=2)))
    assert [pod.labels["batch.kubernetes.io/job-completion-index"] for pod in pods] == ["0", "1"]


def test_pods_that_would_follow_later_are_noted() -> None:
    workload = _load(_batch(parallelism=2, completions=5))
    assert workload.skipped == (
        "f.yaml: document 1: Job default/j: only the first 2 of its 5 pods are created: the others "
        "would follow as those end",
    )


@pytest.mark.parametrize(
    "job",
    [
        _batch(suspend=True),
        _job("TFJob", tfReplicaSpecs=_replicas(Worker=2), runPolicy={"suspend": True}),
        _job(
            "MPIJob",
            mpiReplicaSpecs=_replicas(Launcher=1, Worker=2),
            runPolicy={"suspend": True, "schedulingPolicy": {"minAvailable": 3}},
        ),
    ],
    ids=["Job", "TFJob", "MPIJob"],
)
def test_suspended_job_has_no_pods_and_a_note(job: dict[str, Any]) -> None:
    workload = _load(job)
    assert workload.arrivals == ()
    assert workload.skipped == (
        f"f.yaml: document 1: {job['kind']} default/j: the job is suspended and has no pods",
    )


@pytest.mark.parametrize(
    ("kind", "specs", "replicas", "names"),
    [
        (
            "TFJob",
            "tfReplicaSpecs",
            {"PS": 1, "Worker": 2, "Chief": None, "Evaluator": 1},
            ["j-chief-0", "j-evaluator-0", "j-ps-0", "j-worker-0", "j-worker-1"],
        ),
        ("TFJob", "tfReplicaSpecs", {"worker": 1, "MASTER": 1}, ["j-master-0", "j-worker-0"]),
        (
            "PyTorchJob",
            "pytorchReplicaSpecs",
            {"Master": None, "Worker": 2},
            ["j-master-0", "j-worker-0", "j-worker-1"],
        ),
        ("PyTorchJob", "pytorchReplicaSpecs", {"Worker": 0}, []),
    ],
)
def test_training_job_expands_into_the_pods_its_controller_would_create(
    kind: str, specs: str, replicas: dict[str, int | None], names: list[str]
) -> None:
    workload = _load(_job(kind, **{specs: _replicas(**replicas)}))
    assert names == sorted(_names(workload))
    for pod in _pods(workload):
        _, replica_type, index = pod.name.split("-")
        assert dict(pod.labels) == {
            "training.kubeflow.org/job-name": "j",
            "training.kubeflow.org/replica-type": replica_type,
            "training.kubeflow.org/replica-index": index,
        }


def test_replica_types_come_in_the_order_of_the_document() -> None:
    order = _replicas(Worker=1, Chief=1, PS=1)
    names = _names(load_manifests(json.dumps(_job("TFJob", tfReplicaSpecs=order)), file="f"))
    assert names == ["j-worker-0", "j-chief-0", "j-ps-0"]


@pytest.mark.parametrize("version", ["kubeflow.org/v1", "kubeflow.org/v2beta1"])
def test_mpi_job_creates_its_workers_first_and_its_launcher_last(version: str) -> None:
    pods = _pods(_load(_job("MPIJob", version, mpiReplicaSpecs=_replicas(Launcher=None, Worker=2))))
    assert [pod.name for pod in pods] == ["j-worker-0", "j-worker-1", "j-launcher"]
    assert dict(pods[1].labels) == {
        "training.kubeflow.org/job-name": "j",
        "training.kubeflow.org/job-role": "worker",
        "training.kubeflow.org/replica-type": "worker",
        "training.kubeflow.org/replica-index": "1",
    }
    assert dict(pods[2].labels) == {
        "training.kubeflow.org/job-name": "j",
        "training.kubeflow.org/job-role": "launcher",
        "training.kubeflow.org/replica-type": "launcher",
    }


@pytest.mark.parametrize("replicas", [{"Launcher": 1}, {"Launcher": 1, "Worker": None}])
def test_mpi_job_without_replicas_has_no_workers(replicas: dict[str, Any]) -> None:
    assert _names(_load(_job("MPIJob", mpiReplicaSpecs=_replicas(**replicas)))) == ["j-launcher"]


@pytest.mark.parametrize(
    ("kind", "specs", "replicas"),
    [
        ("TFJob", "tfReplicaSpecs", {"PS": 1, "Worker": 4}),
        ("PyTorchJob", "pytorchReplicaSpecs", {"Master": 1, "Worker": 4}),
        ("MPIJob", "mpiReplicaSpecs", {"Launcher": 1, "Worker": 4}),
    ],
)
def test_job_with_min_available_gets_a_group_before_its_pods(
    kind: str, specs: str, replicas: dict[str, int | None]
) -> None:
    policy = {
        "minAvailable": 3,
        "scheduleTimeoutSeconds": 30,
        "minResources": {"nvidia.com/gpu": 6},
    }
    workload = _load(
        _job(kind, runPolicy={"schedulingPolicy": policy}, **{specs: _replicas(**replicas)})
    )

    expected = PodGroup(
        name="j",
        min_available=3,
        schedule_timeout=30,
        min_resources=Resources({"nvidia.com/gpu": 6}),
        created_at=7.0,
    )
    assert PodGroupAdded(expected) == workload.arrivals[0].event
    assert len(_pods(workload)) == 5
    for pod in _pods(workload):
        claim = membership(pod)
        assert isinstance(claim, Membership)
        assert claim.group == group_key("default", "j")
        assert claim.min_available is None


@pytest.mark.parametrize(
    "template",
    [
        {"metadata": {"labels": {"pod-group.scheduling.sigs.k8s.io/name": "own"}}, **GPU},
        {"metadata": {"annotations": {"scheduling.volcano.sh/group-name": "own"}}, **GPU},
        {"spec": {**GPU["spec"], "schedulingGroup": {"podGroupName": "own"}}},
    ],
    ids=["label", "annotation", "field"],
)
def test_job_whose_template_names_a_group_gets_no_other_group(template: dict[str, Any]) -> None:
    specs = {"Worker": {"template": template}, "PS": {"template": GPU}}
    workload = _load(_scheduled({"minAvailable": 2}, specs))
    assert _groups(workload) == []
    assert not any("scheduling.x-k8s.io/pod-group" in pod.labels for pod in _pods(workload))


def test_job_without_min_available_gets_no_group() -> None:
    workload = _load(_scheduled({"queue": "q"}, _replicas(Worker=2)))
    assert _groups(workload) == []
    assert all(membership(pod) is None for pod in _pods(workload))


# Fields that are not taken over ------------------------------------------------------------


def _training(kind: str, spec: dict[str, Any], policy: dict[str, Any]) -> dict[str, Any]:
    specs = {"TFJob": "tfReplicaSpecs", "PyTorchJob": "pytorchReplicaSpecs"}
    replicas = _replicas(Worker=4) | (_replicas(Launcher=1) if kind == "MPIJob" else {})
    name = specs.get(kind, "mpiReplicaSpecs")
    return _job(kind, **{name: replicas, "runPolicy": policy, **spec})


def _notes(*documents: dict[str, Any]) -> list[str]:
    return [each.partition("j: ")[2] for each in _load(*documents).skipped]


@pytest.mark.parametrize("kind", ["TFJob", "PyTorchJob", "MPIJob"])
@pytest.mark.parametrize(
    ("where", "name"),
    [
        *((where, "ofALaterVersion") for where in ("", "runPolicy", "runPolicy.schedulingPolicy")),
        *(("runPolicy", name) for name in ("activeDeadlineSeconds", "managedBy")),
        *(("runPolicy.schedulingPolicy", name) for name in ("queue", "priorityClass")),
    ],
)
def test_field_of_a_training_job_that_is_not_taken_over_is_noted(
    kind: str, where: str, name: str
) -> None:
    policy: dict[str, Any] = {"schedulingPolicy": {"minAvailable": 1}, "cleanPodPolicy": "None"}
    spec: dict[str, Any] = {"runPolicy": policy}
    for step in where.split(".") if where else ():
        spec = spec[step]
    document = _training(kind, {}, policy)
    (spec if where else document["spec"])[name] = "x"
    (note,) = _notes(document)
    assert note.startswith(f"spec.{where}{'.' * bool(where)}{name} is not simulated")


@pytest.mark.parametrize(
    ("document", "note"),
    [
        (_batch(activeDeadlineSeconds=9), "spec.activeDeadlineSeconds is not simulated: it does"),
        (_batch(ofALaterVersion=1), "spec.ofALaterVersion is not simulated"),
        (
            _batch() | {"metadata": {"name": "j", "labels": {"kueue.x-k8s.io/queue-name": "q"}}},
            "metadata.labels[kueue.x-k8s.io/queue-name] is not simulated: no queue admits the job",
        ),
        (
            _training("MPIJob", {"launcherCreationPolicy": "WaitForWorkersReady"}, {}),
            "spec.launcherCreationPolicy is not simulated: the launcher is created with the",
        ),
        (
            _training("PyTorchJob", {"elasticPolicy": {"maxReplicas": 9}}, {}),
            "spec.elasticPolicy.maxReplicas is not simulated: the number of workers",
        ),
        (
            _training("TFJob", {"successPolicy": "AllWorkers"}, {}),
            "spec.successPolicy is not simulated: the job ends with its last pod",
        ),
        (
            _scheduled({"minResources": {"cpu": 1}}, _replicas(Worker=2)),
            "spec.runPolicy.schedulingPolicy.minResources is not simulated: without minAvailable",
        ),
        (_training("TFJob", {"elasticPolicy": {"minReplicas": 2}}, {}), "spec.elasticPolicy is"),
    ],
    ids=range(8),
)
def test_field_that_is_not_taken_over_is_noted(document: dict[str, Any], note: str) -> None:
    (found,) = _notes(document)
    assert found.startswith(note)


@pytest.mark.parametrize("kind", ["Job", "PyTorchJob", "Pod"])
def test_topology_that_only_a_group_can_have_holds_a_pod_in_none(kind: str) -> None:
    key = "kueue.x-k8s.io/podset-required-topology"
    template = {"metadata": {"name": "j", "annotations": {key: "rack"}}, **GPU}
    document = {
        "Job": _batch() | {"spec": {"template": template}},
        "PyTorchJob": _job("PyTorchJob", pytorchReplicaSpecs={"Worker": {"template": template}}),
        "Pod": {"apiVersion": "v1", "kind": "Pod", **template},
    }[kind]
    (note,) = _load(document).skipped
    assert note.endswith(f"metadata.annotations.{key} (of a pod in no group): held")


def test_what_only_follows_a_failure_is_noted_if_a_pod_fails() -> None:
    fails = {"metadata": {"annotations": {FAIL_SECONDS: "9"}}, **GPU}
    for template, count in ((GPU, 0), (fails, 2)):
        worker = {"template": template, "restartPolicy": "Never", "replicas": 2}
        job = _job("TFJob", tfReplicaSpecs={"Worker": worker}, runPolicy={"backoffLimit": 3})
        assert len(_notes(job)) == count
        policy = {"backoffLimit": 3, "podFailurePolicy": {"rules": [{}]}}
        assert len(_notes(_job("Job", "batch/v1", template=template, **policy))) == count
    assert _notes(_training("MPIJob", {"launcherCreationPolicy": "AtStartup"}, {})) == []
    job = _training("MPIJob", {"launcherCreationPolicy": "Soon"}, {})
    assert _refused(job).field == "spec.launcherCreationPolicy"


@pytest.mark.parametrize(("least", "pods"), [(2, "3"), (4, "5"), (9, "5"), (None, "5")])
def test_elastic_job_works_with_its_fewest_workers(least: int | None, pods: str) -> None:
    elastic = {"minReplicas": least, "rdzvBackend": "c10d"}
    replicas = _replicas(Master=1, Worker=4)
    job = _job("PyTorchJob", pytorchReplicaSpecs=replicas, elasticPolicy=elastic)
    workload = _load(job)
    assert {pod.annotations[JOB_PODS] for pod in _pods(workload)} == {pods}
    assert len(workload.skipped) == (least == 9)
    job["spec"]["runPolicy"] = {"schedulingPolicy": {"minAvailable": 5}}
    (group,) = _groups(_load(job))
    assert group.min_available == 5
    note = "spec.elasticPolicy.minReplicas is not simulated: minAvailable is the minimum of the"
    assert [each.startswith(note) for each in _notes(job)] == [True] * (pods == "3")


@pytest.mark.parametrize("given_first", [True, False])
def test_given_group_replaces_the_group_that_a_job_implies(given_first: bool) -> None:
    job = _scheduled({"minAvailable": 2}, _replicas(Worker=2))
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "j"},
        "spec": {"minMember": 1},
    }
    workload = _load(*([group, job] if given_first else [job, group]))
    assert [found.min_available for found in _groups(workload)] == [1]
    assert {pod.labels["scheduling.x-k8s.io/pod-group"] for pod in _pods(workload)} == {"j"}


@pytest.mark.parametrize(
    ("job", "path", "problem"),
    [
        (_batch(parallelism=-1), "spec.parallelism", "from 0 to 150000, got -1"),
        (_batch(parallelism=10**9), "spec.parallelism", "from 0 to 150000, got 1000000000"),
        (_batch(parallelism="2"), "spec.parallelism", "got '2'"),
        (_batch(completions=1.5), "spec.completions", "got 1.5"),
        (_batch(completionMode="Indexed"), "spec.completions", "got nothing"),
        (_batch(completionMode="X"), "spec.completionMode", "one of NonIndexed, Indexed, got 'X'"),
        (_batch(suspend="no"), "spec.suspend", "expected a bool, got 'no'"),
        (_job("Job", "batch/v1"), "spec.template.spec.containers", "at least one container"),
        (_job("TFJob"), "spec.tfReplicaSpecs", "expected a value, got nothing"),
        (
            _job("TFJob", tfReplicaSpecs=_replicas(Server=1)),
            "spec.tfReplicaSpecs",
            "PS, Worker, Chief, Master, Evaluator, got 'Server'",
        ),
        (
            _job("TFJob", tfReplicaSpecs={"Worker": {"template": GPU}, "worker": {}}),
            "spec.tfReplicaSpecs.worker",
            "the replica type is given twice",
        ),
        (
            _job("PyTorchJob", pytorchReplicaSpecs=_replicas(Worker=-1)),
            "spec.pytorchReplicaSpecs.Worker.replicas",
            "got -1",
        ),
        (
            _job("MPIJob", mpiReplicaSpecs=_replicas(Worker=2)),
            "spec.mpiReplicaSpecs",
            "expected one launcher, got 0",
        ),
        (
            _job("MPIJob", mpiReplicaSpecs=_replicas(Launcher=2)),
            "spec.mpiReplicaSpecs",
            "expected one launcher, got 2",
        ),
        (
            _scheduled({"minAvailable": 0}, _replicas(Worker=1)),
            "spec.runPolicy.schedulingPolicy.minAvailable",
            "an int >= 1, got 0",
        ),
    ],
    ids=range(15),
)
def test_malformed_field_is_refused_by_its_path(
    job: dict[str, Any], path: str, problem: str
) -> None:
    error = _refused(job)
    assert path == error.field
    assert problem in error.problem


def test_template_is_checked_even_if_it_has_no_replicas() -> None:
    bad = {"spec": {"containers": [{"resources": {"limits": {"cpu": "1K"}}}]}}
    error = _refused(_job("TFJob", tfReplicaSpecs={"Worker": {"replicas": 0, "template": bad}}))
    assert (
        error.field == "spec.tfReplicaSpecs.Worker.template.spec.containers[0].resources.limits.cpu"
    )
    assert "'1K'" in error.problem
