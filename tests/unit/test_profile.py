"""A profile is checked when it is built: which plugins run where, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from gangsched import InMemoryCluster, presets, protocols
from gangsched.coscheduling import Coscheduling
from gangsched.errors import InvalidValueError, ProfileError
from gangsched.outcomes import Success
from gangsched.plugins import DefaultBinder, PrioritySort, QOSSort
from gangsched.profile import POINTS, Profile

EXTENSIONS = [name for name in protocols.__all__ if name.endswith("Extensions")]
SEVERAL = [point for point in POINTS if point not in ("queue_sort", "unreserve")]


def plugin(name: str, *methods: str) -> Any:
    """Return a plugin with these methods, which are never called."""
    members: dict[str, Any] = {"name": name}
    members.update({method: lambda *_args, **_kwargs: None for method in methods})
    return type(name, (), members)()


def refusal(*plugins: object) -> ProfileError:
    with pytest.raises(ProfileError) as caught:
        Profile(*plugins)
    return caught.value


SORT, BIND = PrioritySort(), DefaultBinder()


def test_points_are_in_the_order_in_which_they_run() -> None:
    assert POINTS == (
        "pre_enqueue",
        "queue_sort",
        "pre_filter",
        "filter",
        "post_filter",
        "pre_score",
        "score",
        "reserve",
        "unreserve",
        "permit",
        "pre_bind",
        "bind",
        "post_bind",
    )


@pytest.mark.parametrize("point", SEVERAL)
def test_plugins_run_in_order_at_each_point_whose_method_they_have(point: str) -> None:
    methods = [point, "unreserve"] if point == "reserve" else [point]
    first, second = plugin("First", *methods), plugin("Second", *methods)
    profile = Profile(SORT, second, BIND, first)
    found = [one for one in getattr(profile, point) if one in (first, second)]
    assert found == [second, first]
    elsewhere = [p for p in SEVERAL if p != point and first in getattr(profile, p)]
    assert elsewhere == []


def test_one_plugin_may_run_at_every_point() -> None:
    everything = plugin("Everything", *POINTS)
    profile = Profile(everything)
    assert profile.queue_sort is everything
    assert all(getattr(profile, point) == (everything,) for point in SEVERAL)
    assert profile.plugins == (everything,)


def test_attribute_that_is_not_callable_is_no_point() -> None:
    faulty = plugin("FaultyPlugin", "permit")
    type(faulty).filter = "yes"
    profile = Profile(SORT, faulty, BIND)
    assert profile.filter == ()
    assert profile.permit == (faulty,)


@pytest.mark.parametrize(
    ("plugins", "point", "problem"),
    [
        ((), "queue_sort", "expected exactly one plugin, got none"),
        ((BIND,), "queue_sort", "expected exactly one plugin, got none"),
        ((SORT, None, BIND), "profile", "None has no name"),
        ((5,), "profile", "5 has no name"),
        (
            (SORT, QOSSort(), BIND),
            "queue_sort",
            "expected exactly one plugin, got PrioritySort, QOSSort",
        ),
        ((SORT,), "bind", "expected at least one plugin, got none"),
        ((SORT, BIND, BIND), "profile", "two plugins are named 'DefaultBinder'"),
        ((SORT, BIND, plugin("Idle")), "profile", "'Idle' has no method of an extension point"),
        ((SORT, BIND, plugin("Half", "reserve")), "reserve", "'Half' has no unreserve"),
        ((SORT, BIND, plugin("Half", "unreserve")), "unreserve", "'Half' has no reserve"),
    ],
)
def test_profile_that_cannot_work_is_refused(
    plugins: tuple[object, ...], point: str, problem: str
) -> None:
    error = refusal(*plugins)
    assert (error.point, error.problem) == (point, problem)


def test_scheduler_has_only_one_order() -> None:
    """F60."""
    assert "Coscheduling" in refusal(Coscheduling(), SORT, BIND).problem


@pytest.mark.parametrize("name", [None, "", 5])
def test_plugin_without_a_name_is_refused(name: object) -> None:
    nameless = plugin("x", "filter")
    type(nameless).name = name
    error = refusal(SORT, BIND, nameless)
    assert error.point == "profile"
    assert error.problem.endswith("has no name")


def test_plugin_need_be_neither_hashable_nor_comparable() -> None:
    """Any object with the methods is a plugin."""

    @dataclass
    class Quota:
        limit: int
        name: str = "Quota"

        def filter(self, *_args: object) -> None: ...

        def __eq__(self, other: object) -> bool:
            raise AssertionError("was compared")

    quota: Any = Quota(3)
    profile = Profile(SORT, quota, BIND)
    assert profile.filter[0] is quota


@pytest.mark.parametrize(
    ("methods", "problem"),
    [
        (("add_pod", "pre_filter", "filter", "reads_pods"), "'FaultyPlugin' has no remove_pod"),
        (("remove_pod", "pre_filter", "filter", "reads_pods"), "'FaultyPlugin' has no add_pod"),
        (("add_pod", "remove_pod", "filter", "reads_pods"), "'FaultyPlugin' has no pre_filter"),
        (("add_pod", "remove_pod", "pre_filter", "filter"), "'FaultyPlugin' has no reads_pods"),
    ],
)
def test_profile_refuses_half_of_a_count_of_pods(methods: tuple[str, ...], problem: str) -> None:
    assert problem in str(refusal(SORT, BIND, plugin("FaultyPlugin", *methods)))


def test_profile_refuses_a_count_of_pods_for_a_whole_group() -> None:
    methods = ("add_pod", "remove_pod", "pre_filter", "filter", "reads_pods")
    faulty = plugin("FaultyPlugin", *methods)
    faulty.group_wide = ("pre_filter",)
    assert "'FaultyPlugin' names pre_filter in group_wide" in str(refusal(SORT, BIND, faulty))


@pytest.mark.parametrize("extensions", EXTENSIONS)
def test_plugin_that_inherits_options_is_refused(extensions: str) -> None:
    kind = getattr(protocols, extensions)

    named = type("Named", (kind,), {"name": "Heir"})
    heir: Any = type("Heir", (named,), {"pre_bind": lambda *_args, **_named: Success()})()
    error = refusal(SORT, BIND, heir)
    expected = f"'Heir' inherits from {extensions}; an option is declared by its method"
    assert (error.point, error.problem) == ("profile", expected)


def test_plugins_have_at_most_20_protocols() -> None:
    named = [name for name in protocols.__all__ if name.endswith(("Plugin", "Extensions"))]
    assert len(named) <= 20


def test_plugin_that_is_a_class_is_refused() -> None:
    class Rule:
        name = "Rule"

        def filter(self, *_args: object) -> Success:
            return Success()

    with pytest.raises(InvalidValueError, match=r"plugins .*Rule\(\), not a class.*Rule'"):
        presets.gang(InMemoryCluster(), plugins=[Rule])
    with pytest.raises(InvalidValueError, match="plugins"):
        Profile(Rule)
