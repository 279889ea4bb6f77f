"""Members that are gone are freed at once: what was kept of them has no reference to itself."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from gangsched import Bind, Bound, InMemoryCluster, NodeAdded, PodAdded, PodDeleted, presets
from gangsched._core._like_members import LikeMembers
from gangsched.testing import make_node, make_pod


@pytest.fixture
def without_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def kept() -> int:
    return sum(isinstance(found, LikeMembers) for found in gc.get_objects())


@pytest.mark.usefixtures("without_collection")
@pytest.mark.parametrize("make", [presets.gang, presets.coscheduling])
@pytest.mark.parametrize("cpus", [3, 1])
def test_members_that_came_and_went_are_freed_without_a_collection(make: type, cpus: int) -> None:
    cluster = InMemoryCluster()
    scheduler = make(cluster)
    before = kept()
    scheduler.handle(cluster.apply(NodeAdded(make_node("n", cpu=cpus))), now=0.0)
    for number in range(4):
        names = [f"g{number}-{n}" for n in range(3)]
        for name in names:
            pod = make_pod(name, group=f"g{number}", min_available=3, cpu=1)
            scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
        while (effects := scheduler.schedule_one(now=0.0)) is not None:
            for bind in effects:
                if isinstance(bind, Bind):
                    report = cluster.apply(Bound(bind.uid, bind.node, bind.attempt))
                    scheduler.handle(report, now=0.0)
        for name in names:
            scheduler.handle(cluster.apply(PodDeleted(f"default/{name}")), now=0.0)
    assert kept() == before
    scheduler._check()
