"""Disruption budgets: preemption violates one only where nothing else is enough."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Evict,
    InMemoryCluster,
    LabelSelector,
    Node,
    NodeAdded,
    NodeName,
    ObjectChanged,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    Preemption,
    presets,
)
from gangsched.cluster_objects import PodDisruptionBudget

GROUP = {"pod-group.scheduling.sigs.k8s.io/name": "g"}


def budget(app: str, allowed: int) -> PodDisruptionBudget:
    selector = LabelSelector({"app": app})
    return PodDisruptionBudget(name=app, selector=selector, disruptions_allowed=allowed)


def victims(
    running: list[Pod],
    *budgets: PodDisruptionBudget,
    cpu: int = 1,
    groups: tuple[PodGroup, ...] = (),
) -> set[str]:
    """Return the pods that are evicted for a pod of high priority; each node takes one pod."""
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, preemption=Preemption())
    effects: list[Any] = []

    def tell(event: Any) -> None:
        effects.extend(scheduler.handle(cluster.apply(event), now=0.0))
        while (more := scheduler.schedule_one(now=0.0)) is not None:
            effects.extend(more)

    names = sorted({str(pod.node_name) for pod in running})
    for name in names:
        tell(NodeAdded(Node(name=NodeName(name), allocatable={"cpu": 1})))
    for one in budgets:
        tell(ObjectChanged(one))
    for group in groups:
        tell(PodGroupAdded(group))
    for pod in running:
        tell(PodAdded(pod))
    effects.clear()
    for number in range(cpu):
        tell(PodAdded(Pod(name=f"high-{number}", priority=9, requests={"cpu": 1})))
    scheduler._state._check()
    return {effect.uid.removeprefix("default/") for effect in effects if isinstance(effect, Evict)}


def runs(name: str, app: str, *, priority: int = 0, **fields: Any) -> Pod:
    labels = {"app": app, **fields.pop("labels", {})}
    return Pod(
        name=name,
        priority=priority,
        labels=labels,
        requests={"cpu": 1},
        node_name=f"n-{name}",
        **fields,
    )


def test_pod_whose_budget_is_used_up_is_spared() -> None:
    assert victims([runs("a", "x"), runs("b", "y")], budget("x", 0)) == {"b"}
    assert victims([runs("a", "x"), runs("b", "y")], budget("y", 0)) == {"a"}


def test_budget_counts_more_than_priority() -> None:
    """As in kube-scheduler, the fewest violations come before the lowest priority."""
    running = [runs("a", "x"), runs("b", "y", priority=5)]
    assert victims(running) == {"a"}
    assert victims(running, budget("x", 0)) == {"b"}


def test_budget_is_violated_where_nothing_else_is_enough() -> None:
    assert victims([runs("a", "x")], budget("x", 0)) == {"a"}


def test_budget_that_allows_an_eviction_allows_one() -> None:
    running = [runs("a", "x"), runs("b", "x"), runs("c", "y", priority=5)]
    assert victims(running, budget("x", 1)) in ({"a"}, {"b"})
    evicted = victims(running, budget("x", 1), cpu=2)
    assert len(evicted & {"a", "b"}) >= 1
    assert len(evicted) == 2


def test_budgets_of_one_pod_all_count() -> None:
    running = [runs("a", "x", labels={"tier": "t"}), runs("b", "y", priority=5)]
    both = PodDisruptionBudget(name="t", selector=LabelSelector({"tier": "t"}))
    assert victims(running, budget("x", 1), both) == {"b"}


@pytest.mark.parametrize("selector", [None, LabelSelector()])
def test_budget_without_conditions_covers_no_pod(selector: LabelSelector | None) -> None:
    empty = PodDisruptionBudget(name="e", selector=selector)
    assert victims([runs("a", "x"), runs("b", "y", priority=5)], empty) == {"a"}


def test_budget_counts_all_members_of_a_gang() -> None:
    members = [runs(name, "x", labels=GROUP) for name in ("a", "b")]
    other = runs("c", "y", priority=5)
    group = PodGroup(name="g", min_available=2)
    assert victims([*members, other], groups=(group,)) == {"a", "b"}
    assert victims([*members, other], budget("x", 1), groups=(group,)) == {"c"}
    assert victims([*members, other], budget("x", 2), groups=(group,)) == {"a", "b"}


def test_group_that_is_evicted_whole_gives_up_no_elastic_member() -> None:
    members = [runs(name, "x", labels=GROUP) for name in ("a", "b", "c")]
    group = PodGroup(name="g", min_available=2)
    assert len(victims(members, groups=(group,))) == 1
    whole = PodGroup(name="g", min_available=2, evicted_whole=True)
    assert victims(members, groups=(whole,)) == {"a", "b", "c"}


@given(
    st.lists(st.tuples(st.sampled_from("xyz"), st.integers(0, 3)), min_size=1, max_size=5),
    st.dictionaries(st.sampled_from("xyz"), st.integers(0, 1)),
)
def test_single_victim_violates_a_budget_only_if_every_pod_does(
    pods: list[tuple[str, int]], allowed: dict[str, int]
) -> None:
    running = [runs(f"p{n}", app, priority=rank) for n, (app, rank) in enumerate(pods)]
    (evicted,) = victims(running, *(budget(app, count) for app, count in allowed.items()))
    apps = {pod.name: pod.labels["app"] for pod in running}
    free = [name for name, app in apps.items() if allowed.get(app, 1)]
    assert not free or evicted in free
