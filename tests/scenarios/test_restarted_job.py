"""A training job whose members fail, or whose node is lost, and which is restarted as a whole."""

from __future__ import annotations

from attrs import evolve

from gangsched import (
    Evict,
    GroupBelowMinimum,
    GroupBound,
    GroupKey,
    GroupRestarted,
    NodeAdded,
    NodeDeleted,
    NodeName,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodPhase,
    RestartLimitReached,
    RestartPolicy,
    presets,
)
from gangsched.simulation import FAIL_SECONDS, RUN_SECONDS, Arrival, EventLog, Simulator, Workload
from gangsched.simulation.faults import Fault, FaultPlan, SchedulerRestarts
from gangsched.testing import make_node, make_pod
from support.restart_law import RecordedRestarts

KEY = GroupKey("default/train")
ONCE_OR_TWICE = RestartPolicy(max_restarts=2, backoff=10.0)


def job(policy: RestartPolicy | None, *, seconds: str, fails_after: str = "") -> list[Arrival]:
    """Return a gang of four on three nodes of two; one member may fail after some seconds."""
    group = PodGroup(name="train", min_available=4, restart=policy)
    arrivals = [Arrival(0.0, NodeAdded(make_node(f"n{n}", cpu=2))) for n in range(3)]
    arrivals.append(Arrival(0.0, PodGroupAdded(group)))
    for number in range(4):
        notes = {RUN_SECONDS: seconds}
        if fails_after and number == 0:
            notes[FAIL_SECONDS] = fails_after
        pod = evolve(make_pod(f"train-{number}", group="train", cpu=1), annotations=notes)
        arrivals.append(Arrival(0.0, PodAdded(pod)))
    return arrivals


def run(
    arrivals: list[Arrival], *faults: Fault, until: float = 1000.0
) -> tuple[Simulator, RecordedRestarts]:
    law = RecordedRestarts(with_faults=bool(faults))
    simulator = Simulator(
        Workload(tuple(arrivals)),
        presets.gang,
        faults=FaultPlan(faults) if faults else None,
        observers=[law],
    )
    law.watch(simulator)
    simulator.run(until=until)
    simulator.scheduler._check()
    return simulator, law


def test_job_with_a_failing_member_is_restarted_up_to_its_limit() -> None:
    _simulator, law = run(job(ONCE_OR_TWICE, seconds="500", fails_after="100"))
    restarts = law.of(GroupRestarted)
    assert [(at, each.restarts, each.until) for at, each in restarts] == [
        (101.0, 1, 111.0),
        (212.0, 2, 232.0),
    ]
    assert [at for at, _each in law.of(Evict)] == [101.0] * 3 + [212.0] * 3
    assert [(at, each.bound) for at, each in law.of(GroupBound)][:3] == [
        *((0.0, 4), (111.0, 4), (232.0, 4))
    ]
    assert law.of(RestartLimitReached)[0] == (333.0, RestartLimitReached(KEY, 2))


def test_run_of_a_job_that_always_fails_ends_at_the_limit_of_its_restarts() -> None:
    """Its controller created a new pod for each that failed, for ever."""
    simulator, law = run(job(ONCE_OR_TWICE, seconds="500", fails_after="100"), until=2000.0)
    assert law.of(RestartLimitReached) == [(333.0, RestartLimitReached(KEY, 2))]
    assert len([pod for pod in simulator.cluster.pods() if pod.phase is PodPhase.FAILED]) == 1


def test_job_that_lost_a_node_starts_again_on_the_others() -> None:
    arrivals = job(ONCE_OR_TWICE, seconds="300")
    simulator, law = run([*arrivals, Arrival(50.0, NodeDeleted(NodeName("n0")))])
    assert [each.restarts for _at, each in law.of(GroupRestarted)] == [1]
    assert law.of(GroupBound)[-1][0] == 61.0
    pods = list(simulator.cluster.pods())
    assert [pod.phase for pod in pods] == [PodPhase.SUCCEEDED] * 4
    assert {pod.node_name for pod in pods} == {"n1", "n2"}
    group = simulator.cluster.pod_group(KEY)
    assert group is not None
    assert (group.restarts, group.restarting_until) == (1, None), "its status says it"


def test_job_without_a_policy_goes_on_with_the_members_that_are_left() -> None:
    arrivals = [*job(None, seconds="300"), Arrival(50.0, NodeDeleted(NodeName("n0")))]
    simulator, law = run(arrivals)
    assert len(law.of(GroupBelowMinimum)) == 1
    assert law.of(Evict) == []
    assert len(list(simulator.cluster.pods())) == 2


def test_new_scheduler_counts_on_from_the_status() -> None:
    """A scheduler is replaced before each of many calls; the law checks the numbers."""
    for call in range(1, 60, 4):
        arrivals = job(ONCE_OR_TWICE, seconds="500", fails_after="100")
        _simulator, law = run(arrivals, SchedulerRestarts(call), SchedulerRestarts(call + 7))
        numbers = [each.restarts for _at, each in law.of(GroupRestarted)]
        assert numbers == [1, 2], f"replaced before call {call}"


def test_job_whose_owner_is_deleted_while_it_is_restarted_leaves_nothing() -> None:
    arrivals = [
        *job(ONCE_OR_TWICE, seconds="500"),
        Arrival(50.0, NodeDeleted(NodeName("n0"))),
        Arrival(55.0, PodGroupDeleted(KEY)),
    ]
    simulator, law = run(arrivals, until=55.0)
    assert [each.restarts for _at, each in law.of(GroupRestarted)] == [1]
    for pod in list(simulator.cluster.pods()):
        simulator.scheduler.handle(simulator.cluster.apply(PodDeleted(pod.uid)), now=56.0)
    pods = simulator.scheduler._state.pods
    assert not pods.members
    assert not pods.entities
    assert len(pods.restarts) == 0
    assert simulator.scheduler.next_deadline() is None


def test_event_log_describes_a_restart() -> None:
    log = EventLog()
    Simulator(
        Workload(tuple(job(ONCE_OR_TWICE, seconds="200", fails_after="100"))),
        presets.gang,
        observers=[log],
    ).run(until=105.0)
    texts = {entry.reason: entry.message for entry in log.entries}
    assert texts["BelowMinimum"] == "Has 3 members of 4 on nodes"
    assert texts["Restarted"].startswith("Restart 1 of 2; no start before ")
