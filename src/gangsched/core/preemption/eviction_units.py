"""Eviction units: the pods and nominations that preemption may take together.

Rules:
  R1  a pod may be evicted if the priority of its gang is lower than the preemptor's, it holds a
      node, and it is not terminating already;
  R2  a gang is evicted as a whole, or it gives up elastic members: those beyond its minima. It
      never goes on with fewer members than its minima;
  R3  a nomination of a lower priority is a unit too; taking its capacity evicts no pod.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, final

from attrs import define, evolve, field

from gangsched.core.records.gang import Gang, PodRecord, by_seq
from gangsched.core.records.trial import Lifted
from gangsched.core.state import State
from gangsched.core.state.nominated import Nomination
from gangsched.primitives.counters import MemberState
from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.group_info import PodGroupInfo
from gangsched.primitives.standing import of_roles, standing

__all__ = ["EvictionUnit", "elastic_members", "eviction_units"]

_WAITING: Final = MemberState.WAITING
_BOUND: Final = (MemberState.BINDING, MemberState.ASSIGNED)
_ON_NODES: Final = (_WAITING, *_BOUND)


@final
@define(eq=False)
class EvictionUnit:
    """Pods or a nomination that are evicted or removed together.

    Attributes:
        priority: Its priority, that of its gang.
        gangs: 1 if it ends a running gang or a regular pod; else 0.
        pods: The number of pods that are evicted.
        created_at: When it was created.
        seq: Its number in the order of arrival.
        gang: The gang that is evicted, or that gives up elastic members.
        elastic: The group whose elastic members are evicted; None for another unit.
        nomination: The nomination.
        taken: What it takes off nodes.
    """

    priority: int
    gangs: int
    pods: int
    created_at: float
    seq: int
    gang: Gang | None = None
    elastic: PodGroupInfo | None = None
    nomination: Nomination | None = None
    _taken: list[Lifted] | None = field(default=None, repr=False)

    @property
    def taken(self) -> list[Lifted]:
        """What it takes off nodes. O(members) the first time."""
        if self._taken is None:
            if self.nomination is not None:
                self._taken = list(self.nomination.holds)
            else:
                assert self.gang is not None
                records = sorted(self.gang.members.values(), key=by_seq)
                self._taken = [r for r in records if r.state in _ON_NODES]
        return self._taken

    def on_node(self, slot: int, gone: Collection[Lifted]) -> EvictionUnit:
        """Return a unit of the elastic members that its gang can give up on one node. O(members).

        Args:
            slot: The node.
            gone: Members that the gang gives up already.
        """
        assert self.elastic is not None
        assert self.gang is not None
        members = elastic_members(self.gang, self.elastic, gone, slot)
        return evolve(self, pods=len(members), taken=[*members])


def eviction_units(state: State, below: int, besides: Gang) -> list[EvictionUnit]:
    """Return the units of a lower priority than *below*. O(gangs), O(members) of few."""
    found: list[EvictionUnit] = []
    for gang in state.records.gangs.values():
        if gang is besides or not gang.on_nodes or gang.priority >= below:
            continue
        if not gang.infos:
            _add_pod(gang, found)
        else:
            _add_gang(gang, found)
    for made in state.nominations:
        if made.priority < below and made.gang is not besides:
            gang = made.gang
            unit = EvictionUnit(made.priority, 0, 0, gang.created_at, gang.seq, nomination=made)
            found.append(unit)
    return found


def _add_pod(gang: Gang, found: list[EvictionUnit]) -> None:
    for record in gang.members.values():
        pod = record.pod
        if record.state in _ON_NODES:
            unit = EvictionUnit(gang.priority, 1, 1, pod.created_at, gang.seq, gang)
            unit._taken = [record]
            found.append(unit)


def _add_gang(gang: Gang, found: list[EvictionUnit]) -> None:
    infos = [info for info in gang.infos.values() if info.scheduled]
    if not infos:
        return
    priority = gang.priority
    created_at = max(info.created_at for info in infos)
    pods, started = 0, False
    for info in infos:
        bound = info.scheduled - info.waiting
        pods += bound
        started |= info.was_scheduled
        more = bound - (info.min_available or 0)
        spare = elastic_members(gang, info) if more > 0 else []
        if spare:
            unit = EvictionUnit(priority, 0, more, info.created_at, gang.seq, gang, info)
            unit._taken = [*spare]
            found.append(unit)
    found.append(EvictionUnit(priority, int(started), pods, created_at, gang.seq, gang))


def elastic_members(
    gang: Gang, info: PodGroupInfo, gone: Collection[Lifted] = (), slot: int | None = None
) -> list[PodRecord]:
    """Return the members that a started gang can give up, the last to arrive first. O(members).

    Args:
        gang: The gang.
        info: The group.
        gone: Members that it gives up already.
        slot: The node that they are on; None for any.
    """
    records = sorted(gang.members.values(), key=by_seq)
    bound = [r for r in records if r.info is info and r.state in _BOUND and r not in gone]
    stands = standing(info.tree, of_roles([record.role for record in bound]))
    if not _is_elastic(info) or not stands.is_met:
        return []
    there = [record for record in reversed(bound) if slot is None or record.slot == slot]
    return _beyond_minima(info.tree, there, {key: -more for key, more in stands.lacking.items()})


def _beyond_minima(
    tree: SubGroup, records: Iterable[PodRecord], spare: dict[str, int]
) -> list[PodRecord]:
    """Return the first members that can go, given how many each sub group can spare.

    A sub group without a minimum limits nothing.
    """
    limits: dict[str | None, list[str]] = {
        leaf.role: [sub.key for sub in above if sub.least] for leaf, above in tree.paths()
    }
    found: list[PodRecord] = []
    for record in records:
        own = limits.get(record.role, limits.get(None, []))
        if all(spare[key] > 0 for key in own):
            for key in own:
                spare[key] -= 1
            found.append(record)
    return found


def _is_elastic(info: PodGroupInfo) -> bool:
    """Return whether a gang has started, and may be evicted in part. O(1)."""
    if info.spec is not None and info.spec.evicted_whole:
        return False
    return info.was_scheduled and info.min_available is not None
