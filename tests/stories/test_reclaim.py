"""Gangs that take back what others have borrowed: when they look again, and who may go."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    ClusterState,
    NodeAdded,
    Pod,
    PodDeleted,
    PodUID,
    Preemption,
    Quota,
    Reclaim,
    Scheduler,
    Topology,
    gang,
    presets,
)
from gangsched.testing import make_node
from support.story import Story

pytestmark = pytest.mark.once("the scheduler places whole gangs")

GPU = "nvidia.com/gpu"
ROOT = Quota(name="root")
A = Quota(name="a", parent="root", namespaces=["a"], nominal={GPU: 2})
B = Quota(name="b", parent="root", namespaces=["b"], nominal={GPU: 2})


def shared(*quotas: Quota, rule: Reclaim = Reclaim.NOMINAL, host: Any = None) -> Story:
    """Return a story of a scheduler with queues and no nodes."""

    def make(cluster: ClusterState) -> Scheduler:
        policy = Preemption(reclaim=rule)
        return presets.gang(cluster, quotas=quotas, preemption=policy, can_evict=True)

    return Story(make, **(host or {}))


def node(story: Story, name: str, gpus: int, rack: str = "r", cpu: int = 99) -> None:
    made = make_node(name, cpu=cpu, labels={"rack": rack})
    story.tell(NodeAdded(evolve(made, allocatable={**made.allocatable, GPU: gpus})))


def run(story: Story, name: str, namespace: str, gpus: int, **more: Any) -> None:
    """Add a gang of pods with one GPU each, and decide."""
    given: dict[str, Any] = {"gpu": 1, **more}
    story.tell(*gang(name, namespace=namespace, workers=gpus, **given).events())
    story.decide()


def test_gang_looks_again_once_a_pod_of_no_queue_has_left_the_node() -> None:
    story = shared(ROOT, A, B)
    node(story, "n", 4, cpu=4)
    story.add(Pod(name="blocker", namespace="none", requests={"cpu": 2}))
    run(story, "b1", "b", 2)
    run(story, "b2", "b", 2)
    run(story, "t", "a", 2, cpu=2)
    assert not story.evicted
    story.tell(PodDeleted(PodUID("none/blocker")))
    story.decide()
    assert len(story.evicted) == 2


def test_nominated_gang_does_not_pass_a_limit_that_was_lowered_meanwhile() -> None:
    """Its victims are about to leave, and it was to get what they give back."""
    queue = Quota(name="q", namespaces=["q"], nominal={GPU: 4})
    story = shared(queue, host={"holds_evictions": True})
    node(story, "n", 4)
    run(story, "low", "q", 4)
    run(story, "high", "q", 4, priority=5)
    story.set_quotas(evolve(queue, hard={GPU: 2}))
    for name in list(story.evicted):
        story.tell(PodDeleted(PodUID(f"q/{name}")))
    story.decide()
    assert not [name for name in story.bound if name.startswith("high")]
    (row,) = story.scheduler.quotas()
    assert not row.used.amount(GPU)


@pytest.mark.parametrize("rule", list(Reclaim), ids=lambda rule: rule.value)
def test_victim_outside_of_the_rack_goes_if_its_share_is_needed(rule: Reclaim) -> None:
    story = shared(
        evolve(ROOT, nominal={GPU: 8}),
        A,
        Quota(name="b", parent="root", namespaces=["b"], nominal={}),
    )
    node(story, "x", 2, "r0")
    node(story, "y", 1, "r1")
    for name, queue, rack in (("v", "b", "r0"), ("low", "a", "r1")):
        there = {"rack": rack}
        story.add(Pod(name=name, namespace=queue, requests={GPU: 1}, node_selector=there))
    story.decide()
    run(story, "t", "a", 2, priority=10, topology=Topology("rack"))
    assert set(story.evicted) == {"v", "low"}


def test_queue_takes_back_what_it_never_lends_though_its_parent_has_nothing() -> None:
    story = shared(
        ROOT,
        evolve(A, nominal={}),
        Quota(name="d", parent="root"),
        evolve(B, parent="d", lend={GPU: 0}),
    )
    node(story, "n", 2)
    story.set_quotas(ROOT, evolve(A, nominal={GPU: 2}))
    run(story, "a", "a", 2)
    story.set_quotas(
        ROOT,
        evolve(A, nominal={}),
        Quota(name="d", parent="root"),
        evolve(B, parent="d", lend={GPU: 0}),
    )
    run(story, "b", "b", 2)
    assert len(story.evicted) == 2


@pytest.mark.parametrize("nominal", [8, 10], ids=str)
def test_equal_shares_are_equal_whatever_their_weights_are(nominal: int) -> None:
    """The side that takes has 1 of the nominal; the other has 3 without the victim, at weight 3."""
    story = shared(
        evolve(ROOT, nominal={GPU: nominal}),
        evolve(A, nominal={}),
        evolve(B, nominal={}, weight=3.0),
        rule=Reclaim.FAIR,
    )
    node(story, "n", 4)
    for number in range(4):
        run(story, f"b{number}", "b", 1)
    run(story, "a", "a", 1)
    assert len(story.evicted) == 1


@pytest.mark.parametrize("rule", list(Reclaim), ids=lambda rule: rule.value)
def test_queue_without_a_nominal_takes_nothing_back(rule: Reclaim) -> None:
    """It takes no part in lending, so its share says nothing."""
    story = shared(evolve(ROOT, nominal={GPU: 2}), evolve(A, nominal=None), B, rule=rule)
    node(story, "n", 4)
    run(story, "b1", "b", 2)
    run(story, "b2", "b", 2)
    run(story, "a", "a", 2)
    assert not story.evicted
