"""Whatever goes wrong: every law holds at every step, and when the faults are over all is well."""

from __future__ import annotations

from functools import partial

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import ClusterState, Pod, PodAdded, Preemption, Scheduler
from gangsched.simulation import Arrival, EventDropped, FaultPlan, Simulator, Workload
from gangsched.strategies import faults
from support.account import claim_of
from support.brute_force import are_alike, could_start, entities
from support.checked_scheduler import checked_by, run_to_end, watched, workloads
from support.examples import one_in
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


@one_in(2)
@given(workloads(), faults(), _BIND_SECONDS, _SEEDS)
def test_laws_hold_at_every_step_with_any_faults_and_no_startable_pod_is_parked(
    workload: Workload, plan: FaultPlan, bind_seconds: float, seed: int
) -> None:
    simulator = run_to_end(
        Simulator(workload, watched(), bind_seconds=bind_seconds, seed=seed, faults=plan)
    )
    no_startable_pod_is_parked(simulator)
    nobody_is_remembered_who_is_gone(simulator)


@one_in(2)
@given(workloads(), faults(), _BIND_SECONDS, _SEEDS)
def test_laws_hold_with_any_faults_and_preemption(
    workload: Workload, plan: FaultPlan, bind_seconds: float, seed: int
) -> None:
    make = watched(partial(coscheduling, preemption=Preemption(grace=5.0)))
    ranked = _ranked(workload)
    simulator = run_to_end(
        Simulator(ranked, make, bind_seconds=bind_seconds, seed=seed, faults=plan)
    )
    nobody_is_remembered_who_is_gone(simulator)
    assert not shown(checked_by(simulator)).nominations


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


@one_in(2)
@given(workloads(), st.sets(st.integers(1, 25), min_size=1, max_size=10), _BIND_SECONDS)
def test_listing_makes_up_for_any_dropped_events(
    workload: Workload, lost: set[int], bind_seconds: float
) -> None:
    plan = FaultPlan(tuple(EventDropped(n, 3.0) for n in sorted(lost)))
    simulator = run_to_end(Simulator(workload, watched(), bind_seconds=bind_seconds, faults=plan))
    no_startable_pod_is_parked(simulator)
    nobody_is_remembered_who_is_gone(simulator)


@one_in(2)
@given(workloads(), faults(), _BIND_SECONDS, _SEEDS)
def test_scheduler_sees_the_true_state_after_the_faults(
    workload: Workload, plan: FaultPlan, bind_seconds: float, seed: int
) -> None:
    views: list[ClusterState] = []

    def make(cluster: ClusterState) -> Scheduler:
        views.append(cluster)
        return coscheduling(cluster)

    simulator = run_to_end(
        Simulator(
            workload,
            make,
            bind_seconds=bind_seconds,
            seed=seed,
            faults=plan,
        )
    )
    truth, shown = simulator.cluster, views[-1]
    assert {pod.uid: pod for pod in truth.pods()} == {pod.uid: pod for pod in shown.pods()}
    assert {node.name: node for node in truth.nodes()} == {n.name: n for n in shown.nodes()}
    assert {g.key: g for g in truth.pod_groups()} == {g.key: g for g in shown.pod_groups()}


@one_in(2)
@given(workloads(), faults(), _BIND_SECONDS, _SEEDS)
def test_one_workload_one_seed_and_one_plan_give_one_log_byte_for_byte(
    workload: Workload, plan: FaultPlan, bind_seconds: float, seed: int
) -> None:
    logs: list[str] = []
    for _ in range(2):
        lines: list[str] = []
        Simulator(
            workload,
            coscheduling,
            bind_seconds=bind_seconds,
            seed=seed,
            faults=plan,
            log=lines.append,
        ).run()
        logs.append("".join(lines))
    assert logs[0] == logs[1]
