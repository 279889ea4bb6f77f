"""From the state of a scheduler to the rows of a snapshot.

Rules:
  R1  the cluster state is not read, and nothing in the scheduler changes;
  R2  plugins are asked for their own state, for signatures of pods that are being bound, and the
      gang policy for what a gang in backoff needs;
  R3  a value that cannot be written is refused, never left out;
  R4  which fields a row has by the same name, says ``remembered``.
"""

from __future__ import annotations

import math
from collections import Counter
from hashlib import sha256
from typing import Any

from gangsched.core.attempt.pending_members import demand_of
from gangsched.core.queue.demand import Demand, Minimum
from gangsched.core.records.gang import GangRecord, PodRecord, QueuePlace
from gangsched.core.remembered import kept
from gangsched.core.snapshot.rows import (
    ErrorRow,
    GainRow,
    GangRecordRow,
    PodGroupInfoRow,
    PodRecordRow,
    RestartRow,
    SnapshotRow,
    WaitRow,
)
from gangsched.core.snapshot.write_kept import written_backfill, written_nominations
from gangsched.core.state import State
from gangsched.core.state.running_groups import GroupLife
from gangsched.errors import GangschedError, InvalidValueError, PluginError
from gangsched.model import GroupKey
from gangsched.primitives.group_info import PodGroupInfo
from gangsched.profile import Profile
from gangsched.profile.calls import name_of
from gangsched.resources import NOTHING

__all__ = ["digest", "plugin_states", "written"]


def written(state: State, *, listed: bool) -> SnapshotRow:
    """Return the rows of all that a scheduler remembers. O(all of it).

    Raises:
        InvalidValueError: A value that a plugin remembers cannot be written.
        PluginError: A plugin raised.
    """
    records, profile = state.records, state.settings.profile
    return SnapshotRow(
        unit=state.settings.unit,
        plugins=tuple(name_of(plugin) for plugin in profile.plugins),
        plugin_states=plugin_states(profile),
        listed=listed,
        gains=_gains(state),
        arrivals=records._numbers,
        nodes_digest=state.table.digest() if records.confirmed is None else "",
        labels=tuple(state.table._watched),
        groups=tuple(_group(state, info) for info in records.registry),
        group_arrivals=records.registry._numbers,
        restarts=tuple(
            _restart(key, path, life)
            for key, lives in state.restarts.lives.items()
            for path, life in lives.items()
        ),
        charges=tuple(records.quotas._charges.values()),
        over_quota=tuple(records.quotas._waiting.items()),
        retry_at=None if state.retry_at == math.inf else state.retry_at,
        past_usage=tuple(
            (account.name, account.past_at, tuple(account.past.items()))
            for account in records.quotas.tree
            if account.past_at > -math.inf
        ),
        gangs=tuple(_gang(state, gang) for gang in records.gangs.values()),
        pods=tuple(_pod(state, record) for record in records.pods.values()),
        waiting=tuple(
            WaitRow(plugins=one.pending_plugins, **kept("WaitingPod", one))
            for one in records.waiting
        ),
        nominations=written_nominations(state),
        spares=tuple(
            (key, state.table.names[each.hold.slot], each.requests, each.hold.since)
            for key, spares in state.spares.known.items()
            for each in spares
        ),
        overdue=tuple(sorted(state.nominations.overdue)),
        held=tuple(g.key for g in records.gangs.values() if g.held_at == state.events),
        no_plans=tuple(g.key for g in records.gangs.values() if g.no_plan_at == state.mark),
        takers=tuple((name, *known) for name, known in state.takers.known.items()),
        backfill=written_backfill(state),
        effects=tuple(state.call.out),
        errors=tuple(_error(error) for error in state.call.errors),
        **kept("Records", records),
    )


def plugin_states(profile: Profile) -> tuple[tuple[str, Any], ...]:
    """Return the state of each plugin that has ``snapshot``.

    Raises:
        PluginError: A plugin raised.
    """
    found: list[tuple[str, Any]] = []
    for plugin in profile.having("snapshot"):
        name = name_of(plugin)
        try:
            found.append((name, plugin.snapshot()))
        except Exception as error:
            raise PluginError(name, "snapshot", "its state", f"raised {error!r}") from error
    return tuple(found)


def _gains(state: State) -> tuple[GainRow, ...]:
    """Return the gains that concern attempts under way. O(gangs)."""
    records = state.records
    began = (gang.began for gang in records.gangs.values() if gang.began)
    least = min(began, default=records.step + 1)
    pairs = state.gains.pairs(least)
    return tuple(GainRow(gained_at=step, taken_at=since) for step, since in pairs)


def _group(state: State, info: PodGroupInfo) -> PodGroupInfoRow:
    return PodGroupInfoRow(
        number=info.uid,
        spec=info.spec,
        claims=tuple(info.claims),
        collected=tuple(sorted((role or "", n) for role, n in info.members._collected.items())),
        kept_until=state.records.registry._left.get(info.key),
        **kept("PodGroupInfo", info),
    )


def _restart(key: GroupKey, path: str, life: GroupLife) -> RestartRow:
    minimum = life.runs_with
    return RestartRow(
        group=key,
        path=path,
        minimum=None if minimum is None else minimum.members,
        roles=() if minimum is None else tuple(minimum.roles.items()),
        **kept("GroupLife", life),
    )


def _gang(state: State, gang: GangRecord) -> GangRecordRow:
    demand: Demand | None = gang.demand
    known = demand if demand is not None and _is_current(state, gang) else None
    return GangRecordRow(
        key=gang.key,
        groups=tuple(gang.infos) if len(gang.infos) > 1 else (),
        place=gang.place,
        blocked_at=0 if known is None else known.blocked_at,
        demand="" if known is None else digest(gang, known),
        leads=demand is not None and demand.leader is gang,
        **kept("GangRecord", gang),
    )


def digest(gang: GangRecord, demand: Demand) -> str:
    """Return a digest of what a gang asks for; equal if its demand is. O(pending members)."""
    minima = [[_minimum(each) for each in alternative] for alternative in demand.alternatives]
    # sub groups that need not start have no minimum of their own
    members = gang.in_order() if gang.tree.children else ()
    leaves = sorted((r.leaf, repr(r.pod_class and r.pod_class.signature)) for r in members)
    asked = (gang.tree.shape, not gang.problem, demand.reach, demand.in_all, minima, leaves)
    return sha256(repr(asked).encode()).hexdigest()[:32]


def _minimum(minimum: Minimum) -> tuple[list[tuple[str, int]], int, str | None]:
    """Return what is equal for minima that ask for the same."""
    parts = Counter[str]()
    for pod_class, most in minimum.parts:  # two classes may have one signature
        parts[repr(pod_class.signature)] += most
    return sorted(parts.items()), minimum.number, minimum.level


def _is_current(state: State, gang: GangRecord) -> bool:
    """Return whether the demand of a gang is what it asks for now. O(members) for one in backoff.

    In backoff, a gang whose members change keeps its demand until the backoff ends.
    """
    if gang.place is not QueuePlace.BACKOFF:
        return True
    deferred = len(state.call.errors)
    found = demand_of(state, gang)
    is_known = len(state.call.errors) == deferred
    del state.call.errors[deferred:]
    return is_known and found is gang.demand


def _pod(state: State, record: PodRecord) -> PodRecordRow:
    profile, is_assumed = state.settings.profile, record.is_assumed
    return PodRecordRow(
        uid=record.uid,
        seq=record.seq,
        state=record.state,
        group=None if record.info is None else record.info.key,
        role=record.role,
        priority=record.pod.priority,
        node=record.node,
        requests=NOTHING if record.slot < 0 or is_assumed else record.pod.requests,
        pod=record.pod if is_assumed else None,
        is_outgrown=is_assumed and not state.evaluator.is_like(record.pod, record.pod_class),
        cycle=_scratch(profile, record) if is_assumed else (),
        round=record.round,
        **kept("PodRecord", record),
    )


def _scratch(profile: Profile, record: PodRecord) -> tuple[tuple[str, Any], ...]:
    found: list[tuple[str, Any]] = []
    written = None if record.cycle is None else record.cycle._scratch
    for key, value in (written or {}).items():
        if key.derived:
            continue
        if profile.scratch_keys.get(key.name) is not key:
            expected = "a key that a plugin names in its state_keys"
            raise InvalidValueError(f"{record.pod.key}: scratch", key.name, expected)
        found.append((key.name, value))
    return tuple(found)


def _error(error: GangschedError) -> ErrorRow:
    if type(error) is not PluginError:
        raise InvalidValueError("deferred", error, "an error of a plugin")
    return ErrorRow.of(error)
