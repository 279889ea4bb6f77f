"""Pods from the API server's JSON, fast: like pods are read once.

Theory of operation. ``convert`` and ``objects`` read an object completely and slowly, and are the
only place that knows what a specification means. A pod is seen four times in its life, and a job
has hundreds of pods that differ in their names only. So a pod is decoded into typed structs
(``_pod_json``), its specification gives a key, and the first pod of each key is read by the slow
reader. Each other one is a copy of that pod with its own name, labels, node and status. Nodes and
groups are remembered by the bytes that they are read from, because most of their events change
only what nothing is read from (heartbeats, conditions).

Rules:
  R1  the result is equal to the slow reader's, for each object. Whatever is not plainly readable
      here is handed to it, so errors and notes are its own;
  R2  what is kept is bounded: caches forget, and no value refers to the JSON that it came from;
  R3  equal values of two keys are one object. A pod has another key once it is bound, and the echo
      of a bind is recognised by comparing it with the pod before: what is one object is equal.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, TypeVar, cast, final

from attrs import evolve, fields, frozen, has

from gangsched.constraints import NodeSelectorTerm
from gangsched.errors import ManifestError
from gangsched.kubernetes._annotations import MOST, kept_annotations
from gangsched.kubernetes._caches import Shared
from gangsched.kubernetes._extra import missing
from gangsched.kubernetes._facts import Condition, PodFacts
from gangsched.kubernetes._known import Identity
from gangsched.kubernetes._pod_json import PodJson, decode_pod_json, key_of, quoted
from gangsched.kubernetes._read import (
    conditions_in,
    identity_in,
    mapping_in,
    read_document,
    read_pod_slowly,
    text_in,
    whole_in,
)
from gangsched.manifests.queues import QUEUE
from gangsched.model import NodeName, Pod, PodPhase, PodUID
from gangsched.resources import EMPTY, FrozenMap

try:
    import msgspec
except ModuleNotFoundError as error:
    raise missing(error) from error

__all__ = ["PodDecoder", "UnreadablePodError"]

T = TypeVar("T")

_OF_ITS_OWN: Final = (
    *("name", "namespace", "uid", "labels", "annotations", "owners", "controller", "node_name"),
    *("phase", "deleted_at", "created_at", "pod_group", "queue"),
)
"""What two pods with one key may differ in."""

_SHARED: Final = tuple(each.name for each in fields(Pod) if each.name not in _OF_ITS_OWN)
# The values have been validated: those that are shared by the constructor, when the first pod of
# the key was read, and the others here. A second validation costs 10 µs a pod, four fifths of all.
_SETTERS: Final[Any] = tuple(Pod.__dict__[name].__set__ for name in _SHARED)
(
    _set_name,
    _set_namespace,
    _set_uid,
    _set_labels,
    _set_annotations,
    _set_owners,
    _set_controller,
    _set_node_name,
    _set_phase,
    _set_deleted_at,
    _set_created_at,
    _set_pod_group,
    _set_queue,
) = cast("Any", tuple(Pod.__dict__[name].__set__ for name in _OF_ITS_OWN))
_set_affinity: Final[Any] = Pod.__dict__["affinity"].__set__

_PHASES: Final = {phase.value: phase for phase in PodPhase} | {"": PodPhase.PENDING}
_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII).fullmatch
_MOST_EQUAL: Final = 16384
_DEFAULT_SCHEDULER: Final = "default-scheduler"
_KEPT_CONDITIONS: Final = frozenset({"PodScheduled", "DisruptionTarget"})
"""What a scheduler reads; kubelets report five more, which every pod would carry."""


class _Owner(msgspec.Struct, gc=False):
    name: str
    kind: str | None = None
    apiVersion: str | None = None  # noqa: N815
    controller: bool | None = None


_decode_texts = msgspec.json.Decoder(dict[str, str] | None).decode
_decode_owners = msgspec.json.Decoder(list[_Owner] | None).decode


@final
@frozen
class _Template:
    """The first pod of a key: what all pods of the key share.

    Attributes:
        values: The shared attributes.
        notes: What could not be represented.
        affinity: The affinity, also in *values*.
        named: The node that the affinity names, which is each pod's own; empty for none.
    """

    values: tuple[Any, ...]
    notes: tuple[str, ...]
    affinity: tuple[NodeSelectorTerm, ...] = ()
    named: str = ""


@final
class UnreadablePodError(ManifestError):
    """A pod cannot be read.

    Attributes:
        scheduler_name: ``spec.schedulerName``, or the default of the API.
        is_bound: Whether the pod is on a node.
    """

    def __init__(self, error: ManifestError, document: Mapping[str, Any]) -> None:
        super().__init__(error.file, error.document, error.field, error.problem)
        spec = mapping_in(document, "spec")
        self.scheduler_name = text_in(spec, "schedulerName") or _DEFAULT_SCHEDULER
        self.is_bound = bool(text_in(spec, "nodeName"))


class _NotPlain(Exception):
    """The object is for the slow reader."""


@final
class PodDecoder:
    """Reads pods; those that are alike share what they have in common.

    Args:
        ignore: Constraints that are not modelled and are ignored, as paths without indices.

    Attributes:
        slow: How many pods the slow reader has read.
        fast: How many were copies.
    """

    __slots__ = (
        "_affinities",
        "_equal",
        "_ignore",
        "_owners",
        "_templates",
        "_texts",
        "fast",
        "slow",
    )

    def __init__(self, ignore: Iterable[str] = ()) -> None:
        self._ignore = frozenset(ignore)
        self._templates: Shared[_Template] = Shared()
        self._texts: Shared[FrozenMap[str]] = Shared()
        self._owners: Shared[tuple[tuple[str, ...], str]] = Shared()
        self._affinities: Shared[tuple[NodeSelectorTerm, ...]] = Shared()
        self._equal: dict[tuple[str, Hashable], Hashable] = {}
        self.slow = 0
        self.fast = 0

    def __call__(self, raw: bytes | memoryview) -> PodFacts:
        """Return one pod.

        Raises:
            ManifestError: It is malformed.
        """
        try:
            found = decode_pod_json(raw)
            key = key_of(found)
            template = self._templates.get(key)
            if template is not None:
                facts = self._copy(found, template)
                self.fast += 1
                return facts
        except (msgspec.DecodeError, _NotPlain):
            found, key = None, b""
        self.slow += 1
        document = read_document(raw, "Pod")
        try:
            pod, notes = read_pod_slowly(document, self._ignore)
        except ManifestError as error:
            raise UnreadablePodError(error, document) from error
        named = _own_node_in_affinity(pod, found) if found is not None else None
        if named is not None:
            values = tuple(self._one(name, getattr(pod, name)) for name in _SHARED)
            template = _Template(values, notes, pod.affinity, named)
            if self._is_plain(found, template):
                self._templates.put(key, template)
        return _facts_in(document, pod, notes)

    def _is_plain(self, found: PodJson | None, template: _Template) -> bool:
        """Return whether what each pod says by itself is well-formed.

        If it is not, the notes of the pod are about itself, and not about pods like it.
        """
        if found is None:
            return False
        try:
            self._copy(found, template)
        except (msgspec.DecodeError, _NotPlain):
            return False
        return True

    def _one(self, name: str, value: Hashable) -> Hashable:
        """Return the object that stands for all equal values of an attribute."""
        known = self._equal.setdefault((name, value), value)
        if len(self._equal) > _MOST_EQUAL:
            del self._equal[next(iter(self._equal))]
        return known

    def _copy(self, found: PodJson, template: _Template) -> PodFacts:
        meta = found.metadata
        name, namespace, uid = meta.name, meta.namespace, meta.uid
        phase = _PHASES.get(found.status.phase or "")
        if not (uid and phase and _NAME(name) and _is_namespace(namespace)):
            raise _NotPlain
        pod = object.__new__(Pod)
        for set_value, value in zip(_SETTERS, template.values, strict=True):
            set_value(pod, value)
        if template.named and template.named != found.spec.nodeName:
            _set_affinity(pod, self._renamed(found, template))
        _set_name(pod, name)
        _set_namespace(pod, namespace)
        _set_uid(pod, PodUID(uid))
        labels = self._shared_texts(meta.labels)
        _set_labels(pod, labels)
        _set_queue(pod, _queue_in(labels))
        annotations = self._shared_texts(meta.annotations)
        if len(meta.annotations) > MOST:  # in bytes, so at least as many as characters
            annotations = kept_annotations(annotations)
        _set_annotations(pod, annotations)
        owners, controller = self._shared_owners(meta.ownerReferences)
        _set_owners(pod, owners)
        _set_controller(pod, controller)
        _set_node_name(pod, NodeName(found.spec.nodeName) if found.spec.nodeName else None)
        _set_phase(pod, phase)
        _set_deleted_at(pod, _when(meta.deletionTimestamp))
        _set_created_at(pod, _when(meta.creationTimestamp) or 0.0)
        group = found.spec.schedulingGroup
        _set_pod_group(pod, (group.podGroupName or None) if group is not None else None)
        status = found.status
        conditions: tuple[Condition, ...] = ()
        if status.conditions:
            conditions = tuple(
                Condition(each.type, each.status, each.reason, each.message)
                for each in status.conditions
                if each.type in _KEPT_CONDITIONS
            )
        return PodFacts(
            pod=pod,
            identity=Identity(f"{namespace}/{name}", uid, meta.resourceVersion),
            scheduler_name=found.spec.schedulerName or _DEFAULT_SCHEDULER,
            nominated_node=status.nominatedNodeName or None,
            conditions=conditions,
            notes=template.notes,
            generation=meta.generation,
        )

    def _renamed(self, found: PodJson, template: _Template) -> tuple[NodeSelectorTerm, ...]:
        """Return the affinity of a template, with the pod's own node in it."""
        key = bytes(found.spec.affinity)
        known = self._affinities.get(key)
        if known is None:
            renamed = _replaced(template.affinity, template.named, found.spec.nodeName or "")
            known = self._affinities.put(key, renamed)
        return known

    def _shared_texts(self, raw: msgspec.Raw) -> FrozenMap[str]:
        if not raw:
            return EMPTY
        key = bytes(raw)
        texts = self._texts.get(key)
        if texts is None:
            texts = self._texts.put(key, FrozenMap(_decode_texts(key) or {}))
        return texts

    def _shared_owners(self, raw: msgspec.Raw) -> tuple[tuple[str, ...], str]:
        """Return the names of the owners, and which of them is the controller."""
        if not raw:
            return (), ""
        key = bytes(raw)
        known = self._owners.get(key)
        if known is None:
            owners = _decode_owners(key) or ()
            names = tuple(owner.name for owner in owners)
            if not all(names):
                raise _NotPlain
            first = next((owner for owner in owners if owner.controller), None)
            controller = ""
            if first is not None:
                controller = f"{first.apiVersion or ''}/{first.kind or ''}/{first.name}"
            known = self._owners.put(key, (names, controller))
        return known


def _facts_in(document: dict[str, Any], pod: Pod, notes: tuple[str, ...]) -> PodFacts:
    conditions = conditions_in(document)
    version = identity_in(document).resource_version
    return PodFacts(
        pod=pod,
        identity=Identity(f"{pod.namespace}/{pod.name}", pod.uid, version),
        scheduler_name=text_in(mapping_in(document, "spec"), "schedulerName") or _DEFAULT_SCHEDULER,
        nominated_node=text_in(mapping_in(document, "status"), "nominatedNodeName") or None,
        conditions=tuple(each for each in conditions if each.type in _KEPT_CONDITIONS),
        notes=notes,
        generation=whole_in(mapping_in(document, "metadata"), "generation"),
    )


def _own_node_in_affinity(pod: Pod, found: PodJson) -> str | None:
    """Return the pod's own node if its affinity names it; empty if not, None if that is unclear.

    It is clear if the JSON and the decoded affinity contain the name equally often. Then the
    affinity of a like pod is this one with another node name.
    """
    if pod.node_name is None:
        return ""
    places = bytes(found.spec.affinity).count(quoted(pod.node_name))
    if not places:
        return ""
    return pod.node_name if _count(pod.affinity, pod.node_name) == places else None


def _count(value: object, text: str) -> int:
    """Return how often a string is in a value made of tuples and attrs classes."""
    if isinstance(value, str):
        return int(value == text)
    if isinstance(value, tuple):
        return sum(_count(each, text) for each in cast("tuple[object, ...]", value))
    return sum(_count(getattr(value, name), text) for name in _names(value))


def _replaced(value: T, text: str, other: str) -> T:
    """Return a value like those of ``_count`` with another string in place of *text*."""
    found: Any = value
    if isinstance(found, str):
        return cast("T", other if found == text else found)
    if isinstance(found, tuple):
        each = cast("tuple[object, ...]", found)
        return cast("T", tuple(_replaced(one, text, other) for one in each))
    names = _names(found)
    changes = {name: _replaced(getattr(found, name), text, other) for name in names}
    return cast("T", evolve(found, **changes)) if names else value


def _names(value: object) -> list[str]:
    """Return the names of the attributes of an instance of an attrs class; else none."""
    kind: Any = type(value)
    return [each.name for each in fields(kind)] if has(kind) else []


def _queue_in(labels: Mapping[str, str]) -> str | None:
    queue = labels.get(QUEUE)
    if queue == "":
        raise _NotPlain
    return queue


@lru_cache(maxsize=256)
def _is_namespace(name: str) -> bool:
    return bool(_NAME(name))


@lru_cache(maxsize=1024)
def _when(text: str | None) -> float | None:
    """Return an instant; pods of a job share them, as they are whole seconds."""
    if not text:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise _NotPlain from None
    if instant.tzinfo is None:
        raise _NotPlain
    return instant.timestamp()
