"""Pods, and the templates of pods, from documents.

Rules:
  R1  a pod is read as kube-scheduler would see it once the API server took it in;
  R2  the instants in a document are of another clock: a pod is created when it arrives, and
      if its deletion was asked for, that was then too;
  R3  what keeps a pod from nodes, and has no place in the model, is told in a note; what only
      makes one node better than another is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gangsched.constraints import (
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Taint,
    TaintEffect,
    Toleration,
)
from gangsched.errors import InvalidValueError
from gangsched.model import Node, NodeName, Pod, PodPhase, PodUID
from gangsched.objects.fields import Field
from gangsched.objects.manifest import Manifest
from gangsched.objects.podresources import pod_limits, pod_requests

__all__ = ["read_node", "read_pod"]

_EFFECTS: Final = tuple(effect.value for effect in TaintEffect)
_PHASES: Final = tuple(phase.value for phase in PodPhase)
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def read_pod(manifest: Manifest, template: Field) -> Pod:
    """Return the pod of a ``Pod`` document; of a template, one that bears its owner's name.

    Args:
        manifest: The pod's own document, or its owner's.
        template: Where ``metadata`` and ``spec`` are: the document itself, or a template in it.

    Raises:
        ManifestError: Something in it is malformed.
    """
    at = manifest.at
    metadata, spec = template["metadata"], template["spec"]
    if not any(spec["containers"].elements()):
        raise spec["containers"].refuse("at least one container")
    pod = Pod(
        name=manifest.name,
        uid=PodUID(metadata["uid"].text(f"{manifest.namespace}/{manifest.name}")),
        namespace=manifest.namespace,
        priority=manifest.classes.priority_of(spec),
        requests=pod_requests(spec),
        limits=pod_limits(spec),
        labels=metadata["labels"].texts(),
        annotations=metadata["annotations"].texts(),
        node_selector=spec["nodeSelector"].texts(),
        affinity=tuple(_terms(spec["affinity"]["nodeAffinity"][_REQUIRED])),
        tolerations=tuple(_toleration(each) for each in spec["tolerations"].elements()),
        pod_group=spec["schedulingGroup"]["podGroupName"].text() or None,
        scheduling_gates=tuple(each["name"].name() for each in spec["schedulingGates"].elements()),
        owners=tuple(each["name"].name() for each in metadata["ownerReferences"].elements()),
        node_name=NodeName(spec["nodeName"].text()) or None,
        phase=PodPhase(template["status"]["phase"].word(_PHASES, "Pending")),
        deleted_at=at if metadata["deletionTimestamp"].text() else None,
        created_at=at,
        preemption_policy=manifest.classes.policy_of(spec),
    )
    for field in _not_modelled(spec):
        manifest.note_ignored(field)
    return pod


def read_node(manifest: Manifest) -> Node:
    """Return the node of a ``Node`` document.

    Raises:
        ManifestError: Something in it is malformed.
    """
    spec, status = manifest.document["spec"], manifest.document["status"]
    offered = status["allocatable"] if status["allocatable"].given else status["capacity"]
    if not offered.given:
        manifest.note("it offers nothing: it has no status.allocatable and no status.capacity")
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
        raise field["value"].refuse("no value with the operator Exists")
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
