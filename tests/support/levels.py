"""Laws 3, 4, 6 and 8 as levels: conditions that hold after every call.

They are counted and sorted again each time, from the cluster and from the scheduler's views. They
hold wherever every event has been reported.
"""

from __future__ import annotations

from collections import Counter

from gangsched import MemberState, Scheduler
from gangsched.framework.state.pods import Member
from support.account import claim_of
from support.placement_oracle import may_be_placed
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
    under_way, refused = set(), set()
    for uid, member in scheduler._state.pods.members.items():
        if member.node is not None:
            under_way.add(uid)
        if member.state is MemberState.REFUSED:
            refused.add(uid)
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
    state = scheduler._state
    ends = [pod.deadline for pod in scheduler.waiting]
    ends += [entity.backoff_until for entity in scheduler.queue.backoff]
    put_off = {uid for uid in state.pods.evicted if _is_being_bound(state.pods.members[uid])}
    ends += [
        n.deadline
        for n in state.reservations.nominations.values()
        if n.awaited and put_off.isdisjoint(n.awaited)
    ]
    promise = state.reservations.backfill.reservation
    ends += [] if promise is None else [promise.deadline]
    assert due == min(ends, default=None), "law 6: it would oversleep, or wake for nothing"


def counts_are_right(world: World) -> None:
    """Law 8: each member is counted once, in the state that the cluster shows it in."""
    scheduler, cluster = world.driver.scheduler, world.driver.cluster
    pods = world.driver.oracle.account.pods
    bound: Counter[str] = Counter()
    members: Counter[str] = Counter()
    for pod in cluster.pods():
        claim = claim_of(pod)
        member = scheduler._state.pods.members.get(pod.uid)
        if member is not None and _is_being_bound(member) and not pod.node_name:
            # a released member stays released until its bind is reported, whatever changes
            members.update([] if member.group is None else [member.group.key])
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
        of_group = [m for m in scheduler._state.pods.members.values() if m.group is info]
        for role in {m.role for m in of_group if m.role is not None}:
            states = [m.state for m in of_group if m.role == role]
            counts = info.role(role)
            assert counts.waiting == states.count(MemberState.WAITING), f"law 8: {info.key} {role}"
            assert counts.unscheduled == states.count(MemberState.UNSCHEDULED), f"law 8: {role}"


def _is_being_bound(member: Member) -> bool:
    """Return whether a member was released, perhaps evicted since, and its bind is not reported."""
    return member.node is not None and member.state is not MemberState.WAITING
