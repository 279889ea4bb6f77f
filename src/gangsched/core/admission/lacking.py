"""How many members a gang lacks, by the sub groups of its tree.

The gang policy says it for each group. A group of a bundle that has started, and has too few
pending members for another quorum, lacks nothing: the others do not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, TypeAlias

from gangsched.core.records.gang import GangRecord
from gangsched.core.state import State
from gangsched.model import GroupKey
from gangsched.primitives.counters import MemberState
from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.group_info import HOLDING, PodGroupInfo

__all__ = ["SATISFIED", "Lacks", "lacking", "lacks_of", "more_needed", "rests", "short_of"]

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


def short_of(
    gang: GangRecord,
    infos: Iterable[PodGroupInfo],
    held: Collection[MemberState] = HOLDING,
) -> Callable[[SubGroup], int]:
    """Return how many members each sub group of some groups lacks, whatever the policy is.

    Members that have succeeded count as in ``standing``; 0 or less if the minimum is met.
    """
    lacking = {info.key: info.stands(held, pending=()).lacking for info in infos}

    def lacks(sub: SubGroup) -> int:
        of_group = None if sub.group is None else lacking.get(sub.group)
        return sub.least if of_group is None else of_group.get(gang.path_of(sub), 0)

    return lacks


def rests(state: State, info: PodGroupInfo) -> bool:
    """Return whether a group has started, and has too few pending members for another quorum."""
    if not info.was_scheduled:
        return False
    return state.points.roles_needed(info).get("", 0) > info.unscheduled + info.waiting
