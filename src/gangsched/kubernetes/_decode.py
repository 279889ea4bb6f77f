"""Objects from the API server's JSON, as they are kept.

Rules:
  R1  the result is equal to the slow reader's, for each object. Whatever is not plainly readable
      is handed to it, so errors and notes are its own;
  R2  most events of a node or a group are heartbeats and conditions, from which nothing is read.
      So nodes and groups are remembered by the bytes that they are read from;
  R3  what is kept is bounded: caches forget, and no value refers to the JSON that it came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final, TypeVar, final

from gangsched.errors import ManifestError
from gangsched.kubernetes._caches import Shared
from gangsched.kubernetes._extra import missing
from gangsched.kubernetes._facts import (
    Condition,
    Dialect,
    GroupFacts,
    NodeFacts,
    PodFacts,
    PriorityClassFacts,
    UnreadableGroupError,
)
from gangsched.kubernetes._known import Identity
from gangsched.kubernetes._pods import PodDecoder
from gangsched.kubernetes._read import (
    conditions_in,
    identity_in,
    mapping_in,
    read_class_slowly,
    read_document,
    read_node_slowly,
    read_pod_group_slowly,
    text_in,
    whole_in,
)
from gangsched.model import Node, PodGroup
from gangsched.resources import EMPTY

try:
    from msgspec import DecodeError, Raw, Struct
    from msgspec.json import Decoder
    from msgspec.structs import astuple
except ModuleNotFoundError as error:
    raise missing(error) from error

__all__ = [
    "Condition",
    "Dialect",
    "GroupDecoder",
    "GroupFacts",
    "NodeDecoder",
    "NodeFacts",
    "PodDecoder",
    "PodFacts",
    "PriorityClassFacts",
    "decode_priority_class",
]

V = TypeVar("V")

_ABSENT: Final = Raw(b"")
_MOST_NODES: Final = 16384
_MOST_GROUPS: Final = 4096


class _Meta(Struct, gc=False):
    name: str
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815
    creationTimestamp: Raw = _ABSENT  # noqa: N815
    labels: Raw = _ABSENT
    annotations: Raw = _ABSENT


class _NodeStatus(Struct, gc=False):
    # each field of a status that ``read_node`` reads
    allocatable: Raw = _ABSENT
    capacity: Raw = _ABSENT
    images: Raw = _ABSENT
    declaredFeatures: Raw = _ABSENT  # noqa: N815


class _NodeJson(Struct, gc=False):
    metadata: _Meta
    spec: Raw = _ABSENT
    status: _NodeStatus | None = None


class _GroupJson(Struct, gc=False):
    metadata: _Meta
    spec: Raw = _ABSENT


_decode_node = Decoder(_NodeJson).decode
_decode_group = Decoder(_GroupJson).decode


@final
class NodeDecoder:
    """Reads nodes. A heartbeat costs a look-up.

    Attributes:
        slow: How many nodes the slow reader has read.
    """

    __slots__ = ("_last", "slow")

    def __init__(self) -> None:
        self._last: Shared[tuple[Node, tuple[str, ...]]] = Shared(_MOST_NODES)
        self.slow = 0

    def __call__(self, raw: bytes | memoryview) -> NodeFacts:
        """Return one node.

        Raises:
            ManifestError: It is malformed.
        """
        try:
            found = _decode_node(raw)
        except DecodeError:
            node, notes = self._read(raw)
            return NodeFacts(node=node, identity=_identity(raw, "Node"), notes=notes)
        meta, status = found.metadata, found.status
        read = astuple(status) if status is not None else ()
        key = _digest(meta.name.encode(), meta.labels, found.spec, *read)
        known = self._last.get(key)
        if known is None:
            known = self._last.put(key, self._read(raw))
        identity = Identity(meta.name, meta.uid, meta.resourceVersion)
        return NodeFacts(node=known[0], identity=identity, notes=known[1])

    def _read(self, raw: bytes | memoryview) -> tuple[Node, tuple[str, ...]]:
        self.slow += 1
        return read_node_slowly(read_document(raw, "Node"))


@final
class GroupDecoder:
    """Reads PodGroups of one dialect.

    Args:
        dialect: The API that the groups are of.
        ignore: Constraints that are not modelled and are ignored, as paths without indices.
        level_names: The label of a level, by what a dialect calls it; see ``Manifest``.
        queues_from: The project whose queues groups name; see ``Manifest``.
    """

    __slots__ = ("_dialect", "_ignore", "_last", "_level_names", "_queues_from")

    def __init__(
        self,
        dialect: Dialect,
        ignore: Iterable[str] = (),
        level_names: Mapping[str, str] = EMPTY,
        queues_from: str = "",
    ) -> None:
        self._dialect = dialect
        self._queues_from = queues_from
        self._level_names = level_names
        self._ignore = frozenset(ignore)
        self._last: Shared[tuple[PodGroup, str, tuple[str, ...]]] = Shared(_MOST_GROUPS)

    def __call__(self, raw: bytes | memoryview) -> GroupFacts:
        """Return one group.

        Raises:
            UnreadableGroupError: It is malformed.
        """
        document = read_document(raw, self._dialect.kind)
        try:
            group, priority_class, notes = self._group(raw, document)
        except ManifestError as error:
            raise UnreadableGroupError(error, self._dialect) from error
        metadata, status = mapping_in(document, "metadata"), mapping_in(document, "status")
        return GroupFacts(
            group=group,
            identity=identity_in(document),
            dialect=self._dialect,
            priority_class=priority_class,
            conditions=conditions_in(document),
            phase=text_in(status, "phase"),
            counts=(
                whole_in(status, "running"),
                whole_in(status, "succeeded"),
                whole_in(status, "failed"),
            ),
            occupied_by=text_in(status, "occupiedBy"),
            generation=whole_in(metadata, "generation"),
            notes=notes,
        )

    def _group(
        self, raw: bytes | memoryview, document: dict[str, object]
    ) -> tuple[PodGroup, str, tuple[str, ...]]:
        try:
            found = _decode_group(raw)
        except DecodeError:
            return self._read(document)
        meta = found.metadata
        owner = f"{meta.namespace}/{meta.name}".encode()
        key = _digest(owner, meta.creationTimestamp, meta.labels, meta.annotations, found.spec)
        return self._last.get(key) or self._last.put(key, self._read(document))

    def _read(self, document: dict[str, object]) -> tuple[PodGroup, str, tuple[str, ...]]:
        # The class is resolved where the classes are known, and again when they change.
        spec = dict(mapping_in(document, "spec"))
        named = text_in(spec, "priorityClassName")
        if named:
            del spec["priorityClassName"]
            document = {**document, "spec": spec}
        group, notes = read_pod_group_slowly(
            document, self._dialect, self._ignore, self._level_names, self._queues_from
        )
        return group, named, notes


def decode_priority_class(raw: bytes | memoryview) -> PriorityClassFacts:
    """Return one priority class.

    Raises:
        ManifestError: It is malformed.
    """
    document = read_document(raw, "PriorityClass")
    value, default, policy = read_class_slowly(document)
    identity = identity_in(document)
    return PriorityClassFacts(
        name=identity.key,
        value=value,
        identity=identity,
        global_default=default,
        preemption_policy=policy,
    )


def _digest(*parts: bytes | Raw) -> bytes:
    # JSON has no zero bytes, so two different sequences of parts are never joined to one text
    return blake2b(b"\0".join(parts), digest_size=16).digest()


def _identity(raw: bytes | memoryview, kind: str) -> Identity:
    return identity_in(read_document(raw, kind))
