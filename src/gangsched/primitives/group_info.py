"""The record of one pod group: what it states, its members by state, and its attempts.

Minimum, roles and priority follow from the specification and the members' claims (``derive``), and
how it stands from the counts. All of them are kept until one of these changes.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final, final

from attrs import define, field

from gangsched.model import FrozenMap, GroupKey, PodGroup, PodUID, Resources
from gangsched.primitives.claims import Claims
from gangsched.primitives.counters import MemberCounts, MemberState, PodGroupCounters, RoleCounts
from gangsched.primitives.gang_tree import SubGroup, group_tree
from gangsched.primitives.standing import Counts, Standing, alone, by_role, counted, standing
from gangsched.resources import NOTHING

__all__ = ["HOLDING", "TO_BE_PLACED", "PodGroupInfo"]

HOLDING: Final = (MemberState.WAITING, MemberState.BINDING, MemberState.ASSIGNED)
"""The states in which a member holds a node for its group."""
TO_BE_PLACED: Final = (MemberState.GATED, MemberState.UNSCHEDULED)
"""The states of a member that may still get a node, now or once its gates are gone."""
_NO_ROLES: Final[FrozenMap[int]] = FrozenMap()


@final
@define(eq=False, kw_only=True, getstate_setstate=False)  # attrs would copy its own fields alone
class PodGroupInfo(MemberCounts):
    """The scheduler's record of one pod group.

    Attributes:
        key: ``namespace/name``.
        uid: The number of the group, ascending in the order of creation.
        spec: The specification; None if only members define the group.
        above: Those of its parents, the root first.
        claimed_min: The minimum of the first member that claims one; None if none does.
        claimed_priority: The highest priority of a member; None without a member.
        first_seen_at: The creation time of the first member; None without a member.
        claims: The minimum and the priority that each member claims, except refused members.
        members: The members, counted by state.
        attempts: The number of attempts so far, which is the number of the latest one.
        attempt_started_at: When the current attempt began; None between attempts.
        last_failure_at: When the last attempt was rejected; None before any rejection, and again
            once the group is scheduled.
        failures: The number of rejected attempts in a row.
        backoff_until: When the backoff ends; in the past if the group is not in backoff.
        failure: Why the last attempt was rejected; empty if *failures* is 0.
        complete_at: When the group had enough members for the first time; None before that.
        was_scheduled: Whether members of the group were released.
        started_by: The number of the attempt that released members last; 0 if none did, or if they
            were evicted since.
        is_binding: Whether the group was released, and was not bound as a whole since.
        tried: The number of unscheduled members tried in this attempt; set by the queue.
        tried_by_role: The same number for each role; set by the queue.
        min_available: The minimum of the specification, else of the first member that claims one.
        roles: The minima of the roles that the specification states, those of trees left out.
        priority: The priority of the specification, else the highest of a member; 0 without either.
        has_copies: Whether a role consists of copies of other roles.
        has_parts: Whether parts of it start as a whole: copies of a role, slices, or what moves.
        spells_roles: Whether its specification decides which role a member has.
    """

    key: GroupKey
    uid: int
    spec: PodGroup | None = None
    above: tuple[PodGroup, ...] = ()
    claimed_min: int | None = None
    claimed_priority: int | None = None
    first_seen_at: float | None = None
    claims: Claims = field(factory=Claims)
    members: PodGroupCounters = field(factory=PodGroupCounters)
    attempts: int = 0
    attempt_started_at: float | None = None
    last_failure_at: float | None = None
    failures: int = 0
    backoff_until: float = -math.inf
    failure: str = ""
    complete_at: float | None = None
    was_scheduled: bool = False
    started_by: int = 0
    is_binding: bool = False
    tried: int = 0
    tried_by_role: dict[str, int] = field(factory=dict[str, int])
    min_available: int | None = field(init=False, default=None)
    roles: FrozenMap[int] = field(init=False, default=_NO_ROLES)
    priority: int = field(init=False, default=0)
    has_copies: bool = field(init=False, default=False)
    has_parts: bool = field(init=False, default=False)
    spells_roles: bool = field(init=False, default=False)
    _tree: tuple[PodGroup | None, int | None, SubGroup] | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.members.share_with(self)
        self.derive()

    def derive(self) -> None:
        """Compute what follows from the specification and the claims of members. O(1)."""
        spec, claimed = self.spec, self.claimed_priority or 0
        self.min_available = self.claimed_min if spec is None else spec.min_available
        self.roles = _NO_ROLES if spec is None or not spec.roles else _minima(spec)
        self.has_copies = spec is not None and bool(spec.roles) and spec.has_copies
        self.has_parts = spec is not None and (
            self.has_copies or spec.has_slices or spec.is_repaired
        )
        self.spells_roles = spec is not None and spec.spells_roles
        stated = None if spec is None else spec.priority
        if self.above:
            stated = self.stated_priority
        self.priority = claimed if stated is None else stated
        self.members.standing = None

    def add_role(self, uid: PodUID, role: str | None) -> None:
        """Give a member a role; the specification gets the copy that it numbers."""
        self.members.give_role(uid, role)
        if self.spec is not None and role is not None and self.spells_roles:
            self.spec = self.spec.with_copies_of((role,))

    @property
    def root(self) -> PodGroup | None:
        """The specification of the root above it, which may speak for all groups below."""
        return self.above[0] if self.above else None

    @property
    def stated_priority(self) -> int | None:
        """The priority that a specification states, of the root or its own; None for none."""
        for spec in (self.root, self.spec):
            if spec is not None and spec.priority is not None:
                return spec.priority
        return None

    @property
    def tree(self) -> SubGroup:
        """Its minima; see ``group_tree``. O(1), O(sub groups) after they have changed."""
        kept = self._tree
        if kept is None or kept[0] is not self.spec or kept[1] != self.min_available:
            tree = group_tree(self.key, self.spec, self.min_available)
            kept = self._tree = (self.spec, self.min_available, tree)
        return kept[2]

    @property
    def namespace(self) -> str:
        """The first part of the key."""
        return self.key.partition("/")[0]

    @property
    def name(self) -> str:
        """The second part of the key."""
        return self.key.partition("/")[2]

    @property
    def is_complete(self) -> bool:
        """Whether enough members count for the quorum, in total and of each role."""
        return self.min_available is not None and self.standing.is_complete

    @property
    def is_gated(self) -> bool:
        """Whether only gates of its members keep it from being complete. O(roles)."""
        if not self.members.count(MemberState.GATED) or self.min_available is None:
            return False
        return not self.is_complete and self.stands(pending=TO_BE_PLACED).is_complete

    @property
    def standing(self) -> Standing:
        """How it stands: in total, by the key ``""``, and each role, by name.

        It is computed when it is read first after a count has changed. O(roles).
        """
        members = self.members
        found = members.standing
        if found is None:
            found = members.standing = self.stands()
        return found

    def stands(
        self,
        held: Collection[MemberState] = HOLDING,
        *,
        pending: Collection[MemberState] = (MemberState.UNSCHEDULED,),
        done: bool = True,
        tree: SubGroup | None = None,
    ) -> Standing:
        """Return how it would stand if other members counted; see ``standing``. O(sub groups).

        Args:
            held: The states in which members count as holding a node.
            pending: The states in which members may still get one.
            done: Whether members that have succeeded count if the others are too few.
            tree: The minima; None for its own.
        """
        members = self.members
        if tree is None and not self.tree.children:  # most groups
            least = self.min_available or 0
            on, off = members.in_states(held), members.in_states(pending)
            return alone(counted(least, on, off, self.succeeded if done else 0))

        def of(role: str | None) -> Counts:
            on, off = members.in_states(held, role), members.in_states(pending, role)
            return Counts(on, off, members.done(role) if done else 0)

        return standing(tree or self.tree, by_role(of(None), of))

    def role(self, name: str) -> RoleCounts:
        """Return the member counts of a role; see ``PodGroupCounters.role``. O(1)."""
        return self.members.role(name, tried=self.tried_by_role.get(name, 0))

    @property
    def untried(self) -> int:
        """The number of unscheduled members not tried in this attempt."""
        return self.unscheduled - self.tried

    @property
    def schedule_timeout(self) -> float | None:
        """The permit timeout of the specification.

        None if the specification gives none: then the default of the gang policy holds.
        """
        stated = [spec.schedule_timeout for spec in (self.root, self.spec) if spec is not None]
        return next((each for each in stated if each is not None), None)

    @property
    def min_resources(self) -> Resources:
        """The total resources that the specification requires; empty without a specification."""
        return NOTHING if self.spec is None else self.spec.min_resources

    @property
    def created_at(self) -> float:
        """The creation time of the specification, else of the first member."""
        if self.spec is not None:
            return self.spec.created_at
        return 0.0 if self.first_seen_at is None else self.first_seen_at


def _minima(spec: PodGroup) -> FrozenMap[int]:
    """Return the minima of the roles that are neither copies nor cut into slices."""
    found = {
        name: role if isinstance(role, int) else role.needed
        for name, role in spec.roles.items()
        if isinstance(role, int) or not (role.roles or (role.topology and role.topology.slices))
    }
    return FrozenMap(found) if found else _NO_ROLES
