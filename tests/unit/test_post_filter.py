"""The order of ``post_filter``: which answer ends the point, and which goes on."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import (
    GroupKey,
    HoldGroup,
    InMemoryCluster,
    NodeAdded,
    PodAdded,
    Profile,
    RejectGroup,
    Scheduler,
    SchedulingUnit,
    Skip,
    Success,
    Unschedulable,
)
from gangsched.coscheduling import Coscheduling
from gangsched.cycle_state import CycleState
from gangsched.framework.runtime import extension_points
from gangsched.plugins import DefaultBinder, NodeResources, PrioritySort
from gangsched.testing import make_node, make_pod

G = GroupKey("default/g")


class After:
    """Notes that it was asked, and gives one answer."""

    def __init__(self, name: str, answer: Any) -> None:
        self.name = name
        self.answer = answer
        self.asked = 0

    def post_filter(self, state: object, pod: object, reason: str, *, now: float) -> Any:
        self.asked += 1
        return self.answer


def ask(*answers: Any) -> tuple[Any, list[int]]:
    """Return what the point answers, and how often each plugin was asked."""
    plugins = [After(f"P{number}", answer) for number, answer in enumerate(answers)]
    scheduler = Scheduler(InMemoryCluster(), Profile(PrioritySort(), *plugins, DefaultBinder()))
    pod = make_pod("p")
    found = extension_points.post_filter(
        scheduler._state.settings, CycleState(None, {}), pod, "full", 0.0
    )
    return found, [plugin.asked for plugin in plugins]


@pytest.mark.parametrize("end", [Success(), RejectGroup(G, "why"), HoldGroup(G, "why")], ids=repr)
def test_success_or_a_verdict_ends_the_point(end: Any) -> None:
    assert ask(Skip(), Unschedulable("no"), end, Success()) == (end, [1, 1, 1, 0])


def test_every_plugin_is_asked_after_skip_and_unschedulable() -> None:
    one, other = Unschedulable("one", resolvable=False), Unschedulable(["two", "three"])
    assert ask(one, Skip(), other) == (Unschedulable(["one", "two", "three"]), [1, 1, 1])
    assert ask(one, Skip()) == (one, [1, 1])
    assert ask(Skip(), Skip()) == (Skip(), [1, 1])
    assert ask() == (Skip(), [])


@pytest.mark.parametrize("unit", SchedulingUnit)
def test_plugin_after_coscheduling_is_asked_and_may_reject_a_group(unit: SchedulingUnit) -> None:
    """Coscheduling answers ``Unschedulable`` while the group can still be completed."""
    after = After("After", Skip())
    profile = Profile(
        Coscheduling(when_blocked="until_timeout"), NodeResources(), after, DefaultBinder()
    )
    cluster = InMemoryCluster()
    scheduler = Scheduler(cluster, profile, unit=unit)
    scheduler.handle(cluster.apply(NodeAdded(make_node("n", cpu=1))), now=0.0)
    for name in ("g-0", "g-1"):
        pod = make_pod(name, group="g", min_available=2, cpu=1)
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    while scheduler.schedule_one(now=0.0) is not None:
        scheduler._check()
    assert after.asked == 1
