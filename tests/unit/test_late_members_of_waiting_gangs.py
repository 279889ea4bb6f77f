"""A late member of a gang that waits on permit is tried, though nodes cannot take it."""

from __future__ import annotations

from gangsched import NodeAdded, PodAdded, PodUID, PodUnschedulable, SchedulingUnit, Wait, presets
from gangsched.testing import make_node, make_pod
from support.faulty_plugin import FaultyPlugin
from support.immediate_host import ImmediateHost


class Waiting(ImmediateHost):
    """A scheduler that decides whole gangs, and a plugin that may let pods wait on permit."""

    def __init__(self) -> None:
        super().__init__()
        self.plugin = FaultyPlugin("permit")
        plugins = (self.plugin,)
        unit = SchedulingUnit.GROUP
        self.scheduler = presets.coscheduling(self.cluster, plugins=plugins, unit=unit)

    def wait(self) -> None:
        self.plugin.answers["permit"] = Wait(1000.0)

    def node(self, name: str, cpu: int = 1) -> None:
        self.tell(NodeAdded(make_node(name, cpu=cpu)))

    def members(self, *numbers: int) -> None:
        for number in numbers:
            pod = make_pod(f"g-{number}", group="g", min_available=2, cpu=1)
            self.tell(PodAdded(pod))
        self.decide()

    def pod_takes_a_new_node(self) -> list[PodUnschedulable]:
        """Add a node, which a pod of high priority takes; return the notices of the decisions."""
        known = len(self.effects)
        self.tell(PodAdded(make_pod("first", cpu=1, priority=9)))
        self.node("taken")
        self.decide()
        return [each for each in self.effects[known:] if isinstance(each, PodUnschedulable)]


def refused(pod: str, nodes: int) -> PodUnschedulable:
    reason = f"0/{nodes} nodes are available: {nodes} Insufficient cpu."
    return PodUnschedulable(PodUID(f"default/{pod}"), reason)


def test_gang_whose_attempt_is_under_way_is_tried_when_another_pod_takes_the_new_node() -> None:
    host = Waiting()
    host.node("a")
    host.members(0, 1)  # nodes refuse this attempt
    host.wait()
    host.node("b")
    host.at(100.0)
    host.members(2)
    assert host.pod_takes_a_new_node() == [refused("g-2", 3)]


def test_started_gang_with_a_waiting_member_is_tried_when_another_pod_takes_the_new_node() -> None:
    host = Waiting()
    host.node("a", 2)
    host.members(0, 1)
    assert len(list(host.cluster.pods_on(make_node("a").name))) == 2
    host.wait()
    host.members(2)  # nodes refuse it
    host.node("b")
    host.decide()
    assert PodUID("default/g-2") in host.scheduler.waiting
    host.members(3)
    assert host.pod_takes_a_new_node() == [refused("g-3", 3)]
