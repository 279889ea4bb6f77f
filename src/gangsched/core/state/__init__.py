"""What the parts of the core share: what is remembered, what is set, and the current call."""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import attrgetter
from typing import Any, final

from attrs import frozen

from gangsched.core.evaluation.evaluator import Evaluator
from gangsched.core.evaluation.pod_class import PodClass
from gangsched.core.nodes.node_table import NodeTable
from gangsched.core.nodes.views import NodeViews
from gangsched.core.points import Points
from gangsched.core.queue import Queue
from gangsched.core.queue.by_account import Shares, alone
from gangsched.core.queue.gains import Gains
from gangsched.core.records import Records
from gangsched.core.records.charges import Charges
from gangsched.core.records.current_call import CurrentCall
from gangsched.core.records.gang import GangRecord, PodRecord
from gangsched.core.state.nominated import Mark, Nominations
from gangsched.core.state.reserved import ReservationState
from gangsched.core.state.running_groups import Restarts
from gangsched.core.state.spares import Spares
from gangsched.core.state.takers import Takers
from gangsched.cycle_state import CycleState
from gangsched.membership import Membership
from gangsched.model import GroupKey, Pod, PodUID
from gangsched.options.backfill import Backfill
from gangsched.options.levels import NO_LEVELS, Levels
from gangsched.options.preemption import Preemption
from gangsched.options.quota import Quota
from gangsched.options.scheduling_unit import PlacementStrategy, SchedulingUnit
from gangsched.primitives.backoff import Backoff
from gangsched.primitives.registry import PodGroupRegistry
from gangsched.profile import Profile
from gangsched.protocols import ClusterState

__all__ = ["SchedulerSettings", "State"]


@final
@frozen(kw_only=True)
class SchedulerSettings:
    """What the caller of ``Scheduler`` set; see there."""

    cluster: ClusterState
    profile: Profile
    membership: Callable[[Pod], Membership | None]
    unit: SchedulingUnit
    placement: PlacementStrategy
    search_budget: int
    backoff: Backoff
    preemption: Preemption | None
    backfill: Backfill | None
    group_grace: float
    strict_priorities: bool
    can_evict: bool
    quotas: tuple[Quota, ...] = ()
    history: float | None = None
    levels: Levels = NO_LEVELS


@final
class State:
    """Everything that a call reads and writes.

    Attributes:
        views: All nodes, as plugins see them.
        call: What the current call has gathered.
        had_terms: Whether a pod on a node carried terms when blocked demands were last woken.
        gains: When nodes gained capacity.
        giving_way: How many gangs may keep waiting only until another's cycle, at the most.
        given_back: Pods that gave back nodes on which they waited: the next decision reads them.
        agreeing: By group, the pending members that were never told that its priority overrules
            theirs. One that has come to a node may still be there.
        restarts: Which groups run, and which are being restarted.
        unread: Pods that differ from a restored snapshot; the next call reads them.
        unread_groups: Groups whose specification does.
        nominations: The nodes that are kept for preemptors.
        takers: What gangs have taken from others and lost again.
        reservation: The one in force, and what is remembered to make it.
        events: How many events there were.
        retry_at: When gangs may preempt that may not yet, as ``Preemption`` puts it off.
    """

    def __init__(self, settings: SchedulerSettings) -> None:
        self.settings: SchedulerSettings = settings
        self.table: NodeTable = NodeTable(settings.levels)
        registry = PodGroupRegistry(
            settings.group_grace, strict_priorities=settings.strict_priorities
        )
        self.call: CurrentCall = CurrentCall()
        self.points: Points = Points(settings.profile, self.call)
        self.evaluator: Evaluator = Evaluator(
            self.table, settings.profile, settings.placement, settings.cluster
        )
        self.records: Records = Records(
            *(self.table, registry, self.evaluator.carried, self.evaluator.selections),
            *(self.evaluator.sign, self.call, Charges(settings.quotas, settings.history)),
            self.points.account if self.points.has_accounts else attrgetter("namespace"),
        )
        if settings.placement is not PlacementStrategy.SPREAD:
            self.records.tenancy.watch(settings.levels)
        self.views: NodeViews = NodeViews(self.records)
        self.records.notes_ended = bool(settings.profile.having("pod_ended"))
        self.records.notes_used = self.points.has_shares
        self.queue: Queue = Queue(self.records, self._sort_key, *self._shares())
        self.nominations: Nominations = Nominations()
        self.spares: Spares = Spares()
        self.takers: Takers = Takers()
        self.reservation: ReservationState = ReservationState(settings.backfill)
        self.events = 0
        self.retry_at: float = math.inf
        self.had_terms = False
        self.gains: Gains = Gains()
        self.giving_way = 0
        self.given_back: dict[PodUID, None] = {}
        self.agreeing: dict[GroupKey, dict[PodUID, PodRecord]] = {}
        self.restarts: Restarts = Restarts()
        self.unread: dict[PodUID, None] = {}
        self.unread_groups: dict[GroupKey, None] = {}

    def _sort_key(self, gang: GangRecord) -> tuple[Any, ...]:
        return self.points.queue_sort(gang)

    def _shares(self) -> tuple[Shares | None, Callable[[GangRecord], str]]:
        """Return how accounts compare, and on which account a gang is: plugin, or queues, or none.

        Methods say so, and no functions of this call: a fork has its own.
        """
        tree = self.records.quotas.tree
        if self.points.has_shares:
            waiters = self.records.quotas.waiters
            waiters.path_of, waiters.share = alone, self._share
            return Shares(alone, self._share), self._account_of
        if tree.has_queues:
            drift = tree.history is not None
            return Shares(tree.path_of, self._share_of_queue, drift), self.records.queue_of
        return None, attrgetter("account")

    def _share(self, account: str, gang: GangRecord | None = None) -> tuple[float, ...]:
        """Return the share of an account; a gang that is half placed is not interrupted."""
        if gang is not None and gang.waiting:
            return (-math.inf,)
        return (self.points.share(account, self.records.used_by(account)),)

    def _share_of_queue(self, queue: str, gang: GangRecord | None) -> tuple[float, ...]:
        if gang is not None and gang.waiting:
            return (-math.inf, 0.0)
        return self.records.quotas.tree.share(queue)

    def _account_of(self, gang: GangRecord) -> str:
        return self.records.account_of(gang.pod)

    @property
    def mark(self) -> Mark:
        """The current instant, and how many events there were."""
        return self.records.now, self.events

    def touch(self, gang: GangRecord) -> None:
        """Note that a gang is to be settled."""
        self.call.touched[gang] = None

    def note_outside(self) -> None:
        """Note that something has changed that no preemption has caused; see ``Takers``."""
        for gang in self.takers.renew(self.records.gangs.values()):
            self.touch(gang)

    def has_classes(self, gang: GangRecord) -> bool:
        """Return whether pending members have the classes that the known selectors give them."""
        return gang.classes_of == self.records.selections.version

    def class_of(self, record: PodRecord, found: PodClass | None = None) -> PodClass:
        """Return the class of a pod as a member of its gang; *found* without regard to that."""
        if found is None or record.gang.tree.exclusive_leaves:
            return self.evaluator.class_of(record.pod, self.records.tenancy.asks(record))
        return found

    def note_event(self, gang: GangRecord) -> None:
        """Note that an event was about a gang: what was planned for it may hold no more. O(1)."""
        if self.reservation.policy is not None:
            self.reservation.note_event(gang)
        nomination = self.nominations.known.get(gang)
        if nomination is not None:
            nomination.is_tried = True

    def cycle(self, record: PodRecord) -> CycleState:
        """Return a fresh cycle state of a pod."""
        return CycleState(record.info, self.views, self.settings.cluster, self.records.counts)
