"""``Scheduler``: events in, effects out.

Each call begins with what is due (``_begin``), does its own work, settles the gangs that this
concerned (``settle``), and returns the effects.

Rules:
  R1  ``now`` never decreases, and one call sees one instant;
  R2  nothing here sleeps, locks, logs, reads a clock or does I/O. The class is not thread-safe;
  R3  a call from inside another one is refused, and nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from types import MethodType
from typing import Any, Final, final

from attrs import evolve

from gangsched.core import cycle, intake, snapshot
from gangsched.core.admission import restarts
from gangsched.core.arguments import checked_settings, quotas_beside
from gangsched.core.attempt import placing
from gangsched.core.attempt.pending_members import demand_of
from gangsched.core.moves import lost_nodes, pod_ends
from gangsched.core.moves.rejection import apply_verdict
from gangsched.core.one_call import OneCall
from gangsched.core.preemption import make_room, nominations
from gangsched.core.questions import ahead, anew, smallest_change
from gangsched.core.questions.domains import domains_of
from gangsched.core.queue.check import check_queue
from gangsched.core.reading.scheduler_view import SchedulerView
from gangsched.core.reading.why import why_of
from gangsched.core.records.check import check_records
from gangsched.core.records.gang import PodRecord
from gangsched.core.reservation import backfill
from gangsched.core.settle import cannot_fit, settle_all
from gangsched.core.snapshot import under_way
from gangsched.core.state import SchedulerSettings, State
from gangsched.errors import GangschedError, InvalidValueError, UnknownPodError
from gangsched.events import Effect, Event, PermitAllowed, PermitRejected
from gangsched.explain import Why
from gangsched.listings import DomainRow, Listing
from gangsched.membership import Membership, membership
from gangsched.model import GroupKey, Node, Pod, PodGroup
from gangsched.options.backfill import Backfill
from gangsched.options.levels import LevelsGiven
from gangsched.options.preemption import Preemption
from gangsched.options.quota import Quota
from gangsched.options.scheduling_unit import PlacementStrategy, SchedulingUnit
from gangsched.primitives.backoff import Backoff
from gangsched.profile import Profile
from gangsched.protocols import ClusterState
from gangsched.values.checks import check_event
from gangsched.values.fields import check_now
from gangsched.values.seconds import format_duration
from gangsched.what_if import SmallestChange, WhatIf

__all__ = ["Scheduler"]

_ANSWERS: Final = (PermitAllowed, PermitRejected)


@final
class Scheduler(SchedulerView):
    """A scheduler: decides which pod runs on which node, and when.

    Args:
        cluster: The cluster state. It must show a change before the event about it is handled.
        profile: The plugins.
        membership: Returns the group of a pod.
        unit: Whether one scheduling cycle is about a pod or about a whole gang.
        placement: Which of the feasible nodes gangs that are decided as a whole are placed on.
        search_budget: The number of steps of a search for a placement; 0 for no search.
        backoff: How long a gang backs off after a failure that no node can help.
        group_grace: For how many seconds a group is remembered after its last member is gone.
        strict_priorities: Whether a pod with another priority than its group is refused.
        can_evict: Whether the host performs ``Evict``. None: if *preemption* is given, or if a
            driver calls ``allow_evictions``.
        preemption: When pods and gangs may preempt pods of lower priority; None for never.
        backfill: How capacity is reserved for a gang that keeps failing; None for never.
        quotas: How much pods may request in total: caps of namespaces, and queues.
        history: The half-life in seconds of the usage that counts for the shares of queues, so that
            one that had much waits for those that had little; None if only present usage counts.
        levels: Which node labels nest, such as racks in blocks, the coarsest level first; several
            topologies are a list of such lists.

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
        group_grace: float = 60.0,
        strict_priorities: bool = False,
        can_evict: bool | None = None,
        preemption: Preemption | None = None,
        backfill: Backfill | None = None,
        quotas: Iterable[Quota] = (),
        history: float | None = None,
        levels: LevelsGiven = (),
    ) -> None:
        settings = checked_settings(
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
            history=history,
            levels=levels,
        )
        self._state = _blank(settings)
        self._host_decides = can_evict is None
        self._listed = False
        self._is_restored = False
        self._retries_refused = False
        self._call = OneCall()

    # The four calls -----------------------------------------------------------------------------

    def handle(self, *events: Event, now: float) -> tuple[Effect, ...]:
        """Handle the events of one instant, and return the effects that follow from them.

        Each event is taken in; then the gangs that they concern are settled once. At rest the
        outcome is that of one call for each event, for less work. The cluster state must show all
        of the events by then. What they hide of each other takes two calls: an object that is
        deleted and made anew under its name, a pod that is bound and has ended.

        Raises:
            InvalidValueError: An event is malformed, or an answer names no permit plugin; nothing
                has changed.
            ClusterStateError: The cluster state contradicts an event; so nothing has changed
                because of it. The others are handled, and their effects are those of the next call.
        """
        for event in events:
            check_event(event)
        with self._call("handle"):
            for event in events:
                if isinstance(event, _ANSWERS):
                    intake.check_answer(self._state, event)
            self._begin(now)
            if len(events) == 1:
                self._state.events += 1
                intake.take_in(self._state, events[0])
            else:
                self._take_in_all(events)
            return self._end()

    def advance(self, *, now: float) -> tuple[Effect, ...]:
        """Apply all deadlines up to an instant."""
        with self._call("advance"):
            self._begin(now, passing=True)
            return self._end()

    def schedule_one(self, *, now: float) -> tuple[Effect, ...] | None:
        """Run one scheduling cycle; None if no gang is active and there are no effects."""
        with self._call("schedule_one"):
            self._begin(now)
            if self._state.given_back:
                intake.read_given_back(self._state)
            if self._state.reservation.policy is not None:
                backfill.look(self._state)
            decided = cycle.run(self._state)
            effects = self._end()
            return effects if decided or effects or self._state.reservation.is_cut else None

    def next_deadline(self) -> float | None:
        """Return the instant of the next deadline; None if only an event can change anything."""
        state = self._state
        deadlines = (
            state.records.waiting.next_deadline(),
            state.restarts.next_deadline(),
            state.queue.next_deadline(),
            nominations.next_deadline(state),
            backfill.next_deadline(state),
            state.retry_at if state.retry_at < math.inf else None,
        )
        return min((each for each in deadlines if each is not None), default=None)

    def rebuild(self, *, now: float) -> tuple[Effect, ...]:
        """Read the whole cluster state again."""
        with self._call("rebuild"):
            self._begin(now)
            self._state.events += 1
            intake.listing(self._state)
            return self._end()

    def set_quotas(self, quotas: Iterable[Quota], *, now: float) -> tuple[Effect, ...]:
        """Replace the quotas; running pods stay, and what waits is asked about again.

        A queue that is still there keeps its past. Pods of one that is gone are held. The state is
        written and read again, as with ``snapshot`` and ``restore``, so members that wait on permit
        go on waiting. If a plugin raises, the quotas are replaced all the same.

        Runtime complexity: that of ``snapshot``, ``restore`` and ``rebuild``.

        Args:
            quotas: All quotas from now on.
            now: The current instant.

        Raises:
            InvalidValueError: *quotas* or *now* is malformed; nothing has changed.
            ProfileError: See ``Scheduler``; nothing has changed.
            PluginError: A plugin raised.
        """
        found = quotas_beside(self._state.settings.profile, quotas)
        self._check_instant(now)
        data = self.snapshot()
        with self._call("set_quotas"):
            fresh = _blank(evolve(self._state.settings, quotas=found))
            self._listed = snapshot.to_state(fresh, data).listed
            fresh.takers.renew(())
            fresh.retry_at = now  # who may be evicted is another question now
            self._state, self._is_restored = fresh, True
            nominations.lapse_exceeded(fresh, "the quotas were replaced")
        return self.rebuild(now=now)

    def allow_evictions(self) -> None:
        """Note that the host performs ``Evict``; see *can_evict*. Drivers call it. O(1).

        It is part of how the scheduler is made, like the arguments, and not of its snapshot.
        """
        with self._call("allow_evictions"):
            if self._host_decides:
                self._state.settings = evolve(self._state.settings, can_evict=True)

    # Questions ----------------------------------------------------------------------------------

    def what_if(
        self,
        *events: Event,
        quotas: Iterable[Quota] | None = None,
        now: float | None = None,
        until: float | None = None,
        budget: int = 1_000_000,
    ) -> WhatIf:
        """Return what would happen after some events, without changing anything.

        A fork of this scheduler handles the events, then runs scheduling cycles until its active
        queue is empty. Effects are taken as performed at once: a bind succeeds if the cluster
        allows it, and an evicted pod is gone. The fork shares immutable objects with this scheduler
        and copies the others when they are read. If *quotas* are given, they are set first.

        Runtime complexity: that of the calls, plus O(queued gangs + states of nodes + groups), plus
        a shallow copy of the dicts of pods, nodes and groups. With *quotas*, that of ``set_quotas``
        besides.

        Args:
            events: The events, in order; none to ask what happens without any.
            quotas: All quotas of the fork, as for ``set_quotas``; None for those of this scheduler,
                which are ``stated_quotas``.
            now: The current instant; None for that of the last call.
            until: The instant until which deadlines are applied and cycles are run, in seconds
                like *now*; None for *now*. Until then running pods succeed when the run times of
                ``Backfill`` say so, as far as those are known.
            budget: The number of steps that the question may take in all, an int >= 1; a step is
                about 10 microseconds, and a decision takes at least 10. When it is used up, nothing
                more is decided, and ``WhatIf.exhausted`` is true.

        Raises:
            InvalidValueError: An argument is malformed; *now* is before the last call, or None
                before the first call; *until* is before *now*; or the ``fork`` method of the run
                times returned something else.
            ClusterStateError: An event contradicts the cluster state.
            ProfileError: A plugin, or the run times, have state and no ``fork``; see
                ``gangsched.protocols.StateExtensions``.
            PluginError: A plugin raised.
        """
        now, until = ahead.span(self._now, now, until)
        for event in events:
            check_event(event)
        found = None if quotas is None else quotas_beside(self._state.settings.profile, quotas)
        ahead.check_budget(budget)
        self._call.refuse_inside("what_if")
        fork = ahead.look(self, self._state, now, ahead.Spending(budget))
        if found is not None:
            fork.set_quotas(found)
        for event in events:
            fork.tell(event)
        fork.run(until)
        return fork.answer()

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
            ahead.span(self._now, now, None)
        ahead.check_budget(budget, least=0)
        with self._call("why"):
            answer = why_of(self._state, subject)
        at = self._now if now is None else now
        spending = ahead.Spending(budget)
        look = partial(ahead.look, self, self._state, at, spending)
        return anew.with_fresh_reason(answer, subject, look if budget else None, now=at)

    def domains(self, group: str | PodGroup) -> Listing[DomainRow]:
        """Return what each domain takes of a gang that requires one, and what it lacks for more.

        It is about the members that lack nodes, and nodes as they are now. Of several parts that
        require one level, it is about the first one that lacks members. Changes nothing. At a
        prompt the answer is a table. Runtime complexity: O(domains x nodes there).

        Args:
            group: A group, or its key.

        Raises:
            UnknownPodError: The scheduler does not know the group.
            PluginError: A plugin raised.
        """
        key = group.key if isinstance(group, PodGroup) else GroupKey(group)
        if self._state.records.registry.get(key) is None:
            raise UnknownPodError(key)
        with self._call("domains"):
            gang = self._state.records.gang_about(key)
            return Listing(()) if gang is None else domains_of(self._state, gang)

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

        A group that runs below its minimum counts as one that has not started. Changes nothing.
        Each number is tried from 0 on with ``what_if``, all nodes added at once.
        The numbers are not bisected, because with more nodes another gang may start instead. If a
        quota keeps the group out, larger quotas are tried, too: see ``Insufficient.larger``.

        Runtime complexity: that of ``what_if`` for each number, except that ``why`` is answered
        once; for a group that lacks members, once for each number.

        Args:
            group: The group, or its key.
            shape: The node of which copies are added. Their names begin with its name.
            most: The largest number of nodes to try.
            now: The current instant; None for that of the last call.
            until: The instant by which the group has to start; until then running pods end as in
                ``what_if``. None for *now*, or for the end of its backoff if it is in backoff.
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
        now, _end = ahead.span(self._now, now, until)
        ahead.check_budget(budget)
        key = GroupKey(group if isinstance(group, str) else group.key)
        self._call.refuse_inside("smallest_change")
        return smallest_change.search(
            self, self._state, key, shape, most=most, now=now, until=until, budget=budget
        )

    # What is remembered ------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return what a listing of the cluster does not show: ``gangsched.snapshot/4``.

        It is plain data for JSON. Of plugins it has what ``StateExtensions`` gives.
        Restore it into a scheduler that was created with the same arguments. The state is not
        changed. Call it between two calls, never during one.

        Runtime complexity: O(pods + groups).

        Raises:
            InvalidValueError: The state of a plugin is not plain data; see
                ``gangsched.protocols.StateExtensions``.
            PluginError: A plugin raised.
        """
        with self._call("snapshot"):
            return snapshot.to_data(self._state, listed=self._listed)

    def restore(self, data: object, *, retry_refused: bool = False) -> None:
        """Replace the state of the scheduler by the cluster state and a snapshot.

        The scheduler then decides as the one that the snapshot was taken from, at instants of the
        same clock. The next call returns each ``Bind`` and each ``Evict`` again that was under way,
        unless the cluster state shows that it was done. If the cluster has changed since then, or a
        quota has another limit, call ``rebuild`` next.

        Runtime complexity: O(nodes + pods log pods).

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
            fresh = _blank(self._state.settings)
            rows = snapshot.to_state(fresh, data)
            snapshot.restore_plugins(fresh.settings.profile, rows)
            self._state, self._listed = fresh, rows.listed
            self._is_restored, self._retries_refused = True, retry_refused

    def __getstate__(self) -> tuple[tuple[SchedulerSettings, bool], dict[str, Any]]:
        return (self._state.settings, self._host_decides), self.snapshot()

    def __setstate__(self, kept: tuple[tuple[SchedulerSettings, bool], dict[str, Any]]) -> None:
        (settings, self._host_decides), data = kept
        self._call = OneCall()
        self._state = _blank(settings)
        self.restore(data)

    def forget_answers(self) -> None:
        """Drop all that is remembered beside the records: the effects stay the same."""
        self._state.evaluator.forget()

    # Inside -------------------------------------------------------------------------------------

    def _check_instant(self, now: float) -> None:
        check_now(now)
        earlier = self._state.records.now
        if now < earlier:
            raise InvalidValueError("now", now, f"a number >= {earlier!r}, as in the last call")

    def _begin(self, now: float, *, passing: bool = False) -> None:
        self._check_instant(now)
        state = self._state
        state.records.now, state.call.asked, state.call.is_over = now, None, False
        state.records.quotas.tree.now = now
        if not self._listed:
            intake.listing(state)
            self._listed = True
        records, queue = state.records, state.queue
        if now >= records.waiting.earliest:
            _end_waits(state, passing=passing)
        if now >= records.registry.earliest:
            records.registry.expire(now=now)
        if now >= state.restarts.earliest:
            restarts.due(state)
        if now >= queue.earliest:
            for gang in queue.due(now):
                state.touch(gang)
        if self._is_restored:
            under_way.read_again(state)
            self._is_restored = False
        if self._retries_refused:
            pod_ends.accept_more(state)
            self._retries_refused = False
        if now >= state.retry_at:
            make_room.retry(state)
        if state.nominations.known or state.nominations.overdue:
            nominations.review(state, passing=passing)
        if state.reservation.current is not None:
            backfill.expire(state)

    def _take_in_all(self, events: tuple[Event, ...]) -> None:
        """Take in several events, whatever some of them raise.

        A group that runs as a whole, if only until the next event, is noted as such before that.
        """
        state, has_bound = self._state, False
        for event in events:
            if has_bound and not intake.only_adds(event):
                settle_all(state)
                has_bound = False
            has_bound |= intake.binds(event)
            state.events += 1
            try:
                intake.take_in(state, event)
            except GangschedError as error:
                state.call.errors.append(error)

    def _end(self) -> tuple[Effect, ...]:
        state, call = self._state, self._state.call
        settle_all(state)
        if state.reservation.current is not None and backfill.expire(state):
            settle_all(state)
        effects, call.out = tuple(call.out), []
        call.asked, call.is_over = None, True
        call.seen.clear()
        errors, call.errors = call.errors, []
        if errors:
            call.out = list(effects)  # the next call returns them
            raise errors[0]
        return effects

    def _check(self) -> None:
        state = self._state
        state.call._check()
        check_records(state.records)
        state.restarts._check()
        state.reservation.open._check()
        state.nominations.check(state.records.holds)
        check_queue(state.queue, state.records.gangs.values())


def _end_waits(state: State, *, passing: bool) -> None:
    """End the waits on permit that are due; one that began at this instant only if time passes."""
    now = state.records.now
    due = state.records.waiting.expire(now=now, begun_before=float("inf") if passing else now)
    expired: list[tuple[PodRecord, str]] = []
    for entry in due:
        record = state.records.pods[entry.uid]
        state.records.waiting.put(entry)
        reason = f"timed out after waiting {format_duration(now - entry.since)}s on permit"
        if record.info is not None:
            record.gang.held_at = state.events
        record.gang.is_whole = True  # pod by pod it did not get its nodes in time
        expired.append((record, reason))
    for verdict in lost_nodes.reject_some(state, expired, "timeout") if expired else ():
        gang = state.records.gang_of.get(verdict.group)
        # one that cannot fit is woken by nodes, not by time
        fails = gang and not gang.waiting and cannot_fit(state, gang, demand_of(state, gang))
        apply_verdict(state, verdict, backs_off=not fails)


def _blank(settings: SchedulerSettings) -> State:
    """Return the state of a scheduler that knows nothing yet."""
    state = State(settings)
    state.queue.preempts = MethodType(make_room.preempts, state)
    state.queue.is_within_bounds = MethodType(placing.is_within_bounds, state)
    return state
