"""The pending demand: which nodes would start which gangs, and how it is measured."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from itertools import count
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
from gangsched.kubernetes import Settings, _demand
from gangsched.kubernetes._demand import DemandMeter, PendingDemand, pending_demand
from gangsched.kubernetes._measure import Measures
from gangsched.testing import make_pod
from support.patience import until_on_loop

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

SAMPLE = re.compile(r"^(gangsched_pending_demand\w*)\{(.*)\} ([\d.]+)$", re.MULTILINE)


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


class Meter:
    """A meter; counts its questions, and keeps what it shows."""

    def __init__(
        self,
        scheduler: Scheduler,
        cluster: InMemoryCluster,
        before: Callable[[], object] = lambda: None,
        interval: float = 1.0,
    ) -> None:
        self.questions = 0
        self.shown: list[Sequence[PendingDemand]] = []

        async def give_way(_at: float) -> None:
            self.questions += 1
            before()

        self.meter = DemandMeter(
            *(scheduler, cluster.nodes, lambda: 0.0, give_way, self.shown.append), interval=interval
        )


@pytest.mark.parametrize(
    ("large", "small", "like", "count"), [(1, 2, "large0-more", 2), (2, 1, "large0-more", 1)]
)
def test_demand_takes_the_kind_of_which_the_fewest_are_needed(
    large: int, small: int, like: str, count: int
) -> None:
    nodes = [node(f"large{n}", cpu=4) for n in range(large)]
    nodes += [node(f"small{n}", cpu=1) for n in range(small)]
    scheduler, cluster = cluster_of(*nodes, *gang("g", 12))
    (found,) = pending_demand(scheduler, cluster.nodes(), now=0.0)
    assert (found.like.name, found.nodes, found.groups) == (like, count, ("default/g",))
    assert found.shape == "cpu=4"


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

    def give_way() -> None:
        for pod in list(cluster.pods()):
            scheduler.handle(cluster.apply(PodDeleted(pod.uid)), now=0.0)

    assert asyncio.run(Meter(scheduler, cluster, give_way).meter.measure()) == []


def test_meter_gives_way_before_each_question_and_shows_each_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "thread_time", lambda: 0.0)  # no question is slow, on any machine
    scheduler, cluster = cluster_of(node("a", cpu=1), *gang("g", 3), *gang("h", 3))
    meter = Meter(scheduler, cluster, interval=0.001)

    async def run() -> None:
        task = asyncio.create_task(meter.meter.run())
        await until_on_loop(lambda: len(meter.shown) >= 2)
        task.cancel()

    asyncio.run(run())
    expected = pending_demand(scheduler, cluster.nodes(), now=0.0)
    assert meter.shown[:2] == [expected, expected]
    assert meter.questions >= 4


def test_question_that_is_slow_ends_the_measurement_and_the_next_begins_much_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler, cluster = cluster_of(node("a", cpu=1), *gang("g", 3))
    now = iter(range(1000))
    monkeypatch.setattr(time, "thread_time", lambda: float(next(now)))
    pauses: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        if seconds:
            pauses.append(seconds)
        if len(pauses) > 2:
            raise asyncio.CancelledError
        await real(0)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    meter = Meter(scheduler, cluster)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(meter.meter.run())
    assert pauses == [1.0, 200.0, 200.0]
    assert meter.shown == [[], []]
    assert meter.questions == 2
    assert "not measured for 200 s: a question took 1.0 s" in caplog.text


@pytest.mark.parametrize("size", [3, 4], ids=["like", "unlike"])
def test_nothing_is_asked_while_too_many_gangs_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, size: int
) -> None:
    """A question copies the scheduler, and nothing is decided meanwhile."""
    monkeypatch.setattr(_demand, "MOST_WAITING", 2)
    scheduler, cluster = cluster_of(node("a", cpu=1), *gang("g", 2), *gang("h", 3))

    meter = Meter(scheduler, cluster)
    assert len(asyncio.run(meter.meter.measure())) == 1
    assert meter.questions > 2
    for event in gang("i", size):
        scheduler.handle(cluster.apply(event), now=0.0)
    scheduler.schedule_one(now=0.0)
    meter.questions = 0
    for _twice in range(2):
        assert asyncio.run(meter.meter.measure()) == []
    assert meter.questions == 2
    assert len(caplog.records) == 1


def test_meter_rests_ten_times_as_long_as_a_question_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheduler, cluster = cluster_of(node("a", cpu=1), *gang("g", 3))
    instants, slept = count(0.0, 0.1), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("time.thread_time", lambda: next(instants))
    monkeypatch.setattr("asyncio.sleep", sleep)
    meter = Meter(scheduler, cluster)
    assert len(asyncio.run(meter.meter.measure())) == 1
    rests = [seconds for seconds in slept if seconds]
    assert len(rests) == meter.questions - 1 > 1
    assert rests == pytest.approx([1.0] * len(rests))


# As plain data and as a metric ------------------------------------------------------------------


def demand_of(size: int, *names: str) -> PendingDemand:
    scheduler, cluster = cluster_of(
        node("a", cpu=1), *(e for name in names for e in gang(name, size))
    )
    (found,) = pending_demand(scheduler, cluster.nodes(), now=0.0)
    return found


def samples(measures: Measures) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return labels and value of each sample of the demand, by the name of the metric."""
    page = measures.pages(list)["/metrics"]().body.decode()
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for name, labels, value in SAMPLE.findall(page):
        named = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels))
        found.setdefault(name, []).append((named, float(value)))
    return found


def test_demand_says_how_many_nodes_each_gang_adds() -> None:
    found = demand_of(3, "g", "h")
    # the node that is there is enough for one member of the first gang
    assert found.gangs == (("default/g", 2), ("default/h", 3))
    assert found.to_dict()["groups"] == [*found.groups] == ["default/g", "default/h"]
    assert found.to_dict()["nodes"] == found.nodes == 5


def test_metric_names_the_gangs_that_nodes_would_start_and_no_others() -> None:
    pytest.importorskip("prometheus_client")
    measures = Measures(Settings())
    measures.demand([demand_of(3, "g", "h")])
    shown = samples(measures)
    ((total, nodes),) = shown["gangsched_pending_demand"]
    gangs = shown["gangsched_pending_demand_by_group"]
    assert [(labels["group"], count) for labels, count in gangs] == [
        ("default/g", 2.0),
        ("default/h", 3.0),
    ]
    for labels, _count in gangs:
        assert {n: v for n, v in labels.items() if n != "group"} == total, "they can be joined"
    assert nodes == 5
    measures.demand([demand_of(2, "h")])
    (one,) = samples(measures)["gangsched_pending_demand_by_group"]
    assert one[0]["group"] == "default/h"
    measures.demand([])
    assert samples(measures) == {}
