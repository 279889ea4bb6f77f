"""Law 4: no entity that could start is parked.

When a scheduler is idle, a new scheduler on a copy of the cluster with only one of the pending
entities starts none.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from gangsched import Bind, GroupRejected, Node, NodeAdded, NodeName
from gangsched.testing import make_pod
from support.brute_force import are_alike, could_start, entities
from support.driver import Driver
from support.examples import IS_DEEP
from support.histories import Policy, histories, policies
from support.history_steps import Decide, HistoryStep, PutGroup, PutNode, PutPods
from support.world import World


def no_startable_pod_is_parked(world: World, policy: Policy) -> None:
    cluster = world.driver.cluster
    for entity in entities(cluster, grouped=policy.gangs):
        if are_alike(cluster, entity):
            could = could_start(policy.make, cluster, entity)
            assert not could, f"law 4: {sorted(could)} could start, and sleep"


@settings(max_examples=settings().max_examples * (2 if IS_DEEP else 1))
@given(policies, histories())
def test_no_pod_that_could_start_is_parked_after_any_history(
    policy: Policy, steps: list[HistoryStep]
) -> None:
    """F31, KAI#1217: no flag is left, and a restart would cure nothing."""
    no_startable_pod_is_parked(policy.world().live(*steps).finish(), policy)


@pytest.mark.parametrize("late", ["member", "specification", "node"])
def test_last_event_is_itself_the_wake_up(late: str) -> None:
    """F24, F29: the decision is made in the instant in which the last event arrives."""
    world = Policy().world()
    arrivals: dict[str, HistoryStep] = {
        "node": PutNode(0, cpu=3),
        "specification": PutGroup(0, minimum=3),
        "member": PutPods(group=0, count=1),
    }
    world.live(PutPods(group=0, count=2), *(d for kind, d in arrivals.items() if kind != late))
    world.live(Decide())
    world.driver.settle()
    world.driver.advance(60.0)  # the backoff of each failed entity has ended
    began = world.driver.now
    assert not list(world.driver.cluster.pods_on(NodeName("n0")))
    world.live(arrivals[late], Decide())
    assert world.driver.now == began
    assert len(list(world.driver.cluster.pods_on(NodeName("n0")))) == 3


def test_group_that_was_incomplete_is_not_punished_for_it() -> None:
    """F25: only a failed try backs off."""
    driver = Driver(Policy().make)
    driver.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 3})))
    for n in range(2):
        driver.add(make_pod(f"g-{n}", group="g", min_available=3, cpu=1))
        driver.drain()
        driver.advance(driver.now + 0.01)
    assert driver.scheduler.next_deadline() is None
    driver.add(make_pod("g-2", group="g", min_available=3, cpu=1))
    driver.drain()
    effects = [effect for told in driver.log for effect in told.effects]
    assert not [effect for effect in effects if isinstance(effect, GroupRejected)]
    assert len([effect for effect in effects if isinstance(effect, Bind)]) == 3
