"""The gate: members that have got their place, and wait there until their gang may go.

For hosts that place tasks by themselves and want only the gang part. A shell tells the time, and
lets go, or calls back, whom the effects name: ``PermitGate`` of both drivers.

Rules:
  R1  nobody goes unless at least as many members as the group needs hold a place in the same
      instant; quorum and release are one step;
  R2  when one wait ends in vain, by its deadline or because it is given up, the whole attempt falls
      in that step: nobody of it waits on;
  R3  an attempt has one deadline, set when its first member comes: every member that joins waits
      for the rest of it, or for less;
  R4  a gang that is over leaves nothing behind: see ``leave``.

Invariants (checked by ``_check``):
  I1  who is at the gate is a member of one group, and waits or was let go;
  I2  no group waits that has its quorum.
"""

from __future__ import annotations

from typing import Any, final

from attrs import Attribute, field, frozen

from gangsched._core import _quorum
from gangsched._core._counters import MemberState
from gangsched._core._quorum import MatchPolicy
from gangsched._core._registry import PodGroupInfo, PodGroupRegistry
from gangsched._core._waiting import WaitingMap, WaitingPod
from gangsched._fields import check_now, check_text
from gangsched._seconds import format_duration, format_instant
from gangsched.errors import InternalError, InvalidValueError
from gangsched.events import Effect, GroupRejected, GroupScheduled, PodRejected, PodWaiting, Release
from gangsched.membership import SPELLINGS, Membership, membership
from gangsched.model import GroupKey, NodeName, Pod, PodGroup, PodUID
from gangsched.quantity import is_seconds

__all__ = ["GangMember", "Gate"]


def _check_maybe_text(owner: object, attribute: Attribute[Any], value: str | None) -> None:
    if value is not None:
        check_text(owner, attribute, value)


def _check_minimum(_owner: object, _attribute: object, value: int | None) -> None:
    if value is not None and (type(value) is not int or value < 1):
        raise InvalidValueError("min_available", value, "an int >= 1 or None")


@final
@frozen(kw_only=True)
class GangMember:
    """A task of a gang, for hosts that have no pods.

    Attributes:
        uid: Its own name: no two tasks at one gate share one.
        group: Its gang.
        min_available: How many members must hold a place for the gang to go; None where a
            specification or another member says it.
        role: Its role, where the gang's specification has minima per role.
        place: Where it is, for messages.
    """

    uid: str = field(validator=check_text)
    group: str = field(validator=check_text)
    min_available: int | None = field(default=None, validator=_check_minimum)
    role: str | None = field(default=None, validator=_check_maybe_text)
    place: str = field(default="")


@final
class Gate:
    """Members that wait for their gang, of many gangs.

    Not thread-safe. Each call first ends the waits that are due. A call that raises has let nobody
    in; what it ended is told by the next call.

    Args:
        timeout: For how many seconds an attempt waits for its quorum, where its specification
            does not say; finite, not negative.
        match_policy: Which members count for the quorum, once some of a gang were let go.

    Raises:
        InvalidValueError: An argument is malformed.
    """

    __slots__ = ("_at_gate", "_groups", "_match", "_now", "_out", "_timeout", "_waiting")

    def __init__(
        self,
        *,
        timeout: float = 60.0,
        match_policy: MatchPolicy = MatchPolicy.ONCE_SATISFIED,
    ) -> None:
        if not is_seconds(timeout) or timeout < 0:
            raise InvalidValueError("timeout", timeout, "a finite number of seconds >= 0")
        self._timeout = timeout
        self._match = MatchPolicy(match_policy)
        self._groups = PodGroupRegistry()
        self._waiting = WaitingMap()
        self._at_gate: dict[PodUID, GroupKey] = {}
        self._out: list[Effect] = []
        self._now = float("-inf")

    def declare(self, group: PodGroup, *, now: float) -> tuple[Effect, ...]:
        """Take note of what a group needs, new or changed; let it go if it has that.

        Members that come may leave the minimum to it. It is remembered until ``undeclare``.

        Args:
            group: The specification. Its key is what members name, ``namespace/name``.
            now: The current instant.
        """
        self._begin(now)
        info = self._groups.declare(group)
        if info.waiting and self._may_go(info):
            self._let_go(info, now=now)
        return self._end()

    def undeclare(self, key: str, *, now: float) -> tuple[Effect, ...]:
        """Forget a specification: what the members say counts, where one says anything."""
        self._begin(now)
        self._groups.undeclare(GroupKey(key), now=now)
        info = self._groups.get(GroupKey(key))
        if info is not None and info.waiting and self._may_go(info):
            self._let_go(info, now=now)
        return self._end()

    def arrive(
        self, member: Pod | GangMember, *, now: float, timeout: float | None = None
    ) -> tuple[Effect, ...]:
        """Let a member come that has got its place.

        Runtime complexity: O(log waiting), plus the members that go with it.

        Args:
            member: The member; a pod that says no group waits for nobody, and is not remembered.
            now: The current instant.
            timeout: For how many seconds it waits at most; None for as long as its attempt may.

        Returns:
            ``Release`` of the gang, if it may go now, else ``PodWaiting``; before it, what was due.

        Raises:
            InvalidPodGroupError: It contradicts its group, or itself.
            InvalidValueError: It is at the gate already, or an argument is malformed.
        """
        if timeout is not None and (not is_seconds(timeout) or timeout < 0):
            raise InvalidValueError("timeout", timeout, "a finite number of seconds >= 0 or None")
        self._begin(now, begun_before=now)
        pod, claim = self._read(member)
        if claim is None:
            return self._end()
        if pod.uid in self._at_gate:
            raise InvalidValueError("uid", pod.uid, "the UID of a member that is not at the gate")
        left = self._time_left(self._groups.get(claim.group), now)
        left = left if timeout is None else min(left, timeout)
        if not is_seconds(now + left):
            raise InvalidValueError(
                "timeout", left, f"a number of seconds whose sum with now={now!r} is finite"
            )
        info = self._groups.join(pod, claim, MemberState.UNSCHEDULED)
        info.members.set(pod.uid, MemberState.WAITING)
        self._at_gate[pod.uid] = info.key
        if info.attempt_started_at is None:
            info.attempts += 1
            info.attempt_started_at = now
        place = NodeName(member.place if isinstance(member, GangMember) else pod.node_name or "")
        wait = self._waiting.wait(
            pod.uid, node=place, timeout=left, now=now, group=info.key, attempt=info.attempts
        )
        if self._may_go(info):
            self._let_go(info, now=now)
        else:
            needed = _quorum.members_needed(info, self._match) or 0
            self._out.append(PodWaiting(pod.uid, place, wait.deadline, needed))
        return self._end()

    def withdraw(self, uid: str, *, now: float, reason: str = "") -> tuple[Effect, ...]:
        """Let a member give up its wait: its whole gang falls. Who does not wait is left alone.

        Args:
            uid: The member.
            now: The current instant.
            reason: Why, in words.
        """
        self._begin(now)
        wait = self._waiting.get(PodUID(uid))
        if wait is not None:
            said = f"member {uid} gave up" + (f": {reason}" if reason else "")
            self._fall(self._info(wait), [wait], said, now=now)
        return self._end()

    def leave(self, uid: str, *, now: float) -> tuple[Effect, ...]:
        """Forget a member that was let go and is over; one that waits gives up.

        Who was let go counts as running until then, and its group is remembered.
        """
        if uid in self._waiting:
            return self.withdraw(uid, now=now, reason="it left")
        self._begin(now)
        key = self._at_gate.pop(PodUID(uid), None)
        if key is not None:
            self._groups.leave(key, PodUID(uid), now=now)
        return self._end()

    def advance(self, *, now: float) -> tuple[Effect, ...]:
        """Let time pass: the gangs of which a wait is over fall."""
        self._begin(now)
        return self._end()

    def close(self, reason: str, *, now: float) -> tuple[Effect, ...]:
        """Let every gang fall that waits."""
        self._begin(now)
        for key in list(self._waiting.groups()):
            info = self._groups.get(key)
            assert info is not None
            self._fall(info, [], reason, now=now)
        return self._end()

    def next_deadline(self) -> float | None:
        """Return when ``advance`` has something to do; None when nobody waits. O(1)."""
        return self._waiting.next_deadline()

    @property
    def waiting(self) -> WaitingMap:
        """Who waits, for reading."""
        return self._waiting

    @property
    def groups(self) -> PodGroupRegistry:
        """The groups of whom somebody is at the gate, or that were declared, for reading."""
        return self._groups

    def __len__(self) -> int:
        """Return how many are at the gate: who waits, and who was let go and has not left."""
        return len(self._at_gate)

    # Inside ---------------------------------------------------------------------------------

    def _begin(self, now: float, *, begun_before: float = float("inf")) -> None:
        check_now(now)
        if now < self._now:
            raise InvalidValueError(
                "now", now, f"an instant not before {format_instant(self._now)}"
            )
        self._now = now
        over: dict[GroupKey, list[WaitingPod]] = {}
        for wait in self._waiting.expire(now=now, begun_before=begun_before):
            over.setdefault(self._at_gate[wait.uid], []).append(wait)
        for waits in over.values():
            info = self._info(waits[0])
            minimum = "an unknown number of" if info.min_available is None else info.min_available
            held = _quorum.counted(info, self._match)
            waited = now - min(wait.since for wait in waits)
            said = (
                f"timed out after {format_duration(waited)}s:"
                f" {held} of {minimum} members held a place"
            )
            self._fall(info, waits, said, now=now)

    def _end(self) -> tuple[Effect, ...]:
        effects = tuple(self._out)
        self._out.clear()
        return effects

    def _read(self, member: Pod | GangMember) -> tuple[Pod, Membership | None]:
        if isinstance(member, Pod):
            return member, membership(member)
        if not isinstance(member, GangMember):
            raise InvalidValueError("member", member, "a Pod or a GangMember")
        key = GroupKey(member.group)
        info = self._groups.get(key)
        pod = Pod(
            name=member.uid, uid=PodUID(member.uid), priority=0 if info is None else info.priority
        )
        return pod, Membership(key, member.min_available, SPELLINGS[0], member.role)

    def _info(self, wait: WaitingPod) -> PodGroupInfo:
        assert wait.group is not None
        info = self._groups.get(wait.group)
        assert info is not None
        return info

    def _time_left(self, info: PodGroupInfo | None, now: float) -> float:
        if info is None:
            return self._timeout
        own, began = info.schedule_timeout, info.attempt_started_at
        whole = self._timeout if own is None else own
        return whole if began is None else max(0.0, began + whole - now)

    def _may_go(self, info: PodGroupInfo) -> bool:
        """Say whether whoever waits may go; without a minimum nobody may. O(roles)."""
        if info.min_available is None:
            return False
        needed = _quorum.members_needed(info, self._match)
        return needed is None or needed <= 0

    def _let_go(self, info: PodGroupInfo, *, now: float) -> None:
        first = not info.was_scheduled
        gone = tuple(wait.uid for wait in self._waiting.allow(info.key))
        info.members.set_all(gone, MemberState.ASSIGNED)
        began = info.attempt_started_at
        assert began is not None  # as somebody waits
        info.attempt_started_at, info.was_scheduled = None, True
        self._out.append(Release(info.key, gone))
        if first or self._match is not MatchPolicy.ONCE_SATISFIED:
            self._out.append(GroupScheduled(info.key, info.attempts, info.scheduled, now - began))

    def _fall(
        self, info: PodGroupInfo, first: list[WaitingPod], reason: str, *, now: float
    ) -> None:
        """Call back everybody of an attempt; *first* are named first, waiting still or not."""
        waits = {wait.uid: wait for wait in (*first, *self._waiting.reject(info.key))}
        info.attempt_started_at = None
        for wait in waits.values():
            self._out.append(PodRejected(wait.uid, wait.node, reason))
        self._out.append(GroupRejected(info.key, info.attempts, reason, now))
        for uid in waits:
            del self._at_gate[uid]
            self._groups.leave(info.key, uid, now=now)

    def _check(self) -> None:
        self._waiting._check()
        self._groups._check()
        members = {uid: info.key for info in self._groups for uid in info.members}
        if members != self._at_gate:
            raise InternalError("who is at the gate and who is a member differ")
        for info in self._groups:
            for uid in info.members:
                waits = info.members.state(uid) is MemberState.WAITING
                if waits != (uid in self._waiting):
                    raise InternalError(f"{uid} waits, or does not: the waiting map disagrees")
            if info.waiting and self._may_go(info):
                raise InternalError(f"{info.key} waits, and may go")
