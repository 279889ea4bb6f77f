"""A run of a workload: arrivals, finished pods, scheduling cycles, performed effects and faults.

How one instant is run: ``next`` returns the earliest of the scheduler's deadline, the next
arrival and the next entry of the agenda. ``step`` sets the clock to that instant, or later if a
fault makes it jump. It calls ``advance``, runs the due entries of the agenda, lets the due pods
and nodes arrive, and then calls ``schedule_one`` until there is nothing to decide.

How one event travels: ``_happen`` applies it to the cluster and records it in the usage tracker.
The event delivery decides when the scheduler gets it; faults may delay, drop, repeat or reorder
it. ``_tell`` updates the watch cache, which is what the scheduler reads, and calls ``handle``.

Rules:
  R1  at one instant, in this order: pods finish, binds end, late events are delivered, listings
      are read, objects arrive, decisions are made;
  R2  an event is true in the cluster before it is delivered to the scheduler;
  R3  effects of a replaced scheduler that were not performed yet are dropped;
  R4  with a strict order, no decision is made while a job that failed waits for an event.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias, final

from attrs import evolve

from gangsched.errors import InvalidValueError
from gangsched.events import (
    Bind,
    BindFailed,
    Bound,
    CopyBound,
    Effect,
    Event,
    Evict,
    GroupBound,
    GroupRestarted,
    NodeAdded,
    NodeDeleted,
    PodAdded,
    PodDeleted,
    PodGroupDeleted,
    PodGroupUpdated,
    PodUnschedulable,
    PodUpdated,
    PodWaiting,
)
from gangsched.membership import membership
from gangsched.memory import InMemoryCluster
from gangsched.model import GroupKey, NodeName, PodGroup, PodPhase, PodUID
from gangsched.model._pod_copy import pod_with_fields
from gangsched.primitives.gang_tree import group_tree
from gangsched.protocols import ClusterState, Observer
from gangsched.replay import RecordedScheduler
from gangsched.scheduler import QueueEntry, Scheduler
from gangsched.simulation._event_delivery import EventDelivery
from gangsched.simulation._fault_injector import FaultInjector
from gangsched.simulation._upcoming import Upcoming
from gangsched.simulation._usage import RECORDED, UsageTracker
from gangsched.simulation._volume_controller import VolumeController
from gangsched.simulation._watch_cache import WatchCache
from gangsched.simulation.faults import (
    BindAnswerLost,
    BindFails,
    BindSlow,
    Fault,
    FaultPlan,
    NodeVanishes,
)
from gangsched.simulation.jobs import Job
from gangsched.simulation.workload import Arrival, OwnerDeleted, fail_seconds, run_seconds
from gangsched.values.seconds import format_instant

__all__ = ["WorkloadRun"]

_Maker: TypeAlias = Callable[[ClusterState], Scheduler | RecordedScheduler]
_Fate: TypeAlias = BindFails | BindAnswerLost | None


_PERFORMED: Final = frozenset((Bind, CopyBound, Evict, GroupBound, GroupRestarted, PodWaiting))
"""The effects of which something follows in the cluster, or that may meet a fault."""
_READ: Final = _PERFORMED | RECORDED
"""The effects that a run reads at all: the others are notices."""


class _Kind(enum.IntEnum):
    """The order of agenda entries of one instant."""

    FINISH = 0
    BIND = 1
    TELL = 2
    LIST = 3


_Entry: TypeAlias = tuple[float, _Kind, int, Callable[[], None], PodUID | None]
"""Instant, kind, number, what is done, and the pod whose end it is."""


@final
class WorkloadRun:
    """A workload that is run; see ``Simulator``."""

    def __init__(
        self,
        arrivals: Iterable[Arrival],
        make: _Maker,
        *,
        bind_seconds: float,
        seed: int,
        plan: FaultPlan,
        observers: Sequence[Observer],
        delete_finished: bool,
        strict_order: bool,
        replace_lost: bool,
    ) -> None:
        self.arrivals = Upcoming(arrivals)
        self.now = self.arrivals.at or 0.0
        self.last_event_at = self.now
        self.decisions = 0
        self.cluster = InMemoryCluster()
        self.usage = UsageTracker(self.cluster)
        self.injector = FaultInjector(plan)
        self._delete_finished = delete_finished
        self._strict_order = strict_order
        self._replace_lost = replace_lost
        # the entries that failed, each with its job; each goes before the one to its left
        self._failed: list[tuple[QueueEntry, Job]] = []
        self._cache = WatchCache(self.cluster, ahead=plan.ahead or not plan.faults)
        self._volumes = VolumeController(self.cluster)
        self._make = make
        self._calls = self._new_scheduler()
        self._generation = 0
        self._deleted: set[str] = set()
        self._bind_seconds = bind_seconds
        self._draws = random.Random(seed)
        self._told: list[Event] = []
        self._has_faults = bool(plan.faults)
        self._observers = observers
        self._agenda: list[_Entry] = []
        self._numbers = 0
        self._delivery = EventDelivery(self.injector, self._tell, self._tell_later)

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler itself, for reading."""
        calls = self._calls
        return calls.scheduler if isinstance(calls, RecordedScheduler) else calls

    def _new_scheduler(self) -> Scheduler | RecordedScheduler:
        """Return a new scheduler, whose evictions are performed."""
        made = self._make(self._cache.cluster)
        allow = getattr(made, "allow_evictions", None)  # a wrapper need not have it
        if callable(allow):
            allow()
        return made

    def next(self) -> float | None:
        """Return the next instant at which something happens; None if nothing will."""
        if self._delivery.has_held_back and self._is_at_rest():
            return self.now
        when = self._due()
        if when is None:
            return None
        jump = self.injector.next_jump()
        return max(when if jump is None else min(when, jump), self.now)

    def _due(self) -> float | None:
        candidates = [self._calls.next_deadline()]
        candidates.append(self.arrivals.at)
        if self._agenda:
            candidates.append(self._agenda[0][0])
        return min((when for when in candidates if when is not None), default=None)

    def _is_at_rest(self) -> bool:
        """Whether nothing is scheduled to happen; a scheduler may still retry without end."""
        return self.arrivals.at is None and not self._agenda

    def step(self, when: float) -> None:
        """Run through one instant."""
        nothing_else_comes = self._is_at_rest()
        self.now = self.last_event_at = now = self.injector.jump(when)
        self._before_a_call()
        self._perform(self._calls.advance(now=now))
        self._let_happen()
        if nothing_else_comes:
            self._delivery.flush()
        self._tell_all()
        while (effects := self._decide()) is not None:
            self.decisions += 1
            self._perform(effects)
            self._tell_all()

    def _let_happen(self) -> None:
        """Let happen what is due by now."""
        while self._agenda and self._agenda[0][0] <= self.now:
            heappop(self._agenda)[3]()
        arrivals = self.arrivals
        while (at := arrivals.at) is not None and at <= self.now:
            event = arrivals.take()
            if isinstance(event, OwnerDeleted):
                self._delete_owner(event.job)
            else:
                self._happen(event)

    def _decide(self) -> tuple[Effect, ...] | None:
        head = self.scheduler.queue.head() if self._strict_order else None
        if head is not None and self._is_held_up(head):
            return None
        self._before_a_call()
        effects = self._calls.schedule_one(now=self.now)
        if head is not None and effects:
            self._note_failure(head, effects)
        return effects

    # Strict order ---------------------------------------------------------------------------

    def _is_held_up(self, head: QueueEntry) -> bool:
        """Return whether a job that failed waits, and goes before the one that is tried next.

        Amortised O(1): it is asked before each decision, so the scheduler is not asked ``why``.
        """
        queue = self.scheduler.queue
        if self._failed and not self.usage.jobs.hold_nodes():
            # nothing ends that a job could wait for which does not fit now
            self._failed = [each for each in self._failed if queue.may_fit(each[0])]
        while self._failed:
            entry, job = self._failed[-1]
            if len(entry) and job.started_at is None and job.members:
                if entry == head:  # a cycle would park it in silence, and try the next one
                    return not queue.may_fit(entry)
                return entry.sort_key < head.sort_key
            self._failed.pop()
        return False

    def _note_failure(self, tried: QueueEntry, effects: tuple[Effect, ...]) -> None:
        told = [effect.uid for effect in effects if isinstance(effect, PodUnschedulable)]
        if not told or any(isinstance(effect, Bind | PodWaiting) for effect in effects):
            return
        job = self.usage.jobs.of(told[0])
        if job is not None and all(entry != tried for entry, _job in self._failed):
            self._failed.append((tried, job))

    # Events ---------------------------------------------------------------------------------

    def _happen(self, event: Event) -> None:
        """Apply an event to the cluster, and send it to the scheduler."""
        self.cluster.apply(event)
        self._book(event)
        self._delivery.send(event, self.now)
        for bound in self._volumes.after(event):
            self._happen(bound)
        if isinstance(event, NodeDeleted):
            # Kubernetes' garbage collection deletes the pods of a node that is gone.
            for pod in self.cluster.pods_on(event.name):
                if self._replace_lost:
                    self._recreate(pod.uid)
                else:
                    self._lose(pod.uid)

    def _lose(self, uid: PodUID) -> None:
        """Delete a pod; its controller creates another if its group has a restart policy."""
        if self._is_restarted(uid):
            self._recreate(uid)
        else:
            self._happen(PodDeleted(uid))

    def _delete_owner(self, key: str) -> None:
        """Delete the group and the pods of a job, as garbage collection does without an owner.

        The group goes first: without its restart policy, the loss of the first pod evicts no other.
        """
        job = self.usage.jobs.named(key)
        if job is None:
            if key in self._deleted or self.usage.jobs.is_past(key):
                return
            if self.cluster.pod(PodUID(key)) is not None:  # a member of a group
                self._deleted.add(key)
                self._lose(PodUID(key))
                return
            expected = f"a job that has arrived by t={format_instant(self.now)}"
            raise InvalidValueError("job", key, expected)
        self._deleted.add(key)
        if job.spec is not None:
            self._happen(PodGroupDeleted(job.spec.key))
        gone: set[PodUID] = set()
        while job.members:  # a plugin may evict others, which are created again
            uid = next(iter(job.members))
            gone.add(uid)
            self._happen(PodDeleted(uid))
        # a run must not last until the instant at which a pod would have ended
        self._agenda = [entry for entry in self._agenda if entry[4] not in gone]
        heapify(self._agenda)
        self.usage.jobs.end(job)

    def _tell(self, event: Event) -> None:
        """Deliver an event to the scheduler, with the others of this instant.

        In a run with faults it is handled at once: a fault may come between two of them.
        """
        self._told.append(event)
        self._cache.update(event)
        if self._has_faults:
            self._tell_all()

    def _tell_all(self) -> None:
        """Let the scheduler handle the events that were delivered, until no effect causes more."""
        while self._told:
            told, self._told = self._told, []
            for event in told:
                for observer in self._observers:
                    observer.event(event, self.now)
            self._before_a_call()
            self._perform(self._calls.handle(*told, now=self.now))

    def _list(self) -> None:
        """Let the scheduler rebuild its state from a listing."""
        self._cache.relist()
        self._before_a_call()
        self._perform(self._calls.rebuild(now=self.now))

    def _book(self, event: Event) -> None:
        for uid in self.usage.record_event(event, self.now):
            pod = self.cluster.pod(uid)
            seconds = None if pod is None else run_seconds(pod)
            if seconds is not None:
                self._finish_after(uid, seconds)
            fails_after = None if pod is None else fail_seconds(pod)
            if fails_after is not None:
                at = self.now + fails_after
                self._schedule(at, _Kind.FINISH, partial(self._fail, uid), uid)

    def _finish_after(self, uid: PodUID, seconds: float) -> None:
        self._schedule(self.now + seconds, _Kind.FINISH, lambda: self._finish(uid), uid)

    def _finish(self, uid: PodUID) -> None:
        pod = self.cluster.pod(uid)
        if pod is None or pod.is_finished:
            return
        if self._delete_finished:
            self.usage.jobs.finish(uid, now=self.now)
            if self._is_restarted(uid):
                # a pod that is deleted before it has succeeded is lost
                self._happen(PodUpdated(pod_with_fields(pod, phase=PodPhase.SUCCEEDED)))
            job = self.usage.jobs.of(uid)
            self._happen(PodDeleted(uid))
            if job is not None and job.spec is not None and job.is_over:
                self._happen(PodGroupDeleted(job.spec.key))
        else:
            self._happen(PodUpdated(pod_with_fields(pod, phase=PodPhase.SUCCEEDED)))

    def _fail(self, uid: PodUID) -> None:
        """Let a running pod fail; its controller creates another in its place."""
        pod = self.cluster.pod(uid)
        if pod is None or pod.is_finished:
            return
        self._happen(PodUpdated(pod_with_fields(pod, phase=PodPhase.FAILED)))
        if not self._has_reached_its_limit(uid):
            self._recreate(uid)

    def _has_reached_its_limit(self, uid: PodUID) -> bool:
        """Return whether what a pod restarts with was restarted as often as its policy allows."""
        job, pod = self.usage.jobs.of(uid), self.cluster.pod(uid)
        group = None if job is None or job.spec is None else self.cluster.pod_group(job.spec.key)
        if group is None or pod is None:
            return False
        if group.restart is not None and group.restarts >= group.restart.max_restarts:
            return True
        claim = membership(pod)
        role = f"{'' if claim is None else group.path_of(claim.role, pod.labels, pod.name) or ''}/"
        return any(
            role.startswith(f"{path}/")
            and group.copy_restarts.get(path, (0, None))[0] >= policy.max_restarts
            for path, policy in group_tree(group.key, group, None).restarted.items()
        )

    def _is_restarted(self, uid: PodUID) -> bool:
        """Return whether the group of a pod has a restart policy, and so a controller."""
        job = self.usage.jobs.of(uid)
        if job is None or job.spec is None:
            return False
        return job.spec.restart is not None or bool(
            group_tree(job.spec.key, job.spec, None).restarted
        )

    # Effects --------------------------------------------------------------------------------

    def _perform(self, effects: tuple[Effect, ...]) -> None:
        for observer in self._observers:
            observer.effects(effects, self.now)
        if not effects or _READ.isdisjoint(map(type, effects)):
            return  # most calls
        given = self.usage.record_effects(effects, self.now)
        vanishing: dict[PodUID, list[Fault]] = {}
        if not self.injector.is_spent:
            assigned = self.injector.on_assignment
            vanishing = {uid: assigned(self._group(uid), self.now) for uid in given}
        generation = self._generation
        for effect in effects:
            if type(effect) not in _PERFORMED:
                continue  # most effects are notices
            if vanishing and isinstance(effect, PodWaiting | Bind):
                self._vanish(effect.node, vanishing.pop(effect.uid, ()))
            if generation != self._generation:
                return
            if isinstance(effect, Bind):
                self._bind(effect)
            elif isinstance(effect, Evict):
                self._recreate(effect.uid)
            elif isinstance(effect, GroupRestarted | CopyBound):
                self._keep_restart(effect.group, effect.noted_in)
            elif isinstance(effect, GroupBound):
                self._keep_restart(effect.group, partial(evolve, restarting_until=None))

    def _keep_restart(self, key: GroupKey, noted_in: Callable[[PodGroup], PodGroup]) -> None:
        """Write the restarts of a group into its status, where a new scheduler finds them."""
        group = self.cluster.pod_group(key)
        after = None if group is None else noted_in(group)
        if after is not None and after != group:
            self._happen(PodGroupUpdated(after))

    def _vanish(self, name: NodeName, faults: Sequence[object]) -> None:
        for fault in faults:
            node = self.cluster.node(name)
            if node is None or not isinstance(fault, NodeVanishes):
                continue
            if fault.seconds is not None:
                come_back = partial(self._come_back, NodeAdded(node))
                self._schedule(self.now + fault.seconds, _Kind.TELL, come_back)
            self._happen(NodeDeleted(name))

    def _come_back(self, node: NodeAdded) -> None:
        if self.cluster.node(node.node.name) is None:
            self._happen(node)

    def _recreate(self, uid: PodUID) -> None:
        """Delete a pod and create another in its place, as its controller does."""
        pod = self.cluster.pod(uid)
        if pod is None:
            return
        self._happen(PodDeleted(uid))
        self._numbers += 1
        fresh = PodUID(f"{uid}~{self._numbers}")
        made = evolve(pod, uid=fresh, node_name=None, phase=PodPhase.PENDING, created_at=self.now)
        self._happen(PodAdded(made))

    # Binds ----------------------------------------------------------------------------------

    def _bind(self, bind: Bind) -> None:
        seconds = self._draws.uniform(0, self._bind_seconds) if self._bind_seconds else 0.0
        fate: _Fate = None
        injector = self.injector
        for fault in () if injector.is_spent else injector.on_bind(self._group(bind.uid), self.now):
            if isinstance(fault, BindSlow):
                seconds += fault.seconds
            elif isinstance(fault, BindFails | BindAnswerLost):
                fate = fate or fault
        generation = self._generation
        if seconds:
            end = self.now + seconds
            self._schedule(end, _Kind.BIND, lambda: self._end_bind(bind, fate, generation))
        else:
            self._end_bind(bind, fate, generation)

    def _end_bind(self, bind: Bind, fate: _Fate, generation: int) -> None:
        asked = generation == self._generation
        refusal = "refused by a fault" if isinstance(fate, BindFails) else self._refusal(bind)
        if refusal:
            if asked and self._cache.cluster.pod(bind.uid) is not None:
                failed = BindFailed(bind.uid, bind.attempt, refusal)
                self._book(failed)
                self._tell(failed)
            return
        for change in self._volumes.chosen(bind):
            self._happen(change)
        bound = Bound(bind.uid, bind.node, bind.attempt)
        self.cluster.apply(bound)
        self._book(bound)
        if asked and fate is None:
            self._tell(bound)
        elif asked and isinstance(fate, BindAnswerLost):
            self._lose_answer(bound, fate.seconds)
        else:
            self._watch_bound(bind.uid)

    def _lose_answer(self, bound: Bound, seconds: float) -> None:
        if not seconds:
            self._cache.update(bound)
        self._tell(BindFailed(bound.uid, bound.attempt, "the answer was lost"))
        if seconds:
            end = self.now + seconds
            self._schedule(end, _Kind.TELL, lambda: self._watch_bound(bound.uid))
        else:
            self._watch_bound(bound.uid)

    def _watch_bound(self, uid: PodUID) -> None:
        pod = self.cluster.pod(uid)
        if pod is not None:
            self._delivery.send(PodUpdated(pod), self.now)

    def _refusal(self, bind: Bind) -> str:
        """Return why the API server would refuse a bind; an empty string if it would not."""
        pod = self.cluster.pod(bind.uid)
        if pod is None:
            return "the pod is gone"
        if pod.is_finished or pod.deleted_at is not None:
            return "the pod has finished or is terminating"
        if pod.node_name is not None:
            return f"the pod is bound to {pod.node_name} already"
        return "" if self.cluster.node(bind.node) else f"there is no node {bind.node}"

    def _group(self, uid: PodUID) -> GroupKey | None:
        job = self.usage.jobs.of(uid)
        return GroupKey(job.key) if job is not None and job.kind == "group" else None

    # Inside ---------------------------------------------------------------------------------

    def _before_a_call(self) -> None:
        """Count a call of the scheduler; if a fault says so, replace the scheduler first."""
        if self.injector.is_spent or not self.injector.on_call(self.now):
            return
        self._generation += 1
        self._delivery.clear()
        self._failed.clear()  # they are entries of the queue before
        self.usage.record_restart(self.now)
        self._calls = self._new_scheduler()
        self._list()

    def _tell_later(self, seconds: float, event: Event | None) -> None:
        """Deliver an event later, or relist; not if the scheduler has been replaced by then."""
        generation = self._generation

        def act() -> None:
            if generation != self._generation:
                return
            if event is None:
                self._list()
            else:
                self._tell(event)

        kind = _Kind.LIST if event is None else _Kind.TELL
        self._schedule(self.now + seconds, kind, act)

    def _schedule(
        self, when: float, kind: _Kind, action: Callable[[], None], ends: PodUID | None = None
    ) -> None:
        self._numbers += 1
        heappush(self._agenda, (when, kind, self._numbers, action, ends))
