"""Law 10: at rest, a live scheduler, one that is rebuilt and one that is restored decide alike.

A scheduler that was restarted forgets failures. So the order of the queue is that of creation, and
all backoffs are over. It also forgets which member came first where all were created at once; so
the steps that make one member another one are left out.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import evolve
from hypothesis import given

from gangsched import NodeName, Order, PodUID
from support.cores import current_core
from support.driver import Driver
from support.examples import one_in
from support.histories import Policy, histories, policies
from support.history_steps import ChangePod, HistoryStep, PutNode
from support.restored import posted, restored

pytestmark = pytest.mark.once("draws the policy, and the unit with it")

_ANOTHER = frozenset({"relabel", "reclaim", "recast", "seize"})
"""These make a pod another one, which arrives anew."""


def stays(_driver: Driver) -> None:
    """Leave a scheduler as it is."""


def is_rebuilt(driver: Driver) -> None:
    """Replace a scheduler by one that has the listing only."""
    driver.restart(lambda _bind: True)


def is_restored(driver: Driver) -> None:
    """Replace a scheduler by one that has the listing and the snapshot."""
    data = posted(driver.scheduler.snapshot())
    driver.scheduler = restored(driver.make(driver.cluster), data)


def placed(
    policy: Policy, steps: list[HistoryStep], becomes: Callable[[Driver], None]
) -> dict[PodUID, NodeName | None]:
    """Return where pods run after capacity was added to a scheduler at rest."""
    world = policy.world().live(*steps).finish()
    driver = world.driver
    becomes(driver)
    driver.settle()
    driver.advance(driver.now + 100)
    for number, cpu in enumerate((1, 3, 8)):
        world.do(PutNode(6 + number, cpu=cpu, gpu=1, zone="ab"[number % 2]))
        driver.settle()
    return {pod.uid: pod.node_name for pod in driver.cluster.pods()}


@one_in(4)
@given(policies, histories())
def test_scheduler_at_rest_decides_as_a_rebuilt_and_a_restored_one(
    policy: Policy, steps: list[HistoryStep]
) -> None:
    plain = evolve(policy, order=Order.CREATION, backfill=None)
    kept = [s for s in steps if not isinstance(s, ChangePod) or s.how not in _ANOTHER]
    live = placed(plain, kept, stays)
    assert placed(plain, kept, is_restored) == live
    if current_core() != "framework":  # that one prefers nodes in the order of their arrival
        assert placed(plain, kept, is_rebuilt) == live
