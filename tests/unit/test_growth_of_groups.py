"""What an event about one of many groups or members costs: counted, not timed."""

from __future__ import annotations

from collections import Counter
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
    PodUnschedulable,
    Preemption,
    Scheduler,
    presets,
)
from gangsched._core._claims import Claim, Claims
from gangsched.coscheduling import Coscheduling
from gangsched.explain import NotAdmitted
from gangsched.model import PodUID
from gangsched.testing import make_pod


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

    def bound(self) -> set[str]:
        return {effect.uid for effect in self.effects if isinstance(effect, Bind)}


def node(name: str, cpu: int) -> NodeAdded:
    return NodeAdded(Node(name=NodeName(name), allocatable={"cpu": cpu}))


# Late members ------------------------------------------------------------------------------------


def late(number: int, cpu: int = 1) -> Pod:
    return make_pod(f"late-{number}", group="g", min_available=1, cpu=cpu)


def started(**options: Any) -> Host:
    first = make_pod("first", group="g", min_available=1, cpu=1)
    return Host(node("n", 1), PodAdded(first), **options)


def test_like_late_members_on_a_full_cluster_cost_one_decision_in_all() -> None:
    host = started()
    before = host.decisions
    for number in range(400):
        host.tell(PodAdded(late(number)))
    assert host.decisions - before == 1
    told = Counter(e.uid for e in host.effects if isinstance(e, PodUnschedulable))
    assert told == {f"default/late-{number}": 1 for number in range(400)}
    assert "Insufficient cpu" in str(host.scheduler.why("default/late-399"))
    host.scheduler._check()


def test_late_member_that_arrived_while_others_failed_starts_when_capacity_comes() -> None:
    host = started()
    for number in range(5):
        host.tell(PodAdded(late(number)))
    host.tell(node("more", 5))
    assert {f"default/late-{number}" for number in range(5)} <= host.bound()
    host.scheduler._check()


def test_late_member_unlike_those_that_wait_is_tried_at_once() -> None:
    host = started()
    host.tell(node("half", 1))
    host.tell(PodAdded(late(0, cpu=2)))
    host.tell(PodAdded(late(1, cpu=2)))
    host.tell(PodAdded(late(2, cpu=1)))
    assert "default/late-2" in host.bound()
    assert not {"default/late-0", "default/late-1"} & host.bound()


def test_late_member_of_lower_priority_leaves_the_reach_of_preemption_right() -> None:
    host = started(preemption=Preemption())
    host.tell(PodAdded(evolve(late(0), priority=9)))
    host.tell(PodAdded(evolve(late(1), priority=3)))
    host.tell(PodAdded(make_pod("other", cpu=1, priority=5)))
    host.scheduler._check()


def test_snapshot_of_waiting_late_members_is_restored() -> None:
    host = started()
    for number in range(4):
        host.tell(PodAdded(late(number, cpu=1 + number % 2)))
    twin = presets.coscheduling(host.cluster)
    twin.restore(host.scheduler.snapshot())
    twin._check()
    event = host.cluster.apply(PodAdded(late(9)))
    told = host.scheduler.handle(event, now=host.now + 1.0)
    assert twin.handle(event, now=host.now + 1.0) == told
    assert [e.uid for e in told if isinstance(e, PodUnschedulable)] == ["default/late-9"]


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


@pytest.mark.parametrize(
    "order", [range(120), range(119, -1, -1), [7 * n % 120 for n in range(120)]]
)
def test_groups_of_a_bundle_that_arrive_one_by_one_ask_a_few_groups_each(
    order: Any, asked: list[str]
) -> None:
    host = Host(node("n", 200), *map(PodGroupAdded, bundle(120)))
    asked.clear()
    for number in order[:-1]:
        host.tell(PodAdded(member_of(number)))
    assert len(asked) <= 10 * 120
    assert not host.bound()
    asked.clear()
    host.tell(PodAdded(member_of(order[-1])))
    assert len(asked) <= 15 * 120
    assert len(host.bound()) == 120
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


def test_specification_that_leaves_a_large_bundle_keeps_the_others() -> None:
    specs = bundle(40)
    host = Host(node("n", 100), *map(PodGroupAdded, specs))
    for number in range(39):
        host.tell(PodAdded(member_of(number)))
    host.tell(PodGroupAdded(evolve(specs[0], bundle=())))
    assert host.bound() == {"default/g000-0"}
    host.tell(PodAdded(member_of(39)))
    assert host.bound() == {"default/g000-0"}
    assert "pod group default/g000 names another bundle" in str(host.scheduler.why("default/g039"))
    host.scheduler._check()


# Refused members ---------------------------------------------------------------------------------


def test_member_that_leaves_has_no_refused_member_read(monkeypatch: pytest.MonkeyPatch) -> None:
    given = [make_pod(f"p{n}", group="g", min_available=90, cpu=1) for n in range(30)]
    refused = [make_pod(f"r{n}", group="g", min_available=3, cpu=1) for n in range(30)]
    host = Host(node("n", 1), *map(PodAdded, [*given, *refused]))
    read: list[str] = []
    original = InMemoryCluster.pod

    def counted(cluster: InMemoryCluster, uid: str) -> Pod | None:
        read.append(uid)
        return original(cluster, uid)

    monkeypatch.setattr(InMemoryCluster, "pod", counted)
    for pod in given[:-1]:
        host.tell(PodDeleted(pod.uid))
    assert not {pod.uid for pod in refused} & set(read)
    host.tell(PodDeleted(given[-1].uid))
    assert {pod.uid for pod in refused} <= set(read), "the last one that they contradicted"
    info = host.scheduler.registry.get(GroupKey("default/g"))
    assert info is not None
    assert (info.min_available, info.all) == (3, 30)
    host.scheduler._check()


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
def test_claims_say_what_the_first_members_say(
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
            first = (minima[0] if minima else None, others[0][1] if others else None)
            assert claims.claimed(without=None if without is None else PodUID(without)) == first


def test_claims_forget_the_slots_of_members_that_left() -> None:
    claims = Claims()
    for number in range(1000):
        claims.put(PodUID(f"u{number}"), (1, 0))
    for number in range(999):
        claims.discard(PodUID(f"u{number}"))
        claims._check()
    assert claims.claimed() == (1, 0)


def test_group_that_leaves_takes_a_large_bundle_out_of_the_active_queue() -> None:
    host = Host(node("n", 1), *map(PodGroupAdded, bundle(40)))
    for number in range(40):
        host.tell(PodAdded(member_of(number)))
    host.now += 1000.0
    host.scheduler.handle(host.cluster.apply(node("more", 100)), now=host.now)
    assert len(host.scheduler.queue.active) == 1
    gone = host.cluster.apply(PodDeleted(PodUID("default/g017-0")))
    host.scheduler.handle(gone, now=host.now)
    assert not host.scheduler.queue.active


# Blocked classes ---------------------------------------------------------------------------------


def test_event_that_helps_no_class_proves_that_all_of_them_still_fail() -> None:
    small = evolve(make_pod("small", requests={"cpu": "1m"}), node_name=NodeName("n"))
    large = [make_pod(f"p{n}", requests={"cpu": f"{2000 + n}m"}) for n in range(5)]
    host = Host(node("n", 1), *map(PodAdded, [small, *large]))
    before = [each.blocked_at for each in host.scheduler.queue.blocked_queues()]
    host.tell(PodDeleted(small.uid))
    after = [each.blocked_at for each in host.scheduler.queue.blocked_queues()]
    assert len(after) == len(before) == 5
    assert len(set(after)) == 1
    assert after[0] > max(before)
