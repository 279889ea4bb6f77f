"""Compute what the records hold a second time.

Invariants:
  I1  a pod is known to its gang, to the counts of its group, and to the node that it holds;
  I2  what nodes have free is what they offer without what the pods that hold them need, and without
      what is held there for others;
  I3  a gang is known exactly while it has a member, or while its group has a grace period;
  I4  an account uses what its pods hold;
  I5  between two calls no trial is under way: no plan is shown, and no pod is lifted;
  I6  between two calls the pods of each gang were told why it was rejected.
"""

from __future__ import annotations

from collections import Counter

from gangsched.core.nodes.hold import Hold
from gangsched.core.records import Records
from gangsched.core.records.gang import GangRecord, PodRecord
from gangsched.errors import InternalError
from gangsched.primitives.counters import MemberState
from gangsched.primitives.group_info import HOLDING

__all__ = ["check_records"]


def check_records(records: Records) -> None:
    """Raise ``InternalError`` if the records contradict themselves. O(pods + nodes)."""
    records.table.check()
    records.registry._check()
    records.waiting._check()
    records.quotas._check()
    records.counts._check()
    records.tenancy.check(records.on_nodes(), records.holds)
    records.selections.check(record.pod for record in records.pods.values())
    for record in records.pods.values():
        _check_in_gang(records, record)
        _check_node(records, record)
    _check_capacity(records)
    _check_usage(records)
    _check_sums(records)
    for gang in records.gangs.values():
        _check_groups(records, gang)
        _require(not gang.untold, "the pods of {} were not told: {}", gang, gang.untold)
    for key, gang in records.gang_of.items():
        _require(records.gangs.get(gang.key) is gang, "{} of {} is not known", gang, key)
        info = records.registry.get(key)
        _require(gang.infos.get(key) is info is not None, "{} has another group {}", gang, key)


def _check_in_gang(records: Records, record: PodRecord) -> None:
    """Check how a pod is known to its gang and its group."""
    gang, uid, info, state = record.gang, record.uid, record.info, record.state
    _require(gang.members.get(uid) is record, "{} is no member of {}", record, gang)
    _require(records.gangs.get(gang.key) is gang, "{} of {} is not known", gang, record)
    _require((uid in gang.pending) == (state is MemberState.UNSCHEDULED), "{} pends", record)
    _require((uid in gang.waiting) == (state is MemberState.WAITING), "{} waits", record)
    _require((uid in records.waiting) == (state is MemberState.WAITING), "{} waits on", record)
    _require(record.leaf == gang.leaf_of(info, record.role), "{} in a leaf", record)
    _require(uid not in gang.tried or uid in gang.pending, "{} counts as tried", record)
    if info is not None:
        _require(info.members.state(uid) is state, "{} is counted otherwise", record)


def _check_node(records: Records, record: PodRecord) -> None:
    """Check what a pod needs, and that its node knows it."""
    needs = records.table.needs(record.pod.requests)
    _require(record.needs == needs, "{} needs other", record)
    if record.slot >= 0:
        _require(records._on[record.slot][record.uid] is record, "{} is not on its node", record)
    else:
        _require(record.state not in HOLDING, "{} holds no node", record)


def _check_capacity(records: Records) -> None:
    """Check what nodes have free, and which of them have to stay for what is held there."""
    table, holds = records.table, records.holds
    kept = Counter(hold.slot for hold in holds)
    _require(kept == table._kept, "slots {} are kept, not {}", table._kept, kept)
    for hold in holds:
        _require(hold.is_lent == hold.is_lendable, "{} is still lent, or not any more", hold)
    used = [[0] * len(table.resources) for _name in table.names]
    users: list[PodRecord | Hold] = [*records.on_nodes(), *(h for h in holds if not h.is_lent)]
    for user in users:
        for number, amount in user.needs:
            used[user.slot][number] += amount
    for slot, state in enumerate(table.state_of):
        left = tuple([o - u for o, u in zip(state.offered, used[slot], strict=True)])
        name = table.names[slot]
        _require(left == state.free, "{} has {} free, not {}", name, state.free, left)


def _check_usage(records: Records) -> None:
    """Check what accounts use."""
    usage: dict[str, dict[int, int]] = {}
    for record in records.on_nodes():
        of_account = usage.setdefault(records.account_of(record.pod), {})
        for number, amount in record.needs:
            of_account[number] = of_account.get(number, 0) + amount
    for account, found in records.usage.items():
        of_account = {number: amount for number, amount in found.items() if amount}
        _require(of_account == usage.get(account, {}), "usage of {}", account)


def _check_sums(records: Records) -> None:
    """Check that nothing is known that belongs to no pod, and what is counted by priority."""
    pods = records.pods.values()
    on_nodes = [record for record in pods if record.slot >= 0]
    holders = sum(map(len, records._on.values()))
    _require(holders == len(on_nodes), "{} pods hold nodes", len(on_nodes))
    members = sum(len(gang.members) for gang in records.gangs.values())
    _require(members == len(pods), "{} members, {} pods", members, len(pods))
    _require(not records._planned, "a plan is still shown")
    _require(not records._lifted, "pods are still lifted")
    ending = {record.uid for record in pods if record.state is MemberState.TERMINATING}
    _require(ending == set(records.terminating), "{} terminate", records.terminating)
    priorities = Counter(record.gang.priority for record in on_nodes)
    _require(priorities == records.priorities, "priorities {}", records.priorities)
    by_queue = Counter((r.gang.counted_queue, r.gang.priority) for r in on_nodes)
    found = {(q, p): n for q, counts in records.priorities_in.items() for p, n in counts.items()}
    _require(by_queue == found, "priorities by queue {}", found)
    queues = all(r.gang.counted_queue == records.queue_of(r.gang) for r in on_nodes)
    _require(queues, "a gang is counted in another queue")


def _check_groups(records: Records, gang: GangRecord) -> None:
    """Check the groups of a gang, and which of their members were tried."""
    is_known = all(records.gang_of.get(key) is gang for key in gang.infos)
    _require(is_known, "groups of {}", gang)
    tried = Counter(record.info.key for record in gang.tried.values() if record.info)
    counted = {key: info.tried for key, info in gang.infos.items() if info.tried}
    _require(tried == counted, "{} has tried {}, not {}", gang, tried, counted)


def _require(holds: bool, problem: str, *subjects: object) -> None:
    """Require what must hold; *problem* is formatted only if it does not, as that is slow."""
    if not holds:
        raise InternalError(problem.format(*subjects))
