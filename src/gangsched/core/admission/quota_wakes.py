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
from collections.abc import Collection, Hashable, Iterable

from gangsched.core.admission.accounts import claims, over_quota, place
from gangsched.core.admission.reclaim import may_gain, may_reclaim
from gangsched.core.queue.demand import Reach
from gangsched.core.records.account_tree import Account
from gangsched.core.records.charges import Charge
from gangsched.core.records.gang import GangRecord
from gangsched.core.state import State
from gangsched.model import GroupKey
from gangsched.resources import NOTHING

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

    Runtime complexity: O(accounts around those that are asked), and O(members) for each of them.
    """
    quotas = state.records.quotas
    returned = quotas.take_returned()
    if not returned:
        return
    refused: set[Hashable] = set()
    ahead: list[str] = []

    def is_left_out(account: str) -> bool:
        return not has_shares and quotas.is_hopeless(account, returned)

    has_shares = state.points.has_shares  # then accounts are those of a plugin, and not queues
    if has_shares or quotas.tree.history is not None:
        quotas.waiters.note_shares()
    for _turn, owner, gang, alike in quotas.waiters.play(refused, is_left_out):
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
    quotas.note_ahead(ahead)


def ask_reclaiming(state: State, changed: Collection[str]) -> None:
    """Note the gangs that may take back by now what others borrow, as something was charged.

    Of those that ask for the same, the first one looks for all. Runtime complexity: O(accounts
    around those that have changed + queues with pods + blocked demands).

    Args:
        state: The state.
        changed: The accounts to which more or less is charged than before.
    """
    quotas, policy = state.records.quotas, state.settings.preemption
    if policy is None or policy.reclaim is None:
        return
    tree, waiters = quotas.tree, quotas.waiters
    priorities = state.records.priorities_in
    if state.points.has_shares:
        for gang in waiters.firsts():
            state.touch(gang)
    for queue, counts in priorities.items():
        for gang in waiters.firsts(queue) if queue in tree.by_name else ():
            if min(counts) < gang.priority:
                state.touch(gang)
    around = {other: None for name in changed for other in _around(tree.by_name[name])}
    for account in around:
        for asked in list(waiters.asked_below(account.name)):
            if asked is not None and not asked.preempts:
                continue
            if may_gain(state, account, NOTHING if asked is None else asked.amounts):
                for gang in waiters.firsts_that_ask(account.name, asked):
                    state.touch(gang)
    known: dict[str, bool] = {}

    def may_be_helped(reach: Reach) -> bool:
        queue = reach.queue or ""
        if queue in changed and min(priorities.get(queue, ()), default=math.inf) < reach.below:
            return True
        if queue not in known:
            known[queue] = may_reclaim(state, queue)
        return known[queue]

    state.queue.wake_reclaiming(may_be_helped, state.mark)


def _around(account: Account) -> Iterable[Account]:
    """Yield an account and all above it, each with its siblings, but no root: it lends nothing."""
    for each in account.path:
        yield from () if each.parent is None else each.parent.children


def ask_tried(state: State) -> None:
    """Note gangs that have looked for victims in vain: nodes, or the time, may help. O(tried)."""
    for gang in state.records.quotas.forget_tried():
        state.touch(gang)


def _gang_of(state: State, owner: str) -> GangRecord | None:
    records = state.records
    return records.gang_of.get(GroupKey(owner)) or records.gangs.get(owner)
