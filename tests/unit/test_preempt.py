"""Preemption, step by step: interruptions, and changes while capacity is nominated."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Evict,
    GroupKey,
    NodeName,
    NodeUpdated,
    Nominated,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    Preemption,
    SchedulingUnit,
    Success,
    Topology,
    Unschedulable,
    Wait,
)
from gangsched.errors import PluginError
from gangsched.framework.nodes.reserved_capacity import ReservedCapacity
from gangsched.framework.state.nomination import NominatedPod
from gangsched.testing import make_node, make_pod
from support.faulty_plugin import OOPS, FaultyPlugin
from support.immediate_host import ImmediateHost
from support.preemption_host import Host, blocked, reason_of

EACH_UNIT = pytest.mark.parametrize("unit", list(SchedulingUnit))


# While capacity is nominated ------------------------------------------------------------------


@EACH_UNIT
def test_gang_with_a_new_member_is_tried_while_it_waits_for_its_victims(
    unit: SchedulingUnit,
) -> None:
    host = blocked(unit=unit)
    host.pods(make_pod("high-2", group="high", cpu=1, priority=5, min_available=2))
    assert (host.kept, host.evicted) == (["high-0", "high-1"], ["low-0", "low-1"])
    host.at(5.0)  # it backed off after its failure
    assert (host.kept, host.evicted) == (["high-0", "high-1"], ["low-0", "low-1"])
    assert "1 node is nominated, waiting for 2 pods to terminate" in str(
        host.scheduler.why(GroupKey("default/high"))
    )
    host.end("low-0", "low-1")
    assert host.where == {"high-0": "n0", "high-1": "n0"}
    assert host.kept == []


@EACH_UNIT
def test_cycle_that_raises_keeps_the_reserved_capacity(unit: SchedulingUnit) -> None:
    faulty = FaultyPlugin("pre_filter")
    host = blocked(unit=unit, faulty=faulty)
    faulty.answers["pre_filter"] = OOPS
    with pytest.raises(PluginError, match="oops"):
        host.end("low-0", "low-1")
    assert host.kept == ["high-0", "high-1"]
    faulty.answers.clear()
    host.decide()
    assert (host.where, host.kept) == ({"high-0": "n0", "high-1": "n0"}, [])


@EACH_UNIT
def test_nomination_lapses_when_the_priority_of_the_gang_changes(unit: SchedulingUnit) -> None:
    """It is that of a member that runs, once the specification does not say any more."""
    host = Host(2, 1, unit=unit)
    old = make_pod("old", group="high", cpu=1, priority=3)
    host.tell(PodAdded(evolve(old, node_name=NodeName("n1"))))
    host.gang("low", 2, 0)
    spec = PodGroup(name="high", min_available=3, priority=5)
    host.tell(PodGroupAdded(spec))
    host.gang("high", 2, 5, min_available=None)
    assert host.kept == ["high-0", "high-1"]
    host.tell(PodGroupUpdated(evolve(spec, priority=None)))
    assert reason_of(host) == "the priority has changed"


@EACH_UNIT
@pytest.mark.parametrize(
    ("point", "reason"),
    [
        ("pre_enqueue", "turned down"),
        ("pre_filter", "the nominated nodes are free, but it cannot start"),
        ("pre_score", "the nominated nodes are free, but it cannot start"),
    ],
)
def test_nomination_lapses_when_the_pod_is_refused_on_the_free_node(
    unit: SchedulingUnit, point: str, reason: str
) -> None:
    faulty = FaultyPlugin(point)
    host = blocked(unit=unit, faulty=faulty)
    faulty.answers[point] = Unschedulable("turned down")
    host.end("low-0", "low-1")
    assert reason_of(host) == reason
    assert (host.where, host.kept) == ({}, [])


@EACH_UNIT
@pytest.mark.parametrize(
    ("count", "nodes", "says"),
    [
        (1, [1], "1 node is nominated, waiting for 1 pod to terminate"),
        (2, [1, 1], "2 nodes are nominated, waiting for 2 pods to terminate"),
    ],
)
def test_why_names_the_awaited_pods_and_the_overdue_ones(
    unit: SchedulingUnit, count: int, nodes: list[int], says: str
) -> None:
    host = Host(*nodes, unit=unit)
    host.gang("low", count, 0)
    host.gang("high", count, 5)
    assert host.scheduler._state.pods.entities[GroupKey("default/high")].reason == says
    host.at(60.0)
    who = "1 pod" if count == 1 else f"{count} pods"
    assert reason_of(host) == f"{who} did not terminate in time"


@EACH_UNIT
def test_every_victim_names_its_preemptor(unit: SchedulingUnit) -> None:
    """An elastic member, a gang that is evicted, and a regular pod."""
    host = Host(2, 2, unit=unit)
    host.gang("low", 2, 0, min_available=1)
    host.gang("alone", 1, 0, group=None, min_available=None)
    host.gang("more", 1, 0)
    host.gang("high", 1, 5)
    host.gang("all", 4, 6)
    for_whom = {effect.uid.partition("/")[2]: effect.reason for effect in host.told(Evict)}
    assert for_whom == {
        "low-1": "preempted by pod group default/high",
        **dict.fromkeys(("low-0", "more-0", "alone-0"), "preempted by pod group default/all"),
    }


@EACH_UNIT
def test_waiting_pod_is_unassumed_when_it_is_rejected(
    unit: SchedulingUnit,
) -> None:
    faulty = FaultyPlugin("permit", "reserve", "unreserve")
    host = Host(1, unit=unit, faulty=faulty)
    causes = list[str]()
    faulty.answers = {
        "permit": Wait(50.0),
        "unreserve": lambda *_args, cause, now: causes.append(cause),
    }
    host.pods(make_pod("low", cpu=1))
    del faulty.answers["permit"]
    host.pods(make_pod("high", cpu=1, priority=5))
    assert (causes, host.where) == (["rejected"], {"high": "n0"})


@EACH_UNIT
def test_nominated_pod_goes_to_its_node_before_an_equal_older_node(
    unit: SchedulingUnit,
) -> None:
    host = Host(1, 1, unit=unit)
    host.pods(make_pod("mid", cpu=1, priority=3))
    host.pods(make_pod("low", cpu=1, priority=0))
    host.pods(make_pod("high", cpu=1, priority=5))
    assert host.where == {"mid": "n0", "low": "n1"}
    assert (host.evicted, host.kept) == (["low"], ["high"])
    ImmediateHost.end(host, "mid", "low")  # and only then decisions are made
    host.decide()
    assert host.where == {"high": "n1"}


@EACH_UNIT
def test_gang_is_not_placed_on_a_node_that_shrank(unit: SchedulingUnit) -> None:
    """Each of the two would still fit there, by itself."""
    host = blocked(unit=unit)
    host.tell(NodeUpdated(make_node("n0", cpu=1, labels={"rack": "r0"})))
    host.end("low-0", "low-1")
    assert host.where == {}


@EACH_UNIT
def test_second_of_two_equal_preemptors_takes_the_remaining_victim(
    unit: SchedulingUnit,
) -> None:
    host = Host(3, 3, unit=unit)
    host.gang("elder", 3, 0)
    host.gang("younger", 3, 0)
    host.gang("high", 4, 5)
    both = ("elder", "younger")
    assert sorted(host.evicted) == [f"{name}-{n}" for name in both for n in range(3)]


@EACH_UNIT
def test_nominated_member_goes_before_an_older_one_that_fits_meanwhile(
    unit: SchedulingUnit,
) -> None:
    host = Host(2, unit=unit, preemption=Preemption(elastic_members=True))
    host.pods(make_pod("low", cpu=1, priority=0))
    member: dict[str, Any] = {"group": "high", "min_available": 1, "priority": 5, "cpu": 1}
    host.pods(make_pod("high-0", **member))
    host.pods(make_pod("high-1", gpu=1, **member), make_pod("high-2", **member))
    assert (host.evicted, host.kept) == (["low"], ["high-2"])
    host.tell(NodeUpdated(make_node("n0", cpu=2, gpu=1, labels={"rack": "r0"})))
    host.decide()
    host.end("low")
    assert host.where == {"high-0": "n0", "high-2": "n0"}


@EACH_UNIT
def test_nomination_lapses_when_its_nodes_leave_the_domain(unit: SchedulingUnit) -> None:
    host = Host(2, 2, unit=unit)
    host.gang("low", 4, 0, min_available=1)
    topology = Topology(key="rack", required=True)
    host.tell(PodGroupAdded(PodGroup(name="high", min_available=2, topology=topology)))
    host.gang("high", 2, 5)
    (nominated,) = host.told(Nominated)
    (name,) = {node for _uid, node in nominated.places}
    host.tell(NodeUpdated(make_node(name, cpu=2)))  # without its rack
    host.end(*host.evicted)
    assert reason_of(host) == "the nominated nodes are free, but it cannot start"
    host.end(*host.evicted[2:])
    assert host.where == dict.fromkeys(("high-0", "high-1"), *({"n0", "n1"} - {name}))


# What breaks off ------------------------------------------------------------------------------


@EACH_UNIT
def test_error_while_a_preemption_is_planned_is_reported_and_evicts_no_pod(
    unit: SchedulingUnit,
) -> None:
    """On the node as it is, the plugin has nothing to say against the filter that refuses it."""
    faulty = FaultyPlugin("filter")
    host = Host(2, unit=unit, faulty=faulty)
    host.gang("low", 2, 0)

    def see(_state: object, _pod: object, node: Any) -> object:
        if not node.pod_count:
            raise OOPS
        return Unschedulable("not beside others")

    faulty.answers["filter"] = see
    with pytest.raises(PluginError, match=r"'FaultyPlugin' at filter .*oops"):
        host.gang("high", 2, 5)
    host.decide()
    assert (host.evicted, host.kept) == ([], [])
    assert host.where == {"low-0": "n0", "low-1": "n0"}


def test_pod_refused_by_a_check_of_the_plan_evicts_no_pod() -> None:
    faulty = FaultyPlugin("pre_filter")
    host = Host(1, faulty=faulty)
    host.pods(make_pod("low", cpu=1))
    answers = iter([Success()])
    faulty.answers["pre_filter"] = lambda *_args, now: next(answers, Unschedulable("quota is used"))
    host.pods(make_pod("high", cpu=1, priority=5))
    assert (host.evicted, host.kept, host.where) == ([], [], {"low": "n0"})


def test_assumed_entity_that_is_not_admitted_preempts_nothing() -> None:
    faulty = FaultyPlugin("pre_enqueue")
    host = Host(2, faulty=faulty)
    host.pods(make_pod("low", cpu=1))
    for n in range(2):
        pod = make_pod(f"high-{n}", group="high", cpu=1, priority=5, min_available=2)
        host.tell(PodAdded(pod))
    host.scheduler.schedule_one(now=0)
    assert len(host.scheduler._state.attempts.waiting_since) == 1
    faulty.answers["pre_enqueue"] = Unschedulable("on hold")
    host.decide()
    assert (host.evicted, host.kept) == ([], [])
    assert not host.scheduler._state.attempts.waiting_since


# Preemptors and victims -----------------------------------------------------------------------


@EACH_UNIT
def test_pod_without_victims_may_take_a_lower_nomination(
    unit: SchedulingUnit,
) -> None:
    host = Host(2, 1, unit=unit)
    beside = make_pod("beside", cpu=1, priority=4)
    host.tell(PodAdded(evolve(beside, node_name=NodeName("n1"))))
    host.gang("low", 2, 0)
    host.gang("high", 2, 5)
    never = evolve(make_pod("never", cpu=1, priority=9), preemption_policy="Never")
    host.pods(never)
    assert reason_of(host) == "preempted by pod default/never"
    assert host.evicted == ["low-0", "low-1"]
    assert [notice.victims for notice in host.told(Nominated)][1:] == [()]
    host.end("low-0", "low-1")
    assert host.where == {"beside": "n1", "never": "n0"}


@EACH_UNIT
def test_gang_preempts_for_its_min_resources(
    unit: SchedulingUnit,
) -> None:
    host = Host(3, unit=unit)
    host.pods(make_pod("low", cpu=1))
    spec = PodGroup(name="high", min_available=2, min_resources={"cpu": 3})
    host.tell(PodGroupAdded(spec))
    host.gang("high", 2, 5)
    assert host.evicted == ["low"]
    host.end("low")
    assert host.where == {"high-0": "n0", "high-1": "n0"}


@EACH_UNIT
def test_preemption_works_for_a_plugin_without_signature(
    unit: SchedulingUnit,
) -> None:
    """Of one that no node takes nothing follows for another that asks for the same."""
    faulty = FaultyPlugin("filter")
    host = Host(1, unit=unit, faulty=faulty)
    host.pods(make_pod("low", cpu=1))
    faulty.answers["filter"] = lambda _state, pod, _node: (
        Unschedulable("never") if pod.name == "high-0" else Success()
    )
    host.gang("high", 2, 5, min_available=1)
    assert not host.scheduler._state.settings.profile.signed
    assert host.evicted == ["low"]
    host.end("low")
    assert host.where == {"high-1": "n0"}


def of_role(name: str, role: str | None) -> Pod:
    return make_pod(name, group="low", cpu=1, role=role)


@EACH_UNIT
def test_no_member_of_a_role_at_its_minimum_is_evicted(unit: SchedulingUnit) -> None:
    """Though it came last."""
    host = Host(3, unit=unit)
    host.tell(PodGroupAdded(PodGroup(name="low", min_available=2, roles={"ps": 1})))
    host.pods(of_role("w-0", None), of_role("w-1", "worker"), of_role("ps", "ps"))
    assert len(host.where) == 3
    host.pods(make_pod("high", cpu=1, priority=5))
    assert host.evicted == ["w-1"]


@EACH_UNIT
def test_as_many_members_of_a_role_as_exceed_its_minimum_are_elastic(unit: SchedulingUnit) -> None:
    host = Host(3, unit=unit)
    host.tell(PodGroupAdded(PodGroup(name="low", min_available=1, roles={"ps": 1})))
    host.pods(of_role("w", "worker"), of_role("ps-0", "ps"), of_role("ps-1", "ps"))
    host.gang("high", 2, 5)
    assert sorted(host.evicted) == ["ps-1", "w"]


def test_gang_with_a_waiting_member_of_a_role_loses_no_elastic_member() -> None:
    faulty = FaultyPlugin("permit")
    host = Host(4, faulty=faulty)
    host.tell(PodGroupAdded(PodGroup(name="low", min_available=2, roles={"ps": 1})))
    host.pods(*[of_role(f"w-{n}", None) for n in range(3)], of_role("ps", "ps"))
    host.end("ps")
    faulty.answers["permit"] = Wait(50.0)
    host.pods(of_role("ps-again", "ps"))
    info = host.scheduler._state.pods.registry.get(GroupKey("default/low"))
    assert info is not None
    assert (info.waiting, info.scheduled) == (1, 4)
    faulty.answers.clear()
    host.pods(make_pod("high", cpu=1, priority=5))
    assert sorted(host.evicted) == ["w-0", "w-1", "w-2"]


@EACH_UNIT
def test_group_without_a_minimum_starts_as_a_whole(unit: SchedulingUnit) -> None:
    host = Host(2, unit=unit)
    for n in range(2):
        pod = make_pod(f"low-{n}", group="low", cpu=1)
        host.tell(PodAdded(evolve(pod, node_name=NodeName("n0"))))
    host.pods(make_pod("high", cpu=1, priority=5))
    assert host.evicted == ["low-0", "low-1"]


# Values ---------------------------------------------------------------------------------------


def test_policy_accepts_boundary_values() -> None:
    assert Preemption(grace=0, search_budget=0).search_budget == 0


def test_nominated_pod_has_the_node_of_its_reserved_capacity() -> None:
    pod = make_pod("p", cpu=1)
    reserved = ReservedCapacity(7, NodeName("n"), 5, pod.requests)
    nominated = NominatedPod(4, pod.uid, GroupKey("default/g"), "ps", reserved)
    assert nominated.node == "n"
    assert (reserved.pods, reserved.returning) == (1, None)
