"""Rows 69 to 80: whole histories, on one node of memory 300.

Members wait for three seconds by default and for ten in their groups. A history runs twice if its
end does not depend on it: once with all pods there before the first decision, once with each pod
tried on arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain, zip_longest

import pytest

from gangsched import (
    Backoff,
    NodeAdded,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodScheduled,
    PodWaiting,
)
from support.conformance import gang, machine, row, rows, worker
from support.driver import Driver
from support.units import coscheduling

LOW, MID, HIGH = 0, 100, 1000
Order = Callable[..., list[Pod]]


def crowd(
    name: str, size: int, memory: int, *, priority: int = LOW, group: bool = True
) -> list[Pod]:
    """Return pods that ask for *memory* each; members of one group, or regular pods."""
    return [
        worker(
            f"{name}-{number}",
            name if group else None,
            priority=priority,
            requests={"memory": memory},
        )
        for number in range(size)
    ]


def in_turn(*crowds: Sequence[Pod]) -> list[Pod]:
    """Return one pod of each, then the next of each."""
    return [pod for round_ in zip_longest(*crowds) for pod in round_ if pod is not None]


def one_after_the_other(*crowds: Sequence[Pod]) -> list[Pod]:
    """Return all pods of the first, then all of the next."""
    return list(chain(*crowds))


def groups_of(
    pods: Iterable[Pod], minima: dict[str, int], memory: dict[str, int]
) -> list[PodGroup]:
    """Return the specifications of the groups in a story."""
    priorities = {pod.name.rpartition("-")[0]: pod.priority for pod in pods}
    return [
        gang(
            name,
            minimum,
            schedule_timeout=10.0,
            priority=priorities[name],
            min_resources={"memory": memory[name]} if name in memory else {},
        )
        for name, minimum in minima.items()
    ]


def tell(
    pods: list[Pod],
    minima: dict[str, int],
    *,
    memory: dict[str, int] | None = None,
    eager: bool = False,
) -> Driver:
    """Let pods arrive in this order, and run until the scheduler is idle."""
    driver = Driver(partial(coscheduling, permit_timeout=3.0), permit_timeout=3.0)
    driver.tell(NodeAdded(machine("n1", memory=300)))
    for group in groups_of(pods, minima, memory or {}):
        driver.tell(PodGroupAdded(group))
    for pod in pods:
        driver.tell(PodAdded(pod))
        if eager:
            driver.drain()
    driver.settle()
    return driver


def placed(driver: Driver) -> list[str]:
    """Return the names of the pods that have a node in the end."""
    return sorted(pod.name for pod in driver.cluster.pods() if pod.node_name)


def names(pods: Iterable[Pod]) -> list[str]:
    return sorted(pod.name for pod in pods)


def held(driver: Driver) -> set[str]:
    """Return the groups whose members ever held a node without an immediate release."""
    said = (effect for told in driver.log for effect in told.effects)
    uids = (effect.uid for effect in said if isinstance(effect, PodWaiting))
    return {uid.partition("/")[2].rpartition("-")[0] for uid in uids}


# Of equal priority ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrange", "sizes", "minima", "memory"),
    [
        row(69, one_after_the_other, {"ivy": (3, 50), "gum": (4, 100)}, {"ivy": 3, "gum": 4}, {}),
        row(70, in_turn, {"ivy": (3, 50), "gum": (4, 100)}, {"ivy": 3, "gum": 4}, {}),
        row(
            73,
            in_turn,
            {"ivy": (3, 50), "gum": (4, 100), "fig": (4, 100)},
            {"ivy": 3, "gum": 4, "fig": 4},
            {},
        ),
        row(
            74,
            in_turn,
            {"ivy": (3, 50), "gum": (4, 100), "fig": (4, 100)},
            {"ivy": 3, "gum": 4, "fig": 4},
            {"ivy": 150, "gum": 400, "fig": 400},
        ),
        row(
            75,
            in_turn,
            {"ivy": (3, 50), "gum": (4, 100)},
            {"ivy": 3, "gum": 4},
            {"ivy": 150, "gum": 400},
        ),
    ],
)
def test_group_that_fits_is_scheduled_in_any_company(
    arrange: Order,
    sizes: dict[str, tuple[int, int]],
    minima: dict[str, int],
    memory: dict[str, int],
) -> None:
    """Rows 69, 70 and 73 to 75, F1, F4; with a need in all, the others never hold anything."""
    crowds = [crowd(name, *size) for name, size in sizes.items()]
    for eager in (False, True):
        driver = tell(arrange(*crowds), minima, memory=memory, eager=eager)
        assert placed(driver) == names(crowds[0])
        assert held(driver) <= {"ivy"} or not memory


@rows(71)
def test_incomplete_group_keeps_no_regular_pod_from_its_node() -> None:
    ivy, alone = crowd("ivy", 3, 50), crowd("alone", 2, 100, group=False)
    pods = [ivy[0], alone[0], ivy[1], alone[1], ivy[2]]
    for eager in (False, True):
        driver = tell(pods, {"ivy": 4}, eager=eager)
        assert placed(driver) == names(alone)
        assert held(driver) == set()


# Of different priorities ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrange", "minima", "grouped"),
    [
        row(72, one_after_the_other, {"ivy": 3, "gum": 3}, True),
        row(79, in_turn, {"ivy": 3, "gum": 3}, True),
        row(80, in_turn, {"ivy": 3}, False),
    ],
)
def test_urgent_pods_are_scheduled_first_however_late_they_arrive(
    arrange: Order, minima: dict[str, int], grouped: bool
) -> None:
    """Rows 72, 79 and 80, F9: urgency is looked at when a decision is made."""
    need = (100, 50) if grouped else (50, 100)
    ivy = crowd("ivy", 3, need[0], priority=MID)
    gum = crowd("gum", 3, need[1], priority=HIGH, group=grouped)
    driver = tell(arrange(ivy, gum), minima)
    assert placed(driver) == names(gum)


@rows(78)
def test_histories_end_alike_when_every_pod_takes_a_third_of_the_node() -> None:
    ivy, gum, fig = (crowd(name, size, 100) for name, size in (("ivy", 3), ("gum", 4), ("fig", 4)))
    alone = crowd("alone", 2, 100, group=False)
    late = crowd("late", 3, 100, priority=HIGH)
    early = crowd("early", 3, 100, priority=MID)
    both, three = {"ivy": 3, "gum": 4}, {"ivy": 3, "gum": 4, "fig": 4}

    for eager in (False, True):
        for arrange in (one_after_the_other, in_turn):  # as rows 69 and 70
            assert placed(tell(arrange(ivy, gum), both, eager=eager)) == names(ivy)
        between = [ivy[0], alone[0], ivy[1], alone[1], ivy[2]]  # as row 71
        assert placed(tell(between, {"ivy": 4}, eager=eager)) == names(alone)
        driver = tell(in_turn(ivy, gum, fig), three, eager=eager)  # as row 73
        assert placed(driver) == names(ivy)
    driver = tell(one_after_the_other(early, late), {"early": 3, "late": 3})  # as row 72
    assert placed(driver) == names(late)


# Giving way, and being complete ---------------------------------------------------------------


@rows(76)
def test_group_that_cannot_be_completed_yields_to_one_that_fits() -> None:
    """F5, F6. Within two minutes, says the row; here in the instant in which it comes."""
    ivy = [worker(f"ivy-{number}", "ivy", requests={"cpu": 4}) for number in range(6)]
    gum = worker("gum-0", "gum", requests={"cpu": 2})
    make = partial(coscheduling, permit_timeout=3.0, backoff=Backoff(1, 1))
    for eager in (False, True):
        driver = Driver(make, permit_timeout=3.0)
        driver.tell(*(NodeAdded(machine(f"n{n}", cpu=cpu)) for n, cpu in enumerate((6, 2, 2, 2))))
        for name, minimum in (("ivy", 6), ("gum", 1)):
            driver.tell(PodGroupAdded(gang(name, minimum, schedule_timeout=10.0)))
        driver.add(*ivy)
        if eager:
            driver.drain()
        driver.add(gum)
        driver.settle()

        assert placed(driver) == ["gum-0"]
        (bound_at,) = (
            told.now
            for told in driver.log
            for effect in told.effects
            if isinstance(effect, PodScheduled)
        )
        assert bound_at == 0.0


@rows(77)
def test_member_that_has_finished_counts_for_no_quorum() -> None:
    """The node has capacity for all of them: only the quorum keeps them off it."""
    done = worker("ivy-done", "ivy", phase="Succeeded", requests={"memory": 50})
    five = crowd("ivy", 5, 50)
    driver = tell([done, *five], {"ivy": 6})
    driver.advance(10.0)
    driver.settle()
    assert placed(driver) == []
    assert held(driver) == set()

    driver.tell(PodDeleted(done.uid), PodAdded(worker("ivy-5", "ivy", requests={"memory": 50})))
    driver.settle()
    assert placed(driver) == names(crowd("ivy", 6, 50))
