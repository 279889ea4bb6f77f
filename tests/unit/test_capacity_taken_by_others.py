"""An entity that an event may help, and whose capacity others have taken by its turn."""

from __future__ import annotations

from typing import Any

from gangsched import (
    Bind,
    Bound,
    InMemoryCluster,
    NodeAdded,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupUpdated,
    PodUID,
    Scheduler,
    Unschedulable,
    presets,
)
from gangsched.testing import make_node, make_pod
from support.faulty_plugin import FaultyPlugin
from support.gangs import specify


class Host:
    """One node with four GPUs, all in use, and a scheduler whose binds succeed at once."""

    def __init__(self, **options: Any) -> None:
        self.now = 0.0
        self.cycles = 0
        self.cluster = InMemoryCluster()
        self.scheduler: Scheduler = presets.gang(self.cluster, **options)
        self.tell(NodeAdded(make_node("n", gpu=4)))
        self.add(make_pod("running", gpu=4))
        assert self.decide() == ["running"]

    def tell(self, event: Any) -> None:
        self.scheduler.handle(self.cluster.apply(event), now=self.now)

    def add(self, *pods: Pod) -> None:
        for pod in pods:
            self.tell(PodAdded(pod))

    def end(self, name: str) -> None:
        self.tell(PodDeleted(self.uid(name)))

    def uid(self, name: str) -> PodUID:
        return next(pod.uid for pod in self.cluster.pods() if pod.name == name)

    def decide(self) -> list[str]:
        """Decide until nothing is left; return the pods that were bound."""
        bound: list[str] = []
        while (effects := self.scheduler.schedule_one(now=self.now)) is not None:
            self.cycles += 1
            bound += map(self._bind, (each for each in effects if isinstance(each, Bind)))
        self.scheduler._check()
        return bound

    def _bind(self, effect: Bind) -> str:
        pod = self.cluster.pod(effect.uid)
        assert pod is not None
        self.tell(Bound(effect.uid, effect.node, effect.attempt))
        return pod.name


def waiting(**options: Any) -> Host:
    """Return a host with two pods of different shapes that wait for the same GPUs."""
    host = Host(**options)
    host.add(make_pod("first", gpu=3), make_pod("second", gpu=2))
    assert host.decide() == []
    assert host.cycles == 3
    return host


def test_pod_whose_capacity_another_has_taken_is_not_tried_in_vain() -> None:
    host = waiting()
    host.now = 100.0
    host.end("running")
    assert host.decide() == ["first"]
    assert host.cycles == 4, "the cycle of the first; none of the second"


def test_gang_of_which_another_gang_has_taken_a_part_is_not_tried_in_vain() -> None:
    host = Host()
    for group, size in (("a", 3), ("b", 2)):
        members = [
            make_pod(f"{group}{n}", group=group, min_available=size, gpu=1) for n in range(size)
        ]
        host.add(*members)
    assert host.decide() == []
    before = host.cycles
    host.now = 100.0
    host.end("running")
    assert sorted(host.decide()) == ["a0", "a1", "a2"]
    assert host.cycles == before + 1
    for n in range(3):
        host.end(f"a{n}")
    assert sorted(host.decide()) == ["b0", "b1"]


def test_pod_that_a_permit_plugin_refused_is_tried_again_whatever_the_nodes_have() -> None:
    """Its last failure says nothing of the nodes, so the reason on record would be another."""
    plugin = FaultyPlugin("permit")
    host = Host(plugins=(plugin,))
    host.end("running")
    plugin.answers["permit"] = Unschedulable("not now")
    host.add(make_pod("refused", gpu=2))
    assert host.decide() == []
    plugin.answers.clear()
    host.add(make_pod("large", gpu=4))
    assert host.decide() == ["large"]
    before = host.cycles
    host.now = 100.0
    assert host.decide() == []
    assert host.cycles == before + 1


def test_gang_whose_minimum_falls_before_its_turn_is_tried() -> None:
    """It is not what it was when it failed, so that failure says nothing of it."""
    host = Host()
    host.tell(PodGroupAdded(specify("train", 2)))
    host.add(make_pod("first", gpu=3))
    host.add(*[make_pod(f"g{n}", group="train", min_available=2, gpu=1) for n in range(2)])
    assert host.decide() == []
    host.now = 100.0
    host.end("running")
    effects = host.scheduler.schedule_one(now=host.now) or ()
    assert [each.uid for each in effects if isinstance(each, Bind)] == [host.uid("first")]
    host.tell(PodGroupUpdated(specify("train", 1)))
    assert host.decide() == ["g0"]
