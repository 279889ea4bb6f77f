"""Possible victims, their preemptors, and the plugin calls while preemption is planned."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    GroupKey,
    Node,
    NodeAdded,
    NodeName,
    NodeUpdated,
    Nominated,
    NominationLapsed,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodRejected,
    PodUID,
    PodUpdated,
    Preemption,
    RejectGroup,
    SchedulingUnit,
    Success,
    Topology,
    Unschedulable,
    Wait,
    group_key,
)
from gangsched.framework.preemption import eviction_units
from gangsched.framework.preemption.preemptor import GangPreemptor
from gangsched.framework.preemption.victim_budget import VictimBudget
from gangsched.testing import make_node, make_pod
from support.faulty_plugin import FaultyPlugin
from support.preemption_host import EACH_UNIT, Host, blocked, pass_to_members, reason_of, runs

EVICTS = Preemption(elastic_members=True)
"""Late members evict, too."""

# Possible victims -----------------------------------------------------------------------------


@EACH_UNIT
@pytest.mark.parametrize("is_signed", [True, False])
def test_regular_pod_counts_as_a_gang_of_one(unit: SchedulingUnit, is_signed: bool) -> None:
    """Of the two, the younger goes."""
    host = Host(2, unit=unit, faulty=None if is_signed else FaultyPlugin("filter"))
    runs(host, "gang", 0)
    runs(host, "alone", 0, group=None, min_available=None)
    host.gang("high", 1, 5)
    assert host.evicted == ["alone-0"]


@EACH_UNIT
def test_nominated_capacity_is_taken_before_an_elastic_member(
    unit: SchedulingUnit,
) -> None:
    host = Host(1, unit=unit)
    host.gang("low", 1, 0)
    host.gang("mid", 1, 3)
    host.tell(NodeAdded(make_node("n1", cpu=2)))
    runs(host, "other", 1, 1, priority=3, min_available=1)
    host.gang("high", 1, 5)
    assert (host.evicted, host.kept) == (["low-0"], ["high-0"])


@EACH_UNIT
def test_capacity_nominated_for_equal_priority_is_not_taken(unit: SchedulingUnit) -> None:
    host = blocked(unit=unit)
    host.gang("peer", 2, 5)
    assert (host.kept, host.told(NominationLapsed)) == (["high-0", "high-1"], [])


@EACH_UNIT
def test_bundle_counts_each_of_its_groups_once(unit: SchedulingUnit) -> None:
    host = Host(5, unit=unit)
    for name, other in (("a", "b"), ("b", "a")):
        spec = PodGroup(name=name, min_available=1, bundle=(GroupKey(f"default/{other}"),))
        host.tell(PodGroupAdded(spec))
        runs(host, name, 0, min_available=None)
    runs(host, "three", *[0] * 3)
    host.gang("high", 2, 5)
    assert sorted(host.evicted) == ["a-0", "b-0"]


@EACH_UNIT
def test_group_without_its_bundle_is_rejected_alone(unit: SchedulingUnit) -> None:
    host = Host(1, unit=unit)
    host.tell(PodGroupAdded(PodGroup(name="a", min_available=1, bundle=(GroupKey("default/b"),))))
    runs(host, "a", 0, min_available=None)
    host.gang("high", 1, 5)
    assert host.evicted == ["a-0"]


@EACH_UNIT
def test_all_members_of_a_role_beyond_its_minimum_are_elastic(unit: SchedulingUnit) -> None:
    host = Host(4, unit=unit)
    host.tell(PodGroupAdded(PodGroup(name="low", min_available=1, roles={"ps": 1})))
    runs(host, "low", *[0] * 4, min_available=None, role="ps")
    host.gang("high", 3, 5)
    assert sorted(host.evicted) == ["low-1", "low-2", "low-3"]


@EACH_UNIT
@pytest.mark.parametrize("stays", [True, False], ids=["others-stay", "alone"])
def test_regular_pod_that_is_going_already_is_counted_on(unit: SchedulingUnit, stays: bool) -> None:
    host = Host(1, *[1] * stays, unit=unit)
    runs(host, "going", 0, group=None, min_available=None)
    if stays:
        runs(host, "stays", 1)
    (going,) = (pod for pod in host.cluster.pods() if pod.name == "going-0")
    host.tell(PodUpdated(evolve(going, deleted_at=0.0)))
    host.gang("high", 1, 5)
    assert (host.evicted, host.kept) == ([], ["high-0"])


@EACH_UNIT
def test_waiting_regular_pod_is_unassumed_at_once_and_tried_again(
    unit: SchedulingUnit,
) -> None:
    faulty = FaultyPlugin("permit")
    host = Host(2, unit=unit, faulty=faulty)
    faulty.answers["permit"] = lambda _state, pod, _node, *, now: (
        Success() if pod.priority else Wait(50.0)
    )
    host.pods(make_pod("low", cpu=2))
    assert len(host.scheduler.waiting) == 1
    host.pods(make_pod("other", cpu=1))
    host.pods(make_pod("high", cpu=1, priority=5))
    assert (host.where, host.evicted) == ({"high": "n0"}, [])
    (rejected,) = host.told(PodRejected)
    assert rejected.reason == "preempted by pod default/high"
    (nominated,) = host.told(Nominated)
    assert (nominated.victims, host.kept) == ((), [])
    host.at(5.0)
    assert [waiting.uid for waiting in host.scheduler.waiting] == ["default/other"]
    host.end("high", "other")
    host.at(20.0)  # its backoff has ended
    assert [waiting.uid for waiting in host.scheduler.waiting] == ["default/low"]


def test_plugin_may_release_a_group_while_a_pod_is_unreserved() -> None:
    faulty = FaultyPlugin("permit", "unreserve", "reserve")
    host = Host(2, faulty=faulty)
    faulty.answers["permit"] = lambda _state, pod, _node, *, now: (
        Success() if pod.name == "high" else Wait(50.0)
    )
    faulty.answers["unreserve"] = lambda _state, pod, _node, *, cause, now: (
        RejectGroup(GroupKey("default/friends"), "alone again") if pod.name == "low" else None
    )
    host.gang("friends", 1, 1)
    host.pods(make_pod("low", cpu=1))
    assert len(host.scheduler.waiting) == 2
    host.pods(make_pod("high", cpu=1, priority=5))
    assert host.where == {"high": "n0"}
    told = {rejected.uid: rejected.reason for rejected in host.told(PodRejected)}
    assert told[PodUID("default/friends-0")] == "alone again"


@EACH_UNIT
def test_gang_whose_minimum_is_no_longer_stated_starts_as_a_whole(
    unit: SchedulingUnit,
) -> None:
    host = Host(2, unit=unit)
    spec = PodGroup(name="low", min_available=1)
    host.tell(PodGroupAdded(spec))
    runs(host, "low", 0, 0, min_available=None)
    host.tell(PodGroupDeleted(spec.key))
    host.gang("high", 1, 5)
    assert host.evicted == ["low-0", "low-1"]


@EACH_UNIT
def test_gang_as_victim_has_the_priority_of_its_one_running_member(unit: SchedulingUnit) -> None:
    """Though its specification says less by now."""
    host = Host(1, unit=unit)
    runs(host, "mixed", 0, priority=3)
    runs(host, "lower", 0, cpu=0)
    host.tell(PodGroupAdded(PodGroup(name="mixed", min_available=1, priority=0)))
    host.gang("high", 1, 2)
    assert host.evicted == []
    host.gang("higher", 1, 4)
    assert host.evicted == ["mixed-0"]


def waits_for(name: str) -> FaultyPlugin:
    """Return a plugin by which the pods wait whose names begin so."""
    faulty = FaultyPlugin("permit")
    faulty.answers["permit"] = lambda _state, pod, _node, *, now: (
        Wait(50.0) if pod.name.startswith(name) else Success()
    )
    return faulty


def test_waiting_gang_is_preempted_before_a_running_gang() -> None:
    host = Host(4, faulty=waits_for("waits"))
    host.gang("waits", 2, 0)
    runs(host, "runs", 0, 0)
    assert len(host.scheduler.waiting) == 2
    host.gang("high", 2, 5)
    assert host.evicted == []
    assert host.where["high-0"] == "n0"


def test_gang_with_fewer_running_members_is_evicted_first() -> None:
    """Although it is older."""
    host = Host(4, faulty=waits_for("one-late"))
    runs(host, "one", 0, min_available=1)
    runs(host, "two", 0, 0)
    host.pods(make_pod("one-late", group="one", cpu=1, min_available=1))
    assert len(host.scheduler.waiting) == 1
    host.gang("high", 2, 5)
    assert host.evicted == ["one-0"]


def test_gang_is_a_unit_and_so_are_those_it_can_do_without_if_there_are_any() -> None:
    host = Host(9, faulty=waits_for("spare-late"))
    runs(host, "exact", 0, 0)
    runs(host, "spare", 0, 0, 0, min_available=2)
    host.pods(make_pod("spare-late", group="spare", cpu=1, min_available=2))
    runs(host, "one", 0)
    runs(host, "few", 0, min_available=2)
    found = eviction_units.units(
        host.scheduler._state.pods, host.scheduler._state.reservations, 5, ()
    )
    assert [(u.groups[0].key, u.is_elastic, u.gangs, u.pods, u.size) for u in found] == [
        ("default/exact", False, 1, 2, 2),
        ("default/spare", True, 0, 1, 1),
        ("default/spare", False, 1, 3, 4),
        ("default/one", False, 1, 1, 1),
        ("default/few", False, 0, 1, 1),
    ]


# Preemptors -----------------------------------------------------------------------------------


def test_entity_refused_for_another_reason_preempts_nothing() -> None:
    faulty = FaultyPlugin("pre_filter")
    host = Host(1, faulty=faulty)
    runs(host, "low", 0)
    answers = iter([Unschedulable("quota is used")])
    faulty.answers["pre_filter"] = lambda *_args, now: next(answers, Success())
    host.gang("high", 1, 5)
    assert (host.evicted, host.kept) == ([], [])


def test_entity_that_is_not_admitted_preempts_nothing() -> None:
    """It is rejected before it preempts as a whole, and is not admitted then."""
    faulty = FaultyPlugin("pre_enqueue")
    host = Host(2, faulty=faulty)
    runs(host, "low", 0)
    for n in range(2):
        pod = make_pod(f"high-{n}", group="high", cpu=1, priority=5, min_available=2)
        host.tell(PodAdded(pod))
    host.scheduler.schedule_one(now=host.now)
    assert [waiting.uid for waiting in host.scheduler.waiting] == ["default/high-0"]
    faulty.answers["pre_enqueue"] = Unschedulable("held")
    host.decide()
    (rejected,) = host.told(PodRejected)
    assert (rejected.uid, rejected.reason) == (
        "default/high-0",
        "0/1 nodes are available: 1 Insufficient cpu.",
    )
    assert (host.evicted, host.kept) == ([], [])


@EACH_UNIT
def test_preemption_continues_for_the_others_when_the_last_of_a_round_left(
    unit: SchedulingUnit,
) -> None:
    host = Host(4, unit=unit, preemption=EVICTS)
    runs(host, "high", 0, priority=5)
    runs(host, "low", 0, cpu=2)
    large, small = (
        make_pod(f"high-{cpu}", group="high", cpu=cpu, priority=5, min_available=1)
        for cpu in (2, 1)
    )
    host.pods(large, small)
    assert host.where["high-1"] == "n0"
    assert (host.evicted, host.kept) == (["low-0"], ["high-2"])


def test_no_pod_is_evicted_for_a_group_of_its_own_bundle() -> None:
    host = Host(2)
    for name in ("first", "second"):
        both = (group_key("default", "first"), group_key("default", "second"))
        host.tell(PodGroupAdded(PodGroup(name=name, min_available=1, bundle=both)))
    runs(host, "first", 0, min_available=None)
    runs(host, "second", 0, min_available=None, priority=5)
    host.pods(make_pod("second-1", group="second", cpu=1, priority=5))
    assert (host.evicted, host.kept) == ([], [])
    host.gang("high", 1, 9)
    assert host.evicted == ["first-0", "second-0"]


@EACH_UNIT
def test_no_more_is_preempted_than_a_role_needs(unit: SchedulingUnit) -> None:
    host = Host(1, 1, unit=unit)
    runs(host, "a", 0)
    runs(host, "b", 1)
    host.tell(PodGroupAdded(PodGroup(name="high", min_available=1, priority=5, roles={"ps": 1})))
    each: dict[str, Any] = {"group": "high", "cpu": 1, "priority": 5}
    host.pods(make_pod("w", role="worker", **each), make_pod("ps", role="ps", **each))
    assert (len(host.evicted), host.kept) == (1, ["ps"])


@EACH_UNIT
def test_minimum_of_each_role_and_the_earliest_others_are_needed(
    unit: SchedulingUnit,
) -> None:
    host = Host(0, unit=unit)
    spec = PodGroup(name="high", min_available=4, roles={"ps": 1, "worker": 1})
    host.tell(PodGroupAdded(spec))
    asked = [(1, None), (1, None), (1, None), (2, "ps"), (2, "ps"), (3, "worker"), (3, "worker")]
    for number, (cpu, role) in enumerate(asked):
        host.tell(PodAdded(make_pod(f"high-{number}", group="high", cpu=cpu, role=role)))
    state = host.scheduler._state
    info = state.pods.registry.get(spec.key)
    assert info is not None
    preemptor = GangPreemptor(
        state, state.pods.entities[spec.key], info, host.now, VictimBudget(10_000, 500)
    )
    shortfalls = preemptor.shortfalls(None)
    assert shortfalls is not None
    found = {
        each.pod_class.sample.requests.amount("cpu") // 1000: each.count for each in shortfalls
    }
    assert found == {1: 2, 2: 1, 3: 1}


@EACH_UNIT
def test_late_member_preempts_within_the_rack_of_its_gang(unit: SchedulingUnit) -> None:
    """Although there is capacity in another."""
    host = Host(2, 2, unit=unit, preemption=EVICTS)
    topology = Topology(key="rack", required=True)
    host.tell(PodGroupAdded(PodGroup(name="high", min_available=1, topology=topology)))
    runs(host, "high", 0, priority=5, min_available=None)
    runs(host, "low", 0)
    host.pods(make_pod("high-1", group="high", cpu=1, priority=5))
    assert (host.evicted, host.kept) == (["low-0"], ["high-1"])
    host.end("low-0")
    assert host.where == {"high-0": "n0", "high-1": "n0"}


@EACH_UNIT
def test_late_member_preempts_one_gang_in_its_rack_before_two(unit: SchedulingUnit) -> None:
    """Though in another rack nothing is lacking."""
    host = Host(5, 2, unit=unit, preemption=EVICTS)
    topology = Topology(key="rack", required=True)
    host.tell(PodGroupAdded(PodGroup(name="high", min_available=1, topology=topology)))
    runs(host, "high", 0, priority=5, min_available=None)
    runs(host, "a", 0)
    runs(host, "b", 0)
    runs(host, "pair", 0, 0)
    host.pods(make_pod("high-1", group="high", cpu=2, priority=5))
    assert host.evicted == ["pair-0", "pair-1"]


@EACH_UNIT
def test_gang_that_prefers_a_rack_preempts_in_two(unit: SchedulingUnit) -> None:
    host = Host(1, 1, unit=unit)
    runs(host, "a", 0)
    runs(host, "b", 1)
    topology = Topology(key="rack", required=False)
    host.tell(PodGroupAdded(PodGroup(name="high", min_available=2, topology=topology)))
    host.gang("high", 2, 5)
    assert sorted(host.evicted) == ["a-0", "b-0"]


@EACH_UNIT
def test_each_group_of_a_bundle_preempts_in_a_rack_of_its_own(unit: SchedulingUnit) -> None:
    host = Host(1, 1, unit=unit)
    runs(host, "a", 0)
    runs(host, "b", 1)
    topology = Topology(key="rack", required=True)
    for name, other in (("high", "peer"), ("peer", "high")):
        spec = PodGroup(name=name, min_available=1, topology=topology)
        host.tell(PodGroupAdded(evolve(spec, bundle=(GroupKey(f"default/{other}"),))))
    host.pods(*[make_pod(f"{name}-0", group=name, cpu=1, priority=5) for name in ("high", "peer")])
    assert sorted(host.evicted) == ["a-0", "b-0"]


@EACH_UNIT
def test_no_more_is_preempted_than_is_lacking_beside_free_capacity(unit: SchedulingUnit) -> None:
    host = Host(5, unit=unit)
    runs(host, "one", 0)
    runs(host, "three", *[0] * 3)
    host.gang("high", 2, 5)
    assert host.evicted == ["one-0"]


@EACH_UNIT
@pytest.mark.parametrize("goes_alone", [True, False])
def test_check_of_a_plan_runs_as_in_a_scheduling_cycle(
    unit: SchedulingUnit, goes_alone: bool
) -> None:
    faulty = FaultyPlugin("pre_filter", "filter", "pre_score")
    host = Host(2, unit=unit, faulty=faulty, preemption=EVICTS)
    if goes_alone:
        runs(host, "high", 0, priority=5)
    runs(host, "low", *[0] * (1 if goes_alone else 2))

    pass_to_members(host, faulty)
    host.now = 3.0
    host.pods(make_pod("high-1", group="high", cpu=1, priority=5, min_available=1))
    assert len(host.evicted) == (1 if goes_alone else 2)


# Notices, and which entities they help --------------------------------------------------------


@EACH_UNIT
def test_notice_states_until_when_capacity_is_reserved(
    unit: SchedulingUnit,
) -> None:
    host = blocked(unit=unit)
    assert [notice.deadline for notice in host.told(Nominated)] == [60.0]
    host.end("low-0", "low-1")
    assert host.where == {"high-0": "n0", "high-1": "n0"}
    assert host.told(NominationLapsed) == []


@EACH_UNIT
def test_reserved_capacity_that_its_gang_cannot_use_is_free_at_once(unit: SchedulingUnit) -> None:
    faulty = FaultyPlugin("pre_filter")
    host = blocked(unit=unit, faulty=faulty)
    host.pods(make_pod("other", cpu=1))
    host.at(5.0)
    faulty.answers["pre_filter"] = lambda _state, pod, *, now: (
        Unschedulable("turned down") if pod.priority else Success()
    )
    host.end("low-0", "low-1")
    assert host.where == {"other": "n0"}


@EACH_UNIT
def test_nomination_of_a_late_member_lapses_when_the_specification_changes(
    unit: SchedulingUnit,
) -> None:
    host = Host(2, unit=unit, preemption=EVICTS)
    spec = PodGroup(name="high", min_available=1)
    host.tell(PodGroupAdded(spec))
    runs(host, "high", 0, priority=5, min_available=None)
    runs(host, "low", 0)
    host.pods(make_pod("high-1", group="high", cpu=1, priority=5))
    assert host.kept == ["high-1"]
    host.tell(PodGroupUpdated(evolve(spec, schedule_timeout=9.0)))
    assert reason_of(host) == "the specification of pod group default/high has changed"


@EACH_UNIT
def test_freed_capacity_that_helps_no_pod_of_a_class_requeues_none_of_it(
    unit: SchedulingUnit,
) -> None:
    host = Host(2, unit=unit)
    host.pods(make_pod("low", cpu=2), make_pod("of-no-help"))
    host.pods(*[make_pod(name, cpu=1, priority=5) for name in ("one", "other")])
    assert host.kept == ["one", "other"]
    host.tell(NodeUpdated(make_node("n0", labels={"rack": "r0"})))
    host.end("low")
    assert host.kept == []
    known = len(host.effects)
    host.at(5.0)
    assert host.effects[known:] == []


def own(name: str, resource: str, **more: Any) -> Pod:
    """Return a pod that asks for what one node alone offers."""
    return evolve(make_pod(name, **more), requests={"cpu": 1, resource: 1})


@EACH_UNIT
def test_capacity_left_over_of_two_nominations_is_free_for_others(
    unit: SchedulingUnit,
) -> None:
    host = Host(unit=unit)
    host.tell(NodeAdded(make_node("n0", cpu=2, gpu=2)))
    host.gang("low", 2, 0)
    for name, node in (("first", "n1"), ("second", "n2")):
        host.tell(NodeAdded(Node(name=NodeName(node), allocatable={"cpu": 1, name: 1})))
        each: dict[str, Any] = {"group": name, "min_available": 2, "priority": 3, "cpu": 1}
        host.pods(make_pod(f"{name}-0", gpu=1, **each), own(f"{name}-1", name, **each))
    assert host.kept == ["first-0", "first-1", "second-0", "second-1"]
    host.pods(own("for-first", "first"), own("for-second", "second"))
    host.at(5.0)
    host.gang("high", 2, 5, gpu=1)
    assert host.where["for-first"] == "n1"
    assert host.where["for-second"] == "n2"


@EACH_UNIT
def test_capacity_left_over_by_a_higher_priority_is_free_for_others(
    unit: SchedulingUnit,
) -> None:
    host = Host(unit=unit)
    host.tell(NodeAdded(make_node("n0", cpu=2, gpu=2)))
    host.gang("low", 2, 0)
    host.tell(NodeAdded(make_node("n1", cpu=1)))
    host.gang("mid", 3, 3)
    host.pods(make_pod("other", cpu=1))
    host.at(5.0)
    assert len(host.kept) == 3
    host.gang("high", 2, 5, gpu=1)
    assert host.where["other"] == "n1"
