"""Rows 30, 31 and 42 to 44: what a group needs in all, against what is free in all."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import pytest

from gangsched import (
    NodeAdded,
    Pod,
    PodGroupAdded,
    PodUnschedulable,
    PodWaiting,
    Release,
    Resources,
    resource_gap,
)
from support.conformance import gang, machine, row, worker
from support.driver import Driver

GPU = "nvidia.com/gpu"


def gaps_told(driver: Driver) -> set[str]:
    """Let everything settle; return the gaps that were given as reasons."""
    driver.settle()
    said = (effect for told in driver.log for effect in told.effects)
    reasons = {effect.reason for effect in said if isinstance(effect, PodUnschedulable)}
    return {reason for reason in reasons if reason.startswith("resource gap: ")}


def attempts(driver: Driver) -> int:
    """Return how many attempts of the group took a node or looked for one."""
    said = [effect for told in driver.log for effect in told.effects]
    return sum(
        isinstance(effect, PodWaiting | Release)
        or (isinstance(effect, PodUnschedulable) and not effect.reason.startswith("resource gap"))
        for effect in said
    )


@pytest.mark.parametrize(("wanted", "gap"), [row(30, 5, {}), row(31, 8, {GPU: 2000})])
def test_group_that_needs_more_than_is_free_in_all_is_not_tried(
    wanted: int, gap: dict[str, int]
) -> None:
    """Rows 30 and 31, F45: no more is known by it; no node takes a member of the first."""
    nodes = [machine("n1", **{GPU: 3}), machine("n2", **{GPU: 3})]
    needs = Resources({GPU: wanted})
    assert dict(resource_gap(needs, [node.allocatable for node in nodes])) == gap

    driver = Driver()
    driver.tell(*(NodeAdded(node) for node in nodes))
    driver.tell(PodGroupAdded(gang("maple", 1, min_resources=needs)))
    driver.add(worker("maple-0", "maple", requests={GPU: wanted}))
    assert gaps_told(driver) == ({f"resource gap: {GPU}=2"} if gap else set())
    assert attempts(driver) == (0 if gap else 1)
    assert all(pod.node_name is None for pod in driver.cluster.pods())


def on(node: str, name: str, gpus: int, group: str | None = None) -> Pod:
    """Return a pod that holds a node."""
    return worker(name, group, node_name=node, phase="Running", requests={GPU: gpus})


@pytest.mark.parametrize(
    ("placed", "own", "satisfied"),
    [
        row(42, [on("n1", "x", 3)], 0, True),
        row(43, [on("n1", "maple-0", 3, "maple"), on("n2", "x", 2)], 3, True),
        row(44, [on("n1", "x", 3), on("n2", "y", 2)], 0, False),
    ],
)
def test_capacity_of_others_is_taken_and_that_of_the_group_is_not(
    placed: list[Pod], own: int, satisfied: bool
) -> None:
    """Rows 42 to 44, F44: two nodes of five, and six are needed in all."""
    free = {"n1": {GPU: 5000}, "n2": {GPU: 5000}}
    for pod in placed:
        free[str(pod.node_name)][GPU] -= pod.requests.amount(GPU)
    wanted, given = {GPU: 6000 - own * 1000}, copy.deepcopy(free)
    assert (not resource_gap(wanted, free.values())) is satisfied
    assert (wanted, free) == ({GPU: 6000 - own * 1000}, given)

    driver = Driver()
    driver.tell(NodeAdded(machine("n1", **{GPU: 5})), NodeAdded(machine("n2", **{GPU: 5})))
    driver.tell(PodGroupAdded(gang("maple", 2, min_resources={GPU: 6})))
    driver.add(*placed, *(worker(f"maple-{n}", "maple", requests={GPU: 1}) for n in (1, 2)))
    driver.settle()
    assert all(
        bool(pod.node_name) is satisfied for pod in driver.cluster.pods() if pod not in placed
    )


@pytest.mark.parametrize(
    ("free", "gap"),
    [
        ([{GPU: -4000}, {GPU: 6000}], {}),
        ([{GPU: -4000}, {GPU: 5000}], {GPU: 1000}),
        ([], {GPU: 6000}),
    ],
)
def test_overcommitted_node_has_nothing_and_takes_nothing_from_the_others(
    free: list[Mapping[str, int]], gap: dict[str, int]
) -> None:
    """F46, beside row 44."""
    assert dict(resource_gap({GPU: 6000}, free)) == gap
