"""How many packages and files of the framework a call passes through, and how often it returns.

A *return* is a call that enters a package which the walk has left before. The figures are printed,
and must not grow: a walk that comes back again and again has its decision in the wrong package, and
a file that only passes a call on adds a place to read. The issue that asked for the figures aims at
8 packages and 15 returns. ``pytest -s tests/architecture/test_walks.py`` shows them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import groupby, pairwise
from types import FrameType
from typing import Any

import pytest

from gangsched import Bind, Bound, InMemoryCluster, NodeAdded, PodAdded, SchedulingUnit, presets
from gangsched.testing import make_node, make_pod

MARK = "/gangsched/framework/"


def entered(call: Callable[[], object]) -> list[str]:
    """Return the files of the framework that a call enters, in order, by the path from there."""
    found: list[str] = []

    def profile(frame: FrameType, event: str, _argument: Any) -> None:
        path = frame.f_code.co_filename.replace("\\", "/")
        if event == "call" and MARK in path:
            found.append(path.partition(MARK)[2])

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def walk(files: list[str]) -> list[str]:
    """Return the packages that a call enters, in order, each stay once."""
    return [package for package, _stay in groupby(each.partition("/")[0] for each in files)]


def figures(call: Callable[[], object]) -> tuple[int, int, int]:
    """Return the number of packages of a walk, of its returns, and of its files."""
    files = entered(call)
    stays = walk(files)
    return len(set(stays)), len(stays) - len(set(stays)), len(set(files))


def measured(unit: SchedulingUnit) -> dict[str, tuple[int, int, int]]:
    """Return the figures of the walks of one small gang."""
    cluster = InMemoryCluster()
    scheduler = presets.coscheduling(cluster, unit=unit)
    for n in range(3):
        scheduler.handle(cluster.apply(NodeAdded(make_node(f"n{n}", gpu=1))), now=0.0)
    first, second = (make_pod(f"g-{n}", group="g", min_available=2, gpu=1) for n in range(2))
    scheduler.handle(cluster.apply(PodAdded(first)), now=0.0)
    found: dict[str, tuple[int, int, int]] = {}
    added = cluster.apply(PodAdded(second))
    found["PodAdded"] = figures(lambda: scheduler.handle(added, now=0.0))
    effects: list[Any] = []
    found["schedule_one"] = figures(lambda: effects.extend(scheduler.schedule_one(now=0.0) or ()))
    while more := scheduler.schedule_one(now=0.0):
        effects += more
    bind = next(effect for effect in effects if isinstance(effect, Bind))
    bound = cluster.apply(Bound(bind.uid, bind.node, bind.attempt))
    found["Bound"] = figures(lambda: scheduler.handle(bound, now=0.0))
    single = cluster.apply(PodAdded(make_pod("single", gpu=1)))
    scheduler.handle(single, now=0.0)
    found["schedule_one of a pod"] = figures(lambda: scheduler.schedule_one(now=0.0))
    scheduler.handle(cluster.apply(PodAdded(make_pod("large", gpu=5))), now=0.0)
    found["schedule_one that fails"] = figures(lambda: scheduler.schedule_one(now=0.0))
    node = cluster.apply(NodeAdded(make_node("n9", gpu=8)))
    found["NodeAdded that requeues"] = figures(lambda: scheduler.handle(node, now=100.0))
    return found


MOST: dict[SchedulingUnit, dict[str, tuple[int, int, int]]] = {
    SchedulingUnit.POD: {
        "PodAdded": (7, 13, 24),
        "schedule_one": (9, 30, 27),
        "Bound": (7, 18, 23),
        "schedule_one of a pod": (9, 23, 22),
        "schedule_one that fails": (9, 17, 21),
        "NodeAdded that requeues": (7, 19, 24),
    },
    SchedulingUnit.GROUP: {
        "PodAdded": (7, 13, 24),
        "schedule_one": (9, 56, 37),
        "Bound": (7, 18, 23),
        "schedule_one of a pod": (9, 28, 23),
        "schedule_one that fails": (9, 20, 23),
        "NodeAdded that requeues": (7, 19, 24),
    },
}
"""Packages, returns and files of each walk, at most."""


@pytest.mark.parametrize("unit", list(SchedulingUnit))
def test_walks_pass_through_few_packages_and_seldom_return(unit: SchedulingUnit) -> None:
    for name, found in measured(unit).items():
        packages, returns, files = found
        print(f"{unit.value:5} {name:24} {packages} packages, {returns:2} returns, {files:2} files")
        assert all(each <= most for each, most in zip(found, MOST[unit][name], strict=True)), name


def test_walk_counts_each_stay_once() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.pod_by_pod(cluster)
    files = entered(lambda: scheduler.advance(now=0.0))
    stays = walk(files)
    assert stays[0] == "scheduler.py"
    assert all(one != other for one, other in pairwise(stays))
    assert walk(["a/b.py", "a/c.py", "d/e.py", "a/b.py"]) == ["a", "d", "a"]
