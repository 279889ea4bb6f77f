"""What one call does in proportion to the pods and nodes is done once, and is counted."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Backfill,
    InMemoryCluster,
    NodeAdded,
    NodeName,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    Preemption,
    Scheduler,
    Topology,
    presets,
)
from gangsched._core._entity import QueuedEntity
from gangsched._packing.budget import Work
from gangsched.framework.backfill.room import Room
from gangsched.framework.nodes.nodes_view import NodesView
from gangsched.framework.placement.plan import Domain
from gangsched.framework.preemption import choices, eviction_units
from gangsched.framework.preemption.eviction_units import EvictionUnit
from gangsched.framework.preemption.victim_budget import VictimBudget
from gangsched.framework.state.scheduler_state import State
from gangsched.model import group_key
from gangsched.testing import make_node, make_pod


class Ends:
    """Each running pod ends at the instant that is its name."""

    def expected_end(self, pod: Any, *, started_at: float | None, now: float) -> float:
        return float(pod.name.partition("-")[2] or math.inf)

    def fork(self) -> Ends:
        return self


def cluster_of(
    nodes: int, slots: int, *, racks: int = 1, priority: int = 0, free: Iterable[int] = ()
) -> InMemoryCluster:
    """Return a cluster with a pod of one CPU in each slot, except on the nodes in *free*."""
    cluster, left = InMemoryCluster(), set(free)
    for n in range(nodes):
        node = make_node(f"n{n}", cpu=slots, labels={"rack": f"r{n % racks}"})
        cluster.apply(NodeAdded(node))
        for slot in range(0 if n in left else slots):
            pod = make_pod(f"p-{1 + n + slot * nodes}", cpu=1, priority=priority)
            cluster.apply(PodAdded(evolve(pod, node_name=node.name)))
    return cluster


def add_gang(
    cluster: InMemoryCluster, members: int, cpu: int, *, priority: int = 0, **spec: Any
) -> None:
    cluster.apply(PodGroupAdded(PodGroup(name="big", min_available=members, **spec)))
    for m in range(members):
        pod = make_pod(f"big-{m}", group="big", cpu=cpu, priority=priority)
        cluster.apply(PodAdded(pod))


# Domains of victims ---------------------------------------------------------------------------


def _reads_of_units(monkeypatch: pytest.MonkeyPatch, racks: int) -> int:
    """Return how often the units are read to divide 80 of them among some racks."""
    cluster = cluster_of(40, 2, racks=racks)
    add_gang(cluster, 2, 2, priority=9, topology=Topology("rack"))
    scheduler = presets.gang(cluster, preemption=Preemption())
    reads = 0

    class Counted(list[EvictionUnit]):
        def __iter__(self) -> Any:
            nonlocal reads
            for each in super().__iter__():
                reads += 1
                yield each

        def __getitem__(self, number: Any) -> Any:
            nonlocal reads
            reads += 1
            found: EvictionUnit = super().__getitem__(int(number))
            return found

    original = choices.by_domain

    def counted(nodes: Any, pods: Any, domains: Any, units: Any, *args: Any) -> Any:
        return original(nodes, pods, domains, Counted(units), *args)

    monkeypatch.setattr(choices, "by_domain", counted)
    scheduler.schedule_one(now=0.0)
    monkeypatch.undo()
    return reads


def test_units_are_divided_among_many_domains_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading all units for each domain took 0.6 s with 1,000 racks and 24,000 pods."""
    assert _reads_of_units(monkeypatch, 2) == _reads_of_units(monkeypatch, 40) == 240


def test_division_among_domains_ends_with_the_budget() -> None:
    cluster = cluster_of(40, 2, racks=4)
    scheduler = presets.gang(cluster, preemption=Preemption())
    scheduler.rebuild(now=0.0)
    state = scheduler._state
    looked: list[int] = []

    def is_candidate(index: int) -> bool:
        looked.append(index)
        return True

    units = eviction_units.units(state.pods, state.reservations, 9, ())
    budget = VictimBudget(10, 10, work=Work(0))
    domains = [Domain("rack", frozenset({f"r{n}"})) for n in range(4)]
    found = choices.by_domain(state.nodes, state.pods, domains, units, is_candidate, budget)
    assert found == []
    assert budget.is_exhausted
    assert 0 < len(looked) < 40, "800 operations for the units, and 30 for each of 40 nodes"


# Looking ahead --------------------------------------------------------------------------------


@pytest.fixture
def removed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the index of the node of each pod that is taken off a node."""
    found: list[int] = []
    original = NodesView.remove

    def counted(self: NodesView, holders: Iterable[Any]) -> Any:
        holders = list(holders)
        found.extend(holder.at for holder in holders)
        return original(self, holders)

    monkeypatch.setattr(NodesView, "remove", counted)
    return found


def look_ahead(scheduler: Scheduler) -> float | None:
    """Decide until the gang has the reservation; return its expected start."""
    for now in (0.0, 0.1, 0.2):
        scheduler.schedule_one(now=now)
    assert scheduler.reservation is not None
    return scheduler.reservation.starts_at


def test_pods_are_taken_only_off_nodes_that_will_have_room(removed: list[int]) -> None:
    """The last pod of each node ends in turn: whole nodes are free from the 151st end on."""
    cluster = cluster_of(50, 4)
    add_gang(cluster, 3, 4)
    scheduler = presets.gang(cluster, backfill=Backfill(run_times=Ends()))
    assert look_ahead(scheduler) == 153.0
    assert set(removed) == {1, 2, 3}
    assert len(removed) == 12, "without the sums: all that have left, for each placement"


def test_nodes_are_drained_up_to_the_first_number_with_room(removed: list[int]) -> None:
    cluster = cluster_of(50, 4)
    add_gang(cluster, 3, 4)
    scheduler = presets.gang(cluster, backfill=Backfill())
    assert look_ahead(scheduler) is None
    assert set(removed) == {1, 2, 3}
    assert len(removed) == 12


def test_no_pod_is_taken_off_for_a_gang_larger_than_the_cluster(removed: list[int]) -> None:
    cluster = cluster_of(10, 4)
    add_gang(cluster, 11, 4)
    scheduler = presets.gang(cluster, backfill=Backfill(run_times=Ends()))
    scheduler.schedule_one(now=0.0)
    scheduler.schedule_one(now=0.1)
    assert scheduler.reservation is None
    assert removed == []


def test_changes_of_nodes_to_look_ahead_are_bounded(removed: list[int]) -> None:
    """A selector that the sums do not know refuses all nodes but the last to be drained."""
    cluster = cluster_of(60, 4)
    cluster.apply(PodGroupAdded(PodGroup(name="big", min_available=1)))
    cluster.apply(NodeAdded(make_node("zz", cpu=4, labels={"only": "me"})))
    for slot in range(4):
        pod = evolve(make_pod(f"z-{slot}", cpu=1), node_name=NodeName("zz"))
        cluster.apply(PodAdded(pod))
    for m in range(2):
        pod = make_pod(f"big-{m}", group="big", cpu=4)
        cluster.apply(PodAdded(evolve(pod, node_selector={"only": "me"})))
    cluster.apply(PodGroupAdded(PodGroup(name="big", min_available=2)))
    scheduler = presets.gang(cluster, backfill=Backfill(), search_budget=400)
    scheduler.schedule_one(now=0.0)
    removed.clear()
    scheduler.schedule_one(now=0.1)
    assert scheduler.reservation is None
    # 100 steps are 166 pods at 60 operations each
    assert 0 < len(removed) <= 166


def _room(nodes: int, members: Iterable[int], free: Iterable[int]) -> tuple[Room, State]:
    cluster, count = InMemoryCluster(), 0
    for n, cpu in zip(range(nodes), free, strict=False):
        cluster.apply(NodeAdded(make_node(f"n{n}", cpu=cpu)))
    for count, cpu in enumerate(members, 1):
        cluster.apply(PodAdded(make_pod(f"w-{count}", group="g", cpu=cpu)))
    cluster.apply(PodGroupAdded(PodGroup(name="g", min_available=count)))
    scheduler = presets.gang(cluster)
    scheduler.rebuild(now=0.0)
    state = scheduler._state
    entity: QueuedEntity = state.pods.entities[group_key("default", "g")]
    room = Room(state.settings, state.pods, state.call, entity)
    return room.fill(state.nodes), state


@given(
    members=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    free=st.lists(st.integers(0, 6), min_size=1, max_size=4),
    leaving=st.lists(st.integers(0, 3), max_size=6),
)
def test_bound_by_room_is_never_too_low(
    members: list[int], free: list[int], leaving: list[int]
) -> None:
    """If the bound says that there is too little room, the gang is not placed."""
    room, _state = _room(len(free), members, free)
    for at in leaving:
        if at < len(free):
            room.leave(NodeName(f"n{at}"), [{"cpu": 1_000}])
            free[at] += 1
    room._check()
    cluster = InMemoryCluster()
    for n, cpu in enumerate(free):
        cluster.apply(NodeAdded(make_node(f"n{n}", cpu=cpu)))
    for count, cpu in enumerate(members, 1):
        pod = make_pod(f"w-{count}", group="g", min_available=len(members), cpu=cpu)
        cluster.apply(PodAdded(pod))
    effects = presets.gang(cluster).schedule_one(now=0.0) or ()
    if any(type(effect).__name__ == "Bind" for effect in effects):
        assert room.is_enough


def test_room_is_counted_for_each_kind_of_members() -> None:
    room, _state = _room(2, (2, 2, 5), (4, 4))
    assert not room.is_enough, "no node has 5"
    room.leave(NodeName("n0"), [{"cpu": 1_000}])
    assert room.is_enough
    assert room.has_room({"cpu": 2_000})
    assert not room.has_room({"cpu": 1_999})


def test_steps_of_a_look_ahead_count_against_the_budget_of_a_question() -> None:
    """5,000 pods are 125,000 operations to list; the first 100,000 are not counted."""
    cluster = cluster_of(50, 100)
    add_gang(cluster, 51, 100)
    scheduler = presets.gang(cluster, backfill=Backfill())
    scheduler.schedule_one(now=0.0)
    before = scheduler._state.attempts.search_steps
    scheduler.schedule_one(now=0.1)
    assert scheduler._state.attempts.search_steps - before == 250
