"""Nominations: when the capacity is free, when they lapse, and which pods use them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    GroupKey,
    NodeAdded,
    NodeDeleted,
    NodeName,
    NodeUpdated,
    Nominated,
    NominationLapsed,
    Outcome,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodPhase,
    PodUID,
    PodUpdated,
    SchedulingUnit,
    Success,
    Topology,
    Unschedulable,
)
from gangsched.testing import make_node, make_pod
from support.faulty_plugin import FaultyPlugin
from support.immediate_host import ImmediateHost
from support.preemption_host import EACH_UNIT, Host, blocked, pass_to_members, reason_of

HIGH = GroupKey("default/high")
BUNDLE = ("high", "peer")


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


# When it lapses -------------------------------------------------------------------------------


@EACH_UNIT
def test_nominated_pod_whose_node_is_deleted_is_reported(unit: SchedulingUnit) -> None:
    host = Host(1, unit=unit)
    host.pods(make_pod("low", cpu=1))
    host.decide()
    host.pods(make_pod("high", cpu=1, priority=5))
    host.decide()
    assert host.kept == ["high"]
    told = host.scheduler.handle(host.cluster.apply(NodeDeleted(NodeName("n0"))), now=host.now)
    (lapsed,) = (effect for effect in told if isinstance(effect, NominationLapsed))
    assert lapsed.pods == (PodUID("default/high"),)


@EACH_UNIT
@pytest.mark.parametrize("changes", [{"scheduling_gates": ("later",)}, {"requests": {"cpu": 2}}])
def test_changed_pod_loses_its_nomination(unit: SchedulingUnit, changes: dict[str, Any]) -> None:
    host = blocked(unit=unit)
    change(host, "high-0", **changes)
    assert reason_of(host) == "too few nominated pods or nodes are left"


@EACH_UNIT
def test_entity_that_fits_in_overdue_capacity_is_tried_at_once(unit: SchedulingUnit) -> None:
    host = blocked(unit=unit)
    host.end("low-0")
    host.pods(make_pod("other", cpu=1))
    assert "other" not in host.where
    host.at(60.0)
    assert host.where["other"] == "n0"


@EACH_UNIT
def test_capacity_of_a_departed_member_is_free_while_that_of_others_is_reserved(
    unit: SchedulingUnit,
) -> None:
    host = Host(2, unit=unit)
    host.gang("low", 2, 0)
    host.tell(NodeAdded(make_node("n1", cpu=1)))
    host.gang("high", 3, 5, min_available=2)
    (nominated,) = host.told(Nominated)
    (beside,) = (uid for uid, node in nominated.places if node == "n1")
    host.pods(make_pod("other", cpu=1))
    host.at(5.0)  # its backoff has ended
    assert "other" not in host.where
    host.tell(PodDeleted(beside))
    host.decide()
    assert host.where["other"] == "n1"
    assert len(host.kept) == 2


@EACH_UNIT
def test_capacity_of_a_bundle_is_dropped_when_one_group_is_too_small(
    unit: SchedulingUnit,
) -> None:
    host = Host(4, unit=unit)
    host.gang("low", 4, 0)
    for name, other in (("high", "peer"), ("peer", "high")):
        bundle = (GroupKey(f"default/{other}"),)
        host.tell(PodGroupAdded(PodGroup(name=name, min_available=2, bundle=bundle)))
    host.pods(*[make_pod(f"{g}-{n}", group=g, cpu=1, priority=5) for g in BUNDLE for n in (0, 1)])
    assert len(host.kept) == 4
    host.tell(PodDeleted(PodUID("default/high-0")))
    assert reason_of(host) == "too few nominated pods or nodes are left"
    assert host.kept == []


@EACH_UNIT
def test_active_entity_is_not_evaluated_when_its_nomination_lapses(
    unit: SchedulingUnit,
) -> None:
    faulty = FaultyPlugin("pre_enqueue")
    host = blocked(unit=unit, faulty=faulty)
    host.tell(PodAdded(make_pod("high-2", group="high", cpu=1, priority=5, min_available=2)))
    asked: list[str] = []

    def note(pod: Pod, _group: Any, *, now: float) -> Outcome:
        asked.append(pod.name)
        return Success()

    faulty.answers["pre_enqueue"] = note
    told = host.scheduler.advance(now=60.0)
    assert [type(effect) for effect in told] == [NominationLapsed]
    assert asked == []


def on_hold(host: Host) -> Callable[..., Outcome]:
    """Return a check that holds the gang of priority 5, if it is asked as it should be."""

    def answer(pod: Pod, group: Any, *, now: float) -> Outcome:
        asked = (pod.name, None if group is None else group.key, now)
        return Unschedulable("on hold") if asked == ("high-0", HIGH, host.now) else Success()

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
    entity = host.scheduler._state.pods.entities[HIGH]
    assert (host.where, entity.reason) == ({}, "on hold")
    assert host.scheduler.queue.is_gated(entity)


# Which pods use it ----------------------------------------------------------------------------


@EACH_UNIT
def test_gang_that_started_meanwhile_uses_its_reserved_capacity_for_two(
    unit: SchedulingUnit,
) -> None:
    """The next entity then has no nomination."""
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
    assert reason_of(host) == "the nominated nodes are free, but it cannot start"


@EACH_UNIT
def test_gang_with_free_nominated_capacity_starts_in_one_decision(unit: SchedulingUnit) -> None:
    host = blocked(unit=unit)
    ImmediateHost.end(host, "low-0", "low-1")
    effects = host.scheduler.schedule_one(now=host.now) or ()
    assert [each.uid for each in effects if isinstance(each, Bind)] == [
        "default/high-0",
        "default/high-1",
    ]


@EACH_UNIT
def test_nominated_pod_goes_to_the_best_node_while_its_victims_are_there(
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
    assert host.where == {"high": "n0", "low": "n1"}


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


@EACH_UNIT
def test_two_gangs_use_their_nominations_on_one_node(unit: SchedulingUnit) -> None:
    host = Host(4, unit=unit)
    for name, priority in (("low", 0), ("lower", -1), ("high", 5), ("peer", 5)):
        host.gang(name, 2, priority)
    assert host.kept == ["high-0", "high-1", "peer-0", "peer-1"]
    ImmediateHost.end(
        host, "low-0", "low-1", "lower-0", "lower-1"
    )  # and only then decisions are made
    host.decide()
    assert host.where == {f"{name}-{n}": "n0" for name in BUNDLE for n in (0, 1)}


@EACH_UNIT
def test_gang_is_not_placed_beside_a_nominated_pod_on_a_node_that_shrank(
    unit: SchedulingUnit,
) -> None:
    """Its own reserved capacity is not free there until the victims are gone."""
    host = Host(4, unit=unit)
    for name, priority in (("low", 0), ("lower", -1), ("high", 5), ("peer", 4)):
        host.gang(name, 2, priority)
    assert host.evicted == ["lower-0", "lower-1", "low-0", "low-1"]
    host.tell(NodeUpdated(make_node("n0", cpu=3, labels={"rack": "r0"})))
    host.end("lower-0", "lower-1")
    assert host.where == {"low-0": "n0", "low-1": "n0"}
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


@EACH_UNIT
def test_gang_leaves_the_rack_of_its_reserved_capacity_when_a_member_is_in_another(
    unit: SchedulingUnit,
) -> None:
    host = two_racks(unit=unit)
    host.tell(NodeAdded(make_node("n2", cpu=3, labels={"rack": "r2"})))
    member: dict[str, Any] = {"group": "high", "min_available": 2, "priority": 5, "cpu": 1}
    host.tell(PodAdded(evolve(make_pod("high-2", **member), node_name=NodeName("n2"))))
    host.end("low-0", "low-1")
    assert {host.where[f"high-{n}"] for n in range(3)} == {"n2"}


@EACH_UNIT
def test_gang_with_a_running_member_goes_to_its_reserved_capacity_in_that_rack(
    unit: SchedulingUnit,
) -> None:
    host = Host(2, unit=unit)
    host.gang("mid", 2, 3)
    host.tell(NodeAdded(make_node("n1", cpu=2, labels={"rack": "r0"})))
    host.gang("low", 2, 0)
    host.tell(NodeAdded(make_node("n2", cpu=1, labels={"rack": "r0"})))
    topology = Topology(key="rack", required=True)
    host.tell(PodGroupAdded(PodGroup(name="high", min_available=3, topology=topology)))
    runs = make_pod("high-2", group="high", cpu=1, priority=5, min_available=3)
    host.tell(PodAdded(evolve(runs, node_name=NodeName("n2"))))
    host.gang("high", 2, 5, min_available=3)
    assert (host.evicted, len(host.kept)) == (["low-0", "low-1"], 2)
    ImmediateHost.end(host, "mid-0", "mid-1", "low-0", "low-1")  # and only then decisions are made
    host.decide()
    assert host.where == {"high-0": "n1", "high-1": "n1", "high-2": "n2"}
