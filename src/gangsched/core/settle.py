"""Where a gang belongs after something has changed: one table, asked once for each noted gang.

The first row that holds:

- it has no members: forgotten;
- PreEnqueue refuses a group of it, or it is being restarted: ``NOT_ADMITTED``, and rejected first
  if members wait;
- its waiting members are outside of their domain: rejected, then as below;
- its waiting members may go: released, then as below;
- no member is pending: ``NOWHERE``;
- a quota is exceeded: ``NOT_ADMITTED``;
- it awaits the end of victims: ``NOMINATED``;
- its backoff is not over: ``BACKOFF``;
- a gang with its demand is known to fail, and its pods were told why they wait: ``PARKED``;
- otherwise: ``ACTIVE``.

A fact never asks a policy; a settlement never reads an event.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final

from gangsched._core._counters import MemberState
from gangsched._core._registry import PodGroupInfo
from gangsched.core import accounts, attempt, notices, pod_ends, restarts
from gangsched.core.demand import Demand, Minimum
from gangsched.core.gang_tree import HOST, SubGroup
from gangsched.core.placement.task import HOLDING, holding_by_leaf
from gangsched.core.pod_class import PodClass
from gangsched.core.preemption import nominations
from gangsched.core.preemption.reach import reach_of
from gangsched.core.records import Gang, PodRecord, QueuePlace
from gangsched.core.state import State
from gangsched.events import GroupRemoved, PodRejected
from gangsched.model import GroupKey
from gangsched.options.scheduling_unit import SchedulingUnit
from gangsched.outcomes import RejectGroup, Unschedulable

__all__ = [
    "demand_of",
    "lacking",
    "lacks_reason",
    "reject_one",
    "settle",
    "settle_all",
    "split",
    "unit_is_whole",
]

_MANY: Final = 10_000
"""Rounds of one call: more than any sequence of settlements and wake-ups that ends needs."""


def settle_all(state: State) -> None:
    """Settle each noted gang, then wake what nodes may help, until nothing is noted."""
    for _round in range(_MANY):
        nominations.review(state)
        if state.records.ended:
            pod_ends.tell(state)
        if state.refused:
            _reject_refused(state)
        if not state.touched:
            accounts.ask_waiting(state)
            if state.records.used:
                used, state.records.used = state.records.used, {}
                state.queue.used(used)
        if state.touched:
            touched, state.touched = state.touched, {}
            for gang in touched.values():
                settle(state, gang)
        elif state.table.gains or state.pods_changed:
            gains, state.table.gains = state.table.gains, {}
            changed, state.pods_changed = state.pods_changed, False
            if gains:
                state.gained_at = state.records.step
                state.reserving.note_gains(gains)
            state.reserving.withhold(state.records)
            guard = state.records.guard
            if changed and guard is not None and guard.has_refused:
                state.queue.wake_all()
            had_terms, state.had_terms = state.had_terms, state.records.counts.has_terms
            terms_changed = changed and (had_terms or state.had_terms)
            state.queue.wake(gains, pods_changed=changed, terms_changed=terms_changed)
        else:
            break
    for key in state.removed:
        restarts.forget(state, key)
        if key not in state.records.registry:
            state.records.quotas.release(key)
            state.out.append(GroupRemoved(key))
    state.removed.clear()


def settle(state: State, gang: Gang) -> None:
    """Put a gang where it belongs; see the table of the module."""
    queue, now = state.queue, state.now
    if state.records.gangs.get(gang.key) is not gang:
        return
    gang.count_untried()
    attempt.note_progress(state, gang)
    restarts.judge(state, gang)
    accounts.charge(state, gang)
    if not gang.members:
        _forget(state, gang)
        return
    before = gang.denial if gang.place is QueuePlace.NOT_ADMITTED else ""
    if not gang.pending and not gang.waiting:
        gang.denial = ""
        queue.put(gang, QueuePlace.NOWHERE)
        return
    denied = _denied(state, gang)
    if denied is not None:
        info, refusal = denied
        nominations.refused(state, gang, refusal.reason)
        if gang.waiting:
            attempt.reject(state, gang, refusal.reason)
            return  # it was noted again
        told = "" if info is None else restarts.denial(state, info)
        _not_admit(state, gang, info, refusal.reason, told, before=before)
        return
    gang.denial = ""
    if gang.waiting:
        strayed = _strayed(state, gang)
        if strayed:
            attempt.reject(state, gang, strayed)
            return
        if gang is not state.asked:
            attempt.recheck(state, gang)
    exceeded = accounts.denial(state, gang)
    if not gang.pending:
        queue.put(gang, QueuePlace.NOWHERE)
    elif exceeded is not None:
        info, reason = exceeded
        nominations.refused(state, gang, reason)
        told = f"pod group {info.key} waits for its quota"
        _not_admit(state, gang, info, reason, told, before=before)
    elif awaited := nominations.awaits(state, gang):
        queue.put(gang, QueuePlace.NOMINATED)
        gang.denial = awaited
    elif now < gang.backoff_until:
        queue.put(gang, QueuePlace.BACKOFF, gang.demand)
    else:
        demand = demand_of(state, gang)
        waits = demand.blocked_at and not lacks_reason(gang)
        place = QueuePlace.PARKED if waits else QueuePlace.ACTIVE
        queue.put(gang, place, demand)
        if place is QueuePlace.PARKED:
            state.reserving.note_parked(gang)


def lacks_reason(gang: Gang) -> bool:
    """Return whether pods have to be told why they wait, since they were not tried yet.

    If the gang is known to fail, it is activated for that alone. O(pending members).
    """
    if gang.began:
        return False
    return not gang.reason or not all(record.reason for record in gang.pending.values())


def _forget(state: State, gang: Gang) -> None:
    """Forget a gang without members; a group may be remembered for its grace period."""
    state.queue.put(gang, QueuePlace.NOWHERE)
    del state.records.gangs[gang.key]
    for key in gang.infos:
        if state.records.gang_of.get(key) is gang:
            del state.records.gang_of[key]


def _denied(state: State, gang: Gang) -> tuple[PodGroupInfo | None, Unschedulable] | None:
    """Return the group that is not admitted to the queue, and why; None if the gang is."""
    # any member speaks for its group, so none has to be looked for where there is only one
    one = next(reversed((gang.waiting or gang.pending).values()))
    if not gang.infos:
        refusal = state.points.pre_enqueue(one.pod, None, state.now)
        return None if refusal is None else (None, refusal)
    by_group: dict[GroupKey, PodRecord] = dict.fromkeys(gang.infos, one)
    if len(by_group) > 1:
        by_group = {}  # the first member of each is asked about
        for record in (*gang.pending.values(), *gang.waiting.values()):
            if record.info is not None:
                known = by_group.get(record.info.key)
                if known is None or record.seq < known.seq:
                    by_group[record.info.key] = record
    denied: tuple[PodGroupInfo | None, Unschedulable] | None = None
    for key, record in by_group.items():
        info = gang.infos[key]
        refusal = state.points.pre_enqueue(record.pod, info, state.now)
        held = restarts.denial(state, info)
        if refusal is None and held:
            refusal = Unschedulable(held, resolvable=False)
        if refusal is None:
            continue
        denied = info, refusal
        if not (len(gang.infos) > 1 and _rests(state, info)):
            return denied
    if gang.waiting or split(state, gang) != ([], []):
        return None
    return denied or _bundle_problem(state, gang)


def _rests(state: State, info: PodGroupInfo) -> bool:
    """Return whether a group has started, and has too few pending members for another quorum."""
    needed = state.points.roles_needed(info).get("", 0)
    return info.was_scheduled and needed > info.unscheduled + info.waiting


def _bundle_problem(state: State, gang: Gang) -> tuple[PodGroupInfo | None, Unschedulable] | None:
    """Return why the groups of a bundle cannot start together yet; None if they can."""
    if not gang.key.startswith("bundle:"):
        return None
    info = next(iter(gang.infos.values()))
    if gang.tree is None:
        return info, Unschedulable(_disagreement(state, gang), resolvable=False)
    for tree in gang.tree.children:
        other = gang.infos.get(GroupKey(tree.key))
        if other is None or not (other.was_scheduled or other.is_complete):
            why = f"pod group {tree.key} of its bundle is incomplete"
            return info, Unschedulable(why, resolvable=False)
    return None


def _disagreement(state: State, gang: Gang) -> str:
    names = sorted({n for i in gang.infos.values() if i.spec for n in (i.key, *i.spec.bundle)})
    for name in names:
        spec = state.records.registry.spec(name)
        if spec is None:
            return f"pod group {name} of its bundle does not exist yet"
        if sorted({name, *spec.bundle}) != names:
            return f"pod group {name} of its bundle names other groups"
    return "the minimum of a group of its bundle is unknown"


def _not_admit(
    state: State, gang: Gang, info: PodGroupInfo | None, reason: str, told: str, *, before: str
) -> None:
    """Keep a gang out of the queue until an event about it; post why, unless it was *before*."""
    state.queue.put(gang, QueuePlace.NOT_ADMITTED)
    if gang.waiting:
        gang.denial = reason  # its attempt goes on
        return
    for each in gang.infos.values():
        each.attempt_started_at = None
    gang.began = 0
    gang.denial, gang.reason = reason, ""
    notices.not_admitted(state, gang, info, reason, told, is_known=reason == before)


def _strayed(state: State, gang: Gang) -> str:
    """Return why waiting members cannot start where they wait: outside of one domain; or ``""``."""
    for tree in gang.tree.constrained() if gang.tree is not None else ():
        assert tree.within is not None
        if not tree.within.required or tree.within.level == HOST or gang.is_started:
            continue
        level = tree.within.level
        keys = {leaf.key for leaf in tree.leaves}
        held, bound = set[Any](), set[Any]()
        for record in gang.members.values():
            if record.leaf in keys and record.slot >= 0:
                path = state.table.domains.of(record.slot, (level,))
                if record.state is MemberState.WAITING:
                    held.add(path)
                elif record.state is MemberState.ASSIGNED and path is not None:
                    bound.add(path)
        if not (held <= bound if bound else len(held) <= 1 and None not in held):
            return f"belongs within one {level} now"
    return ""


def _reject_refused(state: State) -> None:
    """Take waiting pods off their nodes that a permit plugin refused when it was asked again."""
    refused, state.refused = state.refused, {}
    verdicts: dict[str, Any] = {}
    for uid, reason in refused.items():
        record = state.records.pods.get(uid)
        if record is None or record.state is not MemberState.WAITING:
            continue
        reject_one(state, record, reason, "refused", verdicts)
    for verdict in verdicts.values():
        attempt.apply_verdict(state, verdict)


def reject_one(
    state: State, record: Any, reason: str, cause: str, verdicts: dict[str, Any]
) -> None:
    """Take a waiting pod off its node; note what becomes of its group."""
    node, info, gang = record.node, record.info, record.gang
    verdict: Any = attempt.give_back(state, record, MemberState.UNSCHEDULED, cause)
    record.reason = reason
    state.out.append(PodRejected(record.uid, node, reason))
    if verdict is None and info is not None:
        needed = state.points.members_needed(info)
        if needed is not None and needed > 0:
            verdict = RejectGroup(info.key, reason)
    if verdict is not None:
        verdicts.setdefault(verdict.group, verdict)
    else:
        attempt.fail(state, gang, reason, backs_off=True)
    state.touch(gang)


# Demands ----------------------------------------------------------------------------------------


def demand_of(state: State, gang: Gang) -> Demand:
    """Return what a gang asks for; equal for gangs that fail alike. O(pending members)."""
    tree = gang.tree or SubGroup(gang.key)
    constrained = next(tree.constrained(), None) is not None
    alone, together = split(state, gang)
    reach = reach_of(state, gang)
    # a nominated gang sees other nodes than the others do, and so does one that a reservation's
    # plan keeps off some
    sees_others = state.nominations.get(gang) is not None or state.reserving.concerns(gang)
    is_own = constrained or sees_others
    if not together:
        key, minima = _later(gang, alone, is_own=is_own)
        return state.queue.demand(key, lambda: (minima,), reach)
    counts: dict[str, dict[PodClass, int]] = {}
    for record in together:
        assert record.pod_class is not None
        mine = counts.setdefault(record.leaf, {})
        mine[record.pod_class] = mine.get(record.pod_class, 0) + 1
    needed = lacking(state, gang)
    if len(counts) == 1 and not tree.children:
        ((leaf, mine),) = counts.items()
        if len(mine) == 1:  # like members: how many there are beyond the minimum says nothing
            counts = {leaf: dict.fromkeys(mine, needed.get(leaf, 0))}
    numbers = tuple(
        [
            tuple(sorted((c.number, n) for c, n in counts.get(leaf.key, {}).items()))
            for leaf in tree.leaves
        ]
    )
    # where members run that are bound to a domain is the gang's own
    is_pinned = constrained and any(r.state in HOLDING for r in gang.members.values())
    own = gang.seq if is_pinned or sees_others else 0
    key = (tree.shape, numbers, tuple(needed.values()), _requests(state, gang), own)

    def gang_minima() -> tuple[Minimum, ...]:
        return tuple(_minima(tree, counts, needed))

    if not alone:
        return state.queue.demand(key, lambda: (gang_minima(),), reach)
    later_key, later = _later(gang, alone, is_own=is_own)
    return state.queue.demand((key, later_key), lambda: (gang_minima(), later), reach)


def split(state: State, gang: Gang) -> tuple[list[PodRecord], list[PodRecord]]:
    """Return the pending members that may start by themselves, and those that may together.

    A member goes alone once its group lacks no member. Of a bundle, some groups may have started
    and others not; those are left out while they cannot start together.
    """
    alone_groups = {
        key
        for key, info in gang.infos.items()
        if max(state.points.roles_needed(info).values(), default=0) <= 0
    }
    pending = gang.in_order()
    if len(alone_groups) == len(gang.infos):
        return pending, []
    if len(gang.infos) > 1:
        resting = {key for key, info in gang.infos.items() if _rests(state, info)}
        pending = [r for r in pending if r.info is None or r.info.key not in resting]
    if _bundle_problem(state, gang) is not None:
        return [r for r in pending if r.info is None or r.info.key in alone_groups], []
    if not alone_groups:
        return [], pending
    alone = [r for r in pending if r.info is None or r.info.key in alone_groups]
    return alone, [r for r in pending if r.info is not None and r.info.key not in alone_groups]


def _later(
    gang: Gang, records: Iterable[PodRecord], *, is_own: bool
) -> tuple[Hashable, tuple[Minimum, ...]]:
    """Return what members that go alone ask for: any one of them is placed by itself."""
    classes: dict[PodClass, int] = {}
    for record in records:
        assert record.pod_class is not None
        classes[record.pod_class] = 1
    names = tuple(sorted(pod_class.number for pod_class in classes))
    minimum = Minimum(tuple(classes.items()), 1)
    return ("later", names, gang.seq if is_own else 0), (minimum,)


def lacking(state: State, gang: Gang) -> dict[str, int]:
    """Return how many more members each sub group needs for its minimum, by its key. O(tree).

    The gang policy decides which members count. So a sub group that stands for a group or a role is
    asked of it; any other is counted from the members that hold nodes.
    """
    found: dict[str, int] = {}
    tree = gang.tree
    if tree is None or not gang.infos:
        return {"": 1} if not gang.infos else {}
    holding: dict[str, int] | None = None
    for each in tree.sub_groups():
        info = gang.infos.get(GroupKey(each.key))
        if info is not None:
            rests = len(gang.infos) > 1 and _rests(state, info)
            needed: Mapping[str, int] = {}
            if not rests:
                needed = state.points.roles_needed(info)
            found[each.key] = max(needed.get("", 0), 0)
            for leaf in each.children:
                found[leaf.key] = max(needed.get(leaf.role or "-", 0), 0)
        elif each.key not in found:
            holding = holding_by_leaf(gang) if holding is None else holding
            held = sum(holding.get(leaf.key, 0) for leaf in each.leaves)
            found[each.key] = max(each.least - held, 0)
    return found


def _requests(state: State, gang: Gang) -> Any:
    found = [state.points.group_requests(info) for info in gang.infos.values()]
    return tuple([each for each in found if each])


def _minima(
    tree: SubGroup, counts: dict[str, dict[PodClass, int]], needed: dict[str, int]
) -> Iterable[Minimum]:
    """Yield minima that hold whatever children are chosen."""
    parts: dict[PodClass, int] = {}
    for leaf in tree.leaves:
        for pod_class, number in counts.get(leaf.key, {}).items():
            parts[pod_class] = parts.get(pod_class, 0) + number
    number = needed.get(tree.key, 0)
    if number > 0 and parts:
        within = tree.within
        level = within.level if within is not None and within.required else None
        yield Minimum(tuple(parts.items()), number, level)
    if not tree.is_optional:
        for child in tree.children:
            yield from _minima(child, counts, needed)


def unit_is_whole(state: State, gang: Gang) -> bool:
    """Return whether the members of a gang are placed in one cycle."""
    if (
        state.settings.unit is SchedulingUnit.GROUP
        or gang.is_whole
        or gang.held_at == state.events
        or gang.key.startswith("bundle:")
    ):
        return True
    return gang.tree is not None and next(gang.tree.constrained(), None) is not None
