"""Everything that a scheduler remembers between two calls.

Invariants (checked by ``_check``):
  I1  each known pod is in exactly one state, and its group, its entity, the waiting map and the
      assumed pods agree with it;
  I2  the assumed pods hold a node before the cluster state shows them there. They wait on permit,
      or are being bound, evicted meanwhile or not. The waiting map holds the first of these only;
  I3  each pending pod is in an entity, and each entity with a pending pod is in the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, final

from attrs import define, field

from gangsched._core._backoff import Backoff
from gangsched._core._counters import MemberState
from gangsched._core._entity import QueuedEntity
from gangsched._core._queue import SchedulingQueue
from gangsched._core._registry import PodGroupInfo, PodGroupRegistry
from gangsched._core._waiting import WaitingMap
from gangsched.errors import GangschedError, InternalError
from gangsched.events import Effect
from gangsched.framework.config.cycle_state import CycleState
from gangsched.framework.config.preemption import Preemption
from gangsched.framework.config.profile import Profile
from gangsched.framework.config.scheduling_unit import PlacementStrategy, SchedulingUnit
from gangsched.framework.nodes.node_class import LabelsRead
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.state.nomination import Nomination
from gangsched.framework.state.reservation_state import BackfillState
from gangsched.membership import Membership
from gangsched.model import GroupKey, NodeName, Pod, PodGroup, PodUID, Resources
from gangsched.protocols import ClusterState

__all__ = ["HOLDING", "ON_NODES", "PENDING", "Member", "State"]

HOLDING = (MemberState.WAITING, MemberState.BINDING)
"""The states of a pod that is assumed on a node."""

ON_NODES = (*HOLDING, MemberState.ASSIGNED)
"""The states of a pod that uses capacity of a node."""


PENDING = (MemberState.UNSCHEDULED, *HOLDING, MemberState.GATED, MemberState.REFUSED)
"""The states of a pod that is not bound yet, so that a node may have to be found for it."""


@final
@define(eq=False)
class Member:
    """One known pod.

    Attributes:
        pod: The pod, as the cluster state last showed it.
        seq: Its number in the order of arrival.
        entity: The entity that it queues in: its own, or that of its group.
        group: Its group; None for a regular pod.
        pod_class: The equivalence class of pods that it is evaluated with.
        requests: What it requests. Members of one class with equal requests share one object, so
            that a placement finds runs of them by identity.
        state: Its state.
        node: The node that it is assumed on; None if it is assumed on none.
        attempt: The number of its last placement, from 1; 0 before the first.
        cycle: The cycle state of its last placement, until it is bound or gives its node back.
        reason: Why it has no node; empty if nothing was reported.
        bind_failures: How many of its binds in a row failed.
        role: Its role in its group; None without one.
        started_at: The instant at which it was bound, or first seen on its node; None before.
    """

    pod: Pod
    seq: int
    entity: QueuedEntity
    group: PodGroupInfo | None
    pod_class: PodClass
    state: MemberState
    node: NodeName | None = None
    attempt: int = 0
    cycle: CycleState | None = None
    reason: str = ""
    bind_failures: int = 0
    role: str | None = None
    started_at: float | None = None
    requests: Resources = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.replace(self.pod)

    def replace(self, pod: Pod) -> None:
        """Keep a newer version of the pod. O(resources)."""
        common = self.pod_class.sample.requests
        self.pod = pod
        self.requests = common if pod.requests == common else pod.requests


@final
@define(eq=False)
class State:
    """What a scheduler remembers, and the effects of the current call.

    Attributes:
        step: Ascends with each decision and each event: an order of causes, not of time.
        members: Every known pod.
        entities: The entity of each group that has a member.
        classes: The equivalence class of each pod signature.
        labels: The node labels that some filter or score plugin reads for one of these classes.
        evicted: The pods that an ``Evict`` was posted for, until they are gone.
        overdue: Victims that were not gone in time; no nomination counts on them any more.
        nominations: The nominations, by the number of the entity.
        priorities: How many known pods have which priority.
        holding: The groups with members that wait on permit, and the step since when.
        yielding: The groups that are rejected when another entity is next, with the reason.
        tried: The entities of which a member was tried in the current attempt, by number.
        seen: The pods that the current call has read, with their claims and signatures.
        seen_specs: The specifications that the current call has read.
        arrived: Pending pods that the current call found on a node, by node.
        out: The effects of the current call so far.
        reserving: The gangs that qualify for a reservation, and the reservation.
        undecided: How many searches for a placement ended with their budget.
        deferred: What plugins raised in steps that cannot stop half-way; raised at the end of
            the call.
    """

    cluster: ClusterState
    profile: Profile
    membership: Callable[[Pod], Membership | None]
    unit: SchedulingUnit
    placement: PlacementStrategy
    budget: int
    rest: Backoff
    nodes: Nodes
    queue: SchedulingQueue
    registry: PodGroupRegistry
    preemption: Preemption | None = None
    waiting: WaitingMap = field(factory=WaitingMap)
    members: dict[PodUID, Member] = field(factory=dict[PodUID, Member])
    entities: dict[GroupKey, QueuedEntity] = field(factory=dict[GroupKey, QueuedEntity])
    classes: dict[Hashable, PodClass] = field(factory=dict[Hashable, PodClass])
    labels: LabelsRead = field(factory=LabelsRead)
    evicted: set[PodUID] = field(factory=set[PodUID])
    overdue: set[PodUID] = field(factory=set[PodUID])
    nominations: dict[int, Nomination] = field(factory=dict[int, Nomination])
    priorities: dict[int, int] = field(factory=dict[int, int])
    holding: dict[GroupKey, int] = field(factory=dict[GroupKey, int])
    yielding: dict[GroupKey, str] = field(factory=dict[GroupKey, str])
    tried: dict[int, QueuedEntity] = field(factory=dict[int, QueuedEntity])
    seen: dict[PodUID, Any] = field(factory=dict[PodUID, Any])
    seen_specs: dict[GroupKey, PodGroup | None] = field(factory=dict[GroupKey, PodGroup | None])
    arrived: dict[NodeName, dict[PodUID, None]] = field(factory=dict[NodeName, dict[PodUID, None]])
    out: list[Effect] = field(factory=list[Effect])
    deferred: list[GangschedError] = field(factory=list[GangschedError])
    reserving: BackfillState = field(factory=BackfillState)
    exhausted_searches: int = 0
    step: int = 0
    numbers: int = 0

    def tick(self) -> int:
        """Begin a step; return its number. O(1)."""
        self.step += 1
        return self.step

    def number(self) -> int:
        """Return the next number in the order of arrival. O(1)."""
        self.numbers += 1
        return self.numbers

    def count_priority(self, priority: int, change: int) -> None:
        """Count one known pod of a priority more (1) or less (-1). O(1)."""
        count = self.priorities.get(priority, 0) + change
        if count:
            self.priorities[priority] = count
        else:
            del self.priorities[priority]

    def put(self, member: Member, state: MemberState) -> None:
        """Put a member in a state, and count it so in its group. O(1); see ``count_pending``."""
        if (state in PENDING) is not (member.state in PENDING):
            self.count_pending(member.pod_class, 1 if state in PENDING else -1)
        member.state = state
        if member.group is not None:
            member.group.members.set(member.pod.uid, state)

    def put_all(self, members: Sequence[Member], state: MemberState) -> None:
        """Put the members of one group, or one pod, in a state, and count them so. O(members)."""
        group = members[0].group if members else None
        pends = state in PENDING
        for member in members:
            if (member.state in PENDING) is not pends:
                self.count_pending(member.pod_class, 1 if pends else -1)
            member.state = state
        if group is not None:
            group.members.set_all([member.pod.uid for member in members], state)

    def count_pending(self, pod_class: PodClass, change: int) -> None:
        """Count one pod of a class that is not bound yet more (1) or less (-1).

        Nodes are told apart by the labels that plugins read for a class while it has such a pod.
        Runtime complexity: O(1); O(nodes x plugins) if nodes must be classified again.
        """
        before, pod_class.pending = pod_class.pending, pod_class.pending + change
        changed = False
        if not before:
            changed = self.labels.add(pod_class.labels)
        elif not pod_class.pending:
            changed = self.labels.discard(pod_class.labels)
        if changed:
            self.nodes.classify_anew()

    def forget_idle_labels(self) -> None:
        """Tell nodes apart no more by labels that were not read for long. O(1) amortised."""
        if self.labels.forget_idle(self.nodes.version, len(self.nodes.infos)):
            self.nodes.classify_anew()

    def of_group(self, info: PodGroupInfo) -> list[Member]:
        """Return the members of a group, in the order in which they came. O(members)."""
        return [self.members[uid] for uid in info.members]

    def _check(self) -> None:
        self.registry._check()
        self.waiting._check()
        self.nodes._check()
        self.queue._check()
        self._check_members()
        self._check_entities()
        self._check_labels()
        users = self._class_users()
        for signature, pod_class in self.classes.items():
            if pod_class.users != users.pop(signature, 0) or not pod_class.users:
                raise InternalError(f"pod class {signature} miscounts its users")
        if users:
            raise InternalError(f"pod classes {list(users)} are not known")

    def _check_labels(self) -> None:
        pending: dict[Hashable, int] = {}
        for member in self.members.values():
            signature = member.pod_class.signature
            pending[signature] = pending.get(signature, 0) + (member.state in PENDING)
        readers: dict[str, int] = {}
        for signature, pod_class in self.classes.items():
            if pod_class.pending != pending.get(signature, 0):
                raise InternalError(f"pod class {signature} miscounts its pending pods")
            for key in pod_class.labels if pod_class.pending else ():
                readers[key] = readers.get(key, 0) + 1
        for info in self.registry:
            if info.spec is not None and info.spec.topology is not None:
                key = info.spec.topology.key
                readers[key] = readers.get(key, 0) + 1
        counted = {key: count for key, count in self.labels._readers.items() if count}
        if readers != counted:
            raise InternalError(f"labels are read by {readers}, counted as {counted}")

    def _class_users(self) -> dict[Hashable, int]:
        users: dict[Hashable, int] = {}
        for member in self.members.values():
            signature = member.pod_class.signature
            users[signature] = users.get(signature, 0) + 1
        return users

    def _check_members(self) -> None:
        for uid, member in self.members.items():
            if member.group is not None and member.group.members.state(uid) is not member.state:
                raise InternalError(f"{uid} is {member.state.name}, its group counts it otherwise")
            if (uid in self.waiting) != (member.state is MemberState.WAITING):
                raise InternalError(f"{uid} is {member.state.name}, the waiting map disagrees")
            under_way = member.node is not None and uid in self.evicted
            if (uid in self.nodes.assumed) != (member.state in HOLDING or under_way):
                raise InternalError(f"{uid} is {member.state.name}, the assumed pods disagree")
            if (uid in self.nodes.assumed) != (member.node is not None):
                raise InternalError(f"{uid} is {member.state.name}, and holds {member.node}")
            if member.group is not None and member.group.members.role_of(uid) != member.role:
                raise InternalError(
                    f"{uid} has the role {member.role}, its group counts it otherwise"
                )
            pending = member.state is MemberState.UNSCHEDULED
            if (uid in member.entity) != pending:
                raise InternalError(f"{uid} is {member.state.name}, its entity disagrees")
        self._check_reserved()
        strangers = [uid for uid in self.nodes.assumed if uid not in self.members]
        counted: dict[int, int] = {}
        for member in self.members.values():
            counted[member.pod.priority] = counted.get(member.pod.priority, 0) + 1
        if counted != self.priorities:
            raise InternalError(f"pods by priority: {counted}, counted as {self.priorities}")
        strangers += [uid for uid in self.evicted if uid not in self.members]
        strangers += [pod.uid for pod in self.waiting if pod.uid not in self.members]
        if strangers:
            raise InternalError(f"{strangers} are not known pods")

    def _check_reserved(self) -> None:
        reservation, ledger = self.reserving.reservation, self.nodes.ledger
        nominated = [entry for n in self.nominations.values() for entry in n.reserved]
        expected = [] if reservation is None else list(reservation.capacity.values())
        if any(entry not in ledger for entry in (*nominated, *expected)):
            raise InternalError("capacity is nominated or promised, and not reserved")
        if len(ledger) != len(nominated) + len(expected):
            raise InternalError("capacity is reserved for no nomination or reservation")

    def _check_entities(self) -> None:
        queued = {id(e) for e in (*self.queue.active, *self.queue.backoff)}
        queued |= {id(e) for e in self.queue.unschedulable}
        wanted = {id(m.entity) for m in self.members.values() if len(m.entity)}
        if queued != wanted:
            raise InternalError("the entities with pending pods and the queued entities differ")
        for info in self.registry:
            if bool(info.waiting) != (info.key in self.holding):
                raise InternalError(
                    f"{info.key}: {info.waiting} members wait on permit, holding disagrees"
                )
        for key in self.yielding:
            if key not in self.holding:
                raise InternalError(f"{key} gives way, and no member of it waits on permit")
        known_entities = {id(member.entity) for member in self.members.values()}
        for seq, entity in self.tried.items():
            if entity.seq != seq or entity.tried_step < 0 or id(entity) not in known_entities:
                raise InternalError(f"entity {seq} was not tried, or is gone")
        for key, entity in self.entities.items():
            known = self.registry.get(key)
            if entity.group is not known or known is None or not known.members:
                raise InternalError(f"the entity of {key} has another group")
