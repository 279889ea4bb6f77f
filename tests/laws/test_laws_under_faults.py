"""Whatever goes wrong: every law holds at every step, and when the faults are over all is well."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    AnnotatedRunTimes,
    Backfill,
    ClusterState,
    Pod,
    PodAdded,
    Preemption,
    Scheduler,
    presets,
)
from gangsched.simulation import RUN_SECONDS, Arrival, FaultPlan, Simulator, Workload
from gangsched.strategies import faults
from support.account import claim_of
from support.brute_force import are_alike, could_start, entities
from support.checked_scheduler import checked_by, run_to_end, watched, workloads
from support.examples import one_in
from support.reservation_oracle import EXACT
from support.shown import shown
from support.units import coscheduling

_SEEDS = st.integers(0, 3)
_BIND_SECONDS = st.sampled_from([0.0, 2.0])


def no_startable_pod_is_parked(simulator: Simulator) -> None:
    for entity in entities(simulator.cluster):
        if are_alike(simulator.cluster, entity):
            could = could_start(coscheduling, simulator.cluster, entity)
            assert not could, f"law 4: {sorted(could)} could start, and sleep"


def nobody_is_remembered_who_is_gone(simulator: Simulator) -> None:
    scheduler = checked_by(simulator)
    pods = {pod.uid for pod in simulator.cluster.pods()}
    assert shown(scheduler).pods.keys() <= pods, "law 7: pods that are gone"
    count = sum(1 for _node in simulator.cluster.nodes())
    assert f" nodes={count} " in repr(scheduler), "law 7: nodes that are gone"
    assert not shown(scheduler).nominations
    assert scheduler.reservation is None, "law 5: capacity is reserved for ever"


def states_are_equal(one: ClusterState, other: ClusterState) -> None:
    assert {pod.uid: pod for pod in one.pods()} == {pod.uid: pod for pod in other.pods()}
    assert {n.name: n for n in one.nodes()} == {n.name: n for n in other.nodes()}
    assert {g.key: g for g in one.pod_groups()} == {g.key: g for g in other.pod_groups()}


@one_in(2)
@given(workloads(), faults(), _BIND_SECONDS, _SEEDS)
def test_laws_hold_at_every_step_with_any_faults_and_no_startable_pod_is_parked(
    workload: Workload, plan: FaultPlan, bind_seconds: float, seed: int
) -> None:
    """And in the end the scheduler has seen what is true."""
    views: list[ClusterState] = []

    def make(cluster: ClusterState) -> Scheduler:
        views.append(cluster)
        return watched()(cluster)

    simulator = run_to_end(
        Simulator(workload, make, bind_seconds=bind_seconds, seed=seed, faults=plan)
    )
    no_startable_pod_is_parked(simulator)
    nobody_is_remembered_who_is_gone(simulator)
    states_are_equal(simulator.cluster, views[-1])


def preempting(cluster: ClusterState) -> Scheduler:
    return coscheduling(cluster, preemption=Preemption(grace=5.0))


def reserving(run_times: AnnotatedRunTimes | None, cluster: ClusterState) -> Scheduler:
    policy = Backfill(run_times, overdue_after=1.0, drain_for=30.0)
    return presets.gang(cluster, backfill=policy)


_MAKERS = st.sampled_from(
    [
        preempting,
        partial(reserving, None),
        partial(reserving, EXACT),
        partial(reserving, AnnotatedRunTimes(RUN_SECONDS, wrong_by=8.0)),
    ]
)


@one_in(2)
@given(workloads(), faults(), _BIND_SECONDS, _SEEDS, _MAKERS)
def test_laws_hold_with_any_faults_and_preemption_or_reservations(
    workload: Workload,
    plan: FaultPlan,
    bind_seconds: float,
    seed: int,
    make: Callable[[ClusterState], Scheduler],
) -> None:
    workload = _ranked(workload) if make is preempting else workload
    simulator = run_to_end(
        Simulator(workload, watched(make), bind_seconds=bind_seconds, seed=seed, faults=plan)
    )
    nobody_is_remembered_who_is_gone(simulator)


def _ranked(workload: Workload) -> Workload:
    """Return a workload whose groups rank above and below each other."""
    ranked: list[Arrival] = []
    for arrival in workload.arrivals:
        event = arrival.event
        if isinstance(event, PodAdded):
            pod = evolve(event.pod, priority=_rank(event.pod))
            event = PodAdded(pod)
        ranked.append(Arrival(arrival.at, event))
    return Workload(tuple(ranked))


def _rank(pod: Pod) -> int:
    claim = claim_of(pod)
    return 0 if claim is None else sum(map(ord, claim[0])) % 3
