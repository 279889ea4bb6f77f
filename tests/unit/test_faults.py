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
    Node,
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
from gangsched.testing import make_pod

G, H = GroupKey("default/g"), GroupKey("default/h")


def node(name: str = "n0", cpu: int = 4) -> Node:
    return Node(name=NodeName(name), allocatable={"cpu": cpu})


def gang(name: str, size: int = 2, cpu: int = 1) -> list[Event]:
    return [
        PodAdded(make_pod(f"{name}-{n}", group=name, min_available=size, cpu=cpu))
        for n in range(size)
    ]


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

    def of(self, *kinds: type) -> list[tuple[float, Any]]:
        return [(now, one) for now, one in self.all if isinstance(one, kinds)]


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
    simulator = Simulator(
        Workload(tuple(Arrival(at, event) for at, event in timed)),
        make,
        faults=FaultPlan(faults, ahead=ahead),
        observers=(seen,),
        **options,
    )
    simulator.run(until=until)
    simulator.jobs._check()
    simulator.scheduler._check()
    return simulator, seen


# Binds ----------------------------------------------------------------------------------------


def test_kth_bind_of_the_run_fails_and_nothing_is_bound_by_it() -> None:
    simulator, seen = run(node_of(), *gang("g", 3), faults=(BindFails(2),))
    (_now, failed) = seen.of(BindFailed)[0]
    assert failed == BindFailed(failed.uid, 1, "refused by a fault")
    assert failed.uid == seen.of(Bind)[1][1].uid
    assert [bound.uid for _now, bound in seen.of(Bound)].count(failed.uid) == 1
    assert len(seen.of(BindFailed)) == 1
    assert simulator.injected_faults == ((0.0, BindFails(2)),)
    assert all(pod.node_name for pod in simulator.cluster.pods())


def node_of(cpu: int = 4) -> Event:
    return NodeAdded(node(cpu=cpu))


def test_bind_is_counted_per_group_if_the_fault_names_one() -> None:
    plan = (BindFails(1, H), BindFails(2, G))
    _simulator, seen = run(node_of(), *gang("g"), *gang("h"), faults=plan)
    assert [failed.uid for _now, failed in seen.of(BindFailed)] == ["default/g-1", "default/h-0"]


def test_pod_whose_bind_failed_holds_nothing_until_its_next_attempt() -> None:
    pod = PodAdded(make_pod("p", cpu=4))
    simulator, seen = run(node_of(), pod, faults=(BindFails(1),), until=0.5)
    assert simulator.jobs.used.amounts() == Resources()
    assert simulator.jobs.idle.amounts() == Resources()
    assert list(simulator.cluster.pods_on(NodeName("n0"))) == []
    assert len(seen.of(Bind)) == 1


@pytest.mark.parametrize("ahead", [False, True])
def test_bind_whose_answer_is_lost_is_done_and_reported_as_failed(ahead: bool) -> None:
    simulator, seen = run(node_of(), *gang("g"), faults=(BindAnswerLost(1),), ahead=ahead)
    ((_now, failed),) = seen.of(BindFailed)
    assert failed.reason == "the answer was lost"
    pod = simulator.cluster.pod(failed.uid)
    assert pod is not None
    assert pod.node_name == "n0"
    assert len(seen.of(Bind)) == 2, "nobody is bound twice"
    reasons = {told.reason for _now, told in seen.of(PodUnschedulable)}
    assert reasons == {"pod group default/g is incomplete"}, "a pod that is bound did not fail"
    assert (0.0, PodUpdated(pod)) in seen.all


def test_bound_pod_is_bound_again_while_its_answer_is_lost() -> None:
    lost = BindAnswerLost(1, seconds=5.0)
    simulator, seen = run(node_of(), PodAdded(make_pod("p", cpu=1)), faults=(lost,))
    reasons = [failed.reason for _now, failed in seen.of(BindFailed)]
    assert reasons[0] == "the answer was lost"
    assert set(reasons[1:]) == {"the pod is bound to n0 already"}
    (told,) = (now for now, event in seen.of(PodUpdated))
    assert told == 5.0
    assert len(list(simulator.cluster.pods_on(NodeName("n0")))) == 1


def test_slow_bind_takes_longer_and_others_do_not() -> None:
    _simulator, seen = run(node_of(), *gang("g"), faults=(BindSlow(1, G, 30.0),))
    assert [now for now, _bound in seen.of(Bound)] == [0.0, 30.0]


def test_bind_can_be_slow_and_fail() -> None:
    plan = (BindSlow(1, seconds=3.0), BindFails(1), BindAnswerLost(1))
    simulator, seen = run(node_of(), PodAdded(make_pod("p", cpu=1)), faults=plan)
    assert [(now, f.reason) for now, f in seen.of(BindFailed)] == [(3.0, "refused by a fault")]
    assert {fault for _now, fault in simulator.injected_faults} == set(plan)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (PodDeleted(make_pod("p").uid), None),
        (NodeDeleted(NodeName("n0")), "there is no node n0"),
        (PodUpdated(make_pod("p", cpu=1, uid="default/p")), ""),
    ],
    ids=["pod-gone", "node-gone", "nothing"],
)
def test_cluster_refuses_an_impossible_bind(change: Event, reason: str | None) -> None:
    _simulator, seen = run(
        node_of(), PodAdded(make_pod("p", cpu=1)), (1.0, change), faults=(BindSlow(1),), until=40.0
    )
    found = [failed.reason for _now, failed in seen.of(BindFailed)]
    assert found == ([reason] if reason else [])
    assert len(seen.of(Bound)) == (reason == "")


def test_bind_of_a_pod_that_has_finished_unseen_is_answered() -> None:
    gone = PodDeleted(make_pod("p").uid)
    plan = (EventDelayed(3, 60.0), BindSlow(1, seconds=5.0))
    _simulator, seen = run(
        node_of(), PodAdded(make_pod("p", cpu=1)), (1.0, gone), faults=plan, until=10.0
    )
    assert (5.0, BindFailed(gone.uid, 1, "the pod is gone")) in seen.all


# Nodes ----------------------------------------------------------------------------------------


def test_node_vanishes_while_members_wait_with_it() -> None:
    nodes = [NodeAdded(node(f"n{n}", cpu=1)) for n in range(3)]
    simulator, seen = run(*nodes, *gang("g", 3), faults=(NodeVanishes(2, G, None),))
    waiting = [effect for _now, effect in seen.of(PodWaiting)]
    ((_now, gone),) = seen.of(NodeDeleted)
    assert gone.name == waiting[1].node
    assert simulator.cluster.node(gone.name) is None
    assert seen.of(Bound) == []


def test_node_vanishes_amid_the_binds_of_a_gang() -> None:
    nodes = [NodeAdded(node(f"n{n}", cpu=1)) for n in range(3)]
    simulator, seen = run(
        *nodes, *gang("g", 3), faults=(NodeVanishes(2, G, 20.0),), make=Recipe("gang")
    )
    binds = [effect for _now, effect in seen.of(Bind)]
    ((_now, gone),) = seen.of(NodeDeleted)
    assert gone.name == binds[1].node
    kinds = [type(one).__name__ for _now, one in seen.all]
    assert kinds.index("Bound") < kinds.index("NodeDeleted") < kinds.index("BindFailed")
    assert [now for now, event in seen.of(NodeAdded) if event.node.name == gone.name] == [0.0, 20.0]
    assert all(pod.node_name for pod in simulator.cluster.pods())


def test_pods_of_a_vanished_node_are_deleted() -> None:
    plan = (NodeVanishes(2, G),)
    simulator, seen = run(node_of(), *gang("g"), faults=plan, make=Recipe("gang"))
    assert seen.of(PodDeleted) == [(0.0, PodDeleted(make_pod("g-0").uid))]
    assert [pod.name for pod in simulator.cluster.pods()] == ["g-1"]


# Events ---------------------------------------------------------------------------------------


def told(seen: Seen, kind: type) -> list[float]:
    return [now for now, _event in seen.of(kind)]


def test_nth_event_is_delivered_twice() -> None:
    _simulator, seen = run(
        node_of(), *gang("g"), faults=(EventDuplicated(2), EventDuplicated(1, 7.0))
    )
    assert [event.pod.name for _now, event in seen.of(PodAdded)] == ["g-0", "g-0", "g-1"]
    assert told(seen, NodeAdded) == [0.0, 7.0]


@pytest.mark.parametrize("ahead", [False, True])
def test_late_event_is_shown_at_once_only_if_the_state_is_ahead(
    ahead: bool,
) -> None:
    shown: list[ClusterState] = []

    def make(cluster: ClusterState) -> Scheduler:
        shown.append(cluster)
        return presets.coscheduling(cluster)

    simulator, seen = run(
        node_of(), *gang("g"), faults=(EventDelayed(1, 5.0),), ahead=ahead, make=make, until=4.0
    )
    assert told(seen, NodeAdded) == []
    assert (shown[0].node(NodeName("n0")) is not None) is ahead
    assert simulator.cluster.node(NodeName("n0")) is not None
    simulator.run(until=5.0)
    assert told(seen, NodeAdded) == [5.0]
    assert shown[0].node(NodeName("n0")) is not None


def test_late_event_shows_the_current_object() -> None:
    cordoned = evolve(node(), unschedulable=True)
    _simulator, seen = run(
        node_of(),
        PodAdded(make_pod("p", cpu=1)),
        (2.0, NodeUpdated(cordoned)),
        faults=(EventDelayed(1, 5.0),),
    )
    assert seen.of(Bind) == [], "the node was cordoned before it was told of"


def test_nth_event_is_delivered_after_others() -> None:
    pods = [PodAdded(make_pod(name)) for name in "abcde"]
    _simulator, seen = run(*pods, faults=(EventReordered(2, by=2),))
    assert [event.pod.name for _now, event in seen.of(PodAdded)] == ["a", "c", "d", "b", "e"]


def test_reordered_event_is_delivered_when_no_other_event_follows() -> None:
    pods = [PodAdded(make_pod(name)) for name in "abc"]
    plan = (EventReordered(2, by=9), EventReordered(3, by=9))
    simulator, seen = run(*pods, faults=plan)
    assert [event.pod.name for _now, event in seen.of(PodAdded)] == ["a", "b", "c"]
    assert len(seen.of(Bind)) == 0
    assert simulator.is_quiescent


def test_reordered_event_is_delivered_while_the_scheduler_retries() -> None:
    pod = make_pod("p", cpu=1)
    plan = (BindFails(1), EventReordered(3, by=1))
    simulator, seen = run(node_of(), PodAdded(pod), (0.5, PodDeleted(pod.uid)), faults=plan)
    assert told(seen, PodDeleted) == [0.5]
    assert simulator.is_quiescent


def test_event_that_is_dropped_is_shown_by_the_next_listing() -> None:
    simulator, seen = run(node_of(), *gang("g"), faults=(EventDropped(1, 12.0),))
    assert told(seen, NodeAdded) == []
    assert {now for now, _effect in seen.of(Bind)} == {12.0}
    assert simulator.injected_faults == ((0.0, EventDropped(1, 12.0)),)


def test_answers_to_binds_are_not_counted_as_events() -> None:
    pod = evolve(make_pod("p", cpu=1), annotations={RUN_SECONDS: "3"})
    _simulator, seen = run(node_of(), PodAdded(pod), faults=(EventDelayed(3, 10.0),))
    assert told(seen, Bound) == [0.0]
    assert told(seen, PodUpdated) == [13.0], "the third event is that the pod has finished"


def test_dropped_group_and_a_dropped_deletion_are_listed() -> None:
    group = PodGroup(name="g", min_available=2)
    simulator, _seen = run(
        node_of(),
        PodGroupAdded(group),
        *(PodAdded(make_pod(f"p{n}", group="g", cpu=1)) for n in range(2)),
        (3.0, NodeDeleted(NodeName("n0"))),
        faults=(EventDropped(2, 1.0), EventDropped(5, 9.0), EventDropped(6, 9.0)),
    )
    assert simulator.scheduler.registry.get(group.key) is not None
    assert list(simulator.cluster.pods()) == []
    assert simulator.now >= 12.0


# Restarts, clocks -----------------------------------------------------------------------------


@pytest.mark.parametrize("unit", SchedulingUnit)
@pytest.mark.parametrize("call", range(1, 11))
def test_scheduler_can_be_replaced_before_any_call(call: int, unit: SchedulingUnit) -> None:
    made: list[ClusterState] = []

    def make(cluster: ClusterState) -> Scheduler:
        made.append(cluster)
        return presets.coscheduling(cluster, unit=unit)

    simulator, seen = run(node_of(), *gang("g", 3), faults=(SchedulerRestarts(call),), make=make)
    assert len(made) == 2
    assert simulator.injected_faults == ((0.0, SchedulerRestarts(call)),)
    assert len(list(simulator.cluster.pods_on(NodeName("n0")))) == 3
    assert len(seen.of(Bound)) + len(seen.of(PodUpdated)) == 3
    assert simulator.jobs.used.amounts() == Resources({"cpu": 3})


def test_unperformed_effects_of_a_replaced_scheduler_are_dropped() -> None:
    # calls: advance, three facts, decisions; the release of both is in the second decision, and
    # the call after it answers the first bind
    simulator, seen = run(node_of(), *gang("g"), faults=(SchedulerRestarts(7),), until=0.5)
    binds = [effect.uid for _now, effect in seen.of(Bind)]
    assert binds == ["default/g-0", "default/g-1", "default/g-1"]
    assert len(seen.of(PodScheduled)) == 1
    assert all(pod.node_name for pod in simulator.cluster.pods())


def test_watch_delivers_a_bind_in_progress_at_a_restart() -> None:
    plan = (BindSlow(1, seconds=5.0), SchedulerRestarts(6))
    _simulator, seen = run(
        node_of(2), PodAdded(make_pod("p", cpu=2)), (9.0, NodeAdded(node("n1", 0))), faults=plan
    )
    assert told(seen, PodUpdated) == [5.0]
    assert len(seen.of(Bind)) == 1
    assert seen.of(Bound) == []


def test_late_events_of_a_replaced_scheduler_are_dropped() -> None:
    plan = (EventDelayed(1, 9.0), EventReordered(2, 9), SchedulerRestarts(3))
    _simulator, seen = run(node_of(), *gang("g"), (20.0, PodAdded(make_pod("p"))), faults=plan)
    assert told(seen, NodeAdded) == []
    assert [event.pod.name for _now, event in seen.of(PodAdded)] == ["g-1", "p"]
    assert len(seen.of(Bound)) == 3


def test_assumed_pods_of_a_replaced_scheduler_hold_nothing() -> None:
    lines: list[str] = []
    first = make_pod("x", cpu=1, priority=5)
    simulator, seen = run(
        node_of(1),
        *gang("g"),
        (2.0, PodAdded(first)),
        faults=(SchedulerRestarts(9),),
        until=3.0,
        log=lines.append,
        make=Recipe("coscheduling"),
    )
    assert [effect.uid for _now, effect in seen.of(PodWaiting)] == ["default/g-0"]
    assert seen.of(PodRejected) == []
    assert [now for now, _fault in simulator.injected_faults] == [2.0]
    again = Simulator.from_log(lines)
    again.run(until=3.0)
    for each in (simulator, again):
        assert each.jobs.idle.amounts() == Resources()
        assert each.jobs.used.amounts() == Resources({"cpu": 1})


def test_after_a_clock_jump_everything_due_happens_at_once() -> None:
    pod = evolve(make_pod("p", cpu=1), annotations={RUN_SECONDS: "3"})
    simulator, seen = run(
        node_of(),
        PodAdded(pod),
        (10.0, PodAdded(make_pod("q", cpu=1))),
        (50.0, PodAdded(make_pod("r", cpu=1))),
        faults=(ClockJumps(1.0, 30.0), ClockJumps(2.0, 1.0)),
        until=100.0,
    )
    assert told(seen, PodUpdated) == [32.0]
    assert told(seen, PodAdded) == [0.0, 32.0, 50.0]
    assert simulator.injected_faults == ((1.0, ClockJumps(1.0, 30.0)), (31.0, ClockJumps(2.0, 1.0)))


def test_clock_jump_past_the_deadline_rejects_waiting_members() -> None:
    _simulator, seen = run(
        node_of(1), *gang("g"), PodAdded(make_pod("x", cpu=1)), faults=(ClockJumps(2.0, 90.0),)
    )
    waits = [effect.deadline for _now, effect in seen.of(PodWaiting)]
    assert all(deadline < 92.0 for deadline in waits)


# Plans ----------------------------------------------------------------------------------------


def test_fault_whose_place_is_never_reached_has_no_effect() -> None:
    plan = (BindFails(99), EventDropped(99), SchedulerRestarts(999), NodeVanishes(1, H))
    simulator, seen = run(node_of(), *gang("g"), faults=plan)
    assert simulator.injected_faults == ()
    assert seen.all == run(node_of(), *gang("g"), faults=())[1].all


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
    assert eval(repr(plan)) == plan


def test_seeds_draw_every_kind_of_fault_within_their_bounds() -> None:
    kinds = {type(fault) for seed in range(40) for fault in FaultPlan.drawn(seed).faults}
    assert len(kinds) == 10
    small = [FaultPlan.drawn(seed, count=3, places=2, seconds=1.0) for seed in range(40)]
    assert {plan.ahead for plan in small} == {False, True}
    for fault in (fault for plan in small for fault in plan.faults):
        for field in fields(type(fault)):
            value = getattr(fault, field.name)
            assert value is None or 0 <= value <= (8 if field.name == "call" else 3)


ONE: Any = 1  # for a type checker these may be what is asked for
REAL: Any = 1.0
BETWEEN: Any = 1.5
TEXT: Any = "x"
REFUSED: list[tuple[Any, str]] = [
    (lambda: BindFails(0), "bind"),
    (lambda: BindFails(True), "bind"),
    (lambda: BindFails(1, GroupKey("")), "group"),
    (lambda: BindAnswerLost(1, None, -1.0), "seconds"),
    (lambda: BindSlow(1, None, float("inf")), "seconds"),
    (lambda: NodeVanishes(-1), "member"),
    (lambda: NodeVanishes(1, None, -1.0), "seconds"),
    (lambda: EventDelayed(REAL), "event"),
    (lambda: EventReordered(1, 0), "by"),
    (lambda: SchedulerRestarts(0), "call"),
    (lambda: ClockJumps(float("nan")), "at"),
    (lambda: FaultPlan(TEXT), "faults"),
    (lambda: FaultPlan((ONE,)), "faults[0]"),
    (lambda: FaultPlan((), ONE), "ahead"),
    (lambda: FaultPlan.drawn(BETWEEN), "seed"),
    (lambda: FaultPlan.drawn(1, count=-1), "count"),
    (lambda: FaultPlan.drawn(1, places=0), "places"),
    (lambda: FaultPlan.drawn(1, seconds=-1.0), "seconds"),
    (lambda: FaultPlan.from_json([]), "plan"),
    (lambda: FaultPlan.from_json({"faults": [{"kind": "Fire"}]}), "faults[0].kind"),
    (lambda: FaultPlan.from_json({"faults": [{"kind": "BindFails"}]}), "faults[0].bind"),
    (
        lambda: FaultPlan.from_json({"faults": [{"kind": "BindFails", "bind": 0}]}),
        "faults[0].bind",
    ),
    (lambda: Simulator(Workload(), presets.gang, faults=ONE), "faults"),
]


@pytest.mark.parametrize(("make", "field"), REFUSED, ids=[f"{n}" for n in range(len(REFUSED))])
def test_malformed_fault_is_refused_by_field(make: Any, field: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        make()
    assert refused.value.field == field


def test_log_of_a_run_says_what_went_wrong_in_it() -> None:
    lines: list[str] = []
    run(node_of(), faults=(BindFails(1),), log=lines.append, seed=3, bind_seconds=2.0)
    about = read_log(lines).header.about
    assert about["seed"] == 3
    assert about["bind_seconds"] == 2.0
    plan = FaultPlan.from_json({"faults": about["faults"], "ahead": about["ahead"]})
    assert plan == FaultPlan((BindFails(1),))
