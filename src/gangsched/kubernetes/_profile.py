"""From the profile of the configuration file to a scheduler.

===============  =================================================================================
plugin           arguments
===============  =================================================================================
Coscheduling     ``order``, ``matchPolicy``, ``whenBindFails``, ``minimaFirst``, ``placement``,
                 ``searchBudget``
NodeResourcesFit ``scoringStrategy: {type: LeastAllocated | MostAllocated}``
DefaultPreemption ``graceSeconds``, ``searchBudget``; without the entry, nothing is preempted
Backfill         ``afterAttempts``, ``afterSeconds``, ``leastMembers``; without it, none
===============  =================================================================================

Rules:
  R1  the unit is the whole gang: binds are posted when all of a gang is decided, never before;
  R2  by default a gang of which a bind fails for good is released as a whole, because a gang that
      is partly bound holds nodes and does not run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final, TypeVar, cast

from gangsched import presets
from gangsched._core._backoff import Backoff
from gangsched._core._ordering import Order
from gangsched._core._quorum import MatchPolicy
from gangsched.coscheduling import Coscheduling, WhenBindFails
from gangsched.errors import InvalidValueError
from gangsched.framework import (
    Backfill,
    PlacementStrategy,
    Preemption,
    Profile,
    Scheduler,
    SchedulingUnit,
)
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._settings import ProfileSettings, Settings
from gangsched.plugins import Strategy

__all__ = ["make_scheduler", "releases_gangs"]

E = TypeVar("E", bound=Enum)

_STRATEGIES: Final = {
    "LeastAllocated": Strategy.LEAST_ALLOCATED,
    "MostAllocated": Strategy.MOST_ALLOCATED,
}
_CONFIGURED: Final = ("Backfill", "Coscheduling", "DefaultPreemption", "NodeResourcesFit")


def make_scheduler(settings: Settings, cache: Cache, plugins: Iterable[object] = ()) -> Scheduler:
    """Return the scheduler of a configuration.

    Args:
        settings: The configuration.
        cache: The cluster state.
        plugins: Further plugins.

    Raises:
        InvalidValueError: An argument of a plugin is unknown or malformed.
        ProfileError: The profile cannot work.
    """
    profile = settings.profile
    for name in profile.args:
        if name not in _CONFIGURED:
            expected = f"one of {', '.join(_CONFIGURED)}"
            raise InvalidValueError("profiles[0].pluginConfig[].name", name, expected)
    gang = _Args("Coscheduling", profile)
    policy = Coscheduling(
        order=gang.choice("order", Order, Order.LAST_FAILURE),
        match_policy=gang.choice("matchPolicy", MatchPolicy, MatchPolicy.ONCE_SATISFIED),
        when_bind_fails=gang.choice("whenBindFails", WhenBindFails, WhenBindFails.RELEASE_GROUP),
        minima_first=gang.flag("minimaFirst"),
    )
    placement = gang.choice("placement", PlacementStrategy, PlacementStrategy.AUTO)
    budget = gang.whole("searchBudget", 10_000)
    gang.close()
    fit = _Args("NodeResourcesFit", profile)
    strategy = fit.strategy()
    fit.close()
    return Scheduler(
        cache.cluster,
        _without(
            presets.coscheduling_profile(policy, strategy=strategy, plugins=plugins),
            profile,
        ),
        membership=cache.membership,
        unit=SchedulingUnit.GROUP,
        placement=placement,
        search_budget=budget,
        backoff=Backoff(settings.initial_backoff, settings.maximum_backoff),
        preemption=_preemption(profile),
        backfill=_backfill(profile),
    )


def releases_gangs(settings: Settings) -> bool:
    """Return whether a gang that is partly bound is released."""
    given = settings.profile.args.get("Coscheduling", {}).get("whenBindFails")
    return given in (None, WhenBindFails.RELEASE_GROUP.value)


def _without(profile: Profile, settings: ProfileSettings) -> Profile:
    """Return a profile without the disabled plugins, and with the weights."""
    names = {_name(plugin) for plugin in profile.plugins}
    for name in sorted(settings.disabled):
        if name != "*" and name not in names:
            expected = f"one of {', '.join(sorted(names))}"
            raise InvalidValueError("profiles[0].plugins.*.disabled[].name", name, expected)
    # "*" clears the defaults of kube-scheduler, so that only what is enabled runs: not here
    if "*" in settings.disabled:
        expected = "the name of a plugin: without its plugins, no constraint would hold"
        raise InvalidValueError("profiles[0].plugins.*.disabled[].name", "*", expected)
    kept = [plugin for plugin in profile.plugins if _name(plugin) not in settings.disabled]
    return Profile(*kept, weights=settings.weights)


def _name(plugin: object) -> str:
    return str(cast("Any", plugin).name)


def _preemption(profile: ProfileSettings) -> Preemption | None:
    if "DefaultPreemption" not in profile.args:
        return None
    given = _Args("DefaultPreemption", profile)
    found = Preemption(
        grace=given.seconds("graceSeconds", 60.0), search_budget=given.whole("searchBudget", 500)
    )
    given.close()
    return found


def _backfill(profile: ProfileSettings) -> Backfill | None:
    if "Backfill" not in profile.args:
        return None
    given = _Args("Backfill", profile)
    found = Backfill(
        after_attempts=given.whole("afterAttempts", 1, least=1),
        after_seconds=given.seconds("afterSeconds", 0.0),
        least_members=given.whole("leastMembers", 2, least=1),
    )
    given.close()
    return found


class _Args:
    """The arguments of one plugin, each of which is read once."""

    def __init__(self, plugin: str, profile: ProfileSettings) -> None:
        self._plugin = plugin
        self._given: dict[str, Any] = dict(profile.args.get(plugin, {}))
        # the same fields in every args of kube-scheduler
        self._given.pop("apiVersion", None)
        self._given.pop("kind", None)

    def path(self, name: str) -> str:
        return f"profiles[0].pluginConfig[{self._plugin}].args.{name}"

    def choice(self, name: str, kind: type[E], default: E) -> E:
        given = self._given.pop(name, None)
        if given is None:
            return default
        for each in kind:
            if each.value == given:
                return each
        expected = f"one of {', '.join(str(each.value) for each in kind)}"
        raise InvalidValueError(self.path(name), given, expected)

    def whole(self, name: str, default: int, *, least: int = 0) -> int:
        given = self._given.pop(name, default)
        if type(given) is not int or given < least:
            raise InvalidValueError(self.path(name), given, f"a whole number >= {least}")
        return given

    def flag(self, name: str) -> bool:
        given = self._given.pop(name, False)
        if type(given) is not bool:
            raise InvalidValueError(self.path(name), given, "true or false")
        return given

    def seconds(self, name: str, default: float) -> float:
        given = self._given.pop(name, default)
        if type(given) not in (int, float) or not 0 <= given <= 1e9:
            raise InvalidValueError(self.path(name), given, "a number of seconds >= 0")
        return float(given)

    def strategy(self) -> Strategy:
        given = self._given.pop("scoringStrategy", None)
        if given is None:
            return Strategy.LEAST_ALLOCATED
        fields = dict(cast("Mapping[str, Any]", given)) if isinstance(given, Mapping) else {}
        kind = fields.pop("type", None)
        if kind not in _STRATEGIES or fields:
            expected = f"a mapping with type: {' or '.join(_STRATEGIES)}, and nothing else"
            raise InvalidValueError(self.path("scoringStrategy"), cast("object", given), expected)
        return _STRATEGIES[str(kind)]

    def close(self) -> None:
        for name, value in self._given.items():
            raise InvalidValueError(self.path(name), value, "absent: it is not an argument here")
