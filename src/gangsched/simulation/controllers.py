"""The pods that a controller creates for a job, with their names and labels.

Rules:
  R1  only the pods that exist at first: no restart, no scaling, no second wave of pods;
  R2  the same document always gives the same pods: where a controller ends a name in five random
      letters, the name ends without them here;
  R3  pods come in the order of their indices. Kubeflow's training operator creates its replica
      types in no fixed order; here they come in the order of the document. Both MPI operators
      create the workers first and the launcher last, and so does this module;
  R4  a job with ``minAvailable`` gets the pod group that its operator would create for
      scheduler-plugins, named as the job, unless a template names a group itself;
  R5  a training job or MPI job without a group works only while all its pods run, an elastic one
      while its minimum does. Its pods get the annotations ``JOB`` and ``JOB_PODS``, from which the
      report knows that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from attrs import evolve

from gangsched.events import PodAdded, PodGroupAdded
from gangsched.manifests.fields import MOST_PODS, Field
from gangsched.manifests.manifest import Manifest
from gangsched.manifests.pod_fields import Schema
from gangsched.manifests.podgroups import group_of
from gangsched.membership import ADMISSION_SPELLINGS, SPELLINGS
from gangsched.model import FrozenMap, Pod, PodGroup, PodUID
from gangsched.simulation._job_fields import (
    JOB_SPEC,
    MPI_SPEC,
    PYTORCH_SPEC,
    TF_SPEC,
    note_field,
    note_fields,
)
from gangsched.simulation.timed_pods import read_timed_pod
from gangsched.simulation.workload import JOB, JOB_PODS

__all__ = ["read_job", "read_mpi_job", "read_pytorch_job", "read_tf_job"]

_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
_KUBEFLOW: Final = "training.kubeflow.org/"
_BATCH: Final = "batch.kubernetes.io/"
_SUSPENDED: Final = "the job is suspended and has no pods"
_GROUP_NAMES: Final = frozenset(spelling.name for spelling in (*SPELLINGS, *ADMISSION_SPELLINGS))

_Replicas: TypeAlias = dict[str, tuple[Pod, int]]


def read_job(manifest: Manifest) -> Iterator[PodAdded]:
    """Yield the pods of a ``batch/v1`` job: ``<job>-<index>``.

    There are as many as its parallelism, 1 by default, but no more than its completions. A job
    without completions works off a queue and has as many pods as its parallelism. Kubernetes ends
    the names in random letters, and leaves the index out unless the job is indexed.

    Raises:
        ManifestError: The document is malformed.
    """
    spec = manifest.document["spec"]
    template = read_timed_pod(manifest, spec["template"])
    note_fields(manifest, JOB_SPEC, spec["template"])
    indexed = spec["completionMode"].word(("NonIndexed", "Indexed"), "NonIndexed") == "Indexed"
    parallelism = spec["parallelism"].whole(1, least=0, most=MOST_PODS)
    completions = None
    if spec["completions"].given or indexed:
        completions = spec["completions"].whole(least=0)
    if spec["suspend"].flag():
        manifest.note(_SUSPENDED)
        return
    count = parallelism if completions is None else min(parallelism, completions)
    if completions is not None and count < completions:
        manifest.note(
            f"only the first {count} of its {completions} pods are created: the others would "
            "follow as those end"
        )
    labels = {_BATCH + "job-name": manifest.name, "job-name": manifest.name}
    for index in range(count):
        if indexed:
            labels[_BATCH + "job-completion-index"] = str(index)
        yield PodAdded(_copy(template, f"{manifest.name}-{index}", labels))


def read_tf_job(manifest: Manifest) -> Iterator[PodAdded | PodGroupAdded]:
    """Yield the pods of a ``TFJob``, and its group: ``<job>-<replica type>-<index>``.

    Raises:
        ManifestError: The document is malformed.
    """
    types = ("PS", "Worker", "Chief", "Master", "Evaluator")
    return _read_training_job(manifest, "tfReplicaSpecs", types, TF_SPEC)


def read_pytorch_job(manifest: Manifest) -> Iterator[PodAdded | PodGroupAdded]:
    """Yield the pods of a ``PyTorchJob``, and its group: ``<job>-<replica type>-<index>``.

    Raises:
        ManifestError: The document is malformed.
    """
    types = ("Master", "Worker")
    return _read_training_job(manifest, "pytorchReplicaSpecs", types, PYTORCH_SPEC)


def read_mpi_job(manifest: Manifest) -> Iterator[PodAdded | PodGroupAdded]:
    """Yield the pods of an ``MPIJob``, and its group.

    Workers are ``<job>-worker-<index>``; there are none unless their replicas are given. The
    launcher is ``<job>-launcher``; the newer operator ends its name in random letters.

    Raises:
        ManifestError: The document is malformed.
    """
    specs = manifest.document["spec"]["mpiReplicaSpecs"]
    replicas = _read_replicas(manifest, specs, ("Launcher", "Worker"), {"worker": 0})
    _note_fields(manifest, MPI_SPEC, specs)
    created = manifest.document["spec"]["launcherCreationPolicy"]
    created.word(("AtStartup", "WaitForWorkersReady"), "AtStartup")
    launcher, launchers = replicas.get("launcher", (None, 0))
    if launcher is None or launchers != 1:
        raise specs.problem(f"expected one launcher, got {launchers}")
    group = _own_group(manifest, replicas)
    replicas = _with_job(manifest, group, replicas)
    if _suspended(manifest):
        return
    if group is not None:
        yield PodGroupAdded(group)
    launcher = replicas["launcher"][0]
    worker, workers = replicas.get("worker", (launcher, 0))
    for index in range(workers):
        role = {"job-role": "worker", "replica-type": "worker", "replica-index": str(index)}
        labels = _labels(manifest, group, role)
        yield PodAdded(_copy(worker, f"{manifest.name}-worker-{index}", labels))
    labels = _labels(manifest, group, {"job-role": "launcher", "replica-type": "launcher"})
    yield PodAdded(_copy(launcher, f"{manifest.name}-launcher", labels))


def _read_training_job(
    manifest: Manifest, name: str, types: tuple[str, ...], taken: Schema
) -> Iterator[PodAdded | PodGroupAdded]:
    specs = manifest.document["spec"][name]
    replicas = _read_replicas(manifest, specs, types, {})
    _note_fields(manifest, taken, specs)
    group = _own_group(manifest, replicas)
    replicas = _with_job(manifest, group, replicas)
    if _suspended(manifest):
        return
    if group is not None:
        yield PodGroupAdded(group)
    for kind, (template, count) in replicas.items():
        for index in range(count):
            own = {"replica-type": kind, "replica-index": str(index)}
            labels = _labels(manifest, group, own)
            yield PodAdded(_copy(template, f"{manifest.name}-{kind}-{index}", labels))


def _read_replicas(
    manifest: Manifest, specs: Field, types: tuple[str, ...], defaults: dict[str, int]
) -> _Replicas:
    """Return the template and the number of pods of each replica type, by its lower-case name."""
    replicas: _Replicas = {}
    for key, spec in specs.required().entries():
        kind = key.lower()
        if kind not in [each.lower() for each in types]:
            raise specs.problem(f"expected replica types of {', '.join(types)}, got {key!r}")
        if kind in replicas:
            raise spec.problem("the replica type is given twice")
        count = spec["replicas"].whole(defaults.get(kind, 1), least=0, most=MOST_PODS)
        replicas[kind] = (read_timed_pod(manifest, spec["template"]), count)
    return replicas


def _own_group(manifest: Manifest, replicas: _Replicas) -> PodGroup | None:
    """Return the group that the operator would create; None if it would create none."""
    policy = manifest.document["spec"]["runPolicy"]["schedulingPolicy"]
    if not policy["minAvailable"].given:
        for field in (policy["minResources"], policy["scheduleTimeoutSeconds"]):
            if field.given:
                note_field(manifest, field, "without minAvailable the job has no group")
        return None
    group = group_of(manifest, policy["minAvailable"], policy)
    elastic = _elastic_minimum(manifest)
    if elastic.given and _least_pods(manifest, replicas) != group.min_available:
        note_field(manifest, elastic, "minAvailable is the minimum of the group")
    if not _names_a_group(replicas):
        return group
    note_field(manifest, policy, "the pods are in a group of another name")
    return None


def _names_a_group(replicas: _Replicas) -> bool:
    return any(
        template.pod_group is not None
        or not _GROUP_NAMES.isdisjoint(template.labels)
        or not _GROUP_NAMES.isdisjoint(template.annotations)
        for template, _ in replicas.values()
    )


def _with_job(manifest: Manifest, group: PodGroup | None, replicas: _Replicas) -> _Replicas:
    """Return the replicas with the annotations of rule R5, where it applies."""
    pods = sum(count for _template, count in replicas.values())
    if group is not None or pods < 2 or _names_a_group(replicas):
        return replicas
    minimum, (_template, workers) = _elastic_minimum(manifest), replicas.get("worker", (None, 0))
    if minimum.whole(0, least=0, most=MOST_PODS) > workers:
        note_field(manifest, minimum, "the number of workers does not change")
    least = str(_least_pods(manifest, replicas))
    return {
        kind: (_annotated(template, {JOB: manifest.name, JOB_PODS: least}), count)
        for kind, (template, count) in replicas.items()
    }


def _least_pods(manifest: Manifest, replicas: _Replicas) -> int:
    """Return how many pods a job works with: all, or those of its elastic policy's minimum."""
    pods = sum(count for _template, count in replicas.values())
    minimum = _elastic_minimum(manifest)
    _template, workers = replicas.get("worker", (None, 0))
    least = minimum.whole(workers, least=0, most=MOST_PODS)
    return pods - max(0, workers - least)


def _elastic_minimum(manifest: Manifest) -> Field:
    """Return the fewest workers of a ``PyTorchJob``; an absent field for other kinds."""
    policy = manifest.document["spec"]["elasticPolicy"]
    return policy["minReplicas" if manifest.kind == "PyTorchJob" else ""]


def _note_fields(manifest: Manifest, taken: Schema, specs: Field) -> None:
    note_fields(manifest, taken, *(spec["template"] for _kind, spec in specs.entries()))


def _annotated(template: Pod, defaults: dict[str, str]) -> Pod:
    """Return a template with annotations; those that it has already are kept."""
    return evolve(template, annotations=FrozenMap({**defaults, **template.annotations}))


def _suspended(manifest: Manifest) -> bool:
    suspended = manifest.document["spec"]["runPolicy"]["suspend"].flag()
    if suspended:
        manifest.note(_SUSPENDED)
    return suspended


def _labels(manifest: Manifest, group: PodGroup | None, own: dict[str, str]) -> dict[str, str]:
    labels = {_KUBEFLOW + "job-name": manifest.name}
    labels |= {_KUBEFLOW + key: value for key, value in own.items()}
    if group is not None:
        labels[_GROUP_LABEL] = group.name
    return labels


def _copy(template: Pod, name: str, labels: dict[str, str]) -> Pod:
    return evolve(
        template,
        name=name,
        uid=PodUID(f"{template.namespace}/{name}"),
        labels=FrozenMap({**template.labels, **labels}),
    )
