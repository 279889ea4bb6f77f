"""A strategy for roles: of pods, and of copies that consist of roles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from gangsched.constraints import Topology
from gangsched.model import RestartPolicy, Role
from gangsched.strategies._arguments import bound, strategy

__all__ = ["pods_of", "roles", "some_roles"]

_NAMES = ("x", "y", "z")
_MOST = 4
"""The largest count of one role."""


def roles(
    *,
    topologies: st.SearchStrategy[Topology | None] | None = None,
    restarts: st.SearchStrategy[RestartPolicy | None] | None = None,
    max_pods: int = 8,
    max_levels: int = 3,
) -> st.SearchStrategy[dict[str, int | Role]]:
    """Draw the roles of a ``PodGroup`` or of ``gang``, some of which consist of copies.

    Args:
        topologies: The topology constraint of a role; None by default.
        restarts: The restart policy of a role; None by default.
        max_pods: The maximum number of pods of all copies, at least 1.
        max_levels: The maximum number of roles in the path of a pod, at least 1.
    """
    of_topologies = strategy("topologies", topologies, st.none())
    of_restarts = strategy("restarts", restarts, st.none())
    bound("max_pods", max_pods, 1)
    bound("max_levels", max_levels, 1)

    def some(pods: int, levels: int) -> st.SearchStrategy[dict[str, int | Role]]:
        listed = st.lists(one(pods, levels), min_size=1, max_size=len(_NAMES))
        return listed.map(lambda each: _fitting(each, pods))

    @st.composite
    def one(draw: st.DrawFn, pods: int, levels: int) -> int | Role:
        count = draw(st.integers(1, min(pods, _MOST)))
        has_roles = levels > 1 and draw(st.booleans())
        role = Role(
            count,
            draw(st.none() | st.integers(1, count)),
            roles=draw(some(pods // count, levels - 1)) if has_roles else {},
            topology=draw(of_topologies),
            restart=draw(of_restarts),
            evicted_whole=draw(st.booleans()),
        )
        return count if role == Role(count) else role

    return some(max_pods, max_levels)


def some_roles() -> st.SearchStrategy[Role]:
    """Draw single roles, some of which consist of copies."""
    return roles().map(lambda drawn: _as_role(drawn["x"]))


def _as_role(drawn: int | Role) -> Role:
    return drawn if isinstance(drawn, Role) else Role(drawn)


def _fitting(drawn: Sequence[int | Role], pods: int) -> dict[str, int | Role]:
    """Return the first roles of a list that together have at most so many pods."""
    made: dict[str, int | Role] = {}
    for name, role in zip(_NAMES, drawn, strict=False):
        made[name] = role
        if pods_of(made) > pods:
            del made[name]
            break
    return made


def pods_of(of: Mapping[str, int | Role]) -> int:
    """Return how many pods roles have in total."""
    return sum(
        role.count * (pods_of(role.roles) or 1) if isinstance(role, Role) else role
        for role in of.values()
    )
