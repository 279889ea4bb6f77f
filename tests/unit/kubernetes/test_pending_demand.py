"""The pending demand: which nodes would start which gangs, and how it is measured."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

from gangsched import (
    InMemoryCluster,
    Node,
    NodeAdded,
    Pod,
    PodAdded,
    PodDeleted,
    Scheduler,
    presets,
)
from gangsched.kubernetes import _demand
from gangsched.kubernetes._demand import Demand, DemandMeter, pending_demand
from gangsched.testing import make_pod
from support.patience import HANG

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")


def node(name: str, **amounts: int) -> NodeAdded:
    return NodeAdded(Node(name=name, allocatable=amounts))


def cluster_of(*events: Any) -> tuple[Scheduler, InMemoryCluster]:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    for event in events:
        scheduler.handle(cluster.apply(event), now=0.0)
    while scheduler.schedule_one(now=0.0) is not None:
        pass
    return scheduler, cluster


def gang(name: str, size: int, *, minimum: int | None = None, cpu: int = 1) -> list[PodAdded]:
    least = size if minimum is None else minimum
    pods = (make_pod(f"{name}-{n}", group=name, min_available=least, cpu=cpu) for n in range(size))
    return [PodAdded(pod) for pod in pods]


def test_demand_takes_the_kind_of_which_the_fewest_are_needed() -> None:
    scheduler, cluster = cluster_of(
        node("small-0", cpu=1), node("small-1", cpu=1), node("large", cpu=4), *gang("g", 12)
    )
    (found,) = pending_demand(scheduler, cluster.nodes(), now=0.0)
    assert (found.like.name, found.nodes, found.groups) == ("large-more", 2, ("default/g",))
    assert found.shape == "cpu=4"


def test_rarer_kind_is_chosen_only_if_fewer_are_needed() -> None:
    scheduler, cluster = cluster_of(
        node("large-0", cpu=4), node("large-1", cpu=4), node("small", cpu=1), *gang("g", 12)
    )
    (found,) = pending_demand(scheduler, cluster.nodes(), now=0.0)
    assert (found.like.name, found.nodes) == ("large-0-more", 1)


def test_nodes_of_the_demand_start_all_gangs_that_it_names() -> None:
    scheduler, cluster = cluster_of(
        node("a", cpu=2), node("b", mem=8), *gang("g", 4, cpu=2), *gang("h", 3, cpu=2)
    )
    (found,) = pending_demand(scheduler, cluster.nodes(), now=0.0)
    assert found.nodes == 3 + 3
    assert found.groups == ("default/g", "default/h")
    for n in range(found.nodes):
        scheduler.handle(cluster.apply(node(f"new-{n}", cpu=2)), now=0.0)
    while scheduler.schedule_one(now=0.0) is not None:
        pass
    assert pending_demand(scheduler, cluster.nodes(), now=0.0) == []


@pytest.mark.parametrize(
    "events",
    [
        [*gang("g", 2)],
        [node("a", cpu=2), *gang("g", 2, minimum=3)],
        [node("a", cpu=2), *gang("g", 2)],
        [node("a", cpu=2), *gang("g", 2, cpu=4)],
    ],
    ids=["no node to be like", "members are missing", "it fits", "no node takes a member"],
)
def test_there_is_no_demand_where_nodes_do_not_help(events: list[Any]) -> None:
    scheduler, cluster = cluster_of(*events)
    assert pending_demand(scheduler, cluster.nodes(), now=0.0) == []


def test_gang_is_left_out_if_its_nodes_would_go_to_one_before_it() -> None:
    """With 5 new nodes, ``first`` takes 4 of them, and ``third`` starts instead of ``second``."""
    full = PodAdded(Pod(name="full", requests={"cpu": 1}, node_name="a"))
    gangs = [*gang("first", 4), *gang("second", 3), *gang("third", 1)]
    scheduler, cluster = cluster_of(node("a", cpu=1), full, *gangs)
    (found,) = pending_demand(scheduler, cluster.nodes(), now=0.0, most=3)
    assert (found.nodes, found.groups) == (3, ("default/second",))


def test_limits_bound_what_is_asked() -> None:
    scheduler, cluster = cluster_of(node("a", cpu=1), *gang("g", 5), *gang("h", 5))
    assert pending_demand(scheduler, cluster.nodes(), now=0.0, most=3) == []
    (one,) = pending_demand(scheduler, cluster.nodes(), now=0.0, groups=1)
    assert one.groups == ("default/g",)
    assert pending_demand(scheduler, cluster.nodes(), now=0.0, kinds=0) == []


def test_meter_goes_on_when_a_gang_vanishes_between_two_questions() -> None:
    scheduler, cluster = cluster_of(node("a", cpu=1), node("b", mem=1), *gang("g", 3))

    async def give_way(_at: float) -> None:
        for pod in list(cluster.pods()):
            scheduler.handle(cluster.apply(PodDeleted(pod.uid)), now=0.0)

    meter = DemandMeter(
        scheduler, cluster.nodes, lambda: 0.0, give_way, lambda _found: None, interval=1.0
    )
    assert asyncio.run(meter.measure()) == []


def test_meter_gives_way_before_each_question_and_shows_each_result() -> None:
    scheduler, cluster = cluster_of(node("a", cpu=1), *gang("g", 3), *gang("h", 3))
    shown: list[Sequence[Demand]] = []
    given: list[None] = []

    async def give_way(_at: float) -> None:
        given.append(None)

    async def run() -> None:
        meter = DemandMeter(
            scheduler, cluster.nodes, lambda: 0.0, give_way, shown.append, interval=0.001
        )
        task = asyncio.create_task(meter.run())
        async with asyncio.timeout(HANG):
            while len(shown) < 2:
                await asyncio.sleep(0.001)
        task.cancel()

    asyncio.run(run())
    assert shown[0] == shown[1] == pending_demand(scheduler, cluster.nodes(), now=0.0)
    assert len(given) >= 4


def test_question_that_is_slow_ends_the_measurement_and_the_next_begins_much_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler, cluster = cluster_of(node("a", cpu=1), *gang("g", 3))
    now = iter(range(1000))
    monkeypatch.setattr(time, "thread_time", lambda: float(next(now)))
    pauses: list[float] = []
    questions: list[None] = []
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        if seconds:
            pauses.append(seconds)
        if len(pauses) > 2:
            raise asyncio.CancelledError
        await real(0)

    async def give_way(_at: float) -> None:
        questions.append(None)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    shown: list[Sequence[Demand]] = []
    meter = DemandMeter(scheduler, cluster.nodes, lambda: 0.0, give_way, shown.append, interval=1.0)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(meter.run())
    assert pauses == [1.0, 200.0, 200.0]
    assert shown == [[], []]
    assert len(questions) == 2
    assert "not measured for 200 s: a question took 1.0 s" in caplog.text


@pytest.mark.parametrize("size", [3, 4], ids=["like", "unlike"])
def test_nothing_is_asked_while_too_many_gangs_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, size: int
) -> None:
    """A question copies the scheduler, and nothing is decided meanwhile."""
    monkeypatch.setattr(_demand, "MOST_WAITING", 2)
    scheduler, cluster = cluster_of(node("a", cpu=1), *gang("g", 2), *gang("h", 3))
    questions: list[None] = []

    async def give_way(_at: float) -> None:
        questions.append(None)

    meter = DemandMeter(
        scheduler, cluster.nodes, lambda: 0.0, give_way, lambda _found: None, interval=1.0
    )
    assert len(asyncio.run(meter.measure())) == 1
    assert len(questions) > 2
    for event in gang("i", size):
        scheduler.handle(cluster.apply(event), now=0.0)
    scheduler.schedule_one(now=0.0)
    questions.clear()
    for _twice in range(2):
        assert asyncio.run(meter.measure()) == []
    assert len(questions) == 2
    assert len(caplog.records) == 1
