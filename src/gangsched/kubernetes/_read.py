"""The slow readers: one object from its JSON, by ``convert`` and ``objects``.

Rules:
  R1  an object of a list has no kind and no version of its own; they are put in;
  R2  a note is kept without the object that it is about: pods that are alike share their notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from attrs import evolve

from gangsched.cluster_objects import ClusterObject
from gangsched.kubernetes._annotations import kept_annotations
from gangsched.kubernetes._events import UnexpectedAnswer
from gangsched.kubernetes._extra import missing
from gangsched.kubernetes._facts import Condition, Dialect
from gangsched.kubernetes._known import Identity
from gangsched.kubernetes.convert import _instant, _pod
from gangsched.manifests import (
    Field,
    Manifest,
    PriorityClasses,
    Source,
    read_group_of,
    read_manifest,
    read_node,
    read_object,
)
from gangsched.model import Node, Pod, PodGroup, PreemptionPolicy
from gangsched.resources import EMPTY

try:
    import msgspec
except ModuleNotFoundError as error:
    raise missing(error) from error

__all__ = [
    "conditions_in",
    "identity_in",
    "mapping_in",
    "read_class_slowly",
    "read_document",
    "read_node_slowly",
    "read_object_slowly",
    "read_pod_group_slowly",
    "read_pod_slowly",
    "text_in",
    "whole_in",
]

_WATCH: Final = "watch"
_CLASSES: Final = PriorityClasses()

Document = dict[str, Any]


def read_document(raw: bytes | memoryview, kind: str) -> Document:
    """Return an object as mappings and lists, with its kind.

    Raises:
        UnexpectedAnswer: *raw* is not a JSON object.
    """
    try:
        found: object = msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        start = bytes(raw[:200]).decode("utf-8", "replace")
        raise UnexpectedAnswer(f"a {kind}", start, str(error)) from error
    if not isinstance(found, dict):
        start = bytes(raw[:200]).decode("utf-8", "replace")
        raise UnexpectedAnswer(f"a {kind}", start, "not a JSON object")
    document = cast("Document", found)
    document.setdefault("kind", kind)
    return document


def read_pod_slowly(
    document: Document, ignore: frozenset[str] = frozenset()
) -> tuple[Pod, tuple[str, ...]]:
    """Return a pod, and the notes about it.

    Args:
        document: The pod.
        ignore: Constraints that are not modelled and are ignored, see ``Manifest``.

    Raises:
        ManifestError: It is malformed.
    """
    manifest = _manifest(document, ignore)
    pod = _pod(manifest)
    annotations = kept_annotations(pod.annotations)
    if annotations is not pod.annotations:
        pod = evolve(pod, annotations=annotations)
    return pod, _notes(manifest)


def read_node_slowly(document: Document) -> tuple[Node, tuple[str, ...]]:
    """Return a node, and the notes about it.

    Raises:
        ManifestError: It is malformed.
    """
    manifest = _manifest(document)
    node = read_node(manifest)
    return node, _notes(manifest)


def read_pod_group_slowly(
    document: Document,
    dialect: Dialect,
    ignore: frozenset[str] = frozenset(),
    level_names: Mapping[str, str] = EMPTY,
    queues_from: str = "",
) -> tuple[PodGroup, tuple[str, ...]]:
    """Return a group of a dialect, and the notes about it.

    Args:
        document: The group.
        dialect: The API that it is of.
        ignore: Constraints that are not modelled and are ignored, see ``Manifest``.
        level_names: The label of a level, by what a dialect calls it; see ``Manifest``.
        queues_from: The project whose queues groups name; see ``Manifest``.

    Raises:
        ManifestError: It is malformed.
    """
    manifest = evolve(_manifest(document, ignore), level_names=level_names, queues_from=queues_from)
    return read_group_of(dialect.group, manifest), _notes(manifest)


def _manifest(document: Document, ignore: frozenset[str] = frozenset()) -> Manifest:
    root = Field(Source(_WATCH, 1), "", document)
    created_at = _instant(root["metadata"]["creationTimestamp"]) or 0.0
    return read_manifest(root, at=created_at, classes=_CLASSES, ignore=ignore, gathers=True)


def _notes(manifest: Manifest) -> tuple[str, ...]:
    source = manifest.document.source
    owned = manifest.kind != "Node"
    name = f"{manifest.namespace}/{manifest.name}" if owned else manifest.name
    head = f"{source.file}: document {source.document}: {manifest.kind} {name}: "
    return tuple(note.removeprefix(head) for note in source.notes)


# Fields about which a slow reader has nothing to say. They are for this package only, so one that
# is malformed reads as absent instead of making the object unreadable.


def mapping_in(document: object, *path: str) -> Mapping[str, Any]:
    """Return a mapping inside of *document*; an empty one if there is none."""
    found = document
    for key in path:
        found = cast("Document", found).get(key) if isinstance(found, dict) else None
    return cast("Document", found) if isinstance(found, dict) else {}


def text_in(document: Mapping[str, Any], key: str) -> str:
    """Return a string; empty if there is none."""
    found = document.get(key)
    return found if isinstance(found, str) else ""


def whole_in(document: Mapping[str, Any], key: str) -> int:
    """Return an int; 0 if there is none."""
    found = document.get(key)
    return found if type(found) is int else 0


def conditions_in(document: Document) -> tuple[Condition, ...]:
    """Return the conditions of an object's status."""
    found: object = mapping_in(document, "status").get("conditions")
    if not isinstance(found, list):
        return ()
    each: list[Mapping[str, Any]] = [
        cast("Document", one) for one in cast("list[object]", found) if isinstance(one, dict)
    ]
    return tuple(
        Condition(*(text_in(one, key) for key in ("type", "status", "reason", "message")))
        for one in each
    )


def identity_in(document: Document) -> Identity:
    """Return the identity of an object that a slow reader has accepted."""
    metadata = mapping_in(document, "metadata")
    name, namespace = text_in(metadata, "name"), text_in(metadata, "namespace")
    key = f"{namespace}/{name}" if namespace else name
    return Identity(key, text_in(metadata, "uid"), text_in(metadata, "resourceVersion"))


def read_class_slowly(document: Document) -> tuple[int, bool, str]:
    """Return value, whether it is the global default, and preemption policy of a priority class.

    Raises:
        ManifestError: It is malformed.
    """
    root = _manifest(document).document
    policies = tuple(policy.value for policy in PreemptionPolicy)
    value = root["value"].whole(least=-(2**31))
    return value, root["globalDefault"].flag(), root["preemptionPolicy"].word(policies, "")


def read_object_slowly(document: Document) -> ClusterObject:
    """Return an object that constraints refer to.

    Raises:
        ManifestError: It is malformed.
    """
    return read_object(_manifest(document))
