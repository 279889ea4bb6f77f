"""Pods, templates of pods, and nodes from documents.

Rules:
  R1  a pod is read as kube-scheduler would see it after the API server accepted it;
  R2  instants in a document are of another clock: a pod is created when it arrives, and a pod
      that is being deleted has been so since it arrived;
  R3  a field that may restrict a pod's nodes and that is not modelled holds the pod: it becomes
      part of ``Pod.unmodelled``, and a note names it. ``Manifest.ignore`` names exceptions;
  R4  a field that only makes some nodes better than others never refuses a pod: if it is
      malformed, it is ignored with a note;
  R5  a bound pod always counts. Its requests are taken from its node, whatever else it says, so
      only what it requests must be well-formed. Anything else that is malformed, or an unknown
      restriction, is ignored with a note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol, TypeVar

from attrs import evolve

from gangsched.constraints import ContainerImage, NodeSelectorTerm, Taint, TaintEffect
from gangsched.errors import InvalidValueError, ManifestError
from gangsched.manifests.affinity import (
    REQUIRED,
    read_pod_terms,
    read_preferred_node_terms,
    read_spread,
    read_weighted_pod_terms,
)
from gangsched.manifests.fields import Field
from gangsched.manifests.manifest import Manifest
from gangsched.manifests.notes import NoteKind
from gangsched.manifests.pod_annotations import held_by_annotations
from gangsched.manifests.pod_fields import unmodelled
from gangsched.manifests.pod_topologies import asked_by
from gangsched.manifests.pod_volumes import (
    read_claims,
    read_disks,
    read_host_ports,
    read_image_volumes,
    read_images,
    read_required_features,
)
from gangsched.manifests.podresources import pod_limits, pod_requests
from gangsched.manifests.queues import queue_in
from gangsched.manifests.resized import read_given
from gangsched.manifests.runtime_classes import with_runtime_class
from gangsched.manifests.selectors import (
    EFFECTS,
    compares_text,
    node_selector_terms,
    read_node_selector_term,
    read_toleration,
)
from gangsched.model import Node, NodeName, Pod, PodPhase, PodUID, PreemptionPolicy
from gangsched.resources import EMPTY, NOTHING, Resources

__all__ = ["read_node", "read_pod"]

T = TypeVar("T")

_PHASES: Final = tuple(phase.value for phase in PodPhase)
_DEFAULT_SCHEDULER: Final = "default-scheduler"
_INT64: Final = 2**63 - 1


def read_pod(manifest: Manifest, template: Field) -> Pod:
    """Return the pod of a ``Pod`` document, or of a template in another object's document.

    Args:
        manifest: The pod's own document, or that of its owner. It gives the name.
        template: The field with ``metadata`` and ``spec``: the document, or a template in it.

    Raises:
        ManifestError: A field is malformed. In a bound pod, this is ignored with a note instead,
            except for its identity and requests.
        InvalidValueError: An argument has a wrong type.
    """
    _check_arguments(manifest, template)
    at = manifest.at
    metadata, spec = template["metadata"], template["spec"]
    affinity = spec["affinity"]
    nodes = affinity["nodeAffinity"]
    if not any(spec["containers"].elements()):
        raise spec["containers"].refuse("at least one container")
    restriction = _reader_of_restrictions(manifest, spec)
    preference = _leniently(manifest, "it is only a preference")
    pod = Pod(
        name=manifest.name,
        uid=PodUID(metadata["uid"].text(f"{manifest.namespace}/{manifest.name}")),
        namespace=manifest.namespace,
        priority=restriction(lambda: manifest.classes.priority_of(spec), 0),
        requests=_requests(spec, template["status"], restriction),
        limits=restriction(lambda: pod_limits(spec), NOTHING),
        labels=restriction(metadata["labels"].texts, EMPTY),
        annotations=restriction(metadata["annotations"].texts, EMPTY),
        node_selector=restriction(spec["nodeSelector"].texts, EMPTY),
        affinity=restriction(lambda: tuple(_node_terms(manifest, nodes[REQUIRED])), ()),
        tolerations=restriction(
            lambda: tuple(map(read_toleration, spec["tolerations"].elements())), ()
        ),
        pod_group=restriction(lambda: spec["schedulingGroup"]["podGroupName"].text(), "") or None,
        queue=restriction(lambda: queue_in(metadata), None),
        scheduling_gates=restriction(lambda: _names(spec["schedulingGates"]), ()),
        owners=restriction(lambda: _names(metadata["ownerReferences"]), ()),
        controller=restriction(lambda: _controller(metadata["ownerReferences"]), ""),
        node_name=NodeName(spec["nodeName"].text()) or None,
        phase=restriction(
            lambda: PodPhase(template["status"]["phase"].word(_PHASES, "Pending")),
            PodPhase.UNKNOWN,
        ),
        deleted_at=at if metadata["deletionTimestamp"].text() else None,
        created_at=at,
        preemption_policy=restriction(
            lambda: manifest.classes.policy_of(spec), PreemptionPolicy.PREEMPT_LOWER_PRIORITY
        ),
        pod_affinity=restriction(lambda: tuple(read_pod_terms(affinity["podAffinity"])), ()),
        pod_anti_affinity=restriction(
            lambda: tuple(read_pod_terms(affinity["podAntiAffinity"])), ()
        ),
        preferred_node_affinity=preference(lambda: tuple(read_preferred_node_terms(nodes)), ()),
        preferred_pod_affinity=preference(
            lambda: tuple(read_weighted_pod_terms(affinity["podAffinity"])), ()
        ),
        preferred_pod_anti_affinity=preference(
            lambda: tuple(read_weighted_pod_terms(affinity["podAntiAffinity"])), ()
        ),
        topology_spread_constraints=restriction(
            lambda: tuple(read_spread(spec["topologySpreadConstraints"])), ()
        ),
        host_ports=restriction(lambda: tuple(read_host_ports(spec)), ()),
        images=preference(lambda: tuple(read_images(spec)), ()),
        image_volumes=preference(lambda: tuple(read_image_volumes(spec["volumes"])), ()),
        required_features=restriction(lambda: tuple(read_required_features(spec)), ()),
        volume_claims=restriction(lambda: tuple(read_claims(spec["volumes"])), ()),
        disks=restriction(lambda: tuple(read_disks(spec["volumes"])), ()),
        unmodelled=restriction(lambda: tuple(_held(manifest, spec, metadata)), ()),
    )
    return with_runtime_class(manifest, spec, _held_alone(manifest, metadata, pod))


def _held_alone(manifest: Manifest, metadata: Field, pod: Pod) -> Pod:
    """Return a pod; held if it asks for a topology that only its whole set has, see ``gathers``."""
    asked = None if manifest.gathers or pod.node_name is not None else asked_by(pod)
    held: list[str] = []
    for key in asked.words if asked is not None and asked.is_hard else ():
        path = metadata["annotations"][key].path
        is_ignored = key in manifest.ignore or f"metadata.annotations.{key}" in manifest.ignore
        kind, said = (
            (NoteKind.IGNORED, "was ignored")
            if is_ignored
            else (NoteKind.HELD, "the pod is held, since it says not which others are of its set")
        )
        manifest.note(f"{key}: {said}", path=path, kind=kind)
        held += () if is_ignored else (key,)
    return evolve(pod, unmodelled=(*pod.unmodelled, *held)) if held else pod


def _names(field: Field) -> tuple[str, ...]:
    return tuple(each["name"].name() for each in field.elements())


def _controller(owners: Field) -> str:
    """Return API version, kind and name of the first owner that is a controller; or nothing."""
    for each in owners.elements():
        if each["controller"].flag():
            return "/".join((each["apiVersion"].text(), each["kind"].text(), each["name"].name()))
    return ""


def _requests(spec: Field, status: Field, restriction: _ReadRestriction) -> Resources:
    """Return what a pod requests; of a bound pod, whatever its limits and its status say."""
    found = restriction(lambda: pod_requests(spec, read_given(status)), None)
    return pod_requests(spec, lenient=True) if found is None else found


def _node_terms(manifest: Manifest, selector: Field) -> Iterator[NodeSelectorTerm]:
    """Yield the required terms of node affinity; add a note about one that is passed over."""
    for field in node_selector_terms(selector):
        if compares_text(field):
            sentence = f"{field.path} compares with what is no integer, so it matches no node"
            manifest.note(sentence, path=field.path)
            yield NodeSelectorTerm(())
        else:
            yield read_node_selector_term(field)


class _ReadRestriction(Protocol):
    def __call__(self, read: Callable[[], T], default: T, /) -> T: ...


def _reader_of_restrictions(manifest: Manifest, spec: Field) -> _ReadRestriction:
    """Return what reads a field: strictly, or with a default if the pod is bound."""

    def strictly(read: Callable[[], T], _default: T) -> T:
        return read()

    bound = "the pod is bound already"
    return _leniently(manifest, bound) if spec["nodeName"].text() else strictly


def _leniently(manifest: Manifest, why: str) -> _ReadRestriction:
    """Return what reads a field, or returns a default and adds a note if it is malformed."""

    def leniently(read: Callable[[], T], default: T) -> T:
        try:
            return read()
        except ManifestError as error:
            sentence = f"{error.field}: {error.problem}; ignored, as {why}"
            manifest.note(sentence, path=error.field, kind=NoteKind.IGNORED)
            return default

    return leniently


def _held(manifest: Manifest, spec: Field, metadata: Field) -> Iterator[str]:
    """Yield the constraints that hold a pod, each in words; add a note about each.

    A bound pod is not held, and its notes say that the constraint is ignored.
    """
    bound = bool(spec["nodeName"].text())
    for field in unmodelled(spec):
        path = f"spec{field.path.removeprefix(spec.path)}"
        if bound or manifest.ignores(path):
            sentence = f"{field.path} is not modelled and was ignored"
            manifest.note(sentence, path=field.path, kind=NoteKind.IGNORED)
        else:
            sentence = f"{field.path} is not modelled, so the pod is held"
            manifest.note(sentence, path=field.path, kind=NoteKind.HELD)
            yield path
    names, name = manifest.scheduler_names, spec["schedulerName"]
    asked = name.text(_DEFAULT_SCHEDULER)
    if names is not None and asked not in names and not bound:
        manifest.note(
            f"{name.path} is {asked!r}, which is another scheduler, so the pod is held",
            path=name.path,
            kind=NoteKind.HELD,
        )
        yield f"spec.schedulerName ({asked})"
    if not bound:
        yield from held_by_annotations(manifest, metadata["annotations"])


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
        images=_leniently(manifest, "images only make a node better")(
            lambda: tuple(_images(status)), ()
        ),
        declared_features=tuple(each.name() for each in status["declaredFeatures"].elements()),
    )


def _taint(field: Field) -> Taint:
    effect = field["effect"].word(EFFECTS)
    return Taint(field["key"].name(), field["value"].text(), TaintEffect(effect))


def _images(status: Field) -> Iterator[ContainerImage]:
    for each in status["images"].elements():
        names = tuple(name.text() for name in each["names"].elements())
        yield ContainerImage(names, each["sizeBytes"].whole(0, least=0, most=_INT64))
