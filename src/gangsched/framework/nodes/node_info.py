"""One node: its free capacity, the pods that hold it, and the capacity that is withheld.

Invariants (checked by ``Nodes._check``):
  I1  the free capacity is the allocatable capacity, less the requests of the pods that hold the
      node, less what is withheld for nominated pods and for a reservation;
  I2  what is defaulted is the sum over the pods that hold the node, and the nominated pods;
  I3  the pods that are shown to plugins are the pods that hold the node;
  I4  *free* may be the dict of the node's class, which never changes: it is copied before a change.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import final

from gangsched.framework.nodes.reserved_capacity import ReservedCapacity
from gangsched.model import FrozenMap, Node, Pod, PodUID, Resources
from gangsched.resources import NOTHING, shifted

__all__ = ["NodeInfo"]


@final
class NodeInfo:
    """One node; see ``gangsched.protocols.NodeView``.

    Attributes:
        free: What is free of each resource, in thousandths; changed by ``shift``.
        defaulted: What the pods count for in scores beyond their requests; see ``Resources``.
        holders: The requests of each pod that holds the node, by UID.
        pods_by_uid: The pods that hold the node, for plugins.
        nominated: The entries of nominated pods that are withheld at the moment; not free.
        expected: The entries of reservations that are withheld at the moment.
        withheld: The amounts that the entries of reservations withhold together; not free.
        withheld_pods: The number of pods for which they are withheld.
    """

    __slots__ = (
        "_is_shared",
        "defaulted",
        "expected",
        "free",
        "holders",
        "index",
        "node",
        "nominated",
        "pods_by_uid",
        "withheld",
        "withheld_pods",
    )

    def __init__(self, node: Node, index: int) -> None:
        self.node: Node = node
        self.index: int = index
        self.free: dict[str, int] = node.allocatable.to_milli()
        self._is_shared = False
        self.defaulted: FrozenMap[int] = NOTHING.defaulted
        self.holders: dict[PodUID, Resources] = {}
        self.pods_by_uid: dict[PodUID, Pod] = {}
        self.nominated: list[ReservedCapacity] = []
        self.expected: list[ReservedCapacity] = []
        self.withheld: dict[str, int] = {}
        self.withheld_pods: int = 0

    @property
    def pod_count(self) -> int:
        """The number of pods on the node, with those that capacity is withheld for."""
        return len(self.holders) + len(self.nominated) + self.withheld_pods

    @property
    def pods(self) -> Collection[Pod]:
        """The pods on the node: bound, assumed, and planned in the current decision. O(1)."""
        return self.pods_by_uid.values()

    def copy(self) -> NodeInfo:
        """Return an independent copy. O(pods on the node)."""
        return self.with_pods(self.holders.copy(), self.pods_by_uid.copy())

    def with_pods(self, holders: dict[PodUID, Resources], pods: dict[PodUID, Pod]) -> NodeInfo:
        """Return an independent copy with the same capacity, held and shown as given. O(1)."""
        made = NodeInfo.__new__(NodeInfo)  # the constructor computes what is free
        made.node, made.index = self.node, self.index
        made.free, made._is_shared = self.free.copy(), False
        made.holders, made.pods_by_uid = holders, pods
        made.defaulted = self.defaulted
        made.nominated, made.expected = self.nominated.copy(), self.expected.copy()
        made.withheld, made.withheld_pods = self.withheld, self.withheld_pods
        return made

    def take(self, uid: PodUID, requests: Resources, total: dict[str, int] | None = None) -> None:
        """Put a pod on the node, once; update *total*, the free capacity in all. O(resources)."""
        if uid in self.holders:
            self.give_back(uid, total)
        self.holders[uid] = requests
        self.shift(requests, -1, total)

    def give_back(self, uid: PodUID, total: dict[str, int] | None = None) -> None:
        """Take a pod off the node; update *total*, the free capacity in all. O(resources)."""
        self.shift(self.holders.pop(uid), 1, total)
        self.pods_by_uid.pop(uid, None)

    def show(self, pod: Pod) -> None:
        """Show a pod that holds the node to plugins. O(1)."""
        self.pods_by_uid[pod.uid] = pod

    def nominate(self, entry: ReservedCapacity, total: dict[str, int] | None = None) -> None:
        """Withhold the capacity of a nominated pod. O(resources)."""
        self.nominated.append(entry)
        self.shift(entry.requests, -1, total)

    def withdraw(self, entry: ReservedCapacity, total: dict[str, int] | None = None) -> None:
        """Free the capacity of a nominated pod. O(resources) and O(entries)."""
        self.nominated.remove(entry)
        self.shift(entry.requests, 1, total)

    def withhold(self, total: dict[str, int] | None = None) -> bool:
        """Withhold what the entries of reservations say; return whether that is a change.

        Runtime complexity: O(returning pods) and O(entries x resources).
        """
        free, amounts, pods = self.unreserved(), dict[str, int](), 0
        for entry in self.expected:
            found, count = entry.withheld(self.holders, free)
            pods += count
            for name, amount in found.items():
                amounts[name] = amounts.get(name, 0) + amount
                free[name] -= amount
        if (amounts, pods) == (self.withheld, self.withheld_pods):
            return False
        self.shift(self.withheld, 1, total)
        self.shift(amounts, -1, total)
        self.withheld, self.withheld_pods = amounts, pods
        return True

    def unreserved(self) -> dict[str, int]:
        """Return what would be free if no reservation withheld anything. O(resources)."""
        free = dict(self.free)
        for name, amount in self.withheld.items():
            free[name] += amount
        return free

    def shift(self, requests: Mapping[str, int], times: int, total: dict[str, int] | None) -> None:
        """Add *times* the requests to what is free; a negative number takes them."""
        if self._is_shared:
            self.free, self._is_shared = self.free.copy(), False
        free = self.free
        if isinstance(requests, Resources):
            self.defaulted = shifted(self.defaulted, requests.defaulted, -times)
        for name, amount in requests.items():
            had = free.get(name, 0)
            has = free[name] = had + times * amount
            if total is not None and (has > 0 or had > 0):
                if has < 0 or had < 0:  # rare: more is used than the node has
                    had, has = max(had, 0), max(has, 0)
                total[name] = total.get(name, 0) + has - had

    def share(self, free: dict[str, int], defaulted: FrozenMap[int]) -> None:
        """Use the dict of the node's class for what is free; see I4. O(1)."""
        self.free = free
        self.defaulted = defaulted
        self._is_shared = True
