"""Law 4: room that is given back without a fact from outside is news all the same."""

from __future__ import annotations

from attrs import evolve, frozen

from gangsched import (
    Coscheduling,
    Node,
    NodeAdded,
    NodeName,
    Outcome,
    Pod,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    Profile,
    Scheduler,
    Success,
    Unschedulable,
    WhenBlocked,
)
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.protocols import ClusterState, CycleView
from support.driver import Driver


@frozen
class Picky:
    """Turns one pod down at the last gate."""

    name: str = "Picky"

    def pre_bind(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        """Refuse the pod ``m0``."""
        return Unschedulable("no") if pod.name == "m0" else Success()


def make(cluster: ClusterState) -> Scheduler:
    """Return a scheduler whose groups hold what they have until their deadline."""
    policy = Coscheduling(when_blocked=WhenBlocked.UNTIL_TIMEOUT)
    return Scheduler(cluster, Profile(policy, NodeResources(), DefaultBinder(), Picky()))


def test_what_a_member_turned_down_at_the_last_gate_gives_back_is_news() -> None:
    """Three of four wait; two are enough all at once, and the third is refused.

    A pod that found the node full when the three held it gets the place.
    """
    driver = Driver(make)
    group = PodGroup(name="g", min_available=4)
    driver.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 3})), PodGroupAdded(group))
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
