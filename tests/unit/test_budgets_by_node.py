"""A single pod that preempts: each node is a choice of its own, and the fewest budgets suffer."""

from __future__ import annotations

from typing import Any

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
    Preemption,
    presets,
)
from gangsched.cluster_objects import PodDisruptionBudget

Running = tuple[str, str, int, int, str]
"""Name, node, cpus, priority, app."""


def victims(cpu: int, running: list[Running], **allowed: int) -> set[str]:
    """Return the pods that are evicted for a pod of the highest priority; nodes have 4 cpus."""
    cluster = InMemoryCluster()
    scheduler = presets.pod_by_pod(cluster, preemption=Preemption())
    effects: list[Any] = []

    def tell(event: Any) -> None:
        effects.extend(scheduler.handle(cluster.apply(event), now=0.0))
        while (more := scheduler.schedule_one(now=0.0)) is not None:
            effects.extend(more)

    for node in sorted({node for _name, node, _cpus, _priority, _app in running}):
        tell(NodeAdded(Node(name=NodeName(node), allocatable={"cpu": 4})))
    for app, count in allowed.items():
        selector = LabelSelector({"app": app})
        budget = PodDisruptionBudget(name=app, selector=selector, disruptions_allowed=count)
        tell(ObjectChanged(budget))
    for name, node, cpus, priority, app in running:
        labels = {"app": app}
        requests = {"cpu": cpus}
        tell(
            PodAdded(
                Pod(name=name, node_name=node, requests=requests, priority=priority, labels=labels)
            )
        )
    effects.clear()
    tell(PodAdded(Pod(name="high", priority=9, requests={"cpu": cpu})))
    scheduler._state._check()
    return {effect.uid.removeprefix("default/") for effect in effects if isinstance(effect, Evict)}


def test_node_with_fewer_violations_is_chosen() -> None:
    running = [
        ("r0", "n0", 1, 1, "web"),
        ("r1", "n0", 3, 1, "db"),
        ("r2", "n1", 1, 1, "web"),
        ("r3", "n1", 3, 1, "web"),
    ]
    assert victims(4, running, web=0) == {"r0", "r1"}


def test_budget_is_not_used_up_by_a_pod_that_can_be_spared() -> None:
    running = [
        ("r0", "n0", 3, 2, "web"),
        ("r1", "n0", 1, 1, "web"),
        ("r2", "n1", 2, 1, "web"),
        ("r3", "n1", 2, 1, "web"),
    ]
    assert victims(3, running, web=1) == {"r0"}


def test_pod_of_higher_priority_goes_before_a_violation() -> None:
    running = [("r0", "n0", 2, 1, "web"), ("r1", "n0", 2, 2, "db")]
    assert victims(2, running, web=0) == {"r1"}


def test_node_behind_one_that_is_no_choice_is_chosen() -> None:
    running = [
        ("r0", "n0", 1, 1, "web"),
        ("r1", "n0", 3, 9, "web"),
        ("r2", "n1", 3, 2, "web"),
        ("r3", "n1", 1, 1, "web"),
        ("r4", "n2", 2, 1, "web"),
        ("r5", "n2", 2, 1, "web"),
    ]
    assert victims(3, running, web=1) == {"r2"}


def test_victims_free_the_nominated_node_when_a_budget_is_used_up() -> None:
    running = [
        ("r0", "n0", 2, 1, "web"),
        ("r1", "n0", 2, 2, "web"),
        ("r2", "n1", 2, 2, "web"),
        ("r3", "n1", 2, 1, "db"),
    ]
    assert victims(4, running, web=2, db=0) == {"r0", "r1"}


@given(
    apps=st.lists(st.sampled_from(["web", "db"]), min_size=4, max_size=4),
    priorities=st.lists(st.integers(1, 2), min_size=4, max_size=4),
    web=st.integers(0, 2),
    db=st.integers(0, 2),
)
def test_no_node_has_fewer_violations(
    apps: list[str], priorities: list[int], web: int, db: int
) -> None:
    """Each node is full of two pods of 2 cpus, and the preemptor takes a whole node."""
    running = [(f"r{n}", f"n{n // 2}", 2, priorities[n], apps[n]) for n in range(4)]
    found = victims(4, running, web=web, db=db)

    def violations(names: set[str]) -> int:
        left = {"web": web, "db": db}
        count = 0
        for name, _node, _cpus, _priority, app in running:
            if name in names:
                left[app] -= 1
                count += left[app] < 0
        return count

    whole = [{"r0", "r1"}, {"r2", "r3"}]
    assert found in whole
    assert violations(found) == min(map(violations, whole))
