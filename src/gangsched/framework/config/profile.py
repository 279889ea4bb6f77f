"""Profile: which plugins run, checked when it is built.

Rules:
  R1  a plugin runs at every point whose method it has, in the order in which plugins are given;
  R2  a profile that cannot work is refused when it is made: not exactly one queue sort, no bind,
      a reserve without its unreserve, two plugins of one name, a plugin without any point.
"""

from __future__ import annotations

from typing import Any, Final, final

from gangsched.errors import ProfileError
from gangsched.protocols import (
    BindPlugin,
    FilterPlugin,
    Fitting,
    GroupRequests,
    Headroom,
    KeepsState,
    NodeLabelsRead,
    NodeSignature,
    PermitPlugin,
    PodSignature,
    PodsRead,
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


@final
class Profile:
    """The plugins of a scheduler.

    Attributes:
        plugins: The plugins, in order.
        queue_sort: The one plugin that orders the queue.
        pre_enqueue: Those that run at this point; likewise for every other point.
        group_wide: Those that answer for all members of a gang at once, by point; see
            ``gangsched.protocols.GroupWide``.
        per_member: Those that have to be asked about each member, at the same points.
        signed: Whether every filter and score plugin says on which part of a pod it depends, and
            none prepares scores per cycle, so that like pods are evaluated once.
        signers: Those that say on which part of a pod they depend.
        node_signers: Those that say on which part of a node they depend; empty when one of the
            filter and score plugins does not say.
        label_readers: Those of them that read labels of nodes.
        parts: For plugins that tell few nodes apart, by identity: which part of a node's class is
            theirs, and whether they read labels too.
        pod_readers: Those filter and score plugins that may read which pods are on nodes.
        headrooms: The filters that bound how many pods a node could take.
        fittings: The filters that say which resources they fit pods to.
        quorum: The first permit plugin that says how many members a group needs; None for the
            rule ``once_satisfied``.
        roles: The same plugin, where it says which roles a group needs too.
        requests: The permit plugins that say what a group needs of the cluster in all.
        keepers: Those that keep something between calls, and say what; see
            ``gangsched.protocols.KeepsState``.
        scratch_keys: The keys of what plugins write into a cycle and a snapshot keeps, by name; see
            ``gangsched.protocols.KeepsScratch``.

    Raises:
        ProfileError: The profile cannot work; names the point and the plugins.
    """

    def __init__(self, *plugins: object) -> None:
        names = [self._name(plugin) for plugin in plugins]
        for name in names:
            if names.count(name) > 1:
                raise ProfileError("profile", f"two plugins are named {name!r}")
        at: dict[str, tuple[Any, ...]] = {point: self._with(plugins, point) for point in POINTS}
        for plugin, name in zip(plugins, names, strict=True):
            if not any(plugin is one for given in at.values() for one in given):
                raise ProfileError("profile", f"{name!r} has no method of an extension point")
        self._check(at)
        self._check_extensions(plugins)
        # told apart by identity: a plugin need be neither comparable nor hashable
        judging: list[Any] = list({id(p): p for p in (*at["filter"], *at["score"])}.values())
        signers = self._with(tuple(judging), "pod_signature")
        self.plugins: Final = plugins
        self.group_wide: Final[dict[str, tuple[Any, ...]]] = {
            point: tuple(p for p in at[point] if point in getattr(p, "group_wide", ()))
            for point in _GROUP_WIDE
        }
        self.per_member: Final[dict[str, tuple[Any, ...]]] = {
            point: tuple(p for p in at[point] if point not in getattr(p, "group_wide", ()))
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
        self.pre_bind: Final[tuple[PreBindPlugin, ...]] = at["pre_bind"]
        self.bind: Final[tuple[BindPlugin, ...]] = at["bind"]
        self.post_bind: Final[tuple[PostBindPlugin, ...]] = at["post_bind"]
        self.signed: Final = len(signers) == len(judging) and not at["pre_score"]
        self.signers: Final[tuple[PodSignature, ...]] = signers
        sighted: tuple[NodeSignature, ...] = self._with(tuple(judging), "node_signature")
        said = len(sighted) == len(judging)
        self.node_signers: Final[tuple[NodeSignature, ...]] = sighted if said else ()
        self.label_readers: Final[tuple[NodeLabelsRead, ...]] = self._with(
            self.node_signers, "labels_read"
        )
        readers = {id(reader) for reader in self.label_readers}
        self.parts: Final[dict[int, tuple[int, bool]]] = {
            id(plugin): (number, id(plugin) in readers)
            for number, plugin in enumerate(self.node_signers)
            if not callable(getattr(plugin, "headroom", None))
        }
        self.pod_readers: Final[tuple[PodsRead, ...]] = self._with(tuple(judging), "reads_pods")
        self.headrooms: Final[tuple[Headroom, ...]] = self._with(at["filter"], "headroom")
        self.fittings: Final[tuple[Fitting, ...]] = self._with(at["filter"], "fitted")
        rules: tuple[QuorumRule, ...] = self._with(at["permit"], "members_needed")
        self.quorum: Final[QuorumRule | None] = next(iter(rules), None)
        by_role: tuple[RoleRule, ...] = self._with(rules[:1], "roles_needed")
        self.roles: Final[RoleRule | None] = next(iter(by_role), None)
        self.requests: Final[tuple[GroupRequests, ...]] = self._with(at["permit"], "group_requests")
        self.keepers: Final[tuple[KeepsState, ...]] = self._keepers(plugins)
        self.scratch_keys: Final[dict[str, StateKey[Any]]] = self._scratch_keys(plugins)

    @staticmethod
    def _with(plugins: tuple[Any, ...], method: str) -> tuple[Any, ...]:
        return tuple(p for p in plugins if callable(getattr(p, method, None)))

    @classmethod
    def _keepers(cls, plugins: tuple[Any, ...]) -> tuple[Any, ...]:
        both = cls._with(cls._with(plugins, "snapshot"), "restore")
        for point in ("snapshot", "restore"):
            for plugin in cls._with(plugins, point):
                if not any(plugin is one for one in both):
                    other = "restore" if point == "snapshot" else "snapshot"
                    raise ProfileError(point, f"{cls._name(plugin)!r} has no {other}")
        return both

    @classmethod
    def _scratch_keys(cls, plugins: tuple[Any, ...]) -> dict[str, StateKey[Any]]:
        keys: dict[str, StateKey[Any]] = {}
        for plugin in plugins:
            for key in getattr(plugin, "state_keys", ()):
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
    def _check(cls, at: dict[str, tuple[object, ...]]) -> None:
        sorts = at["queue_sort"]
        if len(sorts) != 1:
            found = ", ".join(map(cls._name, sorts)) or "none"
            raise ProfileError("queue_sort", f"expected exactly one plugin, got {found}")
        if not at["bind"]:
            raise ProfileError("bind", "expected at least one plugin, got none")
        for one, other in (("reserve", "unreserve"), ("unreserve", "reserve")):
            for plugin in at[one]:
                if not any(plugin is one for one in at[other]):
                    raise ProfileError(one, f"{cls._name(plugin)!r} has no {other}")

    @classmethod
    def _check_extensions(cls, plugins: tuple[Any, ...]) -> None:
        """Check the plugins that keep a count of pods in the cycle; see ``PreFilterExtensions``."""
        required = ("add_pod", "remove_pod", "pre_filter", "reads_pods")
        for point in required[:2]:
            for plugin in cls._with(plugins, point):
                for other in required:
                    if not callable(getattr(plugin, other, None)):
                        raise ProfileError(point, f"{cls._name(plugin)!r} has no {other}")
                if "pre_filter" in getattr(plugin, "group_wide", ()):
                    raise ProfileError(
                        point, f"{cls._name(plugin)!r} names pre_filter in group_wide"
                    )
