"""Rows 21 to 29, 32 and 33: which pods are tried at all.

The counts are the scheduler's own: it receives the pods, and the policy is asked about the group as
that scheduler knows it. Rows 30 and 31 are in ``test_capacity``.
"""

from __future__ import annotations

from functools import partial

import pytest

from gangsched import (
    Coscheduling,
    CycleState,
    GroupIncomplete,
    NodeAdded,
    Outcome,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodGroupInfo,
    PodRefused,
    PodUnschedulable,
    PriorityOverruled,
    Success,
    Unschedulable,
    membership,
)
from gangsched.presets import coscheduling
from support.conformance import gang, machine, row, rows, worker
from support.driver import Driver


def a_cluster(*pods: Pod, groups: tuple[PodGroup, ...] = (), strict: bool = False) -> Driver:
    """Return a cluster with capacity for all pods; *strict* is about priorities."""
    driver = Driver(partial(coscheduling, strict_priorities=strict))
    driver.tell(NodeAdded(machine("n1", cpu=64)))
    driver.tell(*(PodGroupAdded(group) for group in groups))
    driver.add(*pods)
    return driver


def group_of(driver: Driver, pod: Pod) -> PodGroupInfo | None:
    """Return what the scheduler knows of a pod's group."""
    claim = membership(pod)
    return None if claim is None else driver.scheduler.registry.get(claim.group)


def both_gates(driver: Driver, pod: Pod) -> tuple[Outcome, Outcome]:
    """Return what the policy says of a pod before it queues, and before any node is looked at."""
    policy, group = Coscheduling(), group_of(driver, pod)
    state = CycleState(group, {})
    return (
        policy.pre_enqueue(pod, group, now=driver.now),
        policy.pre_filter(state, pod, now=driver.now),
    )


def crowd(group: str, size: int, *, gated: int = 0) -> list[Pod]:
    """Return members of a group, of which the last ones have a gate."""
    gates = [("quota",) if number >= size - gated else () for number in range(size)]
    return [worker(f"{group}-{n}", group, scheduling_gates=gate) for n, gate in enumerate(gates)]


FOREIGN = [
    *crowd("yew", 3),
    worker("fir-9", "fir", namespace="attic"),
    worker("alone", priority=5),
]


@pytest.mark.parametrize(
    ("minimum", "size", "gated", "passes"),
    [
        row(23, 2, 1, 0, False),
        # as many as are needed, which is what the row is named after
        row(24, 4, 4, 0, True),
        row(25, 2, 5, 0, True),
        row(26, 3, 3, 0, True),
        row(27, 3, 5, 2, True),
        row(28, 4, 5, 2, False),
        row(29, 3, 5, 3, False),
    ],
)
def test_group_is_tried_when_enough_of_its_own_members_may_be(
    minimum: int, size: int, gated: int, passes: bool
) -> None:
    """Rows 23 to 29, F54; what belongs to others never counts."""
    fir = gang("fir", minimum)
    members = crowd("fir", size, gated=gated)
    driver = a_cluster(*FOREIGN, *members, groups=(fir, gang("yew", 3)))
    present = size - gated
    held = Unschedulable(
        f"waiting for {minimum - present} more member{'s' * (minimum - present != 1)}:"
        f" {present} of {minimum} exist",
        resolvable=False,
    )

    answer: Outcome = Success() if passes else held
    assert both_gates(driver, members[0]) == (answer, answer)
    driver.drain()
    placed = {pod.name for pod in driver.cluster.pods() if pod.node_name}
    assert placed >= {"yew-0", "yew-1", "yew-2", "alone"}
    assert placed.intersection(pod.name for pod in members) == (
        {pod.name for pod in members[:present]} if passes else set()
    )


@rows(21)
def test_regular_pod_is_tried_in_any_company() -> None:
    lone = worker("lone")
    driver = a_cluster(*FOREIGN, *crowd("fir", 1), lone, groups=(gang("fir", 2),))
    assert both_gates(driver, lone) == (Success(), Success())


@rows(22, ours=True)
def test_pod_of_a_group_that_does_not_exist_is_held_until_it_does() -> None:
    """F29: no cycle is spent on it, and the group's arrival is the wake-up."""
    members = crowd("elder", 2)
    driver = a_cluster(*members)
    unknown = Unschedulable(
        "pod group lab/elder does not exist yet, and its members give no minimum",
        resolvable=False,
    )

    assert both_gates(driver, members[0]) == (unknown, unknown)
    assert not driver.step()
    assert driver.scheduler.next_deadline() is None
    driver.tell(PodGroupAdded(gang("elder", 2)))
    driver.drain()
    assert driver.now == 0.0
    assert all(pod.node_name for pod in driver.cluster.pods())


# Members that contradict ----------------------------------------------------------------------

NAME = "pod-group.scheduling.sigs.k8s.io/name"
MINIMUM = "pod-group.scheduling.sigs.k8s.io/min-available"


def labelled(name: str, minimum: int, *, priority: int = 8) -> Pod:
    """Return a member that gives its group's minimum itself."""
    labels = {NAME: "rowan", MINIMUM: str(minimum)}
    return worker(name, labels=labels, priority=priority)


@pytest.mark.parametrize(
    ("faulty", "reason", "strict"),
    [
        row(
            32,
            labelled("rowan-2", 4),
            "pod lab/rowan-2: min_available must be 2, the value of the first member of lab/rowan, "
            "got 4",
            False,
            ours=True,
        ),
        row(
            33,
            labelled("rowan-2", 2, priority=9),
            "pod lab/rowan-2: priority must be 8, the priority of lab/rowan, got 9",
            True,
            ours=True,
        ),
    ],
)
def test_member_that_contradicts_its_group_is_refused_when_it_arrives(
    faulty: Pod, reason: str, strict: bool
) -> None:
    """Rows 32 and 33, F23: the field is named, and the others are none the worse."""
    driver = a_cluster(labelled("rowan-0", 2), strict=strict)
    driver.drain()
    driver.add(faulty)

    assert driver.log[-1].effects[0] == PodRefused(faulty.uid, reason)
    assert not driver.step()
    driver.add(labelled("rowan-1", 2))
    driver.drain()
    placed = {pod.name for pod in driver.cluster.pods() if pod.node_name}
    assert placed == {"rowan-0", "rowan-1"}


def test_priority_of_the_group_decides_over_that_of_a_member() -> None:
    """Row 33 without ``strict_priorities``: the member counts, and a notice names both values."""
    driver = a_cluster(labelled("rowan-0", 2))
    driver.drain()
    odd = labelled("rowan-1", 2, priority=7)
    driver.add(odd)

    group = gang("rowan", 2).key
    assert driver.log[-1].effects[0] == PriorityOverruled(odd.uid, group, 7, 8)
    driver.drain()
    assert all(pod.node_name for pod in driver.cluster.pods())


def test_incomplete_group_is_reported_once_per_member() -> None:
    """F53, beside row 23: through the whole pipeline."""
    driver = a_cluster(groups=(gang("fir", 3),))
    for present, member in enumerate(crowd("fir", 2), 1):
        driver.tell(PodAdded(member))
        notice, told = driver.log[-1].effects
        assert notice == GroupIncomplete(gang("fir", 3).key, present, 3)
        assert told == PodUnschedulable(member.uid, f"pod group {notice.group} is incomplete")
        assert driver.drain() == 0
