"""What facts do to a reservation: when it ends or moves, and when nothing is looked at."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Backfill,
    ClusterState,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodUID,
    PodUpdated,
    Scheduler,
    Topology,
    Wait,
    group_key,
    presets,
)
from gangsched.framework.backfill import reservation, reservation_candidates
from gangsched.framework.nodes.reserved_views import exempt
from gangsched.framework.state.backfill_state import ActiveReservation, BackfillState
from gangsched.testing import make_pod
from support.backfill_host import (
    BIG,
    EXACT,
    YOUNG,
    FaultyHost,
    Host,
    crowded,
    draining,
    plans,
    running,
)
from support.driver import Driver, Fate
from support.faulty_plugin import FaultyPlugin
from support.gangs import members, node


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the entities that are planned from now on."""
    return plans(monkeypatch)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the instants at which the first candidate was looked for, from now on."""
    seen: list[float] = []
    inner = reservation_candidates.first

    def counted(state: Any, now: float, **options: Any) -> Any:
        seen.append(now)
        return inner(state, now, **options)

    monkeypatch.setattr(reservation_candidates, "first", counted)
    return seen


def memory(host: Host) -> BackfillState:
    return host.scheduler._state.reservations.backfill


def promise_of(host: Host) -> ActiveReservation:
    found = memory(host).reservation
    assert found is not None
    return found


def news(host: Host) -> None:
    """Let the gang of ``crowded`` be specified, as its members say it is."""
    host.tell(PodGroupAdded(PodGroup(name="big", min_available=4)))


def change_pod(host: Host, name: str, **changes: Any) -> None:
    pod = host.cluster.pod(PodUID(f"default/{name}"))
    assert pod is not None
    host.tell(PodUpdated(evolve(pod, **changes)))


# When it ends ---------------------------------------------------------------------------------


def test_nodes_drained_in_vain_are_given_back_when_time_passes() -> None:
    host = crowded(Backfill(drain_for=50.0))
    deadline = promise_of(host).deadline
    assert host.scheduler.next_deadline() == deadline == 50.0
    host.scheduler.advance(now=deadline)
    assert host.scheduler.reservation is None
    assert host.scheduler.next_deadline() is None


def test_reserved_capacity_is_free_as_soon_as_its_gang_may_not_start(planned: list[str]) -> None:
    host = crowded()
    planned.clear()
    host.pod("long")
    assert host.decide() == []
    host.end("big-0")
    host.scheduler.advance(now=0.0)
    assert host.scheduler.reservation is None
    assert not host.scheduler._state.nodes.ledger.expected()
    assert planned == []


def test_event_of_a_gang_that_may_start_is_evaluated_at_its_decision(
    planned: list[str],
) -> None:
    host = crowded()
    planned.clear()
    news(host)
    host.scheduler.advance(now=0.0)
    assert planned == []
    host.decide()
    assert planned == [BIG]


def test_nodes_drained_in_vain_are_counted_for_each_gang() -> None:
    host = draining()
    elder = group_key("default", "elder")
    for young_in_vain, elder_in_vain in ((1, 0), (1, 1), (1, 2), (2, 2)):
        host.at(promise_of(host).deadline)
        assert host.scheduler.reservation is None
        drain_timeouts = memory(host).drain_timeouts
        assert (drain_timeouts.get(YOUNG, 0), drain_timeouts.get(elder, 0)) == (
            young_in_vain,
            elder_in_vain,
        )
        host.tell(NodeAdded(Node(name=NodeName(f"n{host.now:g}"), allocatable={"cpu": 1})))
        host.pod(f"fills-{host.now:g}")
        host.decide()


def test_nothing_is_reserved_for_a_gang_that_the_remaining_nodes_cannot_hold() -> None:
    host = crowded()
    host.pod("long")
    assert host.decide() == []
    host.tell(NodeDeleted(NodeName("b")))
    assert host.at(5.0) == ["long"], "it rests for a second"
    assert host.scheduler.reservation is None


def test_departed_preemptor_is_forgotten_at_once() -> None:
    host = crowded()
    host.gang("other", 4)
    host.decide()
    other = group_key("default", "other")
    assert other in memory(host).qualified
    host.end(*(f"other-{n}" for n in range(4)))
    assert list(memory(host).qualified) == [BIG]


def test_gang_without_a_completed_bind_preempts_nothing() -> None:
    def make(cluster: ClusterState) -> Scheduler:
        return presets.gang(cluster, backfill=Backfill(EXACT))

    driver = Driver(make)
    driver.tell(node("n", 4))
    driver.add(*members("g", 2))
    driver.fate = Fate.FAILED
    driver.step()
    reserving = driver.scheduler._state.reservations.backfill
    assert list(reserving.qualified) == []


# When it moves --------------------------------------------------------------------------------


def test_nodes_stay_drained_for_their_gang_until_the_stated_instant(
    planned: list[str],
) -> None:
    """Although a node is added, and an older gang qualifies."""
    host = draining()
    planned.clear()
    before = promise_of(host)
    host.now = 20.0
    host.tell(NodeAdded(Node(name=NodeName("b"), allocatable={"cpu": 1})))
    host.decide()
    after = promise_of(host)
    assert (after.key, after.since, after.deadline) == (YOUNG, before.since, before.deadline)
    assert (after.since, after.deadline) == (0.0, 50.0)
    assert planned == [YOUNG]


def test_reservation_that_moves_keeps_its_first_instant() -> None:
    host = crowded()
    host.now = 7.0
    host.pod("vip", 300, priority=1)
    assert host.decide() == ["vip"]
    assert (host.reservation.since, host.reservation.starts_at) == (0.0, 307.0)


@pytest.mark.parametrize("seconds", [(300.0, 5.0), (5.0, 300.0)])
def test_last_end_of_an_admitted_gang_moves_the_reservation(
    seconds: tuple[float, float],
) -> None:
    host = crowded()
    for n, each in enumerate(seconds):
        host.pod(f"vip-{n}", each, group="vip", min_available=2, priority=1)
    assert host.decide() == ["vip-0", "vip-1"]
    assert host.reservation.starts_at == 300.0


@pytest.mark.parametrize(("end", "is_known"), [(100.0, True), (300.0, False)])
def test_entity_that_failed_on_all_capacity_may_fit_only_after_the_reservation_moves(
    end: float, is_known: bool
) -> None:
    """An entity that was bound by it may be exempt by now."""
    host = crowded()
    memory(host).failed["shape"] = 1
    if end > 100.0:
        host.pod("vip", end, priority=1)
    news(host)
    host.decide()
    assert host.reservation.starts_at == end
    assert ("shape" in memory(host).failed) is is_known


def test_entity_that_has_waited_long_enough_qualifies_at_that_instant() -> None:
    policy = Backfill(EXACT, after_seconds=10.0)
    host = crowded(policy)
    host.at(9.5)
    assert host.scheduler.reservation is None
    host.at(10.0)
    assert host.reservation.group == BIG
    host.now = 15.0
    host.gang("vip", 4, priority=1)
    host.decide()
    host.at(24.5)
    assert host.reservation.group == BIG
    host.at(25.0)
    assert host.reservation.group == "default/vip"


def test_wait_of_a_gang_begins_when_its_last_needed_member_arrives() -> None:
    host = Host(Backfill(EXACT, after_seconds=10.0), a=2, b=2)
    host.pod("old", 100)
    host.pod("big-0", 10, group="big", min_available=4)
    host.decide()
    host.now = 5.0
    for n in (1, 2, 3):
        host.pod(f"big-{n}", 10, group="big", min_available=4)
    host.decide()
    host.at(10.0)
    assert host.scheduler.reservation is None
    host.at(15.0)
    assert host.reservation.group == BIG


@pytest.mark.parametrize("change", [{}, {"priority": 7}])
@pytest.mark.parametrize("has_run", [False, True])
def test_pod_bound_by_another_scheduler_runs_since_then(
    has_run: bool, change: dict[str, Any]
) -> None:
    host = Host(Backfill(EXACT, least_members=1), a=1)
    host.pod("old", 4)
    if has_run:
        host.decide()
        host.now = 1.0
        change_pod(host, "old", node_name=None, **change)
    host.now = 3.0
    change_pod(host, "old", node_name=NodeName("a"), **change)
    host.now = 5.0
    host.gang("big", 1)
    host.decide()
    assert host.reservation.starts_at == 7.0


# When nothing is looked at --------------------------------------------------------------------


def test_pod_that_ends_as_expected_moves_nothing(planned: list[str]) -> None:
    host = Host(a=2, b=2)
    host.pod("first", 50)
    host.pod("second", 100)
    host.decide()
    host.gang("big", 4)
    host.decide()
    before = promise_of(host)
    planned.clear()
    host.now = 50.0
    host.end("first")
    host.decide()
    assert (promise_of(host), planned) == (before, [])


def test_admitted_pod_that_ends_in_time_moves_nothing(planned: list[str]) -> None:
    host = crowded()
    planned.clear()
    before = promise_of(host)
    host.pod("short", 100)
    assert host.decide() == ["short"]
    assert (promise_of(host), planned) == (before, [])


def test_failure_moves_no_reservation_for_exempt_entities_or_others(
    planned: list[str],
) -> None:
    host = crowded()
    planned.clear()
    before = promise_of(host)
    host.pod("long")
    host.pod("wide", 5, cpu=3)
    assert host.decide() == []
    assert (promise_of(host), planned) == (before, [])


def test_pod_that_waits_on_unreserved_capacity_moves_nothing(
    planned: list[str],
) -> None:
    host = FaultyHost(FaultyPlugin("permit"), a=2, b=2, c=1)
    host.pod("old", 100)
    host.decide()
    host.gang("big", 2, cpu=2)
    host.decide()
    before = promise_of(host)
    planned.clear()
    host.faulty.answers["permit"] = Wait(30.0)
    host.pod("long")
    host.decide()
    assert [waiting.uid for waiting in host.scheduler.waiting] == ["default/long"]
    assert (promise_of(host), planned) == (before, [])


def test_hopeless_entity_is_not_evaluated_again_before_an_event(asked: list[float]) -> None:
    host = Host(a=2, b=2)
    host.pod("old", 100)
    host.gang("huge", 5)
    host.decide()
    assert host.scheduler.reservation is None
    looked = len(asked)
    for now in (1.0, 2.0, 3.0):
        host.at(now)
    assert len(asked) == looked


def test_hopeless_entity_of_higher_priority_is_evaluated_once(asked: list[float]) -> None:
    host = crowded()
    asked.clear()
    host.gang("huge", 5, priority=1)
    host.decide()
    assert host.reservation.group == BIG
    looked = len(asked)
    assert looked
    host.pod("long")
    host.pod("longer", cpu=2)
    host.decide()
    assert len(asked) == looked


def test_no_entity_is_retried_for_a_new_reservation_that_withholds_nothing() -> None:
    """Two nodes fit one member each of the gang within one rack."""
    host = Host(a=4)
    host.pod("old", 100, cpu=2)
    host.pod("older", 100, cpu=2)
    host.decide()
    for rack in ("r1", "r2"):
        node = Node(name=NodeName(rack), labels={"rack": rack}, allocatable={"cpu": 1})
        host.tell(NodeAdded(node))
    host.tell(PodGroupAdded(PodGroup(name="ring", min_available=2, topology=Topology("rack"))))
    host.gang("ring", 2, 5)
    assert host.decide() == []
    host.gang("big", 2, cpu=2)
    assert host.decide() == []
    assert (host.reservation.group, host.reservation.nodes) == (BIG, ("a",))
    assert host.at(5.0) == [], "nobody rests any more"
    ring = host.scheduler.registry.get(group_key("default", "ring"))
    assert ring is not None
    assert ring.attempts == 1


def test_gang_backs_off_though_a_possible_victim_arrives() -> None:
    """There is no more capacity, and the earlier capacity did not help."""
    host = FaultyHost(FaultyPlugin("post_bind"), a=2, b=2)
    host.pod("old", 100, priority=1)
    host.decide()
    host.gang("big", 4, priority=1)
    host.decide()
    assert host.reservation.group == BIG
    host.tell(NodeAdded(Node(name=NodeName("c"), allocatable={"cpu": 0})))
    host.decide()
    low = make_pod("low", priority=0)
    host.tell(PodAdded(evolve(low, node_name=NodeName("c"))))
    host.decide()
    big = host.scheduler.registry.get(BIG)
    assert big is not None
    assert big.attempts == 1
    host.at(1.0)
    assert big.attempts == 2


# Which entities are tried -----------------------------------------------------------------------


def test_failure_of_an_entity_under_the_reservation_proves_nothing_for_exempt_ones() -> None:
    """Also where an entity was exempt before."""
    host = crowded()
    for name in ("x", "y", "z"):
        host.pod(name, 100)
    host.pod("brief", 50)
    assert host.decide() == ["x", "y", "z"]
    assert host.at(10.0) == []
    host.end("x")
    host.pod("long")
    assert host.decide() == ["brief"]


class Table:
    """The run times of the running pods in seconds, by name."""

    def __init__(self, **seconds: float) -> None:
        self.seconds = seconds
        self.asked: list[tuple[str, float | None, float]] = []

    def expected_end(self, pod: Pod, *, started_at: float | None, now: float) -> float | None:
        self.asked.append((pod.name, started_at, now))
        given = self.seconds.get(pod.name)
        return None if given is None else (now if started_at is None else started_at) + given


def test_run_time_of_an_admitted_pod_counts_from_now() -> None:
    table = Table(old=100.0, short=20.0)
    host = crowded(Backfill(table))
    host.now = 30.0
    table.asked.clear()
    host.pod("short")
    assert host.decide() == ["short"]
    assert ("short", 30.0, 30.0) in table.asked
    assert all(now == 30.0 for _name, _started_at, now in table.asked)
    assert promise_of(host).ends[PodUID("default/short")] == 50.0


@pytest.mark.parametrize("seen_first", ["before it was bound", "on its node", "while it ends"])
def test_pod_that_does_not_end_in_time_is_overdue_however_it_was_first_seen(
    seen_first: str,
) -> None:
    """Else a reservation would move on and on, and never be given up."""
    host = Host(Backfill(EXACT, least_members=1, overdue_after=5.0), a=1)
    pod = running(make_pod("old", cpu=1), "4")
    if seen_first == "before it was bound":
        host.tell(PodAdded(pod))
        host.decide()
    elif seen_first == "on its node":
        host.tell(PodAdded(evolve(pod, node_name=NodeName("a"))))
    bound = evolve(pod, node_name=NodeName("a"), deleted_at=0.0)
    host.tell(PodAdded(bound) if seen_first == "while it ends" else PodUpdated(bound))
    host.gang("big", 1)
    host.decide()
    assert host.reservation.starts_at == 4.0
    looked_at: list[float] = []
    while (deadline := host.scheduler.next_deadline()) is not None:
        looked_at.append(deadline)
        host.now = deadline
        host.scheduler.advance(now=deadline)
        host.decide()
        assert len(looked_at) < 10, f"looked at in {looked_at}, and so on"
    assert host.scheduler.reservation is None


@pytest.mark.parametrize("change", [{"priority": 7}, {"labels": {"pod-group/name": "other"}}])
def test_pod_that_becomes_another_on_its_node_ends_when_it_did(change: dict[str, Any]) -> None:
    host = Host(Backfill(EXACT, least_members=1), a=1)
    host.pod("old", 4)
    host.decide()
    host.now = 3.0
    change_pod(host, "old", **change)
    host.gang("big", 1)
    host.decide()
    assert host.reservation.starts_at == 4.0


def first_who_may(host: Host) -> str | None:
    """Return the entity that is tried first of those exempt from the reservation."""
    state = host.scheduler._state
    made = promise_of(host)
    with exempt(state.nodes, made.capacity.values()):
        found = reservation._first_exempt(state, made, host.now)
    return None if found is None else found.pod.name


def test_earliest_pod_that_fits_and_ends_in_time_is_tried() -> None:
    """Whatever they ask for; the gang itself does not fit yet."""
    table = Table(old=100.0)
    host = crowded(Backfill(table))
    for name, cpu in (("a0", 1), ("b0", 2), ("a1", 1), ("b1", 2)):
        host.pod(name, cpu=cpu)
    assert host.decide() == []
    state = host.scheduler._state
    waiting = {member.pod.name: member.entity for member in state.pods.members.values()}

    def ending(*names: str) -> Host:
        table.seconds = dict.fromkeys(names, 20.0)
        for entity in waiting.values():
            entity.expected_run = None
            state.queue.note_changed(entity)
        return host

    assert first_who_may(ending()) is None
    assert first_who_may(ending("a0", "b0", "a1", "b1")) == "a0"
    assert first_who_may(ending("a1", "b0")) == "b0"
    assert first_who_may(ending("a1", "b1")) == "a1"
    assert first_who_may(ending("a0", "b1")) == "a0"
    assert first_who_may(ending("a0")) == "a0"
    assert first_who_may(ending("b1")) == "b1"
    memory(host).failed[waiting["a0"].equivalence_class] = 1
    assert first_who_may(ending("a0", "b1")) == "b1", "who failed so stands in nobody's way"
