"""The fields of jobs, pods and pod groups that a simulation does not take over: notes name them.

Rules:
  R1  each kind has a table of the fields that are read, or that ask for nothing in a simulation. A
      note names any other that is given, such as one of a later version;
  R2  what only follows a failure asks for nothing unless an annotation lets a pod fail;
  R3  so do labels and annotations that a controller of queues or of topologies would respect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gangsched.manifests.fields import Field
from gangsched.manifests.manifest import Manifest
from gangsched.manifests.notes import NoteKind
from gangsched.manifests.peer_quotas.named import KEYS
from gangsched.manifests.pod_fields import Schema
from gangsched.simulation.workload import FAIL_SECONDS

__all__ = [
    "JOB_SPEC",
    "MPI_SPEC",
    "PYTORCH_SPEC",
    "TF_SPEC",
    "note_field",
    "note_fields",
    "note_pod",
    "note_queues",
]

_ANY: Final = "*"
"""In a table: every field that is not named."""
_NOT_TAKEN: Final[Schema] = {}
_EMPTY: Final[tuple[Any, ...]] = (None, [], {}, "")

_RUN_POLICY: Final[Schema] = {
    "cleanPodPolicy": None,
    "schedulingPolicy": {
        "minAvailable": None,
        "minResources": None,
        "scheduleTimeoutSeconds": None,
    },
    "suspend": None,
    "ttlSecondsAfterFinished": None,
}
_REPLICAS: Final[Schema] = {_ANY: {"replicas": None, "template": None}}

JOB_SPEC: Final[Schema] = {
    **dict.fromkeys(("completionMode", "completions", "parallelism", "suspend", "template")),
    **dict.fromkeys(("manualSelector", "selector", "ttlSecondsAfterFinished")),
}
"""``batch/v1`` ``Job``."""

TF_SPEC: Final[Schema] = {
    "enableDynamicWorker": None,
    "runPolicy": _RUN_POLICY,
    "tfReplicaSpecs": _REPLICAS,
}
PYTORCH_SPEC: Final[Schema] = {
    "elasticPolicy": {
        **dict.fromkeys(("minReplicas", "nProcPerNode")),
        **dict.fromkeys(("rdzvBackend", "rdzvConf", "rdzvHost", "rdzvId", "rdzvPort")),
        "standalone": None,
    },
    "nprocPerNode": None,
    "pytorchReplicaSpecs": _REPLICAS,
    "runPolicy": _RUN_POLICY,
}
MPI_SPEC: Final[Schema] = {
    **dict.fromkeys(("cleanPodPolicy", "mainContainer", "mpiImplementation", "slotsPerWorker")),
    **dict.fromkeys(("runLauncherAsWorker", "sshAuthMountPath")),
    "mpiReplicaSpecs": _REPLICAS,
    "runPolicy": _RUN_POLICY,
}

_ON_FAILURE: Final = frozenset(
    (
        *("backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes", "maxRestarts"),
        *("podFailurePolicy", "podReplacementPolicy", "restartPolicy"),
    )
)
_AS_USUAL: Final = {
    "launcherCreationPolicy": "AtStartup",
    "queue": "default",
    "managedBy": "kubernetes.io/job-controller",
}
"""The values with which a field asks for what is done anyway."""

_WHY: Final = {
    "activeDeadlineSeconds": "it does not end the job",
    "launcherCreationPolicy": "the launcher is created with the workers",
    "managedBy": "the pods are created all the same",
    "maxReplicas": "the number of workers does not change",
    "metrics": "the number of workers does not change",
    "priorityClass": "the group has the priority of its members",
    "queue": "no queue limits it",
    "successPolicy": "the job ends with its last pod",
    "waitForWorkers": "the launcher is created with the workers",
}

_TOPOLOGIES: Final = ("volcano.sh/numa-topology-policy",)
_QUEUES: Final = (
    *("kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"),
    *("kueue.x-k8s.io/job-min-parallelism", "kueue.x-k8s.io/max-exec-time-seconds"),
    *("volcano.sh/queue-name", "scheduling.volcano.sh/queue-name"),
)


def note_fields(manifest: Manifest, taken: Schema, *templates: Field) -> None:
    """Add a note for each field and each queue that a job gives and that is not taken over.

    Args:
        manifest: The document of the job.
        taken: The fields of its ``spec`` that are read, or ask for nothing.
        *templates: The templates of its pods.
    """
    can_fail = any(each["metadata"]["annotations"][FAIL_SECONDS].given for each in templates)
    for field in _untaken(manifest.document["spec"], taken, can_fail=can_fail):
        note_field(manifest, field, _WHY.get(field.path.rpartition(".")[2], ""))
    note_queues(manifest, manifest.document, "job")


def note_queues(manifest: Manifest, of: Field, subject: str) -> None:
    """Add a note for each queue that an object names, or what it asks that queue for."""
    read = KEYS.get(manifest.queues_from, ())
    keys = tuple(key for key in _QUEUES if key not in read)
    _note_keys(manifest, of["metadata"], keys, f"no queue admits the {subject}")


def note_pod(manifest: Manifest, template: Field) -> None:
    """Add a note for each topology and queue that a pod without a node asks another program for."""
    if not template["spec"]["nodeName"].given:
        note_queues(manifest, template, "pod")
        why = "the field schedulingConstraints of a PodGroup has a topology"
        _note_keys(manifest, template["metadata"], _TOPOLOGIES, why)


def note_field(manifest: Manifest, field: Field, why: str = "") -> None:
    """Add a note that a field is not taken over."""
    sentence = f"{field.path} is not simulated{': ' if why else ''}{why}"
    manifest.note(sentence, path=field.path, kind=NoteKind.IGNORED)


def _untaken(field: Field, taken: Schema, *, can_fail: bool) -> Iterator[Field]:
    for name, inner in field.entries():
        if inner.value in _EMPTY or inner.value is False or _AS_USUAL.get(name) == inner.value:
            continue
        schema = taken.get(name, taken.get(_ANY, _NOT_TAKEN))
        if name in _ON_FAILURE:
            schema = _NOT_TAKEN if can_fail else None
        if schema is _NOT_TAKEN:
            yield inner
        elif schema is not None:
            yield from _untaken(inner, schema, can_fail=can_fail)


def _note_keys(manifest: Manifest, metadata: Field, keys: tuple[str, ...], why: str) -> None:
    for where in ("labels", "annotations"):
        for key, field in metadata[where].entries():
            if key in keys:
                note_field(manifest, field, why)
