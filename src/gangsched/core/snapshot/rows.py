"""The rows of a snapshot: what a scheduler remembers that a listing of the cluster does not show.

Rules:
  R1  a row has nothing that the cluster state shows, that plugins say, or that follows from other
      rows. It does have what tells whether the cluster has changed since: specifications, pods that
      are assumed on a node, and what other pods take of their nodes;
  R2  rows refer to a pod by its UID, to a group and a gang by its key, and to a node by its name;
  R3  an order that matters is the order of a list, because a database may reorder the keys of a
      JSON object.
"""

from __future__ import annotations

import math
from typing import Any, final

from attrs import frozen

from gangsched.core.records.charges import Charge
from gangsched.core.records.gang import QueuePlace
from gangsched.core.snapshot.kept_rows import BackfillRow, NominationRow
from gangsched.errors import PluginError
from gangsched.events import Effect
from gangsched.explain import UnschedulableMember
from gangsched.model import GroupKey, NodeName, Pod, PodGroup, PodUID, Resources, Role
from gangsched.options.scheduling_unit import SchedulingUnit
from gangsched.primitives.counters import MemberState
from gangsched.resources import NOTHING

__all__ = [
    "ErrorRow",
    "GainRow",
    "GangRecordRow",
    "PodGroupInfoRow",
    "PodRecordRow",
    "RestartRow",
    "SnapshotRow",
    "WaitRow",
]


@final
@frozen(kw_only=True)
class PodGroupInfoRow:
    """A ``PodGroupInfo``, with its specification as it was read last.

    *claims* are the members whose claims count, the first one first. *collected* has the members
    that succeeded and were deleted, by role; the empty role has those without one. A group without
    members is remembered until *kept_until*.
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
    started_by: int = 0
    is_binding: bool = False
    collected: tuple[tuple[str, int], ...] = ()
    kept_until: float | None = None


@final
@frozen(kw_only=True)
class RestartRow:
    """A ``GroupLife``: a group, or the part of it at *path*, that runs, is held, or was restarted.

    *minimum* and *roles* are what the group specified when it ran last; *minimum* is None if it
    does not run. At *due_at* it is looked at again; None for never.
    """

    group: GroupKey
    path: str = ""
    restarts: int = 0
    until: float = -math.inf
    is_held: bool = False
    minimum: int | None = None
    roles: tuple[tuple[str, int | Role], ...] = ()
    short_since: float | None = None
    failed_at: float = -math.inf
    due_at: float | None = None


@final
@frozen(kw_only=True)
class PodRecordRow:
    """A known pod.

    It holds *node*, and *requests* is what it takes there. If it is only assumed there, *pod* is
    the pod as it was known, and *is_outgrown* is true if it asks for something else by now. Then
    *cycle* has what plugins wrote into the cycle that placed it. *group*, *role* and *priority* are
    needed if the pod is gone when the snapshot is restored, or has become another one.
    """

    uid: PodUID
    seq: int
    state: MemberState
    group: GroupKey | None = None
    role: str | None = None
    priority: int = 0
    node: NodeName | None = None
    requests: Resources = NOTHING
    pod: Pod | None = None
    is_outgrown: bool = False
    cycle: tuple[tuple[str, Any], ...] = ()
    attempt: int = 0
    round: int = -1
    reason: str = ""
    told: str = ""
    bind_failures: int = 0
    started_at: float | None = None
    is_evicted: bool = False
    is_overruled: bool = False


@final
@frozen(kw_only=True)
class GangRecordRow:
    """A gang; *groups* are those of a bundle, in the order in which they joined it.

    *blocked_at* is the step at which its demand was found not to fit, and 0 if it was not. *demand*
    is a digest of what it asks for: if that has changed, nothing is known of it. *leads* is true
    for the gang that was activated for the parked ones of the same demand.
    """

    key: str
    seq: int
    groups: tuple[GroupKey, ...] = ()
    place: QueuePlace = QueuePlace.NOWHERE
    queued_at: float = 0.0
    failures: int = 0
    backoff_until: float = -math.inf
    round: int = 0
    began: int = 0
    is_whole: bool = False
    giving_way: str = ""
    lacks_since: float | None = None
    reason: str = ""
    denial: str = ""
    refused: UnschedulableMember | None = None
    blocked_at: int = 0
    demand: str = ""
    leads: bool = False


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
class ErrorRow:
    """An error that the next call raises; what the plugin raised itself is in words."""

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
class GainRow:
    """A step at which nodes gained capacity, and the step since which it was taken."""

    gained_at: int
    taken_at: int


@final
@frozen(kw_only=True)
class SnapshotRow:
    """All that a scheduler remembers between two calls, and for which profile and unit.

    *nodes_digest* is of the nodes; it is empty if some were not read since an earlier restore.
    *labels* are the node labels that were told apart: they break ties between nodes. *no_plans* are
    the gangs that do not preempt again before an event. *held* are those that hold no node again
    before one, and *overdue* the pods that did not terminate in time.
    """

    unit: SchedulingUnit
    plugins: tuple[str, ...]
    plugin_states: tuple[tuple[str, Any], ...] = ()
    now: float = -math.inf
    listed: bool = False
    step: int = 1
    gains: tuple[GainRow, ...] = ()
    arrivals: int = 0
    attempt_floor: int = 0
    nodes_digest: str = ""
    labels: tuple[str, ...] = ()
    groups: tuple[PodGroupInfoRow, ...] = ()
    group_arrivals: int = 0
    restarts: tuple[RestartRow, ...] = ()
    charges: tuple[Charge, ...] = ()
    over_quota: tuple[tuple[str, str], ...] = ()
    past_usage: tuple[tuple[str, float, tuple[tuple[str, float], ...]], ...] = ()
    gangs: tuple[GangRecordRow, ...] = ()
    pods: tuple[PodRecordRow, ...] = ()
    waiting: tuple[WaitRow, ...] = ()
    nominations: tuple[NominationRow, ...] = ()
    spares: tuple[tuple[GroupKey, NodeName, Resources, int], ...] = ()
    overdue: tuple[PodUID, ...] = ()
    no_plans: tuple[str, ...] = ()
    takers: tuple[tuple[str, int, bool], ...] = ()
    held: tuple[str, ...] = ()
    retry_at: float | None = None
    backfill: BackfillRow | None = None
    effects: tuple[Effect, ...] = ()
    errors: tuple[ErrorRow, ...] = ()
