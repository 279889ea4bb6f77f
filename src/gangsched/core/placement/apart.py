"""Which domains are left to sub groups that share none: slices, copies, children or single pods.

A sub group states ``apart``, a level. Each of its children has the domains of that level that its
members are in, and no other one may be there; of a leaf, each member. Members that run count,
whoever put them there.

Rule:
  R1  a domain of a finer level stands for that of the level around it. No child has a coarser one:
      such a family is held (``Levels.problem_below``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, final

from gangsched.core.evaluation.pod_class import PodClass
from gangsched.core.nodes.domains import Domain
from gangsched.core.nodes.node_table import NodeTable
from gangsched.core.records.gang import GangRecord, PodRecord
from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.group_info import HOLDING

__all__ = ["Apart", "one_each", "owned_by"]

_Owners: TypeAlias = dict[tuple[str, Domain], str]
"""By the key of what states the level, and a domain of it, the key of the child that is there."""


@final
class Apart:
    """The domains that children of one gang have, while its members are placed.

    Args:
        gang: The gang.
        table: The nodes.
        nodes: The members that are placed, each with its node; it grows, and ``forget`` is called
            after anything else.
    """

    def __init__(
        self, gang: GangRecord, table: NodeTable, nodes: Sequence[tuple[PodRecord, int]]
    ) -> None:
        self._gang = gang
        self._table = table
        self._nodes = nodes
        self._above: dict[str, SubGroup] = {}
        self._of_leaf: dict[str, list[tuple[SubGroup, str]]] = {}
        for tree in gang.tree.sub_groups() if gang.tree.has_apart else ():
            if tree.apart is None:
                continue
            parts = [child for child in tree.children if child.within is not None]
            self._above |= dict.fromkeys([part.key for part in parts], tree)
            for child in parts or (tree,):
                for leaf in child.leaves:
                    self._of_leaf.setdefault(leaf.key, []).append((tree, child.key))
        self._owners: _Owners | None = None
        self._seen = 0

    def is_broken(self) -> bool:
        """Return whether members that hold nodes share a domain though they belong apart."""
        owners: _Owners = {}
        for record, slot in self._running():
            for tree, child in self._of_leaf.get(record.leaf, ()):
                # of a leaf, each member has a domain to itself
                owner = record.uid if tree.key == child else child
                for each in self._across(slot, tree):
                    if owners.setdefault((tree.key, each), owner) != owner:
                        return True
        return False

    def forget(self) -> None:
        """Look at the members anew: some are placed no longer."""
        self._owners = None

    def is_left(self, child: SubGroup, domain: Domain, given: Mapping[str, Domain]) -> bool:
        """Return whether a domain is left to a child: no other child is in a domain of the level.

        Args:
            child: A sub group.
            domain: The domain; one without any domain of the level is not left.
            given: The domains that others were given, by key, without being placed.
        """
        tree = self._above.get(child.key)
        if tree is None:
            return True
        owners, mine = self._owned(), self._across(domain, tree)
        if not mine or any(owners.get((tree.key, e), child.key) != child.key for e in mine):
            return False
        others = [given[c.key] for c in tree.children if c.key in given and c is not child]
        return all(mine.isdisjoint(self._across(each, tree)) for each in others)

    def takes(self, leaf: str, slot: int) -> bool:
        """Return whether a node is in no domain that a member of a leaf has to leave to others."""
        owners = self._owned()
        for tree, child in self._of_leaf.get(leaf, ()):
            found = {owners.get((tree.key, each)) for each in self._across(slot, tree)}
            # of a leaf, each member has a domain to itself
            if not found <= ({None} if tree.key == child else {None, child}) or not found:
                return False
        return True

    def unowned(self, leaf: SubGroup, under: Domain) -> list[Domain]:
        """Return the domains that have no member of a leaf, of those that its members are in."""
        assert leaf.apart is not None
        owners, here = self._owned(), self._table.domains.at(leaf.apart, under)
        taken = {domain for key, domain in owners if key == leaf.key}
        if not taken:
            return list(here)
        return [each for each in here if taken.isdisjoint(self._across(each, leaf))]

    def first_in_each(self, domains: Iterable[Domain], tree: SubGroup) -> list[Domain]:
        """Return of each domain that a child has for itself the first one that is part of it."""
        firsts: dict[frozenset[Domain], Domain] = {}
        for each in domains:
            firsts.setdefault(self._across(each, tree), each)
        return [*firsts.values()]

    def _running(self) -> list[tuple[PodRecord, int]]:
        """Return the members that hold nodes, and those. O(members)."""
        members = self._gang.members.values()
        return [(r, r.slot) for r in members if r.state in HOLDING and r.slot >= 0]

    def _across(self, domain: Domain, tree: SubGroup) -> frozenset[Domain]:
        return self._table.domains.across(domain, tree.apart or "")

    def _owned(self) -> _Owners:
        """Return who has which domain. O(members) after ``forget``, else O(those placed since)."""
        owners, placed = self._owners, self._nodes
        if owners is None:
            owners = self._owners = {}
            self._seen = 0
            self._note(owners, self._running())
        self._note(owners, placed[self._seen :])
        self._seen = len(placed)
        return owners

    def _note(self, owners: _Owners, some: Iterable[tuple[PodRecord, int]]) -> None:
        for record, slot in some:
            for tree, child in self._of_leaf.get(record.leaf, ()):
                for each in self._across(slot, tree):
                    owners.setdefault((tree.key, each), child)


def owned_by(gang: GangRecord, table: NodeTable) -> tuple[object, ...]:
    """Return which domains running members take from the others, in one order. O(members)."""
    if not gang.tree.has_apart:
        return ()
    return tuple(sorted(Apart(gang, table, ())._owned().items(), key=str))


def one_each(
    table: NodeTable, classes: Sequence[tuple[PodClass, int]], domains: Sequence[Domain]
) -> list[tuple[PodClass, Domain]]:
    """Give as many pods as possible a domain each, the domains with the least room first.

    Runtime complexity: O(pods + domains) for like pods, and O(pods x domains x classes) for others:
    a pod may move those before it to other domains (Kuhn's matching).

    Args:
        table: The nodes.
        classes: The classes of the pods, each with the number of them.
        domains: The domains.
    """
    able: dict[PodClass, list[Domain]] = {}
    for pod_class, _number in classes:
        memo = pod_class.memo.refresh()
        sized = [(memo.within(d), table.names[d] if isinstance(d, int) else d, d) for d in domains]
        able[pod_class] = [d for room, _n, d in sorted(sized, key=lambda e: e[:2]) if room]
    taken: dict[Domain, PodClass] = {}
    first = dict.fromkeys(able, 0)  # those before it are taken, and stay so

    def find(pod_class: PodClass, seen: set[PodClass]) -> bool:
        """Give one more pod of a class a domain; one of each other class may move."""
        seen.add(pod_class)
        mine, at = able[pod_class], first[pod_class]
        while at < len(mine) and mine[at] in taken:
            at += 1
        first[pod_class] = at
        if at < len(mine):
            taken[mine[at]] = pod_class
            return True
        for domain in mine:
            other = taken[domain]
            if other not in seen and find(other, seen):
                taken[domain] = pod_class
                return True
        return False

    for pod_class, number in sorted(classes, key=lambda each: len(able[each[0]])):
        for _each in range(number):
            if not find(pod_class, set()):
                break
    return [(pod_class, domain) for domain, pod_class in taken.items()]
