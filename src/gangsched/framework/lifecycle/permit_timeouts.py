"""The end of waits on permit.

Rules:
  R1  a gang of which a member waited in vain falls once, however many of its waits end at once.
"""

from __future__ import annotations

import math

from gangsched._core._counters import MemberState
from gangsched._core._entity import QueuedEntity
from gangsched._core._registry import PodGroupInfo
from gangsched._seconds import format_duration
from gangsched.framework.lifecycle import reject
from gangsched.framework.queueing import equivalence, requeue
from gangsched.framework.runtime import extension_points
from gangsched.framework.state.scheduler_state import State
from gangsched.model import GroupKey, NodeName
from gangsched.outcomes import EvictGroup, RejectGroup

__all__ = ["expire"]


def expire(state: State, *, now: float, begun_before: float = math.inf) -> None:
    """End the waits whose deadline has come. O(k log n) for k of them, plus what follows.

    Args:
        state: The scheduler's memory.
        now: The current instant.
        begun_before: Only waits that began before this instant.
    """
    falling: dict[GroupKey, RejectGroup | EvictGroup] = {}
    freed: dict[GroupKey, list[NodeName]] = {}
    alone: dict[int, tuple[QueuedEntity, list[NodeName]]] = {}
    for waiting in state.waiting.expire(now=now, begun_before=begun_before):
        member = state.members[waiting.uid]
        verdict = reject.release_node(
            state, member, cause="timeout", to=MemberState.UNSCHEDULED, now=now
        )
        reason = f"timed out after waiting {format_duration(now - waiting.since)}s on permit"
        reject.set_down(state, member, waiting.node, reason)
        verdict = verdict or _implied(state, member.group, reason)
        if verdict is not None:
            falling.setdefault(verdict.group, verdict)
            freed.setdefault(verdict.group, []).append(waiting.node)
        else:
            reject.settle_hold(state, member.group)
            entity = member.entity
            alone.setdefault(entity.seq, (entity, []))[1].append(waiting.node)
    for entity, nodes in alone.values():
        if entity.group is not None and entity.group.key in falling:
            freed[entity.group.key] += nodes
            continue
        reject.fail_entity(state, entity, now=now)
        requeue.gain(state, nodes, now=now)
    for key, verdict in falling.items():
        reject.carry_out(state, verdict, now=now, freed=freed[key])


def _implied(state: State, info: PodGroupInfo | None, reason: str) -> RejectGroup | None:
    """Let a gang fall that lost its quorum, though no plugin says so: its attempt is over."""
    if info is None or equivalence.goes_alone(state, info):
        return None
    needed = extension_points.members_needed(state, info)
    return None if needed is None or needed <= 0 else RejectGroup(info.key, reason)
