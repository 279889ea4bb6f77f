"""The gauge of groups by state tells a gang that runs from one of which members are missing."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    InMemoryCluster,
    NodeAdded,
    PodAdded,
    PodDeleted,
    PodPhase,
    PodUpdated,
    presets,
)
from gangsched.events import Bind, Bound
from gangsched.metrics import Metrics
from gangsched.model import Node, NodeName, Pod, PodUID

prometheus_client = pytest.importorskip("prometheus_client")
STATES = ("incomplete", "pending", "waiting", "started", "partly_running")


class Run:
    """A scheduler of one gang of two members, with the samples of its metrics."""

    def __init__(self) -> None:
        self.registry: Any = prometheus_client.CollectorRegistry()
        self.cluster = InMemoryCluster()
        self.cluster.apply(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 2})))
        self.scheduler = Metrics(self.registry).watch(presets.gang(self.cluster))
        self.scheduler.rebuild(now=0.0)
        for name in ("a", "b"):
            pod = Pod(name=name, pod_group="g", min_available=2, requests={"cpu": 1})
            self.tell(PodAdded(pod))
        while (effects := self.scheduler.schedule_one(now=0.0)) is not None:
            for bind in effects:
                if isinstance(bind, Bind):
                    self.tell(Bound(bind.uid, bind.node, bind.attempt))

    def tell(self, event: Any) -> None:
        self.scheduler.handle(self.cluster.apply(event), now=0.0)

    def states(self) -> dict[str, float]:
        samples = {
            state: self.registry.get_sample_value(
                "gangsched_groups", {"profile": "gangsched", "state": state}
            )
            for state in STATES
        }
        return {state: count for state, count in samples.items() if count}


def test_gang_with_its_minimum_on_nodes_is_counted_as_started() -> None:
    assert Run().states() == {"started": 1}


def test_started_gang_that_lost_a_member_is_counted_as_partly_running() -> None:
    run = Run()
    run.tell(PodDeleted(PodUID("default/b")))
    assert run.states() == {"partly_running": 1}


def test_started_gang_of_which_a_member_succeeded_is_counted_as_started() -> None:
    run = Run()
    pod = run.cluster.pod(PodUID("default/b"))
    assert isinstance(pod, Pod)
    run.tell(PodUpdated(evolve(pod, phase=PodPhase.SUCCEEDED)))
    assert run.states() == {"started": 1}
