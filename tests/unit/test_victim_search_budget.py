"""A search for victims that its budget cuts short: what is done, and what is said."""

from __future__ import annotations

import pytest
from attrs import evolve

from gangsched import (
    Evict,
    GroupKey,
    InMemoryCluster,
    NodeAdded,
    NodeName,
    PodAdded,
    PodUID,
    Preemption,
    VictimSearchExhausted,
    presets,
)
from gangsched.testing import make_node, make_pod


@pytest.mark.parametrize(
    ("budget", "evicted", "notices"),
    [
        (1, 0, [(1, False)]),  # one placement: it fits on no free capacity
        (2, 2, [(2, True)]),  # one more finds victims, and fewer may be enough
        (5, 2, []),
    ],
)
def test_search_that_is_cut_short_is_reported(
    budget: int, evicted: int, notices: list[tuple[int, bool]]
) -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, preemption=Preemption(), search_budget=budget)
    low = [evolve(make_pod(f"low-{n}", cpu=1), node_name=NodeName("n")) for n in range(4)]
    high = [
        make_pod(f"high-{n}", cpu=1, priority=5, group="high", min_available=2) for n in range(2)
    ]
    scheduler.handle(cluster.apply(NodeAdded(make_node("n", cpu=4))), now=0.0)
    for pod in (*low, *high):
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    assert sum(isinstance(each, Evict) for each in effects) == evicted
    key, uid = GroupKey("default/high"), PodUID("default/high-0")
    expected = [VictimSearchExhausted(key, uid, steps, found) for steps, found in notices]
    assert [each for each in effects if isinstance(each, VictimSearchExhausted)] == expected
    why = str(scheduler.why("default/high"))
    assert ("no victims were found within 1 steps, and some may exist" in why) == (evicted == 0)


def test_victims_of_a_search_that_is_cut_short_are_no_more_than_were_found() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, preemption=Preemption(), search_budget=6)
    for node in ("n0", "n1"):
        scheduler.handle(cluster.apply(NodeAdded(make_node(node, cpu=4))), now=0.0)
    rows = [("n0", 1, 2), ("n0", 1, 1), ("n0", 1, 1), ("n0", 1, 2), ("n1", 2, 0), ("n1", 2, 2)]
    for n, (node, cpu, priority) in enumerate(rows):
        pod = evolve(make_pod(f"low-{n}", cpu=cpu, priority=priority), node_name=NodeName(node))
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    for n, cpu in enumerate((1, 1, 3, 1)):
        pod = make_pod(f"high-{n}", cpu=cpu, priority=5, group="high", min_available=4)
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    evicted = sorted(each.uid for each in effects if isinstance(each, Evict))
    assert evicted == [f"default/low-{n}" for n in (1, 2, 4, 5)], "6 CPUs, as high asks for"
