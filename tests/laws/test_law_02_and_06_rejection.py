"""Laws 2 and 6: a rejected group is unassumed at once, within one timeout."""

from __future__ import annotations

import pytest

from gangsched import (
    PodWaiting,
)
from support.driver import Driver
from support.gangs import members, node
from support.histories import Policy
from support.shown import nothing_is_assumed


def nothing_is_held(driver: Driver) -> None:
    assert list(driver.scheduler.waiting) == []
    assert nothing_is_assumed(driver.scheduler)
    assert all(info.waiting == info.assumed == 0 for info in driver.scheduler.registry)


@pytest.mark.pod_by_pod("members hold nodes and wait")
def test_members_that_join_later_do_not_prolong_the_attempt() -> None:
    """F26: the timer belongs to the attempt, and starts with its first member that holds."""
    driver = Driver(Policy().make)
    driver.tell(node("n", 2))
    driver.add(*members("g", 3, cpu=1))
    driver.step()
    driver.advance(8.0)
    driver.step()
    waits = [e.deadline for t in driver.log for e in t.effects if isinstance(e, PodWaiting)]
    assert waits == [10.0, 10.0]
    driver.advance(10.0)
    nothing_is_held(driver)
