"""The known pods and groups: one of the owners of a scheduler's state.

Invariants (checked by ``_check``):
  I1  each known pod is in exactly one state, and its group, its role in the group, its entity and
      the waiting map agree with it;
  I2  each group that has an entity here has members, and each evicted or waiting pod is known;
  I3  ``priorities`` counts the known pods of each priority;
  I4  the quotas count what each member requests that holds a node, or is being given one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from attrs import define, field

from gangsched._core._counters import MemberState
from gangsched._core._entity import QueuedEntity
from gangsched._core._quotas import QuotaLedger
from gangsched._core._registry import PodGroupInfo, PodGroupRegistry
from gangsched._core._restarts import Restarts
from gangsched._core._waiting import WaitingMap
from gangsched.cycle_state import CycleState
from gangsched.errors import InternalError
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.model import GroupKey, NodeName, Pod, PodUID, Resources
from gangsched.resources import NOTHING

__all__ = ["ASSUMED", "ON_NODES", "Member", "Pods"]

ASSUMED = (MemberState.WAITING, MemberState.BINDING)
"""The states of a pod that is assumed on a node."""

ON_NODES = (*ASSUMED, MemberState.ASSIGNED)
"""The states of a pod that uses capacity of a node."""

_HOLD_CAPACITY = (*ON_NODES, MemberState.TERMINATING)
"""The states of a pod that may hold capacity which a preemptor could get."""


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
        attempt: The number of its last placement. Before the first, the number from which the
            attempts of the pod ascend: ``Pods.attempt_floor`` when it was admitted.
        cycle: The cycle state of its last placement, until it is bound or gives its node back.
        reason: Why it has no node; empty if nothing was reported.
        told: The reason of its last ``PodUnschedulable``; empty before any, and once it is bound.
        bind_failures: How many of its binds in a row failed.
        role: Its role in its group; None without one.
        started_at: The instant at which it was bound, or first seen on its node; None before.
        is_counted: Whether it counts as pending in its class; see ``label_readers``.
        held: What it holds of the quotas of its namespace; see ``Pods.hold``.
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
    told: str = ""
    bind_failures: int = 0
    role: str | None = None
    started_at: float | None = None
    is_counted: bool = False
    held: Resources = NOTHING
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
class Pods:
    """The known pods, their groups and their entities.

    Attributes:
        registry: The groups.
        members: Every known pod.
        entities: The entity of each group that has a member.
        waiting: The pods that wait on permit.
        evicted: The pods that an ``Evict`` was posted for, until they are gone.
        restarts: Which groups run, and which are being restarted.
        quotas: Which groups are charged to a quota, and which wait for one.
        priorities: How many pods have which priority, of those that may hold capacity of a node.
        numbers: The last number in the order of arrival.
        attempt_floor: The largest attempt number of a pod that was forgotten. A pod that is
            created again under its UID goes on from there, so that a late report stays late.
    """

    registry: PodGroupRegistry
    members: dict[PodUID, Member] = field(factory=dict[PodUID, Member])
    entities: dict[GroupKey, QueuedEntity] = field(factory=dict[GroupKey, QueuedEntity])
    waiting: WaitingMap = field(factory=WaitingMap)
    evicted: set[PodUID] = field(factory=set[PodUID])
    restarts: Restarts = field(factory=Restarts)
    quotas: QuotaLedger = field(factory=QuotaLedger)
    priorities: dict[int, int] = field(factory=dict[int, int])
    numbers: int = 0
    attempt_floor: int = 0

    def number(self) -> int:
        """Return the next number in the order of arrival. O(1)."""
        self.numbers += 1
        return self.numbers

    def count_priority(self, member: Member, change: int) -> None:
        """Count a member in the priorities (1) or no longer (-1), if its state counts. O(1)."""
        if member.state not in _HOLD_CAPACITY:
            return
        priority = member.pod.priority
        count = self.priorities.get(priority, 0) + change
        if count:
            self.priorities[priority] = count
        else:
            del self.priorities[priority]

    def hold(self, member: Member, *, is_known: bool = True) -> None:
        """Count what a member holds now in the quotas of its namespace. O(1).

        A terminating pod counts only if it is on a node: one without a node will never have one.
        """
        if member.group is None or not self.quotas.is_used:
            return
        holds = is_known and (
            member.state in ON_NODES
            or (
                member.state is MemberState.TERMINATING
                and (member.node is not None or member.pod.node_name is not None)
            )
        )
        after = member.requests if holds else NOTHING
        if after is not member.held:
            self.quotas.hold(member.group.key, member.held, after)
            member.held = after

    def put(self, member: Member, state: MemberState) -> None:
        """Put a member in a state, and count it so in its group. O(1)."""
        self._change(member, state)
        if member.group is not None:
            member.group.members.set(member.pod.uid, state)

    def put_all(self, members: Sequence[Member], state: MemberState) -> list[PodUID]:
        """Put the members of one group, or one pod, in a state, and count them so. O(members).

        Returns:
            Their UIDs.
        """
        uids: list[PodUID] = []
        for member in members:
            self._change(member, state)
            uids.append(member.pod.uid)
        group = members[0].group if members else None
        if group is not None:
            group.members.set_all(uids, state)
        return uids

    def _change(self, member: Member, state: MemberState) -> None:
        if (member.state in _HOLD_CAPACITY) == (state in _HOLD_CAPACITY):
            member.state = state
        else:
            self.count_priority(member, -1)
            member.state = state
            self.count_priority(member, 1)
        self.hold(member)

    def of_group(self, info: PodGroupInfo) -> list[Member]:
        """Return the members of a group, in the order in which they came. O(members)."""
        return [self.members[uid] for uid in info.members]

    def leaving(self, info: PodGroupInfo) -> list[Member]:
        """Return the pods that the restart of a group waits for. O(members).

        Members of a group that is being restarted have nodes only if they are old ones.
        """
        return [each for each in self.of_group(info) if each.state in _HOLD_CAPACITY]

    def _check(self) -> None:
        self.registry._check()
        self.waiting._check()
        self.restarts._check()
        self.quotas._check()
        for uid, member in self.members.items():
            if member.group is not None and member.group.members.state(uid) is not member.state:
                raise InternalError(f"{uid} is {member.state.name}, its group counts it otherwise")
            if (uid in self.waiting) != (member.state is MemberState.WAITING):
                raise InternalError(f"{uid} is {member.state.name}, the waiting map disagrees")
            if member.group is not None and member.group.members.role_of(uid) != member.role:
                raise InternalError(
                    f"{uid} has the role {member.role}, its group counts it otherwise"
                )
            pending = member.state is MemberState.UNSCHEDULED
            if (uid in member.entity) != pending:
                raise InternalError(f"{uid} is {member.state.name}, its entity disagrees")
            held = member.held
            self.hold(member)
            if member.held is not held:
                raise InternalError(f"{uid} holds {member.held} of its quotas, counted as {held}")
        self._check_known()
        counted: dict[int, int] = {}
        for member in self.members.values():
            if member.state not in _HOLD_CAPACITY:
                continue
            counted[member.pod.priority] = counted.get(member.pod.priority, 0) + 1
        if counted != self.priorities:
            raise InternalError(f"pods by priority: {counted}, counted as {self.priorities}")

    def _check_known(self) -> None:
        strangers = [uid for uid in self.evicted if uid not in self.members]
        strangers += [pod.uid for pod in self.waiting if pod.uid not in self.members]
        if strangers:
            raise InternalError(f"{strangers} are not known pods")
        for key, entity in self.entities.items():
            known = self.registry.get(key)
            if entity.group is not known or known is None or not known.members:
                raise InternalError(f"the entity of {key} has another group")
