"""Which gangs that wait for quotas are asked again, and when.

Rules:
  R1  when less is charged, the gangs that wait are asked again in queue order, each beside those
      that fit before it. If one of these leaves the queue without a node, the others are asked
      again;
  R2  when anything else is charged, the gangs that may take back by now what others borrow look for
      victims; so do those that did not fit on nodes;
  R3  what is asked about is noted, and settled as after any other event.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Iterator

from gangsched.core.admission.accounts import claims, over_quota, place
from gangsched.core.admission.reclaim import may_reclaim, owners_of
from gangsched.core.queue.demand import Reach
from gangsched.core.records.charges import Charge
from gangsched.core.records.gang import GangRecord
from gangsched.core.records.waiters import Line
from gangsched.core.state import State
from gangsched.model import GroupKey
from gangsched.resources import NOTHING, Resources

__all__ = ["ask_reclaiming", "ask_tried", "ask_waiting", "place_all", "restore"]


def place_all(state: State) -> None:
    """Charge all pods to the accounts that they belong to. O(pods)."""
    if state.records.quotas.is_used:
        for gang in state.records.gangs.values():
            place(state, gang)


def restore(state: State, charges: Iterable[Charge], waiting: Iterable[tuple[str, str]]) -> None:
    """Read what owners reserve, and which wait, once their pods are known. O(pods)."""
    quotas = state.records.quotas
    if not quotas.is_used:
        return
    quotas.restore(charges)
    state.queue.used(quotas.take_changed())  # gangs were put in the queue before
    for owner, why in waiting:
        gang_or_none = _gang_of(state, owner)
        if gang_or_none is not None and quotas.covers(owner):
            state.queue.note_turn(gang_or_none)
            info = gang_or_none.infos.get(GroupKey(owner))
            quotas.wait(owner, why, gang_or_none, over_quota(state, gang_or_none, owner, info)[1])


def ask_waiting(state: State) -> None:
    """Note the gangs that wait for a quota and fit by now, if a charge was returned.

    They are asked in queue order, each beside those that fit before it. Of those that ask for the
    same, none is asked after one that does not fit.

    Runtime complexity: O(lines log lines), and O(members) for each gang that fits.
    """
    quotas = state.records.quotas
    if not quotas.take_returned():
        return
    refused: set[Hashable] = set()
    due: dict[GangRecord, list[tuple[str, Hashable]]] = {}

    def gangs(line: Line) -> Iterator[GangRecord]:
        alike, _account, waiters = line
        for _turn, owner, gang in waiters:
            if alike in refused:
                return
            due.setdefault(gang, []).append((owner, alike))
            yield gang

    lines = quotas.lines()
    smallest = quotas.smallest(lines)
    ahead: list[str] = []
    for gang in state.queue.played([(line[1], gangs(line)) for line in lines]):
        if ahead and smallest is not None and all(map(quotas.surely_lacks, smallest)):
            refused.update(line[0] for line in lines)
            break
        for owner, alike in due.pop(gang, ()):
            if gang in state.call.touched:
                continue  # another group of its bundle was asked about for both
            info = gang.infos.get(GroupKey(owner))
            if quotas.surely_lacks(alike) or over_quota(state, gang, owner, info)[0]:
                refused.add(alike)
                continue
            state.touch(gang)
            if info is None or not info.was_scheduled:
                wanted = claims(state, gang, info)
                quotas.pretend([(key, quotas.target_of(key, each)) for key, each in wanted])
                ahead += [key for key, _amounts in wanted]
    quotas.end_trial()
    quotas.note_ahead(ahead if refused else ())


def ask_reclaiming(state: State, changed: Collection[str]) -> None:
    """Note the gangs that may take back by now what others borrow, as something was charged.

    Of those that ask for the same, the first one looks for all. Runtime complexity: O(lines +
    blocked demands), and O(queues around) for each of their queues.

    Args:
        state: The state.
        changed: The accounts to which more or less is charged than before.
    """
    quotas, policy = state.records.quotas, state.settings.preemption
    if policy is None or policy.reclaim is None:
        return
    known: dict[tuple[str, Resources], bool] = {}

    def may(queue: str, asked: Resources = NOTHING) -> bool:
        if (queue, asked) not in known:
            known[queue, asked] = may_reclaim(state, queue, asked)
        return known[queue, asked]

    for gang in quotas.heads():
        lower = state.records.priorities_in.get(state.records.queue_of(gang), ())
        if min(lower, default=math.inf) < gang.priority or any(
            may(quotas.queue_of(each), quotas.asked(each)) for each in owners_of(gang)
        ):
            state.touch(gang)

    def may_be_helped(reach: Reach) -> bool:
        queue = reach.queue or ""
        lowest = min(state.records.priorities_in.get(queue, ()), default=math.inf)
        return (lowest < reach.below and queue in changed) or may(queue)

    state.queue.wake_reclaiming(may_be_helped, state.mark)


def ask_tried(state: State) -> None:
    """Note gangs that have looked for victims in vain: nodes, or the time, may help. O(lines)."""
    if state.records.quotas.forget_tried():
        for gang in state.records.quotas.heads():
            state.touch(gang)


def _gang_of(state: State, owner: str) -> GangRecord | None:
    records = state.records
    return records.gang_of.get(GroupKey(owner)) or records.gangs.get(owner)
