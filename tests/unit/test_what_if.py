"""``Scheduler.what_if`` and ``Scheduler.smallest_change``, by example."""

from __future__ import annotations

import math
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    Bound,
    Coscheduling,
    Event,
    Evict,
    GroupKey,
    GroupScheduled,
    InMemoryCluster,
    Insufficient,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    Outcome,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodRejected,
    PodScheduled,
    PodUID,
    PodUnschedulable,
    PodUpdated,
    Preemption,
    Profile,
    Scheduler,
    SchedulingUnit,
    SmallestChange,
    StateKey,
    Success,
    Sufficient,
    Taint,
    Unschedulable,
    WhatIf,
    WhenBindFails,
    presets,
)
from gangsched.errors import ClusterStateError, GangschedError, InvalidValueError, UnknownPodError
from gangsched.events import BindFailed
from gangsched.explain import NoNodeFits, NotEnoughMembers, Running, Why
from gangsched.framework.what_if import simulate, smallest_change
from gangsched.framework.what_if import why as answers
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.protocols import CycleView, NodeView
from gangsched.replay import DecisionLog, Recipe
from gangsched.testing import make_pod
from support.busy import tell
from support.fingerprint import fingerprint
from support.refusals import check_refusal

BIG, SMALL = GroupKey("default/big"), GroupKey("default/small")
ONE = Node(name=NodeName("more"), allocatable={"cpu": 1})


def gangs(*sizes: tuple[str, int, int], room: int = 0) -> tuple[InMemoryCluster, Scheduler]:
    """Return a scheduler with failed gangs of so many pods of 1 CPU, each of a priority.

    Their backoff has ended.
    """
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    for number in range(room):
        node = Node(name=NodeName(f"n{number}"), allocatable={"cpu": 1})
        tell(cluster, scheduler, NodeAdded(node), now=0.0)
    for name, size, priority in sizes:
        for number in range(size):
            pod = make_pod(
                f"{name}-{number}", group=name, min_available=size, cpu=1, priority=priority
            )
            tell(cluster, scheduler, PodAdded(pod), now=0.0)
    while scheduler.schedule_one(now=0.0) is not None:
        pass
    scheduler.advance(now=100.0)
    return cluster, scheduler


def smallest(scheduler: Scheduler, key: Any, **options: Any) -> SmallestChange:
    return scheduler.smallest_change(key, ONE, **options)


# What if -------------------------------------------------------------------------------------


def test_what_if_without_events_runs_the_pending_cycles() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    tell(cluster, scheduler, NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 1})), now=3.0)
    tell(cluster, scheduler, PodAdded(make_pod("p", cpu=1)), now=3.0)
    uid, node = PodUID("default/p"), NodeName("n")
    bind, scheduled = Bind(uid, node, 1), PodScheduled(uid, node)
    told = scheduler.what_if()
    assert told == WhatIf(3.0, ((3.0, bind), (3.0, scheduled)), told.why)
    assert dict(told.why) == {}
    assert scheduler.schedule_one(now=3.0) == (bind,)


def test_what_if_stops_at_until() -> None:
    _cluster, scheduler = gangs(("small", 2, 0), room=1)
    assert scheduler.what_if(now=100.0).effects == ()
    cluster = InMemoryCluster()
    waiting = presets.coscheduling(cluster, permit_timeout=10.0)
    tell(cluster, waiting, NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 1})), now=0.0)
    for number in range(2):
        pod = make_pod(f"w-{number}", group="w", min_available=2, cpu=1)
        tell(cluster, waiting, PodAdded(pod), now=0.0)
    instants = {
        until: sorted({at for at, _effect in waiting.what_if(until=until).timed})
        for until in (None, 9.0, 10.0)
    }
    assert instants == {None: [0.0], 9.0: [0.0], 10.0: [0.0, 10.0]}
    assert [waiting.what_if(until=until).until for until in (None, 9.0)] == [0.0, 9.0]


def test_smallest_change_before_the_first_call_sees_missing_members() -> None:
    cluster = InMemoryCluster()
    cluster.apply(PodAdded(make_pod("w-0", group="small", min_available=3, cpu=1)))
    told = presets.gang(cluster).smallest_change(SMALL, ONE, now=5.0)
    assert told == Insufficient(SMALL, ONE, 0, 5.0, NotEnoughMembers(SMALL, 1, 3))


def test_what_if_before_the_first_call_reads_the_listing() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    cluster.apply(NodeAdded(ONE))
    for number in range(2):
        cluster.apply(PodAdded(make_pod(f"w-{number}", group="w", min_available=2, cpu=1)))
    told = scheduler.what_if(NodeAdded(Node(name=NodeName("o"), allocatable={"cpu": 1})), now=5.0)
    assert told.why["default/w"] == Running(None, 2)
    assert len(scheduler.registry) == 0
    found = scheduler.smallest_change(
        GroupKey("default/w"), Node(name=ONE.name, allocatable={"cpu": 1}), now=5.0
    )
    assert (found, str(found)) == (
        Sufficient(GroupKey("default/w"), Node(name=ONE.name, allocatable={"cpu": 1}), 1, 5.0, 5.0),
        "1 more node of cpu=1 would start pod group default/w now",
    )


def test_what_if_deletes_an_evicted_pod_at_once() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, when_bind_fails=WhenBindFails.RELEASE_GROUP)
    for name in ("n0", "n1"):
        node = Node(name=NodeName(name), allocatable={"cpu": 1})
        tell(cluster, scheduler, NodeAdded(node), now=0.0)
    for number in range(2):
        pod = make_pod(f"w-{number}", group="w", min_available=2, cpu=1)
        tell(cluster, scheduler, PodAdded(pod), now=0.0)
    binds = [e for e in scheduler.schedule_one(now=0.0) or () if isinstance(e, Bind)]
    tell(cluster, scheduler, Bound(binds[0].uid, binds[0].node, binds[0].attempt), now=0.0)
    failed = BindFailed(binds[1].uid, binds[1].attempt, "refused")
    told = scheduler.what_if(failed)
    assert [effect.uid for effect in told.effects if isinstance(effect, Evict)] == [binds[0].uid]
    assert told.why["default/w"] == NotEnoughMembers(GroupKey("default/w"), 1, 2)
    assert cluster.pod(binds[0].uid) is not None


def test_what_if_fails_a_bind_that_the_cluster_does_not_allow() -> None:
    """The cluster shows objects that were not reported yet."""
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    for event in (NodeAdded(ONE), PodAdded(make_pod("p", cpu=1)), PodAdded(make_pod("q", cpu=1))):
        tell(cluster, scheduler, event, now=0.0)
    cluster.apply(NodeDeleted(ONE.name))
    bind, failed, *_others = scheduler.what_if().effects
    assert bind == Bind(PodUID("default/p"), ONE.name, 1)
    assert "binding rejected: the pod or the node is gone" in str(failed)


@pytest.mark.parametrize("change", [{"phase": "Succeeded"}, {"deleted_at": 0.0}])
def test_what_if_fails_a_bind_of_a_finished_or_terminating_pod(change: dict[str, Any]) -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    pod = make_pod("p", cpu=1)
    for event in (NodeAdded(ONE), PodAdded(pod)):
        tell(cluster, scheduler, event, now=0.0)
    cluster.apply(PodUpdated(evolve(pod, **change)))
    bind, failed = scheduler.what_if().effects
    assert bind == Bind(pod.uid, ONE.name, 1)
    assert isinstance(failed, PodRejected | PodUnschedulable)


def test_what_if_fails_a_bind_of_a_pod_bound_elsewhere() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    pod = make_pod("p", cpu=1)
    for event in (NodeAdded(ONE), PodAdded(pod)):
        tell(cluster, scheduler, event, now=0.0)
    other = Node(name=NodeName("other"), allocatable={"cpu": 1})
    cluster.apply(NodeAdded(other))
    cluster.apply(Bound(pod.uid, other.name, 1))
    assert scheduler.what_if().effects == (
        Bind(pod.uid, ONE.name, 1),
        PodRejected(pod.uid, ONE.name, "pod p was bound to other"),
    )


def test_what_if_is_not_recorded_in_a_decision_log() -> None:
    lines: list[str] = []
    cluster = InMemoryCluster()
    recorded = DecisionLog(lines.append, Recipe("gang")).scheduler(cluster)
    recorded.handle(cluster.apply(PodAdded(make_pod("p", cpu=1))), now=0.0)
    cluster.apply(NodeAdded(ONE))
    cluster.apply(PodDeleted(PodUID("default/p")))
    before = list(lines)
    recorded.scheduler.what_if(NodeAdded(ONE))
    recorded.schedule_one(now=0.0)
    assert lines[: len(before)] == before
    assert [line for line in lines if '"call":"shown"' in line.replace(" ", "")] == []


# The smallest change -------------------------------------------------------------------------


def test_smallest_change_returns_the_least_number_of_nodes() -> None:
    cluster, scheduler = gangs(("small", 4, 0), room=1)
    before = fingerprint(cluster, scheduler)
    found = smallest(scheduler, SMALL)
    assert found == Sufficient(SMALL, ONE, 3, 100.0, 100.0)
    assert str(found) == "3 more nodes of cpu=1 would start pod group default/small now"
    assert fingerprint(cluster, scheduler) == before
    more = [NodeAdded(Node(name=NodeName(f"m{n}"), allocatable={"cpu": 1})) for n in range(3)]
    started = [e.group for e in scheduler.what_if(*more).effects if isinstance(e, GroupScheduled)]
    assert started == [SMALL]


def test_smallest_change_is_not_monotone_in_the_number_of_nodes() -> None:
    """Of one node the small gang has the use; of two or three the big one, which goes first."""
    _cluster, scheduler = gangs(("big", 4, 1), ("small", 3, 0), room=2)
    starts = {}
    for number in range(6):
        nodes = [Node(name=NodeName(f"m{n}"), allocatable={"cpu": 1}) for n in range(number)]
        told = scheduler.what_if(*map(NodeAdded, nodes))
        starts[number] = {e.group for e in told.effects if isinstance(e, GroupScheduled)}
    assert starts == {0: set(), 1: {SMALL}, 2: {BIG}, 3: {BIG}, 4: {BIG}, 5: {BIG, SMALL}}
    assert smallest(scheduler, SMALL) == Sufficient(SMALL, ONE, 1, 100.0, 100.0)
    assert smallest(scheduler, BIG) == Sufficient(BIG, ONE, 2, 100.0, 100.0)
    _cluster, scheduler = gangs(("big", 3, 1), ("small", 3, 0), room=2)
    assert smallest(scheduler, SMALL) == Sufficient(SMALL, ONE, 4, 100.0, 100.0, others_started=1)


def test_smallest_change_is_zero_for_a_group_that_starts_anyway() -> None:
    cluster, scheduler = gangs(("small", 2, 0), room=1)
    tell(cluster, scheduler, NodeAdded(ONE), now=100.0)
    found = smallest(scheduler, SMALL)
    assert found == Sufficient(SMALL, ONE, 0, 100.0, 100.0)
    assert str(found) == "pod group default/small starts now as things stand"
    while scheduler.schedule_one(now=100.0) is not None:
        pass
    found = smallest(scheduler, SMALL, most=0)
    assert found == Sufficient(SMALL, ONE, 0, 100.0, None)
    assert str(found) == "pod group default/small has started"


@pytest.mark.parametrize("until", [None, 5.0])
def test_smallest_change_of_a_running_group_before_the_first_call(until: float | None) -> None:
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(ONE))
    pod = make_pod("small-0", group="small", min_available=1, cpu=1)
    cluster.apply(PodAdded(evolve(pod, node_name=ONE.name)))
    scheduler = presets.gang(cluster)
    found = smallest(scheduler, SMALL, now=0.0, until=until)
    assert found == Sufficient(SMALL, ONE, 0, 0.0, None)
    assert str(found) == "pod group default/small has started"
    scheduler.advance(now=0.0)
    assert smallest(scheduler, SMALL, until=until) == found


def test_smallest_change_ends_a_backoff_early_when_no_other_is_active() -> None:
    cluster, scheduler = gangs(("small", 2, 0), room=1)
    tell(
        cluster,
        scheduler,
        PodAdded(make_pod("small-9", group="small", min_available=2, cpu=1)),
        now=100.0,
    )
    while scheduler.schedule_one(now=100.0) is not None:
        pass
    rested = scheduler.registry.get(SMALL)
    assert rested is not None
    assert rested.backoff_until == 102.0
    found = smallest(scheduler, SMALL)
    assert found == Sufficient(SMALL, ONE, 1, 100.0, 100.0)
    assert str(found) == "1 more node of cpu=1 would start pod group default/small now"


def test_smallest_change_reports_that_most_is_too_few() -> None:
    _cluster, scheduler = gangs(("small", 4, 0), room=1)
    found = smallest(scheduler, SMALL, most=2)
    assert isinstance(found, Insufficient)
    assert (found.most, found.until, found.refusal) == (2, 100.0, "")
    assert str(found).startswith(
        "no number of nodes up to 2 of cpu=1 would start pod group default/small by t=100s: "
    )
    # of its last try: two nodes are known to be too few, and it is not tried
    assert "at most 1 of 4 members fit" in str(found)


def test_smallest_change_names_why_a_shape_takes_no_member() -> None:
    _cluster, scheduler = gangs(("small", 2, 0), room=1)
    shapes = {
        "node(s) had untolerated taint(s)": Node(
            name=NodeName("m"), allocatable={"cpu": 9}, taints=(Taint("reserved"),)
        ),
        "Insufficient cpu": Node(name=NodeName("m"), allocatable={"gpu": 9}),
    }
    for reason, shape in shapes.items():
        found = scheduler.smallest_change(SMALL, shape, most=3)
        assert isinstance(found, Insufficient)
        assert found.refusal == reason
        assert f"such a node takes none of its members ({reason}); " in str(found)
        assert isinstance(found.why, NoNodeFits)


def test_smallest_change_names_each_refusal_once() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    for number, resource in enumerate(("gpu", "fpga", "gpu")):
        pod = make_pod(f"s-{number}", group="small", min_available=3, requests={resource: 1})
        tell(cluster, scheduler, PodAdded(pod), now=0.0)
    found = smallest(scheduler, SMALL, most=1)
    assert isinstance(found, Insufficient)
    assert found.refusal == "Insufficient gpu; Insufficient fpga"


def test_smallest_change_evaluates_a_shape_as_an_empty_node() -> None:
    _cluster, scheduler = gangs(("small", 3, 0))
    shape = Node(name=NodeName("m"), allocatable={"cpu": 1, "pods": 1})
    found = scheduler.smallest_change(SMALL, shape, most=1)
    assert isinstance(found, Insufficient)
    assert found.refusal == ""


NOTE: StateKey[str] = StateKey("note")


class Notes:
    """Filters by its earlier scratch, and refuses pods of given names."""

    name = "Notes"

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Outcome:
        state.write(NOTE, pod.name)
        return Unschedulable("not today") if pod.name.endswith("-0") else Success()

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        noted = state.group is not None and state.read(NOTE) == pod.name
        return Success() if noted else Unschedulable("nothing is noted")


def noted(unit: SchedulingUnit, *names: str) -> Insufficient:
    """Return what is said of a gang of more than fits, where filters read what was written."""
    cluster = InMemoryCluster()
    profile = Profile(Coscheduling(), Notes(), NodeResources(), DefaultBinder())
    scheduler = Scheduler(cluster, profile, unit=unit)
    for name in names:
        pod = make_pod(name, group="small", min_available=len(names), cpu=1)
        tell(cluster, scheduler, PodAdded(pod), now=0.0)
    found = smallest(scheduler, SMALL, most=1)
    assert isinstance(found, Insufficient)
    return found


@pytest.mark.parametrize("unit", SchedulingUnit)
def test_refusal_runs_pre_filter_before_filter(
    unit: SchedulingUnit,
) -> None:
    assert noted(unit, "small-1", "small-2").refusal == ""


@pytest.mark.parametrize("unit", SchedulingUnit)
def test_refusal_is_empty_if_pre_filter_refuses_the_pod(
    unit: SchedulingUnit,
) -> None:
    assert noted(unit, "small-0", "small-1").refusal == ""


def test_smallest_change_asks_why_before_the_first_and_after_the_last_trial(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []
    inner = answers.why

    def counted(state: Any, subject: Any, *, now: float) -> Why:
        asked.append(subject)
        return inner(state, subject, now=now)

    monkeypatch.setattr(answers, "why", counted)
    _cluster, scheduler = gangs(("small", 9, 0), room=1)
    assert isinstance(smallest(scheduler, SMALL, most=7), Insufficient)
    assert asked == [SMALL, SMALL]


def test_smallest_change_tries_at_most_64_nodes_by_default() -> None:
    _cluster, scheduler = gangs(("small", 70, 0))
    found = smallest(scheduler, SMALL, now=100.0)
    assert isinstance(found, Insufficient)
    assert found.most == 64


def test_smallest_change_ends_early_for_an_incomplete_group() -> None:
    cluster, scheduler = gangs(room=1)
    tell(cluster, scheduler, PodAdded(make_pod("w", group="small", min_available=3)), now=100.0)
    found = smallest(scheduler, SMALL, most=1_000_000)
    why = NotEnoughMembers(SMALL, 1, 3)
    assert found == Insufficient(SMALL, ONE, 0, 100.0, why)
    assert str(found) == (
        "no number of nodes would start pod group default/small by t=100s:"
        " waiting for 2 more members: 1 of 3 exist"
    )


def losing_a_member() -> tuple[Event, ...]:
    """Return a gang of two, one of which holds the only node, and a pod that is worth more."""
    node = Node(name=NodeName("n"), allocatable={"cpu": 1})
    first, second = (make_pod(f"s-{n}", group="small", min_available=2, cpu=1) for n in range(2))
    return (
        NodeAdded(node),
        PodAdded(evolve(first, node_name=node.name)),
        PodAdded(second),
        PodAdded(make_pod("high", cpu=1, priority=9)),
    )


def test_smallest_change_continues_if_a_member_is_lost_in_the_fork() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, preemption=Preemption())
    for event in losing_a_member():
        tell(cluster, scheduler, event, now=0.0)
    lost = scheduler.what_if()
    assert lost.why[str(SMALL)] == NotEnoughMembers(SMALL, 1, 2)
    found = smallest(scheduler, SMALL, most=2)
    assert found == Sufficient(SMALL, ONE, 2, 0.0, 0.0, others_started=1)


def test_smallest_change_continues_before_the_first_call() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, preemption=Preemption())
    for event in losing_a_member():
        cluster.apply(event)
    assert scheduler.what_if(now=0.0).why[str(SMALL)] == NotEnoughMembers(SMALL, 1, 2)
    found = smallest(scheduler, SMALL, most=2, now=0.0)
    assert found == Sufficient(SMALL, ONE, 2, 0.0, 0.0, others_started=1)


def test_added_nodes_take_the_first_free_names() -> None:
    cluster, scheduler = gangs()
    for number in (2, 4):
        taken = Node(name=NodeName(f"more-{number}"), allocatable={"cpu": 1})
        tell(cluster, scheduler, NodeAdded(taken), now=100.0)
    ahead = simulate.look(scheduler, scheduler._state, 100.0)
    nodes = list(smallest_change._fresh(ahead, ONE, 4))
    assert [node.name for node in nodes] == ["more-0", "more-1", "more-3", "more-5"]
    assert {evolve(node, name=ONE.name) for node in nodes} == {ONE}


def test_added_nodes_never_take_a_name_of_the_cluster() -> None:
    cluster, scheduler = gangs(("small", 3, 0), room=1)
    taken = Node(name=NodeName("more-0"), allocatable={"cpu": 1})
    tell(cluster, scheduler, NodeAdded(taken), now=100.0)
    assert smallest(scheduler, SMALL) == Sufficient(SMALL, ONE, 1, 100.0, 100.0)


def test_smallest_change_takes_a_pod_group() -> None:
    _cluster, scheduler = gangs(("small", 2, 0), room=1)
    group = PodGroup(name="small", min_available=2)
    assert scheduler.smallest_change(group, ONE) == smallest(scheduler, SMALL)


# Refusals ------------------------------------------------------------------------------------

ROWS: list[tuple[Any, type[GangschedError], dict[str, object]]] = [
    (lambda s: s.what_if("x"), InvalidValueError, {"field": "event", "value": "x"}),
    (
        lambda s: s.what_if(now=99.0),
        InvalidValueError,
        {"field": "now", "value": 99.0, "expected": "a number >= 100.0, as in the last call"},
    ),
    (lambda s: s.what_if(now=math.inf), InvalidValueError, {"field": "now"}),
    (lambda s: s.what_if(until=99.0), InvalidValueError, {"field": "until", "value": 99.0}),
    (lambda s: s.what_if(until="x"), InvalidValueError, {"field": "until", "value": "x"}),
    (
        lambda s: s.what_if(Bound(PodUID("x"), NodeName("n"), 1)),
        ClusterStateError,
        {"subject": "x"},
    ),
    (lambda s: smallest(s, 3), InvalidValueError, {"field": "group", "value": 3}),
    (lambda s: smallest(s, "default/x"), UnknownPodError, {"subject": "default/x"}),
    (lambda s: smallest(s, SMALL, most=-1), InvalidValueError, {"field": "most", "value": -1}),
    (lambda s: smallest(s, SMALL, most=True), InvalidValueError, {"field": "most"}),
    (lambda s: smallest(s, SMALL, most=1.0), InvalidValueError, {"field": "most"}),
    (lambda s: smallest(s, SMALL, until=1.0), InvalidValueError, {"field": "until"}),
    (lambda s: s.smallest_change(SMALL, "n"), InvalidValueError, {"field": "shape", "value": "n"}),
]


@pytest.mark.parametrize(("call", "error", "fields"), ROWS)
def test_malformed_question_is_refused_and_changes_nothing(
    call: Any, error: type[GangschedError], fields: dict[str, object]
) -> None:
    cluster, scheduler = gangs(("small", 2, 0), room=1)
    before = fingerprint(cluster, scheduler)
    check_refusal(lambda: call(scheduler), error, fields)
    assert fingerprint(cluster, scheduler) == before


def test_question_before_the_first_call_needs_now() -> None:
    scheduler = presets.gang(InMemoryCluster())
    for ask in (scheduler.what_if, lambda: smallest(scheduler, SMALL)):
        with pytest.raises(InvalidValueError, match="a finite number of seconds"):
            ask()
    assert scheduler.what_if(now=0.0).effects == ()
