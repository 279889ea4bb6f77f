"""The answers of ``Scheduler.pending``, ``binding``, ``running`` and ``groups``.

Rules:
  R1  a question changes nothing;
  R2  pending gangs are listed in the order in which they would be tried. The active ones come
      first, by sort key; then those in backoff, by deadline; then the parked ones, by sort key.
      Gangs that wait on permit or are incomplete, and pods that are not admitted, follow by
      arrival.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, final

from attrs import frozen

from gangsched.core.admission.reclaim import owners_of
from gangsched.core.reading.order import Order, as_number
from gangsched.core.reading.queue_view import SchedulingQueue
from gangsched.core.reading.why import why_group, why_pod
from gangsched.core.records.account_tree import Account
from gangsched.core.records.gang import GangRecord, PodRecord
from gangsched.core.state import State
from gangsched.listings import BindingRow, GroupRow, Listing, PendingRow, QuotaRow, RunningRow
from gangsched.primitives.counters import MemberState
from gangsched.primitives.families import family_tree
from gangsched.primitives.group_info import PodGroupInfo
from gangsched.primitives.standing import least_needed
from gangsched.resources import Resources

__all__ = ["binding", "groups", "pending", "quotas", "running"]

_PENDING: Final = frozenset(
    {MemberState.UNSCHEDULED, MemberState.WAITING, MemberState.GATED, MemberState.REFUSED}
)


def pending(state: State) -> Listing[PendingRow]:
    """List the pods and groups that need nodes. O(pods log pods)."""
    queued = _Order.of(state)
    rows: dict[str, tuple[tuple[int, int], PendingRow]] = {}
    for record in state.records.pods.values():
        info = record.info
        key = record.uid if info is None else f"group {info.key}"
        if record.state in _PENDING and key not in rows:
            seq = record.gang.seq if info is None else record.seq
            order = (queued.place(record.gang), seq)
            rows[key] = (order, _pending_row(state, record, queued))
    return Listing(row for _order, row in sorted(rows.values(), key=lambda each: each[0]))


def binding(state: State) -> Listing[BindingRow]:
    """List the pods whose bind is in progress. O(pods)."""
    return Listing(
        BindingRow(
            name=record.pod.key,
            group=None if record.info is None else record.info.key,
            uid=uid,
            node=record.node,
            attempt=record.attempt,
        )
        for uid, record in state.records.pods.items()
        if record.is_being_bound and record.node is not None
    )


def running(state: State) -> Listing[RunningRow]:
    """List the regular pods and the groups that have bound pods. O(pods)."""
    bound: dict[str, list[PodRecord]] = {}
    for record in state.records.pods.values():
        if record.state is MemberState.ASSIGNED:
            key = record.uid if record.info is None else f"group {record.info.key}"
            bound.setdefault(key, []).append(record)
    return Listing(_running_row(records, state.records.now) for records in bound.values())


def quotas(state: State) -> Listing[QuotaRow]:
    """List the quotas, each before those below it. O(quotas x resources + gangs)."""
    charges = state.records.quotas
    pending: Counter[str] = Counter()
    for gang in state.records.gangs.values():
        for owner in owners_of(gang) if gang.pending or gang.waiting else ():
            above = {each.name for one in charges.accounts_of(owner) for each in one.path}
            pending.update(above)
    return Listing(
        _quota_row(state, account, pending[account.name]) for account in charges.tree.in_depth()
    )


def _quota_row(state: State, account: Account, pending: int) -> QuotaRow:
    pool = {name: account.pool(name) for name in account.resources if account.pool(name)}
    return QuotaRow(
        name=account.name,
        parent=account.quota.parent,
        depth=len(account.names) - 1,
        used=Resources.from_milli(account.used),
        nominal=Resources.from_milli(pool) if account.has_part else None,
        hard=account.quota.hard,
        weight=account.quota.weight,
        share=as_number(account.share()),
        past=as_number(state.records.quotas.tree.share(account.name)),
        pending=pending,
    )


def groups(state: State) -> Listing[GroupRow]:
    """List the groups that have members or a specification. O(members + active gangs)."""
    queued = _Order.of(state)
    known = (info for info in state.records.registry if info.members or info.spec is not None)
    return Listing(_group_row(state, info, queued) for info in known)


@final
@frozen
class _Order:
    """The order of rule R2, read from the queue once for all rows.

    Attributes:
        places: The place of each queued gang, by its number.
        active: The number of active gangs, which have the first places.
        order: The same, and the order among queues, for reasons.
    """

    places: Mapping[int, int]
    active: int
    order: Order

    @classmethod
    def of(cls, state: State) -> _Order:
        """Read the queue. O(n log n) for n queued gangs."""
        queue = SchedulingQueue(state.queue, state.records, state.nominations.known)
        active = queue.active
        parked = [each for each in queue.unschedulable if not queue.is_gated(each)]
        ordered = (*active, *queue.backoff, *parked)
        places = {entry.seq: place for place, entry in enumerate(ordered)}
        order = Order(state, lambda gang: places.get(gang.seq, len(places)))
        return cls(places, len(active), order)

    def place(self, gang: GangRecord) -> int:
        """Return the place of a gang; behind all others if it is not queued. O(1)."""
        return self.places.get(gang.seq, len(self.places))

    def active_place(self, gang: GangRecord) -> int | None:
        """Return the place among the active gangs; None if it is not active. O(1)."""
        place = self.place(gang)
        return place if place < self.active else None


def _pending_row(state: State, record: PodRecord, queued: _Order) -> PendingRow:
    gang, info = record.gang, record.info
    position = queued.active_place(gang)
    if info is None:
        pod = record.pod
        return PendingRow(
            name=pod.key,
            group=None,
            uid=pod.uid,
            priority=pod.priority,
            pods=1,
            needed=1,
            position=position,
            attempts=gang.failures,
            age=state.records.now - pod.created_at,
            why=why_pod(state, record, queued.order),
        )
    return PendingRow(
        name=info.key,
        group=info.key,
        uid=None,
        priority=info.priority,
        pods=sum(info.members.count(each) for each in _PENDING),
        needed=_needed(state, info),
        position=position,
        attempts=gang.failures,
        age=state.records.now - info.created_at,
        why=why_group(state, info, queued.order),
    )


def _needed(state: State, info: PodGroupInfo) -> int | None:
    """Return how many further members a group needs to start; 0 once it has started."""
    needed = state.points.members_needed(info)
    if needed is None:
        return 0 if info.was_scheduled else None
    return max(needed, 0)


def _running_row(records: list[PodRecord], now: float) -> RunningRow:
    first = records[0]
    names = (each.pod.node_name for each in records)
    since = min(each.started_at for each in records if each.started_at is not None)
    info = first.info
    return RunningRow(
        name=first.pod.key if info is None else info.key,
        group=None if info is None else info.key,
        uid=first.pod.uid if info is None else None,
        priority=first.pod.priority if info is None else info.priority,
        pods=len(records),
        nodes=tuple(dict.fromkeys(name for name in names if name is not None)),
        age=now - since,
    )


def _group_row(state: State, info: PodGroupInfo, queued: _Order) -> GroupRow:
    registry, least, infos = state.records.registry, info.min_available, [info]
    if info.spec is not None and info.spec.min_groups is not None:
        tree = family_tree(registry, info.key)
        least = least_needed(tree, lambda sub: sub.least)
        groups_below = dict.fromkeys(leaf.group for leaf in tree.leaves if leaf.group is not None)
        infos = [found for key in groups_below if (found := registry.get(key)) is not None]
    return GroupRow(
        key=info.key,
        priority=info.priority,
        min_available=least,
        members=sum(each.all for each in infos),
        pending=sum(each.unscheduled for each in infos),
        waiting=sum(each.waiting for each in infos),
        bound=sum(each.assigned for each in infos),
        attempts=info.attempts,
        was_scheduled=info.was_scheduled,
        age=state.records.now - info.created_at,
        why=why_group(state, info, queued.order),
    )
