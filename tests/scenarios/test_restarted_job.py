"""Jobs whose members fail, whose node is lost, or whose owner is deleted: they restart, or go."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Evict,
    GroupBelowMinimum,
    GroupBound,
    GroupKey,
    GroupRemoved,
    GroupRestarted,
    InvalidValueError,
    NodeAdded,
    NodeDeleted,
    NodeName,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodPhase,
    Quota,
    RestartLimitReached,
    RestartPolicy,
    Scheduler,
    presets,
)
from gangsched.protocols import ClusterState
from gangsched.simulation import (
    FAIL_SECONDS,
    RUN_SECONDS,
    Arrival,
    EventLog,
    OwnerDeleted,
    Simulator,
    Workload,
    report,
)
from gangsched.simulation.faults import FaultPlan, SchedulerRestarts
from gangsched.simulation.workload import JOB, JOB_PODS
from gangsched.testing import make_node, make_pod
from support.restart_law import RecordedRestarts

KEY = GroupKey("default/train")
POLICY = RestartPolicy(max_restarts=2, backoff=10.0)
TEAM = Quota(name="team", namespaces=["default"], hard={"cpu": 4})
N0_IS_LOST = Arrival(50.0, NodeDeleted(NodeName("n0")))


def make(cluster: ClusterState) -> Scheduler:
    return presets.gang(cluster, quotas=[TEAM])


def job(
    name: str = "train",
    at: float = 0.0,
    *,
    policy: RestartPolicy | None = POLICY,
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


def nodes(count: int = 3) -> list[Arrival]:
    return [Arrival(0.0, NodeAdded(make_node(f"n{n}", cpu=2))) for n in range(count)]


def deleted(name: str, at: float) -> Arrival:
    return Arrival(at, OwnerDeleted(f"default/{name}"))


def run(
    *arrivals: Arrival, until: float = 2000.0, plan: FaultPlan | None = None
) -> tuple[Simulator, RecordedRestarts]:
    law = RecordedRestarts(with_faults=plan is not None)
    simulator = Simulator(Workload(arrivals), make, faults=plan, observers=[law])
    law.watch(simulator)
    simulator.run(until=until)
    simulator.scheduler._check()
    simulator.jobs._check()
    return simulator, law


def times(law: RecordedRestarts, kind: type[Any]) -> list[float]:
    return [at for at, _effect in law.of(kind)]


def assert_nothing_is_left(simulator: Simulator) -> None:
    pods = [pod for pod in simulator.cluster.pods() if pod.phase is not PodPhase.SUCCEEDED]
    assert pods == []
    state = simulator.scheduler._state
    assert (len(state.records.pods), len(state.records.gangs), len(state.restarts)) == (0, 0, 0)
    assert len(state.records.quotas) == 0


# Restarts ---------------------------------------------------------------------------------------


def test_job_with_a_failing_member_is_restarted_up_to_its_limit() -> None:
    """Its controller created a new pod for each that failed, for ever."""
    simulator, law = run(*nodes(), *job(fails_after="100"))
    restarts = law.of(GroupRestarted)
    assert [(at, each.restarts, each.until) for at, each in restarts] == [
        (101.0, 1, 111.0),
        (212.0, 2, 232.0),
    ]
    assert times(law, Evict) == [101.0] * 3 + [212.0] * 3
    assert [(at, each.bound) for at, each in law.of(GroupBound)][:3] == [
        *((0.0, 4), (111.0, 4), (232.0, 4))
    ]
    assert law.of(RestartLimitReached) == [(333.0, RestartLimitReached(KEY, 2))]
    assert len([pod for pod in simulator.cluster.pods() if pod.phase is PodPhase.FAILED]) == 1


def test_job_that_lost_a_node_starts_again_on_the_others() -> None:
    simulator, law = run(*nodes(), *job(seconds="300"), N0_IS_LOST)
    assert [each.restarts for _at, each in law.of(GroupRestarted)] == [1]
    assert times(law, GroupBound)[-1] == 61.0
    pods = list(simulator.cluster.pods())
    assert [pod.phase for pod in pods] == [PodPhase.SUCCEEDED] * 4
    assert {pod.node_name for pod in pods} == {"n1", "n2"}
    group = simulator.cluster.pod_group(KEY)
    assert group is not None
    assert (group.restarts, group.restarting_until) == (1, None), "its status says it"


def test_job_without_a_policy_goes_on_with_the_members_that_are_left() -> None:
    simulator, law = run(*nodes(), *job(policy=None, seconds="300"), N0_IS_LOST)
    assert len(law.of(GroupBelowMinimum)) == 1
    assert law.of(Evict) == []
    assert len(list(simulator.cluster.pods())) == 2


def test_new_scheduler_counts_on_from_the_status() -> None:
    """A scheduler is replaced before each of many calls; the law checks the numbers."""
    for call in range(1, 60, 4):
        plan = FaultPlan((SchedulerRestarts(call), SchedulerRestarts(call + 7)))
        _simulator, law = run(*nodes(), *job(fails_after="100"), until=1000.0, plan=plan)
        numbers = [each.restarts for _at, each in law.of(GroupRestarted)]
        assert numbers == [1, 2], f"replaced before call {call}"


def test_event_log_describes_a_restart() -> None:
    log = EventLog()
    workload = Workload((*nodes(), *job(seconds="200", fails_after="100")))
    Simulator(workload, presets.gang, observers=[log]).run(until=105.0)
    texts = {entry.reason: entry.message for entry in log.entries}
    assert texts["BelowMinimum"] == "Has 3 members of 4 on nodes"
    assert texts["Restarted"].startswith("Restart 1 of 2; no start before ")


# Deleted owners ---------------------------------------------------------------------------------


def test_quota_of_a_job_whose_owner_is_deleted_starts_the_next_job() -> None:
    arrivals = (*nodes(4), *job("first"), *job("second", 1.0), *job("third", 2.0))
    simulator, law = run(*arrivals, deleted("third", 30.0), deleted("first", 60.0), until=100.0)
    started = {bound.group: at for at, bound in reversed(law.of(GroupBound))}
    assert started == {"default/first": 0.0, "default/second": 60.0}, "the third never started"
    assert (60.0, GroupRemoved(GroupKey("default/first"))) in law.of(GroupRemoved)
    assert simulator.cluster.pod_group(GroupKey("default/first")) is None
    assert {pod.name[:6] for pod in simulator.cluster.pods()} == {"second"}
    assert [row.key for row in simulator.jobs.rows()] == ["default/first", "default/second"]


@pytest.mark.parametrize(
    ("fails_after", "lost", "at"), [("100", (), 150.0), ("", (N0_IS_LOST,), 55.0)]
)
def test_job_whose_owner_is_deleted_after_or_during_a_restart_leaves_nothing(
    fails_after: str, lost: tuple[Arrival, ...], at: float
) -> None:
    simulator, law = run(*nodes(), *job(fails_after=fails_after), *lost, deleted("train", at))
    assert [each.restarts for _at, each in law.of(GroupRestarted)] == [1]
    assert simulator.scheduler.next_deadline() is None
    assert_nothing_is_left(simulator)


def test_job_whose_group_is_deleted_before_its_pods_leaves_nothing() -> None:
    simulator, law = run(
        *nodes(), *job(), N0_IS_LOST, Arrival(55.0, PodGroupDeleted(KEY)), until=55.0
    )
    assert len(law.of(GroupRestarted)) == 1
    for pod in list(simulator.cluster.pods()):
        simulator.scheduler.handle(simulator.cluster.apply(PodDeleted(pod.uid)), now=56.0)
    assert simulator.scheduler.next_deadline() is None
    assert_nothing_is_left(simulator)


def test_owner_may_be_created_and_deleted_again() -> None:
    again = (deleted("train", 70.0), deleted("train", 80.0))
    simulator, law = run(*nodes(2), *job(), deleted("train", 50.0), *job(at=60.0), *again)
    assert times(law, GroupBound) == [0.0, 60.0]
    assert list(simulator.cluster.pods()) == []
    assert [row.started_at for row in simulator.jobs.rows()] == [0.0, 60.0], "two jobs"


def test_other_pods_end_in_order_after_an_owner_was_deleted() -> None:
    draw = Random(0)
    seconds = [draw.randint(10, 90) for _pod in range(24)]
    gone = {n for n in range(24) if draw.random() < 0.4}
    arrivals = nodes(12)
    for n in range(24):
        pod = evolve(make_pod(f"p{n}"), annotations={RUN_SECONDS: str(seconds[n])})
        arrivals.append(Arrival(0.0, PodAdded(pod)))
    simulator, _law = run(*arrivals, *(deleted(f"p{n}", 5.0) for n in sorted(gone)))
    for row in simulator.jobs.rows():
        n = int(row.key.removeprefix("default/p"))
        assert row.finished_at == (None if n in gone else seconds[n]), row.key
    assert simulator.last_event_at == max(seconds[n] for n in range(24) if n not in gone)


@pytest.mark.parametrize(("owner", "left"), [("plain", 1), ("single", 2)])
def test_owner_of_pods_without_a_group_is_deleted(owner: str, left: int) -> None:
    notes = {JOB: "plain", JOB_PODS: "2"}
    pods = [evolve(make_pod(f"plain-{n}", cpu=1), annotations=notes) for n in range(2)]
    arrivals = [Arrival(0.0, PodAdded(pod)) for pod in (*pods, make_pod("single", cpu=1))]
    simulator, _law = run(*nodes(2), *arrivals, deleted(owner, 5.0), until=6.0)
    assert len(list(simulator.cluster.pods())) == left


@pytest.mark.parametrize(("seconds", "finished_at"), [("500", None), ("20", 20.0)])
def test_job_whose_owner_was_deleted_is_in_the_report(
    seconds: str, finished_at: float | None
) -> None:
    simulator, _law = run(*nodes(2), *job(seconds=seconds), deleted("train", 50.0))
    assert list(simulator.cluster.pods()) == []
    (row,) = simulator.jobs.rows()
    assert (row.started_at, row.finished_at, row.members) == (0.0, finished_at, 0)
    summary = report(simulator).summary
    assert (summary.gangs.submitted, summary.gangs.started_whole) == (1, 1)
    assert summary.deadlock is None


def test_owner_of_a_job_that_has_not_arrived_is_refused() -> None:
    with pytest.raises(InvalidValueError, match=r"job.*'default/tarin'"):
        run(*nodes(2), *job(), deleted("tarin", 50.0))
    with pytest.raises(InvalidValueError, match="job"):
        OwnerDeleted("")


def test_deleted_owners_leave_nothing_under_faults() -> None:
    for seed in range(20):
        jobs = (*job("first", fails_after="20"), *job("second", 1.0, policy=None))
        ends = (deleted("first", 30.0), deleted("second", 40.0))
        simulator, _law = run(*nodes(), *jobs, *ends, plan=FaultPlan.drawn(seed))
        assert_nothing_is_left(simulator)
