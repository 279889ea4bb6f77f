"""What is remembered of a gang and of its pods.

A gang is what the queue holds: the pods of a group, of the groups of a bundle, or one pod. Only
``Records.move`` changes the state of a pod, or the node that it holds.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Iterable
from operator import attrgetter
from typing import Any, Final, NamedTuple, final

from gangsched.core.evaluation.pod_class import PodClass
from gangsched.core.nodes.node_table import Needs
from gangsched.cycle_state import CycleState
from gangsched.explain import UnschedulableMember
from gangsched.model import GroupKey, NodeName, Pod, PodUID
from gangsched.primitives.counters import MemberState
from gangsched.primitives.gang_tree import REGULAR, SubGroup
from gangsched.primitives.group_info import PodGroupInfo

__all__ = ["GangRecord", "LostNode", "PodRecord", "QueuePlace", "by_group", "by_seq"]

_UNSCHEDULED: Final = MemberState.UNSCHEDULED  # a look-up in an enum is slow
_WAITING: Final = MemberState.WAITING
_BINDING: Final = MemberState.BINDING


class QueuePlace(enum.Enum):
    """Where a gang is in the scheduling queue."""

    NOWHERE = "nowhere"
    """No member needs a node."""
    NOT_ADMITTED = "not admitted"
    """PreEnqueue refused it; only an event about the gang itself changes that."""
    ACTIVE = "active"
    BACKOFF = "backoff"
    PARKED = "parked"
    """It does not fit; a node that may take more activates it."""
    NOMINATED = "nominated"
    """Its victims terminate; their end activates it."""


@final
class PodRecord:
    """One pod.

    Attributes:
        uid: The pod's UID.
        pod: The pod as the cluster showed it last.
        seq: Ascending in the order of arrival.
        account: On which account it runs.
        owner: What is charged for it: its group, or of a regular pod the key of its gang.
        gang: The gang that it belongs to; a regular pod is a gang by itself.
        info: Its group; None for a regular pod.
        role: Its role in the group.
        leaf: The key of its leaf in the tree of the gang.
        state: Where it is.
        slot: The node that it holds; -1 for none. A terminating pod holds its node.
        node: The name of that node; None for none.
        pod_class: What capacity and plugins say about it; None while nobody needs to know.
        needs: What it takes of its node.
        attempt: The number of its last assumption; the report of a bind names it.
        round: The round of its gang in which it was tried last; see ``GangRecord.round``.
        cycle: What plugins have written about it, while it is assumed.
        bind_failures: How many binds in a row have failed.
        started_at: When it came to its node; None without one.
        reason: Why it is not placed; ``told`` is what was posted last.
        is_evicted: Whether its eviction was decided.
        is_overruled: Whether it was told that its group has another priority.
    """

    __slots__ = (
        *(
            "account",
            "attempt",
            "bind_failures",
            "cycle",
            "gang",
            "info",
            "is_evicted",
            "is_overruled",
            "leaf",
            "needs",
            "node",
            "owner",
        ),
        *("pod", "pod_class", "reason", "role", "round", "seq", "slot", "started_at", "state"),
        *("told", "uid"),
    )

    def __init__(
        self, pod: Pod, seq: int, gang: GangRecord, info: PodGroupInfo | None, role: str | None
    ) -> None:
        self.uid: PodUID = pod.uid
        self.pod = pod
        self.account = ""
        self.seq = seq
        self.gang = gang
        self.info = info
        self.owner: str = gang.key if info is None else info.key
        self.role = role
        self.leaf: str = gang.leaf_of(info, role)
        self.state = MemberState.GATED
        self.slot = -1
        self.node: NodeName | None = None
        self.pod_class: PodClass | None = None
        self.needs: Needs = ()
        self.attempt = 0
        self.round = -1
        self.cycle: CycleState | None = None
        self.bind_failures = 0
        self.started_at: float | None = None
        self.reason = self.told = ""
        self.is_evicted = self.is_overruled = False

    @property
    def is_assumed(self) -> bool:
        """Whether it holds a node that the cluster does not show yet."""
        return self.state is _WAITING or self.state is _BINDING or self.cycle is not None

    @property
    def is_being_bound(self) -> bool:
        """Whether it was released, and its bind is not reported yet."""
        return self.cycle is not None and self.state is not _WAITING

    def __repr__(self) -> str:
        return f"<{self.uid} {self.state.name.lower()} on {self.node}>"


@final
class GangRecord:
    """What is tried together: the pods of a group, of a bundle of groups, or a regular pod.

    Attributes:
        key: Unique among the gangs.
        is_bundle: Whether groups state that they start together; maybe only one has members.
        is_tree: Whether they state that by parents.
        seq: Ascending in the order of arrival.
        infos: Its groups by key; none for a regular pod.
        tree: What starts together, and where.
        problem: Why its groups make no whole, whatever their pods are; empty if they do. Until then
            the tree of a bundle has the groups that have members, and none starts.
        members: All pods by UID.
        pending: Those that need a node.
        waiting: Those that wait on permit.
        classes_of: The version of the selectors for which its pending members have their classes.
        place: Where it is in the queue; ``account``, ``sort_key``, ``handle`` and ``demand`` say
            where there. The account is empty if the order knows none.
        queued_at: When it arrived, or failed last.
        failures: How many attempts in a row have failed.
        backoff_until: When its backoff ends.
        round: Pending members are tried once a round; a new one begins when all were tried.
        began: The step at which its attempt began; 0 without one.
        is_whole: Whether the next attempt is about all members even if the unit is a pod.
        giving_way: Why it cannot be completed, while its members wait for another's cycle.
        lacks_since: When it failed for lack of capacity or of a quota first, since it was placed
            last; None if it has not.
        held_at: How many events there were when the permit timeout ended its hold last; -1 before.
            Until the next event it takes no node again to wait on, or gangs would hold nodes in
            turn for ever.
        no_plan_at: When a plan of preemption lapsed at the instant at which it was made. It is not
            made again before an event.
        refused: The member that found no node in the last attempt.
        reason: Why the last attempt failed; ``denial``: what keeps it out of the queue.
        untold: Why it was rejected in the current call, until its pods are told.
        tried: The pending members that are counted as tried; see ``count_tried``.
        span: Its priority, and the longest run time of its pending members, as far as was asked
            since it was settled last; see ``run_times``.
        on_nodes: How many of its pods hold nodes; ``counted_priority`` and ``counted_queue``:
            where ``Records.priorities`` and ``priorities_in`` counted them last.
        told_all: What every pending member was told while the gang was not admitted; new ones, and
            those that changed, come last among them. Empty if one was told something else.
    """

    __slots__ = (
        *(
            "account",
            "backoff_until",
            "began",
            "classes_of",
            "counted_priority",
            "counted_queue",
            "demand",
            "denial",
            "failures",
            "giving_way",
            "handle",
        ),
        *(
            "held_at",
            "infos",
            "is_bundle",
            "is_tree",
            "is_whole",
            "key",
            "lacks_since",
            "leaves",
            "members",
            "no_plan_at",
        ),
        *("on_nodes", "pending", "place", "problem"),
        *(
            "queued_at",
            "reason",
            "refused",
            "round",
            "seq",
            "sort_key",
            "span",
            "told_all",
        ),
        *("tree", "tried", "untold", "waiting"),
    )

    def __init__(self, key: str, seq: int, queued_at: float) -> None:
        self.key = key
        self.is_tree: bool = key.startswith("tree:")
        self.is_bundle: bool = self.is_tree or key.startswith("bundle:")
        self.seq = seq
        self.infos: dict[GroupKey, PodGroupInfo] = {}
        self.members: dict[PodUID, PodRecord] = {}
        self.pending: dict[PodUID, PodRecord] = {}
        self.waiting: dict[PodUID, PodRecord] = {}
        self.classes_of: int = 0
        self.place = QueuePlace.NOWHERE
        self.account = ""
        self.sort_key: tuple[Any, ...] = ()
        self.handle: Any = None
        self.demand: Any = None
        self.queued_at = queued_at
        self.failures: int = 0
        self.backoff_until: float = -math.inf
        self.round = 0
        self.began: int = 0
        self.is_whole = False
        self.giving_way: str = ""
        self.tried: dict[PodUID, PodRecord] = {}
        self.span: tuple[int, float] | None = None
        self.on_nodes = self.counted_priority = 0
        self.counted_queue = ""
        self.held_at = -1
        self.lacks_since: float | None = None
        self.no_plan_at: tuple[float, int] | None = None
        self.refused: UnschedulableMember | None = None
        self.reason: str = ""
        self.denial = self.told_all = self.untold = ""
        self.set_tree(REGULAR)

    def set_tree(self, tree: SubGroup, problem: str = "") -> None:
        """Give the gang a tree, and each member its leaf; some need other classes then."""
        had_domains = bool(self.members) and bool(self.tree.exclusive_leaves)
        self.tree: SubGroup = tree
        self.problem: str = problem
        if tree.exclusive_leaves or had_domains:
            self.classes_of = -1
        self.leaves: dict[tuple[GroupKey | None, str | None], str] = {
            (leaf.group, leaf.role): leaf.key for leaf in tree.leaves
        }
        for record in self.members.values():
            record.leaf = self.leaf_of(record.info, record.role)

    def leaf_of(self, info: PodGroupInfo | None, role: str | None) -> str:
        """Return the key of the leaf of a pod; the key of the gang if none is about its group."""
        group = None if info is None else info.key
        own = self.leaves.get((group, role))
        return self.leaves.get((group, None), self.key) if own is None else own

    @property
    def parts(self) -> tuple[SubGroup, ...]:
        """What goes on without the others once it has started: each group of a bundle, or all."""
        return self.tree.children if self.is_bundle and not self.is_tree else (self.tree,)

    def path_of(self, sub: SubGroup) -> str:
        """Return the key of a sub group within the tree of its group; ``""`` above all groups."""
        if not self.is_bundle:
            return sub.key
        return "" if sub.group is None else sub.key[len(sub.group) + 1 :]

    @property
    def group(self) -> PodGroupInfo | None:
        """Its group; of a bundle, the one that the queue order puts first."""
        infos = self.infos.values()
        if len(infos) < 2:
            return next(iter(infos), None)
        return min(infos, key=lambda info: (-info.priority, info.created_at, info.uid))

    @property
    def is_started(self) -> bool:
        """Whether it has groups, and each was released: it depends on no quorum any more."""
        return bool(self.infos) and all(info.was_scheduled for info in self.infos.values())

    @property
    def pod(self) -> Pod:
        """The first pending member, or any other."""
        records = self.pending or self.waiting or self.members
        return min(records.values(), key=by_seq).pod

    @property
    def name(self) -> str:
        """What it is called in reasons: the pod group, or the pod."""
        group = self.group
        if group is None:
            return f"pod {self.pod.key}"
        return f"pod group {group.key if group.root is None else group.root.key}"

    @property
    def priority(self) -> int:
        """Its one priority: in the queue, as preemptor and as victim. O(groups).

        That of a regular pod; of a group the one that it states, else the highest of its members;
        of a bundle the highest of its groups.
        """
        if len(self.infos) == 1:
            (info,) = self.infos.values()
            return info.priority
        group = self.group
        return self.pod.priority if group is None else group.priority

    @property
    def created_at(self) -> float:
        """When the pod or the group was created."""
        group = self.group
        return self.pod.created_at if group is None else group.created_at

    def in_order(self) -> list[PodRecord]:
        """Return the pending members in the order of arrival."""
        return sorted(self.pending.values(), key=by_seq)

    def untried(self) -> list[PodRecord]:
        """Return the pending members that were not tried in this round, in order."""
        return [record for record in self.in_order() if record.round != self.round]

    def note_failures(self, failures: int, backoff_until: float, reason: str) -> None:
        """Note how often in a row it has failed, until when it backs off, and why. O(groups).

        Its groups show that, and one that leaves it, or is left without pods, remembers it.
        """
        self.failures, self.backoff_until, self.reason = failures, backoff_until, reason
        for info in self.infos.values():
            info.failures, info.backoff_until, info.failure = failures, backoff_until, reason

    def end_backoff(self) -> None:
        """End its backoff; the caller lets it be settled. O(groups)."""
        self.backoff_until = -math.inf
        for info in self.infos.values():
            info.backoff_until = -math.inf

    def end_attempt(self) -> None:
        """Note that no attempt is under way. O(members that were tried)."""
        self.began, self.giving_way = 0, ""
        if self.tried:
            self.count_tried()

    def count_tried(self, tried: Collection[PodRecord] = frozenset()) -> None:
        """Count for its groups the pending members that its attempt has tried, and *tried*.

        Members that are pending no more are left out at once (``forget_tried``). To be called when
        a round begins or an attempt ends, and before a plugin decides about the others.

        Runtime complexity: O(pending members), but O(1) without an attempt.
        """
        for record in list(self.tried.values()):
            self.forget_tried(record)
        for record in self.pending.values() if self.began or tried else ():
            group, role = record.info, record.role
            is_tried = self.began and record.round == self.round
            if group is None or not (is_tried or record in tried):
                continue
            self.tried[record.uid] = record
            group.tried += 1
            if role is not None:
                group.tried_by_role[role] = group.tried_by_role.get(role, 0) + 1

    def forget_tried(self, record: PodRecord) -> None:
        """Count a member as tried no longer. O(1)."""
        group, role = record.info, record.role
        if self.tried.pop(record.uid, None) is not None and group is not None:
            group.tried -= 1
            if role is not None:
                group.tried_by_role[role] -= 1

    def __repr__(self) -> str:
        return f"<{self.key} {self.place.value}: {len(self.pending)} of {len(self.members)} pend>"


class LostNode(NamedTuple):
    """What plugins are told of a pod that was taken off the node it was assumed on.

    Attributes:
        record: The pod.
        cycle: What plugins have written about it.
        node: The node.
        cause: The cause as ``unreserve`` names it.
        why: Why it was taken off.
        is_tried: Whether an attempt depended on it.
        was_evicted: Whether its eviction was decided.
    """

    record: PodRecord
    cycle: CycleState | None
    node: NodeName
    cause: str
    why: str
    is_tried: bool
    was_evicted: bool


def by_group(records: Iterable[PodRecord]) -> list[list[PodRecord]]:
    """Return pods by their group, in the order of the first of each."""
    groups: dict[GroupKey | None, list[PodRecord]] = {}
    for record in records:
        groups.setdefault(None if record.info is None else record.info.key, []).append(record)
    return list(groups.values())


by_seq: Final = attrgetter("seq")
"""The key that sorts pods or gangs by arrival."""
