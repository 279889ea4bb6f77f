"""From the rows of a snapshot to the state of a scheduler: a listing, and what rows add to it.

Theory of operation. Nodes and pods are read from the cluster state, as in ``rebuild``. A pod gets
the state and the node of its row. If the cluster shows something else by now, the pod is noted in
``State.unread``, and the next call reads it again, as if its event had just come. So are a pod that
is new or gone, and one that is assumed on a node, which is entered as its row has it. A
specification is entered as its row has it, too.

Rules:
  R1  the state is built anew: an error here leaves the state of the scheduler unchanged;
  R2  what follows from other rows is computed, or compared with them.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

from gangsched.core.admission import quota_wakes
from gangsched.core.intake.gangs import gang_of_group, grow_tree
from gangsched.core.intake.seen import Seen, conflict, seen_as, spelled, wanted_state
from gangsched.core.queue.gains import Gains
from gangsched.core.records.gang import GangRecord, PodRecord
from gangsched.core.remembered import keep, kept
from gangsched.core.snapshot.checks import each_once, get, pairs_once, require, unique
from gangsched.core.snapshot.read_gangs import read_gangs
from gangsched.core.snapshot.rows import PodGroupInfoRow, PodRecordRow, SnapshotRow, WaitRow
from gangsched.core.state import State
from gangsched.core.state.running_groups import GroupLife, GroupMinimum
from gangsched.membership import SPELLINGS, Membership
from gangsched.model import FrozenMap, Pod, PodUID
from gangsched.model._pod_copy import pod_with_fields
from gangsched.primitives.claims import Claims
from gangsched.primitives.counters import MemberState
from gangsched.primitives.group_info import PodGroupInfo
from gangsched.primitives.waiting import WaitingPod
from gangsched.profile.calls import name_of

__all__ = ["read_into"]

_ASSUMED: Final = (MemberState.WAITING, MemberState.BINDING, MemberState.TERMINATING)
_NEVER_SHOWN: Final = (MemberState.WAITING, MemberState.BINDING)
_EVICTED: Final = (MemberState.GATED, MemberState.UNSCHEDULED, MemberState.ASSIGNED)


def read_into(state: State, rows: SnapshotRow) -> None:
    """Fill an empty state with the cluster and what rows say. O(nodes + pods log pods).

    Raises:
        InvalidValueError: The rows contradict each other.
        PluginError: A plugin raised when it was asked about a pod.
    """
    _read_counters(state, rows)
    if rows.listed:
        state.table.watch(rows.labels)
        for node in state.settings.cluster.nodes():
            state.records.set_node(node.name, node)
        if state.table.digest() != rows.nodes_digest:
            state.records.confirmed = set()
        _read_groups(state, rows)
        _read_restarts(state, rows)
        _read_pods(state, rows)
        _read_claims(state, rows)
        _read_waiting(state, rows)
        quota_wakes.place_all(state)
        read_gangs(state, rows)
        _read_charges(state, rows)
        state.table.gains.clear()
        state.call.pods_changed = state.call.pods_tried = False
        state.had_terms = state.records.counts.has_terms
        state.records.quotas.ask_again()
        _read_gains(state, rows)
    each_once((name for name, _losses, _has_taken in rows.takers), "takers")
    state.takers.known = {name: (losses, has) for name, losses, has in rows.takers}
    state.retry_at = math.inf if rows.retry_at is None else rows.retry_at
    state.call.out += rows.effects
    state.call.is_over = False


def _read_counters(state: State, rows: SnapshotRow) -> None:
    """Read the last numbers, which must not be below the numbers in use."""
    records = state.records
    numbers = [*(row.seq for row in rows.gangs), *(row.seq for row in rows.pods)]
    each_once(numbers, "pods and gangs: seq")
    groups = [row.number for row in rows.groups]
    steps = [row.round for row in rows.pods]
    steps += [max(row.began, row.round - 1, row.blocked_at - 1) for row in rows.gangs]
    for name, last, given in (
        ("arrivals", rows.arrivals, numbers),
        ("group_arrivals", rows.group_arrivals, groups),
        ("step", rows.step, [*steps, *(row.gained_at for row in rows.gains)]),
    ):
        most = max(given, default=0)
        require(last >= most, name, last, f"an int >= {most}, the largest number in use")
    records._numbers = rows.arrivals
    keep(records, rows)


def _read_gains(state: State, rows: SnapshotRow) -> None:
    """Read when nodes gained capacity; both steps ascend."""
    pairs = [(row.gained_at, row.taken_at) for row in rows.gains]
    for n, (before, after) in enumerate(pairwise(pairs)):
        ascends = before[0] < after[0] and before[1] < after[1]
        require(ascends, f"gains[{n + 1}]", after, f"both more than {before}")
    state.gains = Gains(pairs)


# Groups -----------------------------------------------------------------------------------------


def _read_groups(state: State, rows: SnapshotRow) -> None:
    registry, last = state.records.registry, 0
    registry._numbers = rows.group_arrivals
    for n, row in enumerate(rows.groups):
        path = f"groups[{n}]"
        unique(registry._groups, row.key, f"{path}.key")
        require(row.number > last, f"{path}.number", row.number, "in ascending order")
        last = row.number
        key = None if row.spec is None else row.spec.key
        require(key in (None, row.key), f"{path}.spec", key, f"the specification of {row.key}")
        info = registry._groups[row.key] = _group(row, rows.now, path)
        registry._specify(info, row.spec)
    left = [(row.kept_until, row.key) for row in rows.groups if row.kept_until is not None]
    for until, group in sorted(left):
        registry._keep(group, until)
    shown = {spec.key: spec for spec in state.settings.cluster.pod_groups()}
    for key in dict.fromkeys([*registry._groups, *shown]):
        known = registry.get(key)
        if (None if known is None else known.spec) != shown.get(key):
            state.unread_groups[key] = None


def _group(row: PodGroupInfoRow, now: float, path: str) -> PodGroupInfo:
    for name in ("attempt_started_at", "last_failure_at", "complete_at"):
        at = getattr(row, name)
        require(at is None or at <= now, f"{path}.{name}", at, f"an instant until now={now!r}")
    info = PodGroupInfo(uid=row.number, **kept("PodGroupInfo", row))
    for role, count in pairs_once(row.collected, f"{path}.collected").items():
        info.members._collected[role or None] = count
    return info


def _read_restarts(state: State, rows: SnapshotRow) -> None:
    restarts = state.restarts
    for n, row in enumerate(rows.restarts):
        path = f"restarts[{n}]"
        get(state.records.registry._groups, row.group, f"{path}.group")
        known, name = restarts.lives.get(row.group, {}), "path" if row.path else "group"
        unique(known, row.path, f"{path}.{name}")
        expected = "false for a group that runs, or was never restarted"
        may_be_held = row.minimum is None and row.restarts and row.until > -math.inf
        require(may_be_held or not row.is_held, f"{path}.is_held", row.is_held, expected)
        expected = "an int >= 1 for a group that does not run"
        require(row.restarts or row.minimum is not None, f"{path}.restarts", 0, expected)
        roles = FrozenMap(pairs_once(row.roles, f"{path}.roles"))
        minimum = None if row.minimum is None else GroupMinimum(row.minimum, roles)
        is_part = minimum is None or minimum.part(row.path) is not None
        require(is_part, f"{path}.path", row.path, "a copy or a role of its roles")
        since, due_at = row.short_since, row.due_at
        expected = "None for a group that does not run"
        require(since is None or minimum is not None, f"{path}.short_since", since, expected)
        expected = "None for a group that is neither short of members nor held"
        waits = since is not None or row.is_held
        require(due_at is None or waits, f"{path}.due_at", due_at, expected)
        restarts.restore(
            row.group, row.path, GroupLife(runs_with=minimum, **kept("GroupLife", row))
        )


def _read_charges(state: State, rows: SnapshotRow) -> None:
    """Read what owners reserve of quotas, and which wait for one; a quota may be gone since."""
    records = state.records
    owners = {*records.registry._groups, *(record.owner for record in records.pods.values())}
    known = dict.fromkeys(owners)
    charged = each_once((charge.key for charge in rows.charges), "charges")
    waiting = pairs_once(rows.over_quota, "over_quota")
    for path, keys in (("charges", charged), ("over_quota", waiting)):
        for n, key in enumerate(keys):
            get(known, key, f"{path}[{n}]")
    quota_wakes.restore(state, rows.charges, waiting.items())
    for name, at, past in rows.past_usage:
        account = records.quotas.tree.by_name.get(name)
        if account is not None and records.quotas.tree.history is not None:
            account.past_at, account.past, account.known_share = at, dict(past), None


def _read_claims(state: State, rows: SnapshotRow) -> None:
    """Put the claims of each group in the order of its row."""
    registry = state.records.registry
    for row in rows.groups:
        info = registry._groups[row.key]
        found = {uid: info.claims.get(uid) for uid in [*row.claims, *info.claims]}
        info.claims = Claims()
        for uid, claim in found.items():
            if claim is not None:
                info.claims.put(uid, claim)
        registry._read_claims(info)
        gang = state.records.gang_of.get(row.key)
        if gang is not None:
            grow_tree(state, gang)


# Pods -------------------------------------------------------------------------------------------


def _read_pods(state: State, rows: SnapshotRow) -> None:
    """Enter the pods, those first whose claims count first."""
    records = state.records
    known: dict[PodUID, tuple[int, PodRecordRow]] = {}
    for n, row in enumerate(rows.pods):
        unique(known, row.uid, f"pods[{n}].uid")
        known[row.uid] = (n, row)
    claims = [uid for group in rows.groups for uid in each_once(group.claims, "groups: claims")]
    for uid in claims:
        get(known, uid, "groups: claims")
    for n, row in [known[uid] for uid in dict.fromkeys([*claims, *known])]:
        _read_pod(state, row, f"pods[{n}]")
    for pod in state.settings.cluster.pods():
        if pod.uid not in known:
            state.unread[pod.uid] = None
    records.pods = dict(sorted(records.pods.items(), key=lambda each: each[1].seq))
    for gang in records.gangs.values():
        gang.members = dict(sorted(gang.members.items(), key=lambda each: each[1].seq))


def _read_pod(state: State, row: PodRecordRow, path: str) -> None:
    at, now = row.started_at, state.records.now
    require(at is None or at <= now, f"{path}.started_at", at, f"an instant until now={now!r}")
    if row.pod is not None:
        require(row.pod.uid == row.uid, f"{path}.pod", row.pod.uid, f"the pod {row.uid}")
        require(row.state in _ASSUMED, f"{path}.state", row.state.name, "that of an assumed pod")
        require(row.node is not None, f"{path}.node", row.node, "the node of an assumed pod")
        seen = spelled(state, seen_as(state, row.pod))
        if _is_another(row, seen):  # it is read as a new one when its bind has ended
            seen = seen._replace(claim=_claim(row), problem=None)
        _assume(state, _enter(state, row, seen), row, path)
        state.unread[row.uid] = None
        return
    require(not row.cycle, f"{path}.cycle", row.cycle, "empty for a pod that is not assumed")
    require(row.state not in _NEVER_SHOWN, f"{path}.state", row.state.name, "what a pod shows")
    holds = row.state is MemberState.ASSIGNED
    require(row.node is not None or not holds, f"{path}.node", row.node, "the node of the pod")
    pod = state.settings.cluster.pod(row.uid)
    seen = _gone(row) if pod is None else spelled(state, seen_as(state, pod))
    if pod is not None and _is_another(row, seen):
        # the next call reads it as a new one; until then it is what it was
        pod, before = None, pod_with_fields(seen.pod, priority=row.priority)
        seen = seen._replace(pod=before, claim=_claim(row), problem=None)
    if pod is None or not _is_as_before(state, row, seen):
        state.unread[row.uid] = None
        if row.node is not None and seen.pod.requests != row.requests:
            seen = seen._replace(pod=pod_with_fields(seen.pod, requests=row.requests))
    record = _enter(state, row, seen)
    slot = -1 if row.node is None else state.table.slot(row.node)
    state.records.move(record, row.state, slot)
    if row.state is MemberState.UNSCHEDULED:
        record.pod_class = state.class_of(record, seen.pod_class)
    record.round = row.round


def _gone(row: PodRecordRow) -> Seen:
    """Return a pod that is gone, as far as its row has it: the next call forgets it."""
    namespace = "default" if row.group is None else row.group.partition("/")[0]
    pod = Pod(
        name=row.uid,
        namespace=namespace,
        uid=row.uid,
        priority=row.priority,
        requests=row.requests,
        node_name=row.node,
    )
    return Seen(pod, _claim(row), None, None)


def _claim(row: PodRecordRow) -> Membership | None:
    """Return the claim of a pod as far as its row has it: without a minimum."""
    return None if row.group is None else Membership(row.group, None, SPELLINGS[0], row.role)


def _is_another(row: PodRecordRow, seen: Seen) -> bool:
    """Return whether a pod has become another one since; see ``intake.pods.is_another``."""
    claim = seen.claim
    mine = (None, None) if claim is None else (claim.group, claim.role)
    return (*mine, seen.pod.priority) != (row.group, row.role, row.priority)


def _is_as_before(state: State, row: PodRecordRow, seen: Seen) -> bool:
    """Return whether the cluster shows what a row says of a pod that is not assumed."""
    pod = seen.pod
    problem = seen.problem
    if row.state is MemberState.REFUSED:
        problem = problem or conflict(state, seen, None)
    shown = wanted_state(state, seen, problem)
    if row.is_evicted and shown in _EVICTED:
        shown = MemberState.TERMINATING
    elif row.is_evicted and shown is MemberState.SUCCEEDED:
        shown = MemberState.ENDED
    node = None if pod.is_finished else pod.node_name
    is_same = shown is row.state and node == row.node
    return is_same and (node is None or pod.requests == row.requests)


def _enter(state: State, row: PodRecordRow, seen: Seen) -> PodRecord:
    """Make the record of a pod, a member of its group that is in no state yet."""
    records, pod, claim = state.records, seen.pod, seen.claim
    info: PodGroupInfo | None = None
    if claim is not None:
        # a member may contradict the others by now: it counts whatever the order of claims was
        counts = row.state is not MemberState.REFUSED
        joins_as = MemberState.TERMINATING if counts else MemberState.REFUSED
        info = records.registry.join(pod, claim, joins_as)
        gang = gang_of_group(state, info, pod)
        info.members.set(pod.uid, MemberState.GATED)
    else:
        gang = GangRecord(f"pod:{pod.uid}", records.number(), pod.created_at)
        records.gangs[gang.key] = gang
    record = PodRecord(pod, row.seq, gang, info, None if claim is None else claim.role)
    keep(record, row)
    records.add(record)
    if info is not None:
        grow_tree(state, gang)
        if not record.is_overruled:
            state.agreeing.setdefault(info.key, {})[record.uid] = record
    return record


def _assume(state: State, record: PodRecord, row: PodRecordRow, path: str) -> None:
    assert row.node is not None
    record.cycle = state.cycle(record)
    each_once((name for name, _value in row.cycle), f"{path}.cycle")
    for name, value in row.cycle:
        key = get(state.settings.profile.scratch_keys, name, f"{path}.cycle")
        record.cycle.write(key, value)
    if not row.is_outgrown:  # without a class, its bind counts as failed
        record.pod_class = state.class_of(record)
    state.records.move(record, row.state, state.table.slot(row.node))
    record.round = row.round


def _read_waiting(state: State, rows: SnapshotRow) -> None:
    """Read the deadline of each wait: one for each pod that waits on permit."""
    records = state.records
    for n, row in enumerate(rows.waiting):
        path = f"waiting[{n}]"
        record = get(records.pods, row.uid, f"{path}.uid")
        require(record.state is MemberState.WAITING, f"{path}.uid", row.uid, "a pod that waits")
        unique(records.waiting, row.uid, f"{path}.uid")
        require(row.since <= state.records.now, f"{path}.since", row.since, "an instant until now")
        expected = "an instant >= since"
        require(row.deadline >= row.since, f"{path}.deadline", row.deadline, expected)
        number = record.attempt if record.info is None else record.info.attempts
        require(row.attempt <= number, f"{path}.attempt", row.attempt, f"an int <= {number}")
        _check_pending(state, row, path)
        records.waiting.put(_wait(record, row))
    for record in records.pods.values():
        is_waiting = record.state is MemberState.WAITING
        require(is_waiting == (record.uid in records.waiting), "waiting", record.uid, "a deadline")


def _check_pending(state: State, row: WaitRow, path: str) -> None:
    """Require pending plugins of the profile, each once."""
    names = [name_of(plugin) for plugin in state.settings.profile.permit]
    for n, name in enumerate(row.plugins):
        expected = f"the name of a permit plugin; these are: {', '.join(names) or 'none'}"
        require(name in names, f"{path}.plugins[{n}]", name, expected)
    each_once(row.plugins, f"{path}.plugins")


def _wait(record: PodRecord, row: WaitRow) -> WaitingPod:
    assert record.node is not None
    group = None if record.info is None else record.info.key
    plugins = row.plugins
    return WaitingPod(
        group=group, node=record.node, pending_plugins=plugins, **kept("WaitingPod", row)
    )
