"""What a plugin declares or answers: an error names the plugin, the method and the value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    InMemoryCluster,
    NodeAdded,
    Outcome,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    Profile,
    Scheduler,
    VolumeClaim,
    Wait,
    presets,
)
from gangsched import _plugin_calls as calls
from gangsched._plugin_calls import call_for_kinds, call_for_names
from gangsched.errors import PluginError
from gangsched.framework.runtime import extension_points, group_rules
from gangsched.framework.runtime import signatures as signing
from gangsched.framework.state.current_call import CurrentCall
from gangsched.outcomes import SUCCESS
from gangsched.plugins import DefaultBinder, NodeResources, PrioritySort
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import make_node, make_pod
from support.busy import NOW, busy_scheduler
from support.faulty_plugin import OOPS, FaultyPlugin

POD = make_pod("p", cpu=1)


class Named(str):
    """A string of a class of its own."""


class Nameless:
    """A plugin whose name raises."""

    @property
    def name(self) -> str:
        raise OOPS


def with_answer(point: str, answer: Any) -> FaultyPlugin:
    plugin = FaultyPlugin(point)
    plugin.answers[point] = answer
    return plugin


def broken() -> Iterator[object]:
    yield int
    raise OOPS


def test_plugin_whose_name_raises_is_named_by_its_type() -> None:
    assert calls.name_of(Nameless()) == "Nameless"
    assert calls.name_of(FaultyPlugin()) == "FaultyPlugin"


def test_names_may_be_of_a_class_that_inherits_from_str() -> None:
    plugin = with_answer("fitted", (Named("cpu"), "memory"))
    assert call_for_names(plugin, "fitted", POD, POD) == ("cpu", "memory")


def test_classes_that_cannot_be_listed_are_an_error_of_the_plugin() -> None:
    plugin = with_answer("objects_read", lambda _pod: broken())
    with pytest.raises(PluginError, match=r"objects_read.*oops"):
        call_for_kinds(plugin, "objects_read", POD, POD)
    plugin.answers["objects_read"] = ([],)
    with pytest.raises(PluginError, match="objects_read"):
        call_for_kinds(plugin, "objects_read", POD, POD)


def test_shown_value_is_cut_after_300_characters() -> None:
    for length, end in ((300, "'"), (301, "...")):
        value = "x" * (length - 2)  # the quotes are counted
        error = calls.returned(FaultyPlugin(), "filter", POD, value)
        shown = repr(value) if length == 300 else f"{repr(value)[:300]}..."
        assert f"returned {shown}, expected" in str(error)
        assert shown.endswith(end)


@pytest.mark.parametrize(("answer", "problem"), [(OOPS, "oops"), (1, "returned 1")])
def test_bad_answer_about_reading_pods_names_the_plugin(answer: object, problem: str) -> None:
    plugin = FaultyPlugin("filter", "reads_pods", "pod_signature")
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, plugins=[plugin])
    plugin.answers["reads_pods"] = answer
    with pytest.raises(PluginError, match=f"FaultyPlugin.*reads_pods.*{problem}"):
        scheduler.handle(cluster.apply(PodAdded(POD)), now=NOW)


@pytest.mark.parametrize(("answer", "problem"), [(OOPS, "oops"), (("zone",), "zone")])
def test_bad_answer_about_affected_pods_names_the_plugin(answer: object, problem: str) -> None:
    plugin = FaultyPlugin("filter", "reads_pods", "pods_affected", "pod_signature")
    profile = Profile(*presets.default_profile().plugins, plugin)
    assert plugin.name in {calls.name_of(each) for each in profile.affecting}
    plugin.answers["pods_affected"] = ()
    assert signing.carried(profile, POD) == ()
    plugin.answers["pods_affected"] = answer
    with pytest.raises(PluginError, match=f"FaultyPlugin.*pods_affected.*{problem}"):
        signing.carried(profile, POD)


def test_wait_that_would_end_at_no_finite_instant_is_refused() -> None:
    _cluster, scheduler = busy_scheduler()
    member = next(m for m in scheduler._state.pods.members.values() if m.node is not None)
    plugin = with_answer("permit", Wait(1e308))
    with pytest.raises(PluginError, match=r"permit.*a Wait whose timeout added to now=1e\+308"):
        extension_points.permit(scheduler._state.settings, member, 1e308, (plugin,))
    assert extension_points.permit(scheduler._state.settings, member, 1.0, (plugin,)) == ()


def test_scores_that_cannot_be_read_after_normalization_name_the_plugin() -> None:
    plugin = FaultyPlugin("score", "normalize_score", "reads_pods", "pod_signature")
    plugin.answers["reads_pods"] = True
    plugin.answers["normalize_score"] = lambda _state, _pod, _scores: UnreadableScores()
    cluster = InMemoryCluster()
    for name in ("a", "b"):
        cluster.apply(NodeAdded(make_node(name, cpu=4)))
    cluster.apply(PodAdded(POD))
    scheduler = presets.gang(cluster, plugins=[plugin])
    with pytest.raises(PluginError, match=r"FaultyPlugin.*normalize_score.*oops"):
        scheduler.schedule_one(now=NOW)


class UnreadableScores(Mapping[Any, int]):
    """A mapping that cannot be read."""

    def __getitem__(self, key: Any) -> int:
        raise OOPS

    def __iter__(self) -> Iterator[Any]:
        raise OOPS

    def __len__(self) -> int:
        return 1


@pytest.mark.parametrize("answer", [True, False])
def test_number_of_members_that_is_a_bool_is_replaced_by_the_default(answer: bool) -> None:
    plugin = FaultyPlugin("permit", "members_needed")
    cluster = InMemoryCluster()
    scheduler = Scheduler(cluster, Profile(*presets.default_profile().plugins, plugin))
    cluster.apply(PodGroupAdded(PodGroup(name="g", min_available=2)))
    cluster.apply(PodAdded(make_pod("g-0", group="g", cpu=1)))
    scheduler.rebuild(now=NOW)
    (group,) = scheduler._state.pods.registry
    plugin.answers["members_needed"] = answer
    call = CurrentCall()
    assert group_rules.members_needed(scheduler._state.settings, call, group) == 2
    (error,) = call.deferred
    assert f"members_needed for default/g: returned {answer}" in str(error)


def test_bind_of_a_pod_with_claims_is_as_it_is_where_no_plugin_chooses_volumes() -> None:
    profile = Profile(PrioritySort(), NodeResources(), DefaultBinder(), _Claims())
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(make_node("n", cpu=4)))
    cluster.apply(PodAdded(evolve(POD, volume_claims=(VolumeClaim("c"),))))
    scheduler = Scheduler(cluster, profile)
    (bind,) = [e for e in scheduler.schedule_one(now=NOW) or () if isinstance(e, Bind)]
    assert bind.volumes == ()


class _Claims:
    """A plugin that says that it checks claims, and chooses no volume."""

    name = "Claims"
    constraints_checked = ("volume_claims",)

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return SUCCESS
