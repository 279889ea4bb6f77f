"""The rows of a snapshot: the state of a scheduler as values that refer to each other.

Rules:
  R1  each object has one row. Other rows refer to a pod by its UID, to a group by its key, and to
      an entity, a node or a class by its number;
  R2  an order that matters is the order of a list, because a database may reorder the keys of a
      JSON object.

``forms`` defines how rows are written.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias, final

from attrs import frozen

from gangsched._core._counters import MemberState
from gangsched._core._waiting import WaitingPod
from gangsched.errors import PluginError
from gangsched.events import Effect
from gangsched.explain import UnschedulableMember
from gangsched.framework.config.scheduling_unit import SchedulingUnit
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
from gangsched.resources import NOTHING

__all__ = [
    "Amounts",
    "AssumedRow",
    "Edges",
    "EntityRow",
    "ErrorRow",
    "GroupRow",
    "LineRow",
    "MemberRow",
    "NodeClassRow",
    "NodeRow",
    "NominatedPodRow",
    "NominationRow",
    "PodClassRow",
    "ReservationRow",
    "ReservedRow",
    "ReservingRow",
    "ShapeRow",
    "SnapshotRow",
]

Amounts: TypeAlias = tuple[tuple[str, int], ...]
"""Thousandths of resources, in an order that is kept; zeros too."""

Edges: TypeAlias = tuple[tuple[Resources, int], ...]
"""The number of the class that a node moves to, by requests."""


@final
@frozen(kw_only=True)
class NodeRow:
    """A ``NodeInfo``; *pods* are those on it that differ from the member of the same UID."""

    node: Node
    index: int
    free: Amounts = ()
    holders: tuple[tuple[PodUID, Resources], ...] = ()
    withheld: Amounts = ()
    withheld_pods: int = 0
    pods: tuple[Pod, ...] = ()


@final
@frozen(kw_only=True)
class ReservedRow:
    """A ``ReservedCapacity``; *returning* is None for a nominated pod."""

    owner: int
    node: NodeName
    priority: int
    requests: Resources = NOTHING
    pods: int = 0
    returning: tuple[PodUID, ...] | None = None


@final
@frozen(kw_only=True)
class AssumedRow:
    """A pod that holds a node; *pod* is set only if it differs from the known pod."""

    uid: PodUID
    node: NodeName
    pod: Pod | None = None


@final
@frozen(kw_only=True)
class NodeClassRow:
    """A ``NodeClass``; *labels* are the label keys of its key, None for the labels read now.

    Transitions are stored only for a class without a key (*alone*); the others are looked up by
    key.
    """

    number: int
    node: Node
    free: Amounts = ()
    pods: int = 0
    alone: bool = False
    labels: tuple[str, ...] | None = None
    nodes: tuple[int, ...] = ()
    after: Edges = ()
    before: Edges = ()
    endless: tuple[tuple[str, int], ...] = ()


@final
@frozen(kw_only=True)
class PodClassRow:
    """A ``PodClass`` without its answers.

    *known* is False if only an equivalence class refers to it.
    """

    sample: Pod
    known: bool = True


@final
@frozen(kw_only=True)
class GroupRow:
    """A ``PodGroupInfo``."""

    key: GroupKey
    uid: int
    spec: PodGroup | None = None
    claimed_min: int | None = None
    claimed_priority: int | None = None
    first_seen_at: float | None = None
    claims: tuple[tuple[PodUID, int | None, int], ...] = ()
    members: tuple[PodUID, ...] = ()
    attempts: int = 0
    attempt_started_at: float | None = None
    last_failure_at: float | None = None
    failures: int = 0
    backoff_until: float = -math.inf
    complete_at: float | None = None
    was_scheduled: bool = False


@final
@frozen(kw_only=True)
class EntityRow:
    """A ``QueuedEntity``; *tried* are the pending members that were tried in this round."""

    seq: int
    group: GroupKey | None = None
    queued_at: float = 0.0
    failures: int = 0
    backoff_until: float = -math.inf
    rank: tuple[Any, ...] | None = None
    tried_step: int = -1
    failed_step: int = -1
    event_step: int = -1
    round_step: int = -1
    refused_at: int = -1
    reason: str = ""
    unschedulable_member: UnschedulableMember | None = None
    pending: tuple[PodUID, ...] = ()
    tried: tuple[PodUID, ...] = ()


@final
@frozen(kw_only=True)
class MemberRow:
    """A ``Member``; *cycle* is the scratch of a placement, None where there is no placement."""

    pod: Pod
    seq: int
    entity: int
    pod_class: int
    state: MemberState
    node: NodeName | None = None
    attempt: int = 0
    cycle: tuple[tuple[str, Any], ...] | None = None
    reason: str = ""
    bind_failures: int = 0
    role: str | None = None
    started_at: float | None = None


@final
@frozen(kw_only=True)
class ShapeRow:
    """A ``EquivalenceClass``, with classes by number."""

    needed: int
    runs: tuple[tuple[int, int], ...] = ()
    floor: Resources = NOTHING
    quotas: tuple[tuple[str, int], ...] = ()
    roles: tuple[str, ...] = ()
    topology: Topology | None = None
    parts: tuple[ShapeRow, ...] = ()
    reach: tuple[int, bool] | None = None
    affected: tuple[str, ...] = ()


@final
@frozen(kw_only=True)
class LineRow:
    """An ``EquivalenceQueue``.

    *shape* is its equivalence class, or the number of its only entity if that has no class.
    """

    shape: int | ShapeRow
    blocked: bool = False
    blocked_at: int = -1
    opened_at: int = -1
    helped_at: int = -1
    leader: int | None = None
    standing: tuple[int, ...] = ()
    resting: tuple[int, ...] = ()


@final
@frozen(kw_only=True)
class NominatedPodRow:
    """A ``NominatedPod``; *reserved* is the number of its row among the reserved capacity."""

    seq: int
    uid: PodUID
    group: GroupKey | None = None
    role: str | None = None
    reserved: int


@final
@frozen(kw_only=True)
class NominationRow:
    """A ``Nomination``."""

    entity: int
    priority: int
    pods: tuple[NominatedPodRow, ...] = ()
    required: tuple[tuple[GroupKey | None, str, int], ...] = ()
    specs: tuple[tuple[GroupKey, PodGroup | None], ...] = ()
    awaited: tuple[PodUID, ...] = ()
    deadline: float


@final
@frozen(kw_only=True)
class ReservationRow:
    """An ``ActiveReservation``; *capacity* are numbers of rows of the reserved capacity."""

    entity: int
    key: GroupKey
    since: float
    starts_at: float
    deadline: float
    ends: tuple[tuple[PodUID, float], ...] = ()
    capacity: tuple[int, ...] = ()


@final
@frozen(kw_only=True)
class ReservingRow:
    """A ``BackfillState`` that remembers something."""

    asking: tuple[GroupKey, ...] = ()
    drain_timeouts: tuple[tuple[GroupKey, int], ...] = ()
    infeasible: tuple[tuple[GroupKey, int], ...] = ()
    reservation: ReservationRow | None = None
    failed: tuple[tuple[int | ShapeRow, int], ...] = ()
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
    numbers: int = 0
    attempt_floor: int = 0
    exhausted_searches: int = 0
    nodes: tuple[NodeRow, ...] = ()
    indices: int = 0
    altered: int = 0
    reserved: tuple[ReservedRow, ...] = ()
    departed: tuple[PodUID, ...] = ()
    unread: tuple[NodeName, ...] = ()
    assumed: tuple[AssumedRow, ...] = ()
    node_classes: tuple[NodeClassRow, ...] = ()
    node_classes_made: int = 0
    node_class_numbers: int = 0
    occupied: tuple[int, ...] = ()
    labels: tuple[tuple[str, int], ...] = ()
    idle_label_changes: int = 0
    pod_classes: tuple[PodClassRow, ...] = ()
    groups: tuple[GroupRow, ...] = ()
    groups_left: tuple[tuple[GroupKey, float], ...] = ()
    group_numbers: int = 0
    entities: tuple[EntityRow, ...] = ()
    members: tuple[MemberRow, ...] = ()
    waiting: tuple[WaitingPod, ...] = ()
    active: tuple[int, ...] = ()
    backoff: tuple[int, ...] = ()
    gated: tuple[int, ...] = ()
    lines: tuple[LineRow, ...] = ()
    evicted: tuple[PodUID, ...] = ()
    overdue: tuple[PodUID, ...] = ()
    nominations: tuple[NominationRow, ...] = ()
    reserving: ReservingRow | None = None
    holding: tuple[tuple[GroupKey, int], ...] = ()
    yielding: tuple[tuple[GroupKey, str], ...] = ()
    tried: tuple[int, ...] = ()
    out: tuple[Effect, ...] = ()
    deferred: tuple[ErrorRow, ...] = ()
