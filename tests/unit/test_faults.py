"""Faults: each strikes where it says, once, and does what it says; a plan is a value."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve, fields
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    BindFailed,
    Bound,
    ClusterState,
    Effect,
    Event,
    GroupKey,
    InvalidValueError,
    NodeAdded,
    NodeDeleted,
    NodeName,
    NodeUpdated,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodRejected,
    PodScheduled,
    PodUnschedulable,
    PodUpdated,
    PodWaiting,
    Resources,
    Scheduler,
    SchedulingUnit,
    presets,
)
from gangsched.replay import Recipe, read_log
from gangsched.simulation import (
    RUN_SECONDS,
    Arrival,
    BindAnswerLost,
    BindFails,
    BindSlow,
    ClockJumps,
    EventDelayed,
    EventDropped,
    EventDuplicated,
    EventReordered,
    Fault,
    FaultPlan,
    NodeVanishes,
    SchedulerRestarts,
    Simulator,
    Workload,
)
from gangsched.strategies import faults
from gangsched.testing import make_node, make_pod

G, H = GroupKey("default/g"), GroupKey("default/h")
NODE = make_node("n0", cpu=4)
N0 = NodeAdded(NODE)
GONE = PodDeleted(make_pod("p").uid)


def pod(name: str = "p", **named: Any) -> Event:
    return PodAdded(make_pod(name, cpu=1, **named))


def gang(name: str = "g", size: int = 2) -> list[Event]:
    return [pod(f"{name}-{n}", group=name, min_available=size) for n in range(size)]


def runs_for(seconds: int) -> Event:
    return PodAdded(evolve(make_pod("p", cpu=1), annotations={RUN_SECONDS: str(seconds)}))


class Seen:
    """Keeps what went in and came out: when, and what."""

    def __init__(self) -> None:
        self.all: list[tuple[float, Event | Effect]] = []

    def event(self, event: Event, now: float) -> None:
        self.all.append((now, event))

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        self.all += [(now, effect) for effect in effects]

    def settled(self, now: float) -> None:
        pass

    def of(self, *kinds: type) -> list[Any]:
        return [one for _now, one in self.all if isinstance(one, kinds)]

    def when(self, kind: type) -> list[float]:
        return [now for now, one in self.all if isinstance(one, kind)]

    def failures(self) -> list[tuple[float, str]]:
        return [(now, one.reason) for now, one in self.all if isinstance(one, BindFailed)]

    def arrivals(self) -> str:
        return " ".join(event.pod.name for event in self.of(PodAdded))


def run(
    *arrivals: Event | tuple[float, Event],
    faults: tuple[Fault, ...],
    make: Any = presets.coscheduling,
    ahead: bool = False,
    until: float = 1000.0,
    **options: Any,
) -> tuple[Simulator, Seen]:
    seen = Seen()
    timed = [one if isinstance(one, tuple) else (0.0, one) for one in arrivals]
    workload = Workload(tuple(Arrival(at, event) for at, event in timed))
    plan = FaultPlan(faults, ahead=ahead)
    simulator = Simulator(workload, make, faults=plan, observers=(seen,), **options)
    simulator.run(until=until)
    simulator.jobs._check()
    simulator.scheduler._check()
    return simulator, seen


# Binds ----------------------------------------------------------------------------------------


def test_kth_bind_of_the_run_fails_and_nothing_is_bound_by_it() -> None:
    simulator, seen = run(N0, *gang(size=3), faults=(BindFails(2),))
    (failed,) = seen.of(BindFailed)
    assert failed == BindFailed(seen.of(Bind)[1].uid, 1, "refused by a fault")
    assert [bound.uid for bound in seen.of(Bound)].count(failed.uid) == 1
    assert simulator.injected_faults == ((0.0, BindFails(2)),)
    assert all(found.node_name for found in simulator.cluster.pods())


def test_bind_is_counted_per_group_if_the_fault_names_one() -> None:
    plan = (BindFails(1, H), BindFails(2, G))
    _simulator, seen = run(N0, *gang("g"), *gang("h"), faults=plan)
    assert [failed.uid for failed in seen.of(BindFailed)] == ["default/g-1", "default/h-0"]


@pytest.mark.parametrize("ahead", [False, True])
def test_bind_whose_answer_is_lost_is_done_and_reported_as_failed(ahead: bool) -> None:
    simulator, seen = run(N0, *gang(), faults=(BindAnswerLost(1),), ahead=ahead)
    (failed,) = seen.of(BindFailed)
    assert failed.reason == "the answer was lost"
    found = simulator.cluster.pod(failed.uid)
    assert found is not None
    assert found.node_name == "n0"
    assert len(seen.of(Bind)) == 2, "no pod is bound twice"
    reasons = {notice.reason for notice in seen.of(PodUnschedulable)}
    assert reasons == {"pod group default/g is incomplete"}, "a pod that is bound did not fail"
    assert (0.0, PodUpdated(found)) in seen.all


def test_bind_can_be_slow_and_fail_and_others_are_not_slow() -> None:
    plan = (BindSlow(1, seconds=3.0), BindFails(1), BindAnswerLost(1))
    simulator, seen = run(N0, pod(), faults=plan)
    assert seen.failures() == [(3.0, "refused by a fault")]
    assert {fault for _now, fault in simulator.injected_faults} == set(plan)
    _simulator, seen = run(N0, *gang(), faults=(BindSlow(1, G, 30.0),))
    assert seen.when(Bound) == [0.0, 30.0]


@pytest.mark.parametrize(
    ("change", "faults", "reasons"),
    [
        (GONE, (BindSlow(1),), []),
        (GONE, (EventDelayed(3, 60.0), BindSlow(1, seconds=5.0)), ["the pod is gone"]),
        (NodeDeleted(NodeName("n0")), (BindSlow(1),), ["there is no node n0"]),
    ],
    ids=["pod-gone", "pod-gone-unseen", "node-gone"],
)
def test_cluster_refuses_an_impossible_bind(
    change: Event, faults: tuple[Fault, ...], reasons: list[str]
) -> None:
    _simulator, seen = run(N0, pod(), (1.0, change), faults=faults, until=40.0)
    assert [reason for _now, reason in seen.failures()][:1] == reasons
    assert seen.of(Bound) == []


# Nodes ----------------------------------------------------------------------------------------

THREE = [NodeAdded(make_node(f"n{n}", cpu=1)) for n in range(3)]


def test_node_vanishes_while_members_wait_with_it() -> None:
    simulator, seen = run(*THREE, *gang(size=3), faults=(NodeVanishes(2, G, None),))
    (gone,) = seen.of(NodeDeleted)
    assert gone.name == seen.of(PodWaiting)[1].node
    assert simulator.cluster.node(gone.name) is None
    assert seen.of(Bound) == []


def test_node_vanishes_amid_the_binds_of_a_gang_and_comes_back() -> None:
    plan = (NodeVanishes(2, G, 20.0),)
    simulator, seen = run(*THREE, *gang(size=3), faults=plan, make=Recipe("gang"))
    (gone,) = seen.of(NodeDeleted)
    assert gone.name == seen.of(Bind)[1].node
    kinds = [type(one).__name__ for _now, one in seen.all]
    assert kinds.index("Bound") < kinds.index("NodeDeleted") < kinds.index("BindFailed")
    added = [now for now, one in seen.all if one == NodeAdded(make_node(gone.name, cpu=1))]
    assert added == [0.0, 20.0]
    assert all(found.node_name for found in simulator.cluster.pods())


def test_pods_of_a_vanished_node_are_deleted() -> None:
    simulator, seen = run(N0, *gang(), faults=(NodeVanishes(2, G),), make=Recipe("gang"))
    assert seen.of(PodDeleted) == [PodDeleted(make_pod("g-0").uid)]
    assert [found.name for found in simulator.cluster.pods()] == ["g-1"]


# Events ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "arrivals"),
    [
        ((EventDuplicated(2),), "a b b c d e"),
        ((EventDuplicated(2, 7.0),), "a b c d e b"),
        ((EventReordered(2, by=2),), "a c d b e"),
        ((EventReordered(4, by=9), EventReordered(5, by=9)), "a b c d e"),
        ((EventDelayed(2, 5.0),), "a c d e b"),
    ],
    ids=["duplicated", "duplicated late", "reordered", "reordered before no other", "delayed"],
)
def test_nth_event_is_delivered_as_its_fault_says(plan: tuple[Fault, ...], arrivals: str) -> None:
    simulator, seen = run(*(PodAdded(make_pod(name)) for name in "abcde"), faults=plan)
    assert seen.arrivals() == arrivals
    assert simulator.is_quiescent


@pytest.mark.parametrize("ahead", [False, True])
def test_late_event_is_shown_at_once_only_if_the_state_is_ahead(ahead: bool) -> None:
    shown: list[ClusterState] = []

    def make(cluster: ClusterState) -> Scheduler:
        shown.append(cluster)
        return presets.coscheduling(cluster)

    late = (EventDelayed(1, 5.0),)
    simulator, seen = run(N0, *gang(), faults=late, ahead=ahead, make=make, until=4.0)
    assert seen.of(NodeAdded) == []
    assert (shown[0].node(NodeName("n0")) is not None) is ahead
    assert simulator.cluster.node(NodeName("n0")) is not None
    simulator.run(until=5.0)
    assert seen.when(NodeAdded) == [5.0]
    assert shown[0].node(NodeName("n0")) is not None


def test_late_event_shows_the_current_object() -> None:
    cordoned = NodeUpdated(evolve(NODE, unschedulable=True))
    _simulator, seen = run(N0, pod(), (2.0, cordoned), faults=(EventDelayed(1, 5.0),))
    assert seen.of(Bind) == [], "the node was cordoned before its event"


def test_dropped_events_are_shown_by_the_next_listing() -> None:
    group = PodGroup(name="g", min_available=2)
    simulator, seen = run(
        *(N0, PodGroupAdded(group), pod("p0", group="g"), pod("p1", group="g")),
        (3.0, NodeDeleted(NodeName("n0"))),
        faults=(EventDropped(2, 1.0), EventDropped(5, 9.0), EventDropped(6, 9.0)),
    )
    assert seen.of(PodGroupAdded) == []
    assert set(seen.when(Bind)) == {1.0}
    assert simulator.scheduler.registry.get(group.key) is not None
    assert list(simulator.cluster.pods()) == []
    assert simulator.now >= 12.0
    assert simulator.injected_faults[0] == (0.0, EventDropped(2, 1.0))


def test_answers_to_binds_are_not_counted_as_events() -> None:
    _simulator, seen = run(N0, runs_for(3), faults=(EventDelayed(3, 10.0),))
    assert seen.when(Bound) == [0.0]
    assert seen.when(PodUpdated) == [13.0], "the third event is that the pod has finished"


# Restarts, clocks -----------------------------------------------------------------------------


@pytest.mark.parametrize("unit", SchedulingUnit)
@pytest.mark.parametrize("call", range(1, 11))
def test_scheduler_can_be_replaced_before_any_call(call: int, unit: SchedulingUnit) -> None:
    made: list[ClusterState] = []

    def make(cluster: ClusterState) -> Scheduler:
        made.append(cluster)
        return presets.coscheduling(cluster, unit=unit)

    simulator, seen = run(N0, *gang(size=3), faults=(SchedulerRestarts(call),), make=make)
    assert len(made) == 2
    assert simulator.injected_faults == ((0.0, SchedulerRestarts(call)),)
    assert len(list(simulator.cluster.pods_on(NodeName("n0")))) == 3
    assert len(seen.of(Bound, PodUpdated)) == 3
    assert simulator.jobs.used.amounts() == Resources({"cpu": 3})


def test_unperformed_effects_of_a_replaced_scheduler_are_dropped() -> None:
    # calls: advance, three facts, decisions; the release of both is in the second decision, and
    # the call after it answers the first bind
    simulator, seen = run(N0, *gang(), faults=(SchedulerRestarts(7),), until=0.5)
    binds = [effect.uid for effect in seen.of(Bind)]
    assert binds == ["default/g-0", "default/g-1", "default/g-1"]
    assert len(seen.of(PodScheduled)) == 1
    assert all(found.node_name for found in simulator.cluster.pods())


def test_watch_delivers_a_bind_in_progress_at_a_restart() -> None:
    plan = (BindSlow(1, seconds=5.0), SchedulerRestarts(6))
    _simulator, seen = run(N0, pod(), (9.0, NodeAdded(make_node("n1"))), faults=plan)
    assert seen.when(PodUpdated) == [5.0]
    assert len(seen.of(Bind)) == 1
    assert seen.of(Bound) == []


def test_late_events_of_a_replaced_scheduler_are_dropped() -> None:
    plan = (EventDelayed(1, 9.0), EventReordered(2, 9), SchedulerRestarts(3))
    _simulator, seen = run(N0, *gang(), (20.0, pod()), faults=plan)
    assert seen.of(NodeAdded) == []
    assert seen.arrivals() == "g-1 p"
    assert len(seen.of(Bound)) == 3


def test_assumed_pods_of_a_replaced_scheduler_hold_nothing() -> None:
    lines: list[str] = []
    simulator, seen = run(
        *(NodeAdded(make_node("n0", cpu=1)), *gang(), (2.0, pod("x", priority=5))),
        faults=(SchedulerRestarts(9),),
        until=3.0,
        log=lines.append,
        make=Recipe("coscheduling"),
    )
    assert [effect.uid for effect in seen.of(PodWaiting)] == ["default/g-0"]
    assert seen.of(PodRejected) == []
    assert [now for now, _fault in simulator.injected_faults] == [2.0]
    again = Simulator.from_log(lines)
    again.run(until=3.0)
    for each in (simulator, again):
        assert each.jobs.idle.amounts() == Resources()
        assert each.jobs.used.amounts() == Resources({"cpu": 1})


def test_after_a_clock_jump_everything_due_happens_at_once() -> None:
    jumps = (ClockJumps(1.0, 30.0), ClockJumps(2.0, 1.0))
    later = ((10.0, pod("q")), (50.0, pod("r")))
    simulator, seen = run(N0, runs_for(3), *later, faults=jumps, until=100.0)
    assert seen.when(PodUpdated) == [32.0]
    assert seen.when(PodAdded) == [0.0, 32.0, 50.0]
    assert simulator.injected_faults == ((1.0, jumps[0]), (31.0, jumps[1]))


# Plans ----------------------------------------------------------------------------------------


def test_fault_whose_place_is_never_reached_has_no_effect() -> None:
    plan = (BindFails(99), EventDropped(99), SchedulerRestarts(999), NodeVanishes(1, H))
    simulator, seen = run(N0, *gang(), faults=plan)
    assert simulator.injected_faults == ()
    without = run(N0, *gang(), faults=())[1]  # events of one instant together
    for kind in (Bind, PodScheduled):
        assert seen.of(kind) == without.of(kind) != []


@given(faults())
def test_plan_is_printed_written_and_read_back(plan: FaultPlan) -> None:
    assert eval(repr(plan)) == plan
    assert FaultPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    assert hash(plan) == hash(eval(repr(plan)))


@given(st.integers())
def test_seed_draws_one_plan(seed: int) -> None:
    plan = FaultPlan.drawn(seed)
    assert FaultPlan.drawn(seed) == plan
    assert len(plan.faults) == 8


def test_seeds_draw_every_kind_of_fault_within_their_bounds() -> None:
    kinds = {type(fault) for seed in range(40) for fault in FaultPlan.drawn(seed).faults}
    assert len(kinds) == 10
    small = [FaultPlan.drawn(seed, count=3, places=2, seconds=1.0) for seed in range(40)]
    assert {plan.ahead for plan in small} == {False, True}
    for fault in (fault for plan in small for fault in plan.faults):
        for field in fields(type(fault)):
            value = getattr(fault, field.name)
            assert value is None or 0 <= value <= (8 if field.name == "call" else 3)


ONE: Any = 1  # for a type checker these may be what is expected
REAL: Any = 1.0
TEXT: Any = "x"
REFUSED: list[tuple[Any, str]] = [
    (lambda: BindFails(0), "bind"),
    (lambda: BindFails(True), "bind"),
    (lambda: BindFails(1, GroupKey("")), "group"),
    (lambda: BindAnswerLost(1, None, -1.0), "seconds"),
    (lambda: BindSlow(1, None, float("inf")), "seconds"),
    (lambda: NodeVanishes(-1), "member"),
    (lambda: EventDelayed(REAL), "event"),
    (lambda: EventReordered(1, 0), "by"),
    (lambda: SchedulerRestarts(0), "call"),
    (lambda: ClockJumps(float("nan")), "at"),
    (lambda: FaultPlan(TEXT), "faults"),
    (lambda: FaultPlan((ONE,)), "faults[0]"),
    (lambda: FaultPlan((), ONE), "ahead"),
    (lambda: FaultPlan.drawn(REAL), "seed"),
    (lambda: FaultPlan.drawn(1, count=-1), "count"),
    (lambda: FaultPlan.drawn(1, places=0), "places"),
    (lambda: FaultPlan.drawn(1, seconds=-1.0), "seconds"),
    (lambda: FaultPlan.from_json([]), "plan"),
    (lambda: FaultPlan.from_json({"faults": [{"kind": "Fire"}]}), "faults[0].kind"),
    (lambda: FaultPlan.from_json({"faults": [{"kind": "BindFails"}]}), "faults[0].bind"),
    (lambda: FaultPlan.from_json({"faults": [{"kind": "BindFails", "bind": 0}]}), "faults[0].bind"),
    (lambda: Simulator(Workload(), presets.gang, faults=ONE), "faults"),
]


@pytest.mark.parametrize(("make", "field"), REFUSED, ids=range(len(REFUSED)))
def test_malformed_fault_is_refused_by_field(make: Any, field: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        make()
    assert refused.value.field == field


def test_log_of_a_run_says_what_went_wrong_in_it() -> None:
    lines: list[str] = []
    run(N0, faults=(BindFails(1),), log=lines.append, seed=3, bind_seconds=2.0)
    about = read_log(lines).header.about
    assert (about["seed"], about["bind_seconds"]) == (3, 2.0)
    plan = FaultPlan.from_json({"faults": about["faults"], "ahead": about["ahead"]})
    assert plan == FaultPlan((BindFails(1),))
