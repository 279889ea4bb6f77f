"""Quotas under any workload: never exceeded, always returned, and no group waits in vain."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    ClusterState,
    InMemoryCluster,
    NodeAdded,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodPhase,
    PodUID,
    Quota,
    Resources,
    RestartPolicy,
    Scheduler,
    presets,
)
from gangsched.simulation import FAIL_SECONDS, RUN_SECONDS, Arrival, Simulator, Workload
from gangsched.simulation.faults import FaultPlan
from gangsched.testing import make_node, make_pod
from support.examples import one_in
from support.units import coscheduling

CPUS = 8
_seconds = st.sampled_from(["3", "7", "20"])


@st.composite
def quotas(draw: st.DrawFn) -> list[Quota]:
    """Return quotas of which some share a namespace."""
    some = st.sampled_from([["east"], ["west"], ["east", "west"]])
    return [
        Quota(name=f"q{n}", namespaces=draw(some), hard={"cpu": draw(st.integers(1, CPUS))})
        for n in range(draw(st.integers(1, 3)))
    ]


@st.composite
def gangs(draw: st.DrawFn, number: int, fails: bool) -> list[Arrival]:
    """Return a gang that fits the cluster; some state their resources, some are restarted."""
    name, size, cpu = f"g{number}", draw(st.integers(1, 4)), draw(st.integers(1, 2))
    namespace = draw(st.sampled_from(["east", "west"]))
    least = draw(st.integers(1, size))
    stated = draw(st.sampled_from([None, size * cpu, size * cpu + 1]))
    policy = RestartPolicy(max_restarts=1, backoff=5.0) if draw(st.booleans()) else None
    group = PodGroup(
        name=name,
        namespace=namespace,
        min_available=least,
        min_resources={} if stated is None else {"cpu": min(stated, CPUS)},
        restart=policy,
        priority=draw(st.integers(0, 1)),
    )
    at = draw(st.sampled_from([0.0, 0.0, 2.0, 9.0]))
    arrivals = [Arrival(at + draw(st.sampled_from([0.0, 1.0])), PodGroupAdded(group))]
    for n in range(size):
        notes = {RUN_SECONDS: draw(_seconds)}
        if fails and policy is not None and draw(st.integers(0, 4)) == 0:
            notes[FAIL_SECONDS] = "2"
        pod = evolve(
            make_pod(f"{name}-{n}", group=name, cpu=cpu, priority=group.priority or 0),
            namespace=namespace,
            uid=PodUID(f"{name}-{n}"),
            annotations=notes,
        )
        arrivals.append(Arrival(at, PodAdded(pod)))
        if draw(st.integers(0, 9)) == 0:
            arrivals.append(Arrival(at + 1.0, PodDeleted(pod.uid)))
    return arrivals


@st.composite
def workloads(draw: st.DrawFn, fails: bool) -> Workload:
    """Return gangs on one node; a member that fails is created again, and fails again."""
    arrivals = [Arrival(0.0, NodeAdded(make_node("n", cpu=CPUS)))]
    for number in range(draw(st.integers(1, 5))):
        arrivals += draw(gangs(number, fails))
    return Workload(tuple(arrivals))


def check(simulator: Simulator, limits: list[Quota]) -> None:
    """Check the ledger against the cluster and against itself."""
    scheduler = simulator.scheduler
    scheduler._check()
    data = scheduler.snapshot()
    charged = {row["key"] for row in data.get("charges", ())}
    held = {row["group"] for row in data.get("restarts", ()) if row.get("is_held")}
    covered = {namespace for quota in limits for namespace in quota.namespaces}
    for info in scheduler.registry:
        if info.scheduled and info.namespace in covered:
            assert info.key in charged, f"{info.key} runs and is not charged"
        if not info.members:
            assert info.key in held or info.key not in charged, f"{info.key} has ended"
    for quota in limits:
        total = Resources()
        for pod in simulator.cluster.pods():
            if pod.namespace in quota.namespaces and pod.node_name and not pod.is_finished:
                total += pod.requests
        assert total.amount("cpu") <= quota.hard.amount("cpu"), f"{quota.name} is exceeded"


@one_in(4)
@given(workloads(True), quotas(), st.none() | st.integers(0, 99).map(FaultPlan.drawn))
def test_quota_is_never_exceeded_and_always_returned(
    workload: Workload, limits: list[Quota], faults: FaultPlan | None
) -> None:
    def make(cluster: ClusterState) -> Scheduler:
        return coscheduling(cluster, quotas=limits)

    simulator = Simulator(workload, make, faults=faults)
    for _instant in range(400):
        if simulator.step() is None:
            break
        check(simulator, limits)


@one_in(4)
@given(workloads(False), quotas())
def test_every_complete_gang_that_fits_its_quotas_runs_in_the_end(
    workload: Workload, limits: list[Quota]
) -> None:
    def make(cluster: ClusterState) -> Scheduler:
        return coscheduling(cluster, quotas=limits)

    simulator = Simulator(workload, make)
    for _instant in range(400):
        if simulator.step() is None:
            break
    else:
        raise AssertionError("law 5: it does not come to an end")
    for info in simulator.scheduler.registry:
        pods: Any = [simulator.cluster.pod(uid) for uid in info.members]
        if not info.is_complete or not pods:
            continue
        least = (info.min_available or 0) * pods[0].requests.amount("cpu")
        needed = max(info.min_resources.amount("cpu"), least)
        fits = all(
            needed <= quota.hard.amount("cpu")
            for quota in limits
            if info.namespace in quota.namespaces
        )
        done = all(pod.phase is PodPhase.SUCCEEDED for pod in pods)
        assert done is fits, f"{info.key} needs {needed}"
    assert simulator.scheduler.snapshot().get("charges", []) == []


@pytest.mark.parametrize("make", [presets.gang, presets.coscheduling])
def test_presets_take_quotas(make: Any) -> None:
    cluster = InMemoryCluster()
    scheduler = make(cluster, quotas=[Quota(name="q", namespaces=["east"], hard={"cpu": 1})])
    pod = evolve(make_pod("p", group="g", min_available=1, cpu=2), namespace="east")
    for event in (NodeAdded(make_node("n", cpu=9)), PodAdded(pod)):
        scheduler.handle(cluster.apply(event), now=0.0)
    assert "exceeded quota q" in str(scheduler.why("east/g"))
