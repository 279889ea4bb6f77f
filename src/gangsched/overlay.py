"""``OverlayCluster``: events applied on top of another cluster state, which is not changed.

Each of the mappings of ``InMemoryCluster`` is replaced by one that reads the state below when
a key is asked for, and stores changes in itself.

Rules:
  R1  the state below is only read, and only where a caller asks;
  R2  an object that an event changed here hides the one below; every other object is shown as the
      state below shows it;
  R3  iteration has the order that it would have if the events had been applied below.

Invariant (checked by ``_check``): see ``gangsched.memory``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import Generic, TypeVar, final

from gangsched.cluster_objects import ObjectStore
from gangsched.memory import InMemoryCluster
from gangsched.model import NodeName, Pod, PodUID
from gangsched.protocols import ClusterState
from gangsched.values.checks import check_cluster

__all__ = ["OverlayCluster"]

K = TypeVar("K")
V = TypeVar("V")


@final
class OverlayCluster(InMemoryCluster):
    """A view of another cluster state with events applied to the view alone.

    Discard the overlay when the state below changes: it may then be inconsistent. Not thread-safe.

    Runtime complexity: construction O(1); an event O(the object that it is about).

    Args:
        below: The state below.

    Raises:
        InvalidValueError: *below* lacks a method of ``ClusterState``.
    """

    __slots__ = ()

    def __init__(self, below: ClusterState) -> None:
        check_cluster(below)
        super().__init__()
        self._nodes = _Layer(below.node, below.nodes, lambda node: node.name)
        self._pods = _Layer(below.pod, below.pods, lambda pod: pod.uid)
        self._groups = _Layer(below.pod_group, below.pod_groups, lambda group: group.key)
        self._on = _Listings(below)
        self._objects = ObjectStore(getattr(below, "objects", None))


@final
class _Layer(MutableMapping[K, V], Generic[K, V]):
    """A mapping with changes on top of another one, which is read by functions.

    A changed key keeps its place in the order. A new key comes last, and so does a key that was
    deleted and added again.
    """

    __slots__ = ("_below", "_changed", "_everything", "_gone", "_key", "_new")

    def __init__(
        self,
        below: Callable[[K], V | None],
        everything: Callable[[], Iterable[V]],
        key: Callable[[V], K],
    ) -> None:
        self._below = below
        self._everything = everything
        self._key = key
        self._changed: dict[K, V] = {}
        self._gone: set[K] = set()
        self._new: dict[K, V] = {}

    def __getitem__(self, key: K) -> V:
        if key in self._new:
            return self._new[key]
        if key in self._changed:
            return self._changed[key]
        found = None if key in self._gone else self._below(key)
        if found is None:
            raise KeyError(key)
        return found

    def __setitem__(self, key: K, value: V) -> None:
        in_place = key not in self._new and key not in self._gone
        if in_place and (key in self._changed or self._below(key) is not None):
            self._changed[key] = value
        else:
            self._new[key] = value

    def __delitem__(self, key: K) -> None:
        if key in self._new:
            del self._new[key]
            return
        self[key]
        self._changed.pop(key, None)
        self._gone.add(key)

    def __iter__(self) -> Iterator[K]:
        keys = (self._key(value) for value in self._everything())
        yield from (key for key in keys if key not in self._gone)
        yield from self._new

    def __len__(self) -> int:
        return sum(1 for _key in self)


@final
class _Listings(MutableMapping[NodeName, dict[PodUID, Pod]]):
    """The pods on each node. A node is read from the state below at its first use."""

    __slots__ = ("_below", "_read")

    def __init__(self, below: ClusterState) -> None:
        self._below = below
        self._read: dict[NodeName, dict[PodUID, Pod]] = {}

    def __getitem__(self, name: NodeName) -> dict[PodUID, Pod]:
        if name not in self._read:
            self._read[name] = {pod.uid: pod for pod in self._below.pods_on(name)}
        found = self._read[name]
        if not found:
            raise KeyError(name)
        return found

    def __setitem__(self, name: NodeName, pods: dict[PodUID, Pod]) -> None:
        self._read[name] = pods

    def __delitem__(self, name: NodeName) -> None:
        self._read[name] = {}

    def __iter__(self) -> Iterator[NodeName]:
        names = [pod.node_name for pod in self._below.pods()]
        known = dict.fromkeys([*(name for name in names if name is not None), *self._read])
        return (name for name in known if name in self)

    def __len__(self) -> int:
        return sum(1 for _name in self)
