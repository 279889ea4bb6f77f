"""Victims: which pods go for another one, where several units share nodes, pods or capacity."""

from __future__ import annotations

from functools import partial

import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st

from gangsched import (
    LabelSelector,
    NodeAdded,
    Nominated,
    ObjectChanged,
    PodGroup,
    PodGroupAdded,
    Preemption,
)
from gangsched.cluster_objects import PodDisruptionBudget
from gangsched.testing import make_node, make_pod
from support.examples import one_in
from support.story import Story, Way, each_way
from support.story_presets import GANG_PRESETS, PRESETS, Preset, each_of

pytestmark = pytest.mark.once("the stories choose the unit themselves")


@each_way
@each_of(GANG_PRESETS)
def test_pod_preempts_a_gang_whose_elastic_member_is_not_enough(preset: Preset, way: Way) -> None:
    """The member was taken off its node twice, so a score saw more free than the node has."""
    story = Story(partial(preset, preemption=Preemption()), way)
    story.tell(NodeAdded(make_node("n", cpu=4, allocatable={"memory": "4Gi"})))
    story.gang("g", 2)
    large = make_pod("g-2", group="g", min_available=2, requests={"cpu": 1, "memory": "3Gi"})
    story.add(large)
    story.run(1.0)
    assert len(story.bound) == 3
    story.interrupt()
    story.add(make_pod("urgent", priority=5, requests={"cpu": 3, "memory": "1Mi"}))
    story.run(60.0)
    assert sorted(story.evicted) == ["g-0", "g-1", "g-2"]
    assert story.bound == {"urgent": "n"}


@each_way
@each_of(GANG_PRESETS)
@pytest.mark.parametrize("younger", ["low", "middle"])
def test_nomination_in_the_way_lets_no_pod_of_its_priority_go_for_a_lower_one(
    preset: Preset, younger: str, way: Way
) -> None:
    story = Story(partial(preset, preemption=Preemption()), way, holds_evictions=True)
    story.tell(NodeAdded(make_node("n", cpu=3)))
    story.add(evolve(make_pod("lowest", cpu=1, priority=-9), node_name="n"))
    for name, priority in (("low", 0), ("middle", 3)):
        pod = make_pod(name, cpu=1, priority=priority, created_at=float(name == younger))
        story.add(evolve(pod, node_name="n"))
    story.add(make_pod("nominated", cpu=1, priority=3, created_at=2.0))
    story.decide()
    assert story.evicted == ["lowest"]
    story.interrupt()
    story.gang("urgent", 2, priority=9, created_at=3.0)
    story.decide()
    assert story.evicted == ["lowest", "low"]
    story.delete("lowest", "low")
    story.run(60.0)
    assert story.bound == {"middle": "n", "urgent-0": "n", "urgent-1": "n"}


@each_of(PRESETS)
def test_nomination_in_the_way_lets_many_low_pods_go_rather_than_one_of_its_priority(
    preset: Preset,
) -> None:
    story = Story(partial(preset, preemption=Preemption()), holds_evictions=True)
    story.tell(NodeAdded(make_node("n", cpu=5)))
    story.add(evolve(make_pod("lowest", cpu=1, priority=-9), node_name="n"))
    for name, cpu, priority in (("low-0", 1, 0), ("low-1", 1, 0), ("middle", 2, 3)):
        story.add(evolve(make_pod(name, cpu=cpu, priority=priority), node_name="n"))
    story.add(make_pod("nominated", cpu=1, priority=3))
    story.decide()
    assert story.evicted == ["lowest"]
    story.add(make_pod("urgent", cpu=3, priority=9))
    story.decide()
    assert sorted(story.evicted) == ["low-0", "low-1", "lowest"]


@each_of(GANG_PRESETS)
def test_members_of_a_gang_that_goes_count_once_for_a_disruption_budget(preset: Preset) -> None:
    """Its elastic member counted twice, so the budget that allows all of it seemed violated."""
    story = Story(partial(preset, preemption=Preemption()))
    story.tell(NodeAdded(make_node("n", cpu=3)), NodeAdded(make_node("m", cpu=3)))
    for name, node in (("g", "m"), ("old", "n")):
        for number in range(3):
            pod = make_pod(f"{name}-{number}", group=name, min_available=2, cpu=1)
            story.add(evolve(pod, node_name=node, labels={**pod.labels, "app": name}))
    for name, allowed in (("old", 2), ("g", 3)):
        selector = LabelSelector({"app": name})
        budget = PodDisruptionBudget(name=name, selector=selector, disruptions_allowed=allowed)
        story.tell(ObjectChanged(budget))
    story.gang("urgent", 3, priority=5)
    story.decide()
    assert {uid.partition("/")[2] for uid in story.of(Nominated)[0].victims} == {
        "g-0",
        "g-1",
        "g-2",
    }


_amounts = st.tuples(st.integers(0, 3), st.integers(0, 3))


@each_of(GANG_PRESETS)
@one_in(10, at_least=6)
@given(
    st.integers(1, 3),
    st.lists(_amounts, min_size=2, max_size=6),
    st.tuples(st.integers(1, 5), st.integers(0, 5)),
    st.none() | st.integers(0, 4),
)
@example(1, [(3, 0), (1, 3)], (3, 0), None)
def test_each_victim_counts_once(
    preset: Preset,
    least: int,
    members: list[tuple[int, int]],
    asked: tuple[int, int],
    allowed: int | None,
) -> None:
    """A score that sees more free than a node has is an error, so it shows what counts twice."""
    story = Story(partial(preset, preemption=Preemption()))
    story.tell(NodeAdded(make_node("n", cpu=5, allocatable={"memory": "5Gi"})))
    story.tell(PodGroupAdded(PodGroup(name="g", min_available=least)))
    for number, (cpu, memory) in enumerate(members):
        pod = make_pod(f"g-{number}", group="g", cpu=cpu, requests={"memory": f"{memory}Gi"})
        story.add(evolve(pod, labels={**pod.labels, "app": "g"}))
    story.run(1.0)
    if allowed is not None:
        selector = LabelSelector({"app": "g"})
        budget = PodDisruptionBudget(name="g", selector=selector, disruptions_allowed=allowed)
        story.tell(ObjectChanged(budget))
    cpu, memory = asked
    story.add(make_pod("urgent", requests={"cpu": cpu, "memory": f"{memory}Gi"}, priority=5))
    story.run(60.0)
    assert story.bound["urgent"] == "n"
    assert len(story.evicted) == len(set(story.evicted))
    left = [pod for pod in story.cluster.pods() if pod.node_name]
    assert sum(pod.requests.amount("cpu") for pod in left) <= 5_000
    running = [pod for pod in left if pod.name != "urgent"]
    assert not running or len(running) >= least
