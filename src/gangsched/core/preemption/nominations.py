"""Nominations: made by preemption, kept while victims terminate, used in the gang's cycle.

Theory of operation. Preemption plans a node for each pod that the preemptor needs, and evicts the
victims. They take time to terminate. Meanwhile the capacity must not go to other pods of the same
or a lower priority, so it is held. The gang waits outside the queue.

``review`` looks at every nomination in each call. If the awaited pods are gone, the gang is
activated at once. If the deadline has passed, or the nomination does not fit its pods any more, it
lapses: the capacity is free for all, and the gang is settled again. Only ``advance`` ends a
nomination at the very instant of its deadline: with a grace of 0 the events of that instant report
that the victims are gone. A victim whose bind is under way is evicted when the bind has ended. The
deadline waits for that, and then leaves it the whole grace. An awaited pod whose ``deleted_at`` is
still to come, as the ``deletionTimestamp`` of Kubernetes is while the containers stop, is not
overdue. If none is, the nomination gets another deadline, and the gang is tried, as other nodes may
have become free.

In its own cycle the gang sees its capacity as free (``lend``), and its pods go to the nominated
nodes first (``place``). A nominated node is checked in two states: now, without what is held for
others, whose pods are not there yet; and later, without the pods that others await. A pod must fit
in both.

Rules:
  R1  while pods are awaited, the gang is outside the queue; it is activated when they are gone,
      when the nomination lapses, and by an event about itself;
  R2  if it cannot start although no pod is awaited, the nomination lapses;
  R3  a nominated pod that has changed or is gone, or whose node is gone, is dropped; if too few
      are left, the nomination lapses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from gangsched.core.admission.reclaim import may_give_way, owners_of, queue_of
from gangsched.core.attempt.pending_members import split
from gangsched.core.attempt.reach import reach_of
from gangsched.core.nodes.domains import EVERYWHERE, Domain
from gangsched.core.placement.task import Task
from gangsched.core.queue.demand import Reach
from gangsched.core.records.gang import GangRecord, PodRecord, QueuePlace
from gangsched.core.state import State
from gangsched.core.state.nominated import NominatedPod, Nomination
from gangsched.events import NominationLapsed
from gangsched.model import PodUID
from gangsched.primitives.counters import MemberState
from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.standing import least_needed

__all__ = [
    "awaits",
    "conclude",
    "end",
    "lapse",
    "lapse_exceeded",
    "lend",
    "next_deadline",
    "note_evicted",
    "note_replaced",
    "place",
    "refused",
    "review",
    "withhold",
]

_LEAST_WAIT: Final = 1.0
"""Seconds between two deadlines of a nomination, at the least: the grace may be 0."""


# Between cycles ---------------------------------------------------------------------------------


def review(state: State, *, passing: bool = False) -> None:
    """Activate the gangs whose nominated nodes are free, and end obsolete nominations.

    Runtime complexity: O(nominated pods).

    Args:
        state: The state.
        passing: Whether the host lets this instant pass, so that deadlines at it are over.
    """
    overdue, now = state.nominations.overdue, state.records.now
    if overdue:
        overdue.intersection_update(state.records.pods)
    for nomination in state.nominations:
        uids = [*nomination.pods]
        reason = _why_obsolete(state, nomination)
        if reason:
            lapse(state, nomination, reason, uids)
            continue
        if _is_free(nomination):
            _activate(state, nomination)
        elif (
            nomination.deadline < now or (passing and nomination.deadline <= now)
        ) and not _awaits_bind(nomination):
            _end_grace(state, nomination)


def _is_free(nomination: Nomination) -> bool:
    """Return whether no pod is awaited any more. O(1) amortised."""
    awaited = nomination.awaited
    while awaited and awaited[-1].slot < 0:
        awaited.pop()
    return not awaited


def _awaits_bind(nomination: Nomination) -> bool:
    """Return whether a victim is not evicted yet, because its bind is under way. O(awaited)."""
    return any(r.is_evicted and r.cycle is not None for r in nomination.awaited)


def _activate(state: State, nomination: Nomination) -> None:
    """Let a gang be tried whose nominated nodes are free, without waiting for its backoff."""
    gang = nomination.gang
    gang.is_whole = True
    gang.end_backoff()
    if gang.place is not QueuePlace.ACTIVE:
        state.touch(gang)


def _end_grace(state: State, nomination: Nomination) -> None:
    """End a nomination at its deadline, or give it another one if its pods may still terminate."""
    left = [record for record in nomination.awaited if record.slot >= 0]
    overdue = [
        r.uid for r in left if not (r.pod.deleted_at or state.records.now) > state.records.now
    ]
    state.nominations.overdue.update(overdue)
    if overdue:
        lapse(state, nomination, f"{_pods(nomination)} did not terminate in time")
        return
    policy = state.settings.preemption
    grace = 0.0 if policy is None else policy.grace  # None: a snapshot of another scheduler
    nomination.deadline = state.records.now + max(grace, _LEAST_WAIT)
    nomination.is_tried = True
    state.touch(nomination.gang)


def _pods(nomination: Nomination) -> str:
    count = sum(record.slot >= 0 for record in nomination.awaited)
    return "1 pod" if count == 1 else f"{count} pods"


def _is_pending(each: NominatedPod) -> bool:
    """Return whether a pod is pending still, and asks for what it was nominated with."""
    nominated, asks = each.pod_class, each.record.pod_class
    if each.record.state is not MemberState.UNSCHEDULED or nominated is None or asks is None:
        return False
    return asks.signature == nominated.signature


def _why_obsolete(state: State, nomination: Nomination) -> str:
    """Drop pods that changed, and return why the nomination lapses; empty if it does not."""
    records, gang = state.records, nomination.gang
    for uid, each in list(nomination.pods.items()):
        is_same = records.pods.get(uid) is each.record and each.record.gang is gang
        if not is_same or not _is_pending(each) or state.table.nodes[each.hold.slot] is None:
            del nomination.pods[uid]
            records.drop(each.hold)
    if records.gangs.get(gang.key) is not gang or not nomination.is_sufficient:
        return "too few nominated pods or nodes are left"
    alone, together = split(state, gang)
    reach = reach_of(state, gang, together or alone)
    if reach is None or reach[0] != nomination.priority:
        return "the priority has changed"
    for key, spec in nomination.specs:
        if records.registry.spec(key) != spec:
            return f"the specification of pod group {key} has changed"
    return ""


def next_deadline(state: State) -> float | None:
    """Return the earliest deadline of a nomination that awaits pods. O(awaited pods)."""
    running = (n.deadline for n in state.nominations if n.awaited and not _awaits_bind(n))
    return min(running, default=None)


def note_evicted(state: State, record: PodRecord) -> None:
    """Let the grace of a victim begin, whose eviction was put off until its bind ended."""
    policy = state.settings.preemption
    for nomination in state.nominations if policy is not None else ():
        if record in nomination.awaited:
            assert policy is not None
            nomination.deadline = max(nomination.deadline, state.records.now + policy.grace)


def note_replaced(state: State, record: PodRecord, fresh: PodRecord) -> None:
    """Let the gangs that await a pod await it as the other pod that it is read as now."""
    for nomination in state.nominations:
        nomination.awaited = [fresh if r is record else r for r in nomination.awaited]


def awaits(state: State, gang: GangRecord) -> str:
    """Return what a gang awaits outside the queue; empty if it is to be tried."""
    nomination = state.nominations.known.get(gang)
    if nomination is None or _is_free(nomination):
        return ""
    if nomination.is_tried and not _lacks_share(state, gang):
        return ""
    count = len(nomination.slots)
    where = "1 node is" if count == 1 else f"{count} nodes are"
    return f"{where} nominated, waiting for {_pods(nomination)} to terminate"


def _lacks_share(state: State, gang: GangRecord) -> bool:
    """Return whether victims still hold what accounts keep for a gang. O(accounts x depth)."""
    quotas = state.records.quotas
    return any(map(quotas.is_exceeded, owners_of(gang)))


def refused(state: State, gang: GangRecord, reason: str) -> None:
    """End the nomination of a gang that PreEnqueue refuses, if its nodes are free."""
    nomination = state.nominations.known.get(gang)
    if nomination is not None and _is_free(nomination):
        lapse(state, nomination, reason)


# The end of a nomination ------------------------------------------------------------------------


def end(
    state: State, nomination: Nomination, reason: str, uids: Iterable[PodUID] | None = None
) -> None:
    """Remove a nomination and free its capacity.

    Args:
        state: The state.
        nomination: The nomination.
        reason: Why it lapses; if it is empty, no notice says so.
        uids: The pods that the notice names; None for those that are still nominated.
    """
    named = [*nomination.pods] if uids is None else uids
    for hold in nomination.holds:
        state.records.drop(hold)
    for owner in owners_of(nomination.gang):
        state.records.quotas.unreserve(owner)  # it is charged again when its gang is settled
    state.nominations.remove(nomination)
    if reason:
        pods = tuple([uid for uid in named if uid in state.records.pods])
        state.call.out.append(NominationLapsed(nomination.group, pods, reason))


def lapse_exceeded(state: State, reason: str) -> None:
    """Let the nominations lapse of gangs whose accounts do not have what is kept for them."""
    for nomination in state.nominations:
        if _lacks_share(state, nomination.gang):
            lapse(state, nomination, reason)


def lapse(
    state: State, nomination: Nomination, reason: str, uids: Iterable[PodUID] | None = None
) -> None:
    """Remove a nomination; its gang is settled again, and what the capacity may help is woken."""
    end(state, nomination, reason, uids)
    state.touch(nomination.gang)


# In the gang's cycle ----------------------------------------------------------------------------


def lend(state: State, nomination: Nomination) -> None:
    """Show a gang its own capacity as free in its cycle."""
    for hold in nomination.holds:
        state.records.lend(hold)


def withhold(state: State, nomination: Nomination) -> None:
    """Hold the capacity again after a cycle."""
    for hold in nomination.holds:
        state.records.keep(hold)


def conclude(state: State, nomination: Nomination) -> None:
    """Use up a nomination after the cycle of its gang, keep it, or let it lapse."""
    withhold(state, nomination)
    nomination.is_tried = False
    if any(each.record.is_assumed for each in nomination.pods.values()):
        # capacity that its pods did not use is free for others
        lapse(state, nomination, "")
    elif not nomination.awaited:
        # the nodes have changed since, or a plugin refuses the pods
        lapse(state, nomination, "the nominated nodes are free, but it cannot start")
        if nomination.made_at == state.mark:
            nomination.gang.no_plan_at = state.mark


def place(state: State, gang: GangRecord, task: Task) -> bool:
    """Place each nominated pod on its node; return False, with nothing placed, if one cannot go.

    Runtime complexity: O(pods x nominations).
    """
    nomination = state.nominations.known.get(gang)
    if nomination is None or nomination.awaited:
        return False
    tree, point = gang.tree, task.save()
    chosen = _domains(state, nomination, task)
    if chosen is None:
        return False
    for each in nomination.pods.values():
        if not _takes(state, nomination, each) or not task.put_on(each.record, each.hold.slot):
            task.restore(point)
            return False
    nominated = {each.record.leaf for each in nomination.pods.values()}
    copies = [c for c in tree.copies() if not nominated.isdisjoint(leaf.key for leaf in c.leaves)]
    if any(least_needed(each, task.lacking) > 0 for each in (tree, *copies)):
        task.restore(point)
        return False
    _choose(task, chosen, copies)
    return True


def _choose(task: Task, chosen: dict[str, Domain], copies: Sequence[SubGroup]) -> None:
    """Note the domains of what is met, given those that were nominated, and the copies there."""
    tree = task.gang.tree
    # other copies are not chosen: each starts as a whole, or not at all; nor are those that have to
    # share a domain, and have no nominated pods: they stay where they run
    bound = {below.key for sub in tree.constrained for below in sub.sub_groups()}
    chosen |= {
        sub.key: EVERYWHERE
        for c in copies
        for sub in c.sub_groups()
        if sub.key not in chosen and sub.key not in bound
    }
    met = [sub.key for sub in tree.sub_groups() if least_needed(sub, task.lacking) <= 0]
    task.chosen.update({key: chosen[key] for key in met if key in chosen})


def _domains(state: State, nomination: Nomination, task: Task) -> dict[str, Domain] | None:
    """Return the domains that sub groups have to share and were nominated in.

    None if their nodes do not share one. For a sub group without nominated pods none was chosen.
    """
    found: dict[str, Domain] = {}
    for sub in task.gang.tree.constrained:
        within = sub.within
        if within is None or not within.required:
            continue
        leaves = {leaf.key for leaf in sub.leaves}
        slots = [e.hold.slot for e in nomination.pods.values() if e.record.leaf in leaves]
        if not slots:
            continue
        paths = {state.table.domains.around(slot, within.level) for slot in slots}
        pinned = task.pinned(sub)
        path = paths.pop()
        if paths or path is None or (pinned is not None and path not in pinned):
            return None
        for below in sub.sub_groups():
            found[below.key] = path
    return found


def _takes(state: State, nomination: Nomination, nominated: NominatedPod) -> bool:
    """Return whether a nominated node takes a pod now and later; see the module."""
    slot, pod_class, table = nominated.hold.slot, nominated.pod_class, state.table
    assert pod_class is not None
    others = [each for each in state.nominations if each is not nomination]
    reach = Reach(nomination.priority, True, queue_of(state, nomination.gang))
    lower = [n for n in others if may_give_way(state, reach, n.gang, n.priority)]
    above = [hold for each in others if each not in lower for hold in each.holds]
    below = [hold for each in lower for hold in each.holds]
    mark = table.point()
    try:
        for hold in below:
            if hold.slot == slot:
                table.take(slot, hold.needs, -1)
        later = table.point()
        for record in {r: None for n in others for r in n.awaited}:
            if record.slot == slot:
                table.take(slot, record.needs, -1)
        if not pod_class.memo.fits(table.state_of[slot]):
            return False
        table.rewind(later)
        for hold in above:
            if hold.slot == slot:
                table.take(slot, hold.needs, -1)
        return pod_class.memo.fits(table.state_of[slot]) > 0
    finally:
        table.rewind(mark)
