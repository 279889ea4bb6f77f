"""Which gang is tried next, and what activates a gang that does not fit.

Theory of operation. When a gang fails for lack of capacity, its demand is *blocked*: the others of
that demand would fail as well, so all of them are parked. One rule activates them: **a node that
may take more than before wakes a blocked demand if one of its pods fits there, and enough of its
pods fit in all**. Then the first of its gangs becomes active, as the *leader*. The next one follows
when that has been placed. Nothing polls.

*Steps* order failures and gains. Capacity that a gang held during its own attempt cannot help what
has failed with that capacity already; but see ``core/queue/gains``.

A gang whose pods were never told why they wait is not parked: it is activated, and fails as the
other did, once.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from itertools import chain
from operator import attrgetter
from typing import Any, Final, final

from gangsched.cluster_objects import ClusterObject
from gangsched.core.queue.blocked import Blocked
from gangsched.core.queue.by_account import ActiveGangs, Shares, Turn, alone, in_order
from gangsched.core.queue.demand import Demand, Minimum, Reach
from gangsched.core.records import Records
from gangsched.core.records.gang import GangRecord, QueuePlace
from gangsched.resources import NOTHING, Resources

__all__ = ["Queue"]

_NOWHERE: Final = QueuePlace.NOWHERE  # a look-up in an enum is slow
_ACTIVE: Final = QueuePlace.ACTIVE
_BACKOFF: Final = QueuePlace.BACKOFF
_PARKED: Final = QueuePlace.PARKED
_NO_SHARE: Final = (0.0,)
_MOST_VAIN: Final = 8
"""How often members that may only wait wake a demand while nothing else happens."""


@final
class Queue:
    """The gangs that need nodes: active, in backoff, parked by demand, or not admitted.

    Args:
        records: Has the current step.
        sort: Returns the sort key of a gang.
        shares: How accounts compare; None if the order knows no accounts.
        account_of: Returns the account of a gang, if it knows some.

    Attributes:
        earliest: No backoff ends before this instant.
        preempts: Returns whether gangs of a demand may preempt, because some nodes may take more.
        is_within_bounds: Returns whether plugins may accept enough pods of a demand by now.
    """

    def __init__(
        self,
        records: Records,
        sort: Callable[[GangRecord], tuple[Any, ...]],
        shares: Shares | None = None,
        account_of: Callable[[GangRecord], str] = attrgetter("account"),
    ) -> None:
        self._records = records
        self._sort = sort
        self._has_shares = shares is not None
        self._account_of = account_of
        self._shares: Shares = shares or Shares(alone, _equal)
        self.preempts: Callable[[Demand, list[int] | None], bool] = lambda _demand, _slots: False
        self.is_within_bounds: Callable[[Demand], bool] = lambda _demand: True
        self._active: ActiveGangs = ActiveGangs(self._shares)
        self._backoff: list[tuple[float, int, GangRecord]] = []
        self.earliest: float = math.inf
        self._demands: dict[Hashable, Demand] = {}
        self._blocked: Blocked = Blocked()
        self._led: dict[Demand, None] = {}
        # how often members in attempts woke a demand, at one instant and event
        self._woken: dict[Hashable, int] = {}
        self._woken_at: tuple[float, int] | None = None

    # Places -------------------------------------------------------------------------------------

    def put(self, gang: GangRecord, place: QueuePlace, demand: Demand | None = None) -> None:
        """Put a gang in a place, with what it asks for. O(log gangs)."""
        before = gang.demand
        if place is _NOWHERE and gang.place is _NOWHERE and before is demand:
            return
        key, account = gang.sort_key, gang.account
        if place is _ACTIVE or place is _PARKED:
            key = self.key_of(gang)
            if self._has_shares:
                account = self._account_of(gang)
            there = (gang.place, gang.sort_key, gang.account)
            if before is demand and (place, key, account) == there:
                return
        self._take_out(gang)
        if before is not demand:
            self._ask(demand, before)
        gang.place, gang.demand, gang.sort_key, gang.account = place, demand, key, account
        if place is _ACTIVE:
            self._active.add(gang)
        elif place is _BACKOFF:
            heapq.heappush(self._backoff, (gang.backoff_until, gang.seq, gang))
            self.earliest = min(self.earliest, gang.backoff_until)
        elif place is _PARKED:
            assert demand is not None
            demand.parked.add(gang)
        if before is not None and before.leader is gang:
            self._follow(gang, before)

    def _ask(self, demand: Demand | None, before: Demand | None) -> None:
        """Count a gang that asks for something else than before."""
        if demand is not None:
            demand.gangs += 1
            self._demands[demand.key] = demand
        if before is not None:
            self._drop(before)

    def _follow(self, leader: GangRecord, demand: Demand) -> None:
        """Let the next gang of a demand lead, if its leader does not any more."""
        if leader.place is _ACTIVE and leader.demand is demand:
            return
        if leader.place is _BACKOFF:
            self._back_off(demand)
        self._lead(demand)

    def key_of(self, gang: GangRecord) -> tuple[Any, ...]:
        """Return the key by which a gang is sorted now."""
        return (*self._sort(gang), gang.seq)

    def note_turn(self, gang: GangRecord) -> None:
        """Note where a gang is in the order for ``in_order``, unless its place says so. O(1)."""
        if gang.place is not _ACTIVE and gang.place is not _PARKED:
            gang.sort_key, gang.account = self.key_of(gang), self._account_of(gang)

    def order_of(self, gang: GangRecord) -> Turn:
        """Return what two gangs are compared by."""
        return Turn(gang, self._shares)

    def ahead(self) -> Callable[[GangRecord], int]:
        """Return what counts the active gangs before one. O(n log n), then O(log n) for each."""
        active = self.active
        place = {id(gang): number for number, gang in enumerate(active)}
        turns = [Turn(gang, self._shares) for gang in active]

        def count(gang: GangRecord) -> int:
            known = place.get(id(gang))
            return bisect_left(turns, self.order_of(gang)) if known is None else known

        return count

    def in_order(self, gangs: Iterable[GangRecord]) -> Iterator[GangRecord]:
        """Yield gangs in the order in which they are served. O(n log n)."""
        return in_order(gangs, self._shares)

    def head(self) -> GangRecord | None:
        """Return the first active gang; None if none is active. Amortised O(log gangs)."""
        return self._active.first()

    def pop(self) -> GangRecord:
        """Take the first active gang out to be tried; put it in a place when that is done."""
        gang = self._active.first()
        assert gang is not None
        self._take_out(gang)
        return gang

    def _take_out(self, gang: GangRecord) -> None:
        if gang.place is _ACTIVE:
            self._active.remove(gang)
        elif gang.place is _PARKED:
            gang.demand.parked.remove(gang)
        gang.place = _NOWHERE  # an entry in the heap of backoffs is void then

    def used(self, accounts: Iterable[str]) -> None:
        """Note that the usage of accounts has changed: their gangs may have other turns.

        O(log accounts) for each of them, and O(accounts) for each demand that has a leader.
        """
        for account in accounts:
            self._active.used(account)
        for demand in list(self._led):
            leader = demand.leader
            if leader is None or leader.place is not _ACTIVE or not demand.parked:
                continue
            first = demand.parked.first(self._shares)
            if self.order_of(first) < self.order_of(leader):
                demand.leader = None
                self.put(leader, _PARKED, demand)
                self._lead(demand)

    # Backoff ------------------------------------------------------------------------------------

    def due(self, now: float) -> list[GangRecord]:
        """Take out and return the gangs whose backoff is over by an instant."""
        found: list[GangRecord] = []
        while (when := self.next_deadline()) is not None and when <= now:
            gang = heapq.heappop(self._backoff)[2]
            gang.place = _NOWHERE
            found.append(gang)
        self.earliest = self._backoff[0][0] if self._backoff else math.inf
        return found

    def next_deadline(self) -> float | None:
        """Return when the next backoff ends; None without one. Amortised O(log gangs)."""
        heap = self._backoff
        while heap and (heap[0][2].place is not _BACKOFF or heap[0][2].backoff_until != heap[0][0]):
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def take_turns(self, gangs: Iterable[GangRecord]) -> None:
        """Let gangs in backoff be tried, those of one demand one after the other until one fails.

        They are parked meanwhile; those that are not come to back off again. O(gangs x log gangs).
        """
        demands: dict[Demand, None] = {}
        for gang in list(gangs):
            demand: Demand | None = gang.demand
            if demand is None:  # it asked for nothing when it began to back off
                continue
            self.put(gang, _PARKED, demand)
            demands[demand] = None
        for demand in demands:
            leader = demand.leader
            if not demand.blocked_at and (leader is None or leader.place is not _ACTIVE):
                self._lead(demand)

    def _back_off(self, demand: Demand) -> None:
        """Let the gangs of a demand back off again that do not come to their turn."""
        for gang in list(chain.from_iterable(demand.parked.by_account())):
            if gang.backoff_until > self._records.now:
                self.put(gang, _BACKOFF, demand)

    # Demands ------------------------------------------------------------------------------------

    def demand(
        self,
        key: Hashable,
        alternatives: Callable[[], tuple[tuple[Minimum, ...], ...]],
        reach: Reach | None = None,
        in_all: Resources = NOTHING,
    ) -> Demand:
        """Return the demand of a key and a reach; a new one if no gang asks for it."""
        key = key if reach is None else (key, reach)
        return self._demands.get(key) or Demand(key, alternatives(), reach, in_all)

    def block(self, demand: Demand, *, is_tried: bool = True) -> None:
        """Note that a gang of this demand does not fit on the nodes as they are.

        Args:
            demand: The demand.
            is_tried: Whether a gang was tried. Otherwise it was counted, and this comes after what
                the cycle of another gang has taken, which may give it back.
        """
        self.block_since(demand, self._records.step + (not is_tried))

    def block_since(self, demand: Demand, step: int) -> None:
        """Note that a gang of this demand did not fit at a step."""
        demand.blocked_at = step
        self._blocked.add(demand)

    def unblock(self, demand: Demand) -> None:
        """Note that gangs of this demand may fit, and activate the first of them."""
        if demand.blocked_at:
            demand.blocked_at = 0
            self._blocked.discard(demand)
            self._lead(demand)

    def wake(
        self,
        gains: dict[int, int],
        *,
        pods: bool,
        has_terms: bool,
        mark: tuple[float, int] | None = None,
    ) -> None:
        """Wake the blocked demands that may be helped: the one rule.

        Args:
            gains: The nodes that may take more, each with the step since which they could not: a
                demand that failed before that has failed with this capacity already.
            pods: Whether pods came to nodes or left them.
            has_terms: Whether some of these may carry terms about other pods.
            mark: The current instant and event if these were members in attempts alone, which may
                only wait there. Gangs that cannot start would wake each other for ever.
        """
        if not self._blocked.demands:
            return
        latest, every = max(gains.values(), default=0), [*gains]
        concerned = self._blocked.concerned(
            self._records.table, gains, pods_changed=pods, terms_changed=pods and has_terms
        )
        for demand in concerned:
            at = demand.blocked_at
            slots = [s for s, since in gains.items() if at > since] if at <= latest else every
            helped = bool(slots) and demand.is_helped_by(slots)
            reads = pods and (demand.reads_pods or (has_terms and demand.reads_terms))
            may_fit = (helped or reads) and self.could_fit(demand)
            if may_fit and not helped:
                may_fit = self._may_be_woken(demand, mark)
            if may_fit or self.preempts(demand, slots):
                self.unblock(demand)

    def wake_reclaiming(self, may: Callable[[Reach], bool], mark: tuple[float, int]) -> None:
        """Wake the blocked demands whose queues may take something back by now.

        Runtime complexity: O(blocked demands).

        Args:
            may: Returns whether a queue may, or others of it may give way.
            mark: The current instant and event: an attempt that fails changes what is charged, too.
        """
        for demand in list(self._blocked):
            reach = demand.reach
            if reach is None or not reach.evicts or reach.queue is None:
                continue
            if may(reach) and self._may_be_woken(demand, mark):
                self.unblock(demand)

    def _may_be_woken(self, demand: Demand, mark: tuple[float, int] | None) -> bool:
        """Count a wake-up by members in attempts; return whether there were few at this mark.

        Without a mark, members that are no longer in attempts have come or gone as well.
        """
        if mark is None:
            return True
        if self._woken_at != mark:
            self._woken_at, self._woken = mark, {}
        times = self._woken.get(demand.key, 0)
        self._woken[demand.key] = times + 1
        return times < _MOST_VAIN

    def could_fit(self, demand: Demand) -> bool:
        """Return whether a gang of a demand may fit, as far as counts and bounds say."""
        return demand.could_fit() and self.is_within_bounds(demand)

    def force(self, gang: GangRecord) -> None:
        """Let a gang be tried once more though its demand is known to fail."""
        demand = gang.demand
        demand.blocked_at = 0
        self._blocked.discard(demand)
        self.put(gang, _ACTIVE, demand)
        self.lead(demand, gang)

    def blocked(self) -> list[Demand]:
        """Return the blocked demands, the one that was blocked first first. O(demands)."""
        return list(self._blocked)

    def wake_all(self, kinds: Collection[type[ClusterObject]] | None = None) -> None:
        """Let the first gang of each blocked demand be tried again, or of those that read some."""
        for demand in list(self._blocked):
            if kinds is None or demand.reads(kinds):
                self.unblock(demand)

    def lead(self, demand: Demand, gang: GangRecord) -> None:
        """Let an active gang be tried for all that are parked."""
        demand.leader = gang
        if self._has_shares:
            self._led[demand] = None

    def follows(self, gang: GangRecord, demand: Demand) -> bool:
        """Return whether a parked gang has its turn after the leader of its demand still. O(1)."""
        leader = demand.leader
        return (
            gang.place is _PARKED
            and gang.demand is demand
            and leader is not None
            and leader.place is _ACTIVE
            and self.key_of(gang) == gang.sort_key
        )

    def _lead(self, demand: Demand) -> None:
        """Activate the first parked gang of a demand, if it could fit or preempt."""
        demand.leader = None
        self._led.pop(demand, None)
        if not demand.parked or demand.blocked_at:
            return
        if not (self.could_fit(demand) or self.preempts(demand, None)):
            self.block(demand, is_tried=False)
            return
        while demand.parked:
            gang = demand.parked.first(self._shares)
            if not gang.pending:  # one call lost its members too, and settles it after this one
                self.put(gang, _NOWHERE)
                continue
            if gang.backoff_until > self._records.now:
                gang.end_backoff()
            self.put(gang, _ACTIVE, demand)
            self.lead(demand, gang)
            return

    def _drop(self, demand: Demand) -> None:
        demand.gangs -= 1
        if not demand.gangs:
            # by identity: another one may have taken its key
            if self._demands.get(demand.key) is demand:
                del self._demands[demand.key]
            if demand.blocked_at:
                self._blocked.discard(demand)
            self._led.pop(demand, None)

    # Reading ------------------------------------------------------------------------------------

    @property
    def active(self) -> list[GangRecord]:
        """The active gangs, in queue order. O(n log n)."""
        return list(self._active)


def _equal(_account: str, _gang: GangRecord | None) -> tuple[float, ...]:
    return _NO_SHARE
