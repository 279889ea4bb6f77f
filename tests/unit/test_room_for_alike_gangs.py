"""The room that a change of nodes leaves for a class of pods decides about gangs of that class."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import ClusterState, Coscheduling, NodeName, Profile, Scheduler
from gangsched.framework.queueing import requeue
from gangsched.framework.queueing.equivalence import EquivalenceClass
from gangsched.framework.queueing.node_change import UNKNOWN, NodeChange
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.resources import Resources
from support.driver import Driver
from support.faulty_plugin import FaultyPlugin
from support.gangs import gang_driver, members, node


def change_of(driver: Driver, *names: str) -> NodeChange:
    state = driver.scheduler._state
    return NodeChange(state.settings, state.nodes, [NodeName(name) for name in names], 0.0)


def class_of_pod(driver: Driver, name: str) -> Any:
    known: dict[Any, Any] = driver.scheduler._state.pods.members
    return next(member.pod_class for member in known.values() if member.pod.name == name)


def waiting() -> Driver:
    """Return a driver with a gang of 9 pods that needs 18 cpu, and nodes with 1 and 10."""
    driver = gang_driver(node("small", 1), node("large", 10))
    driver.add(*members("g", 9, cpu=2))
    driver.drain()
    return driver


@pytest.mark.parametrize(("name", "room"), [("small", 0), ("large", 5), ("gone", 0)])
def test_room_is_the_headroom_if_a_changed_node_takes_a_pod(name: str, room: int) -> None:
    driver = waiting()

    assert change_of(driver, name).room(class_of_pod(driver, "g-0")) == room


@pytest.mark.parametrize("needed", [1, 5, 6, 9, 10])
@pytest.mark.parametrize("name", ["small", "large", None])
def test_gang_of_one_class_may_fit_as_one_that_is_asked_in_full(
    needed: int, name: str | None
) -> None:
    driver = waiting()
    pod_class = class_of_pod(driver, "g-0")
    alike = EquivalenceClass(needed, ((pod_class, 9),))
    in_parts = EquivalenceClass(needed, ((pod_class, 4), (pod_class, 5)))
    assert alike.alike is not None
    assert in_parts.alike is None

    def answer(asked: EquivalenceClass) -> bool:
        change = None if name is None else change_of(driver, name)
        return requeue.may_fit(driver.scheduler._state, asked, now=0.0, change=change)

    assert answer(alike) == answer(in_parts) == (name != "small" and needed <= 5)


def test_gang_with_fewer_pending_members_than_it_needs_does_not_fit() -> None:
    driver = waiting()
    asked = EquivalenceClass(4, ((class_of_pod(driver, "g-0"), 3),))
    state = driver.scheduler._state
    assert not requeue.may_fit(state, asked, now=0.0)
    assert not requeue.may_fit(state, asked, now=0.0, change=change_of(driver, "large"))


def test_gang_of_one_class_with_a_floor_is_asked_in_full() -> None:
    pod_class = class_of_pod(waiting(), "g-0")

    assert EquivalenceClass(1, ((pod_class, 9),), Resources({"cpu": 1})).alike is None


def test_room_is_unknown_while_a_plugin_raises() -> None:
    faulty = FaultyPlugin("filter", "pod_signature")

    def make(cluster: ClusterState) -> Scheduler:
        return Scheduler(cluster, Profile(faulty, Coscheduling(), NodeResources(), DefaultBinder()))

    driver = Driver(make)
    driver.tell(node("n", 1))
    driver.add(*members("g", 2, cpu=2))
    driver.tell(node("n", 2))  # not judged yet as it is now
    faulty.answers["filter"] = ZeroDivisionError("oops")
    pod_class = class_of_pod(driver, "g-0")
    assert change_of(driver, "n").room(pod_class) == UNKNOWN
    asked, state = EquivalenceClass(2, ((pod_class, 2),)), driver.scheduler._state
    assert requeue.may_fit(state, asked, now=0.0, change=change_of(driver, "n"))
    assert requeue.may_fit(state, asked, now=0.0)


def test_moves_between_judged_classes_of_nodes_need_no_judge() -> None:
    driver = waiting()
    state, pod_class = driver.scheduler._state, class_of_pod(driver, "g-0")
    judgements = pod_class.judgements
    assert judgements.follow(state.nodes.classes)
    driver.tell(node("third", 10))  # like the large one
    assert judgements.follow(state.nodes.classes)
    assert judgements.headroom == 10
    driver.tell(node("fourth", 7))
    judgements.forget()
    assert not judgements.follow(state.nodes.classes)
