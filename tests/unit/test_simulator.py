"""The simulator: virtual time, run times, binds that take time, what it counts."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    InvalidValueError,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodPhase,
    PodUpdated,
    Resources,
    Scheduler,
    presets,
)
from gangsched.events import Event
from gangsched.simulation import RUN_SECONDS, Arrival, Report, Simulator, Workload, report
from gangsched.testing import make_pod


def node(name: str = "n", gpu: int = 4) -> Node:
    return Node(name=NodeName(name), allocatable={"nvidia.com/gpu": gpu})


def running_for(pod: Pod, seconds: str) -> Pod:
    return evolve(pod, annotations={RUN_SECONDS: seconds})


def gang(name: str, size: int, *, seconds: str, minimum: int | None = None) -> list[Pod]:
    return [
        running_for(
            make_pod(f"{name}-{n}", group=name, min_available=minimum or size, gpu=1), seconds
        )
        for n in range(size)
    ]


def workload(*arrivals: tuple[float, Event]) -> Workload:
    return Workload(tuple(Arrival(at, event) for at, event in arrivals))


def simulate(given: Workload, **options: Any) -> tuple[Simulator, Report]:
    simulator = Simulator(given, presets.coscheduling, **options)
    simulator.run()
    simulator.jobs._check()
    simulator.scheduler._check()
    return simulator, report(simulator)


def test_time_jumps_to_the_next_instant_at_which_something_happens() -> None:
    pods = [(1000.0 * n, PodAdded(running_for(make_pod(f"p{n}", gpu=1), "10"))) for n in range(3)]
    simulator = Simulator(workload((0.0, NodeAdded(node())), *pods), presets.coscheduling)
    instants = []
    while (when := simulator.step()) is not None:
        instants.append(when)
    assert instants == [0.0, 10.0, 1000.0, 1010.0, 2000.0, 2010.0]


def test_gang_runs_from_when_its_quorum_is_bound() -> None:
    arrivals = [(0.0, PodAdded(pod)) for pod in gang("g", 3, seconds="100")]
    simulator, result = simulate(workload(*arrivals, (50.0, NodeAdded(node()))))
    (job,) = simulator.jobs
    assert (job.submitted_at, job.started_at, simulator.now) == (0.0, 50.0, 150.0)
    assert job.is_finished
    assert result.summary.gangs.waiting.max == 50.0


def test_members_of_a_partial_gang_hold_nodes_and_do_not_run() -> None:
    arrivals = [(0.0, PodAdded(pod)) for pod in gang("g", 5, seconds="100")]
    given = workload((0.0, NodeAdded(node())), *arrivals)
    simulator = Simulator(given, presets.pod_by_pod)
    simulator.run(until=30.0)
    summary = report(simulator).summary
    assert summary.wasted == {"nvidia.com/gpu": 4 * 30.0}
    assert summary.utilisation == {"nvidia.com/gpu": 0.0}
    assert summary.deadlock is not None
    assert summary.deadlock.since == 0.0
    assert summary.gangs.partial == 1


def test_used_wasted_and_idle_add_up_to_the_capacity() -> None:
    first = [(0.0, PodAdded(pod)) for pod in gang("a", 3, seconds="40")]
    second = [(10.0, PodAdded(pod)) for pod in gang("b", 3, seconds="60")]
    given = workload((0.0, NodeAdded(node())), *first, *second)
    simulator, result = simulate(given)
    # a uses 3 of 4 for 40 s; b holds the fourth for 10 s uselessly, and runs from 40 to 100
    assert simulator.now == 100.0
    used = result.summary.utilisation["nvidia.com/gpu"]
    assert used == pytest.approx((3 * 40 + 3 * 60) / (4 * 100))
    assert result.summary.wasted == {"nvidia.com/gpu": 10.0}


def test_binds_take_time_and_the_seed_decides_how_long() -> None:
    arrivals = [(0.0, PodAdded(pod)) for pod in gang("g", 3, seconds="10")]
    given = workload((0.0, NodeAdded(node())), *arrivals)
    starts = set()
    for seed in (1, 1, 2):
        simulator, _result = simulate(given, bind_seconds=5.0, seed=seed)
        (job,) = simulator.jobs
        assert job.started_at is not None
        assert 0 < job.started_at < 5
        starts.add(job.started_at)
    assert len(starts) == 2


def test_pod_deleted_during_its_bind_is_gone() -> None:
    pod = running_for(make_pod("p", gpu=1), "10")
    given = workload((0.0, NodeAdded(node())), (0.0, PodAdded(pod)), (0.001, PodDeleted(pod.uid)))
    simulator, result = simulate(given, bind_seconds=5.0)
    assert list(simulator.cluster.pods()) == []
    assert simulator.jobs.used.amounts() == Resources()
    assert result.summary.singles.submitted == 0


def test_pods_that_are_bound_or_have_failed_when_they_are_reported_count() -> None:
    bound = evolve(running_for(make_pod("b", gpu=1), "2"), node_name=NodeName("n"))
    pod = make_pod("p", gpu=3)
    failed = evolve(pod, node_name=NodeName("n"), phase=PodPhase.FAILED)
    simulator, result = simulate(
        workload(
            (0.0, NodeAdded(node())),
            (0.0, PodAdded(pod)),
            (4.0, PodAdded(bound)),
            (7.0, PodUpdated(failed)),
            (8.0, PodAdded(running_for(make_pod("q", gpu=4), "1"))),
        )
    )
    assert simulator.now == 9.0, "the failed pod holds no node"
    assert result.summary.singles.started_whole == 3


def test_gang_whose_minimum_is_in_its_specification_starts_with_that() -> None:
    pods = [evolve(make_pod(f"p{n}", gpu=1), pod_group="g") for n in range(3)]
    given = workload(
        (0.0, NodeAdded(node())),
        *((0.0, PodAdded(pod)) for pod in pods),
        (5.0, PodGroupAdded(PodGroup(name="g", min_available=3))),
    )
    simulator, _result = simulate(given)
    (job,) = simulator.jobs
    assert (job.quorum, job.submitted_at, job.started_at) == (3, 5.0, 5.0)


def test_deleted_nodes_do_not_count_as_capacity() -> None:
    pod = running_for(make_pod("p", gpu=1), "10")
    given = workload(
        (0.0, NodeAdded(node())), (0.0, PodAdded(pod)), (5.0, NodeDeleted(NodeName("n")))
    )
    simulator = Simulator(given, presets.coscheduling)
    simulator.run(until=20.0)
    assert simulator.capacity.areas(now=20.0) == {"nvidia.com/gpu": 20.0}


def test_malformed_bind_time_is_refused() -> None:
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(InvalidValueError, match="bind_seconds"):
            Simulator(workload(), presets.coscheduling, bind_seconds=wrong)


def test_empty_workload_is_over_at_once() -> None:
    simulator = Simulator(workload(), presets.coscheduling)
    assert isinstance(simulator.scheduler, Scheduler)
    assert simulator.run() == 0.0
    assert simulator.is_quiescent
    assert report(simulator).summary.gangs.submitted == 0
