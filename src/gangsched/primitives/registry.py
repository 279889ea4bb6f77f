"""The pod group registry: which pod groups are known, and what states them.

Theory of operation. A group exists because of a specification (``set_spec``), of members
(``join``), or of both. A field of the specification overrides what members claim on their labels.
Without a specification, the first member that claims a minimum sets the group's minimum: if that
member changes its labels or leaves, the next one does. Without a priority in a specification, the
group has the highest priority of its members.

A member that contradicts the group is refused when it joins. A member that has joined stays a
member even if it contradicts the group later.

When the last member leaves, the group is kept for *grace* seconds. A controller that deletes and
recreates all pods then finds the same group: its number, its place in the queue, its failures.

Invariants (checked by ``_check``):
  I1  a group is known exactly while it has a specification or a member, or its grace period runs;
  I2  minimum and priority follow from the specification and the members' claims, as above;
  I3  a query never creates or changes a group;
  I4  group numbers ascend and are never reused: a group that returns after its grace period is a
      new group.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, KeysView

from gangsched.errors import InternalError, InvalidPodGroupError, InvalidValueError, UnknownPodError
from gangsched.membership import Membership
from gangsched.model import GroupKey, Pod, PodGroup, PodUID
from gangsched.primitives.counters import MemberState
from gangsched.primitives.group_info import TO_BE_PLACED, PodGroupInfo
from gangsched.quantity import is_seconds
from gangsched.values.fields import check_now

__all__ = ["PodGroupRegistry"]


def _check_claim(pod: Pod, claim: Membership) -> None:
    if not isinstance(pod, Pod):
        raise InvalidValueError("pod", pod, "a Pod")
    if not isinstance(claim, Membership):
        raise InvalidValueError("claim", claim, "a Membership")


def _named(spec: PodGroup | None) -> Collection[GroupKey]:
    """Return the groups that a specification names."""
    if spec is None:
        return ()
    return spec.bundle if spec.parent is None else (spec.parent,)


class PodGroupRegistry:
    """The known pod groups.

    Runtime complexity: every method is O(1) amortised, with these exceptions. ``update_claim`` of a
    member that claims a minimum and claimed none before is O(members). ``expire`` is O(groups that
    are due). ``set_spec`` and ``delete_spec`` are O(groups of the bundle). Iteration is O(groups).

    Not thread-safe.

    Attributes:
        earliest: No grace period ends before this instant.

    Args:
        grace: The number of seconds for which a group is kept after its last member left; finite,
            >= 0. With 0 the group is deleted at once.
        strict_priorities: Whether a member with another priority than its group is refused. If not,
            the priority of the group decides.

    Raises:
        InvalidValueError: *grace* is invalid.
    """

    __slots__ = (
        "_grace",
        "_groups",
        "_left",
        "_naming",
        "_numbers",
        "_strict_priorities",
        "earliest",
    )

    def __init__(self, grace: float = 0.0, *, strict_priorities: bool = True) -> None:
        if not is_seconds(grace) or grace < 0:
            raise InvalidValueError("grace", grace, "a finite number of seconds >= 0")
        self._grace = grace
        self._strict_priorities = strict_priorities
        self._groups: dict[GroupKey, PodGroupInfo] = {}
        self._naming: dict[GroupKey, dict[GroupKey, None]] = {}
        self._left: dict[GroupKey, float] = {}  # end of the grace period, the earliest first
        self.earliest: float = math.inf
        self._numbers = 0

    @property
    def is_strict(self) -> bool:
        """Whether a member with another priority than its group is refused."""
        return self._strict_priorities

    def set_spec(self, group: PodGroup) -> PodGroupInfo:
        """Store a specification, new or changed, and return its group.

        Raises:
            InvalidValueError: *group* is not a ``PodGroup``; nothing has changed.
        """
        if not isinstance(group, PodGroup):
            raise InvalidValueError("group", group, "a PodGroup")
        info = self._groups.get(group.key) or self._create(group.key)
        self._specify(info, group)
        return info

    def delete_spec(self, key: GroupKey, *, now: float) -> None:
        """Delete a specification; the group remains while it has members.

        Raises:
            InvalidValueError: *now* is not an instant; nothing has changed.
        """
        check_now(now)
        info = self._groups.get(key)
        if info is not None:
            self._specify(info, None)
            self._forget_if_empty(info, now=now)

    def conflict(self, pod: Pod, claim: Membership) -> InvalidPodGroupError | None:
        """Return how *pod* contradicts the group that it claims; None if it does not.

        Raises:
            InvalidValueError: *pod* is not a ``Pod``, or *claim* is not a ``Membership``.
        """
        _check_claim(pod, claim)
        info = self._groups.get(claim.group)
        if info is None:
            return None
        if info.spec is not None and info.spec.min_groups is not None:
            subject, expected = f"pod {pod.key}", "a group of pods; it has min_groups, so no pods"
            return InvalidPodGroupError(subject, "pod_group", info.key, expected)
        minimum = claim.min_available
        # A specification overrides labels, so that the order of arrival does not matter.
        stated_min = info.claimed_min if info.spec is None else None
        if minimum != stated_min and minimum is not None and stated_min is not None:
            subject = f"pod {pod.key}"
            expected = f"{stated_min}, the value of the first member of {info.key}"
            return InvalidPodGroupError(subject, "min_available", minimum, expected)
        if not self._strict_priorities:
            return None
        stated = info.claimed_priority if info.stated_priority is None else info.stated_priority
        if stated is not None and pod.priority != stated:
            subject = f"pod {pod.key}"
            expected = f"{stated}, the priority of {info.key}"
            return InvalidPodGroupError(subject, "priority", pod.priority, expected)
        return None

    def join(
        self, pod: Pod, claim: Membership, state: MemberState = MemberState.UNSCHEDULED
    ) -> PodGroupInfo:
        """Add a member, and create the group if the member is the first.

        Args:
            pod: The member.
            claim: The claim of the member, see ``gangsched.membership.membership``.
            state: The state of the member. A member that is bound, terminating, finished or
                refused is added even if it contradicts the group: it cannot be kept off a node.

        Raises:
            InvalidPodGroupError: The member contradicts the group; nothing has changed.
            InvalidValueError: An argument has a wrong type; nothing has changed.
        """
        if state not in TO_BE_PLACED:
            _check_claim(pod, claim)
        elif (problem := self.conflict(pod, claim)) is not None:
            raise problem
        info = self._groups.get(claim.group) or self._create(claim.group)
        if state is not MemberState.REFUSED:
            info.claims.put(pod.uid, (claim.min_available, pod.priority))
            self._read_claims(info)
            if info.first_seen_at is None:
                info.first_seen_at = pod.created_at
            self._left.pop(info.key, None)
        info.members.set(pod.uid, state)
        info.add_role(pod.uid, claim.role)
        return info

    def update_claim(self, pod: Pod, claim: Membership, state: MemberState) -> bool:
        """Update the claim of a member that has joined before.

        The member stays a member even if it contradicts the others now. If it is the first
        member, the group takes its minimum.

        Args:
            pod: The member.
            claim: The current claim of the member, for the same group.
            state: The new state of the member. The claim of a refused member does not count.

        Returns:
            Whether the minimum or the priority that members claim has changed.

        Raises:
            InvalidValueError: An argument has a wrong type; nothing has changed.
            UnknownPodError: *pod* has not joined the group; nothing has changed.
        """
        _check_claim(pod, claim)
        if type(state) is not MemberState:
            raise InvalidValueError("state", state, "a MemberState")
        info = self._groups.get(claim.group)
        if info is None or pod.uid not in info.members:
            raise UnknownPodError(pod.uid)
        says = None if state is MemberState.REFUSED else (claim.min_available, pod.priority)
        if says == info.claims.get(pod.uid):
            return False
        before = (info.claimed_min, info.claimed_priority)
        if says is None:
            info.claims.discard(pod.uid)
        else:
            info.claims.put(pod.uid, says)
        self._read_claims(info)
        return before != (info.claimed_min, info.claimed_priority)

    def leave(self, key: GroupKey, uid: PodUID, *, now: float) -> None:
        """Remove a member; the grace period begins when the last member leaves.

        Raises:
            InvalidValueError: *now* is not an instant; nothing has changed.
        """
        check_now(now)
        info = self._groups.get(key)
        if info is None:
            return
        info.members.discard(uid)
        if info.claims.discard(uid):
            # The first member may have left, or that of the highest priority.
            self._read_claims(info)
        if not info.claims:  # the members that are left are refused
            info.claimed_min = info.claimed_priority = None
            info.derive()
            info.attempt_started_at = info.complete_at = None
            info.was_scheduled = False
            if info.members.collected >= (info.min_available or 0):
                info.members.forget_collected()  # all is done: what comes next is a new gang
            if info.first_seen_at is not None:
                self._keep(key, now + self._grace)
        self._forget_if_empty(info, now=now)

    def expire(self, *, now: float) -> None:
        """Delete the groups whose grace period has ended.

        Raises:
            InvalidValueError: *now* is not an instant; nothing has changed.
        """
        check_now(now)
        if now >= self.earliest:
            self._expire(now)

    def _expire(self, now: float) -> None:
        self.earliest = math.inf
        while self._left:
            key, until = next(iter(self._left.items()))
            if until > now:
                self.earliest = until
                return
            del self._left[key]
            info = self._groups[key]
            info.first_seen_at = info.last_failure_at = None
            info.failures = 0
            info.backoff_until = -math.inf
            info.failure = ""
            if info.spec is None and not info.members:
                del self._groups[key]

    def get(self, key: GroupKey) -> PodGroupInfo | None:
        """Return a group; None if it is not known."""
        return self._groups.get(key)

    def spec(self, key: GroupKey) -> PodGroup | None:
        """Return the specification of a group; None if it has none, or is not known."""
        info = self._groups.get(key)
        return None if info is None else info.spec

    def forgotten_at(self, key: GroupKey) -> float | None:
        """Return when a group without pods and specification is forgotten; None for others."""
        info = self._groups.get(key)
        if info is None or info.members or info.spec is not None:
            return None
        return self._left.get(key)

    def naming(self, key: GroupKey) -> Collection[GroupKey]:
        """Return the groups whose specification names a group: their bundle, or parent. O(1)."""
        return self._naming.get(key, ())

    def children(self, key: GroupKey) -> list[GroupKey]:
        """Return the groups whose parent a group is, in the order of their keys. O(c log c)."""
        return sorted(k for k in self.naming(key) if (s := self.spec(k)) and s.parent == key)

    def family(self, key: GroupKey) -> list[GroupKey]:
        """Return the groups below the root above a group, the root included. O(groups)."""
        found = dict.fromkeys([self.root(key)])
        below = list(found)
        for each in below:  # it grows
            new = [child for child in self.children(each) if child not in found]
            found |= dict.fromkeys(new)
            below += new
        return below

    def above(self, key: GroupKey) -> tuple[PodGroup, ...]:
        """Return the specifications of the parents of a group, the root first. O(levels)."""
        found: list[PodGroup] = []
        spec = self.spec(key)
        while spec is not None and spec.parent is not None:
            spec = self.spec(spec.parent)
            if spec is None or spec in found:
                break
            found.append(spec)
        return tuple(reversed(found))

    def root(self, key: GroupKey) -> GroupKey:
        """Return the root above a group, or the group itself. O(levels).

        It may have no specification yet. Of parents in a circle it is the first by key.
        """
        above = [key]
        while (spec := self.spec(above[-1])) is not None and spec.parent is not None:
            if spec.parent in above:
                return min(above[above.index(spec.parent) :])
            above.append(spec.parent)
        return above[-1]

    def keys(self) -> KeysView[GroupKey]:
        """Return the keys of the groups in the order of their creation."""
        return self._groups.keys()

    def __len__(self) -> int:
        return len(self._groups)

    def __contains__(self, key: object) -> bool:
        return key in self._groups

    def __iter__(self) -> Iterator[PodGroupInfo]:
        """Iterate over the groups in the order of their creation."""
        return iter(self._groups.values())

    def _specify(self, info: PodGroupInfo, spec: PodGroup | None) -> None:
        """Set the specification of a group. O(groups of the bundle)."""
        for other in _named(info.spec):
            naming = self._naming[other]
            del naming[info.key]
            if not naming:
                del self._naming[other]
        info.spec = spec
        info.derive()
        for other in _named(spec):
            self._naming.setdefault(other, {})[info.key] = None

    def _create(self, key: GroupKey) -> PodGroupInfo:
        self._numbers += 1
        info = self._groups[key] = PodGroupInfo(key=key, uid=self._numbers)
        return info

    @staticmethod
    def _read_claims(info: PodGroupInfo) -> None:
        info.claimed_min, info.claimed_priority = info.claims.claimed()
        info.derive()

    def _keep(self, key: GroupKey, until: float) -> None:
        """Let the grace period of a group end at an instant, unless one runs."""
        self.earliest = min(self.earliest, self._left.setdefault(key, until))

    def _forget_if_empty(self, info: PodGroupInfo, *, now: float) -> None:
        if now >= self.earliest:
            self._expire(now)
        if info.spec is None and not info.members and info.key not in self._left:
            self._groups.pop(info.key, None)

    def _check(self) -> None:
        uids = [info.uid for info in self]
        if uids != sorted(set(uids)):
            raise InternalError(f"group numbers {uids} do not ascend")
        if list(self._left.values()) != sorted(self._left.values()):
            raise InternalError("grace periods are not in the order in which they end")
        if any(until < self.earliest for until in self._left.values()):
            raise InternalError(f"a grace period ends before {self.earliest}")
        for key, info in self._groups.items():
            info.members._check()
            info.claims._check()
            if info.key != key:
                raise InternalError(f"group {info.key} is kept as {key}")
            if info.spec is None and not info.members and key not in self._left:
                raise InternalError(f"group {key} has neither specification nor member")
            if info.members.standing not in (None, info.stands()):
                raise InternalError(f"group {key} does not stand as is remembered")
            refused = info.members.count(MemberState.REFUSED)
            if len(info.members) - refused != len(info.claims):
                raise InternalError(f"group {key} lacks a claim, or has one of a refused member")
            if key in self._left and info.claims:
                raise InternalError(f"group {key} has a member and a grace period")
        named = {(other, info.key) for info in self for other in _named(info.spec)}
        if named != {(other, key) for other, naming in self._naming.items() for key in naming}:
            raise InternalError("groups are not listed where their bundles name others")
        if not self._left.keys() <= self._groups.keys():
            raise InternalError("a grace period belongs to an unknown group")
