"""Presets: a plugin of one's own is one argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gangsched import Bind, ClusterState, NodeName, Pod, Scheduler, Skip, Success, presets
from gangsched.errors import ProfileError
from gangsched.plugins import NodeResources, PrioritySort, QOSSort
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import make_pod
from support.driver import Driver
from support.gangs import node, where

PRESETS = pytest.mark.parametrize(
    "preset", [presets.gang, presets.coscheduling, presets.pod_by_pod]
)
PROFILES = pytest.mark.parametrize(
    "profile", [presets.default_profile, presets.coscheduling_profile]
)


class Favourite:
    """Scores one node."""

    name = "Favourite"

    def __init__(self, node: str) -> None:
        self.node = node

    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        return 100 if node.node.name == self.node else 0


class Binder:
    """Records the pods that it was asked to bind; skips them on request."""

    name = "Binder"

    def __init__(self, *, skips: bool) -> None:
        self.skips = skips
        self.asked: list[str] = []

    def bind(self, pod: Pod, node: NodeName, attempt: int, *, now: float) -> Bind | Skip:
        self.asked.append(pod.name)
        return Skip() if self.skips else Bind(pod.uid, node, attempt)


def run(make: Callable[[ClusterState], Scheduler]) -> dict[str, str]:
    """Start two pods, each with one of 4 cpu of a node; return where they are."""
    driver = Driver(make)
    driver.tell(*(node(f"n{number}", 4) for number in range(3)))
    driver.add(make_pod("p-0", cpu=1), make_pod("p-1", cpu=1))
    driver.drain()
    return where(driver)


@PRESETS
def test_preset_runs_an_own_plugin(preset: Any) -> None:
    placed = run(
        lambda cluster: preset(cluster, plugins=[Favourite("n2")], weights={"Favourite": 9})
    )
    assert placed == {"p-0": "n2", "p-1": "n2"}


@PRESETS
def test_preset_weighs_its_own_plugins(preset: Any) -> None:
    """Emptier nodes win if they weigh enough, so two members are on two nodes."""
    heavy = {"NodeResourcesFit": 50}
    placed = run(lambda cluster: preset(cluster, plugins=[Favourite("n2")], weights=heavy))
    assert len({*placed.values()}) == 2


@PRESETS
@pytest.mark.parametrize("skips", [True, False])
def test_own_bind_plugin_is_asked_before_the_default_binder(preset: Any, skips: bool) -> None:
    binder = Binder(skips=skips)
    assert {*run(lambda cluster: preset(cluster, plugins=(binder,)))} == {"p-0", "p-1"}
    assert sorted(binder.asked) == ["p-0", "p-1"]


@PROFILES
def test_profile_takes_plugins_in_order_and_from_any_iterable(profile: Any) -> None:
    one, other = Favourite("a"), Binder(skips=True)
    made = profile(plugins=iter([one, other]))
    assert made.plugins[-3:-1] == (one, other)
    assert [plugin.name for plugin in made.plugins[-1:]] == ["DefaultBinder"]


def test_own_queue_sort_plugin_replaces_priority_sort() -> None:
    sort = QOSSort()
    assert presets.default_profile(plugins=[sort]).queue_sort is sort
    assert isinstance(presets.default_profile().queue_sort, PrioritySort)


@PRESETS
@pytest.mark.parametrize(
    ("plugins", "point"),
    [
        (5, "plugins"),
        (Favourite("n"), "plugins"),
        ([None], "profile"),
        ([NodeResources()], "profile"),
        ([Favourite("a"), Favourite("b")], "profile"),
        ("ab", "profile"),
    ],
    ids=["int", "plugin", "none", "twice", "same-name", "str"],
)
def test_preset_refuses_plugins_that_cannot_work(preset: Any, plugins: Any, point: str) -> None:
    with pytest.raises(ProfileError) as caught:
        run(lambda cluster: preset(cluster, plugins=plugins))
    assert caught.value.point == point


NO_POINTS: list[Any] = ["permit", 5, ["permit", "score"], [None], [[]]]


@pytest.mark.parametrize(
    ("attribute", "given"),
    [
        *(("group_wide", given) for given in NO_POINTS),
        *(("state_keys", given) for given in (["key"], [None])),
    ],
    ids=repr,
)
def test_profile_refuses_attributes_that_name_no_points_and_no_keys(
    attribute: str, given: Any
) -> None:
    def permit(*_args: object, now: float) -> Success:
        return Success()

    plugin = type("Odd", (), {"name": "Odd", "permit": permit, attribute: given})()
    with pytest.raises(ProfileError) as caught:
        presets.coscheduling_profile(plugins=[plugin])
    assert caught.value.point == attribute
