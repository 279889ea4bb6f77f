"""Law 4, in the hardest case: events while a group is being tried or rejected.

A try takes many calls, and events arrive between them. A member that was refused before an event
must be tried again after it, whatever happened to the group meanwhile.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gangsched import GroupRejected, WhenBlocked
from support.brute_force import could_start, entities
from support.examples import one_in
from support.histories import Policy, policies
from support.history_steps import (
    ChangePod,
    Decide,
    DropNode,
    HistoryStep,
    Pass,
    PutGroup,
    PutNode,
    PutPods,
)
from support.world import World

gangs = policies.filter(lambda policy: policy.gangs)
waits = Policy(when_blocked=WhenBlocked.UNTIL_TIMEOUT)


def no_startable_pod_is_parked(world: World, policy: Policy) -> None:
    """Check every pending entity by brute force."""
    cluster = world.finish().driver.cluster
    for entity in entities(cluster):
        could = could_start(policy.make, cluster, entity)
        assert not could, f"law 4: {sorted(could)} could start, and sleep"


def running(world: World) -> int:
    """Return how many pods are bound."""
    return sum(pod.node_name is not None for pod in world.driver.cluster.pods())


members = st.builds(
    PutPods,
    group=st.just(0),
    count=st.integers(1, 2),
    minimum=st.just(3),
    cpu=st.integers(1, 2),
    gpu=st.sampled_from([0, 0, 1]),
    zone=st.sampled_from([None, None, "b"]),
)
room = st.one_of(
    st.builds(
        PutNode,
        index=st.integers(1, 9),
        cpu=st.integers(1, 3),
        gpu=st.integers(0, 1),
        zone=st.sampled_from("ab"),
    ),
    st.builds(ChangePod, index=st.integers(0, 2), how=st.just("delete")),
)
turns = st.one_of(st.just(Decide(1)), st.just(Decide(2)), st.just(Pass()), st.just(Pass(0.5)))


@one_in(2)
@given(
    gangs,
    st.lists(members, min_size=2, max_size=4),
    st.lists(st.one_of(turns, turns, room), max_size=16),
)
@example(
    policy=Policy(),
    pods=[PutPods(0, 1, 3, gpu=1), PutPods(0, 2, 3), PutPods(0, 1, 3, zone="b")],
    steps=[*[ChangePod(0)] * 2, Decide(1), PutNode(1, cpu=1, gpu=1)],
)
def test_each_unlike_member_is_tried_again_where_capacity_came_after_its_cycle(
    policy: Policy, pods: list[PutPods], steps: list[HistoryStep]
) -> None:
    """Capacity only grows, between any two cycles of one group; three pods run already, and end."""
    world = policy.world().live(PutNode(0, cpu=3), *[PutPods(None, 1)] * 3, Decide())
    world.live(*pods, *steps)
    no_startable_pod_is_parked(world, policy)


def test_groups_rejected_in_one_instant_are_each_requeued_for_the_other() -> None:
    """One can never start; the other fits as soon as the first is unassumed."""
    world = waits.world().live(PutNode(0, cpu=4))
    world.live(PutPods(0, 2, 3), PutPods(0, 1, 3, gpu=1), PutPods(2, 3, 3)).finish()
    assert running(world) == 3


@pytest.mark.pod_by_pod("members hold nodes and wait")
def test_released_capacity_requeues_the_group_as_a_whole() -> None:
    """Not for the member that found no node, which needs more; but for a sibling in its way."""
    small = PutNode(1, cpu=3)
    world = waits.world().live(PutNode(0, cpu=2, gpu=1), small)
    world.live(PutPods(0, 1, 2, cpu=3), PutPods(0, 1, 2, gpu=2), Decide())
    world.live(PutPods(2, 1, 2), PutPods(2, 1, 2, cpu=2, gpu=1), Decide())
    assert len(world.driver.scheduler.waiting) == 2
    assert running(world.finish()) == 2


@pytest.mark.pod_by_pod("members hold nodes and wait")
def test_capacity_added_after_a_placement_requeues_the_placed_member() -> None:
    """The first stands in the way of the second, on the only node there was; now there are two."""
    world = waits.world().live(PutNode(0, cpu=2, gpu=1), PutPods(1, 1, 2))
    world.live(PutPods(1, 1, 2, cpu=2, gpu=1), Decide(1), PutNode(1, cpu=3), Decide())
    assert len(world.driver.scheduler.waiting) == 1
    assert running(world.finish()) == 2


@pytest.mark.pod_by_pod("one turn a member")
def test_event_during_other_cycles_is_acted_on_in_the_same_instant() -> None:
    """F8: the first found no node; capacity is added; the last finds none; now the first fits."""
    world = waits.world().live(PutNode(0, cpu=2), PutPods(0, 1, 3, gpu=1), PutPods(0, 2, 3))
    world.live(PutPods(0, 1, 3, zone="b"), Decide(1), PutNode(1, cpu=1, gpu=1), Decide())
    assert world.driver.now == 0.0
    assert running(world) == 3


@pytest.mark.pod_by_pod("members hold nodes and wait")
def test_capacity_added_while_another_gang_holds_the_remainder_is_remembered() -> None:
    """Neither the event nor the rejection of the other suffices alone; both together do."""
    world = waits.world().live(PutNode(0, cpu=1, zone="b"), PutNode(1, cpu=3))
    world.live(PutPods(1, 1, 2, zone="b"), PutPods(1, 1, 2, cpu=4), Decide(), Pass(5))
    world.live(PutPods(3, 1, 2, cpu=3, priority=0), PutPods(3, 1, 2, gpu=1), Decide())
    assert len(world.driver.scheduler.waiting) == 2
    world.live(Pass(1), PutNode(1, cpu=4)).finish()
    assert running(world) == 2


@pytest.mark.pod_by_pod("one turn a member")
def test_group_rejected_before_all_members_were_tried_is_not_known_to_fail() -> None:
    """A node is deleted; the members that were next fit elsewhere."""
    world = Policy().world().live(PutNode(0, cpu=1), PutNode(1, cpu=2, tainted=True))
    world.live(PutPods(1, 2, 2), PutPods(1, 2, 2, tolerant=True), Decide(2), DropNode(0)).finish()
    assert running(world) == 2


@pytest.mark.parametrize("when_blocked", list(WhenBlocked))
def test_others_are_tried_again_when_the_last_untried_member_leaves(
    when_blocked: WhenBlocked,
) -> None:
    """No untried member is left, and the group is still complete: it is neither stuck nor lost."""
    policy = Policy(when_blocked=when_blocked)
    world = policy.world().live(PutNode(0, cpu=1), PutPods(0, 1, 2), PutPods(0, 2, 2))
    world.live(PutPods(0, 1, 2, cpu=3), Decide(3), ChangePod(3), PutNode(1, cpu=1)).finish()
    assert running(world) == 2


@pytest.mark.pod_by_pod("members hold nodes and wait")
def test_new_member_requeues_a_group_that_could_not_be_completed() -> None:
    """Two hold nodes, the third fits nowhere; the fourth does."""
    world = waits.world().live(PutNode(0, cpu=3), PutPods(0, 2, 3), PutPods(0, 1, 3, gpu=1))
    world.live(Decide(), PutPods(0, 1, 3), Decide())
    assert world.driver.now == 0.0
    assert running(world) == 3


def test_groups_with_equal_requests_in_another_order_are_not_interchangeable() -> None:
    """The first member may take the capacity of another, which then fails while a third fits."""
    policy = Policy(when_blocked=WhenBlocked.AT_ONCE)
    world = policy.world()
    # a small pod prefers the emptier node, which is the only one that can take a big one
    for group in (0, 1):
        world.live(PutPods(group, 1, 2), PutPods(group, 1, 2, cpu=4))
    world.live(PutPods(2, 1, 2, cpu=4), PutPods(2, 1, 2), PutNode(0, cpu=3), Decide())
    world.live(PutNode(1, cpu=4))
    no_startable_pod_is_parked(world, policy)
    assert running(world) == 2


@pytest.mark.core_lacks("pod by pod, attempts are counted otherwise")
@pytest.mark.pod_by_pod("members hold nodes and wait")
def test_time_of_an_attempt_begins_with_its_first_member_that_holds_a_node() -> None:
    """An attempt that was broken off for lack of members does not count against the next."""
    world = Policy().world().live(PutNode(0, cpu=2))
    world.live(PutPods(0, 1, 3, gpu=1), PutPods(0, 2, 3, cpu=2), PutPods(0, 1, 3))
    world.live(Decide(1), ChangePod(1), ChangePod(1), Pass(20), PutNode(1, cpu=4))
    world.live(PutPods(0, 2, 3), Decide())
    assert running(world) == 3
    effects = [effect for told in world.driver.log for effect in told.effects]
    assert not [effect for effect in effects if isinstance(effect, GroupRejected)]


def test_lower_minimum_requeues_a_failed_group() -> None:
    """F22: it starts in that instant, or after its backoff, without any other event."""
    world = Policy().world().live(PutNode(0, cpu=2), PutGroup(0, 3), PutPods(0, 3), Decide())
    world.live(Pass(60), PutGroup(0, 2)).finish()
    assert running(world) == 2
