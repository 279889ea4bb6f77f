"""How many members a gang lacks, by the sub groups of its tree.

The gang policy says it for each group. A group of a bundle that has started, and has too few
pending members for another quorum, lacks nothing: the others do not wait for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from gangsched.core.records.gang import GangRecord
from gangsched.core.state import State
from gangsched.model import GroupKey
from gangsched.primitives.group_info import PodGroupInfo

__all__ = ["SATISFIED", "Lacks", "lacking", "lacks_of", "more_needed", "rests"]

SATISFIED: Final = -(1 << 30)
"""What a sub group lacks that its policy has been satisfied with: less than it can ever lose."""
Lacks: TypeAlias = Mapping[GroupKey, Mapping[str, int]]
"""How many more members each sub group of each group needs; those that are left out need none."""


def lacks_of(state: State, gang: GangRecord) -> Lacks:
    """Return how many more members each group needs. O(sub groups)."""
    return {key: state.points.roles_needed(info) for key, info in gang.infos.items()}


def lacking(state: State, gang: GangRecord, lacks: Lacks | None = None) -> dict[str, int]:
    """Return how many more members each sub group needs for its minimum, by its key. O(tree)."""
    return {key: max(more, 0) for key, more in more_needed(state, gang, lacks).items()}


def more_needed(state: State, gang: GangRecord, lacks: Lacks | None = None) -> dict[str, int]:
    """Return how many more members each sub group needs; negative for one that has more. O(tree).

    Args:
        state: The state.
        gang: The gang.
        lacks: What ``lacks_of`` has returned just now; None to ask it.
    """
    lacks = lacks_of(state, gang) if lacks is None else lacks
    if not lacks:
        return {"": 1}
    found: dict[str, int] = {}
    for each in gang.tree.sub_groups():
        info = None if each.group is None else gang.infos.get(each.group)
        if info is None:
            found[each.key] = each.least
        elif len(lacks) > 1 and not gang.is_tree and rests(state, info):
            found[each.key] = 0
        else:
            found[each.key] = lacks[info.key].get(gang.path_of(each), SATISFIED)
    return found


def rests(state: State, info: PodGroupInfo) -> bool:
    """Return whether a group has started, and has too few pending members for another quorum."""
    if not info.was_scheduled:
        return False
    return state.points.roles_needed(info).get("", 0) > info.unscheduled + info.waiting
