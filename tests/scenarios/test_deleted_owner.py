"""A job whose owner is deleted at an instant: its pods, its group and its quota go."""

from __future__ import annotations

from random import Random

import pytest
from attrs import evolve

from gangsched import (
    GroupBound,
    GroupKey,
    GroupRemoved,
    GroupRestarted,
    InvalidValueError,
    NodeAdded,
    NodeDeleted,
    NodeName,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodPhase,
    Quota,
    RestartPolicy,
    Scheduler,
    presets,
)
from gangsched.protocols import ClusterState
from gangsched.simulation import (
    FAIL_SECONDS,
    RUN_SECONDS,
    Arrival,
    OwnerDeleted,
    Simulator,
    Workload,
    report,
)
from gangsched.simulation.faults import FaultPlan
from gangsched.simulation.workload import JOB, JOB_PODS
from gangsched.testing import make_node, make_pod
from support.restart_law import RecordedRestarts

TEAM = Quota(name="team", namespaces=["default"], hard={"cpu": 4})
RESTARTED = RestartPolicy(max_restarts=3, backoff=10.0)


def make(cluster: ClusterState) -> Scheduler:
    return presets.gang(cluster, quotas=[TEAM])


def job(
    name: str,
    at: float = 0.0,
    *,
    policy: RestartPolicy | None = None,
    seconds: str = "500",
    fails_after: str = "",
) -> list[Arrival]:
    """Return a gang of four pods of one CPU; its first member may fail after some seconds."""
    group = PodGroup(name=name, min_available=4, restart=policy, min_resources={"cpu": 4})
    arrivals = [Arrival(at, PodGroupAdded(group))]
    for number in range(4):
        notes = {RUN_SECONDS: seconds}
        if fails_after and number == 0:
            notes[FAIL_SECONDS] = fails_after
        pod = evolve(make_pod(f"{name}-{number}", group=name, cpu=1), annotations=notes)
        arrivals.append(Arrival(at, PodAdded(pod)))
    return arrivals


def nodes(count: int) -> list[Arrival]:
    return [Arrival(0.0, NodeAdded(make_node(f"n{n}", cpu=2))) for n in range(count)]


def deleted(name: str, at: float) -> Arrival:
    return Arrival(at, OwnerDeleted(f"default/{name}"))


def run(
    arrivals: list[Arrival], *, until: float = 2000.0, plan: FaultPlan | None = None
) -> tuple[Simulator, RecordedRestarts]:
    law = RecordedRestarts(with_faults=plan is not None)
    simulator = Simulator(Workload(tuple(arrivals)), make, faults=plan, observers=[law])
    law.watch(simulator)
    simulator.run(until=until)
    simulator.scheduler._check()
    simulator.jobs._check()
    return simulator, law


def starts(law: RecordedRestarts) -> dict[str, float]:
    """Return when each gang was bound for the first time."""
    found: dict[str, float] = {}
    for at, bound in law.of(GroupBound):
        found.setdefault(bound.group, at)
    return found


def test_quota_of_a_job_whose_owner_is_deleted_starts_the_next_job() -> None:
    arrivals = [*nodes(4), *job("first"), *job("second", 1.0), deleted("first", 60.0)]
    simulator, law = run(arrivals, until=100.0)
    assert starts(law) == {"default/first": 0.0, "default/second": 60.0}
    assert (60.0, GroupRemoved(GroupKey("default/first"))) in law.of(GroupRemoved)
    assert simulator.cluster.pod_group(GroupKey("default/first")) is None
    assert {pod.name[:6] for pod in simulator.cluster.pods()} == {"second"}


def test_quota_is_returned_when_a_job_ends_by_itself_too() -> None:
    arrivals = [*nodes(4), *job("first", seconds="50"), *job("second", 1.0)]
    _simulator, law = run(arrivals)
    assert starts(law) == {"default/first": 0.0, "default/second": 50.0}


def test_job_that_waits_is_deleted_with_its_owner_and_never_starts() -> None:
    arrivals = [*nodes(4), *job("first"), *job("second", 1.0), deleted("second", 60.0)]
    simulator, law = run(arrivals)
    assert starts(law) == {"default/first": 0.0}
    assert [row.key for row in simulator.jobs.rows()] == ["default/first"]


def test_pods_of_a_deleted_owner_are_not_created_again() -> None:
    """A member fails again and again, and its controller replaces it until it is gone itself."""
    arrivals = job("train", policy=RESTARTED, fails_after="100")
    simulator, law = run([*nodes(2), *arrivals, deleted("train", 150.0)])
    assert [each.restarts for _at, each in law.of(GroupRestarted)] == [1]
    assert list(simulator.cluster.pods()) == []
    assert simulator.scheduler.next_deadline() is None


def test_job_whose_owner_is_deleted_while_it_is_restarted_leaves_nothing() -> None:
    arrivals = job("train", policy=RESTARTED)
    lost = Arrival(50.0, NodeDeleted(NodeName("n0")))
    simulator, law = run([*nodes(3), *arrivals, lost, deleted("train", 55.0)])
    assert len(law.of(GroupRestarted)) == 1
    pods = simulator.scheduler._state.pods
    assert list(simulator.cluster.pods()) == []
    assert (len(pods.members), len(pods.entities), len(pods.restarts)) == (0, 0, 0)
    assert not pods.quotas.is_charged(GroupKey("default/train"))


def test_owner_may_be_created_and_deleted_again() -> None:
    arrivals = [
        *nodes(2),
        *job("train", policy=RESTARTED),
        deleted("train", 50.0),
        *job("train", 60.0, policy=RESTARTED),
        deleted("train", 70.0),
        deleted("train", 80.0),
    ]
    simulator, law = run(arrivals)
    assert [at for at, _each in law.of(GroupBound)] == [0.0, 60.0]
    assert list(simulator.cluster.pods()) == []
    assert [row.started_at for row in simulator.jobs.rows()] == [0.0, 60.0], "two jobs"


@pytest.mark.parametrize("seed", range(5))
def test_other_pods_end_in_order_after_an_owner_was_deleted(seed: int) -> None:
    draw = Random(seed)
    seconds = [draw.randint(10, 90) for _pod in range(24)]
    gone = {n for n in range(24) if draw.random() < 0.4}
    arrivals = nodes(12)
    for n in range(24):
        pod = evolve(make_pod(f"p{n}", cpu=1), annotations={RUN_SECONDS: str(seconds[n])})
        arrivals.append(Arrival(0.0, PodAdded(pod)))
    simulator, _law = run([*arrivals, *(deleted(f"p{n}", 5.0) for n in sorted(gone))])
    for row in simulator.jobs.rows():
        n = int(row.key.removeprefix("default/p"))
        assert row.finished_at == (None if n in gone else seconds[n]), row.key
    assert simulator.last_event_at == max(seconds[n] for n in range(24) if n not in gone)


def test_owner_of_pods_without_a_group_is_deleted() -> None:
    notes = {JOB: "plain", JOB_PODS: "2"}
    pods = [evolve(make_pod(f"plain-{n}", cpu=1), annotations=notes) for n in range(2)]
    single = make_pod("single", cpu=1)
    arrivals = [Arrival(0.0, PodAdded(pod)) for pod in (*pods, single)]
    simulator, _law = run([*nodes(2), *arrivals, deleted("plain", 5.0)], until=6.0)
    assert [pod.name for pod in simulator.cluster.pods()] == ["single"]
    simulator, _law = run([*nodes(2), *arrivals, deleted("single", 5.0)], until=6.0)
    assert len(list(simulator.cluster.pods())) == 2


def test_job_that_ran_until_its_owner_was_deleted_is_in_the_report() -> None:
    simulator, _law = run([*nodes(2), *job("train"), deleted("train", 50.0)])
    (row,) = simulator.jobs.rows()
    assert (row.started_at, row.finished_at, row.members) == (0.0, None, 0)
    summary = report(simulator).summary
    assert (summary.gangs.submitted, summary.gangs.started_whole) == (1, 1)
    assert summary.deadlock is None


def test_job_that_has_ended_may_lose_its_owner() -> None:
    simulator, _law = run([*nodes(2), *job("train", seconds="20"), deleted("train", 50.0)])
    assert list(simulator.cluster.pods()) == []
    (row,) = simulator.jobs.rows()
    assert row.finished_at == 20.0


def test_owner_of_a_job_that_has_not_arrived_is_refused() -> None:
    with pytest.raises(InvalidValueError, match=r"job.*'default/tarin'"):
        run([*nodes(2), *job("train"), deleted("tarin", 50.0)])
    with pytest.raises(InvalidValueError, match="job"):
        OwnerDeleted("")


def test_deleted_owners_leave_nothing_under_faults() -> None:
    for seed in range(40):
        arrivals = [
            *nodes(3),
            *job("first", policy=RESTARTED, fails_after="20"),
            *job("second", 1.0),
            deleted("first", 30.0),
            deleted("second", 40.0),
        ]
        simulator, _law = run(arrivals, plan=FaultPlan.drawn(seed))
        assert [p for p in simulator.cluster.pods() if p.phase is not PodPhase.SUCCEEDED] == []
        pods = simulator.scheduler._state.pods
        assert (len(pods.members), len(pods.restarts)) == (0, 0), seed
