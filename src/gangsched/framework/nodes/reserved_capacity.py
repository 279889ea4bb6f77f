"""ReservedCapacity: capacity of one node that is withheld from other entities, and its ledger.

Theory of operation
    Two mechanisms reserve capacity, and both use this ledger. Preemption nominates a node for
    each pod of the preemptor while the victims terminate: one entry per nominated pod. Backfill
    reserves capacity for a gang that starts later: one entry per node of its planned placement.

    The two differ in how much is withheld. A nominated pod takes its whole request at once, as a
    pod on the node would. Its victims still hold the node, so the node may be overcommitted for
    a while; filters then see a negative amount and refuse the node. A reservation takes less:
    pods that end before the gang starts supply a part of the capacity, so only the rest is
    withheld, and never more than is free. Otherwise the node would stand idle until the start.

    The ledger records what is reserved. What is withheld at the moment is recorded on each node,
    in ``NodeInfo.nominated`` and ``NodeInfo.expected``. They agree with the ledger except while an
    exempt entity is tried. Its view of the nodes leaves out the entries that it is exempt from;
    the ledger keeps them.

Rules:
  R1  the whole request of a nominated pod is withheld, whether it is free or not;
  R2  of a reservation, only that part is withheld which returning pods do not supply, and never
      more than is free;
  R3  what is withheld depends on the entries, on the pods that hold the node, and on nothing else.

Invariants (checked by ``_check``):
  I1  each entry is in the ledger once, under its own node;
  I2  an entry for a nominated pod is for exactly one pod;
  I3  ``expecting`` counts the entries of reservations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import final

from gangsched.errors import InternalError
from gangsched.model import NodeName, PodUID, Resources
from gangsched.resources import NOTHING

__all__ = ["CapacityLedger", "ReservedCapacity"]


@final
class ReservedCapacity:
    """Capacity of one node that is reserved for one entity.

    Entries are compared by identity: an entity may reserve the same amount on a node twice. How
    long an entry lasts is up to the nomination or reservation that made it; both have a deadline
    for all of their entries.

    Attributes:
        owner: The number of the queued entity that it is reserved for.
        node: The node.
        priority: The owner's priority.
        requests: The amounts.
        pods: The number of pods.
        returning: The pods that will have left the node when the capacity is used, as far as
            they have not left it yet; None for a nominated pod.
    """

    __slots__ = ("node", "owner", "pods", "priority", "requests", "returning")

    def __init__(
        self, owner: int, node: NodeName, priority: int, requests: Resources, pods: int = 1
    ) -> None:
        self.owner: int = owner
        self.node: NodeName = node
        self.priority: int = priority
        self.requests: Resources = requests
        self.pods: int = pods
        self.returning: set[PodUID] | None = None

    @classmethod
    def expecting(
        cls, owner: int, node: NodeName, priority: int, returning: Iterable[PodUID]
    ) -> ReservedCapacity:
        """Return an empty entry of a reservation, to which pods are added.

        Args:
            owner: The number of the gang's entity.
            node: The node.
            priority: The gang's priority.
            returning: The pods that are expected to leave the node before the gang starts.
        """
        made = cls(owner, node, priority, NOTHING, 0)
        made.returning = set(returning)
        return made

    def add(self, requests: Resources) -> None:
        """Reserve the capacity of one more pod. O(resources)."""
        self.pods += 1
        self.requests += requests

    def withheld(
        self, holders: Mapping[PodUID, Resources], free: Mapping[str, int]
    ) -> tuple[dict[str, int], int]:
        """Return what is withheld now: the amounts, and the number of pods. O(returning pods).

        Args:
            holders: The pods on the node, with their requests.
            free: What would be free without this entry.
        """
        amounts, pods = self.requests.to_milli(), self.pods
        if self.returning is None:
            return amounts, pods
        for uid in self.returning:
            held = holders.get(uid)
            if held is None:
                continue
            pods -= 1
            for name in amounts:
                amounts[name] -= held.amount(name)
        found = {name: min(amount, free.get(name, 0)) for name, amount in amounts.items()}
        return {name: amount for name, amount in found.items() if amount > 0}, max(pods, 0)


@final
class CapacityLedger:
    """All reserved capacity, by node. Each call is O(entries for that node), or says otherwise.

    Attributes:
        expecting: The number of entries of reservations.
    """

    __slots__ = ("_by_node", "expecting")

    def __init__(self) -> None:
        self._by_node: dict[NodeName, list[ReservedCapacity]] = {}
        self.expecting: int = 0

    def __len__(self) -> int:
        """Return the number of entries. O(nodes with entries)."""
        return sum(map(len, self._by_node.values()))

    def __iter__(self) -> Iterator[ReservedCapacity]:
        return (entry for entries in self._by_node.values() for entry in entries)

    def __contains__(self, entry: ReservedCapacity) -> bool:
        return entry in self._by_node.get(entry.node, ())

    def on(self, name: NodeName) -> Sequence[ReservedCapacity]:
        """Return the entries for a node, in the order in which they were added. O(1)."""
        return self._by_node.get(name, ())

    def expected(self) -> list[ReservedCapacity]:
        """Return the entries of reservations. O(entries), O(1) if there is none."""
        return [e for e in self if e.returning is not None] if self.expecting else []

    def add(self, entry: ReservedCapacity) -> None:
        """Add an entry that is not there yet. O(1)."""
        self._by_node.setdefault(entry.node, []).append(entry)
        self.expecting += entry.returning is not None

    def remove(self, entry: ReservedCapacity) -> bool:
        """Remove an entry; return False if it is not there."""
        entries = self._by_node.get(entry.node, [])
        if entry not in entries:
            return False
        entries.remove(entry)
        self.expecting -= entry.returning is not None
        if not entries:
            del self._by_node[entry.node]
        return True

    def _check(self) -> None:
        expecting = sum(entry.returning is not None for entry in self)
        if self.expecting != expecting:
            message = f"{self.expecting} entries of reservations are counted, there are {expecting}"
            raise InternalError(message)
        for name, entries in self._by_node.items():
            if not entries:
                raise InternalError(f"the ledger has an empty list for {name}")
            for entry in entries:
                if entry.node != name or entries.count(entry) != 1:
                    raise InternalError(f"an entry for {entry.node} is misfiled under {name}")
                if entry.returning is None and entry.pods != 1:
                    raise InternalError(f"an entry for a nominated pod on {name} is for several")
