"""``Scheduler``: events in, effects out.

Each of the four calls has the same steps. ``_begin`` checks *now* and applies all deadlines up to
it: permit timeouts, backoff, group grace, nominations, the reservation. The first call also takes
in the listing of the cluster state. Then the call does its own work, which appends effects to
``CurrentCall.out``. ``_end`` returns these effects, or raises what a plugin raised where the
scheduler could not stop (``CurrentCall.deferred``).

Rules:
  R1  ``now`` never decreases, and one call sees one instant;
  R2  a call returns, or it raises and the work that it was called for is undone. A plugin that
      raises in a step that cannot stop half-way is the exception: the step is completed, then its
      error is raised. Effects that were posted by then are returned by the next call;
  R3  nothing here sleeps, locks, logs, reads a clock or does I/O. The class is not thread-safe: a
      driver serialises the calls;
  R4  a call from inside another one is refused, and nothing changes (see ``OneCall``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, final

from attrs import evolve

from gangsched._checks import check_event
from gangsched._core._backoff import Backoff
from gangsched._core._one_call import OneCall
from gangsched._core._quotas import Quota
from gangsched._fields import check_now
from gangsched.errors import InvalidValueError
from gangsched.events import Effect, Event
from gangsched.explain import Why
from gangsched.framework import _new_state
from gangsched.framework.backfill import reservation as reserving
from gangsched.framework.backfill import reservation_candidates
from gangsched.framework.cycle import schedule_one as cycle
from gangsched.framework.events import dispatch, pod_ends, prefetch, restart, under_way
from gangsched.framework.lifecycle import permit_end
from gangsched.framework.placement import nominator
from gangsched.framework.queueing import equivalence_class, requeue
from gangsched.framework.scheduler_view import SchedulerView
from gangsched.framework.snapshot import document
from gangsched.framework.state import label_readers
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.what_if import anew, simulate
from gangsched.framework.what_if import smallest_change as smallest
from gangsched.framework.what_if import why as answers
from gangsched.membership import Membership, membership
from gangsched.model import GroupKey, Node, Pod, PodGroup
from gangsched.options.backfill import Backfill
from gangsched.options.preemption import Preemption
from gangsched.options.scheduling_unit import PlacementStrategy, SchedulingUnit
from gangsched.profile import Profile
from gangsched.protocols import ClusterState
from gangsched.what_if import SmallestChange, WhatIf

__all__ = ["Scheduler"]


@final
class Scheduler(SchedulerView):
    """A scheduler: decides which pod runs on which node, and when.

    The loop of every driver::

        effects = scheduler.handle(event, now=t)     # an event arrived
        effects = scheduler.advance(now=t)           # time passed
        effects = scheduler.schedule_one(now=t)      # one scheduling cycle; None if there is none
        when = scheduler.next_deadline()             # sleep at most until then

    Perform the effects in order. Report the result of each ``Bind`` by handling ``Bound`` or
    ``BindFailed``. The first call, whichever it is, also takes in everything that the cluster
    state shows.

    Args:
        cluster: The cluster state. It must show a change before the event about it is handled.
        profile: The plugins.
        membership: The function that returns the group of a pod; ``membership.ungrouped`` to
            schedule without groups.
        unit: Whether one scheduling cycle is about a pod or about a whole gang.
        placement: How gangs and single pods are placed; with the unit ``group`` only.
        search_budget: The number of steps that all searches of one call may take together; 0 for no
            search. A step is about 10 microseconds. Searches are for a placement of a gang whose
            members were not placed one by one, for victims, and for a reservation.
        backoff: The backoff after a failed attempt; None for the default.
        preemption: When pods and gangs may preempt pods of lower priority; None for never.
        backfill: How capacity is reserved for a gang that keeps failing, so that later pods do not
            starve it; None for no reservations. With the unit ``group`` only.
        group_grace: The number of seconds for which a group is remembered after its last member is
            gone. Members that are recreated within that time keep the group's place in the queue
            order and its backoff.

        strict_priorities: Whether a pod with another priority than its group is refused. If not,
            the priority of the group decides, and a notice says so.
        can_evict: Whether the host performs ``Evict``, so that the gang policy may evict a gang
            that is partly bound. None: if *preemption* is given, or if a driver calls
            ``allow_evictions``, as those of ``gangsched.drivers`` do if they are given *evict*.
        quotas: How much the groups of some namespaces may request in total. A group that does not
            fit the quotas of its namespace waits until another group ends.

    Raises:
        InvalidValueError: An argument is malformed.
    """

    __slots__ = ("_host_decides", "_is_restored", "_listed", "_retries_refused")

    def __init__(
        self,
        cluster: ClusterState,
        profile: Profile,
        *,
        membership: Callable[[Pod], Membership | None] = membership,
        unit: SchedulingUnit = SchedulingUnit.POD,
        placement: PlacementStrategy = PlacementStrategy.AUTO,
        search_budget: int = 10_000,
        backoff: Backoff | None = None,
        preemption: Preemption | None = None,
        backfill: Backfill | None = None,
        group_grace: float = 60.0,
        strict_priorities: bool = False,
        can_evict: bool | None = None,
        quotas: Iterable[Quota] = (),
    ) -> None:
        settings = _new_state.checked_settings(
            cluster,
            profile,
            membership=membership,
            unit=unit,
            placement=placement,
            search_budget=search_budget,
            backoff=backoff,
            preemption=preemption,
            backfill=backfill,
            group_grace=group_grace,
            strict_priorities=strict_priorities,
            can_evict=can_evict,
            quotas=quotas,
        )
        self._host_decides = can_evict is None
        self._state = _new_state.empty(settings, group_grace, backfill)
        self._now = -math.inf
        self._listed = False
        self._is_restored = False
        self._retries_refused = False
        self._call = OneCall()

    # The four calls -----------------------------------------------------------------------

    def handle(self, event: Event, *, now: float) -> tuple[Effect, ...]:
        """Handle an event, and return the effects that follow from it.

        The event names an object; its new state is read from the cluster state. So an event that
        is repeated, late or out of order changes nothing. An object that the cluster state does not
        show counts as deleted. So if a host does not apply a ``PodAdded`` before it is handled, the
        result is ``()``. The first call of a scheduler also reads the cluster state; see
        ``rebuild``.

        Runtime complexity: O(log n), plus the members of a group whose specification changes, plus
        one step for each equivalence class of parked entities that the event may help.

        Args:
            event: The event.
            now: The current instant in seconds, not before that of the last call.

        Raises:
            InvalidValueError: *event* is not an event, or names a plugin that cannot answer for a
                waiting pod; or *now* is not a finite number, or less than before.
            ClusterStateError: The cluster state does not show a pod as bound that the event reports
                as ``Bound``, or it contradicts itself.
            PluginError: A plugin raised.
        """
        check_event(event)
        with self._call("handle"):
            self._begin(now)
            try:
                dispatch.survey(self._state, event)
                dispatch.take_in(self._state, event, now=now)
                if self._state.reservations.nominations or self._state.reservations.overdue:
                    nominator.review(self._state, now=now)
            finally:
                prefetch.close(self._state.nodes, self._state.call)
            return self._end()

    def advance(self, *, now: float) -> tuple[Effect, ...]:
        """Apply all deadlines up to an instant: permit timeouts, backoff and the others.

        The first call of a scheduler also reads the cluster state; see ``rebuild``.

        Runtime complexity: O(k log n) for k deadlines, plus the rejection of each group whose
        members time out.

        Args:
            now: The current instant in seconds, not before that of the last call.

        Raises:
            InvalidValueError: *now* is not a finite number, or decreased.
            ClusterStateError: The cluster state contradicts itself.
            PluginError: A plugin raised.
        """
        with self._call("advance"):
            self._begin(now, passing=True)
            return self._end()

    def schedule_one(self, *, now: float) -> tuple[Effect, ...] | None:
        """Run one scheduling cycle, for the first entity in the active queue.

        With the unit ``pod`` the cycle is about one pod; if that completes the quorum of its gang,
        the gang is released. With the unit ``group`` the cycle of a gang that has not started is
        about all its members. The first call of a scheduler also reads the cluster state; see
        ``rebuild``.

        Runtime complexity: O(log n + plugins x nodes that changed since the last equivalent pod).

        Args:
            now: The current instant in seconds, not before that of the last call.

        Returns:
            The effects of the cycle; None if the active queue is empty and there are no effects.
            With backfill, no effects are returned while further gangs have to be considered for
            the reservation.

        Raises:
            InvalidValueError: *now* is not a finite number, or decreased.
            ClusterStateError: The cluster state contradicts itself.
            PluginError: A plugin raised; the cycle is undone.
        """
        with self._call("schedule_one"):
            self._begin(now)
            if self._state.reservations.backfill.policy is not None:
                reserving.look(self._state, now=now)
            decided = cycle.run(self._state, now=now)
            effects = self._end()
            if (
                decided
                or effects
                or reservation_candidates.is_looking(self._state.reservations.backfill)
            ):
                return effects
            return None

    def next_deadline(self) -> float | None:
        """Return the instant of the next deadline; None if only an event can change anything.

        Runtime complexity: O(1), and O(pods that preemptors await).
        """
        state = self._state
        reservation = state.reservations.backfill.reservation
        deadlines = (
            state.pods.waiting.next_deadline(),
            state.pods.restarts.next_deadline(),
            state.queue.next_deadline(),
            nominator.next_deadline(state.pods, state.reservations),
            None if reservation is None else reservation.deadline,
        )
        return min((d for d in deadlines if d is not None), default=None)

    # Beside them --------------------------------------------------------------------------

    def rebuild(self, *, now: float) -> tuple[Effect, ...]:
        """Read the whole cluster state again, as after a restart or a lost watch.

        Groups that wait for a quota are asked again: it may have another limit than before a
        restart.

        Runtime complexity: O(nodes + pods log pods).

        Args:
            now: The current instant in seconds, not before that of the last call.

        Raises:
            InvalidValueError: *now* is not a finite number, or decreased.
            ClusterStateError: The cluster state contradicts itself.
            PluginError: A plugin raised.
        """
        with self._call("rebuild"):
            self._begin(now, listing=True)
            return self._end()

    def allow_evictions(self) -> None:
        """Note that the host performs ``Evict``; see *can_evict*. Drivers call it. O(1).

        It is part of how the scheduler is made, like the arguments, and not of its snapshot.
        """
        with self._call("allow_evictions"):
            if self._host_decides:
                self._state.settings = evolve(self._state.settings, can_evict=True)

    def snapshot(self) -> dict[str, Any]:
        """Return the state of the scheduler as plain data for JSON: ``gangsched.snapshot/2``.

        Of plugins it has what ``KeepsState`` and ``KeepsScratch`` give; the cluster state is not
        included. Restore it into a scheduler that was created with the same arguments. The state is
        not changed. Call it between two calls, never during one.

        Runtime complexity: O(the state).

        Raises:
            InvalidValueError: The state of a plugin is not plain data; see
                ``gangsched.protocols.KeepsState`` and ``KeepsScratch``.
            PluginError: A plugin raised.
        """
        with self._call("snapshot"):
            return document.to_data(self._state, now=self._now, listed=self._listed)

    def restore(self, data: object, *, retry_refused: bool = False) -> None:
        """Replace the state of the scheduler by that of a snapshot.

        The scheduler then decides as the one that the snapshot was taken from, at instants of the
        same clock. The next call returns each ``Bind`` and each ``Evict`` again that was under way,
        unless the cluster state shows that it was done. If the cluster has changed since then, or a
        quota has another limit, call ``rebuild`` next.

        Runtime complexity: O(n log n) for a state of size n.

        Args:
            data: The return value of ``snapshot``, before or after it was written as JSON. The keys
                of JSON objects may be in any order.
            retry_refused: Whether the next call tries again what plugins had refused; true if a
                plugin has other arguments than before. What only lacks capacity is not tried.

        Raises:
            InvalidValueError: *data* is not a snapshot, has another version, contradicts itself, or
                was taken from a scheduler with another unit or other plugins; nothing has changed.
            PluginError: A plugin raised; nothing has changed.
        """
        with self._call("restore"):
            fresh = self._empty()
            rows = document.to_state(fresh, data)
            document.restore_plugins(fresh.settings, rows)
            self._state, self._now, self._listed = fresh, rows.now, rows.listed
            self._is_restored, self._retries_refused = True, retry_refused

    def __getstate__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        state = self._state
        config = _new_state.config(state.settings, state.pods, state.reservations)
        return (*config, self._host_decides), self.snapshot()

    def __setstate__(self, kept: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
        (*config, host_decides), data = kept
        self._call = OneCall()
        self._host_decides = host_decides
        self._state = _new_state.empty(*config)
        self.restore(data)

    def what_if(
        self,
        *events: Event,
        now: float | None = None,
        until: float | None = None,
        budget: int = 1_000_000,
    ) -> WhatIf:
        """Return what would happen after some events, without changing anything.

        A fork of this scheduler handles the events, then runs scheduling cycles until its active
        queue is empty. Effects are taken as performed at once: a bind succeeds if the cluster
        allows it, and an evicted pod is gone. The fork shares immutable objects with this scheduler
        and copies the others when they are read.

        Runtime complexity: that of the calls, plus O(queued entities + equivalence classes of nodes
        + groups), plus a shallow copy of the dicts of pods, nodes and groups.

        Args:
            events: The events, in order; none to ask what happens without any.
            now: The current instant; None for that of the last call.
            until: The instant until which deadlines are applied and cycles are run; None for *now*.
            budget: The number of steps that the question may take in all, an int >= 1; a step is
                about 10 microseconds, and a decision takes at least 10. When it is used up, nothing
                more is decided, and ``WhatIf.exhausted`` is true.

        Raises:
            InvalidValueError: An argument is malformed; *now* is before the last call, or None
                before the first call; *until* is before *now*; or the ``fork`` method of the run
                times returned something else.
            ClusterStateError: An event contradicts the cluster state.
            ProfileError: A plugin, or the run times, have state and no ``fork``; see ``Forkable``.
            PluginError: A plugin raised.
        """
        now, until = simulate.span(self._now, now, until)
        for event in events:
            check_event(event)
        simulate.check_budget(budget)
        self._call.refuse_inside("what_if")
        ahead = simulate.look(self, self._state, now, simulate.Spending(budget))
        for event in events:
            ahead.tell(event)
        ahead.run(until)
        return ahead.answer()

    def why(
        self,
        subject: str | Pod | PodGroup,
        *,
        now: float | None = None,
        budget: int = 100_000,
    ) -> Why:
        """Return why a pod or a group is not running, or that it is; see ``gangsched.explain``.

        Changes nothing. A pod or a group whose attempt failed is not tried again until something
        changes that may help it, so the reason of that attempt grows old. Here a fork tries it once
        more, and the reason is as of now. The number of attempts and the backoff are not those of
        the fork. The fork may start it, or use up *budget*; or a plugin raises, or has state and no
        ``fork``. Then the reason is that of the last attempt, and the sentence says as of when.

        Runtime complexity: O(active pods and groups + members of the group), and for a failed
        attempt that of ``what_if``.

        Args:
            subject: A pod, a group, the UID of a pod, or the key of a group. A string that is both
                a UID and a key is taken as the UID.
            now: The instant of the attempt; None for that of the last call.
            budget: The number of steps that the attempt may take, about 10 microseconds each; see
                ``what_if``. With 0 nothing is tried.

        Raises:
            UnknownPodError: The scheduler does not know *subject*.
            InvalidValueError: An argument is malformed; see ``what_if``.
            PluginError: A plugin raised that decides which members are needed.
        """
        if now is not None:
            simulate.span(self._now, now, None)
        simulate.check_budget(budget, least=0)
        with self._call("why"):
            answer = answers.why(self._state, subject, now=self._now)
        at = self._now if now is None else now
        spending = simulate.Spending(budget)
        look = partial(simulate.look, self, self._state, at, spending)
        return anew.with_fresh_reason(answer, subject, look if budget else None, now=at)

    def smallest_change(
        self,
        group: str | PodGroup,
        shape: Node,
        *,
        most: int = 64,
        now: float | None = None,
        until: float | None = None,
        budget: int = 1_000_000,
    ) -> SmallestChange:
        """Return the least number of added nodes with which a group would start.

        Changes nothing. Each number is tried from 0 on with ``what_if``, all nodes added at once.
        The numbers are not bisected, because with more nodes another gang may start instead.

        Runtime complexity: that of ``what_if`` for each number, except that ``why`` is answered
        once; for a group that lacks members, once for each number.

        Args:
            group: The group, or its key.
            shape: The node of which copies are added. Their names begin with its name.
            most: The largest number of nodes to try.
            now: The current instant; None for that of the last call.
            until: The instant by which the group has to start. None for *now*, or for the end of
                its backoff if it is in backoff.
            budget: The number of steps that all trials may take together; see ``what_if``. When it
                is used up, ``Insufficient.exhausted`` is true.

        Raises:
            UnknownPodError: The scheduler does not know the group.
            InvalidValueError: An argument is malformed; see also ``what_if``.
            ProfileError: See ``what_if``.
            PluginError: A plugin raised.
        """
        if not isinstance(group, str | PodGroup):
            raise InvalidValueError("group", group, "a PodGroup or the key of one")
        if not isinstance(shape, Node):
            raise InvalidValueError("shape", shape, "a Node")
        if type(most) is not int or most < 0:
            raise InvalidValueError("most", most, "an int >= 0")
        now, _end = simulate.span(self._now, now, until)
        simulate.check_budget(budget)
        key = GroupKey(group if isinstance(group, str) else group.key)
        self._call.refuse_inside("smallest_change")
        return smallest.search(
            self, self._state, key, shape, most=most, now=now, until=until, budget=budget
        )

    def _empty(self) -> State:
        """Return an empty state with the same settings."""
        state = self._state
        config = _new_state.config(state.settings, state.pods, state.reservations)
        return _new_state.empty(*config)

    def _begin(self, now: float, *, listing: bool = False, passing: bool = False) -> None:
        check_now(now)
        if now < self._now:
            raise InvalidValueError("now", now, f"a number >= {self._now!r}, as in the last call")
        state = self._state
        state.call.steps = 0
        if state.nodes.unread:
            self._read_again(now)
        if state.pod_classes.labels.idle:
            label_readers.forget_idle(state.nodes, state.pod_classes)
        self._now = now
        # A wait with timeout 0 ends when the host calls advance, or in a later call with a larger
        # now. Other calls at the same instant must not end it: the quorum may be completed by them.
        # So with a nomination: an event of this instant may report that its last victim is gone.
        # each step is skipped if there is nothing that could be due: most calls find nothing
        pods, reservations = state.pods, state.reservations
        if len(pods.waiting):
            permit_end.expire(state, now=now, begun_before=math.inf if passing else now)
        state.queue.advance(now=now)
        if pods.registry.has_left:
            pods.registry.expire(now=now)
        for key in pods.restarts.due(now=now):
            state.call.touched[key] = None
        if reservations.nominations or reservations.overdue:
            nominator.review(state, now=now, passing=passing)
        reservation = reservations.backfill.reservation
        if reservation is not None:
            reserving.expire(state, reservation, now=now)
        if listing or not self._listed:
            dispatch.listing(self._state, now=now)
            self._listed = True
        if self._is_restored:
            under_way.read_again(state, now=now)
            self._is_restored = False
        if self._retries_refused:
            pod_ends.notify(self._state, None, now=now)
            self._retries_refused = False
        if state.call.touched:
            restart.settle(state, now=now)

    def _read_again(self, now: float) -> None:
        """Read the nodes that an earlier call could not read, before anything else changes."""
        state = self._state
        pods_version = state.nodes.pods_version
        requeue.gain(state, state.nodes.read_again(), now=now, ends_backoff=True)
        if state.nodes.pods_version != pods_version:
            requeue.pods_changed(state, now=now)

    def _end(self) -> tuple[Effect, ...]:
        state = self._state
        while state.call.refused:
            permit_end.reject(state, permit_end.refused(state.pods, state.call), now=self._now)
        if state.call.touched:
            restart.settle(state, now=self._now)
        reservation = state.reservations.backfill.reservation
        if reservation is not None:
            # its gang may have gone, or have come back as another entity
            reserving.expire(state, reservation, now=self._now)
        if state.call.deferred:
            error, *others = state.call.deferred
            for other in others:
                error.add_note(f"and also: {other}")
            state.call.deferred.clear()
            raise error
        return state.call.take()

    def _check(self) -> None:
        self._state._check()
        for pod_class in self._state.pod_classes.by_signature.values():
            equivalence_class.check_kept(pod_class)
