"""Law 1 for groups with minima per role: no member is released before each role has its minimum."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Coscheduling,
    GroupKey,
    GroupRejected,
    MatchPolicy,
    NodeName,
    Outcome,
    PluginError,
    Pod,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    Profile,
    Scheduler,
    SchedulingUnit,
    Success,
    Unschedulable,
    WhenBlocked,
    explain,
)
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.protocols import CycleView
from gangsched.testing import make_pod
from support.driver import Driver, Fate
from support.examples import one_in
from support.gangs import node
from support.histories import Policy, steady_policies
from support.history_steps import ChangePod, Decide, PutGroup, PutNode, PutPods
from support.world import World

PS, WORKERS = (("ps", 1),), (("ps", 1), ("worker", 4))
G = GroupKey("default/g0")
gangs = steady_policies.filter(lambda policy: policy.gangs)
by_pod = gangs.map(lambda policy: evolve(policy, unit=SchedulingUnit.POD))


Roles = tuple[tuple[str, int], ...]


def running(world: World) -> list[str]:
    """Return the bound pods."""
    return sorted(pod.name for pod in world.driver.cluster.pods() if pod.node_name is not None)


def begun(policy: Policy | None = None, *, cpu: int = 9, roles: Roles = WORKERS) -> World:
    """Return a world with a node, and a group that gives minima per role."""
    world = (policy or Policy()).world()
    return world.live(PutNode(0, cpu=cpu), PutGroup(0, 5, roles=roles))


@one_in(2)
@given(gangs)
def test_five_workers_and_no_server_are_no_quorum(policy: Policy) -> None:
    world = begun(policy).live(PutPods(0, 5, role="worker")).finish()
    assert running(world) == []
    why = world.driver.scheduler.why(G)
    assert why == explain.NotEnoughMembers(G, 5, 5, (), (("ps", 1, 0),))
    assert str(why) == "waiting for 1 more ps: 0 of 1 exist"
    world.live(PutPods(0, 1, role="ps")).finish()
    assert len(running(world)) == 6


def test_members_without_a_role_count_for_the_whole_only() -> None:
    world = begun(roles=PS).live(PutPods(0, 4, role="evaluator"), PutPods(0, 3)).finish()
    assert running(world) == []
    world.live(PutPods(0, 1, role="ps")).finish()
    assert len(running(world)) == 8


@one_in(2)
@given(gangs, st.permutations([("ps", 2), ("worker", 6), (None, 1)]), st.integers(0, 9))
def test_gang_starts_exactly_where_its_quorum_fits_in_any_order_of_arrival(
    policy: Policy, arrivals: list[tuple[str | None, int]], room: int
) -> None:
    """Elastic workers that arrived first leave the capacity of the server that arrived last."""
    world = begun(policy, cpu=room)
    for role, count in arrivals:
        world.live(PutPods(0, count, role=role))
    world.finish()
    assert len(running(world)) == (min(room, 9) if room >= 5 else 0)


@pytest.mark.pod_by_pod("members hold nodes and wait")
@pytest.mark.pod_by_pod("members hold nodes while others are tried")
@pytest.mark.parametrize("when", WhenBlocked)
def test_server_that_fits_nowhere_holds_the_workers_back(when: WhenBlocked) -> None:
    """It is out of reach as soon as no untried server is left, and the policy then applies.

    Before that, no worker is tried that is not needed.
    """
    world = begun(Policy(when_blocked=when))
    world.live(PutPods(0, 6, role="worker"), PutPods(0, 1, cpu=99, role="ps"), Decide())
    held = {WhenBlocked.AT_ONCE: 0, WhenBlocked.UNTIL_OTHERS_TURN: 4, WhenBlocked.UNTIL_TIMEOUT: 6}
    assert len(world.driver.scheduler.waiting) == held[when]
    world.finish()
    assert running(world) == []
    reason = str(world.driver.scheduler.why(G))
    assert "default/p7" in reason
    assert "Insufficient cpu" in reason


def test_another_server_is_tried_when_the_first_fits_nowhere() -> None:
    """It goes before an elastic worker that arrived first."""
    world = begun(cpu=5)
    world.live(
        PutPods(0, 4, role="worker"),
        PutPods(0, 1, cpu=99, role="ps"),
        PutPods(0, 1, role="worker"),
        PutPods(0, 1, role="ps"),
    ).finish()
    assert running(world) == ["p1", "p2", "p3", "p4", "p7"]


@one_in(2)
@given(by_pod, st.sampled_from(["terminate", "delete", "fail", "recreate"]))
def test_deleted_server_rejects_the_waiting_workers(policy: Policy, how: str) -> None:
    world = begun(policy, cpu=5)
    world.live(PutPods(0, 1, role="ps"), PutPods(0, 4, role="worker"), Decide(steps=3))
    waited = len(world.driver.scheduler.waiting)
    world.live(ChangePod(0, how))
    assert waited == 3
    if how == "recreate":
        world.finish()
        assert len(running(world)) == 5
    else:
        assert len(world.driver.scheduler.waiting) == 0
        assert running(world.finish()) == []


def test_worker_that_becomes_a_server_counts_as_one_from_then_on() -> None:
    world = begun().live(PutPods(0, 6, role="worker"), Decide())
    assert running(world) == []
    world.live(ChangePod(0, "recast", to=1)).finish()
    assert len(running(world)) == 6


@pytest.mark.pod_by_pod("members hold nodes and wait")
@pytest.mark.pod_by_pod("members hold nodes while others are tried")
@pytest.mark.parametrize("match", [MatchPolicy.WAITING_AND_RUNNING, MatchPolicy.ONLY_WAITING])
def test_match_policy_decides_which_members_count_for_a_role(match: MatchPolicy) -> None:
    world = begun(Policy(match_policy=match), cpu=20, roles=PS)
    world.live(PutPods(0, 1, role="ps"), PutPods(0, 4, role="worker"), Decide())
    assert len(running(world)) == 5
    world.live(PutPods(0, 5, role="worker")).finish()
    alone = match is MatchPolicy.WAITING_AND_RUNNING
    assert len(running(world)) == (10 if alone else 5)
    world.live(PutPods(0, 1, role="ps")).finish()
    assert len(running(world)) == (11 if alone else 10)


def test_workers_that_run_without_a_server_do_not_start_a_group_after_a_restart() -> None:
    """They were not released as a gang: a quorum that lacks a role is none."""
    world = begun(roles=PS).live(PutPods(0, 6, role="worker"))
    world.live(*(ChangePod(n, "seize") for n in range(5)))
    assert len(running(world.finish())) == 5
    world.live(PutPods(0, 1, role="ps")).finish()
    assert len(running(world)) == 7


def test_group_that_failed_for_a_role_is_tried_again_after_a_relevant_event_only() -> None:
    """The server alone would fit, and there is capacity for as many members as are needed."""
    world = begun(Policy(when_blocked=WhenBlocked.AT_ONCE), cpu=5)
    world.live(PutPods(0, 6, role="worker"), PutPods(0, 1, cpu=5, role="ps")).finish()
    falls = world.driver.effects(GroupRejected)
    assert len(falls) <= 2, "pod by pod, and once as a whole"
    world.live(PutNode(0, cpu=9)).finish()
    assert running(world) == ["p1", "p2", "p3", "p4", "p7"]


@pytest.mark.once("its scheduler decides pod by pod")
@pytest.mark.parametrize("point", ["reserve", "permit", "raise"])
def test_server_that_was_refused_once_is_still_a_server(point: str) -> None:
    """Capacity of a failed or interrupted cycle goes to that member before an elastic one."""
    faulty = OnceOdd(point)
    profile = Profile(Coscheduling(), NodeResources(), faulty, DefaultBinder())
    driver = Driver(lambda cluster: Scheduler(cluster, profile))
    driver.tell(node("n", 5))
    driver.tell(PodGroupAdded(PodGroup(name="g", roles={"ps": 1, "worker": 4})))
    driver.add(*(make_pod(f"w-{n}", group="g", role="worker", cpu=1) for n in range(6)))
    driver.add(make_pod("ps-0", group="g", role="ps", cpu=1))
    if point == "raise":
        with pytest.raises(PluginError):
            driver.drain()
    driver.settle()
    assert faulty.said
    assert sum(pod.node_name is not None for pod in driver.cluster.pods()) == 5


def test_server_without_gates_is_tried_before_an_elastic_worker() -> None:
    world = begun(cpu=5).live(PutPods(0, 6, role="worker"), PutPods(0, 1, role="ps", gated=True))
    world.live(Decide(), ChangePod(6, "ungate")).finish()
    assert running(world) == ["p1", "p2", "p3", "p4", "p7"]


class OnceOdd:
    """Says no to a server once, or raises, at some point."""

    name = "OnceOdd"

    def __init__(self, point: str) -> None:
        self.point = point
        self.said = False

    def reserve(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        """Say no, or raise."""
        return self._say(pod, "reserve")

    def unreserve(
        self, state: CycleView, pod: Pod, node: NodeName, *, cause: str, now: float
    ) -> None:
        """Do nothing."""

    def permit(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        """Say no."""
        return self._say(pod, "permit")

    def _say(self, pod: Pod, point: str) -> Outcome:
        if pod.name != "ps-0" or self.said or self.point not in (point, "raise"):
            return Success()
        self.said = True
        if self.point == "raise":
            raise RuntimeError("once")
        return Unschedulable("once")


class TurnsDown:
    """Lets certain pods not be bound."""

    name = "TurnsDown"

    def __init__(self, *names: str) -> None:
        self.names = names

    def pre_bind(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        """Say no to them."""
        return Unschedulable("no") if pod.name in self.names else Success()


@pytest.mark.once("its scheduler decides pod by pod")
@pytest.mark.parametrize(
    ("names", "bound"),
    [((), 6), (("w-4",), 5), (("w-3", "w-4"), 4), (("ps-0",), 0), (("w-2", "w-3", "w-4"), 0)],
)
def test_member_refused_at_pre_bind_must_not_be_needed(names: tuple[str, ...], bound: int) -> None:
    """Two workers are elastic, and the server is missing."""
    profile = Profile(Coscheduling(), NodeResources(), TurnsDown(*names), DefaultBinder())
    driver = Driver(lambda cluster: Scheduler(cluster, profile), fate=Fate.PENDING)
    driver.tell(node("n", 9))
    driver.tell(PodGroupAdded(PodGroup(name="g", roles={"ps": 1, "worker": 6})))
    driver.add(make_pod("ps-0", group="g", role="ps", cpu=1))
    driver.add(*(make_pod(f"w-{n}", group="g", role="worker", cpu=1) for n in range(6)))
    for _ in range(6):
        driver.step()
    assert len(driver.scheduler.waiting) == 6
    driver.tell(PodGroupUpdated(PodGroup(name="g", roles={"ps": 1, "worker": 3})))
    assert len(driver.under_way) == bound
