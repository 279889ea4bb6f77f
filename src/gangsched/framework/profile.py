"""Profile: which plugins run, checked when it is built.

Rules:
  R1  a plugin runs at every point whose method it has, in the order in which plugins are given;
  R2  a profile that cannot work is refused when it is made: not exactly one queue sort, no bind,
      a reserve without its unreserve, two plugins of one name, a plugin without any point.
"""

from __future__ import annotations

from typing import Any, Final, final

from attrs import field, frozen

from gangsched.errors import ProfileError
from gangsched.protocols import (
    BindPlugin,
    FilterPlugin,
    PermitPlugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
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


@final
@frozen(init=False)
class Profile:
    """The plugins of a scheduler.

    Attributes:
        plugins: The plugins, in order.
        queue_sort: The one plugin that orders the queue.
        signed: Whether every filter and score plugin says on which part of a pod it depends, and
            none prepares scores per cycle, so that like pods are evaluated once.

    Raises:
        ProfileError: The profile cannot work; names the point and the plugins.
    """

    plugins: tuple[object, ...]
    queue_sort: QueueSortPlugin
    pre_enqueue: tuple[PreEnqueuePlugin, ...]
    pre_filter: tuple[PreFilterPlugin, ...]
    filter: tuple[FilterPlugin, ...]
    post_filter: tuple[PostFilterPlugin, ...]
    pre_score: tuple[PreScorePlugin, ...]
    score: tuple[ScorePlugin, ...]
    reserve: tuple[ReservePlugin, ...]
    permit: tuple[PermitPlugin, ...]
    pre_bind: tuple[PreBindPlugin, ...]
    bind: tuple[BindPlugin, ...]
    post_bind: tuple[PostBindPlugin, ...]
    signed: bool
    _signers: tuple[Any, ...] = field(repr=False)
    _headrooms: tuple[Any, ...] = field(repr=False)

    def __init__(self, *plugins: object) -> None:
        names = [self._name(plugin) for plugin in plugins]
        for name in names:
            if names.count(name) > 1:
                raise ProfileError("profile", f"two plugins are named {name!r}")
        at = {
            point: tuple(p for p in plugins if callable(getattr(p, point, None)))
            for point in POINTS
        }
        for plugin, name in zip(plugins, names, strict=True):
            if not any(plugin in given for given in at.values()):
                raise ProfileError("profile", f"{name!r} has no method of an extension point")
        self._check(at)
        judging = tuple(dict.fromkeys((*at["filter"], *at["score"])))
        signers = tuple(p for p in judging if callable(getattr(p, "pod_signature", None)))
        given: dict[str, Any] = {
            **{point: found for point, found in at.items() if point != "unreserve"},
            "queue_sort": at["queue_sort"][0],
        }
        self.__attrs_init__(
            plugins=plugins,
            **given,
            signed=len(signers) == len(judging) and not at["pre_score"],
            signers=signers,
            headrooms=tuple(p for p in at["filter"] if callable(getattr(p, "headroom", None))),
        )

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
                if plugin not in at[other]:
                    raise ProfileError(one, f"{cls._name(plugin)!r} has no {other}")
