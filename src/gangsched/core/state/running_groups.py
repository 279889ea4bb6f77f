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

A copy of a role, or a role of pods, that has a policy of its own is remembered beside its group, by
its path in the tree of the group; the path of the group itself is ``""``. It is judged in the same
way by its own minimum, and restarted alone. If its group is restarted, that is forgotten.

A fall is seen on an edge, from running to too few. So a group is restarted at most once for each
time that it has run, however many members it loses at once.

Invariants (checked by ``_check``):
  I1  a group, or a part of it, is remembered only if it runs, is held, or was restarted;
  I2  a group that is held does not run, and was restarted at least once;
  I3  only a group that runs is short;
  I4  ``_deadlines`` has each group that is to be looked at again, once; it is short or held.

Source: KEP-34, "Lifecycle Management".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping
from typing import Any, Final, final

from attrs import define, frozen
from sortedcontainers import SortedList

from gangsched.errors import InternalError
from gangsched.model import FrozenMap, GroupKey, RestartPolicy, Role
from gangsched.primitives.backoff import Backoff
from gangsched.primitives.gang_tree import SubGroup, tree_of

__all__ = ["SETTLING_SECONDS", "Fall", "GroupLife", "GroupMinimum", "Restarts", "is_within"]

SETTLING_SECONDS: Final = 1.0
"""How long events of one change may be apart, such as a deleted pod and a lowered minimum."""

_NO_ROLES: Final[FrozenMap[int | Role]] = FrozenMap()


@final
@frozen
class GroupMinimum:
    """What a group needs to run: members in total, and of each role, as it was specified."""

    members: int
    roles: FrozenMap[int | Role] = _NO_ROLES

    def part(self, path: str) -> SubGroup | None:
        """Return the minima of the group, or of a part of it; None without it. O(sub groups)."""
        tree = tree_of(self.members, self.roles)
        return next((sub for sub in tree.sub_groups() if sub.key == path), None)


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
    """What is remembered of one group, or of a part of it that is restarted alone.

    Attributes:
        runs_with: The minimum that it runs with; None if it does not run.
        restarts: How often it was restarted.
        is_held: Whether a restart is under way.
        until: The end of the backoff of the last restart.
        short_since: Since when it runs with too few members; None if it has enough, or does not
            run. -inf if it is not restarted for that, since lost members are replaced.
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

    @property
    def is_short(self) -> bool:
        """Whether it has too few members, and is restarted unless that changes soon."""
        return self.short_since is not None and self.short_since > -math.inf

    @property
    def has_fallen(self) -> bool:
        """Whether it has too few members, and lost ones are to be replaced."""
        return self.short_since == -math.inf


_NOTHING: Final[Mapping[str, GroupLife]] = {}


@final
class Restarts:
    """Which groups run, how often each was restarted, and which are held.

    Runtime complexity: every method is O(1), or O(log n) for n held groups, except ``due``, which
    is O(groups that are due), and what is about all parts of a group, which is O(parts).

    Not thread-safe.

    Attributes:
        earliest: No group is to be looked at before this instant.
        lives: What is remembered of groups and their parts, by key and path; for reading.
    """

    __slots__ = ("_deadlines", "earliest", "lives")

    def __init__(self) -> None:
        self.earliest: float = math.inf
        self.lives: dict[GroupKey, dict[str, GroupLife]] = {}
        self._deadlines: Any = SortedList()  # (due_at, key, path)

    # What is known --------------------------------------------------------------------------

    def get(self, key: GroupKey, path: str = "") -> GroupLife | None:
        """Return what is remembered of a group, or of a part of it; None if nothing is."""
        lives = self.lives.get(key)
        return None if lives is None else lives.get(path)

    def is_held(self, key: GroupKey, path: str = "") -> bool:
        """Return whether a restart is under way."""
        life = self.get(key, path)
        return life is not None and life.is_held

    def is_short(self, key: GroupKey, path: str = "") -> bool:
        """Return whether there are too few members, and it may still turn out to be complete."""
        life = self.get(key, path)
        return life is not None and life.is_short

    def next_deadline(self) -> float | None:
        """Return when a group is to be looked at next; None if no group is."""
        return self.earliest if self.earliest < math.inf else None

    def __len__(self) -> int:
        """Return how many groups are remembered."""
        return len(self.lives)

    # What happens ---------------------------------------------------------------------------

    def resume(
        self, key: GroupKey, restarts: int, until: float | None, *, now: float, path: str = ""
    ) -> None:
        """Take over what the status of a group says, unless more is remembered of it.

        Args:
            key: The group.
            restarts: How often it was restarted.
            until: The end of its backoff if a restart is under way, else None.
            now: The current instant.
            path: What of the group that is about.
        """
        life = self.get(key, path)
        if life is not None and life.restarts >= restarts:
            return
        if not restarts:
            return
        life = self._remember(key, path)
        life.restarts = restarts
        if until is not None and life.runs_with is None:
            self._hold(key, path, life, until)

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
        path: str = "",
    ) -> Fall | None:
        """Take in the members of a group as they are now; return a fall if this is one.

        Args:
            key: The group.
            minimum: What it needs to run; None if that is not known.
            policy: Whether it is restarted; None for never. With *repair* it is not for a fall.
            is_whole: Whether enough members are bound for it to run.
            is_short: Whether too few members have a node, or have succeeded, for a minimum. A
                group that is being bound may be neither whole nor short.
            is_left: Whether a member has a node.
            now: The current instant.
            path: The part of the group that this is about; ``""`` for the group itself.
        """
        life = self.get(key, path)
        if minimum is not None and is_whole:
            life = life or self._remember(key, path)
            life.runs_with = minimum
            self._release(key, path, life)
            return None
        if life is None or life.runs_with is None:
            return None
        if minimum is None:
            self.stop(key, path)
            return None
        # a raised minimum alone is no fall: the members that the group ran with are there
        if not (is_short(minimum) and is_short(life.runs_with)):
            self._release(key, path, life)
            return None
        if policy is None:
            self.stop(key, path)
            return Fall()
        if policy.repair:
            return self._fall(key, path, life, policy)
        if life.short_since is None or life.has_fallen:
            life.short_since = now
        if not is_left and life.failed_at < life.short_since - SETTLING_SECONDS:
            self.stop(key, path)  # its members were deleted on purpose
            return None
        if now < life.short_since + SETTLING_SECONDS:
            self._look_at(key, path, life, life.short_since + SETTLING_SECONDS)
            return None
        return self.restart(key, policy, now=now, path=path)

    def _fall(
        self, key: GroupKey, path: str, life: GroupLife, policy: RestartPolicy
    ) -> Fall | None:
        """Note that a group has fallen whose lost members are replaced; return that once."""
        if life.has_fallen:
            return None
        life.short_since = -math.inf
        self._look_at(key, path, life, None)
        if life.restarts >= policy.max_restarts:
            return Fall(life.restarts, policy.max_restarts)
        return Fall()

    def restart(self, key: GroupKey, policy: RestartPolicy, *, now: float, path: str = "") -> Fall:
        """Begin a restart, if the limit of the policy allows one more.

        Args:
            key: The group.
            policy: Its policy.
            now: The current instant.
            path: What of the group that is about.
        """
        life = self._remember(key, path)
        self.stop(key, path)
        if life.restarts >= policy.max_restarts:
            return Fall(life.restarts, policy.max_restarts)
        life = self.lives.setdefault(key, {}).setdefault(path, life)
        life.restarts += 1
        delay = Backoff(policy.backoff, policy.longest_backoff).delay(life.restarts)
        self._hold(key, path, life, now + delay)
        return Fall(life.restarts, policy.max_restarts, life.until)

    def join(self, key: GroupKey, fall: Fall) -> None:
        """Hold a group because another group of its bundle is restarted: they count as one."""
        if fall.until is None or self.is_held(key):
            return
        self.stop(key, "")
        life = self._remember(key, "")
        life.restarts = max(life.restarts, fall.restarts)
        self._hold(key, "", life, fall.until)

    def note_failed(self, key: GroupKey, role: str | None, *, now: float) -> None:
        """Note that a member of a role has failed, if the group or the part of it runs."""
        for path, life in self.lives.get(key, _NOTHING).items():
            if life.runs_with is not None and is_within(role, path):
                life.failed_at = now

    def stop(self, key: GroupKey, path: str | None = None) -> None:
        """Note that a group or a part does not run any more, for a reason that is not a fall.

        Args:
            key: The group.
            path: What of it that is about; None for the group and all its parts.
        """
        lives = self.lives.get(key)
        for each in () if lives is None else list(lives) if path is None else (path,):
            life = self.get(key, each)
            if life is None:
                continue
            life.runs_with = None
            if life.short_since is not None:
                life.short_since = None
                self._look_at(key, each, life, None)
            if not life.restarts:
                self._forget(key, each)

    def try_start(
        self,
        key: GroupKey,
        *,
        gone_at: Callable[[float], float],
        now: float,
        path: str = "",
    ) -> None:
        """End the restart of a group once nothing stands in its way.

        Args:
            key: The group.
            gone_at: Returns until when its old pods are waited for, from the end of the backoff:
                -inf if all are gone, inf if one has not begun to terminate.
            now: The current instant.
            path: What of the group that is about.
        """
        life = self.get(key, path)
        if life is None or not life.is_held:
            return
        starts_at = life.until
        if now >= starts_at:  # before, its pods need not be looked at
            starts_at = gone_at(life.until)
        if now < starts_at:
            self._look_at(key, path, life, starts_at if starts_at < math.inf else None)
        else:
            self._release(key, path, life)

    def due(self, *, now: float) -> list[GroupKey]:
        """Return the groups that are to be looked at by now, each once, the earliest first."""
        found: dict[GroupKey, None] = {}
        while self.earliest <= now:
            _at, key, path = self._deadlines[0]
            self._look_at(key, path, self.lives[key][path], None)
            found[key] = None
        return list(found)

    def forget(self, key: GroupKey) -> None:
        """Forget a group that is gone, or whose specification is."""
        for path in list(self.lives.get(key, ())):
            self._forget(key, path)

    def forget_parts(self, key: GroupKey, kept: Container[str] = ()) -> None:
        """Forget the parts of a group, but those of some paths."""
        for path in list(self.lives.get(key, ())):
            if path and path not in kept:
                self._forget(key, path)

    def restore(self, key: GroupKey, path: str, life: GroupLife) -> None:
        """Remember a group or a part of it as a snapshot has it."""
        self.lives.setdefault(key, {})[path] = life
        due_at, life.due_at = life.due_at, None
        self._look_at(key, path, life, due_at)

    # Inside ---------------------------------------------------------------------------------

    def _remember(self, key: GroupKey, path: str) -> GroupLife:
        lives = self.lives.setdefault(key, {})
        return lives.get(path) or lives.setdefault(path, GroupLife())

    def _forget(self, key: GroupKey, path: str) -> None:
        lives = self.lives[key]
        self._look_at(key, path, lives.pop(path), None)
        if not lives:
            del self.lives[key]

    def _hold(self, key: GroupKey, path: str, life: GroupLife, until: float) -> None:
        """Hold a group or a part; what was known of the parts within it ends with it."""
        life.is_held = True
        life.until = until
        self._look_at(key, path, life, until)
        for each in [each for each in self.lives[key] if each != path and is_within(each, path)]:
            self._forget(key, each)

    def _release(self, key: GroupKey, path: str, life: GroupLife) -> None:
        life.is_held = False
        life.short_since = None
        self._look_at(key, path, life, None)

    def _look_at(self, key: GroupKey, path: str, life: GroupLife, due_at: float | None) -> None:
        """Set when a group is to be looked at again, which replaces what was set before."""
        if life.due_at is not None:
            self._deadlines.discard((life.due_at, key, path))
        life.due_at = due_at
        if due_at is not None:
            self._deadlines.add((due_at, key, path))
        self.earliest = self._deadlines[0][0] if self._deadlines else math.inf

    def _check(self) -> None:
        due: set[tuple[float, GroupKey, str]] = set()
        for key, lives in self.lives.items():
            for path, life in lives.items():
                _check_life(f"{path} of group {key}" if path else f"group {key}", life)
                if life.due_at is not None:
                    due.add((life.due_at, key, path))
        earliest = min((at for at, _key, _path in due), default=math.inf)
        if due != {*self._deadlines} or self.earliest != earliest:
            raise InternalError(f"groups are due at {[*self._deadlines]}, not at {sorted(due)}")
        if not all(self.lives.values()):
            raise InternalError("a group is remembered without what is known of it")


def _check_life(name: str, life: GroupLife) -> None:
    if life.runs_with is None and not life.restarts:
        raise InternalError(f"nothing is known of {name}, and it is remembered")
    if life.is_held and (life.runs_with is not None or not life.restarts):
        raise InternalError(f"{name} is held, and runs or was never restarted")
    if life.short_since is not None and life.runs_with is None:
        raise InternalError(f"{name} is short of members, and does not run")
    if life.due_at is not None and not life.is_held and life.short_since is None:
        raise InternalError(f"{name} is to be looked at, and waits for nothing")


def is_within(role: str | None, path: str) -> bool:
    """Return whether a role or a part of a group is a part of another one, or that itself."""
    return not path or (role is not None and (role == path or role.startswith(f"{path}/")))
