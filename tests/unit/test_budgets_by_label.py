"""A disruption budget is tried only for pods that have a label of one of its conditions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    InMemoryCluster,
    LabelSelector,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodUID,
    Preemption,
    presets,
)
from gangsched.cluster_objects import PodDisruptionBudget
from gangsched.constraints import LabelSelectorRequirement
from gangsched.framework.preemption.budgets import Budgets

NAMES = st.sampled_from("ab")
VALUES = st.sampled_from("xyz")
LABELS = st.dictionaries(NAMES, VALUES)


@st.composite
def requirements(draw: Any) -> LabelSelectorRequirement:
    operator = draw(st.sampled_from(LabelSelectorRequirement.OPERATORS))
    # a value may be given twice
    values = draw(st.lists(VALUES, min_size=1, max_size=3)) if "In" in operator else ()
    return LabelSelectorRequirement(draw(NAMES), operator, tuple(values))


SELECTORS = st.none() | st.builds(
    LabelSelector, LABELS, st.lists(requirements(), max_size=2).map(tuple)
)
BUDGETS = st.lists(
    st.builds(
        PodDisruptionBudget,
        name=st.uuids().map(str),
        namespace=NAMES,
        selector=SELECTORS,
        disruptions_allowed=st.integers(0, 2),
        disrupted_pods=st.sets(st.sampled_from(["p0", "p1"])),
    ),
    max_size=6,
)
PODS = st.lists(st.tuples(NAMES, LABELS), min_size=1, max_size=5)


def scheduler_with(pods: list[Pod]) -> Any:
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 1000})))
    for pod in pods:
        cluster.apply(PodAdded(pod))
    scheduler = presets.pod_by_pod(cluster, preemption=Preemption())
    scheduler.rebuild(now=0.0)
    return scheduler


def running(name: str, namespace: str, labels: dict[str, str]) -> Pod:
    return Pod(
        name=name,
        namespace=namespace,
        uid=name,
        labels=labels,
        requests={"cpu": 1},
        node_name="n",
    )


@given(budgets=BUDGETS, drawn=PODS)
def test_evictions_violate_the_budgets_that_cover_the_pods(
    budgets: list[PodDisruptionBudget], drawn: list[tuple[str, dict[str, str]]]
) -> None:
    pods = [running(f"p{k}", *each) for k, each in enumerate(drawn)]
    scheduler = scheduler_with(pods)
    found = Budgets(scheduler._state.pods, budgets, lambda _operations: None)

    left = [budget.disruptions_allowed for budget in budgets]
    expected: list[bool] = []
    for pod in pods:
        covering = [number for number, budget in enumerate(budgets) if budget.covers(pod)]
        expected.append(any(left[number] <= 0 for number in covering))
        for number in covering:
            left[number] -= 1
    assert found.marks([pod.uid] for pod in pods) == expected
    assert found.anew().marks([pod.uid] for pod in pods) == expected


def test_budgets_of_other_pods_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    covers = PodDisruptionBudget.covers

    def counted(self: PodDisruptionBudget, pod: Pod) -> bool:
        tried.append(self.name)
        return covers(self, pod)

    monkeypatch.setattr(PodDisruptionBudget, "covers", counted)
    pods = [running(f"p{k}", "default", {"app": f"a{k}"}) for k in range(50)]
    budgets = [
        PodDisruptionBudget(name=f"b{k}", namespace=namespace, selector=LabelSelector({"app": app}))
        for k, (namespace, app) in enumerate(
            [*(("default", f"a{k}") for k in range(50)), *(("other", f"a{k}") for k in range(50))]
        )
    ]
    operations: list[int] = []
    found = Budgets(scheduler_with(pods)._state.pods, budgets, operations.append)
    assert found.marks([pod.uid] for pod in pods) == [True] * 50
    assert tried == [f"b{k}" for k in range(50)]
    assert sum(operations) < 50 * len(budgets)


def test_budgets_are_filed_once_for_all_plans_of_a_search() -> None:
    pods = [running("p", "default", {"app": "a"}), running("q", "default", {"app": "a"})]
    budgets = [PodDisruptionBudget(name="b", selector=LabelSelector({"app": "a"}))]
    operations: list[int] = []
    found = Budgets(scheduler_with(pods)._state.pods, budgets, operations.append)
    assert found.violations([PodUID("p")]) == 1
    assert found.anew().violations([PodUID("p"), PodUID("q")]) == 2
    assert len(operations) == 3, "they are filed once, and tried once for each pod"


def test_evictions_beyond_the_allowed_number_violate_a_budget() -> None:
    pods = [running(name, "default", {"app": "a"}) for name in "pqr"]
    budget = PodDisruptionBudget(
        name="b", selector=LabelSelector({"app": "a"}), disruptions_allowed=2
    )
    found = Budgets(scheduler_with(pods)._state.pods, [budget], lambda _operations: None)
    assert found.marks([pod.uid] for pod in pods) == [False, False, True]


def test_budget_with_a_repeated_value_counts_an_eviction_once() -> None:
    pods = [running(name, "default", {"app": "a"}) for name in "pq"]
    condition = LabelSelectorRequirement("app", "In", ("a", "a"))
    budget = PodDisruptionBudget(
        name="b", selector=LabelSelector({}, (condition,)), disruptions_allowed=2
    )
    found = Budgets(scheduler_with(pods)._state.pods, [budget], lambda _operations: None)
    assert found.marks([pod.uid] for pod in pods) == [False, False]
