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

from collections.abc import Iterator, Mapping
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
    "networkTopology": _HELD,
    "subGroupPolicy": _HELD,
}
"""``scheduling.volcano.sh``; a queue of the name ``default`` and a soft topology hold nothing."""

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
    "scheduling.incubator.k8s.io": KUBE_BATCH,
    "incubator.scheduling.k8s.io": KUBE_BATCH,
    "scheduling.k8s.io": CORE,
}
"""The fields of each dialect, by API group."""

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

# Fields of all dialects but Kubernetes' own were read alike before there was a table for each. So
# that a group of one dialect may use a field of another, the tables are put together there.
_FOREIGN: Final = {**SCHEDULER_PLUGINS, **KUBE_BATCH, **VOLCANO, "priority": _HONOURED}

_EMPTY: Final[tuple[Any, ...]] = (None, [], {}, "")


def held(manifest: Manifest, *, core: bool) -> Iterator[str]:
    """Yield the constraints that hold the pods of a group, each in words; note each.

    Args:
        manifest: The group's document.
        core: Whether it is a group of Kubernetes' own.

    Raises:
        ManifestError: A field is malformed.
    """
    spec = manifest.document["spec"]
    table, schemas = _tables(manifest, core=core)
    for name, field in spec.entries():
        treatment = table.get(name, _HELD)
        if treatment is not _HELD or field.value in _EMPTY or _asks_for_nothing(name, field):
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


def hold(manifest: Manifest, field: Field) -> Iterator[str]:
    """Yield the path of a field that holds the pods of a group, unless it is to be ignored."""
    if manifest.ignores(field.path):
        sentence = f"{field.path} is not modelled and was ignored"
        manifest.note(sentence, path=field.path, kind=NoteKind.IGNORED)
        return
    sentence = f"{field.path} is not modelled, so the pods of the group are held"
    manifest.note(sentence, path=field.path, kind=NoteKind.HELD)
    yield field.path


def _asks_for_nothing(name: str, field: Field) -> bool:
    if name == "queue":
        return field.text() == "default"
    if name == "networkTopology":
        return field["mode"].text("hard") == "soft"
    return False
