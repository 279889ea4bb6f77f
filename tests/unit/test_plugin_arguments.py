"""What plugins are given at each point, how often they are asked, and what their answers make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any

import pytest

from gangsched import (
    ClusterState,
    Coscheduling,
    CycleState,
    NodeName,
    Pod,
    PodNotAdmitted,
    PodUID,
    Profile,
    Resources,
    Scheduler,
    SchedulingUnit,
    Skip,
    StateKey,
    Success,
    Unschedulable,
    Wait,
)
from gangsched.errors import PluginError
from gangsched.framework.runtime import extension_points, filter_and_score
from gangsched.plugins import DefaultBinder, NodeResources, PrioritySort
from gangsched.protocols import NodeView
from gangsched.testing import make_pod
from support.bundles import AB, pods, specs
from support.driver import Driver
from support.faulty_plugin import OOPS, FaultyPlugin
from support.gangs import members, node, where

ANSWERS: dict[str, object] = {
    "pre_enqueue": Success(),
    "pre_filter": Success(),
    "post_filter": Skip(),
    "pre_score": Success(),
    "reserve": Success(),
    "unreserve": None,
    "permit": Success(),
    "pre_bind": Success(),
    "bind": Skip(),
    "post_bind": None,
}
"""A plugin that reads the instant, and returns nothing."""
WITHOUT_CYCLE = ("pre_enqueue", "bind", "post_bind")
AT_A_NODE = ("reserve", "unreserve", "permit", "pre_bind", "bind", "post_bind")
SIGNED = ("filter", "pod_signature", "node_signature")

Make = Callable[[ClusterState], Scheduler]


def making(*plugins: object, unit: SchedulingUnit = SchedulingUnit.POD) -> Make:
    """Return what makes a scheduler with plugins before the usual ones."""

    def make(cluster: ClusterState) -> Scheduler:
        usual = (Coscheduling(), NodeResources(), DefaultBinder())
        return Scheduler(cluster, Profile(*plugins, *usual), unit=unit)

    return make


def sound(*points: str, name: str = "FaultyPlugin") -> FaultyPlugin:
    """Return a plugin that reads nothing of nodes."""
    faulty = FaultyPlugin(*points)
    faulty.name = name
    faulty.answers["node_signature"] = lambda _view: None
    return faulty


# At each point --------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", SchedulingUnit)
def test_every_point_is_given_the_instant_of_the_call_its_pod_cycle_and_node(
    unit: SchedulingUnit,
) -> None:
    """Also where groups are rejected, not admitted and start together."""
    faulty, asked = FaultyPlugin(*ANSWERS), Counter[str]()
    driver = Driver(making(faulty, unit=unit))

    def answer(point: str, *args: Any, now: float, **_kwargs: Any) -> object:
        asked[point] += 1
        cycle, given = ((), args) if point in WITHOUT_CYCLE else (args[:1], args[1:])
        assert now == driver.now
        assert all(isinstance(each, CycleState) for each in cycle)
        assert isinstance(given[0], Pod)
        assert point not in AT_A_NODE or isinstance(given[1], str)
        return ANSWERS[point]

    faulty.answers = {point: partial(answer, point) for point in ANSWERS}
    driver.advance(1.0)
    driver.tell(node("n", 4))
    driver.add(*members("starts", 2, cpu=2))
    driver.drain()
    assert len(where(driver)) == 2
    driver.advance(2.0)
    driver.add(*members("fails", 2, cpu=2), *members("starts", 1, 2, prefix="late-", cpu=2))
    driver.settle()
    driver.advance(100.0)
    driver.tell(node("m", 4))
    driver.add(*members("falls", 3, cpu=4, priority=1), *members("fails", 1, prefix="x", cpu=9))
    driver.drain()
    driver.advance(101.0)
    driver.delete("default/falls-0", "default/falls-1")
    driver.settle()
    driver.advance(200.0)
    driver.tell(*specs(*AB))
    driver.add(*(pod for group in AB for pod in pods(group, cpu=0)))
    driver.settle()
    driver.advance(300.0)
    faulty.answers["permit"] = Wait(5.0)
    driver.add(make_pod("waits"))
    driver.drain()
    driver.advance(305.0)
    assert set(asked) == set(ANSWERS)


@pytest.mark.parametrize("unit", SchedulingUnit)
def test_scratch_written_in_pre_filter_is_read_in_pre_score(
    unit: SchedulingUnit,
) -> None:
    key: StateKey[str] = StateKey("seen")
    faulty, read = FaultyPlugin("pre_filter", "pre_score"), list[str | None]()

    def write(cycle: CycleState, pod: Pod, *, now: float) -> Success:
        cycle.write(key, pod.name)
        return Success()

    def note(cycle: CycleState, _pod: Pod, _nodes: object, *, now: float) -> Success:
        read.append(cycle.read(key))
        return Success()

    faulty.answers = {"pre_filter": write, "pre_score": note}
    driver = Driver(making(faulty, unit=unit))
    driver.tell(node("n", 4))
    driver.add(*members("g", 1, cpu=1))
    driver.step()
    assert where(driver) == {"g-0": "n"}
    assert set(read) == {"g-0"}


def test_filter_that_is_asked_for_a_class_sees_the_nodes_and_no_group() -> None:
    faulty, seen = sound(*SIGNED), list[tuple[object, list[NodeName]]]()

    def look(cycle: CycleState, pod: Pod, _view: NodeView) -> Success:
        assert pod.name == "g-0"
        seen.append((cycle.group, list(cycle.nodes)))
        return Success()

    faulty.answers["filter"] = look
    driver = Driver(making(faulty))
    driver.tell(node("n", 4), node("m", 4))
    driver.add(*members("g", 1, cpu=1))
    assert seen == [(None, ["n", "m"])]


def test_error_of_a_filter_on_arrival_is_raised_in_the_cycle_of_the_pod() -> None:
    faulty = sound(*SIGNED)
    faulty.answers["filter"] = OOPS
    driver = Driver(making(faulty), checked=False)
    driver.tell(node("n", 4))
    driver.add(make_pod("p"))
    with pytest.raises(PluginError) as caught:
        driver.step()
    says = "plugin 'FaultyPlugin' at filter for default/p: raised ZeroDivisionError('oops')"
    assert str(caught.value) == says


def test_headroom_that_raises_is_reported_with_its_pod() -> None:
    faulty = sound("filter", "pod_signature", "headroom")
    faulty.answers["headroom"] = OOPS
    driver = Driver(making(faulty), checked=False)
    driver.tell(node("n", 4))
    driver.add(make_pod("p"))
    with pytest.raises(PluginError) as caught:
        driver.step()
    says = "plugin 'FaultyPlugin' at headroom for default/p: raised ZeroDivisionError('oops')"
    assert str(caught.value) == says


# How often ------------------------------------------------------------------------------------


def counting(faulty: FaultyPlugin, point: str, answer: object) -> Counter[str]:
    """Let a plugin count for which nodes it is asked at a point."""
    asked = Counter[str]()

    def ask(_cycle: object, _pod: object, view: NodeView) -> object:
        asked[str(view.node.name)] += 1
        return answer

    faulty.answers[point] = ask
    return asked


@pytest.mark.parametrize(("point", "answer"), [("filter", Success()), ("score", 1)])
def test_plugin_that_reads_nothing_of_nodes_is_asked_once_for_all(
    point: str, answer: object
) -> None:
    faulty = sound(point, "pod_signature", "node_signature")
    asked = counting(faulty, point, answer)
    driver = Driver(making(faulty), checked=False)
    driver.tell(*(node(f"n{cpu}", cpu) for cpu in (2, 3, 4)))
    driver.add(make_pod("p", cpu=1), make_pod("like", cpu=1))
    driver.drain()
    assert len(where(driver)) == 2
    assert asked == {"n2": 1}


def test_reader_of_a_label_is_asked_once_per_value() -> None:
    faulty = sound(*SIGNED, "labels_read")
    faulty.answers["labels_read"] = ["zone"]
    blind = sound(*SIGNED, name="Blind")
    asked, of_blind = (counting(each, "filter", Success()) for each in (faulty, blind))
    driver = Driver(making(faulty, blind), checked=False)
    driver.tell(*(node(f"{zone}{cpu}", cpu, zone=zone) for cpu in (2, 3) for zone in "ab"))
    driver.add(make_pod("p", cpu=1))
    assert asked == {"a2": 1, "b2": 1}
    assert of_blind == {"a2": 1}


def test_answers_of_one_plugin_are_not_used_for_another() -> None:
    content, strict = (sound(*SIGNED, name=name) for name in ("Content", "Strict"))
    strict.answers["filter"] = Unschedulable("full")
    driver = Driver(making(content, strict))
    driver.tell(node("n", 4))
    driver.add(make_pod("p", cpu=1))
    driver.step()
    assert where(driver) == {}
    content.answers["filter"] = Unschedulable("not that one")
    assert "1 full" in str(driver.scheduler.why(PodUID("default/p")))


# What their answers make ----------------------------------------------------------------------


def test_scores_of_all_plugins_are_added() -> None:
    one, other = (sound("score", "pod_signature", name=name) for name in ("One", "Other"))

    def likes(best: str, much: int) -> Callable[..., int]:
        return lambda _cycle, _pod, view: much * (view.node.name == best)

    one.answers["score"], other.answers["score"] = likes("a", 5), likes("b", 3)
    driver = Driver(making(one, other))
    driver.tell(node("b", 1), node("a", 1))
    driver.add(make_pod("p"))
    driver.step()
    assert where(driver) == {"p": "a"}


def test_pod_refused_by_a_filter_is_reported_for_each_node() -> None:
    """However many pods they would fit."""
    faulty = sound(*SIGNED)
    faulty.answers["filter"] = Unschedulable("not here")
    driver = Driver(making(faulty))
    driver.tell(node("n", 4), node("m", 4))
    driver.add(make_pod("p"))
    driver.step()
    state = driver.scheduler._state
    (pod_class,) = state.pod_classes.by_signature.values()
    assert str(pod_class.judgements.diagnosis()) == "0/2 nodes are available: 2 not here."
    assert pod_class.judgements.headroom == 0
    member = state.pods.members[PodUID("default/p")]
    (given,) = state.nodes.classes.occupied()
    judge = filter_and_score._Judge(
        state.settings, state.nodes, CycleState(None, {}), pod_class, member.pod, 0.0
    )
    assert judge.screen(given) == (0, ("not here",))


def test_entity_without_a_rank_sorts_behind_all_others_by_arrival() -> None:
    faulty = FaultyPlugin("queue_sort")
    profile = Profile(faulty, NodeResources(), DefaultBinder())
    driver = Driver(lambda cluster: Scheduler(cluster, profile))
    driver.add(make_pod("p", created_at=7.0))
    state = driver.scheduler._state
    entity = state.pods.members[PodUID("default/p")].entity
    faulty.answers["queue_sort"] = OOPS
    assert extension_points.queue_sort(state.settings, state.call, entity) == (
        inf,
        inf,
        7.0,
        entity.seq,
    )
    assert [str(error) for error in state.call.deferred] == [
        "plugin 'FaultyPlugin' at queue_sort for default/p: raised ZeroDivisionError('oops')"
    ]
    state.call.deferred.clear()


def test_pod_that_is_held_because_a_plugin_raised_says_so() -> None:
    faulty = FaultyPlugin("pre_enqueue")
    driver = Driver(making(faulty))
    faulty.answers["pre_enqueue"] = OOPS
    with pytest.raises(PluginError) as caught:
        driver.add(make_pod("p"))
    (held,) = driver.scheduler.advance(now=0.0)
    assert isinstance(held, PodNotAdmitted)
    says = "plugin 'FaultyPlugin' at pre_enqueue for default/p: raised ZeroDivisionError('oops')"
    assert held.reason == str(caught.value) == says


def test_error_of_one_unreserve_does_not_stop_the_others() -> None:
    """The last one that took something is the first to give it back."""
    first, last = (
        FaultyPlugin("reserve", "unreserve", "permit"),
        FaultyPlugin("reserve", "unreserve"),
    )
    last.name, given_back = "Last", list[str]()

    def give_back(_cycle: object, pod: Pod, _node: object, *, cause: str, now: float) -> None:
        given_back.append(f"{pod.name} {cause}")

    first.answers = {"permit": Wait(5.0), "unreserve": give_back}
    driver = Driver(making(first, last))
    driver.tell(node("n", 1))
    driver.add(make_pod("p"))
    driver.step()
    last.answers["unreserve"] = OOPS
    with pytest.raises(PluginError) as caught:
        driver.delete("default/p")
    assert caught.value.plugin == "Last"
    assert given_back == ["p deleted"]


def test_needs_of_several_plugins_are_added() -> None:
    one, other = (FaultyPlugin("permit", "group_requests") for _number in range(2))
    other.name = "Other"
    one.answers["group_requests"] = Resources({"cpu": 2, "memory": 5})
    other.answers["group_requests"] = Resources({"cpu": 1})
    for plugins in ((one, other), (other, one)):
        driver = Driver(making(*plugins))
        driver.add(*members("g", 1, cpu=1))
        (info,) = driver.scheduler.registry
        total = extension_points.group_requests(
            driver.scheduler._state.settings, driver.scheduler._state.call, info
        )
        assert total == Resources({"cpu": 3, "memory": 5})


def test_group_of_which_no_plugin_says_what_it_needs_in_all_needs_nothing() -> None:
    profile = Profile(PrioritySort(), NodeResources(), DefaultBinder())
    driver = Driver(lambda cluster: Scheduler(cluster, profile))
    driver.add(*members("g", 1, cpu=1))
    (info,) = driver.scheduler.registry
    assert extension_points.group_requests(
        driver.scheduler._state.settings, driver.scheduler._state.call, info
    ) == Resources({})
