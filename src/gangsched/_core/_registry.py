"""What the scheduler remembers of each pod group.

Invariants (checked by ``_check``):
  I1  a group is known exactly while it has a specification or a member, and for a while after
      its last member is gone, so that members that are made anew find it: its number, its place
      in the order, and how often it failed;
  I2  the first member fixes what no specification says: minimum, priority, creation; a later
      member that contradicts is refused. What holds is what the first of those says by now who
      are in and say anything;
  I3  a query never creates, and never changes anything;
  I4  numbers ascend and are never used twice: a group that comes back later is a new group.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, final

from attrs import define, field

from gangsched._core._counters import MemberState, PodGroupCounters, RoleCounts
from gangsched._fields import check_now
from gangsched.errors import InternalError, InvalidPodGroupError, InvalidValueError
from gangsched.membership import Membership
from gangsched.model import FrozenMap, GroupKey, Pod, PodGroup, PodUID, Resources
from gangsched.quantity import is_seconds
from gangsched.resources import NOTHING

__all__ = ["PodGroupInfo", "PodGroupRegistry"]

_TO_BE_PLACED: Final = (MemberState.GATED, MemberState.UNSCHEDULED)
_NO_ROLES: Final[FrozenMap[int]] = FrozenMap()


@final
@define(eq=False, kw_only=True)
class PodGroupInfo:
    """One group, as the scheduler knows it.

    Attributes:
        key: ``namespace/name``.
        uid: An ascending number, given when the group is first heard of.
        spec: Its specification; None while only its members speak for it.
        claimed_min: The minimum that the first member to give one gives; None when none does.
        claimed_priority: The priority of its first member; None without a member.
        first_seen_at: The creation of its first member; None without a member.
        claims: The minimum and the priority that each member gives which was not refused.
        members: Its members, counted by state.
        attempts: How many attempts have begun: the number of the current or last one.
        attempt_started_at: When the current attempt began; None between attempts.
        last_failure_at: When its last attempt fell; None before any, and once it is scheduled.
        failures: How many attempts in a row fell.
        backoff_until: Until when it rests after the last of them; in the past when it does not.
        complete_at: When it had enough members for the first time; None before that.
        was_scheduled: Whether it has been let go once.
        untried: Unscheduled members whose turn in this attempt is still to come; kept by the
            queue.
        untried_by_role: How many of these have which role; kept by the queue.
    """

    key: GroupKey
    uid: int
    spec: PodGroup | None = None
    claimed_min: int | None = None
    claimed_priority: int | None = None
    first_seen_at: float | None = None
    claims: dict[PodUID, tuple[int | None, int]] = field(
        factory=dict[PodUID, tuple[int | None, int]]
    )
    members: PodGroupCounters = field(factory=PodGroupCounters)
    attempts: int = 0
    attempt_started_at: float | None = None
    last_failure_at: float | None = None
    failures: int = 0
    backoff_until: float = -math.inf
    complete_at: float | None = None
    was_scheduled: bool = False
    untried: int = 0
    untried_by_role: dict[str, int] = field(factory=dict[str, int])

    @property
    def namespace(self) -> str:
        """The first part of the key."""
        return self.key.partition("/")[0]

    @property
    def name(self) -> str:
        """The second part of the key."""
        return self.key.partition("/")[2]

    @property
    def min_available(self) -> int | None:
        """The specification's minimum, else the first member's; None while nobody has said it."""
        return self.claimed_min if self.spec is None else self.spec.min_available

    @property
    def roles(self) -> FrozenMap[int]:
        """The specification's minima per role; empty without one."""
        return _NO_ROLES if self.spec is None else self.spec.roles

    @property
    def is_complete(self) -> bool:
        """Whether as many members exist and count as the quorum needs, in all and by role."""
        if self.min_available is None or self.all < self.min_available:
            return False
        counts = ((self.role(name), least) for name, least in self.roles.items())
        return all(role.unscheduled + role.scheduled >= least for role, least in counts)

    def role(self, name: str) -> RoleCounts:
        """See ``PodGroupCounters.role``. O(1)."""
        return self.members.role(name, untried=self.untried_by_role.get(name, 0))

    @property
    def schedule_timeout(self) -> float | None:
        """The specification's permit timeout; None for the policy's default."""
        return None if self.spec is None else self.spec.schedule_timeout

    @property
    def min_resources(self) -> Resources:
        """What the specification says that the group needs in all; empty without one."""
        return NOTHING if self.spec is None else self.spec.min_resources

    @property
    def priority(self) -> int:
        """The specification's priority, else the first member's; 0 without either."""
        if self.spec is not None and self.spec.priority is not None:
            return self.spec.priority
        return self.claimed_priority or 0

    @property
    def created_at(self) -> float:
        """The specification's creation, else the first member's."""
        if self.spec is not None:
            return self.spec.created_at
        return 0.0 if self.first_seen_at is None else self.first_seen_at

    @property
    def all(self) -> int:
        """See ``PodGroupCounters.all``."""
        return self.members.all

    @property
    def unscheduled(self) -> int:
        """See ``PodGroupCounters.unscheduled``."""
        return self.members.unscheduled

    @property
    def waiting(self) -> int:
        """See ``PodGroupCounters.waiting``."""
        return self.members.waiting

    @property
    def assumed(self) -> int:
        """See ``PodGroupCounters.assumed``."""
        return self.members.assumed

    @property
    def assigned(self) -> int:
        """See ``PodGroupCounters.assigned``."""
        return self.members.assigned

    @property
    def scheduled(self) -> int:
        """See ``PodGroupCounters.scheduled``."""
        return self.members.scheduled


class PodGroupRegistry:
    """Every pod group that is known.

    Runtime complexity: every method O(1), except ``leave``, and ``restate`` of a member that says
    something else than before, O(members); ``expire``, O(groups that are due); iteration and
    ``_check``.

    Not thread-safe.

    Args:
        grace: For how many seconds a group is remembered after its last member is gone; finite,
            not negative. With 0 it is forgotten at once.

    Raises:
        InvalidValueError: *grace* is malformed.
    """

    __slots__ = ("_grace", "_groups", "_left", "_numbers")

    def __init__(self, grace: float = 0.0) -> None:
        if not is_seconds(grace) or grace < 0:
            raise InvalidValueError("grace", grace, "a finite number of seconds >= 0")
        self._grace = grace
        self._groups: dict[GroupKey, PodGroupInfo] = {}
        self._left: dict[GroupKey, float] = {}  # until when it is remembered, the earliest first
        self._numbers = 0

    def declare(self, group: PodGroup) -> PodGroupInfo:
        """Take note of a specification, new or changed.

        Raises:
            InvalidValueError: It is none; nothing has changed.
        """
        if not isinstance(group, PodGroup):
            raise InvalidValueError("group", group, "a PodGroup")
        info = self._groups.get(group.key) or self._create(group.key)
        info.spec = group
        return info

    def undeclare(self, key: GroupKey, *, now: float) -> None:
        """Forget a specification; the group lives on while it has members.

        Raises:
            InvalidValueError: *now* is no instant; nothing has changed.
        """
        check_now(now)
        info = self._groups.get(key)
        if info is not None:
            info.spec = None
            self._forget_if_empty(info, now=now)

    def conflict(self, pod: Pod, claim: Membership) -> InvalidPodGroupError | None:
        """Say what keeps *pod* out of the group that it claims; None when nothing does."""
        info = self._groups.get(claim.group)
        if info is None:
            return None
        subject = f"pod {pod.key}"
        minimum = claim.min_available
        # a specification overrides what labels say, so that arrival order does not matter
        stated_min = info.claimed_min if info.spec is None else None
        if None not in (minimum, stated_min) and minimum != stated_min:
            expected = f"{stated_min}, the value of the first member of {info.key}"
            return InvalidPodGroupError(subject, "min_available", minimum, expected)
        stated = info.claimed_priority
        if info.spec is not None and info.spec.priority is not None:
            stated = info.spec.priority
        if stated is not None and pod.priority != stated:
            expected = f"{stated}, the priority of {info.key}"
            return InvalidPodGroupError(subject, "priority", pod.priority, expected)
        return None

    def join(
        self, pod: Pod, claim: Membership, state: MemberState = MemberState.UNSCHEDULED
    ) -> PodGroupInfo:
        """Take a member in, making the group when it is the first.

        Args:
            pod: The member.
            claim: Its claim, see ``gangsched.membership.membership``.
            state: What it is doing. Only who is still to be placed can be kept out: one that is
                bound, ending, finished or refused may contradict its group.

        Raises:
            InvalidPodGroupError: It contradicts its group; nothing has changed.
        """
        if state in _TO_BE_PLACED:
            problem = self.conflict(pod, claim)
            if problem is not None:
                raise problem
        info = self._groups.get(claim.group) or self._create(claim.group)
        if state is not MemberState.REFUSED:
            info.claims[pod.uid] = (claim.min_available, pod.priority)
            if info.claimed_min is None:
                info.claimed_min = claim.min_available
            if info.claimed_priority is None:
                info.claimed_priority = pod.priority
            if info.first_seen_at is None:
                info.first_seen_at = pod.created_at
            self._left.pop(info.key, None)
        info.members.set(pod.uid, state)
        info.members.give_role(pod.uid, claim.role)
        return info

    def restate(self, pod: Pod, claim: Membership, state: MemberState) -> bool:
        """Take note of what a member says by now that was taken in before.

        A member that is in stays in, also where it contradicts the others. What it says holds
        for its group where it is the first of them.

        Args:
            pod: The member.
            claim: Its claim, for the group that it is in.
            state: What it is doing from now on. Who is refused says nothing.

        Returns:
            Whether the group's minimum or priority, as its members say them, is another now.
        """
        info = self._groups[claim.group]
        says = None if state is MemberState.REFUSED else (claim.min_available, pod.priority)
        if says == info.claims.get(pod.uid):
            return False
        before = (info.claimed_min, info.claimed_priority)
        if says is None:
            del info.claims[pod.uid]
        else:
            info.claims[pod.uid] = says
        self._read_claims(info)
        return before != (info.claimed_min, info.claimed_priority)

    def leave(self, key: GroupKey, uid: PodUID, *, now: float) -> None:
        """Let a member go; with its last member a group begins to be forgotten.

        Raises:
            InvalidValueError: *now* is no instant; nothing has changed.
        """
        check_now(now)
        info = self._groups.get(key)
        if info is None:
            return
        info.members.discard(uid)
        if info.claims.pop(uid, None) is not None:
            # what nobody says any more does not bind those that are left
            self._read_claims(info)
        if not self._counts(info):
            info.claimed_min = info.claimed_priority = None
            info.attempt_started_at = info.complete_at = None
            info.was_scheduled = False
            if info.first_seen_at is not None:
                self._left.setdefault(key, now + self._grace)
        self._forget_if_empty(info, now=now)

    def expire(self, *, now: float) -> None:
        """Forget the groups whose last member has been gone for long enough.

        Raises:
            InvalidValueError: *now* is no instant; nothing has changed.
        """
        check_now(now)
        while self._left:
            key, until = next(iter(self._left.items()))
            if until > now:
                return
            del self._left[key]
            info = self._groups[key]
            info.first_seen_at = info.last_failure_at = None
            info.failures = 0
            info.backoff_until = -math.inf
            if info.spec is None and not info.members:
                del self._groups[key]

    def get(self, key: GroupKey) -> PodGroupInfo | None:
        """Return a group; None when it is not known."""
        return self._groups.get(key)

    def __len__(self) -> int:
        return len(self._groups)

    def __contains__(self, key: object) -> bool:
        return key in self._groups

    def __iter__(self) -> Iterator[PodGroupInfo]:
        """Iterate over the groups in the order in which they were first heard of."""
        return iter(self._groups.values())

    def _create(self, key: GroupKey) -> PodGroupInfo:
        self._numbers += 1
        info = self._groups[key] = PodGroupInfo(key=key, uid=self._numbers)
        return info

    @staticmethod
    def _read_claims(info: PodGroupInfo) -> None:
        said = (minimum for minimum, _priority in info.claims.values() if minimum is not None)
        info.claimed_min = next(said, None)
        info.claimed_priority = next((p for _minimum, p in info.claims.values()), None)

    @staticmethod
    def _counts(info: PodGroupInfo) -> bool:
        """Say whether a group has a member that was not refused."""
        return len(info.members) > info.members.count(MemberState.REFUSED)

    def _forget_if_empty(self, info: PodGroupInfo, *, now: float) -> None:
        self.expire(now=now)
        if info.spec is None and not info.members and info.key not in self._left:
            self._groups.pop(info.key, None)

    def _check(self) -> None:
        uids = [info.uid for info in self]
        if uids != sorted(set(uids)):
            raise InternalError(f"group numbers {uids} do not ascend")
        if list(self._left.values()) != sorted(self._left.values()):
            raise InternalError("groups are not forgotten in the order in which they were left")
        for key, info in self._groups.items():
            info.members._check()
            if info.key != key:
                raise InternalError(f"group {info.key} is kept as {key}")
            if info.spec is None and not info.members and key not in self._left:
                raise InternalError(f"group {key} has neither specification nor member")
            if key in self._left and self._counts(info):
                raise InternalError(f"group {key} has a member, and is being forgotten")
        if not self._left.keys() <= self._groups.keys():
            raise InternalError("a group that is forgotten is remembered as left")
