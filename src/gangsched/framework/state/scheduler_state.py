"""Everything a scheduler remembers, in one place.

Invariants (checked by ``_check``):
  I1  each known pod is in exactly one state, and its group, its entity, the waiting map and the
      assumed pods agree with it;
  I2  a pod that holds a node without being assigned is assumed: it waits, or its bind is under
      way, and then its end may have been asked for meanwhile; one that waits is in the waiting
      map; nobody else is in either;
  I3  who is pending is in an entity, and each entity with somebody pending is in the queue,
      unless its group waits for nothing but its deadline.
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
from gangsched.framework.state.reservation_state import Reserving
from gangsched.membership import Membership
from gangsched.model import GroupKey, NodeName, Pod, PodUID, Resources
from gangsched.protocols import ClusterState

__all__ = ["HOLDING", "ON_NODES", "Member", "State"]

HOLDING = (MemberState.WAITING, MemberState.BINDING)
"""The states in which a pod holds a node without being assigned to it."""

ON_NODES = (*HOLDING, MemberState.ASSIGNED)
"""The states in which a pod holds a node."""


@final
@define(eq=False)
class Member:
    """One pod, as the scheduler knows it.

    Attributes:
        pod: The pod, as the cluster state last showed it.
        seq: Its number in the order of arrival.
        entity: What it queues in: its own entity or its group's.
        group: Its group; None for a regular pod.
        pod_class: Whom it is evaluated with.
        requests: What it asks for: for all of a class that ask for the same, the same object,
            so that it is found again without being compared.
        state: What it is doing.
        node: The node that it holds; None when it holds none.
        attempt: The number of its last placement, from 1.
        cycle: The scratch of its last placement, until it is over.
        reason: Why it has no node, in words; empty when nothing was said.
        bind_failures: How many of its binds in a row failed.
        role: Its role in its group; None when it says none.
        started_at: When it was bound, or first seen on its node; None before that.
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
        """Put a newer version of the pod in its place."""
        common = self.pod_class.sample.requests
        self.pod = pod
        self.requests = common if pod.requests == common else pod.requests


@final
@define(eq=False)
class State:
    """What a scheduler remembers, and what the current call has to tell.

    Attributes:
        step: Ascends with each decision and each fact: the clock of causes, not of time.
        members: Every known pod.
        entities: The entity of each group that has a member.
        classes: The class of each signature that a pod has.
        labels: The labels that tell nodes apart for one of these classes.
        evicted: The pods whose end was asked for, until they are gone.
        overdue: The pods that were waited for in vain: their room is not counted on any more.
        nominations: For whom room is kept, by the number of the entity.
        priorities: How many known pods have which priority.
        holding: The groups that hold nodes, with the step since which they do.
        yielding: The groups that give way to the next other entity, with the reason.
        tried: The entities of which a member had its turn in the current attempt, by number.
        seen: What the pods that the current call is about say of themselves.
        out: What the current call returns.
        reserving: Who asks for a reservation, and the one that is made.
        undecided: How many searches for a placement ended with their budget.
        deferred: What plugins raised where the scheduler could not stop half-way; raised when
            the call is done.
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
    out: list[Effect] = field(factory=list[Effect])
    deferred: list[GangschedError] = field(factory=list[GangschedError])
    reserving: Reserving = field(factory=Reserving)
    exhausted_searches: int = 0
    step: int = 0
    numbers: int = 0

    def tick(self) -> int:
        """Begin a step; return its number."""
        self.step += 1
        return self.step

    def number(self) -> int:
        """Return the next number in the order of arrival."""
        self.numbers += 1
        return self.numbers

    def count_priority(self, priority: int, change: int) -> None:
        """Count a known pod of a priority more, or less. O(1)."""
        count = self.priorities.get(priority, 0) + change
        if count:
            self.priorities[priority] = count
        else:
            del self.priorities[priority]

    def put(self, member: Member, state: MemberState) -> None:
        """Move a member to a state, in its group's counts too. O(1)."""
        member.state = state
        if member.group is not None:
            member.group.members.set(member.pod.uid, state)

    def put_all(self, members: Sequence[Member], state: MemberState) -> None:
        """Move members of one group, or one pod, to a state, in its counts too. O(members)."""
        group = members[0].group if members else None
        for member in members:
            member.state = state
        if group is not None:
            group.members.set_all([member.pod.uid for member in members], state)

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
        users = self._class_users()
        for signature, pod_class in self.classes.items():
            if pod_class.users != users.pop(signature, 0) or not pod_class.users:
                raise InternalError(f"class {signature} miscounts its users")
        if users:
            raise InternalError(f"classes {list(users)} are not known")

    def _class_users(self) -> dict[Hashable, int]:
        users: dict[Hashable, int] = {}
        for member in self.members.values():
            signature = member.pod_class.signature
            users[signature] = users.get(signature, 0) + 1
        return users

    def _check_members(self) -> None:
        for uid, member in self.members.items():
            if member.group is not None and member.group.members.state(uid) is not member.state:
                raise InternalError(f"{uid} is {member.state.name}, its group has it otherwise")
            if (uid in self.waiting) != (member.state is MemberState.WAITING):
                raise InternalError(f"{uid} is {member.state.name}, the waiting map disagrees")
            under_way = member.node is not None and uid in self.evicted
            if (uid in self.nodes.assumed) != (member.state in HOLDING or under_way):
                raise InternalError(f"{uid} is {member.state.name}, the assumed pods disagree")
            if (uid in self.nodes.assumed) != (member.node is not None):
                raise InternalError(f"{uid} is {member.state.name}, and holds {member.node}")
            if member.group is not None and member.group.members.role_of(uid) != member.role:
                raise InternalError(f"{uid} is a {member.role}, its group has it otherwise")
            pending = member.state is MemberState.UNSCHEDULED
            if (uid in member.entity) != pending:
                raise InternalError(f"{uid} is {member.state.name}, its entity disagrees")
        self._check_reserved()
        strangers = [uid for uid in self.nodes.assumed if uid not in self.members]
        counted: dict[int, int] = {}
        for member in self.members.values():
            counted[member.pod.priority] = counted.get(member.pod.priority, 0) + 1
        if counted != self.priorities:
            raise InternalError(f"of each priority there are {counted}, not {self.priorities}")
        strangers += [uid for uid in self.evicted if uid not in self.members]
        strangers += [pod.uid for pod in self.waiting if pod.uid not in self.members]
        if strangers:
            raise InternalError(f"{strangers} are remembered and not known")

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
            raise InternalError("who is pending and who is queued differ")
        for info in self.registry:
            if bool(info.waiting) != (info.key in self.holding):
                raise InternalError(f"{info.key}: {info.waiting} wait, holding disagrees")
        for key in self.yielding:
            if key not in self.holding:
                raise InternalError(f"{key} yields, and holds nothing")
        known_entities = {id(member.entity) for member in self.members.values()}
        for seq, entity in self.tried.items():
            if entity.seq != seq or entity.tried_step < 0 or id(entity) not in known_entities:
                raise InternalError(f"entity {seq} was not tried, or is gone")
        for key, entity in self.entities.items():
            known = self.registry.get(key)
            if entity.group is not known or known is None or not known.members:
                raise InternalError(f"entity {key} is not that of its group")
