"""Members that have finished: succeeded ones count for the quorum, failed ones do not (KEP-34)."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    GroupKey,
    MatchPolicy,
    NodeName,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodPhase,
    PodUID,
    PodUpdated,
    SchedulingUnit,
    presets,
)
from gangsched.explain import NotEnoughMembers
from gangsched.testing import make_group, make_pod
from support.driver import Driver
from support.gangs import node

pytestmark = pytest.mark.once("chooses the unit itself")

EACH = pytest.mark.parametrize("unit", list(SchedulingUnit))
MATCHES = pytest.mark.parametrize("match", list(MatchPolicy))
SUCCEEDED, FAILED = PodPhase.SUCCEEDED, PodPhase.FAILED


def host(unit: SchedulingUnit, match: MatchPolicy = MatchPolicy.ONCE_SATISFIED) -> Driver:
    driver = Driver(
        lambda cluster: presets.coscheduling(cluster, unit=unit, match_policy=match), match=match
    )
    driver.tell(node("n", 9))
    return driver


def member(name: str, *, minimum: int = 3, role: str | None = None) -> Pod:
    return make_pod(f"g-{name}", group="g", min_available=minimum, cpu=1, role=role)


def finish(driver: Driver, name: str, phase: PodPhase) -> None:
    pod = driver.cluster.pod(PodUID(f"default/g-{name}"))
    assert pod is not None
    driver.tell(PodUpdated(evolve(pod, phase=phase)))


def running(driver: Driver) -> set[str]:
    pods = driver.cluster.pods()
    return {pod.name[2:] for pod in pods if pod.node_name and not pod.is_finished}


def ended(driver: Driver, *phases: PodPhase, restarts: bool) -> Driver:
    """Let a gang of three run; members finish in these phases, the rest are deleted."""
    driver.add(*(member(str(n)) for n in range(3)))
    driver.settle()
    assert running(driver) == {"0", "1", "2"}
    for number, phase in enumerate(phases):
        finish(driver, str(number), phase)
    for number in range(len(phases), 3):
        driver.delete(f"default/g-{number}")
    if restarts:
        driver.restart(lambda _bind: True)
    driver.add(member("new"))
    driver.settle()
    return driver


@EACH
@MATCHES
@pytest.mark.parametrize("restarts", [False, True])
def test_recreated_member_starts_beside_succeeded_members(
    unit: SchedulingUnit, match: MatchPolicy, restarts: bool
) -> None:
    driver = ended(host(unit, match), SUCCEEDED, SUCCEEDED, restarts=restarts)
    assert running(driver) == {"new"}


@EACH
@MATCHES
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("phases", [(FAILED,) * 2, (FAILED,) * 3, (SUCCEEDED, FAILED)])
def test_failed_members_must_be_replaced_before_the_gang_starts_again(
    unit: SchedulingUnit, match: MatchPolicy, restarts: bool, phases: tuple[PodPhase, ...]
) -> None:
    driver = ended(host(unit, match), *phases, restarts=restarts)
    assert running(driver) == set()
    why = driver.scheduler.why(GroupKey("default/g"))
    assert isinstance(why, NotEnoughMembers)
    assert why.missing == phases.count(FAILED) - (len(phases) - 2)
    for number in range(why.missing):
        driver.add(member(f"more{number}"))
    driver.settle()
    assert len(running(driver)) == 1 + why.missing


@EACH
@MATCHES
@pytest.mark.parametrize("restarts", [False, True])
def test_succeeded_members_do_not_count_beside_enough_new_ones(
    unit: SchedulingUnit, match: MatchPolicy, restarts: bool
) -> None:
    """The old members are those of an earlier run: the new ones are a gang."""
    driver = host(unit, match)
    driver.tell(PodGroupAdded(make_group("g", 3)))
    for number in range(2):
        done = evolve(member(str(number)), node_name=NodeName("n"), phase=SUCCEEDED)
        driver.tell(PodAdded(done))
    if restarts:
        driver.restart(lambda _bind: True)
    driver.tell(node("n", 2))
    driver.add(*(member(f"new{n}") for n in range(3)))
    driver.settle()
    assert running(driver) == set(), "two of three would fit"
    driver.tell(node("n", 3))
    driver.settle()
    assert len(running(driver)) == 3


@EACH
@pytest.mark.parametrize(
    "change", [{"node_name": None}, {"deleted_at": 1.0}], ids=["without a node", "deleted"]
)
def test_pod_that_did_not_run_to_its_end_does_not_count(
    unit: SchedulingUnit, change: dict[str, Any]
) -> None:
    driver = host(unit)
    for number in range(2):
        done = evolve(member(str(number)), node_name=NodeName("n"), phase=SUCCEEDED)
        driver.tell(PodAdded(evolve(done, **change)))
    driver.add(member("new"))
    driver.settle()
    assert running(driver) == set()


@EACH
@pytest.mark.parametrize("restarts", [False, True])
def test_succeeded_member_of_a_role_counts_for_its_minimum(
    unit: SchedulingUnit, restarts: bool
) -> None:
    driver = host(unit)
    driver.tell(PodGroupAdded(make_group("g", roles={"ps": 1, "worker": 2})))
    driver.add(*(member("ps", role="ps"), member("w0", role="worker"), member("w1", role="worker")))
    driver.settle()
    assert len(running(driver)) == 3
    finish(driver, "ps", SUCCEEDED)
    for name in ("w0", "w1"):
        driver.delete(f"default/g-{name}")
    if restarts:
        driver.restart(lambda _bind: True)
    driver.add(member("w2", role="worker"))
    driver.settle()
    assert running(driver) == set()
    driver.add(member("w3", role="worker"))
    driver.settle()
    assert running(driver) == {"w2", "w3"}


@EACH
def test_deleted_succeeded_member_still_counts(unit: SchedulingUnit) -> None:
    driver = ended(host(unit), SUCCEEDED, SUCCEEDED, restarts=False)
    driver.delete("default/g-new")
    driver.tell(PodDeleted(PodUID("default/g-0")))
    driver.add(member("again"))
    driver.settle()
    assert running(driver) == {"again"}
