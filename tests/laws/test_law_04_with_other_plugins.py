"""Law 4, where plugins know what the scheduler does not: their verdicts are events, too."""

from __future__ import annotations

import pytest
from attrs import evolve, frozen

from gangsched import (
    Coscheduling,
    NodeName,
    Outcome,
    Pod,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    PodUpdated,
    Profile,
    Scheduler,
    Success,
    Unschedulable,
    WhenBlocked,
)
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.protocols import ClusterState, CycleView, NodeView
from support.driver import Driver
from support.gangs import node
from support.units import current


@frozen
class Picky:
    """Refuse one pod at ``pre_bind``."""

    name: str = "Picky"

    def pre_bind(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        """Refuse the pod ``m0``."""
        return Unschedulable("no") if pod.name == "m0" else Success()


@frozen
class Approved:
    """Takes pods that are annotated as approved, on any node; says no word about signatures."""

    name: str = "Approved"

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        """Refuse a pod that is not approved."""
        return Success() if pod.annotations.get("approved") else Unschedulable("not approved")


def driven(when_blocked: WhenBlocked, plugin: object, *, cpu: int) -> Driver:
    """Return a driver with one more plugin, and one node."""

    def make(cluster: ClusterState) -> Scheduler:
        policy = Coscheduling(when_blocked=when_blocked)
        profile = Profile(policy, NodeResources(), DefaultBinder(), plugin)
        return Scheduler(cluster, profile, unit=current())

    driver = Driver(make)
    driver.tell(node("n", cpu))
    return driver


@pytest.mark.pod_by_pod("members hold nodes and wait")
def test_capacity_of_a_member_refused_at_pre_bind_requeues_entities() -> None:
    """Three of four wait; two are enough all at once, and the third is refused.

    A pod that found the node full when the three held it gets the place.
    """
    driver = driven(WhenBlocked.UNTIL_TIMEOUT, Picky(), cpu=3)
    group = PodGroup(name="g", min_available=4)
    driver.tell(PodGroupAdded(group))
    driver.add(*(Pod(name=f"m{n}", pod_group="g", requests={"cpu": 1}) for n in range(3)))
    driver.add(Pod(name="m3", pod_group="g", requests={"gpu": 1}))
    driver.drain()
    driver.add(Pod(name="plain", requests={"cpu": 1}))
    driver.drain()
    assert len(driver.scheduler.waiting) == 3
    driver.tell(PodGroupUpdated(evolve(group, min_available=2)))
    driver.advance(1.0)
    driver.drain()
    bound = {pod.name for pod in driver.cluster.pods() if pod.node_name}
    assert bound == {"m1", "m2", "plain"}


@pytest.mark.pod_by_pod("one turn a member")
def test_member_that_changes_after_its_cycle_is_tried_again() -> None:
    """Only the plugin knows that the change matters; the others are tried meanwhile."""
    driver = driven(WhenBlocked.AT_ONCE, Approved(), cpu=2)
    driver.tell(PodGroupAdded(PodGroup(name="g", min_available=2)))
    pods = [
        Pod(name=f"m{n}", pod_group="g", annotations={"approved": "yes"} if n == 1 else {})
        for n in range(3)
    ]
    driver.add(*pods)
    driver.step()
    driver.tell(PodUpdated(evolve(pods[0], annotations={"approved": "yes"})))
    driver.settle()
    assert {pod.name for pod in driver.cluster.pods() if pod.node_name} == {"m0", "m1"}
