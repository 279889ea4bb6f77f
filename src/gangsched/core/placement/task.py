"""The members of a gang that are to be placed, and how some of them take nodes of a domain.

Which domain, and how many of them, is decided by ``tree_walk``, or by a search if that fails. Nodes
are chosen for all members of a class together. Members with late plugins are placed one after the
other: before one is asked about, its cycle is told of those that are planned (``add_pod``).

All of it takes capacity in a trial of the table. So nothing here looks at anything but the memo and
the late plugins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias, final

from gangsched.core.evaluation.pod_class import PodClass
from gangsched.core.nodes.domains import EVERYWHERE, Domain
from gangsched.core.nodes.node_table import NodeTable
from gangsched.core.nodes.views import NodeViews
from gangsched.core.placement import late
from gangsched.core.placement.apart import Apart, one_each
from gangsched.core.placement.fill import (
    best_nodes,
    evenly,
    fewest_domains,
    fewest_nodes,
    most_nodes,
)
from gangsched.core.placement.pinned import Limit, holding_by_leaf, name_of, pinned_to
from gangsched.core.records import Records
from gangsched.core.records.gang import GangRecord, PodRecord
from gangsched.cycle_state import CycleState
from gangsched.explain import Diagnosis
from gangsched.model import Pod
from gangsched.primitives.gang_tree import SubGroup, Within
from gangsched.primitives.group_info import HOLDING
from gangsched.profile import calls

__all__ = ["Gather", "Task"]

Gather: TypeAlias = tuple[str, ...]
"""Levels of which the fewest domains are taken, the coarsest first; empty if that is no matter."""

_Point: TypeAlias = tuple[Any, ...]


@final
class Task:
    """The members of one gang that are to be placed, and what is placed so far.

    Args:
        gang: The gang.
        pods: The members that are to be placed.
        records: What is known.
        cycle: Returns the cycle state of a member.
        lacking: By the key of a sub group, how many more members its minimum needs; see
            ``pending_members.lacking``. Kept as ``minima``.
        barred: Nodes that members with late plugins do not go to.

    Attributes:
        pools: By the key of a leaf, its members by class.
        nodes: The members that are placed, each with its node, in order.
        chosen: By the key of a sub group that met its minimum, the domain that it was given.
        apart: Which domains are left to sub groups that share none.
        failed: The first member that found no node; ``diagnosis``: why, with the members beside it
            that had found one.
        is_denied: Whether PreScore refused a member on all nodes that take it: no search helps.
        most: How many were placed when one found no node, at the most.
        most_domains: The domains in which a search in every order has placed the most members; None
            without such a search. ``is_most_exact``: whether it has shown that no more fit there.
        steps: The steps that searches took.
        gave_up: Whether a search ended for its budget, so that there may be a placement.
    """

    def __init__(
        self,
        gang: GangRecord,
        pods: Collection[PodRecord],
        records: Records,
        cycle: Callable[[PodRecord], CycleState],
        lacking: Mapping[str, int],
        barred: Collection[int] = (),
    ) -> None:
        self.gang: GangRecord = gang
        self.records: Records = records
        self.table: NodeTable = records.table
        self.pools: dict[str, dict[PodClass, list[PodRecord]]] = {}
        for record in pods:
            assert record.pod_class is not None
            pool = self.pools.setdefault(record.leaf, {})
            pool.setdefault(record.pod_class, []).append(record)
        self.minima: Mapping[str, int] = lacking
        self.nodes: list[tuple[PodRecord, int]] = []
        self.chosen: dict[str, Domain] = {}
        self.apart: Apart = Apart(gang, self.table, self.nodes)
        self.failed: PodRecord | None = None
        self.diagnosis: Diagnosis | None = None
        self.is_denied: bool = False
        self.most: int = 0
        self.most_domains: Mapping[str, Domain] | None = None
        self.is_most_exact: bool = True
        self.steps: int = 0
        self.gave_up: bool = False
        self._used: dict[tuple[str, PodClass], int] = {}
        self._placed: dict[str, int] = {}
        self._cycle = cycle
        self._barred = barred
        self._views = NodeViews(records)
        self._told: dict[PodRecord, list[tuple[int, Pod]]] = {}
        # whether a member reads the others, or is read by them
        self._shows = any(c.is_asked_late for pool in self.pools.values() for c in pool)
        guard = records.guard
        # whether a member may be in the way of a reserved gang
        self._is_guarded: bool = guard is not None and any(map(guard.concerns, pods))

    # Points to return to ------------------------------------------------------------------------

    def save(self) -> _Point:
        """Return a point that ``restore`` returns to."""
        copies = (dict(self._used), dict(self._placed), dict(self.chosen))
        return (self.table.point(), len(self.nodes), self.records.planned, *copies)

    def restore(self, point: _Point) -> None:
        """Undo what was placed since a point, which may be used again."""
        mark, length, planned, used, placed, chosen = point
        self.records.clear_plan(planned)
        self.table.rewind(mark)
        del self.nodes[length:]
        self.apart.forget()
        self._used, self._placed, self.chosen = dict(used), dict(placed), dict(chosen)

    # Minima -------------------------------------------------------------------------------------

    @property
    def numbers(self) -> dict[str, int]:
        """How many members of each leaf are to be placed, by key. O(classes)."""
        return {key: sum(map(len, pool.values())) for key, pool in self.pools.items()}

    @cached_property
    def holding(self) -> Mapping[str, int]:
        """How many members of each leaf held nodes when the task began. O(members) at first."""
        return holding_by_leaf(self.gang)

    def lacking(self, tree: SubGroup) -> int:
        """Return how many more members a sub group needs, after those that are placed."""
        placed = sum(self._placed.get(leaf.key, 0) for leaf in tree.leaves)
        return self.minima.get(tree.key, 0) - placed

    def needed(self, tree: SubGroup) -> int:
        """Return how many members a sub group lacked when the task began."""
        return max(self.minima.get(tree.key, 0), 0)

    # Domains ------------------------------------------------------------------------------------

    def pinned(
        self, tree: SubGroup, under: Domain = EVERYWHERE, level: str | None = None
    ) -> list[Domain] | None:
        """Return the domains in which members of a sub group run; see ``pinned_to``."""
        if not tree.is_in(self.holding):
            return None
        return pinned_to(self.gang, tree, self.table, under, level)

    def around(self, tree: SubGroup, under: Domain, level: str) -> list[Domain]:
        """Return the domains of a level in which members of a sub group run, or are placed."""
        keys = {leaf.key for leaf in tree.leaves}
        placed = [slot for record, slot in self.nodes if record.leaf in keys]
        return pinned_to(self.gang, tree, self.table, under, level, placed) or []

    def levels(self, within: Within) -> tuple[str, ...]:
        """Return the levels that a constraint tries, the finest first; the cluster left out."""
        if within.required and within.prefer is None:
            return (within.level,)
        last = within.level if within.required else None
        return self.table.domains.levels.upwards(within.prefer or within.level, last)

    def domains(self, tree: SubGroup) -> Sequence[Domain]:
        """Return the domains in which a sub group with a constraint may be."""
        assert tree.within is not None
        pinned = self.pinned(tree)
        return self.table.domains.at(tree.within.level) if pinned is None else pinned

    def name(self, domain: Domain) -> str:
        """Return the value of a domain: of the label of its level, or the name of a node."""
        return name_of(self.table, domain)

    # Members ------------------------------------------------------------------------------------

    def put(self, leaf: SubGroup, number: int, domain: Domain, gather: Gather = ()) -> int:
        """Place up to *number* members of a leaf in a domain; return how many were placed."""
        pool = self.pools.get(leaf.key)
        if not pool or number <= 0:
            return 0
        if leaf.apart is not None:
            return self._put_apart(leaf, number, domain)
        if leaf.key in self.balanced:
            gather = self.table.domains.finer(self.balanced[leaf.key], domain)
        classes = list(pool)
        if len(classes) > 1:
            # of all of them, the hardest first; of some of them, the easiest
            left = sum(len(pool[c]) - self._used.get((leaf.key, c), 0) for c in classes)
            classes.sort(key=lambda c: c.memo.refresh().total, reverse=left > number)
        done = 0
        for pod_class in classes:
            used = self._used.get((leaf.key, pod_class), 0)
            records = pool[pod_class][used : used + number - done]
            if not records:
                continue
            slots = self._fill(pod_class, records, domain, gather)
            self.nodes += zip(records, slots, strict=False)  # fewer slots if fewer fit
            self._used[leaf.key, pod_class] = used + len(slots)
            done += len(slots)
            self._placed[leaf.key] = self._placed.get(leaf.key, 0) + len(slots)
            if len(slots) < len(records):
                self.most = max(self.most, len(self.nodes))
                self.blame(records[len(slots)])
                if pod_class.tells_apart:
                    done += self._put_others(leaf, pod_class, number - done, domain)
            if done == number:
                break
        return done

    def _put_apart(self, leaf: SubGroup, number: int, under: Domain) -> int:
        """Place members in different domains; a late plugin may refuse some."""
        done, left = 0, self.left(leaf.key)
        for pod_class, domain in one_each(self.table, left, self.apart.unowned(leaf, under)):
            record = self._next(leaf.key, pod_class)
            for slot in self._fill(pod_class, [record], domain, ()):
                done += 1
                self.nodes.append((record, slot))
                self._used[leaf.key, pod_class] = self._used.get((leaf.key, pod_class), 0) + 1
            if done == number:
                break
        self._placed[leaf.key] = self._placed.get(leaf.key, 0) + done
        if done < number and self.left(leaf.key):
            self.most = max(self.most, len(self.nodes))
            self.blame(self._next(leaf.key, self.left(leaf.key)[0][0]))
        return done

    def _put_others(self, leaf: SubGroup, pod_class: PodClass, number: int, domain: Domain) -> int:
        """Place members after one that a plugin has refused, which may accept them."""
        done = 0
        pool = self.pools[leaf.key][pod_class]
        for record in pool[self._used.get((leaf.key, pod_class), 0) + 1 :]:
            if done == number:
                break
            cycle, siblings = self._told_cycle(record), self._siblings(pod_class)
            slot = late.best_slot(record, cycle, self._views, domain, self._barred, siblings)
            done += isinstance(slot, int) and self.put_on(record, slot)
        return done

    def put_on(self, record: PodRecord, slot: int) -> bool:
        """Place one member on a node; return False if it is not among them, or is refused there."""
        pod_class = record.pod_class
        pool = self.pools.get(record.leaf, {}).get(pod_class) if pod_class is not None else None
        if pod_class is None or pool is None or record not in pool:
            return False
        if not self.apart.takes(record.leaf, slot):
            return False
        used = self._used.get((record.leaf, pod_class), 0)
        if self.asks_late(pod_class):
            if not self._is_accepted(record, slot):
                return False
            self.records.plan(slot, record.pod)
        # the members of a pool are taken in order, so this one comes next
        pool.remove(record)
        pool.insert(used, record)
        self.take(record.leaf, pod_class, slot, 1)
        return True

    def take(self, leaf: str, pod_class: PodClass, slot: int, count: int) -> None:
        """Place the next members of a class on a node, as a search has found."""
        used = self._used.get((leaf, pod_class), 0)
        records = self.pools[leaf][pod_class][used : used + count]
        self.table.take(slot, pod_class.needs, count)
        self.nodes += [(record, slot) for record in records]
        self._used[leaf, pod_class] = used + count
        self._placed[leaf] = self._placed.get(leaf, 0) + count

    def unplaced(self) -> list[PodRecord]:
        """Return the members that are not placed. O(members)."""
        placed = {record for record, _slot in self.nodes}
        pools = chain.from_iterable(pool.values() for pool in self.pools.values())
        return [record for record in chain.from_iterable(pools) if record not in placed]

    def leave_out(self, records: Iterable[PodRecord]) -> None:
        """Place some members no more; those that are placed give their nodes back. O(members)."""
        out = set(records)
        if not out:
            return
        for record, slot in self.nodes:
            if record in out:
                assert record.pod_class is not None
                self.table.take(slot, record.needs, -1)
                self.records.unplan(slot, record.pod)
                self._used[record.leaf, record.pod_class] -= 1
                self._placed[record.leaf] -= 1
        self.nodes[:] = [each for each in self.nodes if each[0] not in out]
        self.apart.forget()
        for pool in self.pools.values():
            for pod_class, alike in pool.items():
                pool[pod_class] = [record for record in alike if record not in out]

    def blame(self, record: PodRecord) -> None:
        """Note that a member found no node, and why; the first one counts. O(reasons), later."""
        if self.failed is None:
            limit = self._limit(record.leaf)
            self.failed = record
            cycle = self._told_cycle(record)
            self.diagnosis = late.diagnosis(record, cycle, self._views, limit)

    def _limit(self, leaf: str) -> Limit | None:
        """Return where the other members keep a member of a leaf; None if they do not."""
        found: Limit | None = None
        of = next((each for each in self.gang.tree.leaves if each.key == leaf), None)
        if of is not None and of.apart is not None:
            return Limit(of.apart, tuple(self.apart.unowned(of, EVERYWHERE)), is_apart=True)
        for tree in self.gang.tree.constrained:
            within = tree.within
            if within is None or not within.required or leaf not in {x.key for x in tree.leaves}:
                continue
            pinned = self.pinned(tree)
            if pinned is not None:
                found = Limit(within.level, tuple(pinned))
        return found

    # One by one --------------------------------------------------------------------------------

    def left(self, leaf: str) -> list[tuple[PodClass, int]]:
        """Return the classes of a leaf of which members are left, each with their number."""
        used = self._used
        pool = self.pools.get(leaf, {})
        left = [(c, len(some) - used.get((leaf, c), 0)) for c, some in pool.items()]
        return [(pod_class, number) for pod_class, number in left if number]

    def classes(self, tree: SubGroup) -> dict[PodClass, int]:
        """Return how many members of each class of a sub group are left; their memos are fresh."""
        found: dict[PodClass, int] = {}
        for leaf in tree.leaves:
            for pod_class, number in self.left(leaf.key):
                pod_class.memo.refresh()
                found[pod_class] = found.get(pod_class, 0) + number
        return found

    def slots(self, pod_class: PodClass, domain: Domain) -> list[int]:
        """Return the nodes of a domain that the memo accepts, the best first."""
        return [s for s in late.ordered_slots(pod_class, domain) if s not in self._barred]

    def accepts(self, leaf: str, pod_class: PodClass, slot: int) -> bool:
        """Return whether late plugins accept a node for the next member of a class."""
        return self._is_accepted(self._next(leaf, pod_class), slot)

    def put_next(self, leaf: str, pod_class: PodClass, slot: int) -> None:
        """Place the next member of a class on a node that accepts it."""
        self.records.plan(slot, self._next(leaf, pod_class).pod)
        self.take(leaf, pod_class, slot, 1)

    def look(self, slot: int) -> Hashable:
        """Return what tells a node from others, if it has no pods; None if it may be unique."""
        if self.records.holders(slot):
            return None
        view, parts = self._views.at(slot), list[Hashable]()
        for pool in self.pools.values():
            for pod_class, records in pool.items():
                cycle, pod = self._cycle(records[0]), records[0].pod
                for each in late.asked_about(pod_class, cycle, records[0], self._views):
                    part = late.look(each.plugin, cycle, pod, view)
                    if part is None:
                        return None
                    parts.append(part)
        return (self.table.state_of[slot], *parts)

    def _next(self, leaf: str, pod_class: PodClass) -> PodRecord:
        return self.pools[leaf][pod_class][self._used.get((leaf, pod_class), 0)]

    def _is_accepted(self, record: PodRecord, slot: int) -> bool:
        pod_class, cycle = record.pod_class, self._told_cycle(record)
        assert pod_class is not None
        asked = late.asked_about(pod_class, cycle, record, self._views)
        return late.accepted(asked, record, cycle, self._views, slot) is None

    def _told_cycle(self, record: PodRecord) -> CycleState:
        """Return the cycle of a member, after its plugins were told of the planned members."""
        if any(callable(getattr(plugin, "add_pod", None)) for plugin in _late_plugins(record)):
            self._tell(record, self.records.plans)
        return self._cycle(record)

    def _tell(self, record: PodRecord, plans: list[tuple[int, Pod]]) -> None:
        """Tell the plugins of a member which others are planned now, and which are no more."""
        told, same = self._told.get(record, []), 0
        while same < min(len(told), len(plans)) and told[same] is plans[same]:
            same += 1
        changes = [("remove_pod", *each) for each in reversed(told[same:])]
        changes += [("add_pod", *each) for each in plans[same:]]
        cycle, pod = self._cycle(record), record.pod
        for point, slot, other in changes:
            for plugin in _late_plugins(record):
                if callable(getattr(plugin, point, None)):
                    args = (cycle, pod, other, self._views.at(slot))
                    calls.call(plugin, point, pod, type(None), *args)
        self._told[record] = plans

    def end(self) -> None:
        """Let cycles forget the members that were planned: those are assumed now, or not at all."""
        for record in self._told:
            self._tell(record, [])

    def _fill(
        self, pod_class: PodClass, records: list[PodRecord], domain: Domain, gather: Gather
    ) -> list[int]:
        if gather and records:
            return self._gather(pod_class, records, domain, gather)
        if self.asks_late(pod_class):
            return self._fill_late(pod_class, records, domain)
        if pod_class.packs:
            return fewest_nodes(pod_class, len(records), domain)
        if pod_class.spreads:
            return most_nodes(pod_class, len(records), domain, self._siblings(pod_class))
        return best_nodes(pod_class, len(records), domain)

    @cached_property
    def balanced(self) -> dict[str, str]:
        """By the key of a leaf whose members are balanced, the level within which they are."""
        found: dict[str, str] = {}
        for tree in self.gang.tree.constrained:
            if tree.within is not None and tree.within.balanced:
                found |= dict.fromkeys([leaf.key for leaf in tree.leaves], tree.within.level)
        return found

    def _gather(
        self, pod_class: PodClass, records: list[PodRecord], domain: Domain, levels: Gather
    ) -> list[int]:
        """Place members in the fewest domains of each level, those first that the gang has."""
        found: list[int] = []
        level, below = levels[0], levels[1:]
        domains = self.table.domains
        others = dict.fromkeys(domains.at(level, domain))
        mine = [r.slot for r in self.gang.members.values() if r.state in HOLDING and r.slot >= 0]
        mine += [slot for _record, slot in self.nodes]
        around = (domains.around(slot, level, domain) for slot in mine)
        held = Counter(each for each in around if each is not None)
        if records[0].leaf in self.balanced:
            memo = pod_class.memo.refresh()
            room = {each: memo.within(each) for each in (*others, *held)}
            parts: Iterable[tuple[Domain, int]] = evenly(len(records), room, held, self.name)
        else:
            for each in held:
                found += self._fill(pod_class, records[len(found) :], each, below)
            parts = fewest_domains(pod_class, len(records) - len(found), others)
        for each, number in parts:
            found += self._fill(pod_class, records[len(found) :][:number], each, below)
        # the nodes that are in no domain of the level, and what a late plugin has refused
        return found + self._fill(pod_class, records[len(found) :], domain, below)

    def asks_late(self, pod_class: PodClass) -> bool:
        """Return whether single nodes have to be asked about, and members shown on them."""
        if self._is_guarded:
            return True
        if not pod_class.late and not self._shows:
            return False
        return self._shows or pod_class.is_asked_late or self.records.counts.has_terms

    @property
    def asks_some_late(self) -> bool:
        """Whether single nodes have to be asked about for a member. O(classes)."""
        return any(self.asks_late(each) for pool in self.pools.values() for each in pool)

    def _fill_late(
        self, pod_class: PodClass, records: list[PodRecord], domain: Domain
    ) -> list[int]:
        found: list[int] = []
        if (
            pod_class.packs
            and len(records) > 1
            and not any(x.weight or x.prepares for x in pod_class.late)
        ):
            found = self._fewest(pod_class, records, domain)
        for record in records[len(found) :]:
            cycle, siblings = self._told_cycle(record), self._siblings(pod_class, found)
            slot = late.best_slot(record, cycle, self._views, domain, self._barred, siblings)
            if not isinstance(slot, int):
                self.is_denied = slot is not None
                break
            self.table.take(slot, pod_class.needs)
            self.records.plan(slot, record.pod)
            found.append(slot)
        return found

    def _siblings(self, pod_class: PodClass, found: Iterable[int] = ()) -> Counter[int]:
        """Return how many members each node has by now; none for pods that do not spread."""
        nodes = (slot for _record, slot in self.nodes)
        return Counter(chain(nodes, found) if pod_class.spreads else ())

    def _fewest(self, pod_class: PodClass, records: list[PodRecord], domain: Domain) -> list[int]:
        """Place members on the fewest nodes if late plugins accept these; none otherwise."""
        point = self.save()
        slots = fewest_nodes(pod_class, len(records), domain)
        self.restore(point)
        if self._barred:
            return []
        for record, slot in zip(records, slots, strict=False):
            if not self._is_accepted(record, slot):
                self.restore(point)
                return []
            self.table.take(slot, pod_class.needs)
            self.records.plan(slot, record.pod)
        return slots


def _late_plugins(record: PodRecord) -> list[Any]:
    return [] if record.pod_class is None else [each.plugin for each in record.pod_class.late]
