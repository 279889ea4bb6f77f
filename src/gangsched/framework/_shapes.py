"""What an entity asks for, so that entities that ask for the same are known to fail alike.

Rules:
  R1  two entities of one shape get the same answer from the same cluster;
  R2  what is not known in detail is like nothing else, and may always fit.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import groupby
from typing import final

from attrs import frozen

from gangsched._core._capacity import gap
from gangsched._core._counters import MemberState
from gangsched._core._entity import QueuedEntity
from gangsched._core._registry import PodGroupInfo
from gangsched.framework import _points
from gangsched.framework._state import HOLDING, Member, State
from gangsched.framework.pod_class import PodClass
from gangsched.model import Resources
from gangsched.resources import NOTHING

__all__ = ["Shape", "goes_alone", "missing", "needed", "shape"]

_ON_NODES = (*HOLDING, MemberState.ASSIGNED)


@final
@frozen
class Shape:
    """What an entity asks for.

    Attributes:
        needed: How many of its pending members must be placed for a try to succeed.
        runs: How many pending members it has of which class, in the order in which they are
            tried: who is placed first may take the room that another needs.
        floor: What the nodes must have free in all for a try to be made.
    """

    needed: int
    runs: tuple[tuple[PodClass, int], ...]
    floor: Resources = NOTHING


def shape(state: State, entity: QueuedEntity) -> Hashable:
    """Return an entity's ``Shape``, or its number when no other is known to be like it.

    Runtime complexity: O(members log members).
    """
    if not state.profile.signed:
        return entity.seq
    members = sorted((state.members[pod.uid] for pod in entity.pending), key=_arrival)
    runs = groupby(members, key=_class_of)
    counts = tuple((each, len(list(run))) for each, run in runs)
    return Shape(needed(state, entity), counts, _floor(state, entity.group))


def needed(state: State, entity: QueuedEntity) -> int:
    """Return how many of an entity's pending members must be placed for a try to succeed."""
    number = None if entity.group is None else _points.members_needed(state, entity.group)
    return 1 if number is None else max(number, 1)


def goes_alone(state: State, info: PodGroupInfo | None) -> bool:
    """Say whether pending members of a group go one by one, as regular pods do."""
    if info is None:
        return True
    number = _points.members_needed(state, info)
    return number is None or (number <= 0 and info.was_scheduled)


def missing(state: State, info: PodGroupInfo) -> Resources:
    """Return what the nodes have too little of together for a try of a group to be made.

    Runtime complexity: O(1) for a group that asks for nothing in all, else O(members), and
    O(nodes) when a node has changed since the last time.
    """
    return gap(_floor(state, info), state.nodes.total())


def _floor(state: State, info: PodGroupInfo | None) -> Resources:
    """Return what must be free for a group: what it asks for, less what its members hold."""
    if info is None or info.was_scheduled:
        return NOTHING
    floor = _points.group_requests(state, info)
    if floor and info.scheduled:
        for member in state.of_group(info):
            if member.state in _ON_NODES:
                floor -= member.pod.requests
    return floor


def _arrival(member: Member) -> int:
    return member.seq


def _class_of(member: Member) -> PodClass:
    return member.pod_class
