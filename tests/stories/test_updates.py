"""An update of a pod reaches all that was remembered of it, whatever the preset."""

from __future__ import annotations

from functools import partial

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    LabelSelector,
    NodeAdded,
    PodAffinityTerm,
    Preemption,
    PreemptionPolicy,
    Resources,
    resource_gap,
)
from gangsched.testing import make_node, make_pod
from support.story import Story, Way, each_way
from support.story_presets import PRESETS, WAITING_PRESETS, Preset, each_of


@each_way
@each_of(PRESETS)
def test_pod_that_gains_a_node_selector_is_not_bound_outside_it(preset: Preset, way: Way) -> None:
    story = Story(preset, way)
    story.add(make_pod("p", cpu=1))
    story.decide()
    story.update("p", node_selector={"rack": "b"})
    story.decide()
    story.interrupt()
    story.tell(NodeAdded(make_node("a", cpu=4, labels={"rack": "a"})))
    story.run(until=60)
    assert story.bound == {}
    story.tell(NodeAdded(make_node("b", cpu=4, labels={"rack": "b"})))
    story.run(until=120)
    assert story.bound == {"p": "b"}


@each_way
@each_of(PRESETS)
def test_pod_that_gains_a_node_selector_with_its_gate_lifted_is_not_bound_outside_it(
    preset: Preset, way: Way
) -> None:
    story = Story(preset, way)
    story.add(evolve(make_pod("p", cpu=1), scheduling_gates=("kueue",)))
    story.decide()
    story.update("p", node_selector={"rack": "b"}, scheduling_gates=())
    story.decide()
    story.interrupt()
    story.tell(NodeAdded(make_node("a", cpu=4, labels={"rack": "a"})))
    story.run(until=60)
    assert story.bound == {}
    story.tell(NodeAdded(make_node("b", cpu=4, labels={"rack": "b"})))
    story.run(until=120)
    assert story.bound == {"p": "b"}


@each_way
@each_of(PRESETS)
@pytest.mark.parametrize("updated_first", [False, True])
def test_parked_pod_preempts_once_it_may(preset: Preset, updated_first: bool, way: Way) -> None:
    story = Story(partial(preset, preemption=Preemption()), way)
    story.tell(NodeAdded(make_node("n", cpu=1)))
    story.add(make_pod("low", cpu=1))
    story.decide()
    urgent = make_pod("urgent", cpu=1, priority=9)
    story.add(evolve(urgent, preemption_policy=PreemptionPolicy.NEVER))
    story.run(until=60)
    assert story.bound == {"low": "n"}
    if not updated_first:
        story.interrupt()
    story.update("urgent", preemption_policy=PreemptionPolicy.PREEMPT_LOWER_PRIORITY)
    if updated_first:
        story.interrupt()
    story.run(until=120)
    assert story.evicted == ["low"]
    assert story.bound == {"urgent": "n"}


@each_way
@each_of(WAITING_PRESETS)
@pytest.mark.parametrize("then", [1, 2, 3])
def test_requests_that_grow_while_a_pod_waits_on_permit_overcommit_no_node(
    preset: Preset, then: int, way: Way
) -> None:
    story = Story(preset, way)
    story.tell(NodeAdded(make_node("n0", cpu=2)), NodeAdded(make_node("n1", cpu=1)))
    story.add(*(make_pod(f"g-{n}", group="g", min_available=3, cpu=1) for n in range(2)))
    story.add(make_pod("g-2", group="g", min_available=3, cpu=4))
    story.run(until=1)
    story.update("g-0", requests=Resources({"cpu": then}))
    story.interrupt()
    story.run(until=2)
    story.update("g-2", requests=Resources({"cpu": 1}))
    story.run(until=120)
    assert_no_node_is_overcommitted(story)
    assert len(story.bound) == (3 if then == 1 else 0)


@each_way
@each_of(PRESETS)
def test_requests_that_grow_while_a_bind_is_under_way_overcommit_no_node(
    preset: Preset, way: Way
) -> None:
    story = Story(preset, way, holds_binds=True)
    story.tell(NodeAdded(make_node("n", cpu=2)))
    story.add(make_pod("p", cpu=1))
    story.decide()
    story.update("p", requests=Resources({"cpu": 2}))
    story.interrupt()
    story.add(make_pod("q", cpu=1))
    story.run(until=60)
    story.finish_binds()
    story.run(until=120)
    story.finish_binds()
    assert_no_node_is_overcommitted(story)
    assert story.bound == {"p": "n"}


@each_way
@each_of(PRESETS)
def test_requests_that_shrink_while_a_bind_is_under_way_make_room_at_once(
    preset: Preset, way: Way
) -> None:
    story = Story(preset, way, holds_binds=True)
    story.tell(NodeAdded(make_node("n", cpu=2)))
    story.add(make_pod("p", cpu=2), make_pod("q", cpu=1))
    story.decide()
    story.update("p", requests=Resources({"cpu": 1}))
    story.interrupt()
    story.run(until=60)
    assert {bind.uid for bind in story.of(Bind)} == {story.uid("p"), story.uid("q")}
    story.finish_binds()
    story.run(until=120)
    story.finish_binds()
    assert_no_node_is_overcommitted(story)
    assert story.bound == {"p": "n", "q": "n"}


@each_way
@each_of(PRESETS)
def test_anti_affinity_that_a_pod_gains_keeps_only_those_away_that_it_is_about(
    preset: Preset, way: Way
) -> None:
    """Until then, the scheduler knew no difference between pods of the two labels."""
    story = Story(preset, way)
    for name, node, app in (("p", "n", "web"), ("q", "full", "db")):
        story.tell(NodeAdded(make_node(node, cpu=1 if node == "full" else 9, labels={"at": node})))
        pod = evolve(make_pod(name, cpu=1), node_selector={"at": node})
        story.add(evolve(pod, scheduling_gates=("later",)))
        term = PodAffinityTerm(topology_key="at", label_selector=LabelSelector({"app": app}))
        story.update(name, pod_anti_affinity=(term,), scheduling_gates=())
    story.run(until=1)
    story.interrupt()
    for app in ("web", "db"):
        story.add(evolve(make_pod(app, cpu=1), labels={"app": app}))
        story.decide()
    assert story.bound == {"p": "n", "q": "full", "db": "n"}


def assert_no_node_is_overcommitted(story: Story) -> None:
    for node in story.cluster.nodes():
        used = sum((pod.requests for pod in story.cluster.pods_on(node.name)), Resources())
        assert not resource_gap(used, [node.allocatable]), (node.name, story.bound)
