"""Snapshots: the state of a scheduler as plain data, and back.

``write`` turns the state into rows, ``forms`` turns rows into plain data and back, and ``read``
builds a new state from rows.

Rules:
  R1  ``HELD`` names every attribute of every object in the state, and how a snapshot treats it. An
      attribute is written; or computed again from what is written; or an argument of the restoring
      scheduler; or empty between two calls;
  R2  a snapshot is read as a whole before anything changes. A snapshot that contradicts itself is
      refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, final

from attrs import frozen

from gangsched._core._blocked_queues import BlockedQueues
from gangsched._core._bundle import Bundle, Bundles
from gangsched._core._capacity_index import AlikeNeeds, CapacityIndex
from gangsched._core._claims import Claims
from gangsched._core._counters import PodGroupCounters
from gangsched._core._early_return import EarlyReturn
from gangsched._core._entity import QueuedEntity
from gangsched._core._equivalence_queue import EquivalenceQueue
from gangsched._core._group_entity import QueuedGroup
from gangsched._core._like_members import LikeMembers
from gangsched._core._matcher_index import MatcherIndex
from gangsched._core._pod_counts import PodCounts
from gangsched._core._proofs import Proof, Proofs
from gangsched._core._queue import SchedulingQueue
from gangsched._core._quotas import QuotaLedger
from gangsched._core._registry import PodGroupInfo, PodGroupRegistry
from gangsched._core._restarts import GroupLife, Restarts
from gangsched._core._run_bounds import RunBounds
from gangsched._core._waiting import WaitingMap
from gangsched._forms import as_object
from gangsched._version import __version__
from gangsched.cycle_state import CycleState
from gangsched.errors import GangschedError, InternalError, InvalidValueError, PluginError
from gangsched.framework.backfill.reserved_plan import ReservedPlan
from gangsched.framework.nodes.judgements import Judgements
from gangsched.framework.nodes.label_values import LabelValue, LabelValues
from gangsched.framework.nodes.labels_read import LabelsRead
from gangsched.framework.nodes.node_class import NodeClass, NodeShape
from gangsched.framework.nodes.node_classes import NodeClasses
from gangsched.framework.nodes.node_info import NodeInfo
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.nodes.ranking import Level, Ranking
from gangsched.framework.nodes.reserved_capacity import CapacityLedger, ReservedCapacity
from gangsched.framework.queueing.equivalence import EquivalenceClass
from gangsched.framework.runtime import extension_points
from gangsched.framework.runtime.evaluator import Evaluator
from gangsched.framework.snapshot.forms import SNAPSHOT
from gangsched.framework.snapshot.read import read_into
from gangsched.framework.snapshot.rows import SnapshotRow
from gangsched.framework.snapshot.write import plugin_states, written
from gangsched.framework.state.attempts import Attempts
from gangsched.framework.state.backfill_state import ActiveReservation, BackfillState
from gangsched.framework.state.candidates import Candidates
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.nomination import NominatedPod, Nomination
from gangsched.framework.state.pod_classes import PodClasses
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.reservations import Reservations
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings

__all__ = ["FORMAT", "HELD", "Held", "restore_plugins", "to_data", "to_state"]

FORMAT: Final = "gangsched.snapshot/2"
"""The name and version of the format, as a snapshot has it."""


@final
@frozen
class Held:
    """What becomes of the attributes of a class; see R1."""

    kept: str = ""
    anew: str = ""
    given: str = ""
    passing: str = ""

    def names(self) -> list[str]:
        """Return all attributes."""
        return [*self.kept.split(), *self.anew.split(), *self.given.split(), *self.passing.split()]


HELD: Final[Mapping[type, Held]] = {
    State: Held(
        kept="nodes queue pods attempts reservations call", anew="pod_classes", given="settings"
    ),
    Settings: Held(
        given="cluster profile membership unit placement search_budget backoff preemption"
        " strict_priorities can_evict quotas"
    ),
    Pods: Held(
        kept="registry members entities waiting evicted restarts quotas numbers attempt_floor",
        anew="priorities",
    ),
    Restarts: Held(kept="_lives", anew="_deadlines"),
    QuotaLedger: Held(
        kept="_charges _waiting",
        anew="_used _held _charged _has_returned",
        given="_of _quotas",
    ),
    GroupLife: Held(kept="runs_with restarts is_held until short_since failed_at due_at"),
    PodClasses: Held(anew="by_signature labels alike watching"),
    Attempts: Held(
        kept="step waiting_since giving_way exhausted_searches", anew="tried search_steps"
    ),
    Reservations: Held(kept="nominations overdue backfill"),
    CurrentCall: Held(
        kept="out deferred",
        anew="touched",
        passing="seen alike seen_specs arrived refused complete steps",
    ),
    Member: Held(
        kept="pod seq state node attempt cycle reason told bind_failures started_at",
        anew="entity group pod_class role requests is_counted held",
    ),
    CycleState: Held(
        kept="_scratch", anew="_counts _group _nodes bind_failures can_evict", given="_cluster"
    ),
    Nodes: Held(
        kept="infos assumed _indices altered departed unread",
        anew="by_index classes counts guard ledger version pods_version watches_pods _total",
        given="_cluster",
        passing="_looked _pods_only",
    ),
    # counted again from the pods on nodes
    PodCounts: Held(
        anew="_by_index _carried _carriers _counts _domains _filed _matchers _of_labels _terms"
        " _terms_of _unfiled is_active"
    ),
    MatcherIndex: Held(anew="_filed _others"),
    NodeInfo: Held(
        kept="node index holders",
        anew="defaulted free nominated expected withheld withheld_pods pods_by_uid _is_shared",
    ),
    CapacityLedger: Held(anew="_by_node expecting"),
    ReservedCapacity: Held(kept="node priority requests pods returning", anew="owner"),
    BackfillState: Held(
        kept="qualified drain_timeouts infeasible reservation failed gained is_contested is_stale"
        " is_drain_paused has_no_candidate no_candidate_until altered",
        anew="candidates",
        given="policy",
    ),
    Candidates: Held(anew="unranked altered largest _order _later _infeasible _too_large _places"),
    ActiveReservation: Held(
        kept="entity since starts_at deadline ends capacity planned drained guard", anew="key"
    ),
    ReservedPlan: Held(
        kept="has_refused reservation",
        anew="now _labels _leaving _placed _readers _values _settings _nodes _pods _call",
    ),
    NodeClasses: Held(
        anew="_of _known _kinds _shapes _occupied _made _numbers _moves _base epoch _asked _changes"
        " _is_scarce",
        given="_sign _sign_after _changing _signs_allocatable",
    ),
    NodeShape: Held(anew="kind nodes"),
    Ranking: Held(anew="_empty _entries _firsts _levels _ranks"),
    Level: Held(anew="at is_read is_sorted line start"),
    LabelValues: Held(anew="_changed _key _order _placed _values"),
    LabelValue: Held(anew="total firsts by_score packing"),
    NodeClass: Held(
        anew="defaulted node free pod_count number scarce nodes key kind shape is_signed after"
        " before endless next previous"
    ),
    LabelsRead: Held(anew="_readers keys idle _idle_changes _seen"),
    PodClass: Held(
        anew="sample signature labels objects reads_pods watches_pods carried selected filters"
        " users pending fitted judgements asked askings",
    ),
    Judgements: Held(
        anew="requests key sharing headroom answers _seen _epoch _nodes _judged _order _firsts"
        " _by_label _by_max_pods _reasons",
    ),
    Evaluator: Held(anew="function refused accepted _by_score _weight"),
    EquivalenceClass: Held(
        kept="needed runs floor role_counts roles topology parts reach affected",
        anew="alike filing watches_pods",
    ),
    NominatedPod: Held(kept="seq uid group role reserved"),
    Nomination: Held(kept="entity priority pods required specs awaited deadline"),
    SchedulingQueue: Held(
        kept="_active _backoff _gated _queues",
        anew="_early _blocked _numbers _open",
        given="_sort",
    ),
    BlockedQueues: Held(anew="_filings _proofs _queues _sections _unfiled"),
    Proofs: Held(anew="_by_step"),
    Proof: Held(kept="step", anew="classes later"),
    CapacityIndex: Held(anew="_alike"),
    AlikeNeeds: Held(anew="names by_item by_amount"),
    EarlyReturn: Held(anew="_heap _unclassed"),
    EquivalenceQueue: Held(
        kept="equivalence_class blocked opened_at helped_at leader queued in_backoff",
        anew="hopeful late candidate number proof runs",
    ),
    RunBounds: Held(anew="unread shortest highest"),
    QueuedEntity: Held(
        kept="seq group queued_at failures backoff_until tried_step failed_step event_step"
        " round_step refused_at reason denial unschedulable_member _is_ready",
        anew="place sort_key equivalence_class expected_run _handle _pod",
    ),
    QueuedGroup: Held(
        kept="seq group queued_at failures backoff_until tried_step failed_step event_step"
        " round_step refused_at reason denial unschedulable_member",
        anew="place sort_key equivalence_class expected_run _handle _info _clock _heap"
        " _heaps_by_role _kinds _numbers _pending",
        passing="_pod _is_ready",
    ),
    LikeMembers: Held(
        anew="alike role number pending ready is_in_order tried_at told untold _line _start"
        " _cursor _tried",
    ),
    PodGroupRegistry: Held(
        kept="_groups _left _numbers", anew="_bundles", given="_grace _strict_priorities"
    ),
    Bundles: Held(anew="_known"),
    Bundle: Held(anew="keys lacking is_closed users"),
    PodGroupInfo: Held(
        kept="key uid spec first_seen_at claims attempts attempt_started_at last_failure_at"
        " failures backoff_until failure complete_at was_scheduled is_binding",
        anew="claimed_min claimed_priority members untried untried_by_role bundle",
    ),
    Claims: Held(kept="_all", anew="_minima _removed"),
    PodGroupCounters: Held(kept="_collected", anew="_states _roles _counts _by_role"),
    WaitingMap: Held(kept="_pods", anew="_groups _deadlines _arrivals"),
}
"""All that a scheduler remembers, by class; beside it there are frozen values, and the heap."""


def to_data(state: State, *, now: float, listed: bool) -> dict[str, Any]:
    """Return a snapshot of a state. O(all of it)."""
    rows = written(state, now=now, listed=listed)
    return {"format": FORMAT, "gangsched": __version__, **SNAPSHOT.write(rows)}


def to_state(blank: State, data: object) -> SnapshotRow:
    """Fill an empty state with a snapshot; return its rows. O(all of it).

    Raises:
        InvalidValueError: It is no snapshot, or one of another version, unit or profile, or it
            contradicts itself; names the field and the value.
        PluginError: A plugin raised.
    """
    given = dict(as_object(data, "snapshot"))
    found, version = given.pop("format", None), given.pop("gangsched", None)
    if found != FORMAT:
        raise InvalidValueError("format", found, FORMAT)
    if not isinstance(version, str):
        raise InvalidValueError("gangsched", version, "a version")
    try:
        rows = SNAPSHOT.read(given, "")
        _check_made_for(blank.settings, blank.reservations, rows)
        read_into(blank, rows)
        blank._check()
    except InternalError as error:
        expected = f"consistent: {error.invariant}"
        raise InvalidValueError("snapshot", "a snapshot", expected) from error
    except GangschedError:
        raise
    except (ArithmeticError, AssertionError, LookupError, RecursionError) as error:
        expected = f"consistent: {error!r}"
        raise InvalidValueError("snapshot", "a snapshot", expected) from error
    if blank.call.deferred:
        raise blank.call.deferred[0]
    blank.call.deferred.extend(row.error() for row in rows.errors)
    return rows


def _check_made_for(settings: Settings, reservations: Reservations, rows: SnapshotRow) -> None:
    if rows.unit is not settings.unit:
        raise InvalidValueError(
            "unit", rows.unit.value, f"{settings.unit.value}, the unit of this scheduler"
        )
    names = tuple(extension_points.name_of(plugin) for plugin in settings.profile.plugins)
    if rows.plugins != names:
        raise InvalidValueError("plugins", rows.plugins, f"{names}, the plugins of this scheduler")
    if rows.nominations and settings.preemption is None:
        expected = "0, because preemption is off"
        raise InvalidValueError("nominations", len(rows.nominations), expected)
    if rows.backfill is not None and reservations.backfill.policy is None:
        made = rows.backfill.reservation
        found = rows.backfill.qualified if made is None else made.entity
        raise InvalidValueError("backfill", found, "None, because backfill is off")
    keepers = tuple(extension_points.name_of(plugin) for plugin in settings.profile.keepers)
    kept = tuple(name for name, _data in rows.plugin_states)
    if kept != keepers:
        raise InvalidValueError(
            "plugin_states", kept, f"{keepers}, the plugins with state in this scheduler"
        )


def restore_plugins(settings: Settings, rows: SnapshotRow) -> None:
    """Restore the state of all plugins, or of none.

    Raises:
        PluginError: A plugin raised. The other plugins have their previous state. The error names
            each plugin whose state could not be put back.
    """
    before = plugin_states(settings)
    for number, (plugin, (name, data)) in enumerate(
        zip(settings.profile.keepers, rows.plugin_states, strict=True)
    ):
        try:
            plugin.restore(data)
        except Exception as error:
            problem = f"raised {error!r}"
            for done, (other, kept) in zip(settings.profile.keepers[:number], before, strict=False):
                try:
                    done.restore(kept)
                except Exception as again:
                    problem += f"; {other!r} raised {again!r} as its own was put back"
            raise PluginError(name, "restore", "its state", problem) from error
