"""Reservations, one case each: which pods may run meanwhile, and what moves or ends them."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import pytest
from attrs import evolve

from gangsched import (
    Backfill,
    InMemoryCluster,
    InvalidValueError,
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
    PreemptionPolicy,
    Reservation,
    Scheduler,
    SchedulingUnit,
    Success,
    Topology,
    Unschedulable,
    Wait,
    group_key,
    presets,
)
from gangsched.errors import PluginError
from gangsched.framework.backfill import reservation as reserving
from gangsched.framework.backfill import run_times, start_estimate
from gangsched.framework.nodes.reserved_views import without
from gangsched.framework.queueing import requeue
from gangsched.testing import make_pod
from support.backfill_host import BIG, EXACT, FaultyHost, Host, crowded, plans, running
from support.faulty_plugin import OOPS, FaultyPlugin
from support.fingerprint import fingerprint


def test_failed_gang_gets_a_reservation_at_the_earliest_fitting_instant() -> None:
    host = crowded()
    assert host.reservation.group == BIG
    assert host.reservation.starts_at == 100.0
    assert set(host.reservation.nodes) == {"a", "b"}
    assert host.scheduler.next_deadline() is not None
    assert "reserved for pod group default/big, starts by 100" in str(host.reservation)


def test_pod_is_admitted_before_the_reservation_exactly_if_it_ends_in_time() -> None:
    host = crowded()
    host.pod("long", 101)
    host.pod("unknown")
    host.pod("short", 100)
    assert host.decide() == ["short"]
    assert host.reservation.starts_at == 100.0


def test_all_members_of_a_gang_must_end_in_time() -> None:
    host = crowded()
    host.pod("two-0", 5, group="two", min_available=2)
    host.pod("two-1", 100.0005, group="two", min_available=2)
    assert host.decide() == []
    host.gang("three", 3, 100)
    assert host.decide() == ["three-0", "three-1", "three-2"]


def test_unneeded_reserved_capacity_is_free_for_all() -> None:
    host = Host(a=2, b=2, c=1)
    host.pod("old", 100, cpu=2)
    host.pod("new", 50, cpu=2)
    host.decide()
    host.gang("big", 2, cpu=2)
    host.decide()
    host.pod("long")
    host.pod("longer")
    assert host.decide() == ["long"]
    assert host.scheduler.why(PodUID("default/longer"))


def test_capacity_free_now_and_at_the_start_of_the_gang_is_for_all() -> None:
    host = Host(a=4)
    host.pod("old", 100, cpu=3)
    host.decide()
    host.gang("big", 3)
    host.decide()
    host.pod("long")
    assert host.decide() == ["long"]
    host.end("old")
    assert host.decide() == ["big-0", "big-1", "big-2"]


def test_pod_places_on_a_node_are_counted_as_amounts_are() -> None:
    """Two fit; one of the two places is reserved, the others return."""
    host = Host()
    offered = {"cpu": 100, "pods": 4}
    host.tell(NodeAdded(Node(name=NodeName("a"), allocatable=offered)))
    for name in ("old", "older"):
        host.pod(name, 100)
    host.decide()
    host.gang("big", 3)
    assert host.decide() == []
    host.pod("long")
    host.pod("longer")
    assert host.decide() == ["long"]
    assert host.reservation.starts_at == 100.0
    host.end("old", "older")
    assert host.decide() == ["big-0", "big-1", "big-2"]


def test_admitted_pod_on_reserved_capacity_returns_it_for_others() -> None:
    host = Host(a=4)
    host.pod("old", 100, cpu=2)
    host.decide()
    host.gang("big", 3)
    host.decide()
    host.pod("short", 100)
    host.pod("long")
    assert host.decide() == ["short", "long"]
    host.now = 100.0
    host.end("old", "short")
    assert host.decide() == ["big-0", "big-1", "big-2"]


def test_pod_that_runs_beside_the_gang_supplies_no_capacity() -> None:
    host = Host(a=4)
    host.pod("first", 50)
    host.pod("second", 100, cpu=2)
    host.decide()
    host.gang("big", 3)
    host.decide()
    host.pod("long")
    assert host.decide() == ["long"]
    host.now = 50.0
    host.end("first")
    host.pod("longer")
    assert host.decide() == []
    assert host.reservation.starts_at == 100.0


def test_waiting_entity_that_ends_in_time_is_requeued_by_a_reservation() -> None:
    host = Host(a=2)
    host.pod("first", 50)
    host.pod("second", 100)
    host.decide()
    host.gang("big", 2)
    host.pod("long", 60)
    host.pod("short", 40)
    assert host.decide() == []
    host.at(40.0)
    host.now = 50.0
    host.end("first")
    assert host.decide() == ["short"]


def test_gang_that_fits_no_single_rack_is_not_retried_for_reserved_capacity() -> None:
    host = Host(Backfill(EXACT))
    for rack in "ab":
        node = Node(name=NodeName(rack), labels={"rack": rack}, allocatable={"cpu": 2})
        host.tell(NodeAdded(node))
    host.pod("one", 100)
    host.pod("two", 100)
    host.decide()
    host.gang("big", 4)
    host.decide()
    host.tell(PodGroupAdded(PodGroup(name="ring", min_available=2, topology=Topology("rack"))))
    host.gang("ring", 2, 5)
    assert host.decide() == []
    while (due := host.scheduler.next_deadline()) is not None and due < 100.0:
        host.at(due)
    ring = host.scheduler.registry.get(group_key("default", "ring"))
    assert ring is not None
    assert ring.attempts <= 2


def test_reserved_instant_is_the_first_with_unfragmented_capacity() -> None:
    host = Host(a=2, b=2, c=2, d=1, e=1, f=1)
    ends = (("a", 10), ("a", 40), ("b", 20), ("b", 42), ("c", 30), ("c", 60))
    for n, (name, seconds) in enumerate((*ends, ("d", 41), ("e", 45), ("f", 46))):
        pod = running(make_pod(f"p{n}", cpu=1), str(seconds))
        host.tell(PodAdded(evolve(pod, node_name=NodeName(name))))
    host.gang("big", 2, cpu=2)
    host.decide()
    assert host.reservation.starts_at == 42.0
    assert set(host.reservation.nodes) == {"a", "b"}


def test_oldest_preemptor_of_the_highest_priority_is_first() -> None:
    host = Host(Backfill(EXACT, after_seconds=10), a=2)
    host.pod("old", 100)
    host.decide()
    for name, created_at, priority in (("child", 2.0, 0), ("elder", 1.0, 0), ("low", 0.5, -1)):
        for n in range(2):
            pod = make_pod(f"{name}-{n}", group=name, min_available=2, cpu=1, priority=priority)
            host.tell(PodAdded(evolve(pod, created_at=created_at)))
    host.decide()
    host.at(20.0)
    assert host.reservation.group == group_key("default", "elder")


def test_gang_starts_at_its_reserved_instant_during_backoff() -> None:
    host = crowded()
    host.now = 99.5
    host.tell(PodGroupAdded(PodGroup(name="big", min_available=4)))
    host.decide()  # one more failed try: its backoff would end after the hundredth second
    host.now = 100.0
    host.end("old")
    assert host.decide() == ["big-0", "big-1", "big-2", "big-3"]
    assert host.scheduler.reservation is None


def test_entity_of_higher_priority_may_take_the_capacity_and_moves_the_reservation() -> None:
    host = crowded()
    host.pod("vip", 300, priority=1)
    assert host.decide() == ["vip"]
    assert host.reservation.starts_at == 300.0


def test_gang_of_a_higher_priority_takes_the_reservation_over() -> None:
    host = crowded()
    host.gang("vip", 4, priority=1)
    host.decide()
    assert host.reservation.group == group_key("default", "vip")
    assert set(host.reservation.nodes) == {"a", "b"}
    host.pod("long")
    assert host.decide() == []


def test_gang_that_takes_the_reservation_over_is_planned_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = crowded()
    planned = plans(monkeypatch)
    host.gang("vip", 4, priority=1)
    host.decide()
    assert host.reservation.group == "default/vip"
    assert planned == ["default/vip"]


def test_early_end_moves_the_reservation_forward() -> None:
    host = Host(a=2, b=2)
    host.pod("first", 100)
    host.pod("second", 200, cpu=2)
    host.decide()
    host.gang("big", 4)
    host.decide()
    assert host.reservation.starts_at == 200.0
    host.now = 10.0
    host.end("second")
    host.decide()
    assert host.reservation.starts_at == 100.0


def test_deleted_node_moves_the_reservation() -> None:
    host = Host(a=2, b=2, c=2)
    for name, seconds in (("x", 10), ("y", 20), ("z", 30)):
        host.pod(name, seconds, cpu=2)
    host.decide()
    host.gang("big", 2, cpu=2)
    host.decide()
    assert host.reservation.starts_at == 20.0
    host.tell(NodeDeleted(host.reservation.nodes[0]))
    host.decide()
    assert host.reservation.starts_at == 30.0


@pytest.mark.parametrize("end", ["member", "gang", "group"])
def test_reservation_ends_with_its_gang(end: str) -> None:
    host = crowded()
    host.pod("long")
    assert host.decide() == []
    if end == "member":
        host.end("big-0")
    elif end == "gang":
        host.end(*(f"big-{n}" for n in range(4)))
    else:
        host.tell(PodGroupAdded(PodGroup(name="big", min_available=5)))
    assert host.at(5.0) == ["long"], "it rests for a second"
    assert host.scheduler.reservation is None


def test_gang_that_fits_no_empty_cluster_gets_no_reservation() -> None:
    host = Host(a=2, b=2)
    host.pod("old", 100)
    host.decide()
    host.gang("huge", 5)
    host.gang("big", 4)
    host.decide()
    assert host.reservation.group == BIG
    host.tell(NodeAdded(Node(name=NodeName("c"), allocatable={"cpu": 2})))
    assert host.decide() == ["big-0", "big-1", "big-2", "big-3"]
    assert host.reservation.group == group_key("default", "huge")
    assert host.reservation.starts_at == 10.0


def test_reservation_stays_with_its_gang_though_an_older_gang_qualifies() -> None:
    host = Host(a=2)
    host.pod("old", 100)
    host.decide()
    host.now = 5.0
    host.gang("young", 2)
    host.now = 1000.0
    host.decide()
    assert host.reservation.group == group_key("default", "young")
    for n in range(2):
        pod = make_pod(f"elder-{n}", group="elder", min_available=2, cpu=1, created_at=1.0)
        host.tell(PodAdded(pod))
    host.decide()
    assert host.reservation.group == group_key("default", "young")


@pytest.mark.parametrize(
    ("policy", "is_made"),
    [
        (Backfill(EXACT, after_attempts=1), True),
        (Backfill(EXACT, after_attempts=2), False),
        (Backfill(EXACT, after_seconds=1), False),
        (Backfill(EXACT, least_members=4), True),
        (Backfill(EXACT, least_members=5), False),
    ],
)
def test_reservation_is_made_after_enough_time_and_failures(
    policy: Backfill, is_made: bool
) -> None:
    host = crowded(policy)
    assert (host.scheduler.reservation is not None) is is_made


@pytest.mark.parametrize("remembered", [None, (0, 1e6)])
def test_owner_of_the_reservation_is_exempt_whatever_its_run_time(
    remembered: tuple[int, float] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = crowded()
    host.at(5.0)
    state = host.scheduler._state
    promise = state.reservations.backfill.reservation
    assert promise is not None
    assert [line.queued.peek() for line in state.queue.blocked_queues()] == [promise.entity]
    state.reservations.backfill.failed.clear()
    monkeypatch.setattr(requeue, "may_fit", lambda *_args, **_options: True)
    promise.entity.expected_run = remembered
    assert reserving._first_exempt(state, promise, 5.0) is promise.entity


def test_run_time_of_a_waiting_pod_is_asked_again_after_its_event() -> None:
    class Table:
        seconds: ClassVar[dict[str, float]] = {"old": 100.0, "long": 200.0}

        def expected_end(self, pod: Pod, *, started_at: float | None, now: float) -> float | None:
            given = self.seconds.get(pod.name)
            return None if given is None else (now if started_at is None else started_at) + given

    host = crowded(Backfill(Table()))
    host.pod("long")
    assert host.decide() == []
    Table.seconds["long"] = 20.0
    assert host.at(50.0) == []
    (pod,) = (pod for pod in host.cluster.pods() if pod.name == "long")
    host.tell(PodUpdated(evolve(pod, labels={"news": "of it"})))
    assert host.at(51.0) == ["long"]


def test_nothing_is_remembered_of_departed_pods_while_the_reservation_stays() -> None:
    host = crowded()
    promise = host.scheduler._state.reservations.backfill.reservation
    assert promise is not None
    for n in range(3):
        host.now = n
        host.pod(f"s{n}", 5)
        host.pod(f"t{n}", 5)
        assert host.decide() == [f"s{n}", f"t{n}"]
        assert promise.ends == {"default/old": 100.0} | dict.fromkeys(
            (PodUID(f"default/s{n}"), PodUID(f"default/t{n}")), n + 5.0
        )
        host.end(f"s{n}", f"t{n}")
        host.decide()
        assert host.scheduler._state.reservations.backfill.reservation is promise
        assert promise.ends == {"default/old": 100.0}


def test_nothing_is_remembered_without_run_times() -> None:
    host = Host(Backfill(), a=2, b=2, c=1)
    host.pod("old")
    host.pod("older")
    host.decide()
    host.gang("big", 2, cpu=2)
    host.decide()
    promise = host.scheduler._state.reservations.backfill.reservation
    assert promise is not None
    host.pod("new")
    assert host.decide() == ["new"]
    assert host.scheduler._state.reservations.backfill.reservation is promise
    assert promise.ends == {}


# Without run times ------------------------------------------------------------------------------


def test_nodes_with_the_fewest_holders_are_drained_without_run_times() -> None:
    host = Host(Backfill(drain_for=50.0), a=2, b=2, c=2)
    for name in ("p", "q", "r", "s"):
        host.pod(name)
    host.decide()  # spread: two on one node at most, one on each of the others
    host.gang("big", 2, cpu=2)
    host.decide()
    reservation = host.reservation
    assert reservation.starts_at is None
    crowd = [name for name in "abc" if len(list(host.cluster.pods_on(NodeName(name)))) == 2]
    assert set(reservation.nodes) == set("abc") - set(crowd)
    assert "drained for pod group default/big" in str(reservation)
    host.pod("new")
    assert host.decide() == []
    on_them = [p.name for n in reservation.nodes for p in host.cluster.pods_on(n)]
    host.end(*on_them)
    assert host.decide() == ["big-0", "big-1"]


def test_nodes_drained_in_vain_are_given_back_and_not_drained_again() -> None:
    host = crowded(Backfill(drain_for=50.0))
    host.pod("new")
    assert host.decide() == []
    deadline = host.reservation.since + 50.0
    assert host.at(deadline) == ["new"]
    while (due := host.scheduler.next_deadline()) is not None:
        assert due < 200.0, "it drains again, though nothing has happened"
        host.at(due)
    host.end("new")
    host.decide()
    assert host.reservation.group == BIG


def test_gang_of_equal_priority_goes_first_after_nodes_were_drained_in_vain() -> None:
    host = Host(Backfill(drain_for=50.0), a=3)
    for name in ("p", "q", "r"):
        host.pod(name)
    host.decide()
    host.gang("elder", 3, None)
    host.now = 1.0
    host.gang("young", 3, None)
    host.decide()
    assert host.reservation.group == group_key("default", "elder")
    host.at(host.reservation.since + 50.0)
    assert host.scheduler.reservation is None
    host.end("p")
    host.decide()
    assert host.reservation.group == group_key("default", "young")


def test_departure_from_a_drained_cluster_plans_no_new_draining(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host(Backfill(), a=2, b=2, c=1)
    for name in ("old", "older"):
        host.pod(name)
    host.decide()
    host.gang("big", 2, cpu=2)
    host.decide()
    before = host.reservation
    planned: list[float] = []
    inner = start_estimate._by_draining

    def counted(look: Any) -> Any:
        planned.append(look.now)
        return inner(look)

    monkeypatch.setattr(start_estimate, "_by_draining", counted)
    for n in range(3):
        host.pod(f"new-{n}")
        assert host.decide() == [f"new-{n}"]
        host.end(f"new-{n}")
        host.decide()
    assert (host.reservation, planned) == (before, [])
    host.tell(NodeAdded(Node(name=NodeName("d"), allocatable={"cpu": 1})))
    host.decide()
    assert planned == [0.0]


def test_overdue_pod_has_an_unknown_end() -> None:
    host = crowded(Backfill(EXACT, overdue_after=5.0, drain_for=50.0))
    assert host.scheduler.next_deadline() is not None
    host.at(104.0)
    assert host.reservation.starts_at == 100.0
    host.at(105.0)
    assert host.reservation.starts_at is None
    host.end("old")
    assert host.decide() == ["big-0", "big-1", "big-2", "big-3"]


class Broken:
    """Says what is no instant, or raises."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def expected_end(self, pod: Pod, *, started_at: float | None, now: float) -> Any:
        if self.answer is None:
            raise RuntimeError("no idea")
        return self.answer


@pytest.mark.parametrize("answer", [None, "soon", float("nan"), float("inf")])
def test_run_times_that_misbehave_are_named_and_count_as_unknown(answer: object) -> None:
    host = Host(Backfill(Broken(answer)), a=2)
    host.pod("old", 100)
    host.decide()
    host.gang("big", 2)
    host.scheduler.schedule_one(now=0.0)
    with pytest.raises(PluginError, match="expected_end"):
        host.scheduler.schedule_one(now=0.0)
    assert host.reservation.starts_at is None
    host.scheduler._check()


def test_one_bad_run_time_is_named_per_call() -> None:
    host = Host(Backfill(Broken(None)), a=2)
    state = host.scheduler._state
    ends = [
        run_times.end_of(state.reservations, state.call, make_pod(name), None, 0.0)
        for name in ("p", "q")
    ]
    assert ends == [math.inf, math.inf]
    (problem,) = state.call.deferred
    assert isinstance(problem, PluginError)
    assert problem.subject == "default/p"


def test_every_rejection_counts_and_the_last_was_for_lack_of_capacity() -> None:
    host = FaultyHost(FaultyPlugin("permit"), a=4)
    host.policy = Backfill(EXACT, after_attempts=2)
    host.scheduler = host.make()
    host.faulty.answers["permit"] = Unschedulable("not now")
    host.gang("big", 4)
    assert host.decide() == []
    host.faulty.answers.clear()
    host.pod("old", 100)
    assert host.decide() == ["old"]
    assert host.scheduler.reservation is None
    assert host.at(5.0) == []
    assert host.reservation.starts_at == 100.0
    host.faulty.answers["permit"] = Unschedulable("not now")
    host.end("old")
    assert host.at(100.0) == []
    assert host.scheduler.reservation is None


def test_error_while_the_future_is_evaluated_is_raised_in_its_cycle() -> None:
    host = FaultyHost(FaultyPlugin("filter"), a=2)
    host.pod("old", 100)
    host.decide()

    def see(_state: object, _pod: object, node: Any) -> object:
        if not node.pod_count:
            raise OOPS
        return Success()

    host.faulty.answers["filter"] = see
    host.gang("big", 2)
    assert host.decide() == []
    assert host.scheduler.reservation is None
    host.end("old")
    with pytest.raises(
        PluginError, match="'FaultyPlugin' at filter for default/big-0: raised Zero"
    ):
        host.at(5.0)


def test_gang_gets_a_reservation_when_its_total_request_is_free() -> None:
    """Although its members find capacity before, and a possible victim exists."""
    host = FaultyHost(FaultyPlugin("permit"), a=4)
    host.pod("old", 100, priority=5)
    host.decide()
    host.tell(PodAdded(evolve(make_pod("lower"), scheduling_gates=("hold",))))
    spec = PodGroup(name="big", min_available=2, min_resources={"cpu": 4})
    host.tell(PodGroupAdded(spec))
    host.gang("big", 2, priority=5)
    assert host.decide() == []
    assert host.reservation.starts_at == 100.0


def test_admitted_pod_that_waits_on_permit_is_counted_as_leaving() -> None:
    host = FaultyHost(FaultyPlugin("permit"), a=2, b=2)
    host.pod("old", 100)
    host.decide()
    host.gang("big", 4)
    host.decide()
    needs = host.scheduler._state.nodes.ledger.expected()
    assert {uid for need in needs for uid in need.returning or ()} == {"default/old"}
    host.faulty.answers["permit"] = Wait(30.0)
    host.pod("short", 10)
    assert host.decide() == []
    assert [waiting.uid for waiting in host.scheduler.waiting] == ["default/short"]
    needs = host.scheduler._state.nodes.ledger.expected()
    returning = {uid for need in needs for uid in need.returning or ()}
    assert returning == {"default/old", "default/short"}
    assert host.reservation.starts_at == 100.0


def test_restarted_pod_that_ends_too_late_is_not_waited_for() -> None:
    """Nor may others have what it was to give back."""
    host = FaultyHost(FaultyPlugin("permit"), a=5)
    host.pod("old", 100, cpu=2)
    host.decide()
    host.faulty.answers["permit"] = Wait(95.0)
    host.pod("short", 10)
    host.decide()
    host.gang("big", 4)
    host.decide()
    assert host.reservation.starts_at == 100.0
    host.faulty.answers.clear()
    assert host.at(95.0) == []
    assert host.at(96.0) == ["short"]
    host.pod("long", None)
    assert host.decide() == []
    host.now = 100.0
    host.end("old")
    assert host.decide() == ["big-0", "big-1", "big-2", "big-3"]


def test_no_more_of_a_node_is_reserved_than_is_free_beside_the_owner() -> None:
    """While its victims are still there, it has less than nothing free."""
    host = FaultyHost(FaultyPlugin("permit"), a=4)
    host.pod("low", None, cpu=2)
    host.pod("old", 100)
    host.decide()
    never = PreemptionPolicy.NEVER
    host.tell(PodGroupAdded(PodGroup(name="big", min_available=2, preemption_policy=never)))
    host.gang("big", 2, priority=5)
    host.decide()
    node = host.scheduler._state.nodes.infos[NodeName("a")]
    assert (host.reservation.starts_at, node.withheld) == (100.0, {"cpu": 1000})
    host.pod("mid", None, cpu=2, priority=3)
    assert host.decide() == []
    assert list(host.scheduler._state.pods.evicted) == ["default/low"]
    assert (node.free["cpu"], node.withheld) == (-1000, {})
    host.end("low")
    assert host.decide() == [
        "big-0",
        "big-1",
    ]  # an entity of higher priority may take the capacity of both


# Bundles, labels, restarts --------------------------------------------------------------------


def test_gang_within_one_label_gets_a_reservation_within_one_value() -> None:
    host = Host(Backfill(EXACT))
    for name, rack in (("a0", "a"), ("a1", "a"), ("b0", "b"), ("b1", "b")):
        node = Node(name=NodeName(name), labels={"rack": rack}, allocatable={"cpu": 1})
        host.tell(NodeAdded(node))
    for name, seconds, rack in (("w", 30, "a"), ("x", 50, "a"), ("y", 40, "b"), ("z", 45, "b")):
        pod = running(make_pod(name, cpu=1), str(seconds))
        host.tell(PodAdded(evolve(pod, node_selector={"rack": rack})))
    host.decide()
    host.tell(PodGroupAdded(PodGroup(name="big", min_available=2, topology=Topology("rack"))))
    host.gang("big", 2)
    host.decide()
    assert host.reservation.starts_at == 45.0
    assert set(host.reservation.nodes) == {"b0", "b1"}


def test_bundle_gets_a_reservation_for_all_its_groups() -> None:
    host = Host(a=3)
    host.pod("old", 100)
    host.decide()
    bundle = ("default/one", "default/two")
    for name, least in (("one", 1), ("two", 2)):
        host.tell(
            PodGroupAdded(PodGroup(name=name, min_available=least, bundle=tuple(map(_key, bundle))))
        )
        host.gang(name, least)
    host.decide()
    assert host.reservation.group == "default/one"
    assert host.reservation.starts_at == 100.0
    host.pod("long")
    assert host.decide() == []


def _key(text: str) -> Any:
    return group_key(*text.split("/"))


def test_elastic_members_get_no_reservation() -> None:
    host = Host(a=4)
    host.pod("old", 100, cpu=3)
    host.decide()
    for n in range(4):
        host.pod(f"big-{n}", 10, group="big", min_available=2)
    host.decide()
    host.pod("long")
    assert host.decide() == ["long"]


def test_restart_makes_the_reservation_again() -> None:
    host = crowded()
    before = host.reservation
    host.now = 30.0
    host.scheduler = host.make()
    host.decide()
    assert host.reservation == evolve(before, since=30.0, starts_at=130.0), "as if all began now"


def test_looking_ahead_leaves_the_nodes_as_they_were() -> None:
    host = crowded()
    nodes = host.scheduler._state.nodes
    views = [
        (i.free, i.holders, i.withheld, nodes.classes.of(i.index)) for i in nodes.infos.values()
    ]
    before = fingerprint([(dict(f), dict(h), dict(k)) for f, h, k, _c in views], nodes.total())
    (holder,) = (info for info in nodes.infos.values() if info.holders)
    with without(nodes, nodes.ledger.expected(), {holder.node.name: list(holder.holders)}):
        assert nodes.total() == {"cpu": 4000}
    views = [
        (i.free, i.holders, i.withheld, nodes.classes.of(i.index)) for i in nodes.infos.values()
    ]
    assert before == fingerprint(
        [(dict(f), dict(h), dict(k)) for f, h, k, _c in views], nodes.total()
    )
    nodes._check()


# What is said, and refused --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "starts_at", "says"),
    [
        ("a", 12.5, "1 node is reserved for pod group default/big, starts by 12.5"),
        ("ab", 100.0, "2 nodes are reserved for pod group default/big, starts by 100"),
        ("a", None, "1 node is drained for pod group default/big"),
        ("ab", None, "2 nodes are drained for pod group default/big"),
    ],
)
def test_reservation_names_its_gang(names: str, starts_at: float | None, says: str) -> None:
    made = Reservation(BIG, 0.0, starts_at, tuple(map(NodeName, names)))
    assert str(made) == says


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("run_times", "annotation"),
        ("after_attempts", 0),
        ("after_attempts", True),
        ("least_members", 1.5),
        ("after_seconds", -1),
        ("overdue_after", float("nan")),
        ("drain_for", 0),
    ],
)
def test_policy_refuses_contradictory_values(field: str, value: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        Backfill(**{field: value})
    assert (caught.value.field, caught.value.value) == (field, pytest.approx(value, nan_ok=True))


@pytest.mark.parametrize(
    "given", [{"backfill": 1}, {"backfill": Backfill(), "unit": SchedulingUnit.POD}]
)
def test_scheduler_refuses_backfill_that_it_cannot_keep(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError) as caught:
        Scheduler(InMemoryCluster(), presets.coscheduling_profile(), **given)
    assert caught.value.field == "backfill"
