"""Preemption and reservations on the core, against oracles that share no code with it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    AnnotatedRunTimes,
    Backfill,
    Bind,
    Bound,
    Event,
    InMemoryCluster,
    NodeAdded,
    NodeName,
    PodAdded,
    PodDeleted,
    PodUID,
    Preemption,
    SchedulingUnit,
    presets,
)
from gangsched.core.scheduler import Scheduler as Core
from gangsched.simulation import Simulator, Workload
from gangsched.testing import make_node, make_pod
from support.checked_scheduler import run_to_end
from support.examples import one_in
from support.preempting_gangs import PRESETS, Case, cases, play
from support.reservation_oracle import EXACT, ReservationOracle, judged, workloads


@contextmanager
def the_core() -> Generator[None, None, None]:
    """Let the presets make schedulers of the core."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(presets, "Scheduler", Core)
        yield


@given(cases(), st.sampled_from(sorted(PRESETS)))
def test_gang_evicts_victims_that_are_allowed_and_needed_and_starts(
    case: Case, preset: str
) -> None:
    with the_core():
        found = play(case, preset)
    assert found.nominations <= 1, "it preempted again"
    assert found.evicted in set(case.allowed())
    assert not found.evicted or found.bound, "pods were evicted, and the gang did not start"
    if found.bound:
        assert case.holds(found.evicted, found.bound)
    for each in case.running if not found.is_exhausted else ():
        if found.evicted & each.uids:
            assert not case.fits(found.evicted - each.uids), f"{each.uids} can be spared"


@given(cases(), st.sampled_from(sorted(PRESETS)))
def test_gang_starts_if_any_allowed_set_of_victims_helps(case: Case, preset: str) -> None:
    """Affinity is left out: as in kube-scheduler, a companion may be among the lower pods.

    So are members that spread: the search of unlike members does not try all orders of them yet.
    """
    if any(pod.pod_affinity or pod.topology_spread_constraints for pod in case.gang):
        return
    with the_core():
        found = play(case, preset)
    helps = any(case.fits(gone) for gone in case.allowed())
    assert bool(found.bound) == helps or found.is_exhausted


@one_in(4)
@given(workloads())
def test_admitted_pods_delay_no_reserved_gang(workload: Workload) -> None:
    reservations = ReservationOracle()
    with the_core():
        simulator = run_to_end(Simulator(workload, judged(reservations, Backfill(EXACT))))
    assert all(job.is_finished for job in simulator.jobs)
    for group, promised in reservations.promised.items():
        assert reservations.started[group] <= promised, f"{group} was promised {promised:g}"


def decide(cluster: InMemoryCluster, scheduler: Core, now: float = 0.0) -> list[str]:
    """Decide until nothing is left, report each bind, and return the pods that were bound."""
    found: list[str] = []
    while (effects := scheduler.schedule_one(now=now)) is not None:
        for effect in effects:
            if isinstance(effect, Bind):
                found.append(effect.uid)
                bound = Bound(effect.uid, effect.node, effect.attempt)
                scheduler.handle(cluster.apply(bound), now=now)
        scheduler._check()
    return found


def test_capacity_of_victims_is_held_until_the_whole_gang_fits() -> None:
    cluster = InMemoryCluster()
    profile = presets.default_profile()
    scheduler = Core(cluster, profile, unit=SchedulingUnit.GROUP, preemption=Preemption(grace=60.0))
    events: list[Event] = [NodeAdded(make_node("n", cpu=2))]
    events += [
        PodAdded(evolve(make_pod(f"low-{n}", cpu=1), node_name=NodeName("n"))) for n in range(2)
    ]
    for number in range(2):
        pod = make_pod(f"high-{number}", cpu=1, group="high", min_available=2, priority=5)
        events.append(PodAdded(pod))
    for event in events:
        scheduler.handle(cluster.apply(event), now=0.0)
    assert decide(cluster, scheduler) == []
    scheduler.handle(cluster.apply(PodDeleted(PodUID("default/low-0"))), now=0.0)
    scheduler.handle(cluster.apply(PodAdded(make_pod("peer", cpu=1, priority=5))), now=0.0)
    assert decide(cluster, scheduler) == []
    scheduler.handle(cluster.apply(PodDeleted(PodUID("default/low-1"))), now=0.0)
    assert decide(cluster, scheduler) == ["default/high-0", "default/high-1"]


def test_pod_that_would_delay_the_reserved_gang_waits() -> None:
    seconds = "example.com/seconds"
    cluster = InMemoryCluster()
    policy = Backfill(AnnotatedRunTimes(seconds))
    scheduler = Core(cluster, presets.default_profile(), unit=SchedulingUnit.GROUP, backfill=policy)

    def add(name: str, takes: int, group: str | None = None) -> None:
        pod = make_pod(name, cpu=1, group=group, min_available=4 if group else None)
        pod = evolve(pod, annotations={seconds: str(takes)})
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)

    for name in ("a", "b"):
        scheduler.handle(cluster.apply(NodeAdded(make_node(name, cpu=2))), now=0.0)
    add("old", 100)
    assert decide(cluster, scheduler) == ["default/old"]
    for number in range(4):
        add(f"big-{number}", 10, "big")
    assert decide(cluster, scheduler) == []
    add("long", 200)
    add("short", 60)
    assert decide(cluster, scheduler) == ["default/short"]
    assert scheduler.reservation is not None
    assert scheduler.reservation.starts_at == 100.0
