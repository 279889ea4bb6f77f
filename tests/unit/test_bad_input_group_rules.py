"""A plugin that breaks its contract on a whole group: its need of members and of resources.

The scheduler cannot stop there. It continues by the default rule, as if the plugin were absent. The
test compares fingerprints with a scheduler whose plugin states the default.
"""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import (
    Bind,
    Effect,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    PluginError,
    PodAdded,
    Profile,
    Resources,
    Scheduler,
)
from gangsched._core._quorum import MatchPolicy, members_needed
from gangsched.coscheduling import Coscheduling
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.protocols import GroupView
from gangsched.testing import make_pod
from support.busy import NOW, tell
from support.faulty_plugin import FaultyPlugin
from support.fingerprint import fingerprint

OOPS = ZeroDivisionError("oops")


def by_the_usual_rule(group: GroupView) -> int | None:
    return members_needed(group, MatchPolicy.ONCE_SATISFIED)


SOUND: dict[str, Any] = {
    "members_needed": by_the_usual_rule,
    "group_requests": lambda _group: Resources(),
}
BROKEN: dict[str, list[Any]] = {
    "members_needed": [OOPS, "many", 1.5, float("nan"), [2]],
    "group_requests": [OOPS, None, 5, "cpu", {"cpu": 1}],
}
POINTS = pytest.mark.parametrize(
    ("point", "answer"),
    [
        pytest.param(point, answer, id=f"{point}-{n}")
        for point, answers in BROKEN.items()
        for n, answer in enumerate(answers)
    ],
)


def host(point: str, answer: Any) -> tuple[InMemoryCluster, Scheduler, FaultyPlugin]:
    """Return a scheduler with a gang that fits nowhere, after it was tried."""
    cluster, faulty = InMemoryCluster(), FaultyPlugin("permit", point)
    faulty.answers[point] = SOUND[point]
    profile = Profile(faulty, Coscheduling(), NodeResources(), DefaultBinder())
    scheduler = Scheduler(cluster, profile)
    tell(cluster, scheduler, NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 3})), now=NOW)
    for n in range(2):
        pod = make_pod(f"w-{n}", group="w", min_available=2, cpu=2)
        tell(cluster, scheduler, PodAdded(pod), now=NOW)
    faulty.answers[point] = answer
    return cluster, scheduler, faulty


def decide(scheduler: Scheduler) -> tuple[list[Effect], set[tuple[str, str]]]:
    """Decide until the scheduler is idle; return the effects and the reported errors."""
    effects: list[Effect] = []
    named: set[tuple[str, str]] = set()
    for _turn in range(20):
        try:
            found = scheduler.schedule_one(now=NOW)
        except PluginError as error:
            named.add((error.plugin, error.subject))
            continue
        if found is None:
            return effects, named
        effects += found
    raise AssertionError("law 5: still deciding")


@POINTS
def test_failing_rule_is_reported_and_the_default_rule_applies(point: str, answer: Any) -> None:
    one, other = host(point, answer), host(point, SOUND[point])
    effects, named = decide(one[1])
    expected, nobody = decide(other[1])
    assert named == {("FaultyPlugin", "default/w")}
    assert not nobody
    assert effects == expected
    assert fingerprint(*one[:2]) == fingerprint(*other[:2])
    one[1]._check()


@POINTS
def test_rule_that_breaks_does_not_keep_a_gang_from_starting(point: str, answer: Any) -> None:
    cluster, scheduler, faulty = host(point, answer)
    decide(scheduler)
    faulty.answers[point] = SOUND[point]
    grown = Node(name=NodeName("n"), allocatable={"cpu": 4})
    tell(cluster, scheduler, NodeAdded(grown), now=NOW)
    effects, named = decide(scheduler)
    assert not named
    assert len([effect for effect in effects if isinstance(effect, Bind)]) == 2
    scheduler._check()
