"""Recording and replay: whatever a cluster shows, and whenever, the run can be made again."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    Bound,
    ClusterState,
    ClusterStateError,
    Coscheduling,
    Event,
    InMemoryCluster,
    InvalidValueError,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodUID,
    PodUpdated,
    Profile,
    Scheduler,
    Unschedulable,
    presets,
)
from gangsched.plugins import DefaultBinder
from gangsched.replay import (
    Call,
    DecisionLog,
    Recipe,
    Replay,
    read_log,
    replay,
)
from gangsched.replay.recorded_reads import RecordedClusterState, apply_if_possible
from gangsched.testing import make_pod
from support.examples import one_in
from support.values import events

NODE = Node(name=NodeName("n0"), allocatable={"cpu": 2})
A, B = (make_pod(name, group="g", min_available=2, cpu=1) for name in "ab")


class Host:
    """A cluster, a recorded scheduler over it, and the log that it writes."""

    def __init__(self, make: Callable[[ClusterState], Scheduler] | None = None) -> None:
        self.cluster = InMemoryCluster()
        self.lines: list[str] = []
        self.log = DecisionLog(self.lines.append, make or Recipe("coscheduling"))
        self.scheduler = self.log.scheduler(self.cluster)

    def tell(self, *events: Event, now: float = 0.0) -> None:
        for event in events:
            self.scheduler.handle(self.cluster.apply(event), now=now)

    def drain(self, now: float = 0.0) -> list[Bind]:
        binds: list[Bind] = []
        while (effects := self.scheduler.schedule_one(now=now)) is not None:
            binds += [effect for effect in effects if isinstance(effect, Bind)]
        for bind in binds:
            self.tell(Bound(bind.uid, bind.node, bind.attempt), now=now)
        return binds

    def calls(self) -> list[Call]:
        return list(read_log(self.lines))


# What is written ------------------------------------------------------------------------------


def test_events_that_match_the_cluster_are_written_once() -> None:
    host = Host()
    host.tell(NodeAdded(NODE), PodAdded(A), PodAdded(B))
    assert len(host.drain()) == 2
    assert all(not call.shown for call in host.calls())
    assert replay(host.lines) is None


def test_log_that_begins_in_the_middle_begins_with_a_listing() -> None:
    host = Host()
    group = PodGroup(name="g", min_available=2)
    there = (NodeAdded(NODE), PodGroupAdded(group), PodAdded(A), PodAdded(B))
    for event in there:
        host.cluster.apply(event)
    host.scheduler.advance(now=7.0)
    assert len(host.drain(7.0)) == 2
    first, *_others = host.calls()
    assert (first.call, set(first.shown)) == ("advance", set(there))
    assert replay(host.lines) is None


def test_object_shown_before_its_event_is_in_the_log() -> None:
    host = Host()
    host.tell(NodeAdded(NODE), PodAdded(A))
    # a pod of another scheduler is on the node, without an event
    seized = evolve(make_pod("x", cpu=2), node_name=NODE.name)
    host.cluster.apply(PodAdded(seized))
    host.tell(NodeAdded(evolve(NODE, labels={"a": "b"})))
    host.tell(PodAdded(B))
    assert host.drain() == []
    assert (PodAdded(seized),) in [call.shown for call in host.calls()]
    assert replay(host.lines) is None


def test_outdated_event_does_not_outdate_the_log() -> None:
    host = Host()
    bound = evolve(A, node_name=NODE.name)
    host.tell(NodeAdded(NODE), PodAdded(A), PodUpdated(bound))
    host.scheduler.handle(PodAdded(A), now=0.0)
    host.scheduler.handle(PodDeleted(A.uid), now=0.0)
    host.scheduler.handle(NodeDeleted(NODE.name), now=0.0)
    again = host.calls()[3:]
    assert [call.shown for call in again] == [
        (PodAdded(bound),),
        (PodAdded(bound),),
        (NodeAdded(NODE),),
    ]
    assert replay(host.lines) is None


def test_event_that_the_cluster_never_showed_is_undone_in_the_log() -> None:
    host = Host()
    group = PodGroup(name="g", min_available=2)
    for event in (PodGroupAdded(group), PodGroupUpdated(group), Bound(PodUID("u"), NODE.name, 1)):
        with suppress(ClusterStateError):
            host.scheduler.handle(event, now=0.0)
    host.scheduler.handle(PodGroupDeleted(group.key), now=0.0)
    assert host.calls()[0].shown == (PodGroupDeleted(group.key),)
    assert replay(host.lines) is None


def test_order_of_pods_on_a_node_is_recorded() -> None:
    host = Host()
    one, two = (evolve(make_pod(name, cpu=1), node_name=NODE.name) for name in ("one", "two"))
    host.tell(NodeAdded(NODE), PodAdded(one), PodAdded(two))
    host.cluster.apply(PodUpdated(evolve(one, node_name=None)))
    host.cluster.apply(PodUpdated(one))
    host.tell(NodeAdded(NODE))
    host.tell(PodAdded(make_pod("three", cpu=1)))
    host.drain()
    running = Replay(read_log(host.lines))
    for call in read_log(host.lines):
        running.show(call)
        running.perform(call)
    assert running.divergence is None
    assert list(host.cluster.pods_on(NODE.name)) == [two, one]
    assert list(running.cluster.pods_on(NODE.name)) == [two, one]


def test_reads_between_two_calls_have_their_own_line() -> None:
    readers: list[ClusterState] = []

    def make(cluster: ClusterState) -> Scheduler:
        readers.append(cluster)
        return presets.coscheduling(cluster)

    host = Host(make)
    host.tell(NodeAdded(NODE))
    host.cluster.apply(PodAdded(A))
    assert list(readers[0].pods()) == [A]
    host.cluster.apply(PodUpdated(evolve(A, priority=3)))
    host.tell(PodAdded(evolve(A, priority=5)))
    assert [(call.call, call.shown) for call in host.calls()] == [
        ("handle", ()),
        ("shown", (PodAdded(A),)),
        ("handle", ()),
    ]
    assert replay(host.lines, presets.coscheduling) is None


def test_new_scheduler_is_a_restart_and_takes_over_from_a_listing() -> None:
    host = Host()
    host.tell(NodeAdded(NODE), PodAdded(A), PodAdded(B))
    host.scheduler.schedule_one(now=0.0)
    host.cluster.apply(PodUpdated(evolve(A, node_name=NODE.name)))
    host.scheduler = host.log.scheduler(host.cluster)
    assert [bind.uid for bind in host.drain(1.0)] == [B.uid]
    assert "restart" in [call.call for call in host.calls()]
    assert replay(host.lines) is None


@one_in(2)
@given(st.lists(st.tuples(events, st.booleans()), max_size=12))
def test_recorded_reads_reproduce_what_was_read_after_any_events(
    told: list[tuple[Event, bool]],
) -> None:
    cluster, known = InMemoryCluster(), InMemoryCluster()
    shown = RecordedClusterState(cluster, known)
    retold = InMemoryCluster()
    for event, shown_too in told:
        if shown_too:
            with suppress(ClusterStateError):
                cluster.apply(event)
        for each in (known, retold):
            apply_if_possible(each, event)
    pods, nodes, groups = list(shown.pods()), list(shown.nodes()), list(shown.pod_groups())
    assert (pods, nodes, groups) == (
        list(cluster.pods()),
        list(cluster.nodes()),
        list(cluster.pod_groups()),
    )
    for event in shown.take():
        apply_if_possible(retold, event)
    for each in (known, retold):
        assert list(each.pods()) == pods
        assert list(each.nodes()) == nodes
        assert list(each.pod_groups()) == groups
    assert shown.take() == ()


def test_pod_that_left_a_node_is_recorded_when_the_node_is_read() -> None:
    cluster, known = InMemoryCluster(), InMemoryCluster()
    bound = evolve(A, node_name=NODE.name)
    known.apply(PodAdded(bound))
    cluster.apply(PodAdded(evolve(bound, phase="Succeeded")))
    shown = RecordedClusterState(cluster, known)
    assert list(shown.pods_on(NODE.name)) == list(known.pods_on(NODE.name)) == []
    assert list(known.pods()) == list(cluster.pods())


# What is refused or raised --------------------------------------------------------------------


def test_malformed_events_and_instants_are_refused_and_not_written() -> None:
    host = Host()
    wrong: Any
    for wrong in ("PodAdded", None):
        with pytest.raises(InvalidValueError, match="event"):
            host.scheduler.handle(wrong, now=0.0)
    for wrong in (float("nan"), None):
        with pytest.raises(InvalidValueError, match="now"):
            host.scheduler.handle(PodAdded(A), now=wrong)
        with pytest.raises(InvalidValueError, match="now"):
            host.scheduler.advance(now=wrong)
    assert host.calls() == []
    host.tell(PodAdded(A))
    assert replay(host.lines) is None


class Moody:
    """A plugin that raises at its second pod."""

    name = "Moody"

    def __init__(self, seen: int = 0) -> None:
        self.seen = seen

    def pre_filter(self, state: object, pod: Pod, *, now: float) -> Unschedulable:
        self.seen += 1
        if self.seen == 2:
            raise ZeroDivisionError("mood")
        return Unschedulable("no")


def moody(cluster: ClusterState, seen: int = 0) -> Scheduler:
    return Scheduler(cluster, Profile(Coscheduling(), Moody(seen), DefaultBinder()))


def test_call_that_raised_raises_again() -> None:
    host = Host(moody)
    host.tell(NodeAdded(NODE), PodAdded(make_pod("p")), PodAdded(make_pod("q")))
    host.scheduler.schedule_one(now=0.0)
    with pytest.raises(Exception, match="mood"):
        host.scheduler.schedule_one(now=0.0)
    raised = host.calls()[-1].raised
    assert raised is not None
    assert raised.startswith("PluginError: plugin 'Moody' at pre_filter")
    assert replay(host.lines, moody) is None
    other = replay([line.replace("mood", "whim") for line in host.lines], moody)
    assert other is not None
    assert (other.call.line, other.found) == (6, None)
    assert "whim" in str(other).splitlines()[1]
    assert "mood" in str(other).splitlines()[2]
    found = replay(host.lines, presets.pod_by_pod)
    assert found is not None
    assert "log:  PodUnschedulable" in str(found)


def test_call_that_returned_and_raises_now_is_a_divergence() -> None:
    host = Host(presets.pod_by_pod)
    host.tell(NodeAdded(NODE), PodAdded(make_pod("p")), PodAdded(make_pod("q")))
    host.scheduler.schedule_one(now=0.0)
    host.scheduler.schedule_one(now=0.0)
    found = replay(host.lines, partial(moody, seen=1))
    assert found is not None
    assert (found.call.line, found.found) == (5, None)
    assert "now:  raised PluginError" in str(found)


# What replay says -----------------------------------------------------------------------------


def a_run() -> list[str]:
    host = Host()
    host.tell(NodeAdded(NODE), PodAdded(A), PodAdded(B), now=1.0)
    host.drain(2.0)
    return host.lines


def test_divergence_has_line_call_and_both_effects() -> None:
    lines = a_run()
    number = next(n for n, line in enumerate(lines) if '"Release"' in line)
    lines[number] = lines[number].replace(
        '"uid":"default/b","node":"n0"', '"uid":"default/b","node":"n1"'
    )
    found = replay(lines)
    assert found is not None
    assert found.call.line == number + 1
    assert str(found) == (
        f"line {number + 1}: schedule_one at t=2: differs from the log at effect 4\n"
        "  log:  Bind(uid='default/b', node='n1', attempt=1)\n"
        "  now:  Bind(uid='default/b', node='n0', attempt=1)"
    )


def test_divergence_names_the_first_missing_effect() -> None:
    lines = a_run()
    number = next(n for n, line in enumerate(lines) if '"GroupIncomplete"' in line)
    fewer, _effects, _end = lines[number].partition('"effects"')
    lines[number] = fewer + '"effects":[]}\n'
    found = replay(lines)
    assert found is not None
    assert "line 3: handle PodAdded at t=1: differs from the log at effect 1" in str(found)
    assert "log:  no more\n  now:  GroupIncomplete" in str(found)


def test_decision_instead_of_none_is_a_divergence() -> None:
    lines = a_run()
    assert lines[-1] != lines[-3]
    lines.insert(1, '{"call":"schedule_one","now":0,"effects":[]}\n')
    found = replay(lines)
    assert found is not None
    assert found.call.line == 2
    assert "now:  no pod to schedule" in str(found)


def test_log_without_a_recipe_needs_one_to_be_replayed() -> None:
    host = Host(presets.pod_by_pod)
    host.tell(NodeAdded(NODE))
    with pytest.raises(InvalidValueError, match="make"):
        replay(host.lines)
    assert replay(host.lines, presets.pod_by_pod) is None


def test_log_is_written_as_the_run_goes_on() -> None:
    file = io.StringIO()
    cluster = InMemoryCluster()
    scheduler = DecisionLog(file.write, Recipe("gang"), about={"host": "x"}).scheduler(cluster)
    before = file.getvalue()
    assert before.count("\n") == 1
    scheduler.handle(cluster.apply(NodeAdded(NODE)), now=0.0)
    assert file.getvalue().count("\n") == 2
    assert read_log(io.StringIO(file.getvalue())).header.about == {"host": "x"}
