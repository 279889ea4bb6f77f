"""Plugins that read pods on nodes: their scores, and what becomes of answers of a wrong type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    InMemoryCluster,
    LabelSelector,
    NodeAdded,
    NodeName,
    PluginError,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodDeleted,
    PodUID,
    PodUnschedulable,
    Profile,
    Scheduler,
    SchedulingUnit,
    presets,
)
from gangsched.testing import make_node, make_pod
from support.siblings import CountedPerZone, OnePerNode, ruled

EACH_UNIT = pytest.mark.parametrize("unit", list(SchedulingUnit), ids=lambda unit: unit.value)


class Crowded:
    """Scores nodes by the pods that are there; reads them for every pod."""

    name = "Crowded"

    def __init__(self, *raw: int) -> None:
        self.raw = raw

    def reads_pods(self, pod: Pod) -> bool:
        return True

    def pod_signature(self, pod: Pod) -> None:
        return None

    def node_signature(self, node: Any) -> None:
        return None

    def score(self, state: Any, pod: Pod, node: Any) -> Any:
        return self.raw[len(node.pods)] if self.raw else min(50 * len(node.pods), 100)


class Normalized(Crowded):
    """Makes the node with the most pods the best one."""

    name = "Normalized"

    def score(self, state: Any, pod: Pod, node: Any) -> Any:
        return 1000 * len(node.pods)

    def normalize_score(
        self, state: Any, pod: Pod, scores: Mapping[NodeName, int]
    ) -> Mapping[NodeName, Any]:
        most = max(scores.values()) or 1
        return {name: 100 * score // most for name, score in scores.items()}


def placed(plugin: Any, unit: SchedulingUnit, count: int = 3, **options: Any) -> list[str]:
    """Return the nodes of the members of one gang, in order."""
    scheduler, _cluster = host(plugin, unit, count, **options)
    effects: list[Any] = []
    while (found := scheduler.schedule_one(now=0.0)) is not None:
        effects += found
    return [str(effect.node) for effect in effects if isinstance(effect, Bind)]


def host(
    plugin: Any, unit: SchedulingUnit, count: int = 3, **options: Any
) -> tuple[Scheduler, InMemoryCluster]:
    cluster = InMemoryCluster()
    profile = Profile(*presets.coscheduling_profile().plugins, plugin, **options)
    scheduler = Scheduler(cluster, profile, unit=unit)
    for number in range(3):
        node = make_node(f"n{number}", cpu=10, labels={"zone": f"z{number}"})
        scheduler.handle(cluster.apply(NodeAdded(node)), now=0.0)
    for number in range(count):
        pod = ruled(make_pod(f"w-{number}", group="g", min_available=count, cpu=1))
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    return scheduler, cluster


@EACH_UNIT
def test_score_sees_the_siblings_that_were_placed_before(unit: SchedulingUnit) -> None:
    """The resources alone would spread the members."""
    assert placed(Crowded(), unit) == ["n0", "n0", "n0"]


@EACH_UNIT
def test_scores_of_a_plugin_that_reads_pods_are_weighed(unit: SchedulingUnit) -> None:
    """One pod on a node costs 10 points by resources, and is worth 6 or 18."""
    assert placed(Crowded(0, 6, 12, 18), unit) == ["n0", "n1", "n2"]
    assert placed(Crowded(0, 6, 12, 18), unit, weights={"Crowded": 3}) == ["n0", "n0", "n0"]


@EACH_UNIT
def test_scores_of_a_plugin_that_reads_pods_are_normalized(unit: SchedulingUnit) -> None:
    assert placed(Normalized(), unit) == ["n0", "n0", "n0"]


def memory(scheduler: Scheduler) -> dict[str, Any]:
    """Return what is remembered, without the step."""
    return {name: value for name, value in scheduler.snapshot().items() if name != "step"}


def wrong(base: type, **methods: Any) -> Any:
    return type("Wrong", (base,), methods)()


@EACH_UNIT
@pytest.mark.parametrize(
    ("base", "point", "answer"),
    [
        (OnePerNode, "filter", None),
        (Crowded, "score", "high"),
        (Crowded, "score", 101),
        (Crowded, "score", True),
        (Normalized, "normalize_score", None),
        (Normalized, "normalize_score", {"n0": 1}),
        (Normalized, "normalize_score", {"n0": 1, "n1": 1, "n2": "x"}),
    ],
)
def test_answer_of_a_wrong_type_names_the_plugin_and_changes_nothing(
    unit: SchedulingUnit, base: type, point: str, answer: Any
) -> None:
    plugin = wrong(base, **{point: lambda *_args: answer})
    scheduler, _cluster = host(plugin, unit)
    before = memory(scheduler)
    with pytest.raises(PluginError, match=rf"{plugin.name}.*{point}"):
        scheduler.schedule_one(now=0.0)
    assert memory(scheduler) == before
    scheduler._check()


@pytest.mark.parametrize("point", ["add_pod", "remove_pod"])
def test_count_that_fails_while_a_gang_is_placed_changes_nothing(point: str) -> None:
    def fail(*_args: Any) -> None:
        raise ValueError("lost count")

    scheduler, _cluster = host(wrong(CountedPerZone, **{point: fail}), SchedulingUnit.GROUP)
    before = memory(scheduler)
    with pytest.raises(PluginError, match=rf"{point}.*lost count"):
        scheduler.schedule_one(now=0.0)
    assert memory(scheduler) == before
    scheduler._check()


def test_wrong_answer_about_reading_pods_refuses_the_event() -> None:
    cluster = InMemoryCluster()
    plugin = wrong(OnePerNode, reads_pods=lambda _self, _pod: "yes")
    scheduler = Scheduler(cluster, Profile(*presets.coscheduling_profile().plugins, plugin))
    event = cluster.apply(PodAdded(ruled(make_pod("w"))))
    with pytest.raises(PluginError, match=r"reads_pods.*'yes', expected True or False"):
        scheduler.handle(event, now=0.0)
    scheduler._check()


def test_node_does_not_show_pods_to_a_plugin_that_does_not_declare_it() -> None:
    plugin = wrong(OnePerNode, reads_pods=lambda _self, _pod: False)
    scheduler, _cluster = host(plugin, SchedulingUnit.GROUP)
    with pytest.raises(PluginError, match=r"node\.pods is shown only for pods"):
        scheduler.schedule_one(now=0.0)


def test_pod_beside_others_is_tried_again_at_each_instant_at_which_a_member_waits() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.coscheduling(cluster, unit=SchedulingUnit.POD)
    scheduler.handle(cluster.apply(NodeAdded(make_node("n", cpu=2, labels={"zone": "z"}))), now=0.0)
    beside = PodAffinityTerm(topology_key="zone", label_selector=LabelSelector({"app": "other"}))
    pod = evolve(make_pod("p", cpu=1), pod_affinity=(beside,))
    scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    for now in range(0, 12_000, 1000):
        names = [f"g{now}-{n}" for n in range(2)]
        for n, name in enumerate(names):
            member = make_pod(name, cpu=n + 1, group=f"g{now}", min_available=2)
            scheduler.handle(cluster.apply(PodAdded(member)), now=now)
        told = list[PodUID]()
        while (effects := scheduler.schedule_one(now=now)) is not None:
            told += [each.uid for each in effects if isinstance(each, PodUnschedulable)]
        assert pod.uid in told, f"at {now}"
        for name in names:
            scheduler.handle(cluster.apply(PodDeleted(PodUID(f"default/{name}"))), now=now)
