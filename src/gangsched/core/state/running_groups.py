"""Restarts of pod groups: which groups run, and which wait between old pods and new ones.

Theory of operation. The machine is told when the members of a group have changed (``observe``). A
group *runs* once enough members are bound. A running group that is left with too few members is
*short*. Pods and groups come from two watches in no known order, and the pods of a job that is
deleted leave one after another. So a group with a policy is looked at again after
``SETTLING_SECONDS``. Meanwhile it is neither restarted nor given new nodes. If its minimum was
lowered, it runs on. If no member is left and none has failed, they were deleted on purpose, and the
group just runs no more. Otherwise it has *fallen*. If its policy allows another restart, the
restart is counted and the group is *held*: it must not start until its old pods are gone and its
backoff is over. The caller evicts the members that are left. The controller of the group creates
pods again, under the same group.

A fall is seen on an edge, from running to too few. So a group is restarted at most once for each
time that it has run, however many members it loses at once.

Invariants (checked by ``_check``):
  I1  a group is remembered only if it runs, is held, or was restarted;
  I2  a group that is held does not run, and was restarted at least once;
  I3  only a group that runs is short;
  I4  ``_deadlines`` has each group that is to be looked at again, once; it is short or held.

Source: KEP-34, "Lifecycle Management".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, final

from attrs import define, frozen
from sortedcontainers import SortedList

from gangsched.errors import InternalError
from gangsched.model import FrozenMap, GroupKey, RestartPolicy
from gangsched.primitives.backoff import Backoff

__all__ = ["SETTLING_SECONDS", "Fall", "GroupLife", "GroupMinimum", "Restarts"]

SETTLING_SECONDS: Final = 1.0
"""How long events of one change may be apart, such as a deleted pod and a lowered minimum."""

_NO_ROLES: Final[FrozenMap[int]] = FrozenMap()


@final
@frozen
class GroupMinimum:
    """What a group needs to run: members in total, and of each role."""

    members: int
    roles: FrozenMap[int] = _NO_ROLES


@final
@frozen
class Fall:
    """A running group has fallen below its minimum.

    Attributes:
        restarts: How often the group was restarted, this time included.
        limit: The limit of its policy; None without a policy.
        until: When it may start again at the earliest; None if it is not restarted.
    """

    restarts: int = 0
    limit: int | None = None
    until: float | None = None


@final
@define(eq=False)
class GroupLife:
    """What is remembered of one group.

    Attributes:
        runs_with: The minimum that it runs with; None if it does not run.
        restarts: How often it was restarted.
        is_held: Whether a restart is under way.
        until: The end of the backoff of the last restart.
        short_since: Since when it runs with too few members; None if it has enough, or does not
            run.
        failed_at: When a member failed last.
        due_at: When it is to be looked at again without an event; None for never.
    """

    runs_with: GroupMinimum | None = None
    restarts: int = 0
    is_held: bool = False
    until: float = -math.inf
    short_since: float | None = None
    failed_at: float = -math.inf
    due_at: float | None = None


@final
class Restarts:
    """Which groups run, how often each was restarted, and which are held.

    Runtime complexity: every method is O(1), or O(log n) for n held groups, except ``due``, which
    is O(groups that are due).

    Not thread-safe.

    Attributes:
        earliest: No group is to be looked at before this instant.
        lives: What is remembered of groups, by key; for reading.
    """

    __slots__ = ("_deadlines", "earliest", "lives")

    def __init__(self) -> None:
        self.earliest: float = math.inf
        self.lives: dict[GroupKey, GroupLife] = {}
        self._deadlines: Any = SortedList()  # (due_at, key)

    # What is known --------------------------------------------------------------------------

    def get(self, key: GroupKey) -> GroupLife | None:
        """Return what is remembered of a group; None if nothing is."""
        return self.lives.get(key)

    def is_held(self, key: GroupKey) -> bool:
        """Return whether a restart of a group is under way."""
        life = self.lives.get(key)
        return life is not None and life.is_held

    def is_short(self, key: GroupKey) -> bool:
        """Return whether a group has too few members, and may still turn out to be complete."""
        life = self.lives.get(key)
        return life is not None and life.short_since is not None

    def next_deadline(self) -> float | None:
        """Return when a group is to be looked at next; None if no group is."""
        return self.earliest if self.earliest < math.inf else None

    def __len__(self) -> int:
        """Return how many groups are remembered."""
        return len(self.lives)

    # What happens ---------------------------------------------------------------------------

    def resume(self, key: GroupKey, restarts: int, until: float | None, *, now: float) -> None:
        """Take over what the status of a group says, unless more is remembered of it.

        Args:
            key: The group.
            restarts: How often it was restarted.
            until: The end of its backoff if a restart is under way, else None.
            now: The current instant.
        """
        life = self.lives.get(key)
        if life is not None and life.restarts >= restarts:
            return
        if not restarts:
            return
        life = self.lives.setdefault(key, GroupLife())
        life.restarts = restarts
        if until is not None and life.runs_with is None:
            self._hold(key, life, until)

    def observe(
        self,
        key: GroupKey,
        minimum: GroupMinimum | None,
        policy: RestartPolicy | None,
        *,
        is_whole: bool,
        is_short: Callable[[GroupMinimum], bool],
        is_left: bool,
        now: float,
    ) -> Fall | None:
        """Take in the members of a group as they are now; return a fall if this is one.

        Args:
            key: The group.
            minimum: What it needs to run; None if that is not known.
            policy: Whether it is restarted; None for never.
            is_whole: Whether enough members are bound for it to run.
            is_short: Whether too few members have a node, or have succeeded, for a minimum. A
                group that is being bound may be neither whole nor short.
            is_left: Whether a member has a node.
            now: The current instant.
        """
        life = self.lives.get(key)
        if minimum is not None and is_whole:
            life = self.lives.setdefault(key, GroupLife())
            life.runs_with = minimum
            self._release(key, life)
            return None
        if life is None or life.runs_with is None:
            return None
        if minimum is None:
            self.stop(key)
            return None
        # a raised minimum alone is no fall: the members that the group ran with are there
        if not (is_short(minimum) and is_short(life.runs_with)):
            self._release(key, life)
            return None
        if policy is None:
            self.stop(key)
            return Fall()
        if life.short_since is None:
            life.short_since = now
        if not is_left and life.failed_at < life.short_since - SETTLING_SECONDS:
            self.stop(key)  # its members were deleted on purpose
            return None
        if now < life.short_since + SETTLING_SECONDS:
            self._look_at(key, life, life.short_since + SETTLING_SECONDS)
            return None
        self.stop(key)
        if life.restarts >= policy.max_restarts:
            return Fall(life.restarts, policy.max_restarts)
        life = self.lives.setdefault(key, life)
        life.restarts += 1
        delay = Backoff(policy.backoff, policy.longest_backoff).delay(life.restarts)
        self._hold(key, life, now + delay)
        return Fall(life.restarts, policy.max_restarts, life.until)

    def join(self, key: GroupKey, fall: Fall) -> None:
        """Hold a group because another group of its bundle is restarted: they count as one."""
        if fall.until is None or self.is_held(key):
            return
        self.stop(key)
        life = self.lives.setdefault(key, GroupLife())
        life.restarts = max(life.restarts, fall.restarts)
        self._hold(key, life, fall.until)

    def note_failed(self, key: GroupKey, *, now: float) -> None:
        """Note that a member of a group has failed, if the group runs."""
        life = self.lives.get(key)
        if life is not None and life.runs_with is not None:
            life.failed_at = now

    def stop(self, key: GroupKey) -> None:
        """Note that a group does not run any more, for a reason that is not a fall."""
        life = self.lives.get(key)
        if life is None:
            return
        life.runs_with = None
        if life.short_since is not None:
            life.short_since = None
            self._look_at(key, life, None)
        self._forget_if_empty(key, life)

    def try_start(self, key: GroupKey, *, gone_at: Callable[[float], float], now: float) -> None:
        """End the restart of a group once nothing stands in its way.

        Args:
            key: The group.
            gone_at: Returns until when its old pods are waited for, from the end of the backoff:
                -inf if all are gone, inf if one has not begun to terminate.
            now: The current instant.
        """
        life = self.lives.get(key)
        if life is None or not life.is_held:
            return
        starts_at = life.until
        if now >= starts_at:  # before, its pods need not be looked at
            starts_at = gone_at(life.until)
        if now < starts_at:
            self._look_at(key, life, starts_at if starts_at < math.inf else None)
        else:
            self._release(key, life)

    def due(self, *, now: float) -> list[GroupKey]:
        """Return the groups that are to be looked at by now, each once, the earliest first."""
        found: list[GroupKey] = []
        while self.earliest <= now:
            key: GroupKey = self._deadlines[0][1]
            self._look_at(key, self.lives[key], None)
            found.append(key)
        return found

    def forget(self, key: GroupKey) -> None:
        """Forget a group that is gone, or whose specification is."""
        life = self.lives.get(key)
        if life is not None:
            self._look_at(key, life, None)
            del self.lives[key]

    def restore(self, key: GroupKey, life: GroupLife) -> None:
        """Remember a group as a snapshot has it."""
        self.lives[key] = life
        due_at, life.due_at = life.due_at, None
        self._look_at(key, life, due_at)

    # Inside ---------------------------------------------------------------------------------

    def _hold(self, key: GroupKey, life: GroupLife, until: float) -> None:
        life.is_held = True
        life.until = until
        self._look_at(key, life, until)

    def _release(self, key: GroupKey, life: GroupLife) -> None:
        life.is_held = False
        life.short_since = None
        self._look_at(key, life, None)

    def _look_at(self, key: GroupKey, life: GroupLife, due_at: float | None) -> None:
        """Set when a group is to be looked at again, which replaces what was set before."""
        if life.due_at is not None:
            self._deadlines.discard((life.due_at, key))
        life.due_at = due_at
        if due_at is not None:
            self._deadlines.add((due_at, key))
        self.earliest = self._deadlines[0][0] if self._deadlines else math.inf

    def _forget_if_empty(self, key: GroupKey, life: GroupLife) -> None:
        if life.runs_with is None and not life.restarts:
            del self.lives[key]

    def _check(self) -> None:
        for key, life in self.lives.items():
            if life.runs_with is None and not life.restarts:
                raise InternalError(f"nothing is known of group {key}, and it is remembered")
            if life.is_held and (life.runs_with is not None or not life.restarts):
                raise InternalError(f"group {key} is held, and runs or was never restarted")
            if life.short_since is not None and life.runs_with is None:
                raise InternalError(f"group {key} is short of members, and does not run")
            if life.due_at is not None and not life.is_held and life.short_since is None:
                raise InternalError(f"group {key} is to be looked at, and waits for nothing")
        due = {(life.due_at, key) for key, life in self.lives.items() if life.due_at is not None}
        earliest = min((at for at, _key in due), default=math.inf)
        if due != {*self._deadlines} or self.earliest != earliest:
            raise InternalError(f"groups are due at {[*self._deadlines]}, not at {sorted(due)}")
