"""What plugins answer about pods on other nodes: a wrong answer is an error, and bounds nothing."""

from __future__ import annotations

import pytest

from gangsched import InMemoryCluster, PluginError, PodAdded, Profile, Scheduler, presets
from gangsched.constraints.matchers import PodMatcher
from gangsched.constraints.selectors import LabelSelector
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.runtime import cluster_headroom, signatures
from gangsched.framework.runtime.cluster_headroom import UNBOUNDED
from gangsched.testing import make_pod
from support.busy import NOW
from support.faulty_plugin import OOPS, FaultyPlugin
from support.views import cycle

POD = make_pod("p", cpu=1)


def with_plugins(*plugins: object) -> Profile:
    return Profile(*presets.default_profile().plugins, *plugins)


def reader(*points: str) -> FaultyPlugin:
    """Return a plugin that reads which pods are on nodes."""
    plugin = FaultyPlugin("filter", "reads_pods", "pod_signature", *points)
    plugin.answers["reads_pods"] = True
    return plugin


def bounding(*answers: object, prepares: bool = True) -> tuple[list[FaultyPlugin], Scheduler]:
    """Return plugins that bound how many pods they accept anywhere, and their scheduler."""
    more = ("pre_filter", "add_pod", "remove_pod") if prepares else ()
    made = [reader("cluster_headroom", *more) for _answer in answers]
    for number, (plugin, answer) in enumerate(zip(made, answers, strict=True)):
        plugin.name = f"Bounds{number}"
        plugin.answers["cluster_headroom"] = answer
    cluster = InMemoryCluster()
    scheduler = Scheduler(cluster, with_plugins(*made))
    scheduler.handle(cluster.apply(PodAdded(POD)), now=NOW)
    return made, scheduler


def bound(scheduler: Scheduler) -> int:
    """Return how many pods like the pod are accepted at most."""
    state = scheduler._state
    pod_class: PodClass = state.pods.members[POD.uid].pod_class
    return cluster_headroom.of_class(state.settings, state.nodes, pod_class, NOW)


@pytest.mark.parametrize(("answer", "problem"), [(OOPS, "oops"), ((("zone",),), "zone")])
def test_bad_answer_about_selected_pods_names_the_plugin(answer: object, problem: str) -> None:
    plugin = reader("pods_selected")
    profile = with_plugins(plugin)
    ours = PodMatcher(LabelSelector({"app": "web"}))
    plugin.answers["pods_selected"] = (ours, ours)
    assert signatures.selected(profile, POD) == (ours,)
    plugin.answers["pods_selected"] = answer
    with pytest.raises(PluginError, match=f"FaultyPlugin.*pods_selected.*{problem}"):
        signatures.selected(profile, POD)


@pytest.mark.parametrize("answers", [(5, None, 3), (None, 3), (3,)])
def test_least_bound_of_all_plugins_counts(answers: tuple[int | None, ...]) -> None:
    assert bound(bounding(*answers)[1]) == 3


def test_plugin_without_a_bound_bounds_nothing() -> None:
    plugins, scheduler = bounding(None, None)
    assert bound(scheduler) == UNBOUNDED
    assert cluster_headroom.bound(plugins, cycle(), POD) == UNBOUNDED, "and is no error"


def test_bound_of_a_plugin_without_pre_filter_counts() -> None:
    assert bound(bounding(3, prepares=False)[1]) == 3


@pytest.mark.parametrize("point", ["cluster_headroom", "pre_filter"])
def test_plugin_that_raises_bounds_nothing_and_the_others_count(point: str) -> None:
    (first, _second), scheduler = bounding(1, 4)
    assert bound(scheduler) == 1
    first.answers[point] = OOPS
    assert bound(scheduler) == 4
