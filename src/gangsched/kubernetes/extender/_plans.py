"""The gangs that are decided and not yet bound: which members have arrived, and which are awaited.

Theory of operation. The scheduler decides a whole gang at once. kube-scheduler brings the members
one by one, each through ``filter`` and ``bind``. A bind is held back until every member of the
decision has arrived, then all of them are released in the same instant. A member that was refused
by ``filter`` before the decision is nominated: its ``nominatedNodeName`` is set to the decided
node. That wakes the pod in the queue of kube-scheduler, which then tries that node first, and keeps
pods of lower or equal priority off its capacity meanwhile.

::

    decided -- bind --> arrived -- the last one --> released -- the API server answered --> (gone)
                           |
                           +-- timeout, deletion, misfit --> withdrawn

A client that leaves is a kube-scheduler that does not wait any longer, as its ``httpTimeout`` says.
It has placed the pod, which no later event has contradicted, and it tries it again by itself. If
such a member were awaited again, a gang would start only when the backoffs of all members happen to
end within one ``httpTimeout``.

Rules:
  R1  members are released together, and only while all of them have arrived. A member whose client
      has left counts as arrived for *timeout* seconds more. The groups of one decision, as of a
      bundle, are one gang;
  R2  a member that is decided while its gang is held back joins it, and is waited for too;
  R3  a gang of which no member arrives for the first time within the timeout is withdrawn as a
      whole. Arrivals that are repeated do not prolong it, so the hold is bounded;
  R4  a released member is not withdrawn: its request may have been sent;
  R5  a withdrawn member that is not here counts as refused, so the next decision wakes it. One that
      is here is told, and kube-scheduler tries it again by itself;
  R6  the capacity of a member whose client has left stays reserved, since kube-scheduler assumes
      nothing about it any more. It is reserved until the member is bound, and a moment longer:
      kube-scheduler learns by a watch that it is.

Everything here is pure: requests and instants in, effects out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias, final

from attrs import define, field, frozen

from gangsched.events import Bind
from gangsched.model import GroupKey, NodeName, PodUID
from gangsched.values.seconds import format_duration

__all__ = ["Nominate", "NotDecided", "PlanEffect", "Plans", "Release", "Withdraw"]

_UNSEEN: Final = 1.0
"""For how many seconds a bind may be unknown to a kube-scheduler that did not wait for it."""


class NotDecided(Exception):
    """A pod came to be bound to a node that was not decided for it; the text says which."""


@final
@frozen
class Release:
    """Send these binds to the API server: all members of a decision have arrived."""

    binds: tuple[Bind, ...]


@final
@frozen
class Withdraw:
    """Report these binds as failed, and clear the nominations: nothing of them was sent."""

    binds: tuple[Bind, ...]
    reason: str


@final
@frozen
class Nominate:
    """Set ``nominatedNodeName`` of a pod, which wakes it in the queue of kube-scheduler."""

    uid: PodUID
    node: NodeName


PlanEffect: TypeAlias = Release | Withdraw | Nominate


@define(eq=False)
class _Member:
    """A member of a decision.

    Attributes:
        bind: The decision about it.
        is_here: Whether it has arrived, and its client has not left.
        came: Whether it has ever arrived.
        left_at: When its client left for the last time.
    """

    bind: Bind
    is_here: bool = False
    came: bool = False
    left_at: float = -math.inf


@define(eq=False)
class _Gang:
    """The members that are released together.

    Attributes:
        until: When they are withdrawn.
        groups: Their groups; several for a bundle.
        members: The members.
    """

    until: float = 0.0
    groups: set[GroupKey] = field(factory=set[GroupKey])
    members: dict[PodUID, _Member] = field(factory=dict[PodUID, _Member])


@final
class Plans:
    """The decisions that kube-scheduler has not carried out yet.

    Args:
        timeout: For how many seconds a gang waits for the next of its members.
    """

    __slots__ = ("_gangs", "_of_group", "_of_pod", "_refused", "_released", "_timeout", "_unseen")

    def __init__(self, *, timeout: float) -> None:
        self._timeout = timeout
        self._gangs: dict[_Gang, None] = {}  # in the order of their decisions
        self._of_group: dict[GroupKey, _Gang] = {}
        self._of_pod: dict[PodUID, _Gang] = {}
        self._released: dict[PodUID, Bind] = {}
        self._refused: set[PodUID] = set()
        self._unseen: dict[PodUID, tuple[NodeName, float]] = {}  # released, and its client left

    def __len__(self) -> int:
        """Return how many members are decided and not released."""
        return len(self._of_pod)

    @property
    def held(self) -> int:
        """How many members have arrived and wait for others. O(members)."""
        return sum(each.is_here for gang in self._gangs for each in gang.members.values())

    # What the scheduler decides -----------------------------------------------------------------

    def decided(self, binds: Mapping[GroupKey, Sequence[Bind]], now: float) -> list[PlanEffect]:
        """Take in the binds of one decision, by group."""
        if not binds:
            return []
        gang = self._joined(binds)
        gang.until = now + self._timeout
        effects: list[PlanEffect] = []
        for bind in (bind for members in binds.values() for bind in members):
            if self._released.pop(bind.uid, None) is not None:
                self._unseen.pop(bind.uid, None)
            gang.members[bind.uid] = _Member(bind)
            self._of_pod[bind.uid] = gang
            if bind.uid in self._refused:
                self._refused.discard(bind.uid)
                effects.append(Nominate(bind.uid, bind.node))
        return effects

    def pod_is_gone(self, uid: PodUID) -> list[PlanEffect]:
        """Withdraw the gang of a pod that was deleted."""
        effects = self.withdraw(uid, f"pod {uid} of its gang was deleted")
        self._refused.discard(uid)
        self._unseen.pop(uid, None)
        return effects

    def node_is_gone(self, name: str) -> list[PlanEffect]:
        """Withdraw the gangs that need a node that was deleted. O(members)."""
        gangs = [
            gang
            for gang in self._gangs
            if any(each.bind.node == name for each in gang.members.values())
        ]
        return [self._withdraw(gang, f"node {name} is gone") for gang in gangs]

    def ended(self, bind: Bind, now: float, *, is_bound: bool) -> None:
        """Forget a bind whose end is known."""
        if self._released.get(bind.uid) != bind:
            return
        del self._released[bind.uid]
        if self._unseen.pop(bind.uid, None) is not None and is_bound:
            self._unseen[bind.uid] = bind.node, now + _UNSEEN

    # What kube-scheduler asks -------------------------------------------------------------------

    def bind_of(self, uid: PodUID) -> Bind | None:
        """Return the decision about a pod that has not been carried out; None if there is none."""
        gang = self._of_pod.get(uid)
        return self._released.get(uid) if gang is None else gang.members[uid].bind

    def refuse(self, uid: PodUID) -> None:
        """Note that a pod was refused because nothing is decided about it."""
        self._refused.add(uid)

    def arrive(self, uid: PodUID, node: str, now: float) -> list[PlanEffect]:
        """Take in that a pod came to be bound; the last one of its gang releases all.

        Raises:
            NotDecided: That node was not decided for it.
        """
        bind = self.bind_of(uid)
        if bind is None:
            raise NotDecided(f"nothing is decided about pod {uid}")
        if bind.node != node:
            raise NotDecided(f"pod {uid} was decided to be on node {bind.node}, not on {node}")
        gang = self._of_pod.get(uid)
        if gang is None:
            return []  # it is released: the answer is that of the request under way
        member = gang.members[uid]
        if not member.came:
            gang.until = now + self._timeout
        member.is_here = member.came = True
        members = gang.members.values()
        if not all(self._has_arrived(each, now) for each in members):
            return []
        for each in members:
            if not each.is_here:
                self._unseen[each.bind.uid] = each.bind.node, math.inf
        binds = self._take(gang)
        self._released.update((each.uid, each) for each in binds)
        return [Release(binds)]

    def leave(self, uid: PodUID, now: float) -> None:
        """Take in that the client of a pod has left before the end of its bind was known."""
        gang, released = self._of_pod.get(uid), self._released.get(uid)
        if gang is not None:
            gang.members[uid].is_here = False
            gang.members[uid].left_at = now
        elif released is not None:
            self._unseen[uid] = released.node, math.inf

    def withdraw(self, uid: PodUID, reason: str) -> list[PlanEffect]:
        """Withdraw the gang of a member that is not released."""
        gang = self._of_pod.get(uid)
        return [] if gang is None else [self._withdraw(gang, reason)]

    def withdraw_all(self, reason: str) -> list[PlanEffect]:
        """Withdraw every gang that is not released."""
        return [self._withdraw(gang, reason) for gang in list(self._gangs)]

    # Time ---------------------------------------------------------------------------------------

    def advance(self, now: float) -> list[PlanEffect]:
        """Withdraw the gangs that have waited for too long."""
        for uid in [uid for uid, (_node, until) in self._unseen.items() if until <= now]:
            del self._unseen[uid]
        effects: list[PlanEffect] = []
        for gang in [gang for gang in self._gangs if gang.until <= now]:
            members = gang.members.values()
            here = sum(self._has_arrived(each, now) for each in members)
            seconds = format_duration(self._timeout)
            reason = f"{here} of {len(members)} members came to be bound; no other in {seconds} s"
            effects.append(self._withdraw(gang, reason))
        return effects

    def next_deadline(self) -> float | None:
        """Return when ``advance`` has something to do; None if never."""
        unseen = min((until for _node, until in self._unseen.values()), default=math.inf)
        found = min((gang.until for gang in self._gangs), default=unseen)
        return None if found == math.inf else min(found, unseen)

    # Capacity -----------------------------------------------------------------------------------

    def reserved(self) -> set[NodeName]:
        """Return the nodes of which kube-scheduler does not know yet that a member takes them."""
        decided = {
            each.bind.node
            for gang in self._gangs
            for each in gang.members.values()
            if not each.is_here
        }
        return decided.union(node for node, _until in self._unseen.values())

    def pods_for(self, node: str) -> Iterator[PodUID]:
        """Return the pods that are decided to be on a node, released ones included. O(members)."""
        for gang in self._gangs:
            yield from (uid for uid, each in gang.members.items() if each.bind.node == node)
        yield from (uid for uid, bind in self._released.items() if bind.node == node)

    def _has_arrived(self, member: _Member, now: float) -> bool:
        return member.is_here or (member.came and now - member.left_at < self._timeout)

    def _joined(self, groups: Iterable[GroupKey]) -> _Gang:
        """Return the gang of some groups: a new one, or those that are held back, as one."""
        known = list(dict.fromkeys(self._of_group[g] for g in groups if g in self._of_group))
        gang = known[0] if known else _Gang()
        for other in known[1:]:
            del self._gangs[other]
            gang.groups |= other.groups
            gang.members |= other.members
        gang.groups.update(groups)
        self._gangs[gang] = None
        self._of_group.update(dict.fromkeys(gang.groups, gang))
        self._of_pod.update(dict.fromkeys(gang.members, gang))
        return gang

    def _withdraw(self, gang: _Gang, reason: str) -> PlanEffect:
        members = gang.members.items()
        self._refused.update(uid for uid, each in members if not each.is_here)
        return Withdraw(self._take(gang), reason)

    def _take(self, gang: _Gang) -> tuple[Bind, ...]:
        """Forget a gang, and return its binds."""
        del self._gangs[gang]
        for key in gang.groups:
            del self._of_group[key]
        for uid in gang.members:
            del self._of_pod[uid]
        return tuple(each.bind for each in gang.members.values())

    def _check(self) -> None:
        """Check the invariants."""
        assert {uid: gang for gang in self._gangs for uid in gang.members} == self._of_pod
        assert {key: gang for gang in self._gangs for key in gang.groups} == self._of_group
        assert sum(len(gang.members) for gang in self._gangs) == len(self._of_pod)
        assert sum(len(gang.groups) for gang in self._gangs) == len(self._of_group)
        assert not self._of_pod.keys() & self._released.keys()
        assert not self._refused & self._of_pod.keys()
        for uid, (node, until) in self._unseen.items():
            assert (until == math.inf) == (uid in self._released)
            assert until < math.inf or self._released[uid].node == node
        for gang in self._gangs:
            assert gang.members
            assert gang.groups
            assert not all(each.is_here for each in gang.members.values())
            assert all(each.came for each in gang.members.values() if each.is_here)
