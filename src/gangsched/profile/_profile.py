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
from gangsched.profile import checked
from gangsched.profile.signing import (
    Signing,
    evaluates_nodes,
    signers_of_capacity,
    signs_allocatable,
    signs_in_cycle,
)
from gangsched.protocols import (
    BindPlugin,
    ChoosesVolumes,
    ClusterHeadroom,
    EvaluatesNodes,
    FilterPlugin,
    Fitting,
    GroupRequests,
    Headroom,
    KeepsState,
    NodeLabelsRead,
    NodeSignature,
    NormalizeScore,
    ObjectsRead,
    ObjectsScored,
    PermitPlugin,
    PodEnded,
    PodsAffected,
    PodSignature,
    PodsRead,
    PodsSelected,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    QuorumRule,
    ReservePlugin,
    RoleRule,
    ScorePlugin,
    ScoresByPods,
    SkipsPods,
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


_GROUP_WIDE: Final = ("pre_filter", "reserve", "permit")
_PAIRS: Final = (
    ("reserve", "unreserve"),
    ("unreserve", "reserve"),
    ("normalize_score", "score"),
    ("add_pod", "remove_pod"),
    ("remove_pod", "add_pod"),
    ("add_pod", "pre_filter"),
    ("add_pod", "reads_pods"),
    ("pods_affected", "reads_pods"),
    ("cluster_headroom", "reads_pods"),
    ("pods_selected", "reads_pods"),
    ("nodes_named", "reads_pods"),
    ("topology_keys", "reads_pods"),
    ("topology_keys", "node_group"),
    ("node_group", "topology_keys"),
    ("hindered_within", "reads_pods"),
    ("hindered_within", "filter"),
    ("skips", "filter"),
    ("objects_read", "pod_signature"),
    ("scores_by_pods", "reads_pods"),
    ("scores_by_pods", "normalize_score"),
    ("objects_scored", "normalize_score"),
    ("ignores", "pod_signature"),
    ("volume_choices", "reserve"),
    ("snapshot", "restore"),
    ("restore", "snapshot"),
)
"""Methods of which the first is useless without the second."""


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
        permit_names: The names of the permit plugins, in order.
        queue_sort: The plugin that orders the queue.
        pre_enqueue: The plugins that run at this point; likewise for every other point.
        group_wide: By point, the plugins that answer for all members of a gang at once; see
            ``gangsched.protocols.GroupWide``.
        per_member: By point, the plugins that are asked about each member.
        weighted: The score plugins, each with its weight.
        normalizers: The score plugins that normalize their scores, by identity.
        signed: Whether like pods are evaluated once: every filter and score plugin gives a pod
            signature, and no plugin prepares or normalizes scores in each cycle.
        signs_in_cycle: What signs a pod within one cycle, for each plugin that filters or scores;
            empty if one of them has no such method.
        signers: The filter and score plugins that give a pod signature.
        signing: The same, with those that need not be asked about most pods.
        node_signers: The filter and score plugins that give a node signature; empty if one of them
            gives none.
        signers_of_capacity: Those of them that read what pods change of a node, with their index.
        signs_allocatable: Whether each of these tells nodes apart that offer different amounts.
        label_readers: The node signers that read node labels.
        parts: By identity of a node signer, the index of its part in the key of a node class,
            whether it reads labels, and whether pods change the part. A plugin with ``headroom``
            distinguishes too many nodes to be here.
        evaluating: The filter and score plugin that evaluates nodes in one call, if it is the only
            one that reads what pods change of a node; else None.
        pod_readers: The filter and score plugins that may read the pods on nodes; see
            ``gangsched.protocols.PodsRead``.
        pod_watchers: Those of them whose answers depend on these pods; the others read nodes one by
            one because of their names, see ``gangsched.protocols.NamesNodes``.
        scoring_by_pods: Those of the score plugins that may read, in a cycle, the pods on nodes for
            a pod of which ``reads_pods`` is false; see ``gangsched.protocols.ScoresByPods``.
        affecting: Those of them whose pods may affect other pods; see
            ``gangsched.protocols.PodsAffected``.
        affecting_scores: Whether one of these scores nodes.
        selecting: Those of the pod readers that say which pods they select; see
            ``gangsched.protocols.PodsSelected``.
        skipping: The filter plugins that may accept every node for a pod, by identity.
        object_readers: The plugins that may read other objects of the cluster; see
            ``gangsched.protocols.ObjectsRead``.
        objects_scored: The classes of objects that only scores depend on; see
            ``gangsched.protocols.ObjectsScored``.
        end_listeners: The plugins that are notified when a bound pod ends; see
            ``gangsched.protocols.PodEnded``.
        event_driven: Those of the object readers whose refusal in ``pre_filter`` only an event can
            change: all that they read of a pod is in its signature.
        not_checked: The attributes of pods that are constraints, and that no plugin checks; see
            ``gangsched.protocols.ChecksConstraints``. A pod with one is held.
        ignoring: Whether a plugin says with which pods it has nothing to do; see
            ``gangsched.protocols.IgnoresPods``.
        volume_choosers: The reserve plugins that choose volumes; see
            ``gangsched.protocols.ChoosesVolumes``.
        headrooms: The filter plugins that bound how many pods a node can take.
        cluster_headrooms: The pod readers that bound how many pods the cluster can take.
        fittings: The filter plugins that name the resources which a pod must find free.
        quorum: The first permit plugin with a quorum rule; None for the rule ``once_satisfied``.
        roles: The same plugin, if it has a rule for roles; else None.
        minima_first: Whether a cycle places no more members of a gang than it needs; see
            ``gangsched.protocols.MinimaFirst``.
        requests: The permit plugins that state the total request of a group.
        keepers: The plugins that keep state between calls, and write it into a snapshot; see
            ``gangsched.protocols.KeepsState``.
        scratch_keys: By name, the keys of cycle state that a snapshot contains; see
            ``gangsched.protocols.KeepsScratch``.

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
            if not any(plugin is one for given in at.values() for one in given):
                raise ProfileError("profile", f"{name!r} has no method of an extension point")
        self._check(plugins, at)
        # by identity, since a plugin need be neither comparable nor hashable
        judging: list[Any] = list({id(p): p for p in (*at["filter"], *at["score"])}.values())
        signers = self._with(tuple(judging), "pod_signature")
        self.plugins: Final = plugins
        self.group_wide: Final[dict[str, tuple[Any, ...]]] = {
            point: tuple(p for p in at[point] if point in self._group_wide(p))
            for point in _GROUP_WIDE
        }
        self.per_member: Final[dict[str, tuple[Any, ...]]] = {
            point: tuple(p for p in at[point] if point not in self._group_wide(p))
            for point in _GROUP_WIDE
        }
        self.queue_sort: Final[QueueSortPlugin] = at["queue_sort"][0]
        self.pre_enqueue: Final[tuple[PreEnqueuePlugin, ...]] = at["pre_enqueue"]
        self.pre_filter: Final[tuple[PreFilterPlugin, ...]] = at["pre_filter"]
        self.filter: Final[tuple[FilterPlugin, ...]] = at["filter"]
        self.post_filter: Final[tuple[PostFilterPlugin, ...]] = at["post_filter"]
        self.pre_score: Final[tuple[PreScorePlugin, ...]] = at["pre_score"]
        self.score: Final[tuple[ScorePlugin, ...]] = at["score"]
        self.reserve: Final[tuple[ReservePlugin, ...]] = at["reserve"]
        self.permit: Final[tuple[PermitPlugin, ...]] = at["permit"]
        self.permit_names: Final = tuple([self._name(plugin) for plugin in self.permit])
        self.pre_bind: Final[tuple[PreBindPlugin, ...]] = at["pre_bind"]
        self.bind: Final[tuple[BindPlugin, ...]] = at["bind"]
        self.post_bind: Final[tuple[PostBindPlugin, ...]] = at["post_bind"]
        self.weights: Final[FrozenMap[int]] = self._weights(at["score"], weights)
        self.weighted: Final[tuple[tuple[ScorePlugin, int], ...]] = tuple(
            (plugin, self.weights.get(self._name(plugin), 1)) for plugin in self.score
        )
        self.normalizers: Final[dict[int, NormalizeScore]] = {
            id(plugin): plugin for plugin in self._with(at["score"], "normalize_score")
        }
        evaluates_per_cycle = bool(self.pre_score or self.normalizers)
        self.signed: Final = len(signers) == len(judging) and not evaluates_per_cycle
        self.signs_in_cycle: Final = signs_in_cycle((*judging, *at["pre_score"]))
        self.signers: Final[tuple[PodSignature, ...]] = signers
        self.signing: Final = Signing(signers)
        sighted: tuple[NodeSignature, ...] = self._with(tuple(judging), "node_signature")
        all_sighted = len(sighted) == len(judging)
        self.node_signers: Final[tuple[NodeSignature, ...]] = sighted if all_sighted else ()
        self.signers_of_capacity: Final[tuple[tuple[int, NodeSignature], ...]] = (
            signers_of_capacity(self.node_signers)
        )
        # the answers of any other plugin are kept by its part of the signature
        self.signs_allocatable: Final = bool(self.signers_of_capacity) and all(
            signs_allocatable(plugin) for _n, plugin in self.signers_of_capacity
        )
        self.label_readers: Final[tuple[NodeLabelsRead, ...]] = self._with(
            self.node_signers, "labels_read"
        )
        readers = {id(reader) for reader in self.label_readers}
        changing = {n for n, _plugin in self.signers_of_capacity}
        self.parts: Final[dict[int, tuple[int, bool, bool]]] = {
            id(plugin): (number, id(plugin) in readers, number in changing)
            for number, plugin in enumerate(self.node_signers)
            if not callable(getattr(plugin, "headroom", None))
        }
        self.evaluating: Final[EvaluatesNodes | None] = self._evaluating(judging)
        self.pod_readers: Final[tuple[PodsRead, ...]] = self._with(tuple(judging), "reads_pods")
        self.pod_watchers: Final[tuple[PodsRead, ...]] = tuple(
            p for p in self.pod_readers if not callable(getattr(p, "nodes_named", None))
        )
        self.scoring_by_pods: Final[tuple[ScoresByPods, ...]] = self._with(
            at["score"], "scores_by_pods"
        )
        self.affecting: Final[tuple[PodsAffected, ...]] = self._with(
            self.pod_readers, "pods_affected"
        )
        self.affecting_scores: Final[bool] = any(
            callable(getattr(plugin, "score", None)) for plugin in self.affecting
        )
        self.selecting: Final[tuple[PodsSelected, ...]] = self._with(
            self.pod_readers, "pods_selected"
        )
        self.skipping: Final[dict[int, SkipsPods]] = {
            id(plugin): plugin for plugin in self._with(at["filter"], "skips")
        }
        self.object_readers: Final[tuple[ObjectsRead, ...]] = self._with(plugins, "objects_read")
        self.objects_scored: Final[frozenset[type[ClusterObject]]] = self._scored(at["score"])
        self.end_listeners: Final[tuple[PodEnded, ...]] = self._with(plugins, "pod_ended")
        self.event_driven: Final[tuple[ObjectsRead, ...]] = self._with(signers, "objects_read")
        self.volume_choosers: Final[tuple[ChoosesVolumes, ...]] = self._with(
            at["reserve"], "volume_choices"
        )
        self.ignoring: Final = bool(self._with(signers, "ignores"))
        self.headrooms: Final[tuple[Headroom, ...]] = self._with(at["filter"], "headroom")
        self.cluster_headrooms: Final[tuple[ClusterHeadroom, ...]] = self._with(
            self.pod_readers, "cluster_headroom"
        )
        self.fittings: Final[tuple[Fitting, ...]] = self._with(at["filter"], "fitted")
        rules: tuple[QuorumRule, ...] = self._with(at["permit"], "members_needed")
        self.quorum: Final[QuorumRule | None] = next(iter(rules), None)
        by_role: tuple[RoleRule, ...] = self._with(rules[:1], "roles_needed")
        self.roles: Final[RoleRule | None] = next(iter(by_role), None)
        self.minima_first: Final = bool(getattr(self.quorum, "minima_first", False))
        self.requests: Final[tuple[GroupRequests, ...]] = self._with(at["permit"], "group_requests")
        self.not_checked: Final[tuple[str, ...]] = checked.not_checked(plugins)
        self.keepers: Final[tuple[KeepsState, ...]] = self._with(plugins, "snapshot")
        self.scratch_keys: Final[dict[str, StateKey[Any]]] = self._scratch_keys(plugins)

    def __reduce__(self) -> tuple[Any, ...]:
        # built anew, since some attributes are keyed by the identity of plugins
        return _unpickled, (self.plugins, dict(self.weights))

    @staticmethod
    def _with(plugins: tuple[Any, ...], method: str) -> tuple[Any, ...]:
        return tuple(p for p in plugins if callable(getattr(p, method, None)))

    def _evaluating(self, judging: Iterable[Any]) -> EvaluatesNodes | None:
        changing = {id(plugin) for _n, plugin in self.signers_of_capacity}
        asked = [p for p in judging if id(p) in changing or id(p) not in self.parts]
        if not self.signed or len(asked) != 1 or not evaluates_nodes(asked[0]):
            return None
        # such a plugin is not always asked about classes of nodes
        if self._with((*asked,), "reads_pods") or self._with((*asked,), "skips"):
            return None
        found: EvaluatesNodes = asked[0]
        return found

    @classmethod
    def _scored(cls, scoring: tuple[Any, ...]) -> frozenset[type[ClusterObject]]:
        found: set[type[ClusterObject]] = set()
        plugins: tuple[ObjectsScored, ...] = cls._with(scoring, "objects_scored")
        for plugin in plugins:
            given: Any = plugin.objects_scored()
            kinds: tuple[Any, ...] = (None,)
            with suppress(TypeError):
                kinds = tuple(given)
            if not all(kind in KINDS.values() for kind in kinds):
                expected = "classes in gangsched.cluster_objects.KINDS"
                problem = f"{cls._name(plugin)!r} returned {given!r}, expected {expected}"
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
        for method, needed in _PAIRS:
            for plugin in cls._with(plugins, method):
                if not callable(getattr(plugin, needed, None)):
                    raise ProfileError(method, f"{cls._name(plugin)!r} has no {needed}")
        for plugin in cls._with(plugins, "add_pod"):
            # the count is kept in the cycle of each member, so each member has to be counted
            if "pre_filter" in getattr(plugin, "group_wide", ()):
                name = cls._name(plugin)
                raise ProfileError("add_pod", f"{name!r} names pre_filter in group_wide")


def _unpickled(plugins: tuple[object, ...], weights: dict[str, int]) -> Profile:
    return Profile(*plugins, weights=weights)
