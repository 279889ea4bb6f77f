"""Profile: which plugins run, and with which weights.

Rules:
  R1  a plugin runs at every extension point whose method it has, in the order of the profile;
  R2  a profile that cannot work is refused with a ``ProfileError`` when it is built. It needs
      exactly one queue sort plugin and at least one bind plugin. A method that needs another, such
      as ``reserve`` and ``unreserve``, must come with it. Names are unique, every plugin has an
      extension point, and only score plugins have weights.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, cast, final

from gangsched.cluster_objects import KINDS, ClusterObject
from gangsched.errors import InvalidValueError, ProfileError
from gangsched.model import FrozenMap
from gangsched.primitives.quorum import MatchPolicy
from gangsched.profile import checked
from gangsched.profile.signing import signs_node_alone
from gangsched.protocols import (
    BindPlugin,
    FilterPlugin,
    GangExtensions,
    NodeExtensions,
    ObjectExtensions,
    PermitPlugin,
    PodExtensions,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueExtensions,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
    SignatureExtensions,
    StateExtensions,
    StateKey,
)

__all__ = ["POINTS", "Profile"]

POINTS: Final = (
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
"""Every extension point, in the order in which they run for a pod that is placed."""


_EXTENSIONS: Final[tuple[type[Any], ...]] = (
    *(SignatureExtensions, PodExtensions, ObjectExtensions, NodeExtensions),
    *(QueueExtensions, GangExtensions, StateExtensions),
)
_GROUP_WIDE: Final = ("pre_filter", "reserve", "permit")
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "reserve": ("unreserve",),
    "unreserve": ("reserve",),
    "account": ("queue_sort",),
    "share": ("queue_sort",),
    "normalize_score": ("score",),
    "scores_in_cycle": ("score",),
    "add_pod": ("remove_pod", "pre_filter", "reads_pods"),
    "remove_pod": ("add_pod",),
    "cluster_headroom": ("reads_pods",),
    "pods_affected": ("reads_pods",),
    "pods_selected": ("reads_pods",),
    "hindered_within": ("reads_pods", "filter"),
    "topology_keys": ("reads_pods", "node_group"),
    "node_group": ("topology_keys",),
    "nodes_named": ("reads_pods",),
    "objects_read": ("pod_signature",),
    "objects_scored": ("normalize_score",),
    "volume_choices": ("reserve",),
    "members_needed": ("permit",),
    "roles_needed": ("members_needed",),
    "group_requests": ("permit",),
    "snapshot": ("restore",),
    "restore": ("snapshot",),
}
"""Methods that are useless without others."""


@final
class Profile:
    """The plugins of a scheduler.

    >>> from gangsched.plugins import DefaultBinder, NodeResources, PrioritySort
    >>> Profile(PrioritySort(), NodeResources(), DefaultBinder(), weights={"NodeResources": 2})
    Traceback (most recent call last):
    ...
    gangsched.errors.ProfileError: weights: 'NodeResources' is not a plugin with a score; these \
are: 'NodeResourcesFit'

    Args:
        plugins: The plugins, in order.
        weights: By the name of a score plugin, the int >= 1 by which its scores are multiplied;
            1 for a plugin that is not named.

    Attributes:
        plugins: The plugins, in order.
        weights: The weights that were given.
        queue_sort: The plugin that orders the queue.
        pre_enqueue: The plugins that run at this point; likewise for every other point.
        group_wide: By point, the plugins that answer for all members of a gang at once, and those
            that are asked about each member.
        quorum: The first plugin with a ``match_policy`` or ``members_needed``; None without one.
        match_policy: Which members count for a quorum; None if *quorum* itself counts them.
        minima_first: Whether a cycle places no more members of a gang than it needs.
        objects_scored: The classes of objects that only scores depend on.
        not_checked: The attributes of pods that are constraints, and that no plugin checks. A pod
            with one is held.
        scratch_keys: By name, the keys of cycle state that a snapshot contains.

    Raises:
        ProfileError: The profile cannot work; names the extension point and the plugins.
        InvalidValueError: A plugin is a class, not an instance.
    """

    def __init__(self, *plugins: object, weights: Mapping[str, int] | None = None) -> None:
        for plugin in plugins:
            if isinstance(plugin, type):
                expected = f"instances of plugins, such as {plugin.__name__}(), not a class"
                raise InvalidValueError("plugins", plugin, expected)
        names = [self._name(plugin) for plugin in plugins]
        for name in names:
            if names.count(name) > 1:
                raise ProfileError("profile", f"two plugins are named {name!r}")
        at: dict[str, tuple[Any, ...]] = {point: self._with(plugins, point) for point in POINTS}
        for plugin, name in zip(plugins, names, strict=True):
            for kind in _EXTENSIONS:
                if kind in type(plugin).__mro__:  # it would seem to have all methods of the class
                    problem = f"{name!r} inherits from {kind.__name__}"
                    raise ProfileError("profile", f"{problem}; an option is declared by its method")
            if not any(plugin is one for given in at.values() for one in given):
                raise ProfileError("profile", f"{name!r} has no method of an extension point")
        self._check(plugins, at)
        self.plugins: Final = plugins
        self.queue_sort: Final[QueueSortPlugin] = at["queue_sort"][0]
        self.pre_enqueue: Final[tuple[PreEnqueuePlugin, ...]] = at["pre_enqueue"]
        self.pre_filter: Final[tuple[PreFilterPlugin, ...]] = at["pre_filter"]
        self.filter: Final[tuple[FilterPlugin, ...]] = at["filter"]
        self.post_filter: Final[tuple[PostFilterPlugin, ...]] = at["post_filter"]
        self.pre_score: Final[tuple[PreScorePlugin, ...]] = at["pre_score"]
        self.score: Final[tuple[ScorePlugin, ...]] = at["score"]
        self.reserve: Final[tuple[ReservePlugin, ...]] = at["reserve"]
        self.permit: Final[tuple[PermitPlugin, ...]] = at["permit"]
        self.pre_bind: Final[tuple[PreBindPlugin, ...]] = at["pre_bind"]
        self.bind: Final[tuple[BindPlugin, ...]] = at["bind"]
        self.post_bind: Final[tuple[PostBindPlugin, ...]] = at["post_bind"]
        self.weights: Final[FrozenMap[int]] = self._weights(at["score"], weights)
        self.group_wide: Final[dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]]] = {
            point: (
                tuple(p for p in at[point] if point in self._group_wide(p)),
                tuple(p for p in at[point] if point not in self._group_wide(p)),
            )
            for point in _GROUP_WIDE
        }
        rules: tuple[Any, ...] = tuple(filter(_counts, plugins))
        self.quorum: Final[GangExtensions | None] = next(iter(rules), None)
        self.match_policy: Final[MatchPolicy | None] = _policy(self.quorum)
        self.minima_first: Final = bool(getattr(self.quorum, "minima_first", False))
        self.objects_scored: Final[frozenset[type[ClusterObject]]] = self._scored()
        self.not_checked: Final[tuple[str, ...]] = checked.not_checked(plugins)
        self.scratch_keys: Final[dict[str, StateKey[Any]]] = self._scratch_keys(plugins)
        for plugin in self.having("node_signature"):
            signs_node_alone(plugin)

    def having(self, method: str) -> tuple[Any, ...]:
        """Return the plugins that have a method, in order. O(plugins)."""
        return self._with(self.plugins, method)

    @staticmethod
    def _with(plugins: tuple[Any, ...], method: str) -> tuple[Any, ...]:
        return tuple(p for p in plugins if callable(getattr(p, method, None)))

    def _scored(self) -> frozenset[type[ClusterObject]]:
        found: set[type[ClusterObject]] = set()
        for plugin in self.having("objects_scored"):
            given: Any = plugin.objects_scored()
            kinds: tuple[Any, ...] = (None,)
            with suppress(TypeError):
                kinds = tuple(given)
            if not all(kind in KINDS.values() for kind in kinds):
                expected = "classes in gangsched.cluster_objects.KINDS"
                problem = f"{self._name(plugin)!r} returned {given!r}, expected {expected}"
                raise ProfileError("objects_scored", problem)
            found.update(kinds)
        return frozenset(found)

    @classmethod
    def _group_wide(cls, plugin: object) -> Collection[str]:
        given: Any = getattr(plugin, "group_wide", ())
        points: frozenset[str] = frozenset({"?"})
        with suppress(TypeError):
            points = frozenset(given)
        if isinstance(given, str) or not points <= {*_GROUP_WIDE}:
            expected = "a collection of names out of " + ", ".join(_GROUP_WIDE)
            problem = f"{cls._name(plugin)!r} has {given!r}, expected {expected}"
            raise ProfileError("group_wide", problem)
        return points

    @classmethod
    def _weights(cls, scoring: tuple[Any, ...], given: Any) -> FrozenMap[int]:
        if given is None:
            return FrozenMap()
        if not isinstance(given, Mapping):
            expected = "a mapping of names of score plugins to ints"
            raise ProfileError("weights", f"{given!r} is not {expected}")
        weights = cast("Mapping[object, Any]", given)
        names = [cls._name(plugin) for plugin in scoring]
        for name, weight in weights.items():
            if name not in names:
                found = ", ".join(map(repr, names)) or "none"
                problem = f"{name!r} is not a plugin with a score; these are: {found}"
                raise ProfileError("weights", problem)
            if type(weight) is not int or weight < 1:
                problem = f"the weight of {name!r} must be an int >= 1, got {weight!r}"
                raise ProfileError("weights", problem)
        return FrozenMap((str(name), weight) for name, weight in weights.items())

    @classmethod
    def _scratch_keys(cls, plugins: tuple[Any, ...]) -> dict[str, StateKey[Any]]:
        keys: dict[str, StateKey[Any]] = {}
        for plugin in plugins:
            found: Iterable[Any] = getattr(plugin, "state_keys", ())
            for key in found:
                if not issubclass(type(key), StateKey):
                    problem = f"{cls._name(plugin)!r} has {key!r}, expected a StateKey"
                    raise ProfileError("state_keys", problem)
                if keys.setdefault(key.name, key) is not key:
                    raise ProfileError("state_keys", f"two keys are named {key.name!r}")
        return keys

    @staticmethod
    def _name(plugin: object) -> str:
        name = getattr(plugin, "name", None)
        if not isinstance(name, str) or not name:
            raise ProfileError("profile", f"{plugin!r} has no name")
        return name

    @classmethod
    def _check(cls, plugins: tuple[Any, ...], at: Mapping[str, tuple[object, ...]]) -> None:
        sorts = at["queue_sort"]
        if len(sorts) != 1:
            found = ", ".join(map(cls._name, sorts)) or "none"
            raise ProfileError("queue_sort", f"expected exactly one plugin, got {found}")
        if not at["bind"]:
            raise ProfileError("bind", "expected at least one plugin, got none")
        for method, others in _NEEDED.items():
            for plugin in cls._with(plugins, method):
                for other in others:
                    if not callable(getattr(plugin, other, None)):
                        raise ProfileError(method, f"{cls._name(plugin)!r} has no {other}")
        for plugin in cls._with(plugins, "add_pod"):
            # the count is kept in the cycle of each member, so each member has to be counted
            if "pre_filter" in getattr(plugin, "group_wide", ()):
                name = cls._name(plugin)
                raise ProfileError("add_pod", f"{name!r} names pre_filter in group_wide")


def _counts(plugin: Any) -> bool:
    """Return whether a plugin says which members of a gang count."""
    has_policy = isinstance(getattr(plugin, "match_policy", None), MatchPolicy)
    return has_policy or callable(getattr(plugin, "members_needed", None))


def _policy(plugin: Any) -> MatchPolicy | None:
    if callable(getattr(plugin, "members_needed", None)):
        return None
    found: MatchPolicy = getattr(plugin, "match_policy", MatchPolicy.ONCE_SATISFIED)
    return found
