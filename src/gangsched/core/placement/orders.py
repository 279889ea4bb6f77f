"""Every order in which members can be placed: the search for members that read where others are.

Placed one after the other, a member may be in the way of another one, or come before the one that
it has to be beside. ``explore`` takes members back. If the minima can be placed in some order, so
that each member is accepted when it is placed, it finds one, up to its budget. A step is a node
about which plugins are asked. This requires of a plugin that what it accepts depends on which pods
are on which nodes, not on the order in which they came.

Rules:
  R1  a position is which classes of members are on which nodes; each is looked at once;
  R2  of nodes without pods that no plugin tells apart only the first is tried at a position;
  R3  a position is given up when the members that are left cannot meet a minimum, each class
      counted as if it were alone on the nodes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Final, TypeAlias, final

from gangsched.core.evaluation.pod_class import PodClass
from gangsched.core.nodes.domains import Domain
from gangsched.core.placement.task import Task
from gangsched.primitives.gang_tree import SubGroup

__all__ = ["explore"]

_LISTED: Final = 100
"""How many nodes are listed in a step."""

_Move: TypeAlias = tuple[str, PodClass, int]


def explore(
    task: Task, keys: frozenset[str], domains: Mapping[str, Domain], budget: int
) -> tuple[int, bool]:
    """Place the minima of the chosen sub groups; return the steps, and whether they are placed.

    Args:
        task: The members; nothing of it is placed.
        keys: The keys of the chosen sub groups.
        domains: The domain of each.
        budget: The steps that it may take.
    """
    run = _Run(task, keys, domains, budget)
    is_placed = run.explore()
    return run.steps, is_placed


@final
class _Run:
    """One search, in one choice of sub groups and domains."""

    def __init__(
        self, task: Task, keys: frozenset[str], domains: Mapping[str, Domain], budget: int
    ) -> None:
        self.steps = 0
        self._task = task
        self._budget = budget
        self._minima = [sub for sub in task.gang.tree.sub_groups() if sub.key in keys]
        self._chosen = domains
        self._domains = {leaf: d for leaf, d in domains.items() if leaf in task.pools}
        self._position: dict[_Move, int] = {}
        self._looks: dict[int, Hashable] = {}
        self._apart = [sub.apart for sub in self._minima if sub.apart is not None]
        self._within = [frozenset(task.table.domains.slots(d)) for d in self._domains.values()]

    def explore(self) -> bool:
        task, position = self._task, self._position
        seen = set[frozenset[tuple[_Move, int]]]()
        path: list[tuple[Any, _Move]] = []
        ways = [self._moves()]
        while ways:
            move = next(ways[-1], None)
            if self.steps >= self._budget:
                move, ways = None, ways[:1]
            if move is None:
                ways.pop()
                if path:
                    self._take_back(path)
                continue
            path.append((task.save(), move))
            task.put_next(*move)
            position[move] = position.get(move, 0) + 1
            here = frozenset(position.items())
            if here in seen:
                self._take_back(path)
                continue
            seen.add(here)
            if task.most_domains is None or len(task.nodes) > task.most:
                task.most, task.most_domains = len(task.nodes), self._chosen
            if all(task.lacking(sub) <= 0 for sub in self._minima):
                return True
            ways.append(self._moves())
        while path:
            self._take_back(path)
        return False

    def _take_back(self, path: list[tuple[Any, _Move]]) -> None:
        point, move = path.pop()
        self._task.restore(point)
        self._position[move] -= 1
        if not self._position[move]:
            del self._position[move]

    def _moves(self) -> Iterator[_Move]:
        """Yield what may be placed next, members that are lacking first.

        Whenever the next one is asked for, the nodes are as at the start.
        """
        task = self._task
        left = [
            (leaf, pod_class, number)
            for leaf in self._domains
            for pod_class, number in task.left(leaf)
        ]
        if not all(self._may_meet(sub, left) for sub in self._minima):
            task.is_most_exact = False
            return
        lacking = [sub for sub in self._minima if task.lacking(sub) > 0]
        needed = [leaf.key for sub in lacking for leaf in sub.leaves]
        left.sort(key=lambda each: -needed.count(each[0]))
        for leaf, pod_class, _number in left:
            for slot in self._accepted(leaf, pod_class):
                yield leaf, pod_class, slot

    def _may_meet(self, sub: SubGroup, left: list[tuple[str, PodClass, int]]) -> bool:
        lacking = self._task.lacking(sub)
        if lacking <= 0:
            return True
        below = {leaf.key for leaf in sub.leaves}
        most = sum(
            min(number, pod_class.memo.refresh().within(self._domains[leaf]))
            for leaf, pod_class, number in left
            if leaf in below
        )
        return most >= lacking

    def _accepted(self, leaf: str, pod_class: PodClass) -> Iterator[int]:
        task, met = self._task, set[Hashable]()
        taken = {slot for _leaf, _class, slot in self._position}
        slots = task.slots(pod_class, self._domains[leaf])
        self.steps += len(slots) // _LISTED
        for slot in slots:
            if self.steps >= self._budget:
                return
            look = None if slot in taken else self._look(slot)
            if look is not None:
                if look in met:
                    continue
                met.add(look)
            self.steps += 1
            if task.apart.takes(leaf, slot) and task.accepts(leaf, pod_class, slot):
                yield slot

    def _look(self, slot: int) -> Hashable:
        """Return what is equal for nodes of which only one is tried; None if it is always tried."""
        if slot not in self._looks:
            task = self._task
            look = task.look(slot)
            where: tuple[Hashable, ...] = tuple([slot in within for within in self._within])
            where += tuple([task.table.domains.across(slot, level) for level in self._apart])
            self._looks[slot] = None if look is None else (look, where)
        return self._looks[slot]
