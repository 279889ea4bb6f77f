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
from gangsched.framework.backfill import candidates, reservation
from gangsched.framework.nodes.reserved_views import exempt
from gangsched.framework.state.reservation_state import ActiveReservation, BackfillState
from gangsched.testing import make_pod
from support.driver import Driver, Fate
from support.gangs import members, node
from support.odd import Odd
from support.reserving import BIG, EXACT, YOUNG, Host, OddHost, crowded, draining, plans, running


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return who is planned for, from now on."""
    return plans(monkeypatch)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return when it was looked for the first who can be helped, from now on."""
    seen: list[float] = []
    inner = candidates.first

    def counted(state: Any, now: float, **options: Any) -> Any:
        seen.append(now)
        return inner(state, now, **options)

    monkeypatch.setattr(candidates, "first", counted)
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


def test_by_the_passing_of_time_alone_nodes_are_given_back_that_were_drained_in_vain() -> None:
    host = crowded(Backfill(drain_for=50.0))
    deadline = promise_of(host).deadline
    assert host.scheduler.next_deadline() == deadline == 50.0
    host.scheduler.advance(now=deadline)
    assert host.scheduler.reservation is None
    assert host.scheduler.next_deadline() is None


def test_as_soon_as_a_gang_may_not_start_its_room_is_free(planned: list[str]) -> None:
    host = crowded()
    planned.clear()
    host.pod("long")
    assert host.decide() == []
    host.end("big-0")
    host.scheduler.advance(now=0.0)
    assert host.scheduler.reservation is None
    assert not host.scheduler._state.nodes.ledger.expected()
    assert planned == []


def test_news_of_the_gang_that_may_still_start_is_looked_at_when_it_is_decided(
    planned: list[str],
) -> None:
    host = crowded()
    planned.clear()
    news(host)
    host.scheduler.advance(now=0.0)
    assert planned == []
    host.decide()
    assert planned == [BIG]


def test_how_often_nodes_were_drained_in_vain_is_counted_for_each_gang() -> None:
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


def test_nothing_is_kept_for_a_gang_that_the_nodes_that_are_left_could_never_hold() -> None:
    host = crowded()
    host.pod("long")
    assert host.decide() == []
    host.tell(NodeDeleted(NodeName("b")))
    assert host.at(5.0) == ["long"], "it rests for a second"
    assert host.scheduler.reservation is None


def test_who_asks_and_goes_is_forgotten_at_once() -> None:
    host = crowded()
    host.gang("other", 4)
    host.decide()
    other = group_key("default", "other")
    assert other in memory(host).asking
    host.end(*(f"other-{n}" for n in range(4)))
    assert list(memory(host).asking) == [BIG]


def test_a_gang_of_which_no_bind_was_done_asks_for_no_room() -> None:
    def make(cluster: ClusterState) -> Scheduler:
        return presets.gang(cluster, backfill=Backfill(EXACT))

    driver = Driver(make)
    driver.tell(node("n", 4))
    driver.add(*members("g", 2))
    driver.fate = Fate.FAILED
    driver.step()
    reserving = driver.scheduler._state.reservations.backfill
    assert list(reserving.asking) == []


# When it moves --------------------------------------------------------------------------------


def test_nodes_stay_drained_for_whom_they_are_and_no_longer_than_was_said(
    planned: list[str],
) -> None:
    """Though a node comes, and an elder asks."""
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


def test_a_promise_that_moves_was_made_when_it_was_made_first() -> None:
    host = crowded()
    host.now = 7.0
    host.pod("vip", 300, priority=1)
    assert host.decide() == ["vip"]
    assert (host.reservation.since, host.reservation.starts_at) == (0.0, 307.0)


@pytest.mark.parametrize("seconds", [(300.0, 5.0), (5.0, 300.0)])
def test_of_a_gang_that_is_let_in_whoever_ends_last_moves_the_promise(
    seconds: tuple[float, float],
) -> None:
    host = crowded()
    for n, each in enumerate(seconds):
        host.pod(f"vip-{n}", each, group="vip", min_available=2, priority=1)
    assert host.decide() == ["vip-0", "vip-1"]
    assert host.reservation.starts_at == 300.0


@pytest.mark.parametrize(("end", "is_known"), [(100.0, True), (300.0, False)])
def test_who_failed_with_all_room_free_may_fit_only_once_the_promise_is_later(
    end: float, is_known: bool
) -> None:
    """Who had to heed it may not have to any more."""
    host = crowded()
    memory(host).failed["shape"] = 1
    if end > 100.0:
        host.pod("vip", end, priority=1)
    news(host)
    host.decide()
    assert host.reservation.starts_at == end
    assert ("shape" in memory(host).failed) is is_known


def test_who_has_waited_long_enough_is_helped_at_that_very_instant() -> None:
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


def test_a_gang_has_waited_since_the_last_came_whom_it_needs() -> None:
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
def test_who_is_bound_by_another_hand_runs_since_then(
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


def test_who_ends_when_it_was_said_moves_nothing(planned: list[str]) -> None:
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


def test_who_is_let_in_and_ends_by_then_moves_nothing(planned: list[str]) -> None:
    host = crowded()
    planned.clear()
    before = promise_of(host)
    host.pod("short", 100)
    assert host.decide() == ["short"]
    assert (promise_of(host), planned) == (before, [])


def test_who_fails_moves_nothing_whether_it_need_heed_the_promise_or_not(
    planned: list[str],
) -> None:
    host = crowded()
    planned.clear()
    before = promise_of(host)
    host.pod("long")
    host.pod("wide", 5, cpu=3)
    assert host.decide() == []
    assert (promise_of(host), planned) == (before, [])


def test_who_waits_for_a_permit_on_room_that_is_not_kept_moves_nothing(
    planned: list[str],
) -> None:
    host = OddHost(Odd("permit"), a=2, b=2, c=1)
    host.pod("old", 100)
    host.decide()
    host.gang("big", 2, cpu=2)
    host.decide()
    before = promise_of(host)
    planned.clear()
    host.odd.answers["permit"] = Wait(30.0)
    host.pod("long")
    host.decide()
    assert [waiting.uid for waiting in host.scheduler.waiting] == ["default/long"]
    assert (promise_of(host), planned) == (before, [])


def test_who_cannot_be_helped_is_not_looked_at_again_before_a_fact(asked: list[float]) -> None:
    host = Host(a=2, b=2)
    host.pod("old", 100)
    host.gang("huge", 5)
    host.decide()
    assert host.scheduler.reservation is None
    looked = len(asked)
    for now in (1.0, 2.0, 3.0):
        host.at(now)
    assert len(asked) == looked


def test_who_ranks_higher_and_cannot_be_helped_is_looked_at_once(asked: list[float]) -> None:
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


def test_while_nothing_is_kept_nobody_is_tried_again_for_a_reservation_that_is_made() -> None:
    """Two nodes have room for one each of who is to be within one rack."""
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


def test_a_gang_rests_though_somebody_comes_who_could_give_way() -> None:
    """There is no more room, and what came before was none that helps."""
    host = OddHost(Odd("post_bind"), a=2, b=2)
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


# Who is tried ---------------------------------------------------------------------------------


def test_who_has_to_heed_the_promise_and_fails_shows_nothing_of_who_need_not() -> None:
    """Also where somebody need not have heeded it before."""
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
    """For how many seconds who runs, by name."""

    def __init__(self, **seconds: float) -> None:
        self.seconds = seconds
        self.asked: list[tuple[str, float | None, float]] = []

    def expected_end(self, pod: Pod, *, started_at: float | None, now: float) -> float | None:
        self.asked.append((pod.name, started_at, now))
        given = self.seconds.get(pod.name)
        return None if given is None else (now if started_at is None else started_at) + given


def test_run_times_are_asked_about_who_is_let_go_as_one_that_starts_now() -> None:
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
def test_who_does_not_end_in_time_is_overdue_however_it_was_first_seen(seen_first: str) -> None:
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
def test_a_pod_that_becomes_another_on_its_node_ends_when_it_did(change: dict[str, Any]) -> None:
    host = Host(Backfill(EXACT, least_members=1), a=1)
    host.pod("old", 4)
    host.decide()
    host.now = 3.0
    change_pod(host, "old", **change)
    host.gang("big", 1)
    host.decide()
    assert host.reservation.starts_at == 4.0


def first_who_may(host: Host) -> str | None:
    """Return who would be tried first of those that need not heed the promise."""
    state = host.scheduler._state
    made = promise_of(host)
    with exempt(state.nodes, made.capacity.values()):
        found = reservation._first_exempt(state, made, host.now)
    return None if found is None else found.pod.name


def test_the_first_to_come_is_tried_of_all_who_may_fit_and_end_in_time() -> None:
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
