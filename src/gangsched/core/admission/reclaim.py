"""Reclaim: who goes so that a queue gets what its siblings have borrowed.

Theory of operation. The accounts of a preemptor and of a victim part somewhere in the tree. The
*sides* are the accounts below their common parent, one on the path of each. With
``Reclaim.NOMINAL``, the side of the preemptor must be within its pool, what it asks for included.
With ``Reclaim.FAIR`` it is enough that its share is then at most that of the victim's side without
the victim, in what the victim uses and the preemptor lacks. The side of the victim must be over its
pool, and so must every account below it on the path, in such a resource. Without these conditions,
queues take from each other for ever. Within one queue, priority decides.

Rules:
  R1  a victim is allowed in the state in which it is taken: what others have given back by then
      counts, and so does what the preemptor asks for;
  R2  a set of victims is allowed if there is an order in which each of them is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from types import TracebackType
from typing import Any, final

from gangsched.core.queue.demand import Reach
from gangsched.core.records.account_tree import Account
from gangsched.core.records.charges import Owner
from gangsched.core.records.gang import GangRecord, PodRecord
from gangsched.core.state import State
from gangsched.options.preemption import Reclaim
from gangsched.options.quota import ReclaimFrom
from gangsched.resources import NOTHING, Resources

__all__ = [
    "AccountTrial",
    "may_gain",
    "may_give",
    "may_give_way",
    "may_reclaim",
    "may_yield",
    "owners_of",
    "queue_of",
]


def queue_of(state: State, gang: GangRecord) -> str | None:
    """Return the queue on whose account a gang preempts; None if that is by priority alone."""
    policy, tree = state.settings.preemption, state.records.quotas.tree
    if policy is None or policy.reclaim is None or not tree.has_queues:
        return None
    return state.records.queue_of(gang)


def owners_of(gang: GangRecord) -> Iterable[Owner]:
    """Return who is charged for a gang."""
    return list[Owner](gang.infos) or [gang.key]


def may_reclaim(state: State, queue: str, asked: Resources = NOTHING) -> bool:
    """Return whether a queue may take back anything from another, as accounts are.

    It has to hold for the first victim of a plan, unless others of the queue go before that one.

    Runtime complexity: O(children of the accounts on its path x resources).

    Args:
        state: The state.
        queue: The queue.
        asked: What is charged to it besides; nothing if that is not known.
    """
    policy, own = state.settings.preemption, state.records.quotas.tree.by_name.get(queue)
    if policy is None or policy.reclaim is None or own is None:
        return False
    if own.quota.reclaim_from is ReclaimFrom.NEVER or not own.has_part:
        return False
    return any(may_gain(state, side, asked) for side in own.path)


def may_gain(state: State, side: Account, asked: Resources = NOTHING) -> bool:
    """Return whether a queue at or below an account may take back from siblings of the account.

    Runtime complexity: O(siblings x resources).

    Args:
        state: The state.
        side: The account.
        asked: What is charged to it besides; nothing if that is not known.
    """
    if side.parent is None:
        return False
    policy = state.settings.preemption
    is_fair = policy is not None and policy.reclaim is Reclaim.FAIR
    if side.keeps_some:
        asked = NOTHING  # how much of it the account draws depends on what its queues keep
    room = 0 if side.keeps_some else -1
    others = [each for each in side.parent.children if each is not side]
    lent = {n for each in others for n in asked or each.drawn if each.over(n) > 0}
    if not lent:
        return False
    if asked:
        fits = all(side.over(n) + more <= 0 for n, more in asked.items() if n in side.resources)
    else:
        fits = any(side.over(n) <= room for n in lent)
    if fits or not is_fair:
        return fits
    for name, amount in asked.items():
        side.charge(name, amount)
    share = side.share()  # without a victim, its side has a smaller share than it has now
    for name, amount in asked.items():
        side.charge(name, -amount)
    return any(share < each.share() for each in others)


def may_yield(state: State, reach: Reach) -> Callable[[GangRecord], bool]:
    """Return what says whether a gang may go for one of a reach, whatever is used now."""
    quotas, below = state.records.quotas, reach.below
    by_name = quotas.tree.by_name
    own = None if reach.queue is None else by_name.get(reach.queue)

    def may(gang: GangRecord) -> bool:
        if reach.queue is None:
            return gang.priority < below
        queues = [by_name.get(quotas.queue_of(owner)) for owner in owners_of(gang)]
        return all(_may_yield(own, each, gang.priority, below) for each in queues)

    return may


def may_give(state: State, reach: Reach) -> Callable[[GangRecord], bool]:
    """Return what says whether a gang may go for one of a reach, as far as nominals say now.

    A search for victims only takes from queues, so those that are not over never will be.
    """
    quotas = state.records.quotas
    by_name = quotas.tree.by_name
    own = None if reach.queue is None else by_name.get(reach.queue)
    known: dict[str, bool] = {}

    def is_over(victim: Account | None) -> bool:
        if own is None or victim is None or victim is own:
            return True
        below = [each for each in victim.path if each.name not in own.names]
        return all(any(each.over(name) > 0 for name in each.resources) for each in below)

    def may(gang: GangRecord) -> bool:
        for queue in map(quotas.queue_of, owners_of(gang)):
            if queue not in known:
                known[queue] = is_over(by_name.get(queue))
            if not known[queue]:
                return False
        return True

    return may


def may_give_way(state: State, reach: Reach, gang: GangRecord, priority: int) -> bool:
    """Return whether a nominated gang loses its nodes to one of a reach.

    What was taken back for a queue is for that queue: otherwise others would take it in turn.
    """
    return priority < reach.below and queue_of(state, gang) == reach.queue


def _may_yield(own: Account | None, victim: Account | None, priority: int, below: int) -> bool:
    if victim is own:
        return priority < below
    if own is None or victim is None or own.root is not victim.root or not own.has_part:
        return False
    kind = own.quota.reclaim_from
    if kind is ReclaimFrom.ANY:
        return True
    if kind is ReclaimFrom.LOWER_OR_EQUAL:
        return priority <= below
    return kind is ReclaimFrom.LOWER and priority < below


@final
class AccountTrial:
    """The accounts while victims are searched: the preemptor is charged, its victims are not.

    Args:
        state: The state.
        reach: Whom the preemptor may evict; it has a queue.
        targets: What is to be charged to the owners that the preemptor is charged to.

    Attributes:
        lacks_share: Whether its accounts do not take it as they are.
    """

    def __init__(
        self, state: State, reach: Reach, targets: Sequence[tuple[Owner, Resources]]
    ) -> None:
        policy = state.settings.preemption
        assert policy is not None
        self._quotas = state.records.quotas
        self._is_fair = policy.reclaim is Reclaim.FAIR
        self._may_yield = may_yield(state, reach)
        self._own: Account | None = self._quotas.tree.by_name.get(reach.queue or "")
        self.targets: Sequence[tuple[Owner, Resources]] = targets
        self._names: frozenset[str] = frozenset(n for _key, amounts in targets for n in amounts)
        self._short_of: frozenset[str] = frozenset()
        self._over: frozenset[str] | None = None  # as long as nothing is lifted or landed
        self.lacks_share: bool = False

    def __enter__(self) -> AccountTrial:
        self._quotas.pretend(self.targets)
        self._over = None
        self.lacks_share = not self.fits()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._quotas.end_trial()

    def note_short_of(self, names: Iterable[str]) -> None:
        """Note the resources that it lacks on nodes."""
        self._short_of = self._names.intersection(names)

    def fits(self) -> bool:
        """Return whether the accounts take the preemptor. O(accounts x depth x resources)."""
        return not self._exceeded()

    def _exceeded(self) -> frozenset[str]:
        """Return the resources in which an account of the preemptor is exceeded."""
        if self._over is None:
            self._over = frozenset(
                name
                for owner, amounts in self.targets
                for account in self._quotas.accounts_of(owner)
                for name in amounts
                if account.is_exceeded(name)
            )
        return self._over

    def lift(self, records: Iterable[PodRecord]) -> None:
        """Count what pods hold as given back. O(pods)."""
        self._over = None
        for record in records:
            self._quotas.lift(record.owner, record.pod.requests, 1)

    def land(self, records: Iterable[PodRecord]) -> None:
        """Count what pods hold again. O(pods)."""
        self._over = None
        for record in records:
            self._quotas.lift(record.owner, record.pod.requests, -1)

    def drop(self, gang: GangRecord) -> None:
        """Count what is kept for a nominated gang as given back. O(groups)."""
        self._over = None
        for owner in owners_of(gang):
            self._quotas.ignore_reserved(owner)

    def keep(self, gang: GangRecord) -> None:
        """Count again what is kept for a nominated gang. O(groups)."""
        self._over = None
        for owner in owners_of(gang):
            self._quotas.heed_reserved(owner)

    def may_take(self, gang: GangRecord, records: Sequence[PodRecord]) -> bool:
        """Return whether pods of a gang may go now. O(depth x resources)."""
        if not self._may_yield(gang):
            return False
        used = {name for record in records for name in record.pod.requests}
        names = used & (self._short_of | self._exceeded())
        queues = {self._quotas.queue_of(owner) for owner in owners_of(gang)}
        by_name: Any = self._quotas.tree.by_name
        others = [by_name[queue] for queue in sorted(queues) if by_name.get(queue) is not self._own]
        return all(self._may_reclaim(each, names, records) for each in others)

    def _may_reclaim(self, victim: Account, names: Set[str], records: Sequence[PodRecord]) -> bool:
        own = self._own
        assert own is not None
        tree = self._quotas.tree
        pairs = enumerate(zip(own.names, victim.names, strict=False))
        depth = next((n for n, (one, other) in pairs if one != other), None)
        if depth is None:
            return False  # one is above the other: nothing is lent between them
        below = [tree.by_name[name] for name in victim.names[depth:]]
        if not all(any(each.over(name) > 0 for name in names) for each in below):
            return False
        side = tree.by_name[own.names[depth]]
        if all(side.over(name) <= 0 for name in self._names):
            return True
        if not self._is_fair:
            return False
        self.lift(records)
        share = below[0].share(among=names)
        self.land(records)
        return side.share() <= share
