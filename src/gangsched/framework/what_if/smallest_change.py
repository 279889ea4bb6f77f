"""The least number of nodes with which a group would start.

Rules:
  R1  each number is tried, from 0 on: what starts with some nodes need not start with more, as
      others that have their turn before may start then, and take what it needs;
  R2  a trial is all nodes at once, and then what ``Ahead`` does;
  R3  the search ends early only where no number can help: nodes make no members. Who has them now,
      and loses some on the way, may keep them with more nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from gangsched.errors import UnknownPodError
from gangsched.events import GroupScheduled, NodeAdded
from gangsched.explain import NotEnoughMembers
from gangsched.framework.config.cycle_state import CycleState
from gangsched.framework.nodes.node_class import NodeClass, Snapshot
from gangsched.framework.runtime import extension_points, filter_and_score
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.what_if import simulate
from gangsched.framework.what_if import why as answers
from gangsched.framework.what_if.simulate import Ahead
from gangsched.model import GroupKey, Node, NodeName
from gangsched.outcomes import Unschedulable
from gangsched.protocols import FourCalls
from gangsched.what_if import Insufficient, SmallestChange, Sufficient

__all__ = ["search"]


def search(
    calls: FourCalls,
    state: State,
    key: GroupKey,
    shape: Node,
    *,
    most: int,
    now: float,
    until: float | None,
) -> SmallestChange:
    """Return with how many more nodes a group would start by an instant.

    Args:
        calls: The scheduler.
        state: What it remembers.
        key: The group.
        shape: The node; its name is what the names of those that are added begin with.
        most: How many nodes are tried at most.
        now: The instant.
        until: By when it has to start; None for at once, or, while it rests, for when its rest
            ends.

    Raises:
        UnknownPodError: Nobody has heard of the group.
    """
    known, entity = state.registry.get(key), state.entities.get(key)
    if known is not None and known.was_scheduled:
        return Sufficient(key, shape, 0, now, None)
    if until is None:
        until = now if entity is None else max(now, entity.backoff_until)
    number = 0
    lacks_members = False
    while True:
        ahead = simulate.look(calls, state, now)
        if not number:
            lacks_members = _lacks_members(ahead, key)
        for node in _fresh(ahead, shape, number):
            ahead.tell(NodeAdded(node))
        ahead.run(until)
        info = ahead.state.registry.get(key)
        if info is None:
            raise UnknownPodError(str(key))
        if info.was_scheduled:
            return Sufficient(key, shape, number, now, _started_at(ahead, key))
        if lacks_members and isinstance(answers.why(ahead.state, key), NotEnoughMembers):
            break
        if number == most:
            break
        number += 1
    why = answers.why(ahead.state, key)
    return Insufficient(key, shape, number, until, why, _refusal(ahead.state, key, shape, until))


def _lacks_members(ahead: Ahead, key: GroupKey) -> bool:
    """Say whether a group has too few members before anything is decided."""
    if ahead.state.registry.get(key) is None:
        ahead.take_in()
    known = ahead.state.registry.get(key) is not None
    return known and isinstance(answers.why(ahead.state, key), NotEnoughMembers)


def _fresh(ahead: Ahead, shape: Node, number: int) -> Iterator[Node]:
    """Yield so many nodes of a shape, of names that nobody has."""
    suffix = 0
    for _node in range(number):
        while ahead.cluster.node(NodeName(f"{shape.name}-{suffix}")) is not None:
            suffix += 1
        yield evolve(shape, name=NodeName(f"{shape.name}-{suffix}"))
        suffix += 1


def _started_at(ahead: Ahead, key: GroupKey) -> float | None:
    """Return when a group started; None if it had before."""
    told = (at for at, effect in reversed(ahead.timed) if _is_start(effect, key))
    return next(told, None)


def _is_start(effect: object, key: GroupKey) -> bool:
    return isinstance(effect, GroupScheduled) and effect.group == key


def _refusal(state: State, key: GroupKey, shape: Node, now: float) -> str:
    """Say why a node of a shape takes none of a group's pending members.

    Empty where it takes one, and where one is turned down before any node is looked at.
    """
    entity = state.entities.get(key)
    empty = NodeClass(None, 0, Snapshot(shape, dict(shape.allocatable), 0))
    reasons: dict[str, None] = {}
    for pod in () if entity is None else entity.pending:
        member = state.members[pod.uid]
        cycle = CycleState(member.group, state.nodes.infos)
        # of each, also what is asked once for a group: filters read what was written there
        if isinstance(extension_points.pre_filter(state, cycle, pod, now), Unschedulable):
            return ""
        _room, refused = filter_and_score.judge_nodes(state, cycle, member, now)[1].screen(empty)
        if not refused:
            return ""
        reasons[", ".join(refused)] = None
    return "; ".join(reasons)
