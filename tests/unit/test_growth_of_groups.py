"""What an event about one of many groups or members costs: counted, not timed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    Bound,
    Effect,
    Event,
    GroupKey,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodNotAdmitted,
    PodUID,
    PodUnschedulable,
    Scheduler,
    SchedulingUnit,
    Wait,
    presets,
)
from gangsched.coscheduling import Coscheduling
from gangsched.explain import NotAdmitted
from gangsched.primitives.claims import Claim, Claims
from gangsched.testing import make_node, make_pod
from support.calls import lines_for
from support.faulty_plugin import FaultyPlugin
from support.immediate_host import ImmediateHost
from support.settled import settle


class Host:
    """A scheduler, its cluster and a clock on which any backoff is over at the next event."""

    def __init__(self, *shown: Event, **options: Any) -> None:
        self.cluster = InMemoryCluster()
        self.now = 0.0
        self.decisions = 0
        self.effects: list[Effect] = []
        for event in shown:
            self.cluster.apply(event)
        self.scheduler: Scheduler = presets.coscheduling(self.cluster, **options)
        self.effects += self.scheduler.rebuild(now=0.0)
        self.decide()

    def tell(self, event: Event) -> None:
        self.now += 1000.0
        self.effects += self.scheduler.handle(self.cluster.apply(event), now=self.now)
        self.decide()

    def decide(self) -> None:
        while (found := self.scheduler.schedule_one(now=self.now)) is not None:
            self.decisions += 1
            self.effects += found
            for effect in found:
                if isinstance(effect, Bind):
                    report = Bound(effect.uid, effect.node, effect.attempt)
                    self.effects += self.scheduler.handle(self.cluster.apply(report), now=self.now)

    def bound(self) -> list[str]:
        return [effect.uid for effect in self.effects if isinstance(effect, Bind)]


def node(name: str, cpu: int = 1) -> NodeAdded:
    return NodeAdded(Node(name=NodeName(name), allocatable={"cpu": cpu}))


# Late members ------------------------------------------------------------------------------------


def late(name: str, cpu: int = 1) -> Pod:
    return make_pod(name, group="g", min_available=1, cpu=cpu)


def started(**options: Any) -> Host:
    first = make_pod("first", group="g", min_available=1, cpu=1)
    return Host(node("n", 1), PodAdded(first), **options)


def test_like_late_members_on_a_full_cluster_are_told_once() -> None:
    host = started()
    before = host.decisions
    for number in range(100):
        host.tell(PodAdded(late(f"late-{number}")))
    assert host.decisions - before <= 100
    told = Counter(e.uid for e in host.effects if isinstance(e, PodUnschedulable))
    assert told == {f"default/late-{number}": 1 for number in range(100)}
    assert "Insufficient cpu" in str(host.scheduler.why("default/late-99"))
    host.scheduler._check()


# Bundles -----------------------------------------------------------------------------------------


def bundle(number: int) -> list[PodGroup]:
    keys = tuple(GroupKey(f"default/g{n:03}") for n in range(number))
    return [PodGroup(name=f"g{n:03}", min_available=1, bundle=keys) for n in range(number)]


def member_of(number: int) -> Pod:
    return make_pod(f"g{number:03}-0", group=f"g{number:03}", cpu=1)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the groups that PreEnqueue is asked about from now on."""
    groups: list[str] = []
    original = Coscheduling.pre_enqueue

    def counted(plugin: Coscheduling, pod: Pod, group: Any, *, now: float) -> Any:
        groups.append(group.key)
        return original(plugin, pod, group, now=now)

    monkeypatch.setattr(Coscheduling, "pre_enqueue", counted)
    return groups


def test_groups_of_a_bundle_that_arrive_one_by_one_ask_those_that_are_there(
    asked: list[str],
) -> None:
    count = 60
    order = [7 * n % count for n in range(count)]
    host = Host(node("n", 200), *map(PodGroupAdded, bundle(count)))
    asked.clear()
    for number in order[:-1]:
        host.tell(PodAdded(member_of(number)))
    assert len(asked) <= count * count / 2, "each of those that are there"
    assert not host.bound()
    asked.clear()
    host.tell(PodAdded(member_of(order[-1])))
    assert len(asked) <= 15 * count
    assert len(host.bound()) == count
    host.scheduler._check()


def test_group_of_a_large_bundle_says_what_it_waits_for_now() -> None:
    host = Host(node("n", 200), *map(PodGroupAdded, bundle(40)))
    for number in range(20):
        host.tell(PodAdded(member_of(number)))
    told = [e for e in host.effects if isinstance(e, PodNotAdmitted)]
    assert len(told) <= 2 * 20
    waits = "waiting for pod group default/g020 of its bundle: it has no pending members"
    assert host.scheduler.why("default/g003") == NotAdmitted(waits)


def test_group_that_leaves_a_complete_large_bundle_keeps_the_others() -> None:
    host = Host(node("n", 1), *map(PodGroupAdded, bundle(40)))
    for number in range(40):
        host.tell(PodAdded(member_of(number)))
    assert not host.bound()
    host.tell(PodDeleted(PodUID("default/g017-0")))
    host.tell(node("more", 100))
    assert not host.bound()
    assert "g017" in str(host.scheduler.why("default/g000"))
    host.tell(PodAdded(member_of(17)))
    assert len(host.bound()) == 40
    host.scheduler._check()


# Refused members ---------------------------------------------------------------------------------


steps = st.lists(
    st.tuples(
        st.sampled_from(["put", "discard"]),
        st.sampled_from([f"u{n}" for n in range(6)]),
        st.none() | st.integers(0, 3),
        st.integers(0, 3),
    ),
    max_size=60,
)


@given(steps)
def test_claims_say_the_first_minimum_and_the_highest_priority(
    taken: list[tuple[str, str, int | None, int]],
) -> None:
    claims, known = Claims(), dict[str, Claim]()
    for what, name, minimum, priority in taken:
        uid = PodUID(name)
        if what == "put":
            claims.put(uid, (minimum, priority))
            known[name] = (minimum, priority)
        else:
            assert claims.discard(uid) == (known.pop(name, None) is not None)
        claims._check()
        assert list(claims) == list(known)
        for without in (None, *known):
            others = [claim for each, claim in known.items() if each != without]
            minima = [least for least, _priority in others if least is not None]
            highest = max((priority for _least, priority in others), default=None)
            said = (minima[0] if minima else None, highest)
            assert claims.claimed(without=None if without is None else PodUID(without)) == said


# Late members that differ in a role of which the group lacks none are alike


def told(presented: list[str | None]) -> tuple[InMemoryCluster, Scheduler]:
    """Return a started group on a full node, and one late member after another, by role."""
    cluster = InMemoryCluster()
    scheduler = presets.coscheduling(cluster)
    scheduler.handle(cluster.apply(NodeAdded(make_node("n", cpu=1))), now=0.0)
    for number, role in enumerate(["worker", *presented]):
        pod = make_pod(f"p{number}", group="g", min_available=1, cpu=1, role=role)
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
        settle(cluster, scheduler, most=10)
    return cluster, scheduler


# A late member of a gang that waits on permit is tried, though nodes cannot take it


class Waiting(ImmediateHost):
    """A scheduler that decides whole gangs, and a plugin that may let pods wait on permit."""

    def __init__(self) -> None:
        super().__init__()
        self.plugin = FaultyPlugin("permit")
        plugins = (self.plugin,)
        unit = SchedulingUnit.GROUP
        self.scheduler = presets.coscheduling(self.cluster, plugins=plugins, unit=unit)

    def wait(self) -> None:
        self.plugin.answers["permit"] = Wait(1000.0)

    def node(self, name: str, cpu: int = 1) -> None:
        self.tell(NodeAdded(make_node(name, cpu=cpu)))

    def members(self, *numbers: int) -> None:
        for number in numbers:
            pod = make_pod(f"g-{number}", group="g", min_available=2, cpu=1)
            self.tell(PodAdded(pod))
        self.decide()

    def pod_takes_a_new_node(self) -> list[PodUnschedulable]:
        """Add a node, which a pod of high priority takes; return the notices of the decisions."""
        known = len(self.effects)
        self.tell(PodAdded(make_pod("first", cpu=1, priority=9)))
        self.node("taken")
        self.decide()
        return [each for each in self.effects[known:] if isinstance(each, PodUnschedulable)]


def refused(pod: str, nodes: int) -> PodUnschedulable:
    reason = f"0/{nodes} nodes are available: {nodes} Insufficient cpu."
    return PodUnschedulable(PodUID(f"default/{pod}"), reason)


def test_gang_whose_attempt_is_under_way_is_tried_when_another_pod_takes_the_new_node() -> None:
    host = Waiting()
    host.node("a")
    host.members(0, 1)  # nodes refuse this attempt
    host.wait()
    host.node("b")
    host.at(100.0)
    host.members(2)
    assert host.pod_takes_a_new_node() == [refused("g-2", 3)]


def test_member_of_a_started_gang_is_not_tried_in_vain_when_another_pod_takes_the_node() -> None:
    host = Waiting()
    host.node("a", 2)
    host.members(0, 1)
    assert len(list(host.cluster.pods_on(make_node("a").name))) == 2
    host.wait()
    host.members(2)  # nodes refuse it
    host.node("b")
    host.decide()
    assert PodUID("default/g-2") in host.scheduler.waiting
    host.members(3)
    assert host.pod_takes_a_new_node() == []
    host.node("more")
    host.decide()
    assert PodUID("default/g-3") in host.scheduler.waiting


# What a node costs that takes one of many late members: counted, not timed


def with_late(waiting: Sequence[Pod]) -> Host:
    """Return a host of a started group on a full node, with late members that wait."""
    first = evolve(late("first"), node_name=NodeName("n"))
    return Host(node("n"), PodAdded(first), *map(PodAdded, waiting))


def steps_of_a_node(host: Host) -> int:
    """Return how many lines run from the event of a node to the end of the decisions."""
    for number in range(3):  # what is made once is made
        host.tell(node(f"before-{number}"))
    return lines_for(lambda: host.tell(node("another")))


@pytest.mark.xfail(strict=True, reason="a gang is settled with all of its pending members")
@pytest.mark.parametrize("shapes", [1, 3])
def test_node_for_one_of_many_late_members_costs_the_same_for_any_number(shapes: int) -> None:
    """Each node had every waiting member marked, sorted and told again."""
    few, many = (
        steps_of_a_node(with_late([late(f"l{k}", 1 + k % shapes) for k in range(number)]))
        for number in (20, 400)
    )
    assert many < 1.2 * few


def test_late_members_of_several_classes_start_in_order_of_arrival() -> None:
    host = with_late([late(f"l{k}", 1 + k % 2) for k in range(12)])
    for number in range(4):
        host.tell(node(f"small-{number}"))
        host.scheduler._check()
    assert host.bound() == [f"default/l{k}" for k in (0, 2, 4, 6)]
    host.tell(node("large", cpu=3))
    host.scheduler._check()
    assert host.bound()[4:] == ["default/l1", "default/l8"]


def test_late_members_are_told_once_that_the_reason_is_another() -> None:
    """There is one node more that has no room."""
    host = with_late([late(f"l{k}") for k in range(6)])
    told = [e.uid for e in host.effects if isinstance(e, PodUnschedulable)]
    assert sorted(set(told)) == [f"default/l{k}" for k in range(6)]
    host.effects.clear()
    host.tell(node("m"))  # it takes l0, and l1 is tried next
    again = [e for e in host.effects if isinstance(e, PodUnschedulable)]
    assert [e.uid for e in again] == [f"default/l{k}" for k in range(1, 6)]
