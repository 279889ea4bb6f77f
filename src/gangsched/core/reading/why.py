"""The answer of ``Scheduler.why``: where a pod or a group is, and the reason.

Rules:
  R1  a question changes nothing, and calls no plugin method that may change anything;
  R2  the reason for a failed attempt is the one that was found in that attempt. The nodes are not
      evaluated again. If time has passed since, the answer says as of when it is; see ``anew``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final, TypeVar, assert_never

from attrs import evolve

from gangsched.core.admission import restarts
from gangsched.core.admission.reclaim import owners_of
from gangsched.core.moves import notices
from gangsched.core.placement.pinned import holding_by_leaf
from gangsched.core.preemption import nominations
from gangsched.core.reading.order import Order
from gangsched.core.records.gang import GangRecord, PodRecord, QueuePlace, by_seq
from gangsched.core.state import State
from gangsched.errors import UnknownPodError
from gangsched.explain import (
    BackingOff,
    Binding,
    Finished,
    NoNodeFits,
    NotAdmitted,
    NotEnoughMembers,
    OnPermit,
    PartlyRunning,
    Queued,
    Refused,
    Running,
    Terminating,
    UnschedulableMember,
    Why,
)
from gangsched.model import GroupKey, Pod, PodGroup, PodPhase, PodUID
from gangsched.primitives import quorum
from gangsched.primitives.counters import MemberState
from gangsched.primitives.families import waits_for
from gangsched.primitives.group_info import HOLDING, PodGroupInfo
from gangsched.primitives.standing import Standing, least_needed, of_leaves, standing
from gangsched.primitives.waiting import WaitingPod
from gangsched.profile.calls import name_of

__all__ = ["asked", "why_of", "why_group", "why_pod"]

_Answer = TypeVar("_Answer")

_APART: Final = (
    MemberState.GATED,
    MemberState.TERMINATING,
    MemberState.SUCCEEDED,
    MemberState.FAILED,
    MemberState.ENDED,
)
_BARRED: Final = "; it has lost what it took, and evicts nothing until something else changes"
_SUCCEEDED: Final = (MemberState.SUCCEEDED, MemberState.ENDED)


def why_of(state: State, subject: str | Pod | PodGroup) -> Why:
    """Return why a pod or a group is not running. O(gangs that wait + members of the group).

    Raises:
        UnknownPodError: *subject* is not known.
        PluginError: A plugin raised.
    """
    return asked(state, lambda: _answer(state, subject))


def asked(state: State, question: Callable[[], _Answer]) -> _Answer:
    """Return the answer to a question.

    Raises:
        PluginError: A plugin raised.
    """
    # errors of plugins are deferred to the end of a call, and a question is none: so those that it
    # caused are taken out again, and the first one is raised here
    deferred = len(state.call.errors)
    answer = question()
    if len(state.call.errors) > deferred:
        error = state.call.errors[deferred]
        del state.call.errors[deferred:]
        raise error
    return answer


def _answer(state: State, subject: str | Pod | PodGroup) -> Why:
    key = subject.uid if isinstance(subject, Pod) else subject
    if isinstance(key, str):
        record = state.records.pods.get(PodUID(key))
        if record is not None:
            return why_pod(state, record)
    elif not isinstance(key, PodGroup):
        raise UnknownPodError(str(key))
    group = key.key if isinstance(key, PodGroup) else GroupKey(key)
    info = state.records.registry.get(group)
    if info is None or isinstance(subject, Pod):
        raise UnknownPodError(str(group))
    return why_group(state, info)


def why_pod(state: State, record: PodRecord, order: Order | None = None) -> Why:
    """Return why a pod is not running; *order* saves reading the queue."""
    info = record.info
    match record.state:
        case MemberState.REFUSED:
            return Refused(record.uid, record.reason)
        case MemberState.GATED:
            return NotAdmitted(record.reason)
        case MemberState.WAITING if info is None:
            waiting = state.records.waiting.get(record.uid)
            assert waiting is not None
            pending = _pending_plugins(state, [waiting])
            return OnPermit((record.uid,), waiting.since, 0, waiting.deadline, plugins=pending)
        case MemberState.UNSCHEDULED if info is None:
            return _why_gang(state, record.gang, order)
        case MemberState.UNSCHEDULED | MemberState.WAITING:
            assert info is not None
            return why_group(state, info, order)
        case MemberState.BINDING:
            assert record.node is not None
            return Binding(record.node, record.attempt)
        case MemberState.ASSIGNED:
            return Running(record.pod.node_name)
        case MemberState.TERMINATING:
            return Terminating(record.reason)
        case MemberState.SUCCEEDED | MemberState.FAILED | MemberState.ENDED:
            return Finished(record.pod.phase)
        case _:
            assert_never(record.state)


def why_group(state: State, info: PodGroupInfo, order: Order | None = None) -> Why:
    """Return why a group is not running; *order* saves reading the queue."""
    if info.spec is not None and info.spec.min_groups is not None:
        return _why_parent(state, info, order)
    if info.waiting:
        return _on_permit(state, info)
    lacking = _not_enough_members(state, info)
    if lacking is not None:
        return lacking
    gang: GangRecord | None = None  # one that runs is not read
    if info.scheduled < len(info.members):
        gang = state.records.gang_of.get(info.key)
    rest: Why | None = None
    if gang is not None and info.unscheduled:
        rest = _why_gang(state, gang, order, info.key)
    if info.scheduled:
        answer = _partly_running(gang, info, rest) or rest
    else:  # it is finished only if no member is pending
        answer = rest or _finished(info)
    binding = info.members.count(MemberState.BINDING)
    return answer or Running(None, info.scheduled, binding, _short_leaves(info, HOLDING))


def _why_parent(state: State, info: PodGroupInfo, order: Order | None) -> Why:
    """Return why a group of groups is not running. O(members of the family)."""
    gang = state.records.gangs.get(f"tree:{state.records.registry.root(info.key)}")
    part = None if gang is None else gang.tree.find(info.key)
    if gang is None or part is None:
        return NotAdmitted(f"no pod group whose parent is {info.key} has pods")
    keys = {leaf.key for leaf in part.leaves}
    members = [record for record in gang.members.values() if record.leaf in keys]
    held = sum(record.state in HOLDING for record in members)
    pending = sum(record.state is MemberState.UNSCHEDULED for record in members)
    rest = _why_gang(state, gang, order) if pending else None
    if not held:
        return rest or NotAdmitted(f"no pod group whose parent is {info.key} has pending pods")
    stands = standing(part, of_leaves(holding_by_leaf(gang)))
    if rest is None and stands.is_met:
        return Running(None, held, sum(r.state is MemberState.BINDING for r in members))
    least = least_needed(part, lambda sub: sub.least)
    return PartlyRunning(
        info.key, held, least, rest, _unmet_parents(stands), pending, not stands.is_met
    )


def _unmet_parents(stands: Standing) -> tuple[tuple[str, int, int], ...]:
    """Return the groups of groups with too few children: how many they want, and have."""
    rows = stands.rows.items()
    return tuple(
        [(k, row.least, row.held) for k, row in rows if row.is_of_children and row.is_unmet]
    )


def _on_permit(state: State, info: PodGroupInfo) -> OnPermit:
    """Return the answer about a group of which members wait for permit."""
    gang = state.records.gang_of.get(info.key)
    waiting = state.records.waiting.of(info.key)
    return OnPermit(
        tuple(pod.uid for pod in waiting),
        waiting[0].since,
        max(state.points.members_needed(info) or 0, 0),
        min(pod.deadline for pod in waiting),
        None if gang is None else _refused(gang, info.key),
        _pending_plugins(state, waiting),
    )


def _not_enough_members(state: State, info: PodGroupInfo) -> NotEnoughMembers | None:
    """Return the answer about a group that is not tried before more pods come; None for others."""
    needed = state.points.members_needed(info)
    present, absent = notices.presence(state, info)
    # a group of unknown minimum is not tried, even if some of its pods were found on nodes
    unknown = info.min_available is None and not info.was_scheduled
    lacks = absent or (needed is not None and needed > info.unscheduled)
    if not unknown and (info.scheduled or not lacks):
        return None
    members = _members(state.records.gang_of.get(info.key), info)
    return NotEnoughMembers(
        info.key,
        present,
        info.min_available,
        _apart(info, members),
        absent,
        tuple(Refused(r.uid, r.reason) for r in members if r.state is MemberState.REFUSED),
        _held(state, info, members),
        _without_role(members) if absent else 0,
        state.records.registry.forgotten_at(info.key),
        () if unknown else _gates(state, info, members),
        _short_leaves(info, (*HOLDING, MemberState.UNSCHEDULED)),
    )


def _short_leaves(
    info: PodGroupInfo, states: Collection[MemberState]
) -> tuple[tuple[str, int, int], ...]:
    """Return the roles with too few members of copies that have some. O(sub groups).

    Args:
        info: The group.
        states: The states in which members count; those that have succeeded do, too.
    """
    found: dict[str, tuple[str, int, int]] = {}
    for copy in info.tree.copies() if info.spec is not None and info.spec.roles else ():
        leaves = [(leaf.role, leaf.least) for leaf in copy.certain() if leaf.role is not None]
        counts = {role: info.members.in_states(states, role) for role, _least in leaves}
        if any(counts.values()):
            for role, least in leaves:
                some = counts[role] + info.members.done(role)
                if some < least:
                    found[role] = role, least, some
    return tuple(found.values())


def _finished(info: PodGroupInfo) -> Finished | None:
    """Return the answer about a group of which all pods that count have ended; None for others."""
    failed = info.members.count(MemberState.FAILED)
    succeeded = sum(info.members.count(each) for each in _SUCCEEDED)
    if failed or succeeded:
        return Finished(PodPhase.FAILED if failed else PodPhase.SUCCEEDED, failed + succeeded)
    return None


def _members(gang: GangRecord | None, info: PodGroupInfo) -> list[PodRecord]:
    """Return the members of a group in the order of arrival. O(members of the gang)."""
    found = () if gang is None else gang.members.values()
    return sorted((r for r in found if r.info and r.info.key == info.key), key=by_seq)


def _partly_running(
    gang: GangRecord | None, info: PodGroupInfo, rest: Why | None
) -> PartlyRunning | None:
    """Return the answer about a group that runs without all of its members; None if all run.

    It does not matter whether this scheduler released the group: after a restart it may find some
    members on nodes, and the others still have to be placed.

    Args:
        gang: Its gang, of which members are read only if some have scheduling gates.
        info: The group, of which some members hold nodes.
        rest: Why its unscheduled members do not run; None if there are none. Then members with
            scheduling gates may be pending.
    """
    if info.min_available is None:
        return None
    pending = info.unscheduled
    if rest is None and info.members.count(MemberState.GATED):
        gated = [r for r in _members(gang, info) if r.state is MemberState.GATED]
        rest, pending = NotAdmitted(gated[0].reason), len(gated)
    lacks = quorum.lacks_members(info)
    if not lacks and rest is None:
        return None
    rows = info.standing.rows.items() if lacks else ()
    roles = tuple((role, row.least, row.held) for role, row in rows if role and row.is_unmet)
    return PartlyRunning(
        info.key,
        info.scheduled,
        info.min_available,
        rest,
        roles,
        pending if rest is not None else 0,
        lacks,
        _short_leaves(info, HOLDING),
    )


def _pending_plugins(state: State, waiting: Iterable[WaitingPod]) -> tuple[str, ...]:
    """Return the plugins that have not allowed waiting pods yet, without the one for the quorum."""
    rule = state.settings.profile.quorum
    names = {name for entry in waiting for name in entry.pending_plugins}
    return tuple(sorted(names - ({name_of(rule)} if rule is not None else set())))


def _apart(info: PodGroupInfo, members: Iterable[PodRecord]) -> tuple[tuple[str, int], ...]:
    """Return how many members do not count, by state; those without a gate are held."""
    counts = {state.name.lower(): info.members.count(state) for state in _APART}
    if counts["gated"]:
        gated = [record.pod for record in members if record.state is MemberState.GATED]
        counts["held"] = sum(not pod.scheduling_gates for pod in gated)
        counts["gated"] -= counts["held"]
    return tuple((word, count) for word, count in counts.items() if count)


def _held(state: State, info: PodGroupInfo, members: Iterable[PodRecord]) -> tuple[str, ...]:
    """Return the constraints that are not modelled of a group or of its first such member."""
    of_group = () if info.spec is None else info.spec.unmodelled
    unclear = "" if info.spec is None else state.settings.levels.problem(info.spec)
    of_group = (*of_group, unclear) if unclear else of_group
    if of_group or not info.members.count(MemberState.GATED):
        return of_group
    held = (record.pod.unmodelled for record in members if record.state is MemberState.GATED)
    return next(filter(None, held), ())


def _gates(state: State, info: PodGroupInfo, members: list[PodRecord]) -> tuple[str, ...]:
    """Return the scheduling gates of members if they alone keep a group from being tried.

    They do not if members are held by something else, such as a constraint that is not modelled.
    """
    rows = notices.standing_of(state, info)
    gated = {
        role: info.members.in_states((MemberState.GATED,), role or None)
        for role, row in rows.items()
        if not row.is_of_children
    }
    if not gated[""] or any(rows[role].present + n < rows[role].least for role, n in gated.items()):
        return ()
    found = [record.pod for record in members if record.state is MemberState.GATED]
    if _held(state, info, members) or not all(pod.scheduling_gates for pod in found):
        return ()
    return tuple(dict.fromkeys(gate for pod in found for gate in pod.scheduling_gates))


def _without_role(members: Iterable[PodRecord]) -> int:
    return sum(r.role is None for r in members if r.state is not MemberState.REFUSED)


def _why_gang(
    state: State, gang: GangRecord, order: Order | None = None, group: str | None = None
) -> Why:
    """Return why the pending pods of a gang, or of a group of it, are not placed."""
    if gang.place is QueuePlace.NOT_ADMITTED:
        old = [restarts.awaited(state, gang, info) for info in gang.infos.values()]
        quotas = state.records.quotas
        over = next(filter(quotas.reason, owners_of(gang)), None)
        denial, turn = gang.denial, None
        if over is not None:
            denial, turn = (order or Order(state)).waits(gang, over)
        denial = denial.removeprefix(waits_for(group or "", ""))  # for the others it waits
        return NotAdmitted(denial + next(filter(None, old), "") + _barred(state, gang), turn)
    if gang.place is QueuePlace.NOMINATED:  # victims may have ended since it was settled
        return NotAdmitted(nominations.awaits(state, gang) or gang.denial)
    order = Order(state) if order is None else order
    reason, tried_at = _last_attempt(gang)
    is_old = tried_at is not None and tried_at < state.records.now
    failures, member = gang.failures, _refused(gang, group)
    if member is not None:
        member = evolve(member, reason=member.reason + _barred(state, gang))
    if gang.place is QueuePlace.BACKOFF:
        return BackingOff(gang.backoff_until, failures, reason, member, tried_at, is_old)
    if gang.place is QueuePlace.PARKED:
        leader: GangRecord | None = gang.demand.leader
        if gang.demand.blocked_at or leader is None:
            return NoNodeFits(failures, reason, member, tried_at, is_old)
        return Queued(order.ahead(gang), leader.name, member, order.turn(gang))
    return Queued(order.ahead(gang), None, member, order.turn(gang))


def _barred(state: State, gang: GangRecord) -> str:
    """Return that a gang evicts nothing for now, in addition to another reason; see ``Takers``."""
    return _BARRED if state.takers.is_barred(gang) else ""


def _refused(gang: GangRecord, group: str | None) -> UnschedulableMember | None:
    """Return the member that found no node; its group is named to those that ask about another."""
    member = gang.refused
    is_own = member is not None and member.group == group
    return evolve(member, group=None) if member is not None and is_own else member


def _last_attempt(gang: GangRecord) -> tuple[str, float | None]:
    """Return why the last attempt of a gang failed, ``""`` if none did, and when; None if unknown.

    The pods, and with them the gang, may be newer than the last attempt of their group.
    """
    infos = gang.infos.values()
    reason = gang.reason or next((info.failure for info in infos if info.failure), "")
    failed_at = [i.last_failure_at for i in infos if i.last_failure_at is not None]
    if failed_at:
        return reason, max(failed_at)
    # nothing else sets the time of a gang that has failed
    return reason, gang.queued_at if gang.failures else None
