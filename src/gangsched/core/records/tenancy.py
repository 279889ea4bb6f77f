"""Tenancy: which gangs have pods in a domain, for the levels that a gang wants domains of.

A scheduler that was given levels counts by them, so that pods that fill nodes leave domains empty.
Of another level it counts while there is a gang that states it as ``exclusive``. Each pod that
comes to a node or leaves it is counted in its domain, in trials too; so is one that is nominated,
since its victims give it the domain. The nodes of a domain are marked anew when it gets another
tenant or owner; see ``marks``.

Invariants (``check``): every pod on a node is counted once in each domain that has the node, under
the name that its gang has now; and each node has the marks that follow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeAlias, final

from gangsched.core.nodes.domains import Domain
from gangsched.core.nodes.hold import Hold
from gangsched.core.nodes.marks import (
    NO_DOMAIN,
    SOMEBODY,
    Asks,
    Mark,
    asks_of,
)
from gangsched.core.nodes.node_table import NodeTable
from gangsched.core.records.gang import GangRecord, PodRecord
from gangsched.errors import InternalError
from gangsched.model import PodUID
from gangsched.options.levels import Levels
from gangsched.primitives.gang_tree import HOST

__all__ = ["Tenancy"]

_Place: TypeAlias = tuple[str, Domain]
"""A level, and a domain of it."""
_Tenant: TypeAlias = tuple[str, bool]
"""The key of a gang, or ``SOMEBODY``; and whether it has the domain for itself."""


@final
class Tenancy:
    """The gangs in the domains of some levels.

    Attributes:
        levels: The levels that are counted.
    """

    __slots__ = ("_counted", "_given", "_marks", "_of_slot", "_pods", "_table", "_wants", "levels")

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self.levels: list[str] = []
        self._given: frozenset[str] = frozenset()
        self._wants: dict[str, frozenset[str]] = {}
        self._counted: dict[PodUID | Hold, list[tuple[_Place, _Tenant]]] = {}
        self._pods: dict[_Place, dict[_Tenant, int]] = {}
        self._of_slot: dict[int, tuple[_Place, ...]] = {}
        self._marks: dict[_Place, Mark] = {}

    def watch(self, levels: Levels) -> None:
        """Count by levels from the start, so that pods that fill nodes leave domains empty."""
        keys = (key for topology in levels.topologies for key in topology)
        self.levels += [key for key in keys if key != HOST]
        self._given = frozenset(self.levels)
        self._table.watch(self.levels)  # so the nodes of a domain are marked state by state

    def is_empty(self, domain: Domain) -> bool:
        """Return whether a domain of one of the levels has no pods. O(1)."""
        if isinstance(domain, int) or not domain or domain[-1][0] not in self.levels:
            return False
        return (domain[-1][0], domain) not in self._pods

    def asks(self, record: PodRecord) -> Asks:
        """Return what a pod asks of marks. O(1)."""
        tree = record.gang.tree
        if not tree.exclusive_leaves:
            return asks_of(record.pod)
        return Asks(record.gang.key, tree.exclusive_leaves.get(record.leaf, ()))

    def renew(self, gang: GangRecord, on_nodes: Iterable[PodRecord], holds: Iterable[Hold]) -> None:
        """Count a gang that has another tree. O(members), and O(pods + nodes) for a new level.

        Args:
            gang: The gang.
            on_nodes: All pods on nodes.
            holds: What is held.
        """
        wanted = {level for levels in gang.tree.exclusive_leaves.values() for level in levels}
        new = sorted(wanted.difference(self.levels))
        for level in new:
            self.levels.append(level)
            self._of_slot.clear()
            self._mark(range(len(self._table.nodes)), level)
        self._want(gang, wanted)
        if self.levels:
            self.move([*(on_nodes if new else gang.members.values())], holds if new else ())

    def forget(self, gang: GangRecord) -> None:
        """Forget a gang that is gone; O(pods + nodes) if it was the last that wants a level."""
        self._want(gang, ())

    @property
    def is_wanted(self) -> bool:
        """Whether a gang wants domains of its own."""
        return bool(self._wants)

    def _want(self, gang: GangRecord, wanted: Collection[str]) -> None:
        """Note the levels that a gang wants, and count no more by those that nobody wants."""
        before = self._wants.pop(gang.key, frozenset()) if self._wants else frozenset[str]()
        if wanted:
            self._wants[gang.key] = frozenset(wanted)
        for level in sorted(before.difference(*self._wants.values(), self._given)):
            place = self.levels.index(level)
            self._table.mark(range(len(self._table.nodes)), place, None)
            del self.levels[place]
            self._of_slot.clear()
            for what, counted in self._counted.items():
                self._counted[what] = [each for each in counted if each[0][0] != level]
            self._pods = {each: some for each, some in self._pods.items() if each[0] != level}
            self._marks = {each: mark for each, mark in self._marks.items() if each[0] != level}

    def move(self, records: Iterable[PodRecord], holds: Iterable[Hold]) -> None:
        """Count pods and holds again: they, or their nodes, have changed."""
        for record in records:
            self.leave(record.uid)
            self.come(record)
        for hold in holds:
            self.leave(hold)
            self.keep(hold)

    def come(self, record: PodRecord) -> None:
        """Count a pod, if it is on a node. O(levels), and O(nodes of a domain that is marked)."""
        if self.levels and record.slot >= 0:
            self._count(record.uid, self.asks(record), record.slot)

    def keep(self, hold: Hold) -> None:
        """Count a hold, if a pod comes there. O(levels), as ``come``."""
        if self.levels and hold.asks is not None:
            self._count(hold, hold.asks, hold.slot)

    def _count(self, what: PodUID | Hold, asks: Asks, slot: int) -> None:
        if asks.is_resident:
            return
        places = self._of_slot.get(slot)
        if places is None:
            places = self._of_slot[slot] = self._places(slot)
        name, counted = asks.gang or SOMEBODY, self._counted.setdefault(what, [])
        for place in places:
            tenant = (name, place[0] in asks.levels)
            counted.append((place, tenant))
            pods = self._pods.get(place)
            if pods is None:
                pods = self._pods[place] = {}
            number = pods[tenant] = pods.get(tenant, 0) + 1
            if number == 1:
                self._look(place)

    def _places(self, slot: int) -> tuple[_Place, ...]:
        """Return the domains that have a node."""
        around = self._table.domains.around
        found = [(level, around(slot, level)) for level in self.levels]
        return tuple([(level, domain) for level, domain in found if domain is not None])

    def leave(self, what: PodUID | Hold, since: int = 0) -> None:
        """Count a pod or a hold no longer, if it is counted. O(levels), as ``come``.

        Args:
            what: The pod or hold.
            since: The step since which it was there; 0 for unknown.
        """
        for place, tenant in self._counted.pop(what, ()) if self.levels else ():
            pods = self._pods[place]
            pods[tenant] -= 1
            if not pods[tenant]:
                del pods[tenant]
                if not pods:
                    del self._pods[place]
                self._look(place, since)

    def move_node(self, slot: int, there: Iterable[PodRecord], holds: Iterable[Hold]) -> None:
        """Count again who is on a node that may be in other domains now. O(pods there x levels)."""
        self._of_slot.pop(slot, None)
        self.move(there, holds)

    def mark_node(self, slot: int) -> None:
        """Mark a node that was added or changed. O(levels)."""
        self._of_slot.pop(slot, None)
        for level in self.levels:
            self._mark((slot,), level)

    def _look(self, place: _Place, since: int | None = None) -> None:
        """Mark the nodes of a domain if it has another tenant or owner."""
        level, domain = place
        if not any(level in wanted for wanted in self._wants.values()):
            since = None  # who is there keeps nobody out
        mark = _mark_of(level, self._pods.get(place, {}))
        if mark != self._marks.get(place, Mark(level)):
            if mark == Mark(level):
                del self._marks[place]
            else:
                self._marks[place] = mark
            slots = self._table.domains.slots(domain)
            self._table.mark(slots, self.levels.index(level), mark, since)

    def _mark(self, slots: Iterable[int], level: str) -> None:
        """Mark nodes for the first time, or after they have changed. O(nodes)."""
        alike: dict[Mark, list[int]] = {}
        for slot in slots:
            alike.setdefault(self._at(slot, level), []).append(slot)
        for mark, some in alike.items():
            self._table.mark(some, self.levels.index(level), mark)

    def _at(self, slot: int, level: str) -> Mark:
        domain = self._table.domains.around(slot, level)
        if domain is None:
            return Mark(level, NO_DOMAIN)
        return self._marks.get((level, domain), Mark(level))

    def check(self, on_nodes: Iterable[PodRecord], holds: Iterable[Hold]) -> None:
        """Count all pods a second time. O(pods + nodes)."""
        if not self.levels and not (self._counted or self._pods or self._marks):
            return
        asked = [(self.asks(record), record.slot) for record in on_nodes]
        asked += [(hold.asks, hold.slot) for hold in holds if hold.asks is not None]
        pods = self._counted_anew(asked)
        marks = {place: _mark_of(place[0], some) for place, some in pods.items()}
        if pods != self._pods or marks != self._marks:
            raise InternalError(f"tenants are {pods}, and not {self._pods}")
        for slot, node in enumerate(self._table.nodes):
            expected = tuple([self._at(slot, level) for level in self.levels])
            if node is not None and self._table.marks_of(slot) != expected:
                raise InternalError(f"{node.name} is marked {self._table.marks_of(slot)}")

    def _counted_anew(self, asked: Iterable[tuple[Asks, int]]) -> dict[_Place, dict[_Tenant, int]]:
        pods: dict[_Place, dict[_Tenant, int]] = {}
        for asks, slot in asked:
            for place in () if asks.is_resident else self._places(slot):
                tenant = (asks.gang or SOMEBODY, place[0] in asks.levels)
                some = pods.setdefault(place, {})
                some[tenant] = some.get(tenant, 0) + 1
        return pods


def _mark_of(level: str, pods: Collection[_Tenant]) -> Mark:
    names = {name for name, _owns in pods}
    owners = sorted(name for name, owns in pods if owns)
    tenant = SOMEBODY if len(names) > 1 else next(iter(names), "")
    return Mark(level, tenant, owners[0] if owners else "")
