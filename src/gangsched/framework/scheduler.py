"""The scheduler: four calls, facts in, effects out.

Not thread-safe: a shell serialises the calls.

Rules:
  R1  ``now`` never goes back; one call sees one instant, and first ends what was due by then;
  R2  a call either returns, or raises having changed nothing of what it was asked to do; what
      was decided before a plugin raised is told by the next call, so no effect is lost;
  R3  nothing here sleeps, locks, logs, reads a clock or does I/O.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, final

from gangsched._checks import check_cluster, check_event
from gangsched._core._backoff import Backoff
from gangsched._core._queue import SchedulingQueue
from gangsched._core._registry import PodGroupRegistry
from gangsched._core._waiting import WaitingMap
from gangsched._fields import check_now
from gangsched.errors import InvalidValueError
from gangsched.events import Effect, Event
from gangsched.explain import Why
from gangsched.framework import _new_state
from gangsched.framework.backfill import reservation as reserving
from gangsched.framework.config.backfill import Backfill, Reservation
from gangsched.framework.config.preemption import Preemption
from gangsched.framework.config.profile import Profile
from gangsched.framework.config.scheduling_unit import PlacementStrategy, SchedulingUnit
from gangsched.framework.cycle import schedule_one as cycle
from gangsched.framework.events import dispatch, prefetch
from gangsched.framework.lifecycle import permit_timeouts
from gangsched.framework.placement import nominator
from gangsched.framework.snapshot import document
from gangsched.framework.what_if import simulate
from gangsched.framework.what_if import smallest_change as smallest
from gangsched.framework.what_if import why as answers
from gangsched.membership import Membership, membership
from gangsched.model import GroupKey, Node, Pod, PodGroup, PodUID
from gangsched.protocols import ClusterState
from gangsched.quantity import is_seconds
from gangsched.what_if import SmallestChange, WhatIf

__all__ = ["Scheduler"]


@final
class Scheduler:
    """Decides which pod goes to which node, and when.

    The driver loop, whatever drives it::

        effects = scheduler.handle(event, now=t)     # a fact arrived
        effects = scheduler.advance(now=t)           # time passed
        effects = scheduler.schedule_one(now=t)      # one decision; None when none is due
        when = scheduler.next_deadline()             # sleep no longer than this

    Perform the effects in order, and report each ``Bind`` by handling ``Bound`` or
    ``BindFailed``. The first call, whichever it is, takes in all that the cluster state shows.

    Args:
        cluster: The cluster state. It must show a fact before the fact is handled.
        profile: The plugins.
        membership: Says which group a pod belongs to; ``membership.ungrouped`` for no groups.
        unit: Whether one decision is about a pod, or about a gang as a whole.
        placement: With the unit ``group``, where the members of a gang go.
        search_budget: With the unit ``group``, how many steps the search for a placement may take
            where placing one member after the other leaves too few; 0 for none.
        backoff: How long what failed rests.
        preemption: Whether pods and gangs may displace others of lower priority; None for never.
        backfill: With the unit ``group``, for whom room is reserved, so that a gang that keeps
            failing is not passed over for ever; None for nobody.
        group_grace: For how many seconds a group is remembered after its last member is gone:
            members that are made anew within it find its place in the order and its backoff.

    Raises:
        InvalidValueError: An argument is malformed.
    """

    __slots__ = ("_listed", "_now", "_state")

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
    ) -> None:
        if not isinstance(profile, Profile):
            raise InvalidValueError("profile", profile, "a Profile")
        if backoff is not None and not isinstance(backoff, Backoff):
            raise InvalidValueError("backoff", backoff, "a Backoff or None")
        if preemption is not None and not isinstance(preemption, Preemption):
            raise InvalidValueError("preemption", preemption, "a Preemption or None")
        if backfill is not None and not isinstance(backfill, Backfill):
            raise InvalidValueError("backfill", backfill, "a Backfill or None")
        if backfill is not None and SchedulingUnit(unit) is not SchedulingUnit.GROUP:
            raise InvalidValueError("backfill", backfill, "None, with the unit pod")
        if not is_seconds(group_grace) or group_grace < 0:
            raise InvalidValueError("group_grace", group_grace, "seconds, finite and not negative")
        if type(search_budget) is not int or search_budget < 0:
            raise InvalidValueError("search_budget", search_budget, "a whole number, not negative")
        if not callable(membership):
            raise InvalidValueError("membership", membership, "a function of a pod")
        check_cluster(cluster)
        self._state = _new_state.empty(
            cluster,
            profile,
            membership,
            SchedulingUnit(unit),
            PlacementStrategy(placement),
            search_budget,
            Backoff() if backoff is None else backoff,
            group_grace,
            preemption,
            backfill,
        )
        self._now = -math.inf
        self._listed = False

    # The four calls -----------------------------------------------------------------------

    def handle(self, event: Event, *, now: float) -> tuple[Effect, ...]:
        """Take in a fact; return what follows from it.

        Runtime complexity: O(log n), plus the members of a group that changes as a whole, plus
        waking whom the fact may help: one step per shape of what waits.

        Args:
            event: The fact. Told again, late or out of order, it changes nothing.
            now: The current instant, in seconds; never earlier than in the call before.

        Raises:
            InvalidValueError: *now* went back, or is no instant.
            ClusterStateError: The cluster state does not show the fact yet.
            PluginError: A plugin raised.
        """
        check_event(event)
        self._begin(now)
        try:
            dispatch.survey(self._state, event)
            dispatch.take_in(self._state, event, now=now)
            nominator.review(self._state, now=now)
        finally:
            prefetch.close(self._state)
        return self._end()

    def advance(self, *, now: float) -> tuple[Effect, ...]:
        """Let time pass: end permit waits and rests that are due.

        Runtime complexity: O(k log n) for k that are due, plus what follows from a fall.

        Args:
            now: The current instant, in seconds; never earlier than in the call before.

        Raises:
            InvalidValueError: *now* went back, or is no instant.
            PluginError: A plugin raised.
        """
        self._begin(now, passing=True)
        return self._end()

    def schedule_one(self, *, now: float) -> tuple[Effect, ...] | None:
        """Make one decision: the cycle of one pod, and the release of a gang that it completes.

        With the unit ``group``, of a gang that has not started it is the cycle of all its members.

        Runtime complexity: O(log n + plugins x nodes that changed since the last pod like it).

        Args:
            now: The current instant, in seconds; never earlier than in the call before.

        Returns:
            What follows from the decision; None when there is nobody to decide about and
            nothing to tell.

        Raises:
            InvalidValueError: *now* went back, or is no instant.
            PluginError: A plugin raised; everything is as it was before the pod's cycle.
        """
        self._begin(now)
        reserving.look(self._state, now=now)
        decided = cycle.run(self._state, now=now)
        effects = self._end()
        return effects if decided or effects else None

    def next_deadline(self) -> float | None:
        """Return when ``advance`` has something to do; None when only a fact changes anything.

        Runtime complexity: O(1).
        """
        state = self._state
        reservation = state.reserving.reservation
        deadlines = (
            state.waiting.next_deadline(),
            state.queue.next_deadline(),
            nominator.next_deadline(state),
            None if reservation is None else reservation.deadline,
        )
        return min((d for d in deadlines if d is not None), default=None)

    # Beside them --------------------------------------------------------------------------

    def rebuild(self, *, now: float) -> tuple[Effect, ...]:
        """Take in all that the cluster state shows, as after a restart or a lost watch.

        Runtime complexity: O(nodes + pods log pods).

        Args:
            now: The current instant, in seconds; never earlier than in the call before.
        """
        self._begin(now, listing=True)
        return self._end()

    def snapshot(self) -> dict[str, Any]:
        """Return all that is remembered, as plain data for JSON: ``gangsched.snapshot/1``.

        What the plugins and the cluster state are is not in it: ``restore`` takes it into a
        scheduler that was made as this one was. Changes nothing. Between two calls only.

        Runtime complexity: O(all that is remembered).

        Raises:
            InvalidValueError: A plugin keeps what cannot be written; see
                ``gangsched.protocols.KeepsState`` and ``KeepsScratch``.
            PluginError: A plugin raised.
        """
        return document.to_data(self._state, now=self._now, listed=self._listed)

    def restore(self, data: object) -> None:
        """Remember what a snapshot says, in the place of what is remembered.

        The scheduler then decides as the one would of which the snapshot was taken, at instants
        of the same clock. Where the cluster has changed since, call ``rebuild`` next.

        Runtime complexity: O(all that is remembered x log of it).

        Args:
            data: What ``snapshot`` returned; also after it was JSON, whose objects may have
                been put in another order.

        Raises:
            InvalidValueError: It is no snapshot, of another version, or of a scheduler with
                another unit or other plugins, or it contradicts itself; nothing has changed.
            PluginError: A plugin raised; nothing has changed.
        """
        state = self._state
        fresh = _new_state.empty(*_new_state.config(state))
        rows = document.to_memory(fresh, data)
        document.restore_plugins(fresh, rows)
        self._state, self._now, self._listed = fresh, rows.now, rows.listed

    def __getstate__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return _new_state.config(self._state), self.snapshot()

    def __setstate__(self, kept: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
        config, data = kept
        self._state = _new_state.empty(*config)
        self.restore(data)

    def why(self, subject: PodUID | GroupKey | Pod | PodGroup) -> Why:
        """Say why a pod or a group is not running, or that it is; see ``gangsched.explain``.

        Changes nothing. Runtime complexity: O(active pods and groups + members of the group).

        Args:
            subject: A pod, a group, or the UID or the key of one. A text that is both is taken
                for the UID.

        Raises:
            UnknownPodError: Nobody has heard of it.
            PluginError: A plugin raised.
        """
        return answers.why(self._state, subject)

    def what_if(
        self, *events: Event, now: float | None = None, until: float | None = None
    ) -> WhatIf:
        """Say what would happen if facts were told; nothing does.

        The facts are told at once to a fork of this scheduler, which then decides until nobody can
        be tried. What an effect asks for is taken as performed at once: binds succeed where the
        cluster allows them, who is evicted is gone. The fork shares what never changes and copies
        the rest when it is looked at; this scheduler and its cluster stay as they are.

        Runtime complexity: that of the calls, and O(entities in the queue + classes of nodes +
        groups), and a copy of the dicts of pods, nodes and groups as they stand.

        Args:
            events: The facts, in order; with none, what would happen as things stand.
            now: The instant; None for that of the last call.
            until: Let time pass until this instant, as far as deadlines and rests go; None for no
                time at all.

        Raises:
            InvalidValueError: An argument is malformed, *now* went back, or no call has been made
                and *now* is None; or *until* is before *now*; or the ``fork`` of run times is none.
            ClusterStateError: A fact cannot be.
            ProfileError: A plugin, or run times, keep something, and cannot be forked; see
                ``Forkable``.
            PluginError: A plugin raised.
        """
        now, until = simulate.span(self._now, now, until)
        for event in events:
            check_event(event)
        ahead = simulate.look(self, self._state, now)
        for event in events:
            ahead.tell(event)
        ahead.run(until)
        return ahead.answer()

    def smallest_change(
        self,
        group: GroupKey | PodGroup,
        shape: Node,
        *,
        most: int = 64,
        now: float | None = None,
        until: float | None = None,
    ) -> SmallestChange:
        """Say with how many more nodes of a shape a group would start; nothing happens.

        That is the least number such that the group would have started by *until*, after
        ``what_if`` with so many nodes added at once. Each number from 0 on is tried: more nodes
        may help somebody else instead.

        Runtime complexity: that of ``what_if`` for each number, but with one answer of ``why`` in
        all, or, for a group that lacks members, one for each number.

        Args:
            group: The group, or its key.
            shape: What each node offers, with its labels and taints. Its name is what their names
                begin with.
            most: How many nodes are tried at most.
            now: The instant; None for that of the last call.
            until: By when it has to start; None for at once, or, while it rests, for when its rest
                ends. Time passes as in ``what_if``.

        Raises:
            UnknownPodError: Nobody has heard of the group.
            InvalidValueError: An argument is malformed; see ``what_if``, also for what else.
        """
        if not isinstance(group, str | PodGroup):
            raise InvalidValueError("group", group, "the key of a group, or a PodGroup")
        if not isinstance(shape, Node):
            raise InvalidValueError("shape", shape, "a Node")
        if type(most) is not int or most < 0:
            raise InvalidValueError("most", most, "a whole number, not negative")
        now, _end = simulate.span(self._now, now, until)
        key = GroupKey(group if isinstance(group, str) else group.key)
        return smallest.search(self, self._state, key, shape, most=most, now=now, until=until)

    @property
    def queue(self) -> SchedulingQueue:
        """The queue, for reading."""
        return self._state.queue

    @property
    def registry(self) -> PodGroupRegistry:
        """The groups, for reading."""
        return self._state.registry

    @property
    def waiting(self) -> WaitingMap:
        """The pods that wait on permit, for reading."""
        return self._state.waiting

    @property
    def reservation(self) -> Reservation | None:
        """The room that is kept for a gang; None for none. O(its nodes)."""
        return reserving.reservation(self._state)

    @property
    def exhausted_searches(self) -> int:
        """How many searches for a placement ended with their budget, neither found nor refuted."""
        return self._state.exhausted_searches

    def _begin(self, now: float, *, listing: bool = False, passing: bool = False) -> None:
        check_now(now)
        if now < self._now:
            raise InvalidValueError("now", now, f"an instant not before {self._now:g}")
        self._now = now
        # a wait of no time at all is over when time is said to pass, or has passed
        begun_before = math.inf if passing else now
        permit_timeouts.expire(self._state, now=now, begun_before=begun_before)
        self._state.queue.advance(now=now)
        self._state.registry.expire(now=now)
        nominator.review(self._state, now=now)
        reserving.expire(self._state, now=now)
        if listing or not self._listed:
            dispatch.listing(self._state, now=now)
            self._listed = True

    def _end(self) -> tuple[Effect, ...]:
        state = self._state
        if state.deferred:
            error, *others = state.deferred
            for other in others:
                error.add_note(f"and also: {other}")
            state.deferred.clear()
            raise error
        effects = tuple(state.out)
        state.out.clear()
        return effects

    def _check(self) -> None:
        self._state._check()
