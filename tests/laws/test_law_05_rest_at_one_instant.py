"""Law 5: at one instant without an event, ``schedule_one`` comes to rest.

A plan is not made again while nothing has changed: between two events, no pod or group is nominated
twice for the same nodes with the same victims.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import pytest
from attrs import define, evolve, field
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Effect,
    Event,
    InMemoryCluster,
    NodeAdded,
    NodeName,
    Nominated,
    PodAdded,
    PodAffinityTerm,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodUID,
    PodUpdated,
    Preemption,
    SchedulingUnit,
    Topology,
    presets,
)
from gangsched.constraints import LabelSelector
from gangsched.testing import make_node, make_pod
from support.story import Story, Way
from support.story_presets import GANG_PRESETS

pytestmark = pytest.mark.once("draws the preset")

_CALLS: Final = 200
"""More scheduling cycles at one instant than eight for each pod of these worlds."""


@define(eq=False)
class Resting(Story):
    """A story in which no plan may be made twice between two events."""

    plans: list[Nominated] = field(factory=list)

    def tell(self, *events: Event) -> None:
        """Apply events; plans may be made anew after them."""
        self.plans.clear()
        super().tell(*events)

    def decide(self) -> None:
        """Make all decisions at this instant, of which there are not many."""
        for _ in range(_CALLS):
            effects = self.scheduler.schedule_one(now=self.now)
            if effects is None:
                return
            self._perform(effects)
        raise AssertionError(f"schedule_one does not come to rest at {self.now:g}")

    def _perform(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            if isinstance(effect, Nominated):
                plan = evolve(effect, deadline=0.0)
                assert plan not in self.plans, f"made again at {self.now:g}: {effect}"
                self.plans.append(plan)
        super()._perform(effects)

    def run(self, until: float) -> None:
        """Let time pass, which is a change, too."""
        self.plans.clear()
        super().run(until)


@st.composite
def gangs(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a gang that may request more than its members, and members of unlike priorities."""
    cpus = draw(st.lists(st.integers(1, 2), min_size=1, max_size=3))
    return {
        "cpus": cpus,
        "minimum": draw(st.sampled_from([len(cpus), max(len(cpus) - 1, 1)])),
        "total": draw(st.sampled_from([None, sum(cpus) + 1, sum(cpus) + 2])),
        "priority": draw(st.sampled_from([5, None])),
        "of_members": draw(st.lists(st.sampled_from([5, 0]), min_size=3, max_size=3)),
        "topology": draw(st.sampled_from([None, None, Topology("rack")])),
    }


def add_gang(story: Story, name: str, drawn: dict[str, Any]) -> None:
    """Add a gang that was drawn."""
    group = PodGroup(
        name=name,
        min_available=drawn["minimum"],
        priority=drawn["priority"],
        topology=drawn["topology"],
        min_resources={} if drawn["total"] is None else {"cpu": drawn["total"]},
    )
    story.tell(PodGroupAdded(group))
    for number, cpu in enumerate(drawn["cpus"]):
        priority = drawn["of_members"][number]
        story.add(make_pod(f"{name}-{number}", group=name, cpu=cpu, priority=priority))


@given(
    preset=st.sampled_from(list(GANG_PRESETS)),
    nodes=st.lists(st.tuples(st.integers(1, 4), st.sampled_from("ab")), min_size=1, max_size=3),
    low=st.lists(st.tuples(st.integers(1, 2), st.sampled_from([0, 1])), max_size=2),
    drawn=st.lists(gangs(), min_size=1, max_size=2),
    holds=st.tuples(st.booleans(), st.booleans()),
    order=st.lists(
        st.sampled_from(["decide", "victims", "one_victim", "bind", "wait", "update", "interrupt"]),
        max_size=8,
    ),
    way=st.sampled_from([Way.LIVE, Way.RESTORED]),
)
def test_no_plan_is_made_twice_between_two_events(
    preset: str,
    nodes: list[tuple[int, str]],
    low: list[tuple[int, int]],
    drawn: list[dict[str, Any]],
    holds: tuple[bool, bool],
    order: list[str],
    way: Way,
) -> None:
    make: Any = GANG_PRESETS[preset]
    story = Resting(partial(make, preemption=Preemption(grace=5.0)), way, *holds)
    for number, (cpu, rack) in enumerate(nodes):
        story.tell(NodeAdded(make_node(f"n{number}", cpu=cpu, labels={"rack": rack})))
    for number, (cpu, priority) in enumerate(low):
        pod = make_pod(f"low-{number}", cpu=cpu, priority=priority)
        where = NodeName(f"n{number % len(nodes)}")
        story.add(evolve(pod, node_name=where))
    story.decide()
    for number, one in enumerate(drawn):
        add_gang(story, f"g{number}", one)
    for step in order:
        _take(story, step)
    story.run(until=story.now + 100)
    story.finish_binds()
    story.run(until=story.now + 100)


def _take(story: Resting, step: str) -> None:
    story.decide()
    gone = [pod.name for pod in story.cluster.pods() if pod.deleted_at is not None]
    match step:
        case "victims":
            story.delete(*gone)
        case "one_victim":
            story.delete(*gone[:1])
        case "bind":
            story.finish_binds()
        case "wait":
            story.run(until=story.now + 3)
        case "update":
            pod = story.pod("g0-0")
            story.tell(PodUpdated(evolve(pod, priority=5 - pod.priority % 5)))
        case "interrupt":
            story.interrupt()
        case _:
            pass
    story.decide()


def test_gangs_with_terms_that_cannot_start_do_not_wake_each_other_for_ever() -> None:
    """Each gang's waiting members are pods that come and go, for the terms of the other."""
    cluster = InMemoryCluster()
    scheduler = presets.coscheduling(cluster, unit=SchedulingUnit.POD)
    a, b = LabelSelector(match_labels={"app": "a"}), LabelSelector(match_labels={"app": "b"})
    away = PodAffinityTerm(label_selector=a, topology_key="kubernetes.io/hostname")
    beside = PodAffinityTerm(label_selector=b, topology_key="topology.kubernetes.io/zone")
    first: dict[str, Any] = {"group": "first", "min_available": 2, "created_at": 2.0}
    second: dict[str, Any] = {"group": "second", "min_available": 2, "created_at": 31.0}
    cluster.apply(NodeAdded(make_node("n", cpu=4, allocatable={"pods": 8})))
    for pod in (
        evolve(make_pod("p", cpu=3, **first), pod_anti_affinity=(away,)),
        make_pod("q", cpu=3, **first),
        evolve(make_pod("r", **second), labels={"app": "a"}, pod_group="second", min_available=2),
        evolve(make_pod("s", cpu=2, **second), pod_affinity=(beside,)),
        make_pod("t", created_at=56.0),
    ):
        cluster.apply(PodAdded(pod))
    scheduler.advance(now=56.0)
    for _turn in range(2):
        cycles = 0
        while scheduler.schedule_one(now=56.0) is not None:
            cycles += 1
            assert cycles < 200, "it does not come to rest"
        scheduler.handle(cluster.apply(PodDeleted(PodUID("default/t"))), now=56.0)
