"""What is remembered between two calls: a record for each pod and each gang, and the nodes.

``Records.move`` is the only function that changes the state of a pod, or the node that it holds.
The counts of its group, what is free on nodes and what namespaces use follow from it, and
``check_records`` computes each of them a second time. All else that is remembered can be dropped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Final, Protocol, final

from gangsched.constraints.matchers import CarriedTerm
from gangsched.core.evaluation.pod_class import Late
from gangsched.core.evaluation.selections import Selections
from gangsched.core.nodes.hold import Hold
from gangsched.core.nodes.marks import is_resident
from gangsched.core.nodes.node_table import Needs, NodeTable
from gangsched.core.nodes.views import NodeView
from gangsched.core.records.charges import Charges
from gangsched.core.records.current_call import CurrentCall
from gangsched.core.records.gang import GangRecord, PodRecord
from gangsched.core.records.tenancy import Tenancy
from gangsched.cycle_state.pod_counts import KeptPodCounts
from gangsched.model import GroupKey, Node, NodeName, Pod, PodUID
from gangsched.primitives.counters import MemberState
from gangsched.primitives.registry import PodGroupRegistry
from gangsched.primitives.waiting import WaitingMap
from gangsched.resources import Resources

__all__ = ["OVER", "Guard", "NodesBySlot", "Records"]

OVER: Final = frozenset({MemberState.SUCCEEDED, MemberState.FAILED, MemberState.ENDED})
"""The states of a pod that no longer uses its node."""

_UNSCHEDULED: Final = MemberState.UNSCHEDULED  # a look-up in an enum is slow
_WAITING: Final = MemberState.WAITING
_ASSIGNED: Final = MemberState.ASSIGNED
_TERMINATING: Final = MemberState.TERMINATING
_BOUND: Final = (_ASSIGNED, _TERMINATING)


class Guard(Protocol):
    """What keeps the plan of a reservation valid while others are placed."""

    has_refused: bool

    def concerns(self, record: PodRecord, /) -> bool:
        """Return whether a pod may be in the way."""
        ...

    def check(self, record: PodRecord, /) -> Late | None:
        """Return a plugin that refuses the pod nodes; None if it cannot be in the way."""
        ...


@final
class Records:
    """The pods, the gangs and the nodes.

    Args:
        table: The nodes.
        registry: The pod groups.
        carried: Returns the terms that a pod carries to its node.
        selections: The selectors of known pods.
        sign: Returns what static plugins read of a node; see ``NodeTable.set``.
        call: What the current call has gathered; the mover adds to it.
        quotas: Counts what pods hold of quotas; None for no quotas.
        account_of: Returns the account on which a pod runs; its namespace by default.

    Attributes:
        counts: The pods on nodes by domain, for plugins that read them.
        tenancy: Which gangs have pods in a domain, if any wants domains of its own.
        waiting: The pods that wait on permit.
        holds: The capacity that is kept for pods that are not there yet.
        terminating: The pods that terminate.
        priorities: How many pods hold a node, by the priority of their gang; ``priorities_in``: by
            the queue of their gang as well.
        guard: What keeps the plan of a reservation valid; None if the pods that are placed now may
            break it.
        altered: How often a node was added, changed or removed.
        confirmed: The nodes that were read since a restore found other nodes; None for all of them.
            Any other one may have changed meanwhile, though it is known as it is.
        departed: The pods that left nodes, if they are noted; the empty name for a hold.
        usage: By account, what its pods hold of each resource.
        now: The current instant.
        step: Counts cycles; 0 stands for before all of them.
    """

    def __init__(
        self,
        table: NodeTable,
        registry: PodGroupRegistry,
        carried: Callable[[Pod], tuple[CarriedTerm, ...]],
        selections: Selections,
        sign: Callable[[Node], Hashable],
        call: CurrentCall,
        quotas: Charges | None = None,
        account_of: Callable[[Pod], str] = attrgetter("namespace"),
    ) -> None:
        self.call = call
        self._carried = carried
        self.selections: Selections = selections
        self._sign = sign
        self.account_of = account_of
        self.quotas: Charges = Charges() if quotas is None else quotas
        self.counts: KeptPodCounts = KeptPodCounts(NodesBySlot(self), carried)
        self.table = table
        self.tenancy: Tenancy = Tenancy(table)
        self.registry = registry
        self.pods: dict[PodUID, PodRecord] = {}
        self.gangs: dict[str, GangRecord] = {}
        self.gang_of: dict[GroupKey, GangRecord] = {}
        self.waiting: WaitingMap = WaitingMap()
        self.usage: dict[str, dict[int, int]] = {}
        self.notes_used = False
        self.holds: dict[Hold, None] = {}
        self.terminating: dict[PodUID, PodRecord] = {}
        self.priorities: dict[int, int] = {}
        self.priorities_in: dict[str, dict[int, int]] = {}
        self.altered: int = 0
        self.confirmed: set[NodeName] | None = None
        self.guard: Guard | None = None
        self.notes_departed = False
        self.departed: list[PodUID] = []
        self.now: float = -math.inf
        self.notes_ended = False
        self.step = 1
        self.attempt_floor: int = 0
        self._numbers = 0
        self._on: dict[int, dict[PodUID, PodRecord]] = {}
        self._planned: list[tuple[int, Pod]] = []
        self._lifted: dict[PodUID, PodRecord] = {}
        self._lifted_holds: dict[Hold, None] = {}

    def number(self) -> int:
        """Return the next number of a pod or gang."""
        self._numbers += 1
        return self._numbers

    # The mover ----------------------------------------------------------------------------------

    def move(
        self,
        record: PodRecord,
        state: MemberState,
        slot: int = -1,
        *,
        is_taken: bool = False,
        since: int = 0,
    ) -> None:
        """Put a pod in a state, on a node or on none. O(resources).

        Args:
            record: The pod.
            state: Its new state.
            slot: The node that it holds from now on; -1 for none.
            is_taken: Whether a trial has taken the capacity already.
            since: The step since which the capacity that it gives back was taken.
        """
        gang, uid, before = record.gang, record.uid, record.state
        if before is not state:
            if before is _UNSCHEDULED:
                gang.pending.pop(uid, None)
                if gang.tried:
                    gang.forget_tried(record)
            elif before is _WAITING:
                gang.waiting.pop(uid, None)
            elif before is _TERMINATING:
                self.terminating.pop(uid, None)
            if state is _UNSCHEDULED:
                gang.pending[uid] = record
                record.round = -1
            elif state is _WAITING:
                gang.waiting[uid] = record
            elif state is _TERMINATING:
                self.terminating[uid] = record
            record.state = state
            if self.notes_ended and before in _BOUND:
                self._note_ended(record)
            if record.info is not None:
                record.info.members.set(uid, state)
        if record.slot != slot:
            if record.slot >= 0:
                self._leave(record, since)
            record.slot = slot
            if slot < 0:
                record.node = None
            else:
                record.node = self.table.names[slot]
                if not is_taken:
                    self.table.take(slot, record.needs)
                self._come(record)

    def _note_ended(self, record: PodRecord) -> None:
        """Note that a pod that was bound uses its node no longer, if it has ended."""
        if record.state in OVER and record.pod.node_name is not None:
            self.call.ended.append(record.pod)

    def add(self, record: PodRecord) -> None:
        """Add a pod, which has joined its group; its state is set by ``move``. O(1)."""
        self.pods[record.uid] = record
        record.gang.members[record.uid] = record
        record.needs = self.table.needs(record.pod.requests)
        record.account = self.account_of(record.pod)
        if self.quotas.is_used:
            self.quotas.join(record.owner, record.pod)
        self.selections.add(record.pod)
        if record.state is _UNSCHEDULED:
            record.gang.pending[record.uid] = record

    def join(self, record: PodRecord, gang: GangRecord) -> None:
        """Let a pod be one of another gang, which is counted afterwards. O(1)."""
        if record.slot >= 0:
            self._use_priority(record.gang, -1)
            self._use_priority(gang, 1)
        record.gang = gang

    def count_priority(self, gang: GangRecord) -> None:
        """Count the pods of a gang on nodes under its priority and its queue. O(groups)."""
        priority = gang.priority if gang.members else 0
        queue = self.queue_of(gang) if gang.members else ""
        if priority != gang.counted_priority or queue != gang.counted_queue:
            number = gang.on_nodes
            self._use_priority(gang, -number)
            gang.counted_priority, gang.counted_queue = priority, queue
            self._use_priority(gang, number)

    def queue_of(self, gang: GangRecord) -> str:
        """Return the queue of a gang; of a bundle with several, that of its first group."""
        if not self.quotas.tree.has_queues:
            return ""
        group = gang.group
        return self.quotas.queue_of(gang.key if group is None else group.key)

    def _use_priority(self, gang: GangRecord, change: int) -> None:
        queue, priority = gang.counted_queue, gang.counted_priority
        gang.on_nodes += change
        _count(self.priorities, priority, change)
        _count(self.priorities_in.setdefault(queue, {}), priority, change)
        if not self.priorities_in[queue]:
            del self.priorities_in[queue]

    def replace(self, record: PodRecord, pod: Pod) -> None:
        """Take over a newer version of a pod. O(resources) if it needs something else."""
        known, slot = record.pod, record.slot
        asks_alike = pod.requests is known.requests
        needs = record.needs if asks_alike else self.table.needs(pod.requests)
        account = self.account_of(pod)
        self.selections.add(pod)
        if (needs, account) != (record.needs, record.account) and slot >= 0:
            self.table.keep(slot)  # its node may be gone
            self._leave(record, 0)
            record.pod, record.needs, record.account = pod, needs, account
            self.table.take(slot, needs)
            self._come(record)
            self.table.let_go(slot)
        elif slot >= 0 and pod is not known:
            self._uncount(record)
            record.pod = pod
            self._count(record)
            if is_resident(pod) != is_resident(known):
                self.tenancy.move([record], ())
        record.pod, record.needs, record.account = pod, needs, account

    def forget(self, record: PodRecord) -> None:
        """Forget a pod; what it holds is given back. The caller lets it leave its group."""
        self.move(record, MemberState.ENDED)
        gang = record.gang
        del gang.members[record.uid]
        del self.pods[record.uid]
        self.selections.discard(record.uid)
        if record.info is None:
            self.quotas.forget(record.owner)
        self.attempt_floor = max(self.attempt_floor, record.attempt)
        if not self.pods:
            self.counts.clear()

    def set_node(self, name: NodeName, node: Node | None) -> bool:
        """Add, change or remove a node; return whether it may have changed.

        Runtime complexity: O(resources + labels), and O(pods there) if it is new.
        """
        table, counts = self.table, self.counts
        slot = table.slots.get(name)
        before = None if slot is None else table.nodes[slot]
        if node == before and (self.confirmed is None or name in self.confirmed):
            return False
        signature = None if node is None else self._sign(node)
        if self.confirmed is not None:
            self.confirmed.add(name)
        self.altered += 1
        if node is None:
            for record in () if slot is None else self.holders(slot):
                self._uncount(record)
            table.remove(name)
        else:
            table.set(node, signature)
        if before is None or node is None or _told_apart(before) != _told_apart(node):
            counts.nodes_changed()
        if before is None and node is not None:
            self._count_holders(table.slots[name])
        if self.tenancy.levels:
            self._count_tenants(slot, None if node is None else table.slots[name])
        return True

    def _count_tenants(self, before: int | None, slot: int | None) -> None:
        """Count who is on a node that may be in other domains now, and mark it."""
        if before is not None:
            holds = [hold for hold in self.holds if hold.slot == before]
            self.tenancy.move_node(before, self.holders(before), holds)
        if slot is not None:
            self.tenancy.mark_node(slot)

    def _count_holders(self, slot: int) -> None:
        """Count the pods that were on a node before it was known."""
        was_active = self.counts.is_active
        for record in self.holders(slot):
            self._count(record)
            if self.counts.is_active and not was_active:
                break  # this has counted all of them

    def _come(self, record: PodRecord) -> None:
        self._on.setdefault(record.slot, {})[record.uid] = record
        self._use(record, 1)
        if self.tenancy.levels:
            self.tenancy.come(record)
        if self.counts.is_active or self.selections.stated:
            self._count(record)

    def _count(self, record: PodRecord) -> None:
        if self.table.nodes[record.slot] is not None:
            if self.counts.is_active:
                self.counts.put(record.pod, record.slot)
            elif record.uid in self.selections.stated and self._carried(record.pod):
                self.counts.activate()  # this counts the pod too

    def _uncount(self, record: PodRecord) -> None:
        if self.counts.is_active and self.table.nodes[record.slot] is not None:
            self.counts.take(record.pod, record.slot)

    def _leave(self, record: PodRecord, since: int) -> None:
        slot = record.slot
        if self.notes_departed:
            self.departed.append(record.uid)
        if self.counts.is_active:
            self._uncount(record)
        on = self._on[slot]
        del on[record.uid]
        if not on:
            del self._on[slot]
        self._use(record, -1)
        if self.tenancy.levels:
            self.tenancy.leave(record.uid, since)
        self.table.give(slot, record.needs, since)

    def _use(self, record: PodRecord, sign: int) -> None:
        self._use_priority(record.gang, sign)
        used = self.usage.setdefault(record.account, {})
        for number, amount in record.needs:
            used[number] = used.get(number, 0) + sign * amount
        if not used[0]:
            del self.usage[record.account]
        if self.notes_used:
            self.call.used[record.account] = None
        if self.quotas.is_used:
            self.quotas.hold(record.owner, record.pod.requests, sign)

    def used_by(self, account: str) -> Resources:
        """Return what the pods of an account hold. O(resources)."""
        used = self.usage.get(account, {})
        names = self.table.resources
        return Resources.from_milli({name: used[n] for name, n in names.items() if used.get(n)})

    # Capacity that is held ----------------------------------------------------------------------

    def hold(self, hold: Hold) -> None:
        """Keep capacity. O(resources)."""
        hold.since = self.step
        self.holds[hold] = None
        self.table.keep(hold.slot)
        self.table.take(hold.slot, hold.needs)
        self.tenancy.keep(hold)

    def drop(self, hold: Hold) -> None:
        """Keep capacity no longer: a node may take more. O(resources)."""
        del self.holds[hold]
        self.tenancy.leave(hold, hold.since)
        if hold.is_lent:
            self.keep(hold)
        if self.notes_departed:
            self.departed.append(PodUID(""))
        self.table.let_go(hold.slot)
        self.table.give(hold.slot, hold.needs, hold.since)

    def resize(self, hold: Hold, needs: Needs) -> None:
        """Keep other amounts; a node of which less is kept may take more. O(resources)."""
        before = hold.needs
        if needs != before:
            self.table.take(hold.slot, before, -1)
            self.table.take(hold.slot, needs)
            hold.needs = needs
            now = dict(needs)
            if any(amount > now.get(number, 0) for number, amount in before):
                self.table.gained(hold.slot, hold.since)

    def lend(self, hold: Hold) -> None:
        """Show capacity as free while its owner is tried; nothing is woken. O(resources)."""
        if not hold.is_lent:
            hold.is_lent = True
            self.table.take(hold.slot, hold.needs, -1)

    def keep(self, hold: Hold) -> None:
        """End ``lend``. O(resources)."""
        if hold.is_lent:
            hold.is_lent = False
            self.table.take(hold.slot, hold.needs)

    # Trials -------------------------------------------------------------------------------------

    def lift(self, record: PodRecord) -> None:
        """Take a pod off its node within a trial of the table. O(resources)."""
        self._lifted[record.uid] = record
        self._uncount(record)
        self.tenancy.leave(record.uid)
        self.table.take(record.slot, record.needs, -1)

    def land(self, record: PodRecord) -> None:
        """Put a pod back that was lifted. O(resources)."""
        del self._lifted[record.uid]
        self._count_again(record)
        self.table.take(record.slot, record.needs)

    def lift_hold(self, hold: Hold) -> None:
        """Take a hold off its node within a trial of the table. O(resources)."""
        self._lifted_holds[hold] = None
        self.tenancy.leave(hold)
        self.table.take(hold.slot, hold.needs, -1)

    def land_hold(self, hold: Hold) -> None:
        """Put a hold back that was lifted. O(resources)."""
        del self._lifted_holds[hold]
        self.tenancy.keep(hold)
        self.table.take(hold.slot, hold.needs)

    def land_all(self) -> None:
        """Show everything lifted again; the trial gives the capacity back. O(what is lifted)."""
        while self._lifted:
            self._count_again(self._lifted.popitem()[1])
        while self._lifted_holds:
            self.tenancy.keep(self._lifted_holds.popitem()[0])

    def _count_again(self, record: PodRecord) -> None:
        """Count a pod that was counted before. One with terms has made the counts active then."""
        if self.counts.is_active and self.table.nodes[record.slot] is not None:
            self.counts.put(record.pod, record.slot)
        self.tenancy.come(record)

    # Reading ------------------------------------------------------------------------------------

    def gang_about(self, key: GroupKey) -> GangRecord | None:
        """Return the gang of a group that has pods, or of what is below a group of groups."""
        return self.gang_of.get(key) or self.gangs.get(f"tree:{self.registry.root(key)}")

    def holders(self, slot: int) -> Collection[PodRecord]:
        """Return the pods that hold a node."""
        return self._on.get(slot, {}).values()

    def on_nodes(self) -> Iterator[PodRecord]:
        """Yield the pods that hold nodes, node by node."""
        for holders in self._on.values():
            yield from holders.values()

    def pods_on(self, slot: int) -> Collection[Pod]:
        """Return the pods on a node, with those that the current decision plans there."""
        planned = [pod for at, pod in self._planned if at == slot]
        lifted = self._lifted
        return [*[r.pod for r in self.holders(slot) if r.uid not in lifted], *planned]

    def plan(self, slot: int, pod: Pod) -> None:
        """Show a pod on a node while a decision is made."""
        self._planned.append((slot, pod))
        if not self.counts.is_active and self._carried(pod):
            self.counts.activate()
        else:
            self.counts.put(pod, slot)

    def unplan(self, slot: int, pod: Pod) -> None:
        """Show one planned pod no longer, if it is planned. O(planned pods)."""
        for number, (at, planned) in enumerate(self._planned):
            if at == slot and planned is pod:
                del self._planned[number]
                self.counts.take(pod, slot)
                return

    def clear_plan(self, length: int = 0) -> None:
        """Show planned pods no longer, but the first *length* of them."""
        while len(self._planned) > length:
            slot, pod = self._planned.pop()
            self.counts.take(pod, slot)

    @property
    def plans(self) -> list[tuple[int, Pod]]:
        """The pods that the current decision plans, each with its node."""
        return list(self._planned)

    @property
    def planned(self) -> int:
        """How many pods are planned."""
        return len(self._planned)


def _count(counts: dict[int, int], priority: int, change: int) -> None:
    number = counts.get(priority, 0) + change
    if number:
        counts[priority] = number
    else:
        counts.pop(priority, None)


def _told_apart(node: Node) -> tuple[Any, ...]:
    """Return what decides in which domains a node is counted."""
    return (node.labels, node.taints)


@final
class NodesBySlot(Mapping[int, NodeView]):
    """The nodes that exist, by slot."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def __getitem__(self, slot: int) -> NodeView:
        if self._records.table.nodes[slot] is None:
            raise KeyError(slot)
        return NodeView(self._records, slot)

    def __iter__(self) -> Iterator[int]:
        nodes = self._records.table.nodes
        return (slot for slot, node in enumerate(nodes) if node is not None)

    def __len__(self) -> int:
        return self._records.table.count
