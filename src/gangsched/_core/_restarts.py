"""Restarts of pod groups: which groups run, and which wait between old pods and new ones.

Theory of operation. The machine is told when the members of a group have changed (``observe``). A
group *runs* once enough members are bound. A running group that is left with too few members has
*fallen*. If its policy allows another restart, the restart is counted and the group is *held*: it
must not start until its old pods are gone and its backoff is over. The caller evicts the members
that are left. The controller of the group creates pods again, under the same group.

A fall is seen on an edge, from running to too few. So a group is restarted at most once for each
time that it has run, however many members it loses at once.

Invariants (checked by ``_check``):
  I1  a group is remembered only if it runs, is held, or was restarted;
  I2  a group that is held does not run, and was restarted at least once;
  I3  ``_deadlines`` has each group that is held and backs off, once.

Source: KEP-34, "Lifecycle Management".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, final

from attrs import define, frozen
from sortedcontainers import SortedList

from gangsched._core._backoff import Backoff
from gangsched.errors import InternalError
from gangsched.model import FrozenMap, GroupKey, RestartPolicy

__all__ = ["Fall", "GroupLife", "Minimum", "Restarts"]

_NO_ROLES: Final[FrozenMap[int]] = FrozenMap()


@final
@frozen
class Minimum:
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
    """

    runs_with: Minimum | None = None
    restarts: int = 0
    is_held: bool = False
    until: float = -math.inf


@final
class Restarts:
    """Which groups run, how often each was restarted, and which are held.

    Runtime complexity: every method is O(1), or O(log n) for n held groups, except ``due``, which
    is O(groups that are due).

    Not thread-safe.
    """

    __slots__ = ("_deadlines", "_lives")

    def __init__(self) -> None:
        self._lives: dict[GroupKey, GroupLife] = {}
        self._deadlines: Any = SortedList()  # (until, key)

    # What is known --------------------------------------------------------------------------

    def get(self, key: GroupKey) -> GroupLife | None:
        """Return what is remembered of a group; None if nothing is."""
        return self._lives.get(key)

    def runs(self, key: GroupKey) -> bool:
        """Return whether a group runs."""
        life = self._lives.get(key)
        return life is not None and life.runs_with is not None

    def is_held(self, key: GroupKey) -> bool:
        """Return whether a restart of a group is under way."""
        life = self._lives.get(key)
        return life is not None and life.is_held

    def next_deadline(self) -> float | None:
        """Return when the backoff of a group ends next; None if no group backs off."""
        deadlines: Sequence[tuple[float, GroupKey]] = self._deadlines
        return deadlines[0][0] if deadlines else None

    def __len__(self) -> int:
        """Return how many groups are remembered."""
        return len(self._lives)

    # What happens ---------------------------------------------------------------------------

    def resume(self, key: GroupKey, restarts: int, until: float | None, *, now: float) -> None:
        """Take over what the status of a group says, unless more is remembered of it.

        Args:
            key: The group.
            restarts: How often it was restarted.
            until: The end of its backoff if a restart is under way, else None.
            now: The current instant.
        """
        life = self._lives.get(key)
        if life is not None and life.restarts >= restarts:
            return
        if not restarts:
            return
        life = self._lives.setdefault(key, GroupLife())
        life.restarts = restarts
        if until is not None and life.runs_with is None:
            self._hold(key, life, until, now)

    def observe(
        self,
        key: GroupKey,
        minimum: Minimum | None,
        policy: RestartPolicy | None,
        *,
        is_whole: bool,
        is_short: bool,
        now: float,
    ) -> Fall | None:
        """Take in the members of a group as they are now; return a fall if this is one.

        Args:
            key: The group.
            minimum: What it needs to run; None if that is not known.
            policy: Whether it is restarted; None for never.
            is_whole: Whether enough members are bound for it to run.
            is_short: Whether too few members have a node, or have succeeded, for it to go on. Both
                are false while a member is being bound.
            now: The current instant.
        """
        life = self._lives.get(key)
        if minimum is not None and is_whole:
            life = self._lives.setdefault(key, GroupLife())
            life.runs_with = minimum
            self._release(key, life)
            return None
        if life is None or life.runs_with is None or not is_short:
            return None
        lost_members = life.runs_with == minimum
        self.stop(key)
        if not lost_members:
            return None  # no member was lost: the minimum was raised, or is not known any more
        if policy is None:
            return Fall()
        if life.restarts >= policy.max_restarts:
            return Fall(life.restarts, policy.max_restarts)
        life = self._lives.setdefault(key, life)
        life.restarts += 1
        delay = Backoff(policy.backoff, policy.longest_backoff).delay(life.restarts)
        self._hold(key, life, now + delay, now)
        return Fall(life.restarts, policy.max_restarts, life.until)

    def stop(self, key: GroupKey) -> None:
        """Note that a group does not run any more, for a reason that is not a fall."""
        life = self._lives.get(key)
        if life is None:
            return
        life.runs_with = None
        self._forget_if_empty(key, life)

    def try_start(self, key: GroupKey, *, leaving: int, now: float) -> bool:
        """Return whether a group may start; a restart ends here once nothing stands in its way.

        Args:
            key: The group.
            leaving: How many of its pods are on nodes, or are terminating.
            now: The current instant.
        """
        life = self._lives.get(key)
        if life is None or not life.is_held:
            return True
        if leaving or now < life.until:
            return False
        self._release(key, life)
        return True

    def due(self, *, now: float) -> list[GroupKey]:
        """Return the held groups whose backoff is over, each once, the earliest first."""
        found: list[GroupKey] = []
        if not self._lives:
            return found  # most clusters: each call asks
        while self._deadlines and self._deadlines[0][0] <= now:
            found.append(self._deadlines.pop(0)[1])
        return found

    def forget(self, key: GroupKey) -> None:
        """Forget a group that is gone, or whose specification is."""
        life = self._lives.pop(key, None)
        if life is not None:
            self._deadlines.discard((life.until, key))

    def restore(self, key: GroupKey, life: GroupLife, *, now: float) -> None:
        """Remember a group as a snapshot has it."""
        self._lives[key] = life
        if life.is_held:
            self._hold(key, life, life.until, now)

    # Inside ---------------------------------------------------------------------------------

    def _hold(self, key: GroupKey, life: GroupLife, until: float, now: float) -> None:
        self._deadlines.discard((life.until, key))
        life.is_held = True
        life.until = until
        if until > now:
            self._deadlines.add((until, key))

    def _release(self, key: GroupKey, life: GroupLife) -> None:
        life.is_held = False
        self._deadlines.discard((life.until, key))

    def _forget_if_empty(self, key: GroupKey, life: GroupLife) -> None:
        if life.runs_with is None and not life.restarts:
            del self._lives[key]

    def _check(self) -> None:
        for key, life in self._lives.items():
            if life.runs_with is None and not life.restarts:
                raise InternalError(f"nothing is known of group {key}, and it is remembered")
            if life.is_held and (life.runs_with is not None or not life.restarts):
                raise InternalError(f"group {key} is held, and runs or was never restarted")
        for until, key in self._deadlines:
            held = self._lives.get(key)
            if held is None or not held.is_held or held.until != until:
                raise InternalError(f"the backoff of group {key} ends at no instant, not {until}")
