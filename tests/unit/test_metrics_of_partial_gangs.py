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
from gangsched.explain import PartlyRunning
from gangsched.metrics import Metrics
from gangsched.model import Node, NodeName, Pod, PodUID

prometheus_client = pytest.importorskip("prometheus_client")
STATES = ("incomplete", "pending", "waiting", "started", "partly_running")


class Run:
    """A scheduler of one gang of two members, with the samples of its metrics."""

    def __init__(self, *, cpu: int = 2, bound: tuple[str, ...] = ()) -> None:
        self.registry: Any = prometheus_client.CollectorRegistry()
        self.cluster = InMemoryCluster()
        self.cluster.apply(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": cpu})))
        self.scheduler = Metrics(self.registry).watch(presets.gang(self.cluster))
        self.scheduler.rebuild(now=0.0)
        for name in ("a", "b"):
            node = NodeName("n") if name in bound else None
            pod = Pod(name=name, pod_group="g", min_available=2, requests={"cpu": 1})
            self.tell(PodAdded(evolve(pod, node_name=node)))
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


def test_gang_found_with_some_members_on_nodes_is_counted_as_partly_running() -> None:
    """Another scheduler was killed between two binds, and the rest does not fit."""
    run = Run(cpu=1, bound=("a",))
    assert run.states() == {"partly_running": 1}
    why = run.scheduler.scheduler.why("default/g")
    assert isinstance(why, PartlyRunning)
    assert str(why).startswith("runs in part: 1 of 2 members hold nodes; the rest: ")
    assert (why.pending, why.is_below_minimum) == (1, True)


def test_gang_found_with_some_members_on_nodes_is_started_when_the_rest_fits() -> None:
    assert Run(bound=("a",)).states() == {"started": 1}


def test_gang_without_a_member_on_a_node_is_counted_as_pending() -> None:
    assert Run(cpu=1).states() == {"pending": 1}
