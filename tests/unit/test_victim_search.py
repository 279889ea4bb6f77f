"""Victims: as few gangs as possible, then as few pods, the youngest first."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    GroupKey,
    Node,
    NodeAdded,
    NodeName,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodUpdated,
    SchedulingUnit,
    Success,
    Topology,
    Unschedulable,
)
from gangsched.framework.nodes.nodes_view import NodesView
from gangsched.framework.preemption import eviction_units
from gangsched.framework.preemption.domain_search import DomainSearch
from gangsched.framework.preemption.preemptor import GangPreemptor
from gangsched.framework.preemption.victim_budget import VictimBudget
from gangsched.testing import make_node, make_pod
from support.faulty_plugin import FaultyPlugin
from support.preemption_host import EACH_UNIT, Host, runs


def gone(host: Host) -> set[str]:
    """Return the gangs of the victims."""
    return {name.partition("-")[0] for name in host.evicted}


# Which gangs ----------------------------------------------------------------------------------


@EACH_UNIT
def test_two_sufficient_gangs_are_evicted_before_one_of_them_and_two_small_ones(
    unit: SchedulingUnit,
) -> None:
    """Though more than enough goes with the second."""
    host = Host(8, unit=unit)
    runs(host, "elder", *[0] * 3)
    runs(host, "younger", *[0] * 3)
    runs(host, "small", 0)
    runs(host, "tiny", 0)
    host.gang("high", 5, 5)
    assert gone(host) == {"elder", "younger"}


@EACH_UNIT
def test_victim_that_frees_less_than_it_seems_is_evicted_only_if_still_the_most(
    unit: SchedulingUnit,
) -> None:
    """The third of its pods frees half of the need, and no other victim is useful there."""
    host = Host(4, 3, 6, unit=unit)
    runs(host, "stays", 1, cpu=2, priority=9)
    for number, (node, cpu) in enumerate([(0, 2), (0, 2), (1, 1)]):
        pod = make_pod(f"wide-{number}", group="wide", cpu=cpu, min_available=3)
        host.tell(PodAdded(evolve(pod, node_name=NodeName(f"n{node}"))))
    for name in ("x", "y", "z"):
        runs(host, name, 2, cpu=2)
    host.gang("high", 3, 5, cpu=2)
    assert gone(host) == {"wide", "z"}


@EACH_UNIT
def test_one_sufficient_gang_is_evicted_before_two_that_only_seem_so(
    unit: SchedulingUnit,
) -> None:
    host = Host(2, 2, 4, 3, 2, unit=unit)
    runs(host, "stays", 3, cpu=2, priority=9)
    runs(host, "enough", 0, 1, cpu=2)
    seems: dict[str, Any] = {"group": "seems", "min_available": 2}
    for number, (node, cpu) in enumerate([(2, 2), (3, 1)]):
        pod = make_pod(f"seems-{number}", cpu=cpu, **seems)
        host.tell(PodAdded(evolve(pod, node_name=NodeName(f"n{node}"))))
    runs(host, "small", 4, cpu=2)
    host.gang("high", 3, 5, cpu=2)
    assert gone(host) == {"enough"}


@EACH_UNIT
def test_one_large_pod_is_evicted_before_many_small_ones(unit: SchedulingUnit) -> None:
    host = Host(4, 4, unit=unit)
    runs(host, "large", 0, cpu=4)
    for name in ("a", "b", "c", "d"):
        runs(host, name, 1)
    host.gang("high", 4, 5)
    assert gone(host) == {"large"}


@EACH_UNIT
def test_one_pod_that_suffices_with_free_capacity_is_evicted_before_two(
    unit: SchedulingUnit,
) -> None:
    host = Host(4, 4, unit=unit)
    runs(host, "one", 0, cpu=3)
    runs(host, "two", 1, 1, cpu=2)
    host.gang("high", 2, 5, cpu=2)
    assert gone(host) == {"one"}


@EACH_UNIT
def test_capacity_for_pods_of_two_classes_counts_for_both(unit: SchedulingUnit) -> None:
    host = Host(2, 2, unit=unit)
    host.tell(NodeAdded(make_node("n2", gpu=1)))
    runs(host, "pair", 0, 0)
    runs(host, "a", 1)
    runs(host, "b", 1)
    runs(host, "gpu", 2, cpu=0, gpu=1)
    member: dict[str, Any] = {"group": "high", "min_available": 3, "priority": 5}
    host.pods(
        make_pod("high-0", cpu=1, **member),
        make_pod("high-1", cpu=1, **member),
        make_pod("high-2", gpu=1, **member),
    )
    assert gone(host) == {"pair", "gpu"}


def gives_up_two(host: Host) -> None:
    """Let a gang of 4 run that needs 2, one of a role, and two gangs of one."""
    host.tell(PodGroupAdded(PodGroup(name="wide", min_available=2, roles={"ps": 1})))
    for number, role in enumerate([None, None, None, "ps"]):
        pod = make_pod(f"wide-{number}", group="wide", cpu=1, role=role)
        host.tell(PodAdded(evolve(pod, node_name=NodeName("n0"))))
    runs(host, "a", 0)
    runs(host, "b", 0)


@EACH_UNIT
def test_gang_that_lost_elastic_members_is_evicted_before_two_others(
    unit: SchedulingUnit,
) -> None:
    """One that came last stays at first: of its role there has to be one."""
    host = Host(6, unit=unit)
    gives_up_two(host)
    host.gang("high", 4, 5)
    assert gone(host) == {"wide"}


@EACH_UNIT
def test_lower_nomination_is_taken_before_any_pod_is_evicted(
    unit: SchedulingUnit,
) -> None:
    host = Host(2, unit=unit)
    host.gang("low", 2, 0)
    host.gang("mid", 2, 3)
    host.tell(NodeAdded(make_node("n1", cpu=2)))
    runs(host, "other", 1, 1, priority=3)
    assert gone(host) == {"low"}
    host.gang("high", 2, 5)
    assert gone(host) == {"low"}
    assert host.kept == ["high-0", "high-1"]


# Which pods -----------------------------------------------------------------------------------


@EACH_UNIT
@pytest.mark.parametrize("is_signed", [True, False])
@pytest.mark.parametrize(("created", "goes"), [((1, 2), "b"), ((2, 1), "a"), ((1, 1), "b")])
def test_youngest_of_equal_victims_is_evicted(
    unit: SchedulingUnit, is_signed: bool, created: tuple[float, float], goes: str
) -> None:
    host = Host(2, unit=unit, faulty=None if is_signed else FaultyPlugin("filter"))
    for name, created_at in zip(("a", "b"), created, strict=True):
        host.pods(make_pod(name, cpu=1, created_at=created_at))
    host.pods(make_pod("high", cpu=1, priority=5, created_at=3))
    assert host.scheduler._state.settings.profile.signed == is_signed
    assert host.evicted == [goes]


@EACH_UNIT
def test_latest_elastic_members_are_evicted(unit: SchedulingUnit) -> None:
    host = Host(5, unit=unit)
    runs(host, "low", *[0] * 5, min_available=1)
    host.gang("high", 2, 5)
    assert set(host.evicted) == {"low-3", "low-4"}


@EACH_UNIT
def test_shared_elastic_members_of_higher_priority_are_kept(unit: SchedulingUnit) -> None:
    host = Host(7, unit=unit)
    runs(host, "lower", 0, 0, min_available=1)
    runs(host, "higher", 0, 0, min_available=1, priority=1)
    runs(host, "falls", *[0] * 3, priority=1)
    host.gang("high", 4, 5)
    assert set(host.evicted) == {"lower-1", *(f"falls-{n}" for n in range(3))}


@EACH_UNIT
def test_gang_with_more_elastic_victims_keeps_none_of_the_others(
    unit: SchedulingUnit,
) -> None:
    host = Host(8, unit=unit)
    runs(host, "more", *[0] * 3, min_available=1)
    runs(host, "less", *[0] * 2, min_available=1)
    runs(host, "falls", *[0] * 3)
    host.gang("high", 5, 5)
    assert set(host.evicted) == {"more-2", "less-1", *(f"falls-{n}" for n in range(3))}


@EACH_UNIT
def test_pod_without_requests_preempts_one_where_pods_are_counted(unit: SchedulingUnit) -> None:
    host = Host(unit=unit)
    host.tell(NodeAdded(Node(name=NodeName("n0"), allocatable={"cpu": 1, "pods": 1})))
    host.pods(make_pod("low"))
    host.pods(make_pod("high", priority=5))
    assert host.evicted == ["low"]


def test_pod_whose_check_changes_its_answer_evicts_no_pod() -> None:
    """The terminating pods are enough, and the first plan for that was refused."""
    faulty = FaultyPlugin("pre_filter")
    host = Host(1, 1, faulty=faulty)
    runs(host, "low", 0)
    runs(host, "mid", 1, priority=3)
    (going,) = (pod for pod in host.cluster.pods() if pod.name == "low-0")
    host.tell(PodUpdated(evolve(going, deleted_at=0.0)))
    answers = iter([Success(), Unschedulable("not yet")])
    faulty.answers["pre_filter"] = lambda *_args, now: next(answers, Success())
    host.pods(make_pod("high", cpu=1, priority=5))
    assert (host.evicted, host.kept) == ([], ["high"])


# Where ----------------------------------------------------------------------------------------


def within_a_rack(host: Host, count: int, **more: Any) -> None:
    topology = Topology(key="rack", required=True)
    host.tell(PodGroupAdded(PodGroup(name="high", min_available=count, topology=topology)))
    host.gang("high", count, 5, **more)


@EACH_UNIT
def test_within_a_rack_it_counts_what_is_lacking_there(unit: SchedulingUnit) -> None:
    """In all racks together nothing is."""
    host = Host(7, 4, 4, unit=unit)
    runs(host, "big", *[0] * 3)
    runs(host, "mid", *[0] * 2)
    runs(host, "a", 0)
    runs(host, "b", 0)
    within_a_rack(host, 5)
    assert gone(host) == {"big", "mid"}


@EACH_UNIT
def test_gang_that_lost_elastic_members_in_a_rack_is_evicted_before_two_others(
    unit: SchedulingUnit,
) -> None:
    host = Host(6, unit=unit)
    gives_up_two(host)
    within_a_rack(host, 4)
    assert gone(host) == {"wide"}


def test_all_capacity_freed_in_a_rack_is_restored_before_the_next_rack() -> None:
    """The capacity of elastic victims whose gang was evicted later, too."""
    host = Host(6)
    gives_up_two(host)
    for number in range(4):
        host.tell(PodAdded(make_pod(f"high-{number}", group="high", cpu=1, min_available=4)))
    state = host.scheduler._state
    key = GroupKey("default/high")
    info = state.pods.registry.get(key)
    assert info is not None
    task = GangPreemptor(state, state.pods.entities[key], info, host.now, VictimBudget(10_000, 500))
    view = NodesView(state.nodes)
    search = DomainSearch(
        state.nodes, state.pods, state.pod_classes, task, view, None, lambda _index: True
    )
    found = search.run(eviction_units.units(state.pods, state.reservations, 5, (info,)))
    assert found is not None
    assert len(found.units) == 1
    search.undo()
    assert state.nodes.infos[NodeName("n0")].pod_count == 6
    view.discard()


@EACH_UNIT
def test_rack_with_fewer_victims_is_taken(unit: SchedulingUnit) -> None:
    host = Host(3, 2, unit=unit)
    runs(host, "three", *[0] * 3)
    runs(host, "two", *[1] * 2)
    within_a_rack(host, 2)
    assert gone(host) == {"two"}


@EACH_UNIT
def test_rack_with_fewer_elastic_victims_is_taken(
    unit: SchedulingUnit,
) -> None:
    host = Host(6, 8, unit=unit)
    runs(host, "small", *[0] * 6, min_available=2)
    runs(host, "large", *[1] * 4, min_available=2, cpu=2)
    topology = Topology(key="rack", required=True)
    spec = PodGroup(name="high", min_available=2, topology=topology, min_resources={"cpu": 4})
    host.tell(PodGroupAdded(spec))
    host.gang("high", 2, 5, cpu=2)
    assert set(host.evicted) == {"large-2", "large-3"}


@EACH_UNIT
def test_two_racks_with_the_most_pods_are_compared(unit: SchedulingUnit) -> None:
    host = Host(3, 4, 5, unit=unit)
    for name in ("a", "b", "c"):
        runs(host, name, 0)
    runs(host, "four", *[1] * 4)
    runs(host, "five", *[2] * 5)
    within_a_rack(host, 1)
    assert gone(host) == {"four"}
