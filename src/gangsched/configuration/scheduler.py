"""From the profile of the configuration file to a scheduler.

The arguments of ``Coscheduling``, ``DefaultPreemption`` and ``Backfill`` are the fields of the
classes ``Coscheduling``, ``Preemption`` and ``Backfill``; see ``_arguments``. Without an entry of
the latter two, nothing is preempted, and no capacity is reserved.

A plugin of the library that is not a default, or one of the caller's factories, runs if it is
enabled by name. Its ``args`` are the keyword arguments of its factory.

Rules:
  R1  the unit is the whole gang: binds are posted when all of a gang is decided, never before;
  R2  by default a gang of which a bind fails for good is evicted as a whole, because a gang that
      is partly bound holds nodes and does not run;
  R3  a name that stands for no plugin is an error: nothing that is asked for is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, cast

from attrs import evolve

from gangsched import presets
from gangsched.cluster_objects import ClusterObject
from gangsched.configuration._arguments import Arguments
from gangsched.configuration.settings import ProfileSettings, Settings
from gangsched.coscheduling import Coscheduling, WhenBindFails
from gangsched.errors import InvalidValueError
from gangsched.membership import Membership, membership
from gangsched.memory import InMemoryCluster
from gangsched.model import Pod
from gangsched.options import Backfill, PlacementStrategy, Preemption, SchedulingUnit
from gangsched.plugins import (
    SYSTEM_DEFAULT_CONSTRAINTS,
    ImageLocality,
    NodeResources,
    NodeResourcesBalancedAllocation,
    ScoringPodTopologySpread,
)
from gangsched.primitives.backoff import Backoff
from gangsched.profile import Profile
from gangsched.protocols import ClusterState
from gangsched.run_times import RunTimes
from gangsched.scheduler import Scheduler
from gangsched.values.hints import hint

__all__ = [
    "check_settings",
    "make_scheduler",
    "objects_scored",
    "releases_gangs",
    "volume_timeout",
]

_CONFIGURED: Final = (
    *("Backfill", "Coscheduling", "DefaultPreemption", "NodeResourcesFit", "PodTopologySpread"),
    "VolumeBinding",
)
_OF_PODS: Final = ("permit_timeout", "when_blocked", "reject_percentage", "bind_retries")
"""Fields of ``Coscheduling`` about members that wait on permit, and about another default."""
_OF_RUN_TIMES: Final = ("run_times", "overdue_after", "drain_for")
"""Fields of ``Backfill`` that a program has beside its run times."""

_OTHERS: Final[Mapping[str, Callable[..., object]]] = {
    "ImageLocality": ImageLocality,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocation,
}
"""Plugins of the library that run if they are enabled."""

_SORTS: Final = ("PrioritySort", "QOSSort")
"""Plugins that can be disabled, and never run: Coscheduling orders the queue."""


class _Defaulting(Enum):
    """Where the default constraints of ``PodTopologySpread`` come from."""

    SYSTEM = "System"
    LIST = "List"


def make_scheduler(
    settings: Settings,
    cluster: ClusterState,
    *,
    plugins: Iterable[object] = (),
    factories: Mapping[str, Callable[..., object]] | None = None,
    membership: Callable[[Pod], Membership | None] = membership,
    run_times: RunTimes | None = None,
    preempts: bool = True,
) -> Scheduler:
    """Return the scheduler of a configuration.

    Args:
        settings: The configuration.
        cluster: The cluster state.
        plugins: Further plugins, which always run.
        factories: By the name of a plugin, what makes it from its ``args``. Such a plugin runs if
            the configuration enables it, as a plugin that is registered with kube-scheduler does.
        membership: Which group a pod belongs to.
        run_times: The estimates for ``Backfill``; None if run times are unknown.
        preempts: Whether pods may be preempted, if the configuration says so.

    Raises:
        InvalidValueError: A name or an argument is unknown or malformed, or the levels or quotas
            are those of objects that the caller has not read.
        ProfileError: The profile cannot work.
    """
    if settings.levels_from:
        expected = "a list of labels: objects of others are read by gangsched run and simulate only"
        raise InvalidValueError("levels", {"from": settings.levels_from}, expected)
    if settings.quotas_from:
        expected = "a list of quotas: objects of others are read by gangsched run and simulate only"
        raise InvalidValueError("quotas", {"from": settings.quotas_from}, expected)
    profile = settings.profile
    plugins_of = _profile(profile, plugins, factories)
    _policy, placement, budget = _coscheduling(profile)
    volume_timeout(settings)
    preemption = _preemption(profile)
    return Scheduler(
        cluster,
        plugins_of,
        membership=membership,
        unit=SchedulingUnit.GROUP,
        placement=placement,
        search_budget=budget,
        backoff=Backoff(settings.initial_backoff, settings.maximum_backoff),
        preemption=preemption if preempts else None,
        backfill=_backfill(profile, run_times),
        quotas=settings.quotas,
        history=settings.history,
        levels=settings.levels,
    )


def _profile(
    settings: ProfileSettings,
    plugins: Iterable[object],
    factories: Mapping[str, Callable[..., object]] | None,
) -> Profile:
    """Return the plugins of a configuration."""
    made = _made(settings, {**_OTHERS, **(factories or {})})
    known = (*_CONFIGURED, *made)
    for place, name in enumerate(settings.args):
        if name not in known:
            expected = f"one of {', '.join(known)}{hint(name, known)}"
            if ":" in name or name in _OTHERS or name in (factories or {}):
                expected = "the name of an enabled plugin: enable it under plugins.multiPoint first"
            raise InvalidValueError(f"profiles[0].pluginConfig[{place}].name", name, expected)
    policy, _placement, _budget = _coscheduling(settings)
    every = presets.coscheduling_profile(policy, plugins=(*plugins, *made.values()))
    return _without(every, settings, _fit(settings), _spread(settings))


def _coscheduling(settings: ProfileSettings) -> tuple[Coscheduling, PlacementStrategy, int]:
    """Return the gang policy, the placement of gangs and the budget of a search."""
    given = Arguments("Coscheduling", settings)
    default = WhenBindFails.RELEASE_GROUP
    fields = given.options(Coscheduling, absent=_OF_PODS, when_bind_fails=default)
    placement = given.choice("placement", PlacementStrategy, PlacementStrategy.AUTO)
    budget = given.whole("searchBudget", 10_000)
    given.close()
    return Coscheduling(**fields), placement, budget


def check_settings(
    settings: Settings,
    *,
    plugins: Iterable[object] = (),
    factories: Mapping[str, Callable[..., object]] | None = None,
) -> None:
    """Check all of a configuration that can be checked without a cluster.

    The scheduler is made on an empty cluster, and dropped: what is accepted here is accepted later.

    Args:
        settings: The configuration.
        plugins: Further plugins.
        factories: By the name of a plugin, what makes it.

    Raises:
        InvalidValueError: A name or an argument is unknown or malformed.
        ProfileError: The profile cannot work.
    """
    settings = evolve(settings, levels_from="", quotas_from="")  # which only a cluster knows
    make_scheduler(settings, InMemoryCluster(), plugins=plugins, factories=factories)


def objects_scored(
    settings: Settings,
    *,
    plugins: Iterable[object] = (),
    factories: Mapping[str, Callable[..., object]] | None = None,
) -> frozenset[type[ClusterObject]]:
    """Return the classes of objects that only scores of a configuration depend on.

    Raises:
        InvalidValueError: A name or an argument is unknown or malformed.
        ProfileError: The profile cannot work.
    """
    return _profile(settings.profile, plugins, factories).objects_scored


def releases_gangs(settings: Settings) -> bool:
    """Return whether a gang is evicted as a whole after its first bind that fails for good."""
    given = settings.profile.args.get("Coscheduling", {}).get("whenBindFails")
    return given in (None, WhenBindFails.RELEASE_GROUP.value)


def volume_timeout(settings: Settings) -> float:
    """Return for how many seconds a bind waits for its volumes.

    Raises:
        InvalidValueError: An argument of ``VolumeBinding`` is unknown or malformed.
    """
    given = Arguments("VolumeBinding", settings.profile)
    seconds = given.whole("bindTimeoutSeconds", 600)
    given.close()
    return float(seconds)


def _without(profile: Profile, settings: ProfileSettings, *instead: object | None) -> Profile:
    """Return a profile without the disabled plugins, and with the weights.

    Each of *instead* that is given stands for the plugin of its name.
    """
    names = {_name(plugin) for plugin in profile.plugins}
    able = {name for name in names if _needed_at(profile, name) is None}
    for name in sorted(settings.disabled - {"*"}):
        path = settings.disabled_at.get(name, "profiles[0].plugins.*.disabled[].name")
        if name not in names and name not in _SORTS:
            expected = f"one of {', '.join(sorted(able))}{hint(name, able)}"
            raise InvalidValueError(path, name, expected)
        if name in names - able:
            point = _needed_at(profile, name)
            expected = f"the name of a plugin that can be absent: no other has the point {point}"
            raise InvalidValueError(path, name, expected)
    # "*" clears the defaults of kube-scheduler, so that only what is enabled runs: not here
    if "*" in settings.disabled:
        expected = "the name of a plugin: without its plugins, no constraint would hold"
        path = settings.disabled_at.get("*", "profiles[0].plugins.*.disabled[].name")
        raise InvalidValueError(path, "*", expected)
    given = {_name(plugin): plugin for plugin in instead if plugin is not None}
    every = [given.get(_name(plugin), plugin) for plugin in profile.plugins]
    kept = [plugin for plugin in every if _name(plugin) not in settings.disabled]
    scoring = {_name(plugin) for plugin in kept if callable(getattr(plugin, "score", None))}
    for name in settings.weights:
        if name not in scoring:
            path = settings.weights_at.get(name, "profiles[0].plugins.*.enabled[].weight")
            why = "is disabled" if name in settings.disabled else "has no score"
            raise InvalidValueError(path, settings.weights[name], f"absent: {name} {why}")
    return Profile(*kept, weights=settings.weights)


def _needed_at(profile: Profile, name: str) -> str | None:
    """Return the point at which a plugin is the only one, if the point needs one."""
    at = {"queue_sort": (profile.queue_sort,), "bind": profile.bind}
    for point, plugins in at.items():
        if [_name(plugin) for plugin in plugins] == [name]:
            return point
    return None


def _made(
    profile: ProfileSettings, factories: Mapping[str, Callable[..., object]]
) -> dict[str, object]:
    """Return the plugins that are enabled and are not defaults, by name."""
    defaults = {_name(plugin) for plugin in presets.coscheduling_profile().plugins}
    made: dict[str, object] = {}
    for name in profile.enabled:
        if name in defaults:
            continue
        factory = factories.get(name)
        if factory is None:
            known = sorted({*defaults, *factories})
            own = "or MODULE:NAME for a plugin of your own"
            expected = f"one of {', '.join(known)}, {own}{hint(name, known)}"
            path = profile.enabled_at.get(name, "profiles[0].plugins.*.enabled[].name")
            raise InvalidValueError(path, name, expected)
        args = dict(profile.args.get(name, {}))
        for field in ("apiVersion", "kind"):
            args.pop(field, None)
        try:
            made[name] = factory(**args)
        except (TypeError, ValueError) as error:
            where = f"profiles[0].pluginConfig[{name}].args"
            raise InvalidValueError(where, args, f"its arguments: {error}") from error
    return made


def _name(plugin: object) -> str:
    return str(cast("Any", plugin).name)


def _preemption(profile: ProfileSettings) -> Preemption | None:
    if "DefaultPreemption" not in profile.args:
        return None
    given = Arguments("DefaultPreemption", profile)
    found = Preemption(**given.options(Preemption))
    given.close()
    return found


def _spread(profile: ProfileSettings) -> ScoringPodTopologySpread | None:
    """Return the plugin that scores ``ScheduleAnyway``; None if it is not configured."""
    if "PodTopologySpread" not in profile.args:
        return None
    given = Arguments("PodTopologySpread", profile)
    kind = given.choice("defaultingType", _Defaulting, _Defaulting.SYSTEM)
    constraints = given.constraints("defaultConstraints")
    given.close()
    if kind is _Defaulting.LIST:
        return ScoringPodTopologySpread(constraints, requires_labels=True)
    if constraints:
        expected = "absent with defaultingType: System"
        shown = [one.topology_key for one in constraints]
        raise InvalidValueError(given.path("defaultConstraints"), shown, expected)
    return ScoringPodTopologySpread(SYSTEM_DEFAULT_CONSTRAINTS)


def _fit(profile: ProfileSettings) -> NodeResources:
    """Return the plugin that filters and scores by resources."""
    given = Arguments("NodeResourcesFit", profile)
    found = given.strategy("scoringStrategy")
    given.close()
    return found


def _backfill(profile: ProfileSettings, run_times: RunTimes | None) -> Backfill | None:
    if "Backfill" not in profile.args:
        return None
    given = Arguments("Backfill", profile)
    found = Backfill(run_times, **given.options(Backfill, absent=_OF_RUN_TIMES))
    given.close()
    return found
