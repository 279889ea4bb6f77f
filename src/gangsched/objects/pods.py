"""Pods, templates of pods, and nodes from documents.

Rules:
  R1  a pod is read as kube-scheduler would see it after the API server accepted it;
  R2  instants in a document are of another clock: a pod is created when it arrives, and a pod
      that is being deleted has been so since it arrived;
  R3  a field that restricts a pod's nodes and that the model lacks is reported in a note; one
      that only makes some nodes better than others is ignored;
  R4  a bound pod always counts. Its requests are taken from its node, whatever restricted its
      nodes before, so a malformed or unknown restriction is ignored with a note. The pods of
      DaemonSets are an example: each is bound to its node by ``matchFields``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol, TypeVar

from gangsched.constraints import (
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Taint,
    TaintEffect,
    Toleration,
)
from gangsched.errors import InvalidValueError, ManifestError
from gangsched.model import Node, NodeName, Pod, PodPhase, PodUID, PreemptionPolicy
from gangsched.objects.fields import Field
from gangsched.objects.manifest import Manifest
from gangsched.objects.podresources import pod_limits, pod_requests
from gangsched.resources import EMPTY

__all__ = ["read_node", "read_pod"]

T = TypeVar("T")

_EFFECTS: Final = tuple(effect.value for effect in TaintEffect)
_PHASES: Final = tuple(phase.value for phase in PodPhase)
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def read_pod(manifest: Manifest, template: Field) -> Pod:
    """Return the pod of a ``Pod`` document, or of a template in another object's document.

    Args:
        manifest: The pod's own document, or that of its owner. It gives the name.
        template: The field with ``metadata`` and ``spec``: the document, or a template in it.

    Raises:
        ManifestError: A field is malformed. In a bound pod, a malformed restriction of its
            nodes is ignored with a note instead.
        InvalidValueError: An argument has a wrong type.
    """
    _check_arguments(manifest, template)
    at = manifest.at
    metadata, spec = template["metadata"], template["spec"]
    if not any(spec["containers"].elements()):
        raise spec["containers"].refuse("at least one container")
    restriction = _reader_of_restrictions(manifest, spec)
    pod = Pod(
        name=manifest.name,
        uid=PodUID(metadata["uid"].text(f"{manifest.namespace}/{manifest.name}")),
        namespace=manifest.namespace,
        priority=restriction(lambda: manifest.classes.priority_of(spec), 0),
        requests=pod_requests(spec),
        limits=pod_limits(spec),
        labels=metadata["labels"].texts(),
        annotations=metadata["annotations"].texts(),
        node_selector=restriction(spec["nodeSelector"].texts, EMPTY),
        affinity=restriction(
            lambda: tuple(_terms(spec["affinity"]["nodeAffinity"][_REQUIRED])), ()
        ),
        tolerations=restriction(
            lambda: tuple(_toleration(each) for each in spec["tolerations"].elements()), ()
        ),
        pod_group=spec["schedulingGroup"]["podGroupName"].text() or None,
        scheduling_gates=tuple(each["name"].name() for each in spec["schedulingGates"].elements()),
        owners=tuple(each["name"].name() for each in metadata["ownerReferences"].elements()),
        node_name=NodeName(spec["nodeName"].text()) or None,
        phase=PodPhase(template["status"]["phase"].word(_PHASES, "Pending")),
        deleted_at=at if metadata["deletionTimestamp"].text() else None,
        created_at=at,
        preemption_policy=restriction(
            lambda: manifest.classes.policy_of(spec), PreemptionPolicy.PREEMPT_LOWER_PRIORITY
        ),
    )
    none: tuple[Field, ...] = ()
    for field in restriction(lambda: tuple(_not_modelled(spec)), none):
        manifest.note_ignored(field)
    return pod


class _ReadRestriction(Protocol):
    def __call__(self, read: Callable[[], T], default: T, /) -> T: ...


def _reader_of_restrictions(manifest: Manifest, spec: Field) -> _ReadRestriction:
    """Return what reads a restriction: strictly, or with a default if the pod is bound."""

    def strictly(read: Callable[[], T], _default: T) -> T:
        return read()

    def leniently(read: Callable[[], T], default: T) -> T:
        try:
            return read()
        except ManifestError as error:
            manifest.note(f"{error.field}: {error.problem}; ignored, as the pod is bound already")
            return default

    return leniently if spec["nodeName"].text() else strictly


def _check_arguments(manifest: object, template: object) -> None:
    if not isinstance(manifest, Manifest):
        raise InvalidValueError("manifest", manifest, "a Manifest, see read_manifest")
    if not isinstance(template, Field):
        raise InvalidValueError("template", template, "a Field")


def read_node(manifest: Manifest) -> Node:
    """Return the node of a ``Node`` document.

    Raises:
        ManifestError: A field is malformed.
        InvalidValueError: *manifest* is not a Manifest.
    """
    if not isinstance(manifest, Manifest):
        raise InvalidValueError("manifest", manifest, "a Manifest, see read_manifest")
    spec, status = manifest.document["spec"], manifest.document["status"]
    offered = status["allocatable"] if status["allocatable"].given else status["capacity"]
    if not offered.given:
        manifest.note("it has no resources: status.allocatable and status.capacity are absent")
    return Node(
        name=NodeName(manifest.name),
        allocatable=offered.resources(),
        labels=manifest.document["metadata"]["labels"].texts(),
        taints=tuple(_taint(each) for each in spec["taints"].elements()),
        unschedulable=spec["unschedulable"].flag(),
    )


def _taint(field: Field) -> Taint:
    effect = field["effect"].word(_EFFECTS)
    return Taint(field["key"].name(), field["value"].text(), TaintEffect(effect))


def _toleration(field: Field) -> Toleration:
    exists = field["operator"].word(("Exists", "Equal"), "Equal") == "Exists"
    effect = field["effect"].word(_EFFECTS, "")
    if exists and field["value"].text():
        raise field["value"].refuse("no value, as the operator is Exists")
    try:
        return Toleration(
            key=field["key"].text(),
            value=field["value"].text(),
            exists=exists,
            effect=TaintEffect(effect) if effect else None,
        )
    except InvalidValueError as error:
        raise field[error.field].refuse_as(error) from error


def _terms(required: Field) -> Iterator[NodeSelectorTerm]:
    terms = tuple(required["nodeSelectorTerms"].elements())
    if required.given and not terms:
        raise required["nodeSelectorTerms"].refuse("at least one term")
    for term in terms:
        if any(term["matchFields"].elements()):
            raise term["matchFields"].refuse("no matchFields, which are not supported")
        yield NodeSelectorTerm(
            tuple(_requirement(each) for each in term["matchExpressions"].elements())
        )


def _requirement(field: Field) -> NodeSelectorRequirement:
    operator = field["operator"].word(NodeSelectorRequirement.OPERATORS)
    values = tuple(each.text() for each in field["values"].elements())
    try:
        return NodeSelectorRequirement(field["key"].name(), operator, values)
    except InvalidValueError as error:
        raise field[error.field].refuse_as(error) from error


def _not_modelled(spec: Field) -> Iterator[Field]:
    for name in ("podAffinity", "podAntiAffinity"):
        if any(spec["affinity"][name][_REQUIRED].elements()):
            yield spec["affinity"][name]
    spread = spec["topologySpreadConstraints"]
    if any(each["whenUnsatisfiable"].text() == "DoNotSchedule" for each in spread.elements()):
        yield spread
    for container in spec["containers"].elements():
        for port in container["ports"].elements():
            if port["hostPort"].whole(0, least=0):
                yield port["hostPort"]
    for volume in spec["volumes"].elements():
        for kind in ("persistentVolumeClaim", "ephemeral"):
            if volume[kind].given:
                yield volume[kind]
    if any(spec["resourceClaims"].elements()):
        yield spec["resourceClaims"]
    if spec["workloadRef"].given:
        yield spec["workloadRef"]
