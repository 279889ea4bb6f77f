"""Why no tried number of nodes would start a group: what takes the nodes, and what is older."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gangsched import (
    InMemoryCluster,
    Insufficient,
    Node,
    NodeAdded,
    NodeName,
    PodAdded,
    Scheduler,
    gang,
    presets,
)
from gangsched.events import Event
from gangsched.testing import make_pod

GPUS = Node(name=NodeName("m"), allocatable={"gpu": 8})
LAST = "default/g5"


def full(make: Callable[[InMemoryCluster], Scheduler] = presets.gang) -> Scheduler:
    """Return a scheduler whose two nodes are taken by the first of six gangs."""
    cluster = InMemoryCluster()
    scheduler = make(cluster)
    events: list[Event] = [
        NodeAdded(Node(name=NodeName(f"n{n}"), allocatable={"gpu": 8})) for n in range(2)
    ]
    for number in range(6):
        events += gang(f"g{number}", workers=2, requests={"gpu": 8}).events()
    for at, event in enumerate(events):
        scheduler.handle(cluster.apply(event), now=float(at))
        while scheduler.schedule_one(now=float(at)) is not None:
            pass
    scheduler.advance(now=100.0)
    while scheduler.schedule_one(now=100.0) is not None:
        pass
    return scheduler


@pytest.mark.parametrize("make", [presets.gang, presets.coscheduling])
def test_groups_that_take_the_added_nodes_are_counted(
    make: Callable[[InMemoryCluster], Scheduler],
) -> None:
    found = full(make).smallest_change(LAST, GPUS, most=4, now=200.0)
    assert isinstance(found, Insufficient)
    assert found.others_started == 2
    assert ": with 4 of them, 2 other pod groups or pods start; " in str(found)


def test_group_that_is_not_tried_again_has_the_reason_of_its_older_attempt() -> None:
    found = full().smallest_change(LAST, GPUS, most=2, now=200.0)
    assert isinstance(found, Insufficient)
    assert found.is_older
    assert str(found) == (
        "no number of nodes up to 2 of gpu=8 would start pod group default/g5 by t=3m20s: with 2 of"
        " them, 1 other pod group or pod starts; without them, as of 19: pod default/g5-0 does"
        " not fit: 0/2 nodes are available: 2 Insufficient gpu."
    )


def test_reason_of_a_new_attempt_is_given_as_it_is() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    for event in gang("g", workers=2, requests={"gpu": 8}).events():
        scheduler.handle(cluster.apply(event), now=0.0)
    found = scheduler.smallest_change("default/g", GPUS, most=1, now=1.0)
    assert isinstance(found, Insufficient)
    assert (found.is_older, found.others_started) == (False, 0)
    assert "without them" not in str(found)
    assert " them, " not in str(found)


def test_pods_without_a_group_count_among_those_that_start() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    pods = [PodAdded(make_pod(f"s{n}", priority=1, requests={"gpu": 8})) for n in range(3)]
    for event in (*gang("g", workers=2, requests={"gpu": 8}).events(), *pods):
        scheduler.handle(cluster.apply(event), now=0.0)
    found = scheduler.smallest_change("default/g", GPUS, most=4, now=1.0)
    assert isinstance(found, Insufficient)
    assert found.others_started == 3
    assert ": with 4 of them, 3 other pod groups or pods start; pod default/g-1" in str(found)
