"""Scoring: weights, ``pre_score`` with the passing nodes, ``normalize_score``."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gangsched import (
    ClusterState,
    NodeName,
    Outcome,
    Pod,
    Profile,
    Scheduler,
    SchedulingUnit,
    Success,
    Unschedulable,
    presets,
)
from gangsched.errors import PluginError, ProfileError
from gangsched.plugins import DefaultBinder, NodeResources, PrioritySort
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import check_plugin, make_pod
from support.driver import Driver
from support.gangs import members, node, where

EACH_UNIT = pytest.mark.parametrize("unit", SchedulingUnit)


class Prefers:
    """Scores nodes by name, from a table."""

    def __init__(self, name: str, **scores: int) -> None:
        self.name = name
        self.scores = scores

    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        return self.scores.get(node.node.name, 0)


class Normalizing(Prefers):
    """Stretches its raw scores to 0 to 100, as kube-scheduler's DefaultNormalizeScore does."""

    def __init__(self, name: str, **scores: int) -> None:
        super().__init__(name, **scores)
        self.given: list[dict[str, int]] = []

    def normalize_score(
        self, state: CycleView, pod: Pod, scores: Mapping[NodeName, int]
    ) -> Mapping[NodeName, int]:
        self.given.append({str(name): score for name, score in scores.items()})
        best = max(scores.values()) or 1
        return {name: 100 * score // best for name, score in scores.items()}


class Watching:
    """Records the nodes that ``pre_score`` gets; refuses the given nodes."""

    name = "Watching"

    def __init__(self, *refused: str) -> None:
        self.refused = refused
        self.seen: list[list[str]] = []

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return Unschedulable("refused") if node.node.name in self.refused else Success()

    def pre_score(
        self, state: CycleView, pod: Pod, nodes: Sequence[NodeView], *, now: float
    ) -> Outcome:
        self.seen.append([str(view.node.name) for view in nodes])
        return Success()


def run(*plugins: object, nodes: int = 3, **more: Any) -> dict[str, str]:
    """Place one pod with 1 cpu on one of some nodes with 4; return where it is."""
    profile = Profile(PrioritySort(), *plugins, DefaultBinder(), **more)
    driver = Driver(lambda cluster: Scheduler(cluster, profile))
    driver.tell(*(node(f"n{number}", 4) for number in range(nodes)))
    driver.add(make_pod("p", cpu=1))
    driver.step()
    return where(driver)


def making(*plugins: object, unit: SchedulingUnit, **more: Any) -> Any:
    def make(cluster: ClusterState) -> Scheduler:
        return presets.coscheduling(cluster, unit=unit, plugins=plugins, **more)

    return make


# Weights ----------------------------------------------------------------------------------------


def test_weight_multiplies_the_score_of_its_plugin() -> None:
    one, other = Prefers("One", n1=60), Prefers("Other", n2=50)
    assert run(one, other) == {"p": "n1"}
    assert run(one, other, weights={"Other": 2}) == {"p": "n2"}
    assert run(one, other, weights={"Other": 2, "One": 2}) == {"p": "n1"}


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        ({"Nothing": 2}, "'Nothing' is not a plugin with a score; these are: 'One'"),
        ({"PrioritySort": 2}, "'PrioritySort' is not a plugin with a score; these are: 'One'"),
        ({5: 2}, "5 is not a plugin with a score; these are: 'One'"),
        ({"One": 0}, "the weight of 'One' must be an int >= 1, got 0"),
        ({"One": -1}, "the weight of 'One' must be an int >= 1, got -1"),
        ({"One": 1.5}, "the weight of 'One' must be an int >= 1, got 1.5"),
        ({"One": True}, "the weight of 'One' must be an int >= 1, got True"),
        ({"One": "2"}, "the weight of 'One' must be an int >= 1, got '2'"),
        (["One"], "['One'] is not a mapping of names of score plugins to ints"),
    ],
    ids=repr,
)
def test_profile_refuses_a_weight_that_cannot_work(weights: Any, problem: str) -> None:
    with pytest.raises(ProfileError) as caught:
        Profile(PrioritySort(), Prefers("One"), DefaultBinder(), weights=weights)
    assert (caught.value.point, caught.value.problem) == ("weights", problem)


def test_profile_without_a_score_takes_no_weight() -> None:
    with pytest.raises(ProfileError, match="these are: none"):
        Profile(PrioritySort(), DefaultBinder(), weights={"One": 1})


def test_profile_keeps_its_weights_when_it_is_pickled() -> None:
    plugins = (PrioritySort(), NodeResources(), DefaultBinder())
    profile = pickle.loads(pickle.dumps(Profile(*plugins, weights={"NodeResourcesFit": 3})))
    assert dict(profile.weights) == {"NodeResourcesFit": 3}
    assert profile.plugins == plugins


# pre_score --------------------------------------------------------------------------------------


def test_pre_score_gets_the_nodes_that_passed_the_filters() -> None:
    watching = Watching("n1")
    assert run(watching, NodeResources(), nodes=4)
    assert watching.seen == [["n0", "n2", "n3"]]


def test_pre_score_is_not_called_when_no_node_passes() -> None:
    watching = Watching("n0", "n1", "n2")
    assert run(watching) == {}
    assert watching.seen == []


# normalize_score --------------------------------------------------------------------------------


def test_raw_scores_of_all_passing_nodes_are_normalized_before_they_are_added() -> None:
    raw = Normalizing("Raw", n0=1_000, n1=4_000)
    assert run(raw, Prefers("Plain", n0=80)) == {"p": "n0"}, "25 + 80 exceeds 100"
    assert raw.given == [{"n0": 1_000, "n1": 4_000, "n2": 0}]


def test_normalized_score_is_weighted() -> None:
    raw = Normalizing("Raw", n0=1_000, n1=4_000)
    plain = Prefers("Plain", n0=80)
    assert run(raw, plain) == {"p": "n0"}
    assert run(raw, plain, weights={"Raw": 2}) == {"p": "n1"}


def test_raw_scores_are_computed_anew_when_one_node_changes() -> None:
    """The best raw score decides what every other is worth."""
    raw = Normalizing("Raw", n0=50, n1=60, n2=1_000)
    profile = Profile(PrioritySort(), NodeResources(), raw, DefaultBinder())
    driver = Driver(lambda cluster: Scheduler(cluster, profile))
    driver.tell(node("n0", 1), node("n1", 1))
    driver.add(make_pod("p", cpu=1))
    driver.step()
    driver.tell(node("n2", 1))
    driver.add(make_pod("q", cpu=1))
    driver.step()
    assert where(driver) == {"p": "n1", "q": "n2"}
    assert raw.given == [{"n0": 50, "n1": 60}, {"n0": 50, "n2": 1_000}]


@EACH_UNIT
def test_gang_goes_where_normalized_scores_are_best_in_each_unit(unit: SchedulingUnit) -> None:
    raw = Normalizing("Raw", n0=1, n1=2, n2=3)
    driver = Driver(making(raw, unit=unit, weights={"Raw": 100}))
    driver.tell(*(node(f"n{number}", 1) for number in range(3)))
    driver.add(*members("g", 2, cpu=1))
    driver.drain()
    assert sorted(where(driver).values()) == ["n1", "n2"]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        5,
        {},
        {"n0": 1, "n1": 1},
        {"n0": 1, "n1": 1, "n2": 1, "n3": 1},
        {"n0": 1, "n1": 1, "n2": 101},
        {"n0": 1, "n1": 1, "n2": -1},
        {"n0": 1, "n1": 1, "n2": 1.0},
        {"n0": 1, "n1": 1, "n2": True},
    ],
    ids=repr,
)
def test_normalized_scores_that_are_malformed_name_the_plugin(answer: Any) -> None:
    class Wrong(Prefers):
        def normalize_score(self, *_args: object) -> Any:
            return answer

    with pytest.raises(PluginError) as caught:
        run(Wrong("Wrong"))
    error = caught.value
    assert (error.plugin, error.point, error.subject) == ("Wrong", "normalize_score", "default/p")
    expected = "a mapping with an int from 0 to 100 for each node"
    assert error.problem == f"returned {answer!r}, expected {expected}"


def test_profile_refuses_normalize_score_without_score() -> None:
    class Half:
        name = "Half"

        def filter(self, *_args: object) -> Success:
            return Success()

        def normalize_score(self, *_args: object) -> dict[str, int]:
            return {}

    with pytest.raises(ProfileError) as caught:
        Profile(PrioritySort(), Half(), DefaultBinder())
    assert (caught.value.point, caught.value.problem) == (
        "normalize_score",
        "'Half' has no score",
    )


def test_check_plugin_checks_normalized_scores() -> None:
    check_plugin(Normalizing("Raw", a=7, b=70_000))

    class Unequal(Prefers):
        def normalize_score(
            self, state: CycleView, pod: Pod, scores: Mapping[NodeName, int]
        ) -> Mapping[NodeName, int]:
            return {name: number for number, name in enumerate(scores)}

    with pytest.raises(AssertionError, match="nodes of raw score 0 have unequal scores"):
        check_plugin(Unequal("Unequal"))
