"""Victims of preemption: which are chosen, which are spared, and how long they are waited for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pytest
from attrs import evolve, frozen
from hypothesis import event, example, given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    Evict,
    GroupKey,
    InMemoryCluster,
    LabelSelector,
    Node,
    NodeAdded,
    NodeName,
    Nominated,
    NominationLapsed,
    ObjectChanged,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodGroup,
    PodGroupAdded,
    PodUID,
    PodUpdated,
    Preemption,
    Scheduler,
    SchedulingUnit,
    Topology,
    TopologySpreadConstraint,
    presets,
)
from gangsched.cluster_objects import PodDisruptionBudget
from gangsched.events import Effect, Event
from gangsched.model import FrozenMap
from gangsched.protocols import ClusterState
from gangsched.simulation import RUN_SECONDS, Arrival, Simulator
from gangsched.testing import make_node, make_pod
from support.faulty_plugin import FaultyPlugin
from support.immediate_host import ImmediateHost
from support.preemption_host import EACH_UNIT, Host, runs
from support.story import Story

# kube-scheduler 1.36.

_CPUS: Final = 4
_BASE: Final = 2**31
_HIGHEST: Final = 9


@frozen
class _Running:
    name: str
    node: str
    cpu: int
    priority: int
    started: int
    app: str = ""


def _victims(cpu: int, running: Sequence[_Running], allowed: Mapping[str, int]) -> set[str]:
    cluster = InMemoryCluster()
    scheduler = presets.pod_by_pod(cluster, preemption=Preemption())
    effects: list[Any] = []

    def tell(told: Any) -> None:
        effects.extend(scheduler.handle(cluster.apply(told), now=0.0))
        while (more := scheduler.schedule_one(now=0.0)) is not None:
            effects.extend(more)

    for node in sorted({each.node for each in running}):
        tell(NodeAdded(Node(name=NodeName(node), allocatable={"cpu": _CPUS})))
    for app, count in allowed.items():
        budget = PodDisruptionBudget(
            name=app, selector=LabelSelector({"app": app}), disruptions_allowed=count
        )
        tell(ObjectChanged(budget))
    for each in running:
        pod = Pod(
            name=each.name,
            node_name=each.node,
            requests={"cpu": each.cpu},
            priority=each.priority,
            labels={"app": each.app},
            created_at=float(each.started),
        )
        tell(PodAdded(pod))
    effects.clear()
    tell(PodAdded(Pod(name="high", priority=_HIGHEST, requests={"cpu": cpu})))
    scheduler._check()
    return {effect.uid.removeprefix("default/") for effect in effects if isinstance(effect, Evict)}


def _importance(pod: _Running) -> tuple[int, int]:
    return (-pod.priority, pod.started)


def _on_node(cpu: int, pods: Iterable[_Running], allowed: Mapping[str, int]) -> list[_Running]:
    left, violating, others = dict(allowed), list[_Running](), list[_Running]()
    for pod in sorted(pods, key=_importance):
        left[pod.app] = left.get(pod.app, len(pod.name) + 99) - 1
        (violating if left[pod.app] < 0 else others).append(pod)
    victims, free = list[_Running](), _CPUS
    for pod in (*violating, *others):
        if free - pod.cpu >= cpu:
            free -= pod.cpu
        else:
            victims.append(pod)
    return victims


def _cost(victims: Iterable[_Running], allowed: Mapping[str, int]) -> tuple[int, ...]:
    left, violations, given = dict(allowed), 0, list(victims)
    for pod in given:
        if pod.app in left:
            left[pod.app] -= 1
            violations += left[pod.app] < 0
    total = sum(pod.priority + _BASE for pod in given)
    highest = max(pod.priority for pod in given)
    first = min(pod.started for pod in given if pod.priority == highest)
    return violations, highest, total, len(given), -first


def _choice(cpu: int, running: Sequence[_Running], allowed: Mapping[str, int]) -> set[str]:
    nodes = sorted({each.node for each in running})
    found = [_on_node(cpu, [p for p in running if p.node == node], allowed) for node in nodes]
    return {pod.name for pod in min(found, key=lambda victims: _cost(victims, allowed))}


@st.composite
def _full_nodes(draw: st.DrawFn) -> tuple[_Running, ...]:
    running: list[_Running] = []
    for node in "abc"[: draw(st.integers(1, 3))]:
        free = _CPUS
        while free:
            cpu = min(draw(st.integers(1, 3)), free)
            free -= cpu
            priority, app = draw(st.integers(1, 3)), draw(st.sampled_from(("", "web", "db")))
            number = len(running)
            running.append(_Running(f"r{number}", node, cpu, priority, number + 1, app))
    return tuple(running)


_BUDGETS: Final = st.dictionaries(st.sampled_from(("web", "db")), st.integers(0, 2))


@given(cpu=st.integers(1, _CPUS), running=_full_nodes(), allowed=_BUDGETS)
@example(
    cpu=4,
    running=(_Running("r0", "a", 4, 2, 1), _Running("r1", "b", 4, 1, 2)),
    allowed={},
)
def test_victims_cost_no_more_than_by_kube_scheduler(
    cpu: int, running: tuple[_Running, ...], allowed: dict[str, int]
) -> None:
    by_name = {each.name: each for each in running}
    found, expected = _victims(cpu, running, allowed), _choice(cpu, running, allowed)
    own = _cost((by_name[name] for name in sorted(found)), allowed)
    theirs = _cost((by_name[name] for name in sorted(expected)), allowed)
    assert own <= theirs, f"{found} costs {own}, and {expected} only {theirs}"
    event("the same victims" if found == expected else "another choice, which costs less")


# Elastic members are evicted before a whole gang, also where it takes those of several gangs


@EACH_UNIT
@pytest.mark.parametrize("is_signed", [True, False])
def test_elastic_members_of_two_gangs_are_evicted_before_a_whole_gang(
    unit: SchedulingUnit, is_signed: bool
) -> None:
    host = Host(4, unit=unit, faulty=None if is_signed else FaultyPlugin("filter"))
    runs(host, "a", 0, 0, min_available=1)
    runs(host, "b", 0, 0, min_available=1)
    host.pods(make_pod("high", cpu=2, priority=5))
    assert sorted(host.evicted) == ["a-1", "b-1"]


@EACH_UNIT
def test_only_the_elastic_members_that_are_needed_are_evicted(unit: SchedulingUnit) -> None:
    """The third gang was created first; of equal gangs the youngest give up members."""
    host = Host(6, unit=unit)
    for name, created_at in (("a", 2), ("b", 3), ("c", 1)):
        runs(host, name, 0, 0, min_available=1, created_at=created_at)
    host.pods(make_pod("high", cpu=2, priority=5, created_at=9))
    assert sorted(host.evicted) == ["a-1", "b-1"]


@EACH_UNIT
def test_elastic_members_on_one_node_are_evicted_where_only_these_free_enough(
    unit: SchedulingUnit,
) -> None:
    """The members that came last are on different nodes, and free too little on each."""
    host = Host(2, 2, unit=unit)
    runs(host, "a", 0, 1, min_available=1)
    runs(host, "b", 1, 0, min_available=1)
    host.pods(make_pod("high", cpu=2, priority=5))
    assert len(host.evicted) == 2
    assert {name.partition("-")[0] for name in host.evicted} == {"a", "b"}
    where = host.where
    assert len({where[name] for name in host.evicted}) == 1


@EACH_UNIT
def test_elastic_members_on_two_nodes_are_evicted_for_members_that_need_a_whole_node_each(
    unit: SchedulingUnit,
) -> None:
    """The members that came last are on four nodes, and free too little on each."""
    host = Host(2, 2, 2, 2, unit=unit)
    runs(host, "a", 0, 1, 2, 3, min_available=2)
    runs(host, "b", 2, 3, 0, 1, min_available=2)
    host.gang("high", 2, 5, cpu=2)
    where = host.where
    on = sorted(where[name] for name in host.evicted)
    assert len(on) == 4
    assert on[0] == on[1] != on[2] == on[3]


@EACH_UNIT
def test_gang_keeps_its_role_minimum_where_members_on_one_node_are_evicted(
    unit: SchedulingUnit,
) -> None:
    host = Host(3, 1, unit=unit)
    host.tell(PodGroupAdded(PodGroup(name="a", min_available=1, roles={"ps": 1})))
    runs(host, "a", 0, min_available=None, role="ps")
    host.pods(make_pod("a-1", group="a", cpu=1, role="worker"))
    host.pods(make_pod("a-2", group="a", cpu=1, role="worker"))
    host.pods(make_pod("a-3", group="a", cpu=1, role="worker"))
    on_n0 = sorted(name for name, node in host.where.items() if node == "n0")
    host.pods(make_pod("high", cpu=2, priority=5))
    assert sorted(host.evicted) == [name for name in on_n0 if name != "a-0"]


@EACH_UNIT
def test_whole_gang_is_evicted_where_all_elastic_members_are_not_enough(
    unit: SchedulingUnit,
) -> None:
    host = Host(5, unit=unit)
    runs(host, "a", 0, 0, min_available=1)
    runs(host, "b", 0, 0, 0, min_available=3)
    host.pods(make_pod("high", cpu=3, priority=5))
    assert sorted(host.evicted) == ["b-0", "b-1", "b-2"]


# Elastic members are evicted before a gang is ended that would free as much alone


@EACH_UNIT
def test_elastic_members_of_two_gangs_are_evicted_before_one_gang(unit: SchedulingUnit) -> None:
    host = Host(2, 2, 2, unit=unit)
    runs(host, "whole", 0, 0)
    for name, node in (("a", 1), ("b", 2)):
        runs(host, name, node, node, min_available=1)
    host.gang("high", 2, 5)
    assert set(host.evicted) == {"a-1", "b-1"}


# A gang that is evicted whole, after its elastic members were not enough, is evicted once


@EACH_UNIT
def test_elastic_members_of_a_gang_that_is_evicted_are_evicted_once(unit: SchedulingUnit) -> None:
    host = Host(3, unit=unit)
    runs(host, "a", 0, 0, 0, min_available=2)
    host.gang("high", 3, 5)
    assert sorted(host.evicted) == ["a-0", "a-1", "a-2"]


@EACH_UNIT
def test_gang_counts_its_elastic_members_once_where_gangs_are_compared(
    unit: SchedulingUnit,
) -> None:
    """Both have three pods, each gang on its rack, and the younger is evicted."""
    host = Host(3, 3, unit=unit)
    runs(host, "rigid", 0, 0, 0, min_available=3, created_at=1)
    runs(host, "elastic", 1, 1, 1, min_available=2, created_at=2)
    topology = Topology("rack", required=True)
    host.tell(PodGroupAdded(PodGroup(name="high", min_available=3, topology=topology)))
    host.pods(*[make_pod(f"high-{n}", group="high", cpu=1, priority=5) for n in range(3)])
    assert sorted(host.evicted) == ["elastic-0", "elastic-1", "elastic-2"]


# Pods that gain nothing alone are taken in batches that double, so more are taken than needed.


def run(host: Host, name: str, *, node: str = "n0", app: str = "", **more: Any) -> None:
    pod = make_pod(name, cpu=1, **more)
    host.tell(PodAdded(evolve(pod, node_name=NodeName(node), labels={**pod.labels, "app": app})))


def spared(host: Host, *names: str, needed: int) -> set[str]:
    """Return the pods that stay when a member that needs the capacity of most comes.

    The other member of its gang fits on the node ``n1``.
    """
    host.gang("high", 2, 5, cpu=needed)
    assert len(host.evicted) == needed
    return {*names}.difference(host.evicted)


@EACH_UNIT
@pytest.mark.parametrize("names", ["abc", "cba"])
def test_oldest_pod_is_spared(unit: SchedulingUnit, names: str) -> None:
    host = Host(3, 2, unit=unit)
    for name in names:
        run(host, name, created_at=float(ord(name)))
    assert spared(host, *names, needed=2) == {"a"}


@EACH_UNIT
def test_pod_that_arrived_first_is_spared_of_pods_of_one_age(unit: SchedulingUnit) -> None:
    host = Host(3, 2, unit=unit)
    for name in "bca":
        run(host, name)
    assert spared(host, *"bca", needed=2) == {"b"}


@EACH_UNIT
def test_pod_of_higher_priority_is_spared_before_an_older_pod(unit: SchedulingUnit) -> None:
    host = Host(5, 4, unit=unit)
    run(host, "low", created_at=0.0)
    for number, name in enumerate("wxyz"):
        run(host, name, priority=1, created_at=number + 1.0)
    assert spared(host, "low", *"wxyz", needed=4) == {"w"}


@EACH_UNIT
def test_gang_of_more_pods_is_spared_before_an_older_gang(unit: SchedulingUnit) -> None:
    host = Host(3, 3, unit=unit)
    run(host, "old-0", group="old", min_available=1, created_at=0.0)
    for number, node in enumerate(("n0", "n1")):
        more: dict[str, Any] = {"group": "large", "min_available": 2}
        run(host, f"large-{number}", node=node, created_at=9.0, **more)
    run(host, "young-0", group="young", min_available=1, created_at=5.0)
    assert spared(host, "old-0", "large-0", "young-0", needed=2) == {"large-0"}


@EACH_UNIT
def test_gang_of_one_pod_is_spared_like_a_pod_of_its_age(unit: SchedulingUnit) -> None:
    host = Host(3, 2, unit=unit)
    run(host, "young-0", group="young", min_available=1, created_at=3.0)
    run(host, "old", created_at=1.0)
    run(host, "pod", created_at=2.0)
    assert spared(host, "young-0", "old", "pod", needed=2) == {"old"}


# A victim may be spared only because another one was: then it is looked at again

_COUNTED = LabelSelector({"app": "s"})
_EVEN = TopologySpreadConstraint(
    max_skew=1, topology_key="zone", label_selector=_COUNTED, node_affinity_policy="Ignore"
)
_APART = PodAffinityTerm(topology_key="region", label_selector=_COUNTED)


def test_pod_of_each_zone_stays_where_only_one_in_the_way_must_leave() -> None:
    """Without the pod of the other zone, the spread constraint would need its own to leave."""
    host = ImmediateHost()
    host.scheduler = presets.gang(host.cluster, preemption=Preemption())
    for name in ("a", "b"):
        labels = {"zone": name, "region": "r"}
        host.tell(NodeAdded(Node(name=name, allocatable={"pods": 9}, labels=labels)))
    running = [
        Pod(name="of-a", labels={"app": "s"}, node_name="a", created_at=1.0),
        Pod(name="in-the-way", pod_anti_affinity=[_APART], node_name="b", created_at=2.0),
        Pod(name="of-b", labels={"app": "s"}, node_name="b", created_at=3.0),
    ]
    for pod in running:
        host.tell(PodAdded(pod))
    host.tell(PodGroupAdded(PodGroup(name="g", min_available=1)))
    host.tell(
        PodAdded(
            Pod(
                name="g-0",
                pod_group="g",
                priority=5,
                labels={"app": "s"},
                node_selector={"zone": "a"},
                topology_spread_constraints=[_EVEN],
            )
        )
    )
    host.decide()
    assert [e.uid for e in host.effects if isinstance(e, Evict)] == ["default/in-the-way"]
    host.end("in-the-way")
    host.decide()
    assert [e.node for e in host.effects if isinstance(e, Bind)] == ["a"]


@EACH_UNIT
def test_groups_of_a_bundle_are_evicted_together(unit: SchedulingUnit) -> None:
    host = Host(2, unit=unit)
    for name, other in (("a", "b"), ("b", "a")):
        spec = PodGroup(name=name, min_available=1, bundle=[GroupKey(f"default/{other}")])
        host.tell(PodGroupAdded(spec))
    host.pods(make_pod("a-0", group="a", cpu=1), make_pod("b-0", group="b", cpu=1))
    assert set(host.where) == {"a-0", "b-0"}
    host.pods(make_pod("high", cpu=1, priority=5))
    assert sorted(host.evicted) == ["a-0", "b-0"]


@EACH_UNIT
@pytest.mark.parametrize("members", [2, 3], ids=["gang", "late member"])
def test_pod_in_another_rack_of_the_zone_is_evicted_for_a_gang_within_a_rack(
    unit: SchedulingUnit, members: int
) -> None:
    """The second rack is too small for the gang, and its pod keeps members out of the zone."""
    story = Story(lambda c: presets.coscheduling(c, unit=unit, preemption=EVICTS))
    for name, rack, size in (("a", "r1", 3), ("b", "r2", 1)):
        labels = {"zone": "z", "rack": rack}
        story.tell(NodeAdded(Node(name=name, allocatable={"pods": size}, labels=labels)))
    story.tell(PodGroupAdded(PodGroup(name="g", min_available=2, topology=Topology("rack"))))
    noisy = PodAffinityTerm(topology_key="zone", label_selector=LabelSelector({"app": "noisy"}))
    pods = [
        Pod(name=f"g-{n}", pod_group="g", priority=5, pod_anti_affinity=[noisy])
        for n in range(members)
    ]
    if members == 3:
        story.add(*pods[:2])
        story.decide()
    story.add(Pod(name="noisy", labels={"app": "noisy"}, node_name="b"))
    story.add(*pods[-2 if members == 2 else -1 :])
    story.run(until=60.0)
    assert story.evicted == ["noisy"]
    assert story.bound == dict.fromkeys((pod.name for pod in pods), "a")


# Victims that may terminate for longer than the grace: no other pod is evicted in their place

EVICTS: Final = Preemption(elastic_members=True)
GRACE = 60.0


def terminate(host: Host, name: str, until: float) -> None:
    """Report that a pod is being deleted, with the instant until which its containers may run."""
    pod = host.cluster.pod(PodUID(f"default/{name}"))
    assert pod is not None
    host.tell(PodUpdated(evolve(pod, deleted_at=until)))
    host.decide()


def preempting(unit: SchedulingUnit, *, until: float) -> Host:
    """Return two nodes, each held by a gang of two; a gang of two has evicted one of the gangs.

    Its members may terminate until the given instant.
    """
    host = Host(2, 2, unit=unit)
    host.gang("low", 2, 0)
    host.gang("other", 2, 0)
    host.gang("high", 2, 5)
    assert len(host.evicted) == 2
    for name in host.evicted:
        terminate(host, name, until=until)
    return host


@EACH_UNIT
def test_victims_that_may_still_terminate_are_counted_on_after_the_grace(
    unit: SchedulingUnit,
) -> None:
    host = preempting(unit, until=600.0)
    victims = host.evicted
    for at in range(int(GRACE), 600, int(GRACE)):
        host.at(float(at))
    assert host.evicted == victims, "the other gang runs on"
    assert host.kept == ["high-0", "high-1"]
    assert not host.told(NominationLapsed)
    host.end(*victims)
    assert {"high-0", "high-1"} <= {*host.where}


@EACH_UNIT
def test_victims_are_overdue_when_their_own_time_is_over(unit: SchedulingUnit) -> None:
    host = preempting(unit, until=90.0)
    host.at(GRACE)
    assert len(host.evicted) == 2
    host.at(2 * GRACE)
    assert len(host.evicted) == 4
    assert host.told(NominationLapsed)[-1].reason == "2 pods did not terminate in time"


@EACH_UNIT
def test_nomination_lapses_if_one_of_its_victims_is_overdue(unit: SchedulingUnit) -> None:
    """Later plans count on the other one."""
    host = preempting(unit, until=600.0)
    late, slow = host.evicted[:2]
    terminate(host, late, until=30.0)
    host.at(GRACE)
    assert host.told(NominationLapsed)[0].reason == "2 pods did not terminate in time"
    assert host.scheduler.snapshot()["overdue"] == [f"default/{late}"]
    assert slow != late


@EACH_UNIT
def test_gang_takes_a_node_that_becomes_free_while_its_victims_terminate(
    unit: SchedulingUnit,
) -> None:
    host = preempting(unit, until=600.0)
    victims = host.evicted
    left = sorted({"low-0", "low-1", "other-0", "other-1"} - {*victims})
    host.end(*left)
    host.at(GRACE)
    assert {"high-0", "high-1"} <= {*host.where}


@EACH_UNIT
@pytest.mark.parametrize("grace", [0.0, 0.5])
def test_short_grace_does_not_repeat_the_deadline_at_one_instant(
    unit: SchedulingUnit, grace: float
) -> None:
    host = Host(1, unit=unit, preemption=Preemption(grace=grace))
    host.pods(make_pod("low", cpu=1))
    host.pods(make_pod("high", cpu=1, priority=5))
    assert host.evicted == ["low"]
    terminate(host, "low", until=600.0)
    deadlines = 0
    while (due := host.scheduler.next_deadline()) is not None and due <= 10.0:
        host.at(due)
        deadlines += 1
        assert deadlines <= 12, "one a second"
    assert deadlines
    assert host.evicted == ["low"]
    host.end("low")
    assert host.where == {"high": "n0"}


# The grace of a victim begins with its ``Evict``, which is put off while its bind is under way


def binding(grace: float) -> Story:
    """Return a story with the bind of a victim under way, on one node for one pod."""
    policy = Preemption(grace=grace)
    story = Story(
        lambda cluster: presets.gang(cluster, preemption=policy, can_evict=True),
        holds_binds=True,
        holds_evictions=True,
    )
    story.tell(NodeAdded(make_node("n", cpu=1)))
    story.add(make_pod("low", cpu=1))
    story.decide()
    story.add(make_pod("high", cpu=1, priority=5))
    story.decide()
    (nominated,) = story.of(Nominated)
    assert nominated.victims == (story.uid("low"),)
    assert not story.evicted
    return story


@pytest.mark.parametrize("grace", [0.0, 10.0])
def test_nomination_outlasts_a_bind_that_is_longer_than_the_grace(grace: float) -> None:
    story = binding(grace)
    assert story.scheduler.next_deadline() is None
    story.run(until=100.0)
    assert not story.of(NominationLapsed)
    story.finish_binds()
    assert story.evicted == ["low"]
    assert story.scheduler.next_deadline() == 100.0 + grace
    story.run(until=100.0 + grace / 2)
    if grace:
        assert not story.of(NominationLapsed)
        story.delete("low")
        story.decide()
        story.finish_binds()
        assert story.bound == {"high": "n"}
        assert not story.of(NominationLapsed)


def test_nomination_is_used_at_once_when_the_bind_of_its_victim_fails() -> None:
    story = binding(10.0)
    story.run(until=50.0)
    story.fail_bind("low")
    story.decide()
    assert not story.evicted
    assert not story.of(NominationLapsed)
    story.finish_binds()
    assert story.bound == {"high": "n"}


# A grace of 0: the victims of a simulated run leave at once, and free their nodes

_MOST: Final = 50
"""More decisions than any run here needs."""


class _Notices:
    """The effects of a run; too many decisions fail the test instead of running without end."""

    def __init__(self) -> None:
        self.effects_seen: list[Effect] = []

    def event(self, event: Event, now: float) -> None:
        """Do nothing."""

    def effects(self, effects: Iterable[Effect], now: float) -> None:
        self.effects_seen += effects
        assert len(self.effects_seen) < 10 * _MOST, "effects without end"

    def settled(self, now: float) -> None:
        """Do nothing."""


def _pod(name: str, seconds: int, priority: int, group: str | None) -> PodAdded:
    minimum = None if group is None else 2
    pod = make_pod(name, cpu=1, priority=priority, group=group, min_available=minimum)
    noted = {**pod.annotations, RUN_SECONDS: str(seconds)}
    return PodAdded(evolve(pod, annotations=FrozenMap(noted)))


@pytest.mark.parametrize("policy", ["gang", "coscheduling", "pod_by_pod"])
@pytest.mark.parametrize("grace", [0.0, 60.0])
def test_preemptor_takes_the_nodes_of_victims_that_leave_at_once(policy: str, grace: float) -> None:
    def make(cluster: ClusterState) -> Scheduler:
        made = getattr(presets, policy)(cluster, preemption=Preemption(grace=grace))
        assert isinstance(made, Scheduler)
        return made

    notices = _Notices()
    arrivals = [Arrival(0.0, NodeAdded(make_node(f"n{n}", cpu=1))) for n in range(2)]
    arrivals += [Arrival(0.0, _pod(f"low-{n}", 100, 0, None)) for n in range(2)]
    arrivals += [Arrival(90.0, _pod(f"high-{n}", 100, 10, "high")) for n in range(2)]
    run = Simulator(arrivals, make, observers=[notices])
    assert run.run() == 290.0
    assert run.decisions < _MOST
    victims = [each.victims for each in notices.effects_seen if isinstance(each, Nominated)]
    assert sorted(uid for each in victims for uid in each) == ["default/low-0", "default/low-1"]
    assert not [each for each in notices.effects_seen if isinstance(each, NominationLapsed)]


@pytest.mark.parametrize("large", range(4))
def test_one_victim_that_makes_room_for_all_members_is_enough(large: int) -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, preemption=Preemption())
    effects: list[Any] = []
    events: list[Any] = []
    for number in range(4):
        cpu, node = (3 if number == large else 1), NodeName(f"n{number}")
        events.append(NodeAdded(Node(name=node, allocatable={"cpu": cpu})))
        events.append(PodAdded(Pod(name=f"low-{number}", requests={"cpu": cpu}, node_name=node)))
    members = [make_pod(f"g-{n}", cpu=1, group="g", min_available=2, priority=9) for n in range(2)]
    for each in [*events, *map(PodAdded, members)]:
        effects += scheduler.handle(cluster.apply(each), now=0.0)
    while (more := scheduler.schedule_one(now=0.0)) is not None:
        effects += more
    assert [e.uid for e in effects if isinstance(e, Evict)] == [f"default/low-{large}"]


# Disruption budgets: preemption violates one only where nothing else is enough

GROUP = {"pod-group.scheduling.sigs.k8s.io/name": "g"}


def budget(app: str, allowed: int) -> PodDisruptionBudget:
    selector = LabelSelector({"app": app})
    return PodDisruptionBudget(name=app, selector=selector, disruptions_allowed=allowed)


def victims(
    running: list[Pod],
    *budgets: PodDisruptionBudget,
    cpu: int = 1,
    groups: tuple[PodGroup, ...] = (),
) -> set[str]:
    """Return the pods that are evicted for a pod of high priority; each node takes one pod."""
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, preemption=Preemption())
    effects: list[Any] = []

    def tell(event: Any) -> None:
        effects.extend(scheduler.handle(cluster.apply(event), now=0.0))
        while (more := scheduler.schedule_one(now=0.0)) is not None:
            effects.extend(more)

    names = sorted({str(pod.node_name) for pod in running})
    for name in names:
        tell(NodeAdded(Node(name=NodeName(name), allocatable={"cpu": 1})))
    for one in budgets:
        tell(ObjectChanged(one))
    for group in groups:
        tell(PodGroupAdded(group))
    for pod in running:
        tell(PodAdded(pod))
    effects.clear()
    for number in range(cpu):
        tell(PodAdded(Pod(name=f"high-{number}", priority=9, requests={"cpu": 1})))
    scheduler._check()
    return {effect.uid.removeprefix("default/") for effect in effects if isinstance(effect, Evict)}


def placed(name: str, app: str, *, priority: int = 0, **fields: Any) -> Pod:
    labels = {"app": app, **fields.pop("labels", {})}
    return Pod(
        name=name,
        priority=priority,
        labels=labels,
        requests={"cpu": 1},
        node_name=f"n-{name}",
        **fields,
    )


def test_budget_counts_more_than_priority() -> None:
    """As in kube-scheduler, the fewest violations come before the lowest priority."""
    running = [placed("a", "x"), placed("b", "y", priority=5)]
    assert victims(running) == {"a"}
    assert victims(running, budget("x", 0)) == {"b"}


def test_budgets_of_one_pod_all_count() -> None:
    running = [placed("a", "x", labels={"tier": "t"}), placed("b", "y", priority=5)]
    both = PodDisruptionBudget(name="t", selector=LabelSelector({"tier": "t"}))
    assert victims(running, budget("x", 1), both) == {"b"}


@pytest.mark.parametrize("selector", [None, LabelSelector()])
def test_budget_without_conditions_covers_no_pod(selector: LabelSelector | None) -> None:
    empty = PodDisruptionBudget(name="e", selector=selector)
    assert victims([placed("a", "x"), placed("b", "y", priority=5)], empty) == {"a"}


def test_budget_counts_all_members_of_a_gang() -> None:
    members = [placed(name, "x", labels=GROUP) for name in ("a", "b")]
    other = placed("c", "y", priority=5)
    group = PodGroup(name="g", min_available=2)
    assert victims([*members, other], groups=(group,)) == {"a", "b"}
    assert victims([*members, other], budget("x", 1), groups=(group,)) == {"c"}
    assert victims([*members, other], budget("x", 2), groups=(group,)) == {"a", "b"}


def test_group_that_is_evicted_whole_gives_up_no_elastic_member() -> None:
    members = [placed(name, "x", labels=GROUP) for name in ("a", "b", "c")]
    group = PodGroup(name="g", min_available=2)
    assert len(victims(members, groups=(group,))) == 1
    whole = PodGroup(name="g", min_available=2, evicted_whole=True)
    assert victims(members, groups=(whole,)) == {"a", "b", "c"}


# Disruption budgets where a gang preempts, waits on permit, or has a nomination


def used_up_budget(host: Host, app: str, allowed: int = 0) -> None:
    """Let the cluster have a budget for the pods with a label ``app``."""
    selector = LabelSelector({"app": app})
    one = PodDisruptionBudget(name=app, selector=selector, disruptions_allowed=allowed)
    host.tell(ObjectChanged(one))


def labelled(name: str, app: str, **fields: Any) -> Pod:
    """Return a pod with a label ``app``."""
    pod = make_pod(name, cpu=1, **fields)
    return evolve(pod, labels={**pod.labels, "app": app})


def alone(host: Host, name: str, node: int, app: str, **fields: Any) -> None:
    """Let a regular pod run on a node."""
    host.tell(PodAdded(evolve(labelled(name, app, **fields), node_name=NodeName(f"n{node}"))))


@EACH_UNIT
def test_gang_violates_a_budget_where_nothing_else_is_enough(unit: SchedulingUnit) -> None:
    host = Host(1, 1, unit=unit)
    used_up_budget(host, "x")
    alone(host, "a", 0, "x")
    alone(host, "b", 1, "y")
    host.gang("high", 2, 5)
    assert sorted(host.evicted) == ["a", "b"]


@EACH_UNIT
@pytest.mark.parametrize("spared", ["a", "b", "c"])
def test_gang_spares_first_the_victim_that_violates_a_budget(
    unit: SchedulingUnit, spared: str
) -> None:
    """An unsigned profile tells nothing about gains, so all are taken before one is spared."""
    host = Host(1, 1, 1, unit=unit, faulty=FaultyPlugin("filter"))
    used_up_budget(host, "x")
    used_up_budget(host, "y", 2)
    for number, name in enumerate("abc"):
        alone(host, name, number, "x" if name == spared else "y", created_at=float(number))
    host.gang("high", 2, 5)
    assert len(host.evicted) == 2
    assert spared not in host.evicted


@EACH_UNIT
def test_nomination_is_taken_whatever_the_budget_of_its_pods_allows(unit: SchedulingUnit) -> None:
    """Its pods hold no node, so none is evicted; the other victim would be."""
    host = Host(1, unit=unit)
    alone(host, "low", 0, "y")
    used_up_budget(host, "x")
    host.pods(labelled("nominated", "x", priority=5))
    assert (host.evicted, host.kept) == (["low"], ["nominated"])
    host.tell(NodeAdded(make_node("n1", cpu=1)))
    alone(host, "other", 1, "y", priority=6)
    host.pods(labelled("high", "y", priority=9))
    assert (host.evicted, host.kept) == (["low"], ["high"])


@EACH_UNIT
def test_budget_counts_only_the_elastic_members_that_are_evicted(unit: SchedulingUnit) -> None:
    host = Host(3, 1, unit=unit)
    used_up_budget(host, "x", 1)
    for number in range(3):
        alone(host, f"g-{number}", 0, "x", group="g", min_available=1)
    alone(host, "other", 1, "y", priority=4)
    host.pods(make_pod("high", cpu=1, priority=5))
    assert host.evicted == ["g-2"]


@EACH_UNIT
def test_budget_counts_the_members_of_a_gang_in_other_racks(unit: SchedulingUnit) -> None:
    host = Host(1, 1, 1, unit=unit)
    used_up_budget(host, "x")
    for number, app in enumerate("yx"):
        alone(host, f"g-{number}", number, app, group="g", min_available=2)
    alone(host, "other", 2, "y", priority=4)
    topology = Topology("rack", required=True)
    host.tell(PodGroupAdded(PodGroup(name="high", min_available=1, topology=topology)))
    host.pods(make_pod("high", group="high", cpu=1, priority=5))
    assert host.evicted == ["other"]


def test_members_that_wait_on_permit_count_for_no_budget() -> None:
    host = Host(1, 1)
    alone(host, "a", 0, "y")
    used_up_budget(host, "x")
    host.pods(*[labelled(f"waits-{n}", "x", group="waits", min_available=2) for n in range(2)])
    assert host.where == {"a": "n0"}
    host.pods(labelled("high", "y", priority=5))
    assert host.evicted == []
    assert host.where == {"a": "n0", "high": "n1"}
