"""Notices: what the scheduler has decided, which needs no action."""

from __future__ import annotations

from typing import TypeAlias, final

from attrs import evolve, frozen

from gangsched.model import GroupKey, NodeName, PodGroup, PodUID

__all__ = [
    "CopyBound",
    "GroupBelowMinimum",
    "GroupBound",
    "GroupIncomplete",
    "GroupPartlyBound",
    "GroupRejected",
    "GroupRemoved",
    "GroupRestarted",
    "GroupScheduled",
    "Nominated",
    "NominationLapsed",
    "Notice",
    "PodNotAdmitted",
    "PodRefused",
    "PodRejected",
    "PodScheduled",
    "PodUnschedulable",
    "PodWaiting",
    "PriorityOverruled",
    "RestartLimitReached",
    "VictimSearchExhausted",
]


@final
@frozen
class PodRefused:
    """A pod is invalid and is not scheduled until its user changes it."""

    uid: PodUID
    reason: str


@final
@frozen
class PriorityOverruled:
    """A pending member has another priority than its group; the priority of the group decides.

    Posted once for each member, however often the priority of the group changes later.

    Attributes:
        uid: The member.
        group: The group.
        priority: The priority of the member.
        used: The priority of the group at this instant, with which the member is queued.
    """

    uid: PodUID
    group: GroupKey
    priority: int
    used: int


@final
@frozen
class PodNotAdmitted:
    """A pod is not admitted to the queue yet.

    If a group waits for the other groups of its bundle, the notice names one member only.
    """

    uid: PodUID
    reason: str


@final
@frozen
class GroupIncomplete:
    """A group has fewer members than its minimum; no member is tried.

    Attributes:
        group: The group.
        present: The number of members that count for the quorum.
        min_available: The minimum; None if neither a specification nor a member gives it.
        roles: The roles with too few members: role, minimum, members that count.
    """

    group: GroupKey
    present: int
    min_available: int | None
    roles: tuple[tuple[str, int, int], ...] = ()


@final
@frozen
class PodUnschedulable:
    """A pending pod is not placed: it found no node, or its group failed or is incomplete.

    A pod that was tried itself is told after each try. The other pending members of its group are
    told only if their reason is another one than they were told last.

    Attributes:
        uid: The pod.
        reason: Why: what refused it, or why its group was rejected.
    """

    uid: PodUID
    reason: str


@final
@frozen
class PodWaiting:
    """A pod is assumed on a node and waits on permit, such as for other members of its group.

    Attributes:
        uid: The pod.
        node: The node that the pod is assumed on.
        deadline: When the wait ends at the latest; the pod then loses the node.
        remaining: The number of members that the quorum still lacks.
        attempt: The number of the attempt of the pod; the ``Bind`` of this attempt has the same.
            0 at a ``Gate``, which makes no binds.
        plugins: The permit plugins that let the pod wait. It is released when each of them allows
            it; see ``PermitAllowed``. Without any, it waits for siblings that a plugin lets wait.
    """

    uid: PodUID
    node: NodeName
    deadline: float
    remaining: int
    attempt: int = 0
    plugins: tuple[str, ...] = ()


@final
@frozen
class PodRejected:
    """A pod was rejected after it was assumed on a node; the node is free again."""

    uid: PodUID
    node: NodeName
    reason: str


@final
@frozen
class GroupRejected:
    """An attempt of a group was rejected; no member waits on permit any more.

    Attributes:
        group: The group.
        attempt: The number of the attempt of the group, from 1. If the group is evicted, it is that
            of the ``GroupScheduled`` before, if there was one; otherwise a new one.
        reason: Why the attempt was rejected.
        retry_after: When the backoff of the group ends.
    """

    group: GroupKey
    attempt: int
    reason: str
    retry_after: float


@final
@frozen
class GroupScheduled:
    """A group reached its quorum and its waiting members were released.

    Attributes:
        group: The group.
        attempt: The number of the attempt of the group, from 1.
        scheduled: The number of members that hold a node at this instant.
        waited: Seconds since the group had enough members for the first time.
    """

    group: GroupKey
    attempt: int
    scheduled: int
    waited: float


@final
@frozen
class GroupBound:
    """A group runs: after its start, a quorum is bound and no bind is under way any more.

    It follows ``GroupScheduled`` once for each start of the group, when the last of the binds is
    reported. A group that was bound already when the scheduler first saw it has no such notice.
    Of a group of groups it says that as many of them run as it wants; others may be starting.

    Attributes:
        group: The group.
        attempt: The number of the attempt that started it; see ``GroupScheduled``. Of a group of
            groups, the highest of one below it.
        bound: The number of bound members.
    """

    group: GroupKey
    attempt: int
    bound: int


@final
@frozen
class CopyBound:
    """A copy, or a role, that was restarted alone is bound, and runs again.

    Attributes:
        group: The group.
        path: The path of the copy or the role in the group, such as ``decode/1``.
        bound: The number of its members that are bound.
    """

    group: GroupKey
    path: str
    bound: int

    def noted_in(self, group: PodGroup) -> PodGroup:
        """Return the group with a status that says no more that the copy is being restarted."""
        restarts, _until = group.copy_restarts.get(self.path, (0, None))
        if not restarts:
            return group
        return evolve(group, copy_restarts={**group.copy_restarts, self.path: (restarts, None)})


@final
@frozen
class GroupPartlyBound:
    """A bind failed, and too few members of the group hold a node for it to run.

    The other members stay on their nodes, and the member is tried again. The notice is repeated
    for each failure that leaves the group so.

    Attributes:
        group: The group.
        scheduled: The number of members that hold a node.
        min_available: The minimum of the group.
        uid: The member whose bind failed.
        reason: Why it failed, and why the other members are not evicted.
    """

    group: GroupKey
    scheduled: int
    min_available: int
    uid: PodUID
    reason: str


@final
@frozen
class GroupBelowMinimum:
    """A group that ran, or a part of it that is restarted alone, has fewer members than it needs.

    It is posted once, until the group runs again. Members that have succeeded count, also if they
    were deleted since. If the group has a restart policy, the notice is posted a second after the
    loss, unless the minimum is lowered or all members are deleted meanwhile. ``GroupRestarted`` or
    ``RestartLimitReached`` follows it. With ``RestartPolicy.repair`` it is posted at once, and a
    restart may follow later, or none.

    Attributes:
        group: The group.
        scheduled: The number of members that hold a node or have succeeded. If the group has
            copies of roles, those that its minimum does not count are left out.
        min_available: The minimum of the group; with a *path*, of the copy or the role.
        path: The copy or the role that fell alone, such as ``decode/1``; empty for the group.
    """

    group: GroupKey
    scheduled: int
    min_available: int
    path: str = ""


@final
@frozen
class GroupRestarted:
    """A group that fell below its minimum is restarted: its other members are evicted.

    With ``RestartPolicy.repair`` it is restarted so that lost members find nodes, and a part of a
    group may be restarted that lacks nothing itself.

    The effects that evict them follow. The group starts again as a whole, when all its old pods are
    gone or given up, its controller has created new ones, and the backoff is over. The groups of a
    bundle are restarted together, each with a notice. ``GroupBound`` says that it
    runs again. With a *path*, only this copy or role is restarted, and the others run on; then
    ``CopyBound`` says that it runs again.

    Attributes:
        group: The group.
        restarts: How often the group was restarted, this time included. Keep it where the next
            scheduler finds it, as ``PodGroup.restarts``: ``noted_in`` returns that.
        limit: The limit of its policy.
        until: The end of the backoff; to be kept as ``PodGroup.restarting_until`` until the group
            is bound, or that of a copy in ``PodGroup.copy_restarts``.
        path: The copy or the role that is restarted alone, such as ``decode/1``; empty for the
            group. *restarts* counts its own restarts then.
    """

    group: GroupKey
    restarts: int
    limit: int
    until: float
    path: str = ""

    def noted_in(self, group: PodGroup) -> PodGroup:
        """Return the group with this restart in its status, for the next scheduler."""
        if self.path:
            copies = {**group.copy_restarts, self.path: (self.restarts, self.until)}
            return evolve(group, copy_restarts=copies)
        return evolve(group, restarts=self.restarts, restarting_until=self.until, copy_restarts={})


@final
@frozen
class RestartLimitReached:
    """A group that fell below its minimum was restarted as often as its policy allows.

    The other members stay on their nodes, and members that replace lost ones are placed one by one.

    Attributes:
        group: The group.
        restarts: How often the group, or the part at *path*, was restarted.
        path: The copy or the role with a policy of its own; empty for the group.
    """

    group: GroupKey
    restarts: int
    path: str = ""


@final
@frozen
class GroupRemoved:
    """A group has neither a specification nor a pod any more, as after the end of its owner.

    No member waits, and nothing is reserved for it. A host that keeps something for the group may
    drop it. If pods come back under its name, it is a group again.

    Attributes:
        group: The group.
    """

    group: GroupKey


@final
@frozen
class PodScheduled:
    """The bind of a pod was reported as done."""

    uid: PodUID
    node: NodeName


@final
@frozen
class Nominated:
    """Nodes are nominated for a pod or a gang that preempts other pods.

    Capacity is reserved for it until its victims are gone. Meanwhile no pod of the same or a
    lower priority is placed there. The nomination ends when its pods are bound, on these nodes
    or others, or with ``NominationLapsed``.

    Attributes:
        group: The group; None for a regular pod.
        priority: Pods of this priority or a lower one cannot use the reserved capacity.
        places: The nominated node of each pod.
        victims: The pods that are evicted, at once or when their bind has ended; empty if the
            nomination waits only for pods that are terminating already.
        deadline: When the nomination ends at the latest; later if a victim's bind is under way, as
            the grace of such a victim begins when its bind has ended.
    """

    group: GroupKey | None
    priority: int
    places: tuple[tuple[PodUID, NodeName], ...]
    victims: tuple[PodUID, ...]
    deadline: float


@final
@frozen
class NominationLapsed:
    """A nomination ended before its pods were bound; its reserved capacity is free again.

    Attributes:
        group: The group; None for a regular pod.
        pods: The nominated pods that still exist.
        reason: Why the nomination ended.
    """

    group: GroupKey | None
    pods: tuple[PodUID, ...]
    reason: str


@final
@frozen
class VictimSearchExhausted:
    """The search for victims of a preemptor was cut short by its budget.

    See ``search_budget`` of ``Scheduler`` and ``Preemption``. The notice is repeated with each
    attempt whose search is cut short.

    Attributes:
        group: The group; None for a regular pod.
        uid: The pod that needs capacity; of a group, the member that did not fit.
        steps: The number of steps that the search took.
        is_found: Whether victims were found. If so, ``Nominated`` follows, and fewer victims or
            other ones might be enough. If not, no pod is evicted, although victims may exist.
    """

    group: GroupKey | None
    uid: PodUID
    steps: int
    is_found: bool


Notice: TypeAlias = (
    PodRefused
    | PriorityOverruled
    | PodNotAdmitted
    | GroupIncomplete
    | PodUnschedulable
    | PodWaiting
    | PodRejected
    | GroupRejected
    | GroupScheduled
    | GroupBound
    | CopyBound
    | GroupPartlyBound
    | GroupBelowMinimum
    | GroupRestarted
    | RestartLimitReached
    | GroupRemoved
    | PodScheduled
    | Nominated
    | NominationLapsed
    | VictimSearchExhausted
)
