"""Laws 3, 4, 6 and 8 as levels: what must be true whenever a call has returned.

Counted and sorted anew each time, from the cluster and from what the scheduler shows of itself.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import given

from gangsched import MemberState, Scheduler
from support.account import claim_of
from support.deeds import Catch, Deed
from support.histories import Policy, histories, policies
from support.room import may_go
from support.world import World


def ranks_are_frozen_and_in_order(scheduler: Scheduler) -> None:
    """Law 3: nobody's place is stale, no two share one, and the order is that of the places."""
    queue = scheduler.queue
    active = [entity.rank for entity in queue.active]
    assert active == sorted(active, key=lambda rank: rank or ())
    assert len(set(active)) == len(active)
    for entity in queue.active:
        assert queue.is_ranked(entity), f"entity {entity.seq} stands where it should not"


def everybody_pending_is_queued(world: World) -> None:
    """Law 4: nobody who may be tried is outside of the queue, but for those who hold and wait."""
    scheduler, cluster = world.driver.scheduler, world.driver.cluster
    queue = scheduler.queue
    queued = {
        p.uid for e in (*queue.active, *queue.backoff, *queue.unschedulable) for p in e.pending
    }
    under_way = {uid for uid, m in scheduler._state.members.items() if m.node is not None}
    refused = {uid for uid, m in scheduler._state.members.items() if m.state is MemberState.REFUSED}
    wanting = {pod.uid for pod in cluster.pods() if may_go(pod)}
    assert wanting - queued == (under_way | refused) & wanting
    assert queued <= wanting


def it_wakes_in_time(scheduler: Scheduler) -> None:
    """Law 6: it asks to be called when a wait or a rest ends."""
    due = scheduler.next_deadline()
    ends = [pod.deadline for pod in scheduler.waiting]
    ends += [entity.backoff_until for entity in scheduler.queue.backoff]
    assert due == min(ends, default=None)


def counts_are_right(world: World) -> None:
    """Law 8: each member is counted once, in the state that the cluster shows it in."""
    scheduler, cluster = world.driver.scheduler, world.driver.cluster
    bound: Counter[str] = Counter()
    members: Counter[str] = Counter()
    for pod in cluster.pods():
        claim = claim_of(pod)
        if claim is not None:
            members[claim[0]] += 1
            going = pod.is_finished or pod.deleted_at is not None
            bound[claim[0]] += pod.node_name is not None and not going
    assert {i.key: len(i.members) for i in scheduler.registry if i.members} == dict(members)
    for info in scheduler.registry:
        assert info.assigned == bound[info.key]
        assert info.waiting == len(scheduler.waiting.of(info.key))
        assert info.all == info.unscheduled + info.assumed + info.assigned


@given(policies, histories())
def test_after_every_deed_everybody_is_where_he_belongs(policy: Policy, deeds: list[Deed]) -> None:
    """Order, place, deadline and counts, in any history whose facts are told in time."""
    world = policy.world()
    for deed in deeds:
        if isinstance(deed, Catch):
            continue
        world.do(deed)
        ranks_are_frozen_and_in_order(world.driver.scheduler)
        everybody_pending_is_queued(world)
        it_wakes_in_time(world.driver.scheduler)
        if policy.gangs:
            counts_are_right(world)
