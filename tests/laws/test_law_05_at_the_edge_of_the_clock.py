"""Law 5: a backoff that is finer than the clock still ends later.

Instants are floating-point numbers: at 1.7e18, which is today in nanoseconds, the next one is 256
later. A backoff of one second is lost in it, and the entity would be tried again at once.
"""

from __future__ import annotations

import math

import pytest

from gangsched import (
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    PodAdded,
    Profile,
    Scheduler,
    Unschedulable,
)
from gangsched.plugins import DefaultBinder, PrioritySort
from gangsched.testing import make_pod
from support.busy import tell
from support.faulty_plugin import FaultyPlugin

pytestmark = pytest.mark.once("regular pods alone")


ENOUGH = 20


@pytest.mark.parametrize("now", [0.0, -1e15, 1e12, 2.0**52, 2.0**53, 1.7e18, 1e300])
def test_entity_that_always_fails_is_tried_a_few_times_and_backs_off(now: float) -> None:
    """F6."""
    cluster, faulty = InMemoryCluster(), FaultyPlugin("permit")
    faulty.answers["permit"] = Unschedulable("no")
    scheduler = Scheduler(cluster, Profile(PrioritySort(), faulty, DefaultBinder()))
    tell(cluster, scheduler, NodeAdded(Node(name=NodeName("n"))), now=now)
    tell(cluster, scheduler, PodAdded(make_pod("p")), now=now)
    tries = 0
    while scheduler.schedule_one(now=now) is not None and tries < ENOUGH:
        tries += 1
    assert tries == 1
    until = scheduler.next_deadline()
    assert until is not None
    assert until >= math.nextafter(now, math.inf)
