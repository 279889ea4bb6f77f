"""A change of nodes: each class of pods is asked once, whatever number of gangs has such pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gangsched import ClusterState, Coscheduling, NodeName, Profile, Scheduler
from gangsched.framework.queueing.node_change import NodeChange
from gangsched.framework.runtime import filter_and_score
from gangsched.plugins import DefaultBinder, NodeResources
from support.driver import Driver
from support.faulty_plugin import FaultyPlugin
from support.gangs import gang_driver, members, node


def change_of(driver: Driver, *names: str) -> NodeChange:
    state = driver.scheduler._state
    return NodeChange(state.settings, state.nodes, [NodeName(name) for name in names], 0.0)


def pod_class(driver: Driver, name: str) -> Any:
    known: dict[Any, Any] = driver.scheduler._state.pods.members
    return next(member.pod_class for member in known.values() if member.pod.name == name)


def make_with(faulty: FaultyPlugin) -> Callable[[ClusterState], Scheduler]:
    def make(cluster: ClusterState) -> Scheduler:
        return Scheduler(cluster, Profile(faulty, Coscheduling(), NodeResources(), DefaultBinder()))

    return make


def waiting() -> Driver:
    """Return a driver with gangs of 2 to 5 equal pods that find no node."""
    driver = gang_driver(node("small", 1))
    for size in range(2, 6):
        driver.add(*members(f"g{size}", size, cpu=2))
    driver.drain()
    return driver


def test_nodes_are_judged_once_for_gangs_of_different_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = waiting()
    assert len(driver.scheduler.queue.blocked_queues()) == 4
    judged: list[object] = []
    before = filter_and_score.judged

    def counted(settings: Any, nodes: Any, asked: Any, now: float) -> Any:
        judged.append(asked)
        return before(settings, nodes, asked, now)

    monkeypatch.setattr(filter_and_score, "judged", counted)
    driver.tell(node("large", 10))
    assert len(judged) == 1


@pytest.mark.parametrize(
    ("name", "has_room", "takes"),
    [("small", False, False), ("large", True, True), ("gone", False, False)],
)
def test_node_has_room_for_a_pod_that_it_can_take(name: str, has_room: bool, takes: bool) -> None:
    driver = waiting()
    driver.tell(node("large", 10))
    driver.add(*members("h", 9, cpu=2))
    found, asked = change_of(driver, name), pod_class(driver, "h-0")
    assert found.has_room(asked) is has_room
    assert found.is_judged(asked)
    assert found.takes(asked) is takes


def test_one_of_several_changed_nodes_is_enough() -> None:
    driver = waiting()
    driver.tell(node("large", 10))
    driver.add(*members("h", 9, cpu=2))
    found, asked = change_of(driver, "small", "large"), pod_class(driver, "h-0")
    assert found.has_room(asked)
    assert found.is_judged(asked)
    assert found.takes(asked)


def test_class_is_not_judged_while_a_plugin_raises() -> None:
    faulty = FaultyPlugin("filter", "pod_signature")
    driver = Driver(make_with(faulty))
    driver.tell(node("n", 1))
    driver.add(*members("g", 2, cpu=2))
    driver.tell(node("n", 2))  # not judged yet as it is now
    faulty.answers["filter"] = ZeroDivisionError("oops")
    assert not change_of(driver, "n").is_judged(pod_class(driver, "g-0"))
    del faulty.answers["filter"]
    assert change_of(driver, "n").is_judged(pod_class(driver, "g-0"))
