"""Commit a placement: members take their nodes, plugins are asked; they go, wait or are refused.

Rules:
  R1  permit is granted to enough members for each quorum together, or to none;
  R2  a member that goes alone and is refused gives its node back; the rest go on without it;
  R3  members that wait go with those for which they waited.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import evolve

from gangsched.core.attempt.ends import Failure, Tried, ask_post_filter, fail
from gangsched.core.moves import attempt_steps, notices
from gangsched.core.moves.undo import Undo
from gangsched.core.placement.late import accepted
from gangsched.core.placement.task import Task
from gangsched.core.points import Waits
from gangsched.core.records.gang import Gang, PodRecord, by_group, by_seq
from gangsched.core.records.trial import Trial
from gangsched.core.state import State
from gangsched.cycle_state import CycleState
from gangsched.errors import GangschedError
from gangsched.events import Bind, GroupScheduled, Release
from gangsched.explain import Diagnosis
from gangsched.model import PodUID
from gangsched.outcomes import SKIP, EvictGroup, Unschedulable
from gangsched.primitives.counters import MemberState
from gangsched.primitives.registry import PodGroupInfo
from gangsched.profile.calls import name_of

__all__ = ["allow", "commit", "recheck"]

_UNSCHEDULED: Final = MemberState.UNSCHEDULED
_BINDING: Final = MemberState.BINDING
_Prepared: TypeAlias = tuple[list[Bind], dict[int, str]]
"""The binds of members that go, and why others of them are refused, by number."""


def commit(
    state: State,
    gang: Gang,
    task: Task,
    cycle_of: Callable[[PodRecord], CycleState],
    ready: Sequence[PodRecord],
    tried: Tried,
    undo: Undo,
) -> bool:
    """Assume what is placed, and ask Reserve, Permit, PreBind and Bind.

    Args:
        state: The state.
        gang: The gang.
        task: What is placed.
        cycle_of: Returns the cycle of a member.
        ready: The members that were tried, placed or not.
        tried: How they were tried.
        undo: Takes back what is assumed if a plugin raises.

    Returns:
        False if the gang was given up instead, for one of *ready* that is not placed.
    """
    members = [record for record, _slot in task.nodes]
    if tried is not Tried.ALONE and not gang.waiting:
        for info in gang.infos.values():
            if info.attempt_started_at is not None:
                info.attempt_started_at = state.records.now  # the time of the permit runs from here
    for record, slot in task.nodes:
        attempt_steps.assume(state, record, slot, cycle_of(record), is_taken=True)
        undo.members.append(record)
    # asked before any member is released, which would be evicted again
    if tried is Tried.ALONE and _gives_up(state, gang, ready, task.diagnosis, undo):
        return False
    asked = _Asked(state, tried)
    refusal = asked.ask(members)
    if refusal is not None:
        _refuse(state, gang, members, *refusal, tried)
    else:
        members = [record for record in members if record not in asked.refused]
        _let_go(state, gang, members, asked.waits, tried)
    for record, (reason, cycle) in asked.refused.items():
        if gang.backoff_until > state.records.now:
            notices.tell(state, record, reason)
        else:
            fail(state, gang, Failure(member=record, reason=reason, cycle=cycle), Tried.ALONE)
    return True


def _gives_up(
    state: State, gang: Gang, ready: Sequence[PodRecord], found: Diagnosis | None, undo: Undo
) -> bool:
    """Evict a gang if one of *ready* whose bind failed is not placed, and the others need it."""
    left = next((r for r in ready if r.state is _UNSCHEDULED and r.bind_failures), None)
    if left is None or found is None or not state.settings.can_evict:
        return False
    failure = Failure(member=left, reason=str(found), diagnosis=found)
    verdict = ask_post_filter(state, gang, failure)
    if not isinstance(verdict, EvictGroup):
        return False
    undo.take_back()
    fail(state, gang, evolve(failure, verdict=verdict), Tried.ALONE)
    return True


def _refuse(
    state: State,
    gang: Gang,
    members: Sequence[PodRecord],
    refused: PodRecord,
    reason: str,
    tried: Tried,
) -> None:
    """Give back what was assumed, because a plugin refused a member."""
    verdict: Any = None
    cycle = refused.cycle
    for record in reversed(members):
        if record.is_assumed:
            found = attempt_steps.give_back(state, record, _UNSCHEDULED, "refused")
            verdict = verdict or found
            record.reason = ""  # it had a node: it is told why its gang failed
    fail(state, gang, Failure(member=refused, reason=reason, cycle=cycle, verdict=verdict), tried)


class _Asked:
    """What Reserve and Permit say of the members that were assumed.

    Attributes:
        waits: The plugins that let members wait, by number.
        refused: The members that go alone and are refused, each with the reason and its cycle.
    """

    def __init__(self, state: State, tried: Tried) -> None:
        self._state = state
        self._alone = tried is Tried.ALONE
        self._reserved: set[PodRecord] = set()
        self.waits: dict[int, Waits] = {}
        self.refused: dict[PodRecord, tuple[str, CycleState]] = {}

    def ask(self, members: Sequence[PodRecord]) -> tuple[PodRecord, str] | None:
        """Ask about all; return a member that is refused, and why, if all are given back."""
        for some in by_group(members):
            refusal = self._reserve(some) or self._permit(some) or self._speak_for_all(some)
            if refusal is not None:
                return refusal
        if self.waits and len(by_group(members)) > 1:
            staying = next(record for record in members if record not in self.refused)
            return staying, "the groups of a bundle do not wait on permit"
        return None

    def _reserve(self, some: Sequence[PodRecord]) -> tuple[PodRecord, str] | None:
        """Ask Reserve about the members of a group: first what holds for all of them."""
        points, now = self._state.points, self._state.records.now
        wide, each = self._state.settings.profile.group_wide["reserve"]
        asked = points.each_concerned("reserve wide", wide, some[:1])
        of_group = len(asked)
        asked += points.each_concerned("reserve each", each, some)
        for number, (record, plugins) in enumerate(asked):
            if record in self.refused:
                continue
            has_notes = bool(self._reserved) and record not in self._reserved  # of its siblings
            denied = _refused_by_notes(self._state, record) if has_notes else None
            denied = denied or points.reserve(record, now, plugins)
            self._reserved.add(record)
            if denied is not None and (number < of_group or not self._goes_without(record, denied)):
                return record, denied.reason
        return None

    def _permit(self, some: Sequence[PodRecord]) -> tuple[PodRecord, str] | None:
        """Ask Permit about the members of a group: first what holds for all of them."""
        points, now = self._state.points, self._state.records.now
        left = [record for record in some if record not in self.refused]
        wide, each = self._state.settings.profile.group_wide["permit"]
        asked = [(left[0], wide)] if wide and left else []
        asked += [(record, each) for record in left if each]
        for record, plugins in asked:
            answer = points.permit(record, now, plugins)
            if isinstance(answer, Unschedulable):
                if plugins is wide or not self._goes_without(record, answer):
                    return record, answer.reason
                continue
            for waiting in (left if plugins is wide else [record]) if answer else ():
                own = (*self.waits.get(waiting.seq, ()), *answer)
                self.waits[waiting.seq] = tuple(sorted(own, key=self._rank))
        return None

    def _rank(self, wait: tuple[str, float]) -> int:
        """Return where a plugin stands in the profile."""
        return [name_of(plugin) for plugin in self._state.settings.profile.permit].index(wait[0])

    def _speak_for_all(self, some: Sequence[PodRecord]) -> tuple[PodRecord, str] | None:
        """Let another member speak for its group at Reserve if the first one was refused."""
        left = [record for record in some if record not in self.refused]
        if not left or left[0] is some[0]:
            return None
        wide = self._state.settings.profile.group_wide["reserve"][0]
        points, now = self._state.points, self._state.records.now
        for record, plugins in points.each_concerned("reserve wide", wide, left[:1]):
            denied = points.reserve(record, now, plugins)
            if denied is not None:
                return record, denied.reason
        return None

    def _goes_without(self, record: PodRecord, denied: Unschedulable) -> bool:
        """Let the others go on without a member that goes alone; return whether they may."""
        if not self._alone:
            return False
        assert record.cycle is not None
        self.waits.pop(record.seq, None)
        self.refused[record] = (denied.reason, record.cycle)
        attempt_steps.give_back(self._state, record, _UNSCHEDULED, "refused")
        return True


def _refused_by_notes(state: State, record: PodRecord) -> Unschedulable | None:
    """Return why a filter refuses a planned node after siblings were reserved; None if none does.

    Pod by pod, ``filter`` reads what ``reserve`` noted of the siblings before. Members of a gang
    are all planned first, so those plugins that have both methods are asked once more. One with
    ``add_pod`` was told of the planned siblings.
    """
    assert record.pod_class is not None
    assert record.cycle is not None
    own = [late for late in record.pod_class.late if late.filters and _notes(late.plugin)]
    if not own:
        return None
    with Trial(state.records) as trial:
        trial.lift([record])
        return accepted(own, record, record.cycle, state.views, record.slot)


def _notes(plugin: Any) -> bool:
    return callable(getattr(plugin, "reserve", None)) and not hasattr(plugin, "add_pod")


# Members go, or wait ----------------------------------------------------------------------------


def _let_go(
    state: State,
    gang: Gang,
    members: Sequence[PodRecord],
    waits: Mapping[int, Waits],
    tried: Tried,
) -> None:
    """Release members that no plugin lets wait, or let all wait if those are too few."""
    if not members:
        return
    going = [record for record in members if record.seq not in waits]
    kept = [record for record in members if record.seq in waits]
    if going and tried is not Tried.ALONE:
        before, staying = _waiting_siblings(state, gang, members)
        going, kept = [*before, *going], [*kept, *staying]
    prepared: _Prepared | str | None = None
    if going and (not kept or _is_quorum_without(state, going, kept)):
        prepared = _prepare(state, going, kept)
    if isinstance(prepared, tuple):
        _release(state, going, *prepared)
        _wait(state, [record for record in members if record.seq in waits], waits)
    elif waits or prepared is None:
        _wait(state, members, waits)
    else:
        _refuse(state, gang, members, members[-1], prepared, tried)


def _waiting_siblings(
    state: State, gang: Gang, members: Sequence[PodRecord]
) -> tuple[list[PodRecord], list[PodRecord]]:
    """Return which members that waited before may go with others by now, and which may not.

    What holds for the whole group was just asked.
    """
    before = sorted((r for r in gang.waiting.values() if r not in members), key=by_seq)
    _wide, each = state.settings.profile.group_wide["permit"]
    kept: list[PodRecord] = []
    for sibling in before if each else ():
        names = _pending(state, sibling)
        own = tuple(plugin for plugin in each if name_of(plugin) in names)
        answer = state.points.permit(sibling, state.records.now, own) if own else ()
        if isinstance(answer, Unschedulable):
            state.refused[sibling.uid] = answer.reason
        if answer:
            kept.append(sibling)
    return [sibling for sibling in before if sibling not in kept], kept


def _wait(state: State, members: Sequence[PodRecord], waits: Mapping[int, Waits]) -> None:
    """Let members wait on permit until the first of their deadlines, or the last of the others."""
    if not members:
        return
    now, info = state.records.now, members[0].info
    timeouts = [seconds for each in waits.values() for _name, seconds in each]
    timeout = min(timeouts, default=0.0)
    if not timeouts and info is not None:
        timeout = max(entry.deadline for entry in state.records.waiting.of(info.key)) - now
    for record in members:
        attempt_steps.wait(state, record, waits.get(record.seq, ()), timeout)


def _prepare(
    state: State, members: Sequence[PodRecord], kept: Sequence[PodRecord] = ()
) -> _Prepared | str:
    """Ask PreBind and Bind of members that may go together; nothing changes.

    Args:
        state: The state.
        members: The members.
        kept: Members of the same groups that hold nodes and keep waiting.

    Returns:
        The binds, and why members are refused; or why too few are left for a quorum.
    """
    refused: dict[int, str] = {}
    binds: list[Bind] = []
    asks = bool(state.settings.profile.pre_bind)
    for record in members:
        denied = state.points.pre_bind(record, state.records.now) if asks else None
        if denied is None:
            binds.append(state.points.bind(record, state.records.now))
        else:
            refused[record.seq] = denied.reason
    without = [*kept, *(record for record in members if record.seq in refused)]
    if without and not _is_quorum_without(state, members, without):
        return next(iter(refused.values()), "")
    return binds, refused


def _is_quorum_without(
    state: State, members: Sequence[PodRecord], without: Sequence[PodRecord]
) -> bool:
    """Return whether members may be released though others that hold nodes do not count."""
    for info in {r.info.key: r.info for r in members if r.info is not None}.values():
        needed = state.points.roles_needed(info)
        lost = [record for record in without if record.info is info]
        for role, more in needed.items():
            if more + (sum(r.role == role for r in lost) if role else len(lost)) > 0:
                return False
    left_out = {record.seq for record in without}
    return any(record.seq not in left_out for record in members)


def _release(
    state: State, members: Sequence[PodRecord], binds: list[Bind], refused: Mapping[int, str]
) -> None:
    """Release members to be bound. O(members)."""
    gang = members[0].gang
    bind_of = {bind.uid: bind for bind in binds}
    for some in by_group(members):
        gone = [record for record in some if record.seq not in refused]
        _release_group(state, some[0].info, gone, bind_of)
    left = [record for record in members if record.seq in refused]
    for record in left:
        attempt_steps.give_back(state, record, _UNSCHEDULED, "refused")
    if gang.backoff_until <= state.records.now:  # otherwise the bind of a member has failed since
        gang.note_failures(0, -math.inf, "")
    gang.refused, gang.giving_way = None, ""
    if not gang.waiting:
        gang.is_whole = False
        gang.end_attempt()
    for record in left[1:]:
        notices.tell(state, record, refused[record.seq])
    for record in left[:1]:
        failure = Failure(member=record, reason=refused[record.seq], verdict=SKIP)
        fail(state, gang, failure, Tried.ALONE)


def _release_group(
    state: State,
    info: PodGroupInfo | None,
    gone: Sequence[PodRecord],
    bind_of: Mapping[PodUID, Bind],
) -> None:
    """Let members of one group go, and end its attempt, also if all of them were refused."""
    waiting = state.records.waiting
    for record in gone:
        if waiting.earliest < math.inf:
            waiting.remove(record.uid)
        state.records.move(record, _BINDING, record.slot)
        state.pods_changed = True
    if info is not None and info.attempt_started_at is not None:
        _succeed(state, info)
    if info is not None and gone:
        state.out.append(Release(info.key, tuple([record.uid for record in gone])))
    state.out += [bind_of[record.uid] for record in gone]


def _succeed(state: State, info: PodGroupInfo) -> None:
    """End an attempt whose members are released, and post ``GroupScheduled``. O(1)."""
    info.was_scheduled = info.is_binding = True
    info.started_by = info.attempts
    if info.members.collected and info.stands(done=False).is_met:
        info.members.forget_collected()  # they belong to what ran before, not to this start
    info.last_failure_at = info.attempt_started_at = None
    since = state.records.now if info.complete_at is None else info.complete_at
    state.out.append(
        GroupScheduled(info.key, info.attempts, info.scheduled, state.records.now - since)
    )


# Waiting members are asked about again ----------------------------------------------------------


def recheck(state: State, gang: Gang) -> None:
    """Ask the pending permit plugins of waiting members again, and release those that may go.

    A plugin that answers for the whole group is asked about one member.
    """
    members = sorted(gang.waiting.values(), key=by_seq)
    again = _AskedAgain(state)
    prepared: _Prepared | str | None = None
    try:
        for some in by_group(members):
            again.ask(some)
        ready = [r for r in members if not again.left.get(r.seq) and r.seq not in again.refused]
        kept = [r for r in members if r not in ready]
        if not again.is_blocked and ready and (not kept or _is_quorum_without(state, ready, kept)):
            prepared = _prepare(state, ready, kept)
    except GangschedError as error:
        state.points.deferred.append(error)
        return
    for record in members:
        if record.seq in again.refused:
            state.refused[record.uid] = again.refused[record.seq]
    if isinstance(prepared, tuple):
        _release(state, ready, *prepared)
        return
    quorum = state.settings.profile.quorum
    more = [] if quorum is None else [name_of(quorum)]
    for record in members:
        left = again.left.get(record.seq, _pending(state, record))
        _note_pending(state, record, [*left, *more])


class _AskedAgain:
    """What pending permit plugins say now of members that wait.

    Attributes:
        left: The plugins that are pending still, by the number of a member.
        refused: Why members are refused, by number.
        is_blocked: Whether a plugin that answers for a whole group lets it wait, or refuses it.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._profile = state.settings.profile
        self.left: dict[int, list[str]] = {}
        self.refused: dict[int, str] = {}
        self.is_blocked = False

    def ask(self, members: Sequence[PodRecord]) -> None:
        """Ask about the waiting members of one group."""
        state, profile, first = self._state, self._profile, members[0]
        wide, each = profile.group_wide["permit"]
        pending = {name for record in members for name in _pending(state, record)}
        asked = tuple(p for p in wide if p is profile.quorum or name_of(p) in pending)
        answer = state.points.permit(first, state.records.now, asked)
        if isinstance(answer, Unschedulable):
            self.refused[first.seq] = answer.reason
            self.is_blocked = True
            return
        self.is_blocked |= bool(answer)
        done = {name_of(plugin) for plugin in wide} - {name for name, _timeout in answer}
        for record in members:
            names = [name for name in _pending(state, record) if name not in done]
            own = tuple(p for p in each if name_of(p) in names)
            self.left[record.seq] = self._ask_own(record, names, own) if own else names

    def _ask_own(self, record: PodRecord, names: list[str], own: Iterable[Any]) -> list[str]:
        """Return which plugins are pending of a member after its own were asked."""
        found = self._state.points.permit(record, self._state.records.now, tuple(own))
        if isinstance(found, Unschedulable):
            self.refused[record.seq] = found.reason
            return names
        waits = {name for name, _timeout in found}
        mine = {name_of(plugin) for plugin in own}
        return [name for name in names if name in waits or name not in mine]


def allow(state: State, record: PodRecord, plugin: str) -> None:
    """Note that a permit plugin allows a waiting pod."""
    _note_pending(state, record, [name for name in _pending(state, record) if name != plugin])


def _pending(state: State, record: PodRecord) -> tuple[str, ...]:
    entry = state.records.waiting.get(record.uid)
    return () if entry is None else entry.pending_plugins


def _note_pending(state: State, record: PodRecord, names: Sequence[str]) -> None:
    entry = state.records.waiting.get(record.uid)
    if entry is not None:
        pending = tuple([name for name in entry.pending_plugins if name in names])
        if pending != entry.pending_plugins:
            state.records.waiting.replace(evolve(entry, pending_plugins=pending))
