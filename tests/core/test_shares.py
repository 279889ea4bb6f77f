"""An order that depends on what accounts use: the account with the smallest share goes first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    Coscheduling,
    Event,
    Evict,
    InMemoryCluster,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodDeleted,
    Preemption,
    Profile,
    Quota,
    Reclaim,
    SchedulingUnit,
    presets,
)
from gangsched.core.scheduler import Scheduler
from gangsched.errors import PluginError, ProfileError
from gangsched.protocols import EntityView, QueueSortKey
from gangsched.resources import Resources
from gangsched.testing import make_node, make_pod
from support.examples import one_in

UNITS = (SchedulingUnit.POD, SchedulingUnit.GROUP)


class FairShare:
    """Teams by the CPUs that they use, divided by their weights."""

    name = "FairShare"
    policy = Coscheduling()

    def __init__(self, weights: Mapping[str, int]) -> None:
        self.weights = weights

    def account(self, pod: Pod) -> str:
        return pod.labels["team"]

    def share(self, account: str, usage: Resources) -> float:
        return usage.get("cpu", 0) / self.weights[account]

    def queue_sort(self, entity: EntityView) -> QueueSortKey:
        return (-entity.priority, entity.seq)

    def __getattr__(self, name: str) -> object:
        return getattr(self.policy, name)


class Run:
    """Jobs of teams on one node."""

    def __init__(
        self, order: FairShare, cpus: int, unit: SchedulingUnit = SchedulingUnit.GROUP
    ) -> None:
        _policy, *others = presets.coscheduling_profile().plugins
        self.cluster = InMemoryCluster()
        self.scheduler = Scheduler(self.cluster, Profile(order, *others), unit=unit)
        self.order = order
        self.jobs: dict[str, list[Pod]] = {}
        self.started: list[str] = []
        self.ended: set[str] = set()
        self.now = 0.0
        self.tell(NodeAdded(make_node("n", cpu=cpus)))

    def tell(self, event: Any) -> None:
        self.now += 1.0
        self.cluster.apply(event)
        self.take(self.scheduler.handle(event, now=self.now))

    def submit(self, name: str, team: str, size: int, cpu: int = 1, priority: int = 0) -> None:
        named: Any = {"group": name, "min_available": size, "cpu": cpu, "priority": priority}
        pods = [make_pod(f"{name}-{n}", **named) for n in range(size)]
        self.jobs[name] = [evolve(pod, labels={**pod.labels, "team": team}) for pod in pods]
        for pod in self.jobs[name]:
            self.tell(PodAdded(pod))

    def end(self, name: str) -> None:
        self.ended.add(name)
        for pod in self.jobs[name]:
            self.tell(PodDeleted(pod.uid))

    def decide(self, then: Callable[[], object] = lambda: None) -> None:
        """Decide until nothing is left to; *then* is called before each decision."""
        while True:
            then()
            effects = self.scheduler.schedule_one(now=self.now)
            self.scheduler._check()
            if effects is None:
                return
            self.take(effects)

    def take(self, effects: Any) -> None:
        for effect in effects:
            if isinstance(effect, Bind):
                name = effect.uid.rpartition("-")[0].rpartition("/")[2]
                if name not in self.started:
                    self.started.append(name)

    def team(self, name: str) -> str:
        return self.jobs[name][0].labels["team"]

    def running(self) -> list[str]:
        return [name for name in self.started if name not in self.ended]

    def cpus(self, team: str) -> int:
        """Return how many milli-CPUs the running jobs of a team request."""
        pods = [p for name in self.running() if self.team(name) == team for p in self.jobs[name]]
        return sum(pod.requests["cpu"] for pod in pods)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("size", [1, 2])
def test_weights_of_two_to_one_end_within_one_job_of_two_to_one(
    unit: SchedulingUnit, size: int
) -> None:
    run = Run(FairShare({"a": 2, "b": 1}), cpus=12, unit=unit)
    for n in range(40):
        run.submit(f"a{n}", "a", size)
        run.submit(f"b{n}", "b", size)
    run.decide()
    for _end in range(30):
        run.end(run.running()[0])
        run.decide()
        assert (run.cpus("a"), run.cpus("b")) == (8000, 4000)
        for team in "ab":
            assert run.scheduler.usage(team)["cpu"] == run.cpus(team)


jobs = st.tuples(
    st.sampled_from("abc"), st.integers(1, 3), st.integers(1, 3), st.sampled_from([0, 0, 1])
)


@one_in(2)
@given(
    steps=st.lists(st.one_of(jobs, st.integers(0, 5)), min_size=1, max_size=40),
    weights=st.tuples(*[st.integers(1, 3)] * 3),
)
def test_next_job_is_the_first_that_fits_of_the_team_with_the_smallest_share(
    steps: list[Any], weights: tuple[int, ...]
) -> None:
    """Pod by pod, what half of a job holds and gives back at another's turn comes between."""
    run = Run(FairShare(dict(zip("abc", weights, strict=True))), cpus=6)
    cpus = 6000
    submitted: list[str] = []

    def expected() -> list[str]:
        """Return the jobs in the order in which they start, computed anew from the requests."""
        used = {team: run.cpus(team) for team in "abc"}
        free = cpus - sum(used.values())
        left = [name for name in submitted if name not in started and name not in run.ended]
        found: list[str] = []
        while True:
            fitting = [n for n in left if sum(p.requests["cpu"] for p in run.jobs[n]) <= free]
            if not fitting:
                return found

            def turn(name: str) -> tuple[float, int, int]:
                team, first = run.team(name), run.jobs[name][0]
                share = used[team] / run.order.weights[team]
                return (share, -first.priority, submitted.index(name))

            name = min(fitting, key=turn)
            wanted = sum(p.requests["cpu"] for p in run.jobs[name])
            used[run.team(name)] += wanted
            free -= wanted
            left.remove(name)
            found.append(name)

    for number, step in enumerate(steps):
        if isinstance(step, int):
            running = run.running()
            if running:
                run.end(running[step % len(running)])
        else:
            team, size, cpu, priority = step
            name = f"{team}{number}"
            submitted.append(name)
            run.submit(name, team, size, cpu, priority)
        started = list(run.started)
        wanted = expected()
        run.decide()
        assert run.started[len(started) :] == wanted


def test_gang_that_is_half_placed_is_not_interrupted_though_its_share_grows() -> None:
    run = Run(FairShare({"a": 1, "b": 1}), cpus=4, unit=SchedulingUnit.POD)
    run.submit("a", "a", 4)
    run.submit("b", "b", 4)
    run.decide()
    assert run.started == ["a"]
    assert run.scheduler.pending()


@pytest.mark.parametrize("unit", UNITS)
def test_usage_that_grows_before_a_woken_job_is_tried_gives_its_turn_away(
    unit: SchedulingUnit,
) -> None:
    run = Run(FairShare({"a": 1, "b": 1, "c": 1}), cpus=4, unit=unit)
    run.submit("c", "c", 4)
    run.decide()
    run.submit("a", "a", 3)
    run.submit("b", "b", 3)
    run.decide()
    run.end("c")
    run.tell(PodAdded(evolve(make_pod("other", cpu=1), labels={"team": "a"}, node_name="n")))
    run.decide()
    assert run.started == ["c", "b"]


def test_share_that_is_no_number_is_an_error_that_names_the_account() -> None:
    run = Run(FairShare({"a": 1, "b": 1}), cpus=4)
    order: Any = run.order
    order.share = lambda _account, _usage: "none"
    with pytest.raises(PluginError, match=r"FairShare.*share for a: returned 'none'.*a number"):
        run.submit("a", "a", 1)
    order.share = lambda _account, _usage: 0.0
    run.decide()
    assert run.started == ["a"]


def test_usage_that_a_snapshot_shows_is_dealt_with_by_the_first_call_after_it() -> None:
    run = Run(FairShare({"a": 1, "b": 1}), cpus=2)
    for name, team in (("a0", "a"), ("b0", "b"), ("a1", "a"), ("b1", "b")):
        run.submit(name, team, 1)
    run.decide()
    run.scheduler.restore(run.scheduler.snapshot())
    run.scheduler._check()
    run.end("a0")
    run.decide()
    run.scheduler._check()
    assert run.started == ["a0", "b0", "a1"]


def test_weights_of_quotas_beside_the_shares_of_a_plugin_are_refused() -> None:
    _policy, *others = presets.coscheduling_profile().plugins
    heavy = Quota(name="a", nominal={"cpu": 1}, weight=2.0)
    with pytest.raises(ProfileError, match="weights of quotas"):
        Scheduler(InMemoryCluster(), Profile(FairShare({}), *others), quotas=[heavy])
    scheduler = Scheduler(InMemoryCluster(), Profile(FairShare({}), *others))
    with pytest.raises(ProfileError, match="weights of quotas"):
        scheduler.set_quotas([heavy], now=0.0)
    assert not scheduler.quotas()


def _of_queue(name: str, queue: str, cpus: int, **more: Any) -> Pod:
    requests = {"cpu": cpus}
    return Pod(name=name, requests=requests, labels={"team": "t"}, queue=queue, **more)


def test_gang_takes_back_though_accounts_of_a_plugin_are_no_queues() -> None:
    """A queue uses less than before, so its gang takes back what the other one borrows."""
    _policy, *others = presets.coscheduling_profile().plugins
    cluster = InMemoryCluster()
    scheduler = Scheduler(
        cluster,
        Profile(FairShare({"t": 1}), *others),
        unit=SchedulingUnit.GROUP,
        quotas=[
            Quota(name="org"),
            *(Quota(name=name, parent="org", nominal={"cpu": 4}) for name in "ab"),
        ],
        preemption=Preemption(reclaim=Reclaim.NOMINAL),
        can_evict=True,
    )
    running = {"a": 3, "b": 5}
    pods = [
        _of_queue(f"{queue}{n}", queue, 1, node_name=NodeName("n"))
        for queue, count in running.items()
        for n in range(count)
    ]
    events: list[Event] = [NodeAdded(make_node("n", cpu=20)), *map(PodAdded, pods)]
    large = _of_queue("large", "a", 2)
    for event in (*events, PodAdded(large)):
        scheduler.handle(cluster.apply(event), now=0.0)
    while scheduler.schedule_one(now=0.0) is not None:
        pass
    assert "exceeded quota a" in str(scheduler.why(large))
    effects = [*scheduler.handle(cluster.apply(PodDeleted(pods[0].uid)), now=1.0)]
    while (more := scheduler.schedule_one(now=1.0)) is not None:
        effects += more
    assert [effect.uid for effect in effects if isinstance(effect, Evict)] == ["default/b4"]
