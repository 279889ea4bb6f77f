"""Why a parent is absent that a group waits for.

A child whose parent is absent is held by the scheduler. Only what watches the cluster knows whether
such an object was never made, cannot be read, or is of a kind that is not served.
"""

from __future__ import annotations

from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._facts import COMPOSITE_KIND
from gangsched.model import GroupKey

__all__ = ["why_absent"]


def why_absent(cache: Cache, key: GroupKey) -> tuple[GroupKey, str] | None:
    """Return a parent above a group that is not there, and more about it; None if there is none.

    O(levels).
    """
    seen: list[GroupKey] = []
    group = cache.cluster.pod_group(key)
    while group is not None and group.parent is not None and group.parent not in seen:
        parent = group.parent
        if cache.namesake(parent) is not None:
            name = parent.partition("/")[2]
            return (
                parent,
                f"a PodGroup and a {COMPOSITE_KIND} are called {name}: rename one of them",
            )
        group = cache.cluster.pod_group(parent)
        if group is None:
            unreadable = cache.unreadable_group(parent)
            if unreadable is not None:
                return parent, f"its {unreadable.dialect.kind} cannot be read: {unreadable}"
            return parent, cache.unread_composites()
        seen.append(parent)
    return None
