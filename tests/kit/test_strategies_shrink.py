"""Drawn values shrink to the simplest of their kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import find, settings
from hypothesis import strategies as st

from gangsched import (
    Bound,
    Event,
    GroupKey,
    InMemoryCluster,
    Node,
    NodeName,
    Pod,
    PodGroup,
    PodUID,
    Resources,
    Role,
)
from gangsched.simulation import (
    BindAnswerLost,
    BindFails,
    BindSlow,
    ClockJumps,
    EventDelayed,
    EventDropped,
    EventDuplicated,
    EventReordered,
    Fault,
    FaultPlan,
    NodeVanishes,
    SchedulerRestarts,
)
from gangsched.strategies import clusters, events, faults, nodes, pod_groups, pods, resources, roles
from support.examples import least

ANYTHING: Callable[[Any], bool] = lambda _drawn: True  # noqa: E731

DRAWN: dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], bool], object]] = {
    "no resources": (resources(), ANYTHING, Resources()),
    "resources": (resources(), lambda r: r.amount("cpu") > 2000, Resources({"cpu": 3})),
    "a pod": (pods(), ANYTHING, Pod(name="x-0", uid=PodUID("x-0-0"))),
    "a pod of a group": (
        pods(groups=st.sampled_from([None, "x-0", "x-1"])),
        lambda pod: pod.pod_group is not None,
        Pod(name="x-0", uid=PodUID("x-0-0"), pod_group="x-0"),
    ),
    "a group": (pod_groups(), ANYTHING, PodGroup(name="x-0", min_available=1)),
    "a group of three": (
        pod_groups(),
        lambda group: group.min_available > 2,
        PodGroup(name="x-0", min_available=3),
    ),
    "a group with roles": (
        pod_groups(roles=st.sampled_from([{}, {"ps": 1}, {"ps": 1, "worker": 2}])),
        lambda group: group.roles,
        PodGroup(name="x-0", roles={"ps": 1}),
    ),
    "a group with copies": (
        pod_groups(roles=roles()),
        lambda group: group.has_copies,
        PodGroup(name="x-0", roles={"x": Role(1, roles={"x": 1})}),
    ),
    "a node": (nodes(), ANYTHING, Node(name=NodeName("x-0"))),
    "a node with room": (
        nodes(),
        lambda node: node.allocatable.amount("nvidia.com/gpu"),
        Node(name=NodeName("x-0"), allocatable={"nvidia.com/gpu": 1}),
    ),
    "a report of a bind": (
        events(),
        lambda event: isinstance(event, Bound),
        Bound(PodUID("x-0-0"), NodeName("x-0"), 1),
    ),
    "a plan of faults": (faults(), ANYTHING, FaultPlan()),
    "two faults": (
        faults(),
        lambda plan: len(plan.faults) == 2,
        FaultPlan([BindFails(1), BindFails(1)]),
    ),
}

FAULTS: dict[type[Any], Fault] = {
    BindFails: BindFails(1),
    BindAnswerLost: BindAnswerLost(1, None, 0.0),
    BindSlow: BindSlow(1, None, 0.0),
    NodeVanishes: NodeVanishes(1, None, None),
    EventDuplicated: EventDuplicated(1, 0.0),
    EventDelayed: EventDelayed(1, 0.0),
    EventReordered: EventReordered(1, 1),
    EventDropped: EventDropped(1, 0.0),
    SchedulerRestarts: SchedulerRestarts(2),
    ClockJumps: ClockJumps(0.0, 0.0),
}


@pytest.mark.parametrize("what", DRAWN)
def test_drawn_values_shrink_to_the_simplest(what: str) -> None:
    strategy, shows, plainest = DRAWN[what]
    assert find(strategy, shows, settings=least()) == plainest


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.__name__)
def test_fault_plan_shrinks_to_one_fault_at_its_first_place(
    kind: type[Any],
) -> None:
    plan = find(
        faults(), lambda plan: any(isinstance(f, kind) for f in plan.faults), settings=least()
    )
    assert plan == FaultPlan([FAULTS[kind]])


def _contents(cluster: InMemoryCluster) -> tuple[int, int, int]:
    return len(list(cluster.nodes())), len(list(cluster.pods())), len(list(cluster.pod_groups()))


def test_cluster_with_a_bound_pod_shrinks_to_one_pod_and_node() -> None:
    cluster = find(clusters(), lambda c: any(pod.node_name for pod in c.pods()), settings=least())
    assert _contents(cluster) == (1, 1, 0)


def test_events_about_one_pod_shrink_to_few_events() -> None:
    def are_about_one(facts: list[Event]) -> bool:
        uids = [fact.uid for fact in facts if isinstance(fact, Bound)]
        return len(uids) > len(set(uids))

    # one draw in some 150 has two reports about one pod
    surely_found = settings(least(), max_examples=max(least().max_examples, 3_000))
    smallest = find(st.lists(events(), max_size=4), are_about_one, settings=surely_found)
    reports = [fact for fact in smallest if isinstance(fact, Bound)]
    assert reports == [Bound(PodUID("x-0-0"), NodeName("x-0"), 1)] * 2
    assert len(smallest) <= 3


def test_group_of_a_fault_shrinks_to_none() -> None:
    some = faults(groups=st.sampled_from([None, GroupKey("default/g")]))
    plan = find(some, lambda plan: plan.faults, settings=least())
    assert plan == FaultPlan([BindFails(1)], ahead=False)
