"""How large quotas would have to be for what keeps a group out to be gone.

Rules:
  R1  only what refuses the group is raised, by what is lacking: the nominal of its queue, or the
      ``hard`` of a cap, of the queue or of one above. What others use stays as it is;
  R2  each raise is tried in a fork: another gang may take what was added. What is lacking then is
      raised, too, some times over;
  R3  to reclaim, a nominal of what the queue would use with the group may be enough. Whether it is
      depends on nodes, too, so that is for the caller to try.
"""

from __future__ import annotations

from typing import Final, final

from attrs import evolve, frozen

from gangsched.core.questions.ahead import Calls, Spending, look
from gangsched.core.reading.order import wanted
from gangsched.core.records.account_tree import Account
from gangsched.core.state import State
from gangsched.model import GroupKey
from gangsched.options.quota import Quota
from gangsched.resources import NOTHING, Resources, with_zeros
from gangsched.what_if import LargerQuota

__all__ = ["LargerQuotas", "keeps_out", "search_quotas", "within_nominal"]

_MOST: Final = 8
"""How often quotas are raised. Each time is a fork that reads the whole state."""


@final
@frozen
class LargerQuotas:
    """Quotas with which a group is not kept out.

    Attributes:
        all: All quotas.
        larger: Those that are larger than they were.
    """

    all: tuple[Quota, ...]
    larger: tuple[LargerQuota, ...]


def keeps_out(state: State, key: GroupKey) -> bool:
    """Return whether a quota keeps a group out. O(groups of its gang)."""
    gang = state.records.gang_about(key)
    return gang is not None and any(map(state.records.quotas.reason, gang.infos))


def within_nominal(
    calls: Calls, state: State, key: GroupKey, now: float, until: float, spending: Spending
) -> LargerQuotas | None:
    """Return quotas with which the queue of a group would be within its nominal; see R3.

    None if it is so, or if it may not reclaim. The arguments are those of ``search_quotas``.
    """
    policy = state.settings.preemption
    if policy is None or policy.reclaim is None:
        return None
    ahead = look(calls, state, now, spending)
    ahead.run(until)
    return _compared(state.settings.quotas, _raised(ahead.state, key, reclaims=True))


def search_quotas(
    calls: Calls, state: State, key: GroupKey, now: float, until: float, spending: Spending
) -> LargerQuotas | None:
    """Return quotas that are as large as they have to be for a group; None if that is not known.

    Args:
        calls: The scheduler.
        state: Its state.
        key: The group.
        now: The current instant.
        until: The instant by which the group is to be admitted.
        spending: The budget of the question.
    """
    quotas = before = state.settings.quotas
    for _time in range(_MOST):
        ahead = look(calls, state, now, spending)
        if quotas is not before:
            ahead.set_quotas(quotas)
        ahead.run(until)
        if ahead.is_cut_short:
            return None
        if not keeps_out(ahead.state, key):
            return _compared(before, quotas)
        quotas = _raised(ahead.state, key)
    return None


def _compared(before: tuple[Quota, ...], after: tuple[Quota, ...]) -> LargerQuotas | None:
    pairs = zip(before, after, strict=True)
    larger = tuple(_larger(one, other) for one, other in pairs if one != other)
    return LargerQuotas(after, larger) if larger else None


def _raised(state: State, key: GroupKey, *, reclaims: bool = False) -> tuple[Quota, ...]:
    """Return all quotas, with those larger that refuse what a group waits for."""
    quotas, gang = state.records.quotas, state.records.gang_about(key)
    by_name = {quota.name: quota for quota in state.settings.quotas}
    for owner in filter(quotas.reason, () if gang is None else gang.infos):
        assert gang is not None
        more = wanted(state, gang, owner)
        for account in quotas.accounts_of(owner):
            for name, amount in more.items():
                if amount > 0:
                    _raise(by_name, account, name, amount, reclaims=reclaims)
    return tuple(by_name.values())


def _raise(
    by_name: dict[str, Quota], account: Account, name: str, more: int, *, reclaims: bool
) -> None:
    """Raise what refuses so much more of a resource to an account."""
    for each in account.path:
        hard, used = each.quota.hard.get(name), each.used.get(name, 0)
        if hard is not None and used + more > hard:
            quota = by_name[each.name]
            by_name[each.name] = evolve(quota, hard=_with(quota.hard, name, used + more))
    left = account.left(name)
    if more > left:  # so it has a part, and of a leaf that is a nominal
        quota = by_name[account.name]
        nominal = quota.nominal or NOTHING
        needed = nominal.get(name, 0) + more - int(left)
        if reclaims:
            needed = max(nominal.get(name, 0), account.drawn.get(name, 0) + more)
        by_name[account.name] = evolve(quota, nominal=_with(nominal, name, needed))


def _with(amounts: Resources, name: str, amount: int) -> Resources:
    changed = {**amounts, name: amount}
    return with_zeros(Resources.from_milli(changed), changed)


def _larger(before: Quota, after: Quota) -> LargerQuota:
    nominals = (before.nominal or NOTHING, after.nominal or NOTHING)
    return LargerQuota(after.name, _changed(*nominals), _changed(before.hard, after.hard))


def _changed(before: Resources, after: Resources) -> Resources:
    """Return the amounts that are others than before."""
    return Resources.from_milli({n: after[n] for n in after if after[n] != before.get(n, 0)})
