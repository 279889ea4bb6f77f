"""Pod groups and entities of the queue, as plugins see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gangsched.model import GroupKey, Pod, Resources

__all__ = ["EntityView", "GroupView", "RoleView"]


class RoleView(Protocol):
    """The members of a group that have one role, counted as in ``GroupView``."""

    @property
    def unscheduled(self) -> int:
        """The number of members of this role without a node."""
        ...

    @property
    def waiting(self) -> int:
        """The number of members of this role that wait on permit."""
        ...

    @property
    def scheduled(self) -> int:
        """The number of members of this role with a node: waiting, being bound, or bound."""
        ...

    @property
    def untried(self) -> int:
        """The number of unscheduled members of this role that the attempt has not tried yet."""
        ...

    @property
    def succeeded(self) -> int:
        """The number of members of this role that have succeeded on their nodes."""
        ...


class GroupView(Protocol):
    """A pod group as the scheduler knows it, read-only.

    The member counts are disjoint: each member is in exactly one state.
    """

    @property
    def key(self) -> GroupKey:
        """``namespace/name``."""
        ...

    @property
    def uid(self) -> int:
        """The scheduler's number of this group, ascending in the order of arrival."""
        ...

    @property
    def min_available(self) -> int | None:
        """The quorum; None while it is unknown."""
        ...

    @property
    def roles(self) -> Mapping[str, int]:
        """The minimum number of members by role; empty if any members form the quorum."""
        ...

    def role(self, name: str) -> RoleView:
        """Return the counts of the members of a role; zeros for a role without members. O(1).

        A member without a role, or of a role without a minimum, counts for the group only.
        """
        ...

    @property
    def schedule_timeout(self) -> float | None:
        """The permit timeout of the group in seconds; None for the default of the policy."""
        ...

    @property
    def min_resources(self) -> Resources:
        """The total request that the group states; empty if it states none."""
        ...

    @property
    def priority(self) -> int:
        """The priority that the group states, else the highest of its members."""
        ...

    @property
    def created_at(self) -> float:
        """When the group was created; without a specification, its first member."""
        ...

    @property
    def last_failure_at(self) -> float | None:
        """When its last attempt was rejected; None if none was since it was last scheduled."""
        ...

    @property
    def attempts(self) -> int:
        """The number of attempts that have begun, which is the number of the last attempt."""
        ...

    @property
    def attempt_started_at(self) -> float | None:
        """When the current attempt began; None between attempts."""
        ...

    @property
    def was_scheduled(self) -> bool:
        """Whether the group has been released once."""
        ...

    @property
    def all(self) -> int:
        """The number of unscheduled and scheduled members; not gated, terminating or finished."""
        ...

    @property
    def unscheduled(self) -> int:
        """The number of members without a node."""
        ...

    @property
    def waiting(self) -> int:
        """The number of members that wait on permit, each with a node."""
        ...

    @property
    def assumed(self) -> int:
        """The number of members with a node that are not yet bound: waiting, or being bound."""
        ...

    @property
    def assigned(self) -> int:
        """The number of bound members."""
        ...

    @property
    def scheduled(self) -> int:
        """The number of members with a node: assumed and assigned."""
        ...

    @property
    def untried(self) -> int:
        """The number of unscheduled members that the current attempt has not tried yet."""
        ...

    @property
    def succeeded(self) -> int:
        """The number of members that have succeeded on their nodes, and are not being deleted."""
        ...


class EntityView(Protocol):
    """An entity of the queue, a pod or a pod group, read-only."""

    @property
    def priority(self) -> int:
        """The priority of the pod or the group."""
        ...

    @property
    def created_at(self) -> float:
        """When the pod or the group was created."""
        ...

    @property
    def queued_at(self) -> float:
        """When it was last enqueued: on arrival, or after a failed attempt."""
        ...

    @property
    def seq(self) -> int:
        """A unique number, ascending in the order of arrival."""
        ...

    @property
    def pod(self) -> Pod:
        """The pod; of a group, its first pending member."""
        ...

    @property
    def group(self) -> GroupView | None:
        """The group; None for a regular pod."""
        ...
