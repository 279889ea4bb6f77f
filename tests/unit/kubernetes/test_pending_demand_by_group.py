"""Which gangs the nodes of the pending demand would start, as plain data and as a metric."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gangsched import InMemoryCluster, Node, NodeAdded, PodAdded, Scheduler, presets
from gangsched.kubernetes import Settings
from gangsched.kubernetes._demand import MOST_GANGS, Demand, pending_demand
from gangsched.kubernetes._measure import Measures
from gangsched.testing import make_pod

pytest.importorskip("prometheus_client")
pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

SAMPLE = re.compile(r"^(gangsched_pending_demand\w*)\{(.*)\} ([\d.]+)$", re.MULTILINE)


def cluster_of(gangs: int, *, size: int = 2) -> tuple[Scheduler, InMemoryCluster]:
    """Return a cluster with a node of one CPU, and gangs that wait for more."""
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    events: list[Any] = [NodeAdded(Node(name="a", allocatable={"cpu": 1}))]
    for gang in range(gangs):
        for n in range(size):
            pod = make_pod(f"g{gang}-{n}", group=f"g{gang}", min_available=size, cpu=1)
            events.append(PodAdded(pod))
    for event in events:
        scheduler.handle(cluster.apply(event), now=0.0)
    while scheduler.schedule_one(now=0.0) is not None:
        pass
    return scheduler, cluster


def demand_of(gangs: int, **named: int) -> list[Demand]:
    scheduler, cluster = cluster_of(gangs, **named)
    return pending_demand(scheduler, cluster.nodes(), now=0.0)


def samples(measures: Measures) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return labels and value of each sample of the demand, by the name of the metric."""
    page = measures.pages(list)["/metrics"]().body.decode()
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for name, labels, value in SAMPLE.findall(page):
        named = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels))
        found.setdefault(name, []).append((named, float(value)))
    return found


def test_demand_says_how_many_nodes_each_gang_adds() -> None:
    (found,) = demand_of(2, size=3)
    # the node that is there is enough for one member of the first gang
    assert found.gangs == (("default/g0", 2), ("default/g1", 3))
    assert (found.nodes, found.groups) == (5, ("default/g0", "default/g1"))
    assert found.to_dict()["groups"] == ["default/g0", "default/g1"]
    assert found.to_dict()["nodes"] == 5


def test_metric_names_the_gangs_that_nodes_would_start() -> None:
    measures = Measures(Settings())
    (found,) = demand_of(2, size=3)
    measures.demand([found])
    shown = samples(measures)
    (total,) = shown["gangsched_pending_demand"]
    gangs = shown["gangsched_pending_demand_by_group"]
    assert [(labels["group"], nodes) for labels, nodes in gangs] == [
        ("default/g0", 2.0),
        ("default/g1", 3.0),
    ]
    for labels, _nodes in gangs:
        assert {n: v for n, v in labels.items() if n != "group"} == total[0], "they can be joined"
    assert sum(nodes for _labels, nodes in gangs) == total[1]


def test_gang_that_needs_no_nodes_any_more_has_no_series() -> None:
    measures = Measures(Settings())
    measures.demand(demand_of(2))
    measures.demand(demand_of(1))
    assert [
        each["group"] for each, _n in samples(measures)["gangsched_pending_demand_by_group"]
    ] == ["default/g0"]
    measures.demand([])
    assert samples(measures) == {}


def test_number_of_series_is_bounded_by_the_gangs_that_are_looked_at() -> None:
    measures = Measures(Settings())
    measures.demand(demand_of(MOST_GANGS + 4, size=2))
    assert len(samples(measures)["gangsched_pending_demand_by_group"]) == MOST_GANGS
