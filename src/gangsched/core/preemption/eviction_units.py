"""Eviction units: the pods and nominations that preemption may take together.

Rules:
  R1  a pod may be evicted if the priority of its gang is lower than the preemptor's, or if its
      queue may have to give something back (``reclaim``); if it holds a node, and is not
      terminating already;
  R2  a gang is evicted as a whole, or it gives up what it can go on without: members beyond its
      minima, and surplus copies or children, each as a whole (``surplus``);
  R3  a nomination of a lower priority is a unit too; taking its capacity evicts no pod.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Final, final

from attrs import define, evolve, field

from gangsched.core.admission.reclaim import may_give, may_give_way, may_yield
from gangsched.core.preemption.surplus import Extra, surplus
from gangsched.core.queue.demand import Reach
from gangsched.core.records.gang import GangRecord, by_seq
from gangsched.core.records.trial import Lifted
from gangsched.core.state import State
from gangsched.core.state.nominated import Nomination
from gangsched.primitives.counters import MemberState
from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.standing import least_needed

__all__ = ["EvictionUnit", "eviction_units"]

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
        gang: The gang that is evicted, or that gives up its surplus.
        elastic: The tree of the group or family whose surplus is evicted; None for another unit.
        extras: That surplus, in the order in which it goes.
        nomination: The nomination.
        taken: What it takes off nodes.
    """

    priority: int
    gangs: int
    pods: int
    created_at: float
    seq: int
    gang: GangRecord | None = None
    elastic: SubGroup | None = None
    extras: Sequence[Extra] = ()
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
        """Return a unit of the surplus that its gang can give up on one node. O(members).

        Args:
            slot: The node.
            gone: Members that the gang gives up already.
        """
        assert self.elastic is not None
        assert self.gang is not None
        extras = surplus(self.gang, self.elastic, gone, slot)
        taken = _pods_of(extras)
        return evolve(self, pods=len(taken), extras=extras, taken=taken)


def eviction_units(state: State, reach: Reach, besides: GangRecord) -> list[EvictionUnit]:
    """Return the units within a reach. O(gangs), O(members) of few.

    What has just begun is left out, and the state notes when that ends.
    """
    found: list[EvictionUnit] = []
    yields, gives = may_yield(state, reach), may_give(state, reach)
    for gang in state.records.gangs.values():
        if gang is besides or not gang.on_nodes or not (yields(gang) and gives(gang)):
            continue
        if _has_just_begun(state, gang):
            continue
        if not gang.infos:
            _add_pod(gang, found)
        else:
            _add_gang(gang, found)
    for made in state.nominations:
        if made.gang is not besides and may_give_way(state, reach, made.gang, made.priority):
            gang = made.gang
            unit = EvictionUnit(made.priority, 0, 0, gang.created_at, gang.seq, nomination=made)
            found.append(unit)
    return found


def _has_just_begun(state: State, gang: GangRecord) -> bool:
    policy = state.settings.preemption
    if policy is None or not policy.min_runtime:
        return False
    now, records = state.records.now, gang.members.values()
    started = [r.started_at for r in records if r.slot >= 0 and r.started_at is not None]
    until = min(started, default=-math.inf) + policy.min_runtime
    if until > now:
        state.retry_at = min(state.retry_at, until)
    return until > now


def _add_pod(gang: GangRecord, found: list[EvictionUnit]) -> None:
    for record in gang.members.values():
        pod = record.pod
        if record.state in _ON_NODES:
            unit = EvictionUnit(gang.priority, 1, 1, pod.created_at, gang.seq, gang)
            unit._taken = [record]
            found.append(unit)


def _add_gang(gang: GangRecord, found: list[EvictionUnit]) -> None:
    infos = [info for info in gang.infos.values() if info.scheduled]
    if not infos:
        return
    for part in gang.parts:
        own = [info for info in infos if part.group in (None, info.key)]
        least = least_needed(part, lambda sub: sub.least)  # 0 if no minimum is known
        more = sum(info.scheduled - info.waiting for info in own) - least
        if least and more > 0 and any(info.was_scheduled for info in own):
            _add_surplus(gang, part, more, max(info.created_at for info in own), found)
    created_at = max(info.created_at for info in infos)
    started = any(info.was_scheduled for info in infos)
    pods = sum(info.scheduled - info.waiting for info in infos)
    found.append(EvictionUnit(gang.priority, int(started), pods, created_at, gang.seq, gang))


def _add_surplus(
    gang: GangRecord, tree: SubGroup, more: int, created_at: float, found: list[EvictionUnit]
) -> None:
    extras = surplus(gang, tree)
    if extras:
        unit = EvictionUnit(gang.priority, 0, more, created_at, gang.seq, gang, tree, extras)
        unit._taken = _pods_of(extras)
        found.append(unit)


def _pods_of(extras: Sequence[Extra]) -> list[Lifted]:
    return [record for extra in extras for record in extra.members]
