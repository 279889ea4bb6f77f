"""The report: who never fits, and what the accounts say."""

from __future__ import annotations

import pytest
from attrs import evolve

from gangsched import (
    Event,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodUpdated,
    Resources,
    presets,
)
from gangsched.simulation import Arrival, Report, Simulator, Workload, report
from gangsched.testing import make_pod


def node(name: str, gpu: int = 4) -> NodeAdded:
    return NodeAdded(Node(name=NodeName(name), allocatable={"nvidia.com/gpu": gpu}))


def run(*events: Event | tuple[float, Event], until: float = 100.0) -> tuple[Simulator, Report]:
    arrivals = [e if isinstance(e, tuple) else (0.0, e) for e in events]
    workload = Workload(tuple(Arrival(at, event) for at, event in arrivals))
    simulator = Simulator(workload, presets.coscheduling)
    simulator.run(until=until)
    simulator.jobs._check()
    return simulator, report(simulator)


def test_who_is_gated_or_only_waits_is_not_said_never_to_fit() -> None:
    gated = evolve(make_pod("gated", gpu=4), scheduling_gates=("later",))
    running = [PodAdded(make_pod(f"running-{n}", gpu=4)) for n in range(2)]
    waits = PodAdded(make_pod("waits", gpu=4))
    _simulator, result = run(node("a"), node("b"), PodAdded(gated), *running, waits)
    assert result.summary.never_fit == ()
    assert result.summary.singles.pending == 2


def test_who_asks_for_more_than_there_is_never_fits() -> None:
    huge: list[Pod] = [make_pod(f"h-{n}", group="h", min_available=3, gpu=4) for n in range(3)]
    _simulator, result = run(node("a"), node("b"), *(PodAdded(pod) for pod in huge))
    assert result.summary.never_fit == ("default/h",)


def test_gangs_that_differ_in_their_members_roles_alone_are_told_apart() -> None:
    """Of one the small pod is the server, of the other the one that fills a node."""
    arrivals: list[Event] = [node("a"), PodAdded(make_pod("runs", gpu=4, priority=1))]
    for name, server in (("a", 0), ("b", 2)):
        arrivals.append(PodGroupAdded(PodGroup(name=name, roles={"ps": 1, "worker": 1})))
        for n, gpu in enumerate((1, 1, 4)):
            role = "ps" if n == server else "worker"
            arrivals.append(PodAdded(make_pod(f"{name}-{n}", group=name, role=role, gpu=gpu)))
    _simulator, result = run(*arrivals)
    assert result.summary.never_fit == ("default/b",)


def test_a_gang_of_which_a_member_is_refused_is_incomplete_not_too_large() -> None:
    pods = [make_pod(f"g-{n}", group="g", min_available=2, gpu=1, priority=n) for n in range(2)]
    _simulator, result = run(node("a"), *(PodAdded(pod) for pod in pods))
    assert result.summary.never_fit == ()
    assert result.summary.gangs.pending == 1


def test_a_pod_that_asks_for_more_while_it_runs_is_accounted_for() -> None:
    pod = make_pod("p", gpu=1)
    grown = evolve(pod, requests=Resources({"nvidia.com/gpu": 2}), node_name=NodeName("a"))
    simulator, _result = run(
        node("a"), PodAdded(pod), (10.0, PodUpdated(grown)), (20.0, PodDeleted(pod.uid))
    )
    assert simulator.jobs.used.amounts() == Resources()
    assert simulator.jobs.used.areas(now=100.0) == {"nvidia.com/gpu": 10 * 1 + 10 * 2}


def test_who_runs_on_a_node_that_goes_is_gone_with_it() -> None:
    simulator, result = run(
        node("a"), PodAdded(make_pod("p", gpu=1)), (10.0, NodeDeleted(NodeName("a")))
    )
    assert list(simulator.cluster.pods()) == []
    assert result.summary.utilisation["nvidia.com/gpu"] == pytest.approx(1 / 4)
