"""The rows of a snapshot: the state of a scheduler as values that refer to each other.

Rules:
  R1  a row has what a scheduler remembers. What follows from other rows, from the settings or from
      plugins is in no row;
  R2  each object has one row. Other rows refer to a pod by its UID, to a group by its key, to a
      node by its name, and to an entity by its number;
  R3  an order that matters is the order of a list, because a database may reorder the keys of a
      JSON object.

``forms`` defines how rows are written.
"""

from __future__ import annotations

import math
from typing import Any, final

from attrs import frozen

from gangsched._core._counters import MemberState
from gangsched._core._quotas import Charge
from gangsched.errors import PluginError
from gangsched.events import Effect
from gangsched.explain import UnschedulableMember
from gangsched.framework.state.role_count import RoleCount
from gangsched.model import (
    GroupKey,
    Node,
    NodeName,
    Pod,
    PodGroup,
    PodUID,
    Resources,
    Topology,
)
from gangsched.options.scheduling_unit import SchedulingUnit
from gangsched.resources import NOTHING

__all__ = [
    "AssumedRow",
    "BackfillRow",
    "EntityRow",
    "EquivalenceClassRow",
    "EquivalenceQueueRow",
    "ErrorRow",
    "GroupRow",
    "MemberRow",
    "NodeRow",
    "NominatedPodRow",
    "NominationRow",
    "ReservationRow",
    "ReservedNodeRow",
    "RestartRow",
    "SnapshotRow",
    "WaitRow",
]


@final
@frozen(kw_only=True)
class NodeRow:
    """A node as it was last read, and the pods that hold it.

    *pods* are all of them, in order; *others* are those that differ from the known pod of the
    same UID.
    """

    node: Node
    index: int
    pods: tuple[PodUID, ...] = ()
    others: tuple[Pod, ...] = ()


@final
@frozen(kw_only=True)
class AssumedRow:
    """A pod that is assumed on a node; *pod* is set only if it differs from the known pod."""

    uid: PodUID
    pod: Pod | None = None


@final
@frozen(kw_only=True)
class GroupRow:
    """A ``PodGroupInfo``; *claims* are the members whose claims count, the first one first.

    *collected* has the members that succeeded and were deleted, by role; the empty role has those
    without one.
    """

    key: GroupKey
    number: int
    spec: PodGroup | None = None
    first_seen_at: float | None = None
    claims: tuple[PodUID, ...] = ()
    attempts: int = 0
    attempt_started_at: float | None = None
    last_failure_at: float | None = None
    failures: int = 0
    backoff_until: float = -math.inf
    failure: str = ""
    complete_at: float | None = None
    was_scheduled: bool = False
    is_binding: bool = False
    collected: tuple[tuple[str, int], ...] = ()


@final
@frozen(kw_only=True)
class RestartRow:
    """A ``GroupLife``: a group that runs, is held, or was restarted.

    *minimum* and *roles* are what it runs with; *minimum* is None if it does not run. At *due_at*
    it is looked at again; None for never.
    """

    group: GroupKey
    restarts: int = 0
    until: float = -math.inf
    is_held: bool = False
    minimum: int | None = None
    roles: tuple[tuple[str, int], ...] = ()
    short_since: float | None = None
    failed_at: float = -math.inf
    due_at: float | None = None


@final
@frozen(kw_only=True)
class EntityRow:
    """A queue entity: of a group, or of a regular pod.

    *tried* are the pending members that were tried in this round.
    """

    seq: int
    group: GroupKey | None = None
    pod: PodUID | None = None
    queued_at: float = 0.0
    failures: int = 0
    backoff_until: float = -math.inf
    tried_step: int = -1
    failed_step: int = -1
    event_step: int = -1
    round_step: int = -1
    refused_at: int = -1
    reason: str = ""
    denial: str = ""
    unschedulable_member: UnschedulableMember | None = None
    tried: tuple[PodUID, ...] = ()


@final
@frozen(kw_only=True)
class MemberRow:
    """A known pod.

    *cycle* is what plugins wrote into the cycle that placed it; None unless it is assumed.
    """

    pod: Pod
    seq: int
    state: MemberState
    node: NodeName | None = None
    attempt: int = 0
    cycle: tuple[tuple[str, Any], ...] | None = None
    reason: str = ""
    told: str = ""
    bind_failures: int = 0
    started_at: float | None = None


@final
@frozen(kw_only=True)
class WaitRow:
    """The wait of a pod on permit; *plugins* are the pending plugins."""

    uid: PodUID
    attempt: int
    since: float
    deadline: float
    plugins: tuple[str, ...] = ()


@final
@frozen(kw_only=True)
class EquivalenceClassRow:
    """An ``EquivalenceClass``: what an entity asked for when it failed.

    Each of *runs* is a pod and a number of pods. The pod is the UID of a known pod of the class,
    or a whole pod where no known pod is of that class any more.
    """

    needed: int
    runs: tuple[tuple[PodUID | Pod, int], ...] = ()
    floor: Resources = NOTHING
    role_counts: tuple[RoleCount, ...] = ()
    roles: tuple[str, ...] = ()
    topology: Topology | None = None
    parts: tuple[EquivalenceClassRow, ...] = ()
    reach: tuple[int, bool] | None = None
    affected: tuple[str, ...] = ()


@final
@frozen(kw_only=True)
class EquivalenceQueueRow:
    """An ``EquivalenceQueue``.

    *asked* is its equivalence class, or the number of its only entity if that has no class.
    *entities* are those that are parked or in backoff, by number.
    """

    asked: int | EquivalenceClassRow
    blocked: bool = False
    blocked_at: int = -1
    opened_at: int = -1
    helped_at: int = -1
    leader: int | None = None
    entities: tuple[int, ...] = ()


@final
@frozen(kw_only=True)
class NominatedPodRow:
    """A ``NominatedPod`` with the capacity that is reserved for it."""

    seq: int
    uid: PodUID
    node: NodeName
    requests: Resources = NOTHING
    group: GroupKey | None = None
    role: str | None = None


@final
@frozen(kw_only=True)
class NominationRow:
    """A ``Nomination``."""

    entity: int
    priority: int
    pods: tuple[NominatedPodRow, ...] = ()
    required: tuple[RoleCount, ...] = ()
    specs: tuple[tuple[GroupKey, PodGroup | None], ...] = ()
    awaited: tuple[PodUID, ...] = ()
    deadline: float


@final
@frozen(kw_only=True)
class ReservedNodeRow:
    """The capacity that the reservation has on one node.

    *returning* are the pods that are expected to leave the node before the start.
    """

    node: NodeName
    priority: int
    pods: int
    requests: Resources = NOTHING
    returning: tuple[PodUID, ...] = ()


@final
@frozen(kw_only=True)
class ReservationRow:
    """An ``ActiveReservation``."""

    entity: int
    since: float
    starts_at: float
    deadline: float
    ends: tuple[tuple[PodUID, float], ...] = ()
    nodes: tuple[ReservedNodeRow, ...] = ()
    planned: tuple[tuple[PodUID, NodeName], ...] = ()
    drained: tuple[PodUID, ...] = ()
    has_refused: bool = False


@final
@frozen(kw_only=True)
class BackfillRow:
    """A ``BackfillState`` that remembers something."""

    qualified: tuple[GroupKey, ...] = ()
    drain_timeouts: tuple[tuple[GroupKey, int], ...] = ()
    infeasible: tuple[tuple[GroupKey, int], ...] = ()
    reservation: ReservationRow | None = None
    failed: tuple[tuple[int | EquivalenceClassRow, int], ...] = ()
    gained: bool = False
    is_contested: bool = False
    is_stale: bool = False
    is_drain_paused: bool = False
    has_no_candidate: bool = True
    no_candidate_until: float = math.inf
    altered: int = 0


@final
@frozen(kw_only=True)
class ErrorRow:
    """A ``PluginError`` that the next call raises; what the plugin raised itself is in words."""

    plugin: str
    point: str
    subject: str
    problem: str

    @classmethod
    def of(cls, error: PluginError) -> ErrorRow:
        """Return the row of an error."""
        return cls(
            plugin=error.plugin, point=error.point, subject=error.subject, problem=error.problem
        )

    def error(self) -> PluginError:
        """Return the error of a row."""
        return PluginError(self.plugin, self.point, self.subject, self.problem)


@final
@frozen(kw_only=True)
class SnapshotRow:
    """All that a scheduler remembers between two calls, and for which profile and unit."""

    unit: SchedulingUnit
    plugins: tuple[str, ...]
    plugin_states: tuple[tuple[str, Any], ...] = ()
    now: float = -math.inf
    listed: bool = False
    step: int = 0
    arrivals: int = 0
    attempt_floor: int = 0
    exhausted_searches: int = 0
    nodes: tuple[NodeRow, ...] = ()
    node_arrivals: int = 0
    node_changes: int = 0
    departed: tuple[PodUID, ...] = ()
    unread: tuple[NodeName, ...] = ()
    assumed: tuple[AssumedRow, ...] = ()
    groups: tuple[GroupRow, ...] = ()
    group_arrivals: int = 0
    groups_left: tuple[tuple[GroupKey, float], ...] = ()
    restarts: tuple[RestartRow, ...] = ()
    charges: tuple[Charge, ...] = ()
    over_quota: tuple[tuple[GroupKey, str], ...] = ()
    entities: tuple[EntityRow, ...] = ()
    members: tuple[MemberRow, ...] = ()
    waiting: tuple[WaitRow, ...] = ()
    active: tuple[int, ...] = ()
    backoff: tuple[int, ...] = ()
    gated: tuple[int, ...] = ()
    queues: tuple[EquivalenceQueueRow, ...] = ()
    evicted: tuple[PodUID, ...] = ()
    overdue: tuple[PodUID, ...] = ()
    nominations: tuple[NominationRow, ...] = ()
    backfill: BackfillRow | None = None
    waiting_since: tuple[tuple[GroupKey, int], ...] = ()
    giving_way: tuple[tuple[GroupKey, str], ...] = ()
    effects: tuple[Effect, ...] = ()
    errors: tuple[ErrorRow, ...] = ()
