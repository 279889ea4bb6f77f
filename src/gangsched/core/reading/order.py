"""What is before a gang that waits: in the queue of all gangs, and among the queues of quotas.

Theory of operation. A gang that is over its quota is held up at the first place on the way up to
the root where too little is left for it: by what a queue may borrow, or by what the tree has. In
the second case, the queues beside its path that use more than their nominal have what it lacks.
When something is given back, the gangs of the queue with the smallest share are asked first, from
the root down. So a gang is behind the queues beside its path that have a smaller share and gangs
that wait. Of queues with equal shares, priority and age decide, and nothing is said.

Rules:
  R1  one ``Order`` is for one answer, or for one listing: what it has read is kept;
  R2  what is said beside a reason is as of now, and never decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final, final

from gangsched.core.admission.accounts import claims, over_quota
from gangsched.core.admission.reclaim import owners_of
from gangsched.core.records.account_tree import Account, Share
from gangsched.core.records.charges import Owner
from gangsched.core.records.gang import GangRecord, QueuePlace
from gangsched.core.state import State
from gangsched.explain import OtherQueue, QueueTurn, ReachedLimit
from gangsched.model import GroupKey
from gangsched.options.quota import TOO_LARGE
from gangsched.resources import NOTHING, Resources, with_zeros

__all__ = ["Order", "as_number", "wanted"]


def as_number(share: Share) -> float:
    """Return a share as it is shown: infinite for a queue that borrows without weight."""
    return math.inf if share[0] else share[1]


def wanted(state: State, gang: GangRecord, owner: Owner) -> Mapping[str, int]:
    """Return how much more an owner that waits for a quota would be charged. O(members).

    Args:
        state: The state.
        gang: The gang.
        owner: The group of it that waits, or the gang itself.
    """
    return _asked(state, gang, owner)[1]


def _asked(state: State, gang: GangRecord, owner: Owner) -> tuple[str, Mapping[str, int]]:
    """Return why an owner exceeds its quota as of now, and how much more it would be charged."""
    quotas, info = state.records.quotas, gang.infos.get(GroupKey(owner))
    if info is not None and info.was_scheduled:  # its members go one by one
        one = next((r.pod.requests for r in gang.in_order() if r.info is info), NOTHING)
        return over_quota(state, gang, owner, info)[0], one
    claimed = dict(claims(state, gang, info))
    more = dict[str, int]()
    for key, amounts in claimed.items():
        if quotas.queue_of(key) == quotas.queue_of(owner):
            now = quotas.target_of(key, NOTHING)
            for name, amount in quotas.target_of(key, amounts).items():
                more[name] = more.get(name, 0) + amount - now.get(name, 0)
    return quotas.exceeded_by({}, claimed), more


@final
class Order:
    """The order of what waits.

    Args:
        state: The state.
        ahead: Returns the number of gangs before one; None to count the active ones.
    """

    def __init__(self, state: State, ahead: Callable[[GangRecord], int] | None = None) -> None:
        self._state: Final = state
        self._ahead = ahead
        self._waiting: set[Account] | None = None
        self._next: dict[Account, list[Account]] = {}
        self._over: dict[tuple[Account, tuple[str, ...]], list[Account]] = {}
        self._waits: dict[Hashable, tuple[str, QueueTurn | None]] = {}

    def ahead(self, gang: GangRecord) -> int:
        """Return the number of gangs before one. O(log n), and O(n log n) for the first one."""
        if self._ahead is None:
            self._ahead = self._state.queue.ahead()
        return self._ahead(gang)

    def turn(self, gang: GangRecord) -> QueueTurn | None:
        """Return how the queue of a gang stands that is tried once it is its turn.

        None if no queue is before its own. The cost is that of ``waits``.
        """
        owner = next(iter(owners_of(gang)))
        queue = self._queue_of(owner)
        behind = None if queue is None else self._behind(queue)
        if queue is None or behind is None:
            return None
        return _turn(queue, wanted(self._state, gang, owner), behind=behind)

    def waits(self, gang: GangRecord, owner: Owner) -> tuple[str, QueueTurn | None]:
        """Return why an owner waits for a quota, and how its queue stands if that says more.

        Both are as of now. The reason that is kept is of when the owner was asked, and it is not
        asked again before its turn may have come. Those that ask for the same have one answer.

        Runtime complexity: O(members + depth x resources), and once O(gangs that wait x depth +
        queues beside its path).

        Args:
            gang: The gang.
            owner: The group of it that waits, or the gang itself.
        """
        line = self._state.records.quotas.waiters.line_of(owner)
        found = self._waits.get(line)
        if found is None:
            now, more = _asked(self._state, gang, owner)
            reason = now or self._state.records.quotas.reason(owner)
            turn = None if reason.endswith(TOO_LARGE) else self._held_up(owner, more)
            found = self._waits[line] = reason, turn
        return found

    def _held_up(self, owner: Owner, more: Mapping[str, int]) -> QueueTurn | None:
        queue = self._queue_of(owner)
        if queue is None or self._is_capped(owner, more):
            return None
        lacks = {name: amount for name, amount in more.items() if amount > queue.left(name)}
        limit, short = _reached(queue, lacks)
        if limit is not None:
            return _turn(queue, more, limit)
        borrowers, others = self._borrowers(queue, short)
        behind = self._behind(queue)
        if not borrowers and behind is None:
            return None
        return _turn(queue, more, None, borrowers, others, behind)

    def _queue_of(self, owner: Owner) -> Account | None:
        quotas = self._state.records.quotas
        queue = quotas.tree.by_name.get(quotas.queue_of(owner))
        return None if queue is None or queue.parent is None or not queue.has_part else queue

    def _is_capped(self, owner: Owner, more: Mapping[str, int]) -> bool:
        """Return whether a ``hard`` refuses so much more, of a cap or on the path of the queue."""
        accounts = self._state.records.quotas.accounts_of(owner)
        above = {each for account in accounts for each in account.path}
        return any(
            each.used.get(name, 0) + amount > each.quota.hard.get(name, math.inf)
            for each in above
            for name, amount in more.items()
            if amount > 0
        )

    def _borrowers(
        self, queue: Account, lacks: tuple[str, ...]
    ) -> tuple[tuple[OtherQueue, ...], int]:
        """Return the first queues beside a path over their nominal, and how many more there are."""
        found: list[OtherQueue] = []
        count = 0
        for side in queue.path if lacks else ():
            if side.parent is None:
                break
            over = self._over_nominal(side.parent, lacks)
            count += len(over) - (side in over)
            for each in (one for one in over if one is not side):
                if len(found) == QueueTurn.MOST_NAMED:
                    break
                found.append(_borrower(each, side, lacks))
        return tuple(found), count - len(found)

    def _over_nominal(self, parent: Account, lacks: tuple[str, ...]) -> list[Account]:
        """Return the queues below one that use more than their nominal, the largest share first."""
        known = self._over.get((parent, lacks))
        if known is None:
            parts = (each for each in parent.children if each.has_part)
            over = [each for each in parts if any(each.over(name) > 0 for name in lacks)]
            known = self._over[parent, lacks] = sorted(over, key=_by_share)
        return known

    def _behind(self, queue: Account) -> OtherQueue | None:
        """Return the queue whose gangs are asked before those of one, nearest to the root."""
        if self._state.points.has_shares:  # a plugin orders accounts by shares of its own
            return None
        tree = self._state.records.quotas.tree
        for side in reversed(list(queue.path)):
            if side.parent is None:
                continue
            first = next((each for each in self._in_turn(side.parent) if each is not side), None)
            if first is not None and tree.share(first.name) < tree.share(side.name):
                shares = [as_number(tree.share(each.name)) for each in (first, side)]
                return OtherQueue(first.name, shares[0], side.name, shares[1])
        return None

    def _in_turn(self, parent: Account) -> list[Account]:
        """Return the queues below one with gangs that wait, the smallest share first."""
        known = self._next.get(parent)
        if known is None:
            tree, waiting = self._state.records.quotas.tree, self._read_waiting()
            found = [each for each in parent.children if each in waiting]
            known = self._next[parent] = sorted(found, key=lambda each: tree.share(each.name))
        return known

    def _read_waiting(self) -> set[Account]:
        """Return the queues with gangs, in them or below, that are tried or asked about next."""
        if self._waiting is None:
            quotas = self._state.records.quotas
            owners = [o for o in quotas.waiting if not quotas.reason(o).endswith(TOO_LARGE)]
            for gang in self._state.records.gangs.values():
                if gang.place is QueuePlace.ACTIVE:
                    owners += owners_of(gang)
            names = {quotas.queue_of(owner) for owner in owners} - {""}
            self._waiting = {each for n in names for each in quotas.tree.by_name[n].path}
        return self._waiting


def _turn(
    queue: Account,
    asked: Iterable[str],
    limit: ReachedLimit | None = None,
    borrowers: tuple[OtherQueue, ...] = (),
    others: int = 0,
    behind: OtherQueue | None = None,
) -> QueueTurn:
    names = [name for name in asked if name in queue.resources]
    drawn = {name: queue.drawn.get(name, 0) for name in names}
    left = {name: max(0, drawn[name] + int(queue.left(name))) for name in names}
    nominal = {name: queue.pool(name) for name in names}
    return QueueTurn(
        queue.name,
        _amounts(drawn),
        _amounts(left),
        _amounts(nominal),
        limit,
        borrowers,
        others,
        behind,
    )


def _reached(
    queue: Account, lacks: Mapping[str, int]
) -> tuple[ReachedLimit | None, tuple[str, ...]]:
    """Return the queue on a path that may not borrow enough, and what the tree has too little of.

    Args:
        queue: The queue.
        lacks: How much more it would use of each resource of which it has too little left.
    """
    short = dict(lacks)
    for each in queue.path:
        if each.parent is None:
            break
        reached = dict[str, tuple[int, int]]()
        for name, more in short.items():
            drawn, pool, kept = each.drawn.get(name, 0), each.pool(name), each.keeps(name)
            more -= max(0, kept - drawn)
            limit, borrowed = each.quota.borrow.get(name), max(0, drawn - pool)
            if limit is not None and more > pool + limit - max(drawn, kept):
                reached[name] = borrowed, limit
            short[name] = more
        if reached:
            borrows = _amounts({name: pair[0] for name, pair in reached.items()})
            most = _amounts({name: pair[1] for name, pair in reached.items()})
            return ReachedLimit(each.name, borrows, most), ()
    return None, tuple(short)


def _amounts(given: Mapping[str, int]) -> Resources:
    """Return amounts in which zeros are named."""
    return with_zeros(Resources.from_milli(given), given)


def _borrower(account: Account, side: Account, lacks: Iterable[str]) -> OtherQueue:
    over = {name: account.over(name) for name in lacks if account.over(name) > 0}
    shares = as_number(account.share()), as_number(side.share())
    return OtherQueue(account.name, shares[0], side.name, shares[1], Resources.from_milli(over))


def _by_share(account: Account) -> tuple[float, int]:
    return -as_number(account.share()), account.number
