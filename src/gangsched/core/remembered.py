"""What is remembered, field by field: what a fork, a snapshot and a rebuild make of each.

========  =====================  ==========================  ===================================
a field   in a fork              after ``restore``           in a new scheduler after ``rebuild``
========  =====================  ==========================  ===================================
kept      is copied              is that of the row          begins anew
written   is copied              is computed from rows       begins anew
derived   is copied              follows from other fields   follows from other fields
made      is copied              is made with its object     is made with its object
dropped   is copied              begins anew                 begins anew
========  =====================  ==========================  ===================================

A *kept* field has the same name in its row, and the writer and the reader of snapshots take the
names from here. A *written* field names the fields of rows that have it, in another form. Both are
read from the cluster if they are *shown* there: by ``rebuild``, and by ``restore``, which compares
them with the row. What begins anew in a fork too is named by its class (``DERIVED``); it is dropped
or derived.

Rules:
  R1  each field of each class that can be reached from ``Scheduler`` is in one place here, except
      those of the classes in ``COMPUTED``, and of most values, which never change;
  R2  a dropped field is empty between two calls, or a memo, or it costs an attempt at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, final

from attrs import Factory, field, frozen

__all__ = ["COMPUTED", "REMEMBERED", "Fields", "keep", "kept"]


def _names(given: str | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(given.split()) if isinstance(given, str) else given


@final
@frozen(kw_only=True)
class Fields:
    """The fields of one class; see above.

    Attributes:
        row: The class of the row with the kept fields; empty if there are none.
        kept: The fields that the row has by the same name.
        written: By the name of a field, the fields of rows that have it in another form.
        derived: The fields that are computed from others.
        made: Settings, and parts that have fields of their own.
        dropped: The fields that begin anew.
        shown: The kept and written fields that the cluster shows.
    """

    row: str = ""
    kept: tuple[str, ...] = field(default=(), converter=_names)
    written: Mapping[str, str] = Factory(dict[str, str])
    derived: tuple[str, ...] = field(default=(), converter=_names)
    made: tuple[str, ...] = field(default=(), converter=_names)
    dropped: tuple[str, ...] = field(default=(), converter=_names)
    shown: tuple[str, ...] = field(default=(), converter=_names)


REMEMBERED: Final[Mapping[str, Fields]] = {
    # The whole ----------------------------------------------------------------------------------
    "Scheduler": Fields(
        written={"_listed": "SnapshotRow.listed"},
        derived="_is_restored _retries_refused",
        made="_call _host_decides _state",
    ),
    "OneCall": Fields(dropped="_next outer"),
    "SchedulerSettings": Fields(
        written={
            "profile": "SnapshotRow.plugins SnapshotRow.plugin_states",
            "unit": "SnapshotRow.unit",
        },
        made="backfill backoff can_evict cluster group_grace history levels membership placement"
        " preemption quotas search_budget strict_priorities",
    ),
    "State": Fields(
        written={"retry_at": "SnapshotRow.retry_at"},
        derived="agreeing giving_way had_terms unread unread_groups",
        made="call evaluator gains nominations points queue records reservation restarts settings"
        " spares table takers views",
        dropped="events given_back",
    ),
    "CurrentCall": Fields(
        written={"errors": "SnapshotRow.errors", "out": "SnapshotRow.effects"},
        dropped="asked ended is_over lost pods_changed pods_tried refused removed seen touched"
        " used",
    ),
    "Records": Fields(
        row="SnapshotRow",
        kept="attempt_floor now step",
        written={
            "_numbers": "SnapshotRow.arrivals",
            "altered": "BackfillRow.node_changes",
            "confirmed": "SnapshotRow.nodes_digest",
            "departed": "ReservationRow.departed",
            "gangs": "SnapshotRow.gangs",
            "pods": "SnapshotRow.pods",
        },
        derived="_on gang_of guard holds notes_departed priorities priorities_in terminating usage",
        made="_carried _sign account_of call counts notes_ended notes_used quotas registry"
        " selections table tenancy waiting",
        dropped="_lifted _lifted_holds _planned",
        shown="pods",
    ),
    "Points": Fields(
        made="_call _ending _event_driven _requesting profile",
    ),
    "Gains": Fields(
        written={
            "_since": "GainRow.taken_at",
            "_steps": "SnapshotRow.gains GainRow.gained_at",
        },
    ),
    # Nodes --------------------------------------------------------------------------------------
    "NodeTable": Fields(
        written={"_watched": "SnapshotRow.labels", "nodes": "SnapshotRow.nodes_digest"},
        derived="_kept _kind_keys _kind_texts _kinds _plains _signatures _states_made _unused count"
        " domains empties log log_start marks names numbering plain resources samples slots"
        " state_of states",
        dropped="_digests _needs _undo gains",
        shown="nodes",
    ),
    # Pods and gangs -----------------------------------------------------------------------------
    "PodRecord": Fields(
        row="PodRecordRow",
        kept="attempt bind_failures is_evicted is_overruled reason started_at told",
        written={
            "cycle": "PodRecordRow.cycle",
            "info": "PodRecordRow.group",
            "node": "PodRecordRow.node",
            "pod": "PodRecordRow.pod PodRecordRow.priority PodRecordRow.requests",
            "pod_class": "PodRecordRow.is_outgrown",
            "role": "PodRecordRow.role",
            "round": "PodRecordRow.round",
            "seq": "PodRecordRow.seq",
            "state": "PodRecordRow.state",
            "uid": "PodRecordRow.uid",
        },
        derived="account gang leaf needs owner slot",
        shown="info node pod role state uid",
    ),
    "CycleState": Fields(
        written={"_scratch": "PodRecordRow.cycle"},
        made="_cluster _counts _group _nodes",
        dropped="bind_failures can_evict",  # set before each use
    ),
    "GangRecord": Fields(
        row="GangRecordRow",
        kept="backoff_until began denial failures giving_way is_whole lacks_since queued_at reason"
        " refused round seq",
        written={
            "demand": "GangRecordRow.demand",
            "held_at": "SnapshotRow.held",
            "infos": "GangRecordRow.groups",
            "key": "GangRecordRow.key",
            "no_plan_at": "SnapshotRow.no_plans",
            "place": "GangRecordRow.place",
        },
        derived="account counted_priority counted_queue handle is_bundle is_tree leaves members"
        " on_nodes pending problem sort_key tree tried waiting",
        dropped="classes_of span told_all untold",
        shown="infos key",
    ),
    # Pod groups ---------------------------------------------------------------------------------
    "PodGroupRegistry": Fields(
        written={
            "_groups": "SnapshotRow.groups",
            "_left": "PodGroupInfoRow.kept_until",
            "_numbers": "SnapshotRow.group_arrivals",
        },
        derived="_naming earliest",
        made="_grace _strict_priorities",
        shown="_groups",
    ),
    "PodGroupInfo": Fields(
        row="PodGroupInfoRow",
        kept="attempt_started_at attempts backoff_until complete_at failure failures first_seen_at"
        " is_binding key last_failure_at started_by was_scheduled",
        written={"spec": "PodGroupInfoRow.spec", "uid": "PodGroupInfoRow.number"},
        derived="_collected _counts _tree above claimed_min claimed_priority has_copies has_parts"
        " min_available priority roles spells_roles tried tried_by_role",
        made="claims members",
        shown="complete_at first_seen_at key spec was_scheduled",
    ),
    "PodGroupCounters": Fields(
        written={"_collected": "PodGroupInfoRow.collected"},
        derived="_by_role _counts _roles _states standing",
    ),
    "Claims": Fields(
        written={"_all": "PodGroupInfoRow.claims"},
        derived="_last _minima _priorities _removed",
        shown="_all",
    ),
    "Restarts": Fields(
        written={"lives": "SnapshotRow.restarts RestartRow.group RestartRow.path"},
        derived="_deadlines earliest",
    ),
    "GroupLife": Fields(
        row="RestartRow",
        kept="due_at failed_at is_held restarts short_since until",
        written={"runs_with": "RestartRow.minimum RestartRow.roles"},
    ),
    "AccountTree": Fields(
        made="by_name has_queues history _caps _queue",
        dropped="now",
    ),
    "Account": Fields(
        written={"past": "SnapshotRow.past_usage", "past_at": "SnapshotRow.past_usage"},
        derived="drawn used",
        made="_kept _most _pool children has_part keeps_some names number parent quota root",
        dropped="known_share",
    ),
    "Charges": Fields(
        written={"_charges": "SnapshotRow.charges", "_waiting": "SnapshotRow.over_quota"},
        derived="_accounts _charged _held _queue waiters",
        made="is_used tree",
        dropped="_ahead _changed _lifted _pretended _returned _tried _tried_before",
    ),
    # The queue, and pods that wait on permit ----------------------------------------------------
    "Queue": Fields(
        derived="_active _backoff _blocked _demands _led earliest",
        made="_account_of _has_shares _records _shares _sort is_within_bounds preempts",
        dropped="_woken _woken_at",
    ),
    "Demand": Fields(
        written={"blocked_at": "GangRecordRow.blocked_at", "leader": "GangRecordRow.leads"},
        derived="_classes _single alternatives gangs has_room in_all key least parked reach"
        " reads_pods reads_terms",
    ),
    "WaitingMap": Fields(
        written={"_pods": "SnapshotRow.waiting"}, derived="_arrivals _deadlines _groups earliest"
    ),
    "WaitingPod": Fields(
        row="WaitRow",
        kept="attempt deadline since uid",
        written={"pending_plugins": "WaitRow.plugins"},
        derived="group node",
    ),
    # Capacity that is kept ----------------------------------------------------------------------
    "Hold": Fields(
        written={
            "since": "NominatedPodRow.since ReservedRow.since",
            "slot": "NominatedPodRow.node ReservedRow.node",
        },
        derived="asks is_lendable needs owner",
        dropped="is_lent",
    ),
    "Spares": Fields(written={"known": "SnapshotRow.spares"}),
    "Spare": Fields(
        written={"hold": "SnapshotRow.spares", "requests": "SnapshotRow.spares"},
        derived="is_charged",
    ),
    "Takers": Fields(written={"known": "SnapshotRow.takers"}),
    "Nominations": Fields(
        written={"known": "SnapshotRow.nominations", "overdue": "SnapshotRow.overdue"}
    ),
    "Nomination": Fields(
        row="NominationRow",
        kept="deadline group is_tried priority specs",
        written={
            "awaited": "NominationRow.awaited",
            "gang": "NominationRow.gang",
            "made_at": "NominationRow.is_new",
            "pods": "NominationRow.pods",
            "required": "NominationRow.required",
        },
    ),
    "NominatedPod": Fields(
        written={"pod_class": "NominatedPodRow.pod_class", "record": "NominatedPodRow.uid"},
        made="hold",
    ),
    "ReservationState": Fields(
        row="BackfillRow",
        kept="altered has_no_candidate is_contested is_drain_paused is_stale no_candidate_until",
        written={
            "current": "SnapshotRow.backfill BackfillRow.reservation",
            "drain_timeouts": "BackfillRow.drain_timeouts",
            "failed": "BackfillRow.failed",
            "infeasible": "BackfillRow.infeasible",
            "qualified": "BackfillRow.qualified",
        },
        derived="open",
        made="policy",
        dropped="gave_up_at is_cut offers",  # a gang that an offer may help is written as feasible
    ),
    "ActiveReservation": Fields(
        row="ReservationRow",
        kept="deadline since starts_at",
        written={
            "drained": "ReservationRow.drained",
            "ends": "ReservationRow.ends",
            "gang": "ReservationRow.gang",
            "planned": "ReservationRow.planned",
            "reserved": "ReservationRow.reserved",
        },
        derived="read",
        made="guard",
    ),
    "Reserved": Fields(
        written={
            "returning": "ReservedRow.returning",
            "wanted": "ReservedRow.wanted",
        },
        derived="slot",
        made="hold",
    ),
    "ReservedPlan": Fields(
        written={"has_refused": "ReservationRow.has_refused"},
        derived="_labels _planned _samples",
        made="_reservation _state",
        dropped="_known",
    ),
}
"""By the name of a class, its fields."""

COMPUTED: Final = (
    *("ActiveGangs", "ParkedGangs", "_Account", "Waiters", "Blocked", "HeapEntry", "PriorityHeap"),
    *("Domains", "NodeState", "NodeView", "NodeViews", "NodesBySlot"),
    *("Evaluator", "MatcherIndex", "Memo", "PodClass", "KeptPodCounts", "Selections"),
    *("OpenGangs", "Tenancy"),
)
"""The classes of which every field follows from what is remembered, or is a memo."""


def kept(name: str, thing: object) -> dict[str, Any]:
    """Return the kept fields of an object of a class, or of its row. O(fields).

    Args:
        name: The name of the class.
        thing: The object, or the row.
    """
    return {each: getattr(thing, each) for each in REMEMBERED[name].kept}


def keep(thing: object, row: object) -> None:
    """Give an object the kept fields of its row. O(fields)."""
    for each in REMEMBERED[type(thing).__name__].kept:
        setattr(thing, each, getattr(row, each))
