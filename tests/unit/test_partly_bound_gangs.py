"""A gang of which one bind fails: retries, notices, ``why``, and the release of the others."""

from __future__ import annotations

import pickle
from typing import Any, TypeVar

import pytest

from gangsched import (
    Bind,
    BindFailed,
    Bound,
    Coscheduling,
    Effect,
    Event,
    Evict,
    GroupBound,
    GroupKey,
    GroupPartlyBound,
    GroupRejected,
    GroupScheduled,
    InMemoryCluster,
    InvalidValueError,
    MatchPolicy,
    NodeAdded,
    NodeName,
    PodAdded,
    PodDeleted,
    PodUID,
    Preemption,
    Scheduler,
    WhenBindFails,
    presets,
)
from gangsched.explain import BackingOff, NoNodeFits, PartlyRunning, Queued, Running
from gangsched.metrics import Metrics
from gangsched.replay import DecisionLog, Recipe, replay
from gangsched.simulation import Simulator
from gangsched.simulation.faults import BindFails, FaultPlan
from gangsched.simulation.workload import Arrival, Workload
from gangsched.testing import make_node, make_pod
from support.shells import SHELLS, Shell

T = TypeVar("T")
G = GroupKey("default/g")
both = pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell.__name__.lower())
MAKERS = pytest.mark.parametrize("make", [presets.gang, presets.coscheduling])


class Host:
    """A scheduler and its cluster; the binds of some pods fail."""

    def __init__(self, make: Any = presets.gang, size: int = 3, **how: Any) -> None:
        self.cluster, self.now, self.effects = InMemoryCluster(), 0.0, list[Effect]()
        self.scheduler: Scheduler = make(self.cluster, **how)
        self.failing: set[str] = set()
        self.tell(NodeAdded(make_node("n", cpu=9)))
        for number in range(size):
            self.add(f"w{number}", size)

    def add(self, name: str, minimum: int = 3) -> None:
        self.tell(PodAdded(make_pod(name, group="g", min_available=minimum, cpu=1)))

    def tell(self, event: Event) -> list[Effect]:
        effects = list(self.scheduler.handle(self.cluster.apply(event), now=self.now))
        self.scheduler._check()
        self.effects += effects
        return effects

    def decide(self) -> list[Bind]:
        """Make all decisions; return the binds, which are not performed."""
        binds: list[Bind] = []
        while (effects := self.scheduler.schedule_one(now=self.now)) is not None:
            self.effects += effects
            binds += [effect for effect in effects if isinstance(effect, Bind)]
        return binds

    def report(self, bind: Bind) -> list[Effect]:
        if bind.uid.partition("/")[2] in self.failing:
            return self.tell(BindFailed(bind.uid, bind.attempt, "disk full"))
        return self.tell(Bound(bind.uid, bind.node, bind.attempt))

    def run(self) -> None:
        """Decide and bind at this instant."""
        for bind in self.decide():
            self.report(bind)

    def wait(self, *, times: int = 1) -> None:
        """Let time pass until the next backoff ends, and decide and bind then."""
        for _ in range(times):
            due = self.scheduler.next_deadline()
            assert due is not None
            self.now = due
            self.effects += self.scheduler.advance(now=due)
            self.run()

    def told(self, kind: type[T]) -> list[T]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    @property
    def evicted(self) -> list[str]:
        return [effect.uid.partition("/")[2] for effect in self.told(Evict)]


# Where the host evicts --------------------------------------------------------------------------


@MAKERS
def test_gang_is_released_by_default_when_the_retries_of_a_bind_fail(make: Any) -> None:
    """F18: half a gang runs for the time of three retries."""
    host = Host(make, can_evict=True)
    host.failing = {"w2"}
    host.run()
    host.wait(times=2)
    assert host.evicted == []
    host.wait()
    assert host.evicted == ["w0", "w1"]
    assert len(host.told(GroupPartlyBound)) == 3, "one for each failure but the last"
    (rejected,) = host.told(GroupRejected)
    assert rejected.reason == "the bind of pod w2 failed"
    assert rejected.retry_after > host.now + 2.0, "the backoff goes on growing"


def test_gang_that_was_released_starts_anew_with_as_many_retries() -> None:
    host = Host(can_evict=True, bind_retries=1)
    host.failing = {"w2"}
    host.run()
    host.wait()
    for name in ("w0", "w1"):
        host.tell(PodDeleted(PodUID(f"default/{name}")))
        host.add(f"{name}-again")
    host.wait()
    assert len(host.told(GroupScheduled)) == 2
    assert host.evicted == ["w0", "w1"]
    host.failing = set()
    host.wait()
    assert [notice.bound for notice in host.told(GroupBound)] == [3]
    assert host.evicted == ["w0", "w1"]


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_number_of_retries_is_an_argument(retries: int) -> None:
    host = Host(can_evict=True, bind_retries=retries)
    host.failing = {"w2"}
    host.run()
    for _ in range(retries):
        assert host.evicted == []
        host.wait()
    assert host.evicted == ["w0", "w1"]


@pytest.mark.parametrize("retries", [-1, 1.0, True, "3"])
def test_number_of_retries_is_checked(retries: Any) -> None:
    with pytest.raises(InvalidValueError, match="bind_retries"):
        Coscheduling(bind_retries=retries)


def test_elastic_member_is_retried_for_ever() -> None:
    host = Host(size=3, can_evict=True)
    host.add("w3")
    host.failing = {"w3"}
    host.run()
    host.wait(times=9)
    assert host.evicted == []
    assert host.told(GroupPartlyBound) == []


@pytest.mark.parametrize("arguments", [{"can_evict": True}, {"preemption": Preemption()}])
def test_scheduler_is_told_that_the_host_evicts_by_an_argument(arguments: Any) -> None:
    assert presets.gang(InMemoryCluster(), **arguments).can_evict


def test_argument_goes_before_what_a_driver_says() -> None:
    scheduler = presets.gang(InMemoryCluster(), can_evict=False, preemption=Preemption())
    scheduler.allow_evictions()
    assert not scheduler.can_evict


def test_can_evict_is_checked() -> None:
    wrong: Any = 1
    with pytest.raises(InvalidValueError, match="can_evict"):
        presets.gang(InMemoryCluster(), can_evict=wrong)


def test_ability_to_evict_outlives_restore_and_pickle() -> None:
    host = Host()
    host.scheduler.allow_evictions()
    host.scheduler.restore(host.scheduler.snapshot())
    assert host.scheduler.can_evict
    assert pickle.loads(pickle.dumps(host.scheduler)).can_evict


@both
def test_driver_that_evicts_says_so(shell: type[Shell]) -> None:
    without, having = shell(presets.gang), shell(presets.gang, evict=lambda _effect: None)
    assert (without.scheduler.can_evict, having.scheduler.can_evict) == (False, True)


def test_wrappers_pass_on_that_the_host_evicts() -> None:
    lines: list[str] = []
    cluster = InMemoryCluster()
    recorded = DecisionLog(lines.append, Recipe("gang")).scheduler(cluster)
    pytest.importorskip("prometheus_client")
    from prometheus_client import CollectorRegistry

    measured = Metrics(CollectorRegistry()).watch(recorded)
    measured.allow_evictions()
    measured.allow_evictions()
    assert recorded.scheduler.can_evict
    assert lines[1:] == ['{"call":"allow_evictions"}\n'], "written once"
    assert replay(lines) is None


def test_simulated_gang_is_released_when_a_bind_keeps_failing() -> None:
    pods = [make_pod(f"w{n}", group="g", min_available=2, cpu=1) for n in range(2)]
    arrivals = [Arrival(0.0, NodeAdded(make_node("n", cpu=9)))]
    arrivals += [Arrival(0.0, PodAdded(pod)) for pod in pods]
    faults = FaultPlan(tuple(BindFails(number) for number in (2, 3, 4, 5)))
    lines: list[str] = []
    simulator = Simulator(
        Workload(tuple(arrivals)), Recipe("gang"), faults=faults, log=lines.append
    )
    simulator.run()
    assert all(pod.node_name for pod in simulator.cluster.pods())
    assert any('"Evict"' in line for line in lines)
    assert replay(lines) is None


# Where it does not ------------------------------------------------------------------------------


@MAKERS
@pytest.mark.parametrize("when", [None, WhenBindFails.RETRY_MEMBER])
def test_each_failed_bind_says_that_the_gang_is_partly_bound(make: Any, when: Any) -> None:
    """F18: for ever, where the host does not evict."""
    host = Host(make, **({} if when is None else {"when_bind_fails": when}))
    host.failing = {"w2"}
    host.run()
    host.wait(times=5)
    assert host.evicted == []
    notices = host.told(GroupPartlyBound)
    assert len(notices) == 6
    assert {(n.group, n.scheduled, n.min_available, n.uid) for n in notices} == {
        (G, 2, 3, "default/w2")
    }
    assert "disk full" in notices[0].reason
    assert "the host evicts no pods" in notices[0].reason


def test_why_says_that_a_gang_runs_in_part_and_why() -> None:
    host = Host()
    host.failing = {"w2"}
    host.run()
    why = host.scheduler.why(G)
    assert isinstance(why, PartlyRunning)
    assert (why.members, why.min_available) == (2, 3)
    assert isinstance(why.rest, BackingOff)
    assert str(why).startswith("runs in part: 2 of 3 members hold nodes; the rest: backing off")
    assert "disk full" in str(why)
    assert host.scheduler.why("default/w2") == why


def test_why_says_that_a_started_gang_lost_a_member() -> None:
    host = Host()
    host.run()
    assert isinstance(host.scheduler.why(G), Running)
    host.tell(PodDeleted(PodUID("default/w2")))
    why = host.scheduler.why(G)
    assert why == PartlyRunning(G, 2, 3, None)
    assert str(why) == "runs in part: 2 of 3 members hold nodes; no other member exists"
    host.add("w3")
    why = host.scheduler.why(G)
    assert isinstance(why, PartlyRunning)
    assert isinstance(why.rest, Queued)


def test_why_of_a_running_gang_has_the_reason_of_its_pending_elastic_member() -> None:
    host = Host()
    host.run()
    host.tell(PodAdded(make_pod("big", group="g", min_available=3, cpu=99)))
    host.run()
    why = host.scheduler.why(G)
    assert isinstance(why, PartlyRunning)
    assert isinstance(why.rest, NoNodeFits | BackingOff)


# All members are bound ---------------------------------------------------------------------------


@MAKERS
def test_gang_is_bound_when_the_last_bind_of_its_start_is_reported(make: Any) -> None:
    host = Host(make)
    *before, last = host.decide()
    for bind in before:
        assert not [e for e in host.report(bind) if isinstance(e, GroupBound)]
    assert host.report(last)[-1] == GroupBound(G, 1, 3)
    host.tell(Bound(last.uid, last.node, last.attempt))
    host.tell(PodAdded(make_pod("late", group="g", min_available=3, cpu=1)))
    host.run()
    assert len(host.told(GroupBound)) == 1, "once for each start"


@MAKERS
def test_gang_of_which_a_bind_failed_is_bound_when_the_retry_succeeds(make: Any) -> None:
    host = Host(make)
    host.failing = {"w0"}
    host.run()
    assert host.told(GroupBound) == []
    host.failing = set()
    host.wait()
    assert host.told(GroupBound) == [GroupBound(G, 1, 3)]


def test_gang_is_bound_although_the_bind_of_an_elastic_member_failed_last() -> None:
    host = Host(size=2)
    host.add("w2", 2)
    host.failing = {"w2"}
    host.run()
    assert host.told(GroupBound) == [GroupBound(G, 1, 2)]
    host.failing = set()
    host.wait()
    assert len(host.told(GroupBound)) == 1


def test_gang_of_which_half_was_bound_before_a_restart_is_bound_once() -> None:
    host = Host()
    first, *_others = host.decide()
    host.report(first)
    host.effects.clear()
    host.scheduler = presets.gang(host.cluster)
    host.effects += host.scheduler.rebuild(now=host.now)
    host.run()
    assert len(host.told(GroupBound)) == 1
    host.effects += host.scheduler.rebuild(now=host.now)
    assert len(host.told(GroupBound)) == 1
    host.scheduler = presets.gang(host.cluster)
    host.effects += host.scheduler.rebuild(now=host.now)
    assert len(host.told(GroupBound)) == 1, "it ran when this scheduler first saw it"


def test_snapshot_has_that_a_gang_is_being_bound() -> None:
    host = Host()
    *before, last = host.decide()
    for bind in before:
        host.report(bind)
    fresh = presets.gang(host.cluster)
    fresh.restore(host.scheduler.snapshot())
    host.scheduler = fresh
    assert GroupBound(G, 1, 3) in host.report(last)


def test_gang_that_lost_a_member_starts_once_more_with_a_notice() -> None:
    host = Host(match_policy=MatchPolicy.WAITING_AND_RUNNING)
    host.run()
    host.tell(PodDeleted(PodUID("default/w2")))
    host.add("w3")
    host.run()
    assert [notice.attempt for notice in host.told(GroupScheduled)] == [1, 2]
    assert host.told(GroupBound) == [GroupBound(G, 1, 3), GroupBound(G, 2, 3)]


# An eviction while a bind is under way -----------------------------------------------------------


def releasing() -> tuple[Host, list[Bind]]:
    host = Host(when_bind_fails=WhenBindFails.RELEASE_GROUP)
    return host, host.decide()


def test_member_is_evicted_only_when_its_bind_has_ended() -> None:
    host, (first, second, third) = releasing()
    host.report(first)
    host.failing = {"w1"}
    host.report(second)
    assert host.evicted == ["w0"], "the bind of w2 is under way"
    done = host.report(third)
    assert [effect for effect in done if isinstance(effect, Evict)] == [
        Evict(third.uid, NodeName("n"), "the bind of pod w1 failed")
    ]
    host.report(third)
    assert host.evicted == ["w0", "w2"], "each is asked for once"


def test_member_whose_bind_fails_after_its_gang_was_released_is_pending_again() -> None:
    host, (first, second, third) = releasing()
    host.report(first)
    host.failing = {"w1", "w2"}
    host.report(second)
    host.report(third)
    assert host.evicted == ["w0"], "there is nothing else to evict"
    host.tell(PodDeleted(first.uid))
    host.add("w0-again")
    host.failing = set()
    host.wait()
    assert all(pod.node_name for pod in host.cluster.pods())
    assert len([*host.cluster.pods()]) == 3


def test_bind_that_ends_on_another_node_is_evicted_from_there() -> None:
    host, (first, second, third) = releasing()
    host.report(first)
    host.failing = {"w1"}
    host.report(second)
    host.tell(NodeAdded(make_node("m", cpu=9)))
    host.tell(Bound(third.uid, NodeName("m"), third.attempt))
    assert host.told(Evict)[-1].node == "m"


def test_snapshot_has_an_eviction_that_waits_for_a_bind() -> None:
    host, (first, second, third) = releasing()
    host.report(first)
    host.failing = {"w1"}
    host.report(second)
    fresh = presets.gang(host.cluster, when_bind_fails=WhenBindFails.RELEASE_GROUP)
    fresh.restore(host.scheduler.snapshot())
    host.scheduler = fresh
    host.report(third)
    assert host.evicted == ["w0", "w0", "w2"], "w0 is not gone, so its eviction is repeated"
