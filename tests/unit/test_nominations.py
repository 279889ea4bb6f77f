"""Preemptors, and nominations: when capacity is free, when they lapse, which pods use them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    CycleState,
    Evict,
    GroupKey,
    InMemoryCluster,
    LabelSelector,
    NodeAdded,
    NodeName,
    NodeUpdated,
    Nominated,
    NominationLapsed,
    Outcome,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodGroup,
    PodGroupAdded,
    PodPhase,
    PodUID,
    PodUnschedulable,
    PodUpdated,
    Preemption,
    SchedulingUnit,
    StateKey,
    Success,
    Topology,
    Unschedulable,
    presets,
)
from gangsched.explain import NotAdmitted, PartlyRunning
from gangsched.protocols import NodeView
from gangsched.testing import make_node, make_pod
from support.faulty_plugin import FaultyPlugin
from support.immediate_host import ImmediateHost
from support.preemption_host import EACH_UNIT, Host, blocked, pass_to_members, reason_of
from support.shown import shown

HIGH = GroupKey("default/high")


def change(host: Host, name: str, **changes: Any) -> None:
    pod = host.cluster.pod(PodUID(f"default/{name}"))
    assert pod is not None
    host.tell(PodUpdated(evolve(pod, **changes)))


# When it is there -----------------------------------------------------------------------------


@EACH_UNIT
@pytest.mark.parametrize("phase", [PodPhase.SUCCEEDED, PodPhase.FAILED])
def test_finished_pod_uses_nothing_while_it_still_exists(
    unit: SchedulingUnit, phase: PodPhase
) -> None:
    host = blocked(unit=unit)
    for name in ("low-0", "low-1"):
        change(host, name, phase=phase)
    host.decide()
    assert {name: host.where[name] for name in ("high-0", "high-1")} == {
        "high-0": "n0",
        "high-1": "n0",
    }


@EACH_UNIT
def test_recreated_preemptor_does_not_back_off_once_its_capacity_is_free(
    unit: SchedulingUnit,
) -> None:
    """It backed off after its failure; a preemptor that is requeued does not, nor its successor."""
    host = Host(2, unit=unit)
    host.gang("low", 2, 0)
    host.tell(PodGroupAdded(PodGroup(name="high", min_available=2, priority=5)))
    host.gang("high", 2, 5)
    ImmediateHost.end(host, "low-0", "low-1")  # and no decision is made yet
    ImmediateHost.end(host, "high-0", "high-1")
    host.gang("high", 2, 5)
    assert host.where == {"high-0": "n0", "high-1": "n0"}


@EACH_UNIT
def test_nomination_after_a_cycle_can_be_written(
    unit: SchedulingUnit,
) -> None:
    host = blocked(unit=unit)
    host.pods(make_pod("high-2", group="high", cpu=1, priority=5, min_available=2))
    host.at(5.0)  # it was tried, and its victims are still there
    host.scheduler.restore(json.loads(json.dumps(host.scheduler.snapshot())))
    host.end("low-0", "low-1")
    assert host.where == {"high-0": "n0", "high-1": "n0"}


@EACH_UNIT
def test_victim_that_is_read_as_another_pod_is_still_awaited(unit: SchedulingUnit) -> None:
    host = blocked(unit=unit)
    change(host, "low-0", priority=1)
    host.end("low-1")
    host.decide()
    assert host.told(NominationLapsed) == []
    assert host.kept == ["high-0", "high-1"]
    host.end("low-0")
    assert host.where == {"high-0": "n0", "high-1": "n0"}
    assert host.evicted == ["low-0", "low-1"]


# When it lapses -------------------------------------------------------------------------------


@EACH_UNIT
@pytest.mark.parametrize("changes", [{"scheduling_gates": ("later",)}, {"requests": {"cpu": 2}}])
def test_changed_pod_loses_its_nomination(unit: SchedulingUnit, changes: dict[str, Any]) -> None:
    host = blocked(unit=unit)
    change(host, "high-0", **changes)
    assert reason_of(host) == "too few nominated pods or nodes are left"


def on_hold(host: Host) -> Callable[..., Outcome]:
    """Return a check that holds the gang of priority 5, if it is asked as it should be."""

    def answer(pod: Pod, group: Any, *, now: float) -> Outcome:
        asked = (None if group is None else group.key, now)
        return Unschedulable("on hold") if asked == (HIGH, host.now) else Success()

    return answer


@EACH_UNIT
@pytest.mark.parametrize("is_there", [False, True])
def test_entity_that_is_not_admitted_states_it_when_its_nomination_lapses(
    unit: SchedulingUnit, is_there: bool
) -> None:
    faulty = FaultyPlugin("pre_enqueue")
    host = blocked(unit=unit, faulty=faulty)
    faulty.answers["pre_enqueue"] = on_hold(host)
    host.at(3.0)
    if is_there:
        host.end("low-0", "low-1")
    else:
        host.at(60.0)
        host.end("low-0", "low-1")
    assert reason_of(host) == ("on hold" if is_there else "2 pods did not terminate in time")
    assert (host.where, host.scheduler.why(HIGH)) == ({}, NotAdmitted("on hold"))


# Which pods use it ----------------------------------------------------------------------------


@EACH_UNIT
def test_gang_that_started_meanwhile_uses_its_reserved_capacity_for_two(
    unit: SchedulingUnit,
) -> None:
    host = Host(2, unit=unit)
    host.gang("low", 2, 0)
    member: dict[str, Any] = {"group": "high", "min_available": 2, "priority": 5, "cpu": 1}
    eldest = make_pod("high-0", gpu=1, **member)
    host.tell(PodAdded(evolve(eldest, scheduling_gates=("later",))))
    host.pods(*[make_pod(f"high-{n}", **member) for n in (1, 2)])
    assert host.kept == ["high-1", "high-2"]
    change(host, "high-0", scheduling_gates=())
    host.tell(NodeAdded(make_node("n1", cpu=2)))
    for n in (3, 4):
        host.tell(PodAdded(evolve(make_pod(f"high-{n}", **member), node_name=NodeName("n1"))))
    host.end("low-0", "low-1")
    assert host.where == {"high-1": "n0", "high-2": "n0", "high-3": "n1", "high-4": "n1"}
    assert (host.kept, host.told(NominationLapsed)) == ([], [])


@EACH_UNIT
def test_nominated_pod_goes_to_a_free_node_while_its_victims_are_there(
    unit: SchedulingUnit,
) -> None:
    host = Host(1, 1, unit=unit)
    host.pods(make_pod("mid", cpu=1, priority=3))
    host.pods(make_pod("low", cpu=1, priority=0))
    host.pods(make_pod("high", cpu=1, priority=5))
    assert (host.evicted, host.kept) == (["low"], ["high"])
    ImmediateHost.end(host, "mid")
    host.tell(NodeUpdated(make_node("n1", cpu=2, labels={"rack": "r1"})))
    change(host, "high", labels={"told": "again"})
    host.at(5.0)  # its backoff has ended
    assert host.where.keys() == {"high", "low"}


@EACH_UNIT
def test_nominated_check_sees_the_placements_of_earlier_checks(
    unit: SchedulingUnit,
) -> None:
    faulty = FaultyPlugin("pre_filter", "filter", "pre_score")
    host = blocked(unit=unit, faulty=faulty)

    pass_to_members(host, faulty)
    host.now = 3.0
    host.end("low-0", "low-1")
    assert host.where == {"high-0": "n0", "high-1": "n0"}


def two_racks(*, unit: SchedulingUnit) -> Host:
    """Return a host where a gang within a rack has its reserved capacity in the younger of two."""
    host = Host(2, unit=unit)
    host.gang("mid", 2, 3)
    host.tell(NodeAdded(make_node("n1", cpu=2, labels={"rack": "r1"})))
    host.gang("low", 2, 0)
    topology = Topology(key="rack", required=True)
    host.tell(PodGroupAdded(PodGroup(name="high", min_available=2, topology=topology)))
    host.gang("high", 2, 5)
    assert (host.evicted, len(host.kept)) == (["low-0", "low-1"], 2)
    return host


@EACH_UNIT
def test_gang_goes_to_the_rack_of_its_reserved_capacity_before_an_equal_older_rack(
    unit: SchedulingUnit,
) -> None:
    host = two_racks(unit=unit)
    ImmediateHost.end(host, "mid-0", "mid-1", "low-0", "low-1")  # and only then decisions are made
    host.decide()
    assert host.where == {"high-0": "n1", "high-1": "n1"}


# Gangs that preempt with some members on nodes, or with members that a plugin refuses

_PASSED: StateKey[bool] = StateKey("passed")


def on_node(host: Host, pod: Pod, node: int) -> None:
    """Let a pod run on a node."""
    host.tell(PodAdded(evolve(pod, node_name=NodeName(f"n{node}"))))


@pytest.mark.xfail(
    strict=True,
    reason="the rest of a gang whose members others have bound in two racks has to fit in one",
)
@EACH_UNIT
def test_gang_preempts_within_all_values_that_its_running_members_hold(
    unit: SchedulingUnit,
) -> None:
    """Another scheduler has bound two members; a pod of low priority is beside each."""
    host = Host(2, 2, 2, unit=unit)
    topology = Topology("rack", required=True)
    host.tell(PodGroupAdded(PodGroup(name="g", min_available=4, topology=topology)))
    members = [make_pod(f"g-{n}", group="g", cpu=1, priority=5) for n in range(4)]
    for number in (0, 1):
        on_node(host, members[number], number)
        on_node(host, make_pod(f"low-{number}", cpu=1, priority=1), number)
    on_node(host, make_pod("least", cpu=2), 2)
    host.pods(*members[2:])
    assert sorted(host.evicted) == ["low-0", "low-1"]


def test_gang_preempts_although_a_plugin_refuses_a_member_that_is_not_needed() -> None:
    """No filter is asked about a member that its ``pre_filter`` has refused."""

    def pre_filter(state: CycleState, pod: Pod, *, now: float) -> Outcome:
        if pod.name == "high-0":
            return Unschedulable("not this one")
        state.write(_PASSED, True)
        return Success()

    def find(state: CycleState, _pod: Pod, _node: NodeView) -> Outcome:
        assert state.read(_PASSED)
        return Success()

    faulty = FaultyPlugin("pre_filter", "filter")
    faulty.answers |= {"pre_filter": pre_filter, "filter": find}
    host = Host(2, faulty=faulty)
    on_node(host, make_pod("low", cpu=2), 0)
    host.gang("high", 3, 5, min_available=2)
    assert host.evicted == ["low"]


# Preemption for late members of a gang that has started: each member gets capacity for itself

EVICTS = Preemption(elastic_members=True)


def late(name: str, *, cpu: int = 1, gpu: int = 0) -> Pod:
    """Return a member of a gang of priority 5 that needs one member to start."""
    more: dict[str, Any] = {"gpu": gpu} if gpu else {}
    return make_pod(name, group="high", cpu=cpu, priority=5, min_available=1, **more)


def started(*, unit: SchedulingUnit, faulty: FaultyPlugin | None = None, victims: int = 1) -> Host:
    """Return a host where a gang has started, and pods of priority 0 hold all other capacity."""
    host = Host(1 + victims, unit=unit, faulty=faulty, preemption=EVICTS)
    host.pods(late("high-0"))
    for number in range(victims):
        host.pods(make_pod(f"low-{number}", cpu=1))
    assert len(host.where) == 1 + victims
    return host


@EACH_UNIT
@pytest.mark.parametrize("is_signed", [True, False])
@pytest.mark.parametrize("names", [("small", "huge"), ("huge", "small")])
def test_late_member_is_nominated_beside_a_member_that_no_eviction_helps(
    unit: SchedulingUnit, is_signed: bool, names: tuple[str, str]
) -> None:
    host = started(unit=unit, faulty=None if is_signed else FaultyPlugin("filter"))
    host.pods(*[late(name, cpu=99 if name == "huge" else 1) for name in names])
    assert (host.evicted, host.kept) == (["low-0"], ["small"])
    host.end("low-0")
    assert host.where["small"] == "n0"


@EACH_UNIT
@pytest.mark.parametrize("is_signed", [True, False])
def test_first_of_equal_late_members_is_nominated_first(
    unit: SchedulingUnit, is_signed: bool
) -> None:
    host = started(unit=unit, faulty=None if is_signed else FaultyPlugin("filter"))
    host.pods(late("a"), late("b"), late("c"))
    assert (host.evicted, host.kept) == (["low-0"], ["a"])


@EACH_UNIT
def test_no_pod_is_evicted_for_late_members_that_only_a_check_refuses(
    unit: SchedulingUnit,
) -> None:
    faulty = FaultyPlugin("pre_filter")
    host = started(unit=unit, faulty=faulty)
    faulty.answers["pre_filter"] = Unschedulable("quota is used")
    host.pods(late("a"), late("b"))
    assert (host.evicted, host.told(Nominated)) == ([], [])


@EACH_UNIT
def test_no_capacity_is_nominated_for_a_late_member_that_fits_and_is_refused_by_reserve(
    unit: SchedulingUnit,
) -> None:
    """The node has free capacity for it: what refuses it is not a lack of capacity."""
    faulty = FaultyPlugin("reserve", "unreserve")
    host = started(unit=unit, faulty=faulty)
    host.tell(NodeUpdated(make_node("n0", cpu=3, labels={"rack": "r0"})))
    faulty.answers["reserve"] = Unschedulable("volume is busy")
    host.pods(late("a"), late("huge", cpu=99))
    assert (host.evicted, host.told(Nominated)) == ([], [])
    assert isinstance(host.scheduler.why(GroupKey("default/high")), PartlyRunning)


# A preemptor waits for the terminating pods that a constraint between pods is about

APART = PodAffinityTerm(topology_key="zone", label_selector=LabelSelector({"app": "a"}))


@pytest.mark.parametrize(
    ("budget", "expected"), [(10_000, ["gone-1"]), (1, ["gone-0", "gone-1", "gone-2"])]
)
def test_terminating_pods_that_keep_the_preemptor_away_are_awaited_without_victims(
    budget: int, expected: list[str]
) -> None:
    """Of pods on other nodes, it awaits those in its way; all of them if no step is left."""
    cluster = InMemoryCluster()
    zoned: dict[str, Any] = {"cpu": 4, "labels": {"zone": "z"}}
    cluster.apply(NodeAdded(make_node("n", **zoned)))
    cluster.apply(NodeAdded(evolve(make_node("full", **zoned), unschedulable=True)))
    for n, app in enumerate("bab"):
        gone = evolve(make_pod(f"gone-{n}", cpu=1), node_name=NodeName("full"), deleted_at=0.0)
        cluster.apply(PodAdded(evolve(gone, labels={"app": app})))
    high = evolve(make_pod("high", cpu=1, priority=9), pod_anti_affinity=(APART,))
    cluster.apply(PodAdded(high))
    scheduler = presets.gang(cluster, preemption=Preemption(), search_budget=budget)
    scheduler.rebuild(now=0.0)
    effects = scheduler.schedule_one(now=1.0) or ()
    assert not any(isinstance(effect, Evict) for effect in effects)
    (nomination,) = shown(scheduler).nominations
    assert sorted(nomination.awaited) == [f"default/{name}" for name in expected]


# A pending pod of a lower priority holds nothing, so evicting it would free nothing.


def full(unit: SchedulingUnit) -> Host:
    """Return a host with 3 nodes of 2 CPUs: running and pending pods above 0, and a gang of 4."""
    host = Host(2, 2, 2, unit=unit)
    host.pods(*(make_pod(f"same-{n}", cpu=2, priority=5) for n in range(3)))
    host.gang("high", 4, 5)
    host.pods(make_pod("low", cpu=2, priority=0))
    assert len(host.where) == 3
    return host


def tries(host: Host) -> int:
    return sum(each.uid.startswith("default/high") for each in host.told(PodUnschedulable))


@EACH_UNIT
def test_freed_capacity_that_does_not_help_tries_no_preemptor(unit: SchedulingUnit) -> None:
    host = full(unit)
    before = tries(host)
    host.at(100.0)
    host.end("same-0")  # 2 of the 4 CPUs that the gang needs
    assert host.where["low"] == "n0"
    assert tries(host) == before
    assert host.evicted == []


@EACH_UNIT
def test_preemptor_is_tried_once_a_pod_of_lower_priority_runs(unit: SchedulingUnit) -> None:
    host = full(unit)
    host.at(100.0)
    host.end("same-0")
    assert host.where["low"] == "n0"
    host.at(200.0)
    host.end("same-1")  # 2 CPUs are free, and low has 2 more
    assert host.evicted == ["low"]
    host.end("low")
    assert {name for name in host.where if name.startswith("high")} == {
        f"high-{n}" for n in range(4)
    }
