"""Nodes that are all a little different cost a decision no more the more of them there are.

Counted are the calls of plugins and the classes that a decision walks over, not the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from sortedcontainers import SortedList

from gangsched import (
    Bind,
    InMemoryCluster,
    NodeAdded,
    NodeName,
    PlacementStrategy,
    PodAdded,
    Scheduler,
    SchedulingUnit,
    presets,
)
from gangsched.framework.nodes import in_order, ranking
from gangsched.model import Node, Pod
from gangsched.testing import make_pod

GPU = "nvidia.com/gpu"
GiB = 1 << 30


def nodes_of(number: int) -> Iterator[Node]:
    """Return nodes of equal scores, of which each has some KiB of memory of its own."""
    for n in range(number):
        memory = 256 * GiB + 4096 * (n * 7919 % number)
        offers: dict[str, str | int] = {"cpu": 64, "memory": memory, GPU: 8, "pods": 110}
        yield Node(name=NodeName(f"n{n}"), allocatable=offers, labels={"own": f"n{n}"})


def scheduler_of(
    nodes: Iterable[Node], pods: Iterable[Pod], **options: Any
) -> tuple[InMemoryCluster, Scheduler]:
    cluster = InMemoryCluster()
    for node in nodes:
        cluster.apply(NodeAdded(node))
    for pod in pods:
        cluster.apply(PodAdded(pod))
    scheduler = Scheduler(cluster, presets.coscheduling_profile(), **options)
    scheduler.rebuild(now=0.0)
    return cluster, scheduler


def gang(size: int, **requests: Any) -> list[Pod]:
    return [
        make_pod(f"g-{n}", group="g", min_available=size, requests={"cpu": 1, **requests})
        for n in range(size)
    ]


def binds(scheduler: Scheduler) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    while (effects := scheduler.schedule_one(now=0.0)) is not None:
        found += [(e.uid, e.node) for e in effects if isinstance(e, Bind)]
    scheduler._check()
    return found


class Walked:
    """Counts the classes of nodes that are read from an order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.classes = 0
        walked = self

        # sortedcontainers has no types, so its class is Any
        class Counting(SortedList):  # type: ignore[misc]
            def __iter__(self) -> Iterator[Any]:
                for entry in super().__iter__():
                    walked.classes += 1
                    yield entry

            def islice(self, *args: Any, **options: Any) -> Iterator[Any]:
                for entry in super().islice(*args, **options):
                    walked.classes += 1
                    yield entry

        functions = SimpleNamespace(**{**vars(in_order), "made": Counting})
        monkeypatch.setattr(ranking, "in_order", functions)


@pytest.mark.parametrize("number", [20, 200])
@pytest.mark.parametrize(
    ("pods", "most"),
    [
        pytest.param([make_pod(f"p{n}", cpu=1) for n in range(10)], 10, id="single pods"),
        pytest.param(gang(3), 6, id="a gang by score"),
        pytest.param(gang(3, **{GPU: 1}), 6, id="a gang on few nodes"),
        pytest.param(gang(40, **{GPU: 2}), 30, id="a gang on ten full nodes"),
    ],
)
def test_decision_walks_no_more_classes_than_it_uses(
    number: int, pods: list[Pod], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _cluster, scheduler = scheduler_of(nodes_of(number), pods, unit=SchedulingUnit.GROUP)
    warm = scheduler._state.nodes.classes
    assert len(list(warm.occupied())) == number
    walked = Walked(monkeypatch)
    scheduler.rebuild(now=0.0)
    assert len(binds(scheduler)) == len(pods)
    # each order is built once, which looks at every class
    assert walked.classes <= most


def best_by_asking_all(scheduler: Scheduler) -> str:
    """Return the name of the first node with the most free, as if there were no classes."""
    infos = scheduler._state.nodes.infos.values()

    def rank(info: Any) -> tuple[int, int]:
        offers, left = info.node.allocatable, info.free
        shares = [
            100 * (left[n] - (n == "cpu") * 1000) // offers.amount(n) for n in ("cpu", "memory")
        ]
        return (-(sum(shares) // 2), info.index)

    return str(min(infos, key=rank).node.name)


@given(st.lists(st.sampled_from(["1", "2", "7"]), min_size=1, max_size=8), st.integers(2, 6))
def test_first_of_the_best_nodes_is_taken_however_unlike_they_are(
    held: list[str], number: int
) -> None:
    nodes = list(nodes_of(number))
    running = [
        evolve(make_pod(f"r{n}", requests={"cpu": cpu}), node_name=nodes[n % number].name)
        for n, cpu in enumerate(held)
    ]
    pod = make_pod("p", cpu=1)
    _cluster, scheduler = scheduler_of(nodes, [*running, pod])
    wanted = best_by_asking_all(scheduler)
    assert binds(scheduler) == [(pod.uid, wanted)]


@given(
    st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=6),
    st.lists(st.integers(0, 3), min_size=0, max_size=6),
    st.sampled_from(PlacementStrategy),
    st.sampled_from(SchedulingUnit),
)
def test_label_that_another_pod_reads_changes_no_placement(
    sizes: list[int],
    held: list[int],
    placement: PlacementStrategy,
    unit: SchedulingUnit,
) -> None:
    """Whether nodes are one class or each its own, the same nodes are taken."""
    nodes = [
        Node(
            name=NodeName(f"n{n}"),
            allocatable={"cpu": 8, GPU: 4, "pods": 9},
            labels={"own": f"n{n}"},
        )
        for n in range(5)
    ]
    running = [
        evolve(make_pod(f"r{n}", cpu=1, gpu=1), node_name=nodes[at].name)
        for n, at in enumerate(held)
    ]
    pods = [
        make_pod(f"g{g}-{n}", group=f"g{g}", min_available=size, cpu=1, gpu=g % 2)
        for g, size in enumerate(sizes)
        for n in range(size)
    ]
    gated = evolve(
        make_pod("gated", cpu=1), node_selector={"own": "n1"}, scheduling_gates=("wait",)
    )
    found: list[list[tuple[str, str]]] = []
    for more in ([], [gated]):
        _cluster, scheduler = scheduler_of(
            nodes, [*more, *running, *pods], unit=unit, placement=placement
        )
        found.append(binds(scheduler))
    assert found[0] == found[1]
