"""The fields of a pod group's specification: which are read, which hold the group's pods.

Rules:
  R1  each dialect has a table of its fields. A field that is not in it may be a constraint, so it
      holds the pods of the group;
  R2  the fields of Kubernetes' own groups have a schema. A field in them that it lacks holds the
      pods too;
  R3  an annotation of Koordinator means on a group what it means on its pods;
  R4  a field that describes the group, or names its template, restricts nothing;
  R5  a ``Workload`` has templates of groups. A controller copies a template into each group, so
      nothing is read of the workload itself;
  R6  a group below a composite pod group starts with the tree, so it cannot have a bundle too.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any, Final

from gangsched.manifests.fields import Field
from gangsched.manifests.manifest import Manifest
from gangsched.manifests.notes import NoteKind
from gangsched.manifests.pod_annotations import held_by_annotations
from gangsched.manifests.pod_fields import Schema, Treatment, unknown

__all__ = [
    "COMPOSITE",
    "COMPOSITE_SCHEMAS",
    "CORE",
    "CORE_SCHEMAS",
    "DIALECTS",
    "GROUP_KINDS",
    "HELD_IN_PART",
    "KAI",
    "KUBE_BATCH",
    "SCHEDULER_PLUGINS",
    "VOLCANO",
    "WORKLOAD",
    "held",
    "hold",
    "is_composite",
    "is_in_tree",
]

_HONOURED, _HELD, _FREE = Treatment.HONOURED, Treatment.HELD, Treatment.FREE

SCHEDULER_PLUGINS: Final[Mapping[str, Treatment]] = {
    "minMember": _HONOURED,
    "minResources": _HONOURED,
    "scheduleTimeoutSeconds": _HONOURED,
}
"""``scheduling.x-k8s.io`` and ``scheduling.sigs.k8s.io``."""

VOLCANO: Final[Mapping[str, Treatment]] = {
    "minMember": _HONOURED,
    "minTaskMember": _HONOURED,
    "minResources": _HONOURED,
    "priorityClassName": _HONOURED,
    "queue": _HELD,
    "networkTopology": _HONOURED,
    "subGroupPolicy": _HONOURED,
}
"""``scheduling.volcano.sh``; a queue of the name ``default`` holds nothing.

What of ``subGroupPolicy`` and ``networkTopology`` has no meaning here holds the pods: see
``sub_groups`` and ``network_topology``."""

KAI: Final[Mapping[str, Treatment]] = {
    "minMember": _HONOURED,
    "minSubGroup": _HONOURED,
    "subGroups": _HONOURED,
    "priorityClassName": _HONOURED,
    "queue": _HELD,
    "topologyConstraint": _HONOURED,
    "preemptibility": _HELD,
    "preemptionDelay": _HELD,
    "markUnschedulable": _FREE,
    "schedulingBackoff": _FREE,
    "stalenessGracePeriod": _FREE,
}
"""``scheduling.run.ai``, of KAI Scheduler.

A queue of the name ``default`` or ``default-queue``, ``preemptible`` and a delay of 0 hold nothing.
What of ``subGroups`` has no meaning here holds the pods: see ``kai_groups``."""

KUBE_BATCH: Final[Mapping[str, Treatment]] = {
    "minMember": _HONOURED,
    "minMembers": _HONOURED,
    "minResources": _HONOURED,
    "scheduleTimeoutSeconds": _HONOURED,
    "priorityClassName": _HONOURED,
    "queue": _HELD,
}
"""``scheduling.incubator.k8s.io``, and ``incubator.scheduling.k8s.io`` of KEP-34."""

CORE: Final[Mapping[str, Treatment]] = {
    "podGroupTemplateRef": _FREE,
    "workloadRef": _FREE,
    "parentCompositePodGroupName": _HONOURED,
    "schedulingPolicy": _HONOURED,
    "schedulingConstraints": _HONOURED,
    "resourceClaims": _HELD,
    "disruptionMode": _HONOURED,
    "preemptionPolicy": _HONOURED,
    "priorityClassName": _HONOURED,
    "priority": _HONOURED,
}
"""``scheduling.k8s.io``: ``v1beta1`` and ``v1alpha3`` of 1.37, ``v1alpha2`` of 1.36.

``workloadRef`` of 1.37 was ``podGroupTemplateRef``."""

COMPOSITE: Final[Mapping[str, Treatment]] = {
    name: CORE[name] for name in CORE if name not in ("podGroupTemplateRef", "resourceClaims")
}
"""``CompositePodGroup`` of ``scheduling.k8s.io``: ``v1alpha3`` of 1.37."""

GROUP_KINDS: Final = ("PodGroup", "CompositePodGroup")
"""The kinds of objects that are groups. Only Kubernetes has the second."""

WORKLOAD: Final[Mapping[str, Treatment]] = {
    "controllerRef": _FREE,
    "podGroupTemplates": _FREE,
    "compositePodGroupTemplates": _FREE,
}
"""``Workload`` of ``scheduling.k8s.io``."""

DIALECTS: Final[Mapping[str, Mapping[str, Treatment]]] = {
    "scheduling.x-k8s.io": SCHEDULER_PLUGINS,
    "scheduling.sigs.k8s.io": SCHEDULER_PLUGINS,
    "scheduling.volcano.sh": VOLCANO,
    "scheduling.run.ai": KAI,
    "scheduling.incubator.k8s.io": KUBE_BATCH,
    "incubator.scheduling.k8s.io": KUBE_BATCH,
    "scheduling.k8s.io": CORE,
}
"""The fields of each dialect, by API group."""

_TOPOLOGY_OF_KAI: Final[Schema] = {
    "topology": None,
    "requiredTopologyLevel": None,
    "preferredTopologyLevel": None,
}

HELD_IN_PART: Final = (
    *(
        "networkTopology",
        "subGroupPolicy",
        "subGroupPolicy.matchLabelKeys",
        "subGroupPolicy.minSubGroups",
    ),
    *("subGroupPolicy.networkTopology", "minTaskMember"),
    *("subGroups", "subGroups.minSubGroup", "subGroups.topologyConstraint", "minSubGroup"),
    "topologyConstraint",
)
"""Fields that are honoured, but parts or some values of them hold the pods of a group."""

CORE_SCHEMAS: Final[Schema] = {
    "schedulingPolicy": {"gang": {"minCount": None}, "basic": {}},
    "schedulingConstraints": {"topology": {"key": None}},
    "disruptionMode": {"single": {}, "all": {}},
}
"""The fields within fields of ``CORE`` that are read."""

COMPOSITE_SCHEMAS: Final[Schema] = {
    **CORE_SCHEMAS,
    "schedulingPolicy": {"gang": {"minGroupCount": None}, "basic": {}},
}
"""The fields within fields of ``COMPOSITE`` that are read."""

KAI_SCHEMAS: Final[Schema] = {
    "topologyConstraint": _TOPOLOGY_OF_KAI,
    "subGroups": {
        **dict.fromkeys(("name", "minMember", "minSubGroup", "parent")),
        "topologyConstraint": _TOPOLOGY_OF_KAI,
    },
}
"""The fields within fields of ``KAI`` that are read."""

# Fields of all dialects but Kubernetes' own were read alike before there was a table for each. So
# that a group of one dialect may use a field of another, the tables are put together there.
_FOREIGN: Final = {**SCHEDULER_PLUGINS, **KUBE_BATCH, **VOLCANO, "priority": _HONOURED}

_EMPTY: Final[tuple[Any, ...]] = (None, [], {}, "")


def held(manifest: Manifest, *, core: bool = False, kai: bool = False) -> Iterator[str]:
    """Yield the constraints that hold the pods of a group, each in words; note each.

    Args:
        manifest: The group's document.
        core: Whether it is a group of Kubernetes' own.
        kai: Whether it is a group of KAI Scheduler.

    Raises:
        ManifestError: A field is malformed.
    """
    spec = manifest.document["spec"]
    table, schemas = (KAI, KAI_SCHEMAS) if kai else _tables(manifest, core=core)
    queues = ("default", "default-queue") if kai else ("default",)
    for name, field in spec.entries():
        treatment = table.get(name, _HELD)
        if treatment is not _HELD or field.value in _EMPTY:
            continue
        if name == "queue" and manifest.queues_from == ("kai" if kai else "volcano"):
            continue  # its quota is read
        if _asks_for_nothing(name, field, queues):
            continue
        yield from hold(manifest, field)
    for name, schema in schemas.items():
        if isinstance(spec[name].value, str):
            continue  # the disruption mode of 1.36 is a word
        for field in unknown(spec[name], schema):
            yield from hold(manifest, field)
    topology = spec["schedulingConstraints"]["topology"]
    if core and len(list(topology.elements())) > 1:
        yield from hold(manifest, topology)
    annotations = manifest.document["metadata"]["annotations"]
    bundles = not core or not is_in_tree(manifest)
    yield from held_by_annotations(manifest, annotations, of_group=True, bundles=bundles)


def _tables(manifest: Manifest, *, core: bool) -> tuple[Mapping[str, Treatment], Schema]:
    if not core:
        return _FOREIGN, {}
    if is_composite(manifest):
        return COMPOSITE, COMPOSITE_SCHEMAS
    return CORE, CORE_SCHEMAS


def is_composite(manifest: Manifest) -> bool:
    """Return whether an object is a group of groups."""
    return manifest.kind == "CompositePodGroup"


def is_in_tree(manifest: Manifest) -> bool:
    """Return whether a group has a parent or children."""
    parent = manifest.document["spec"]["parentCompositePodGroupName"]
    return is_composite(manifest) or bool(parent.text())


def hold(manifest: Manifest, field: Field, why: str = "") -> Iterator[str]:
    """Yield a field that holds the pods of a group, unless it is to be ignored.

    Args:
        manifest: The group's document.
        field: The field.
        why: Why it is not modelled, if other values of it are.
    """
    said = f" ({why})" if why else ""
    if manifest.ignores(field.path):
        sentence = f"{field.path} is not modelled{said} and was ignored"
        manifest.note(sentence, path=field.path, kind=NoteKind.IGNORED)
        return
    sentence = f"{field.path} is not modelled{said}, so the pods of the group are held"
    manifest.note(sentence, path=field.path, kind=NoteKind.HELD)
    yield f"{field.path}{said}"


def _asks_for_nothing(name: str, field: Field, queues: Container[str]) -> bool:
    match name:
        case "queue":
            return field.text() in queues
        case "preemptibility":
            return field.text() == "preemptible"
        case "preemptionDelay":
            return not field.text().strip("0hms")
        case _:
            return False
