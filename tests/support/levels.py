"""Laws 3, 4, 6 and 8 as levels: conditions that hold after every call.

They are counted and sorted again each time, from the cluster and from the scheduler's views. They
hold wherever every event has been reported.
"""

from __future__ import annotations

from collections import Counter

from gangsched import MemberState, PodUID, Scheduler
from support.account import claim_of, role_of
from support.placement_oracle import may_be_placed
from support.shown import PodShown, shown
from support.world import World

__all__ = [
    "counts_are_right",
    "every_entity_is_in_place",
    "everybody_pending_is_queued",
    "it_wakes_in_time",
    "sort_keys_are_frozen_and_in_order",
]


def every_entity_is_in_place(world: World) -> None:
    """Laws 3, 4, 6 and 8: order, place, deadline and counts."""
    sort_keys_are_frozen_and_in_order(world.driver.scheduler)
    everybody_pending_is_queued(world)
    it_wakes_in_time(world.driver.scheduler)
    if world.driver.grouped:
        counts_are_right(world)


def sort_keys_are_frozen_and_in_order(scheduler: Scheduler) -> None:
    """Law 3: no sort key is stale, no two are equal, and the queue is sorted by key."""
    queue = scheduler.queue
    active = queue.active
    keys = [entity.sort_key for entity in active]
    assert keys == sorted(keys, key=lambda key: key or ()), "law 3: out of order"
    assert len(set(keys)) == len(keys), "law 3: two share a place"
    for entity in active:
        assert queue.has_current_key(entity), (
            f"law 3: entity {entity.seq} stands where it should not"
        )


def everybody_pending_is_queued(world: World) -> None:
    """Law 4: every entity that may be tried is queued, except members that hold nodes and wait.

    Terminating pods without a node need not be queued.
    """
    scheduler, cluster = world.driver.scheduler, world.driver.cluster
    queue = scheduler.queue
    queued = {
        p.uid for e in (*queue.active, *queue.backoff, *queue.unschedulable) for p in e.pending
    }
    under_way = shown(scheduler).assumed.keys()
    refused = {
        uid
        for info in scheduler.registry
        for uid in info.members
        if info.members.state(uid) is MemberState.REFUSED
    }
    wanting = {pod.uid for pod in cluster.pods() if may_be_placed(pod)}
    staying = wanting.difference(world.driver.dying)
    excused = (under_way | refused) & staying
    assert staying - queued == excused, "law 4: somebody is not queued"
    assert queued <= wanting, "law 4: somebody is queued who wants nothing"


def it_wakes_in_time(scheduler: Scheduler) -> None:
    """Law 6: it asks to be called when a wait or a backoff ends.

    A nomination does not end while the bind of a victim is under way: it is evicted after that.
    """
    due = scheduler.next_deadline()
    seen = shown(scheduler)
    ends = [pod.deadline for pod in scheduler.waiting]
    ends += [entity.backoff_until for entity in scheduler.queue.backoff]
    put_off = {uid for uid in seen.evicted if _is_being_bound(seen.pods[uid])}
    ends += [n.deadline for n in seen.nominations if n.awaited and put_off.isdisjoint(n.awaited)]
    ends += [] if seen.reserved_until is None else [seen.reserved_until]
    assert due == min(ends, default=None), "law 6: it would oversleep, or wake for nothing"


def counts_are_right(world: World) -> None:
    """Law 8: each member is counted once, in the state that the cluster shows it in."""
    scheduler, cluster = world.driver.scheduler, world.driver.cluster
    pods = world.driver.oracle.account.pods
    seen, group_of = shown(scheduler).pods, _groups(scheduler)
    bound: Counter[str] = Counter()
    members: Counter[str] = Counter()
    for pod in cluster.pods():
        claim = claim_of(pod)
        member = seen.get(pod.uid)
        if member is not None and _is_being_bound(member) and not pod.node_name:
            # a released member stays released until its bind is reported, whatever changes
            members.update([group_of[pod.uid]] if pod.uid in group_of else [])
        elif claim is not None:
            members[claim[0]] += 1
            going = pod.is_finished or pod.deleted_at is not None or pods[pod.uid].evicted
            bound[claim[0]] += pod.node_name is not None and not going
    known = {info.key: len(info.members) for info in scheduler.registry if info.members}
    assert known == dict(members), "law 8: members are miscounted"
    for info in scheduler.registry:
        assert info.assigned == bound[info.key], f"law 8: {info.key} miscounts who runs"
        assert info.waiting == len(scheduler.waiting.of(info.key)), f"law 8: {info.key} waits"
        assert info.all == info.unscheduled + info.assumed + info.assigned, f"law 8: {info.key}"
        states: dict[str, list[MemberState | None]] = {}
        for uid in info.members:
            shown_pod = cluster.pod(uid)
            role = None if shown_pod is None else role_of(shown_pod)
            if role is not None and not _is_being_bound(seen[uid]):
                states.setdefault(role, []).append(info.members.state(uid))
        for role, of_role in states.items():
            counts = info.role(role)
            assert counts.waiting == of_role.count(MemberState.WAITING), f"law 8: {info.key} {role}"
            assert counts.unscheduled == of_role.count(MemberState.UNSCHEDULED), f"law 8: {role}"


def _groups(scheduler: Scheduler) -> dict[PodUID, str]:
    """Return the group of each member that a scheduler knows."""
    return {uid: info.key for info in scheduler.registry for uid in info.members}


def _is_being_bound(member: PodShown) -> bool:
    """Return whether a member was released, perhaps evicted since, and its bind is not reported."""
    return member.assumed is not None and member.state is not MemberState.WAITING
