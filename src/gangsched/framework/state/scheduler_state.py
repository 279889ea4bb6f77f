"""Everything that a scheduler remembers between two calls: its owners, put together.

Each part of the state has one owner, with invariants and a ``_check`` of its own. A function takes
the owners that it uses. ``State`` is for the functions that need most of them.

Invariants between the owners (checked by ``_check``, beside those of each owner):
  I1  the assumed pods hold a node before the cluster state shows them there. They wait on permit,
      or are being bound, evicted meanwhile or not;
  I2  each pending pod is in an entity, and each entity with a pending pod is in the queue;
  I3  a group is known to hold nodes exactly while members of it wait on permit;
  I4  each reserved capacity stands for a nomination or for the reservation;
  I5  each class of pods counts the known pods that use it, and those that are not bound yet;
  I6  a label has a reader for each class with a pod that is not bound yet and reads it, and for
      each group that has it as its topology.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import final

from attrs import define, field

from gangsched._core._counters import MemberState
from gangsched._core._queue import SchedulingQueue
from gangsched.errors import InternalError
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.state import label_readers
from gangsched.framework.state.attempts import Attempts
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pod_classes import PodClasses
from gangsched.framework.state.pods import ASSUMED, Pods
from gangsched.framework.state.reservations import Reservations
from gangsched.framework.state.settings import Settings

__all__ = ["State"]


@final
@define(eq=False)
class State:
    """What a scheduler remembers, what was set, and what the current call gathers.

    Attributes:
        settings: What the caller set; not remembered, but given.
        nodes: The nodes, with the pods that are assumed on them and the reserved capacity.
        queue: The queued entities.
        pods: The known pods and groups.
        pod_classes: The equivalence classes of the known pods.
        attempts: What was tried, and which attempts are under way.
        reservations: The nominations and the reservation of backfill.
        call: What the current call gathers; empty between two calls.
    """

    settings: Settings
    nodes: Nodes
    queue: SchedulingQueue
    pods: Pods
    reservations: Reservations
    pod_classes: PodClasses = field(factory=PodClasses)
    attempts: Attempts = field(factory=Attempts)
    call: CurrentCall = field(factory=CurrentCall)

    def _check(self) -> None:
        self.nodes._check()
        self.queue._check()
        self.pods._check()
        self.pod_classes._check()
        self.reservations._check()
        self._check_assumed()
        self._check_queued()
        self._check_attempts()
        self.attempts._check()
        self._check_reserved()
        self._check_users()
        self._check_labels()

    def _check_assumed(self) -> None:
        assumed = self.nodes.assumed
        for uid, member in self.pods.members.items():
            under_way = member.node is not None and member.state is MemberState.TERMINATING
            if (uid in assumed) != (member.state in ASSUMED or under_way):
                known = "is" if uid in assumed else "is not"
                evicted = "an eviction" if uid in self.pods.evicted else "no eviction"
                raise InternalError(
                    f"{uid} is {member.state.name} with {evicted} requested, and {known} assumed"
                )
            if (uid in assumed) != (member.node is not None):
                raise InternalError(f"{uid} is {member.state.name}, and holds {member.node}")
        strangers = [uid for uid in assumed if uid not in self.pods.members]
        if strangers:
            raise InternalError(f"{strangers} are not known pods")

    def _check_queued(self) -> None:
        places = (*self.queue.active, *self.queue.backoff, *self.queue.unschedulable)
        queued = {id(entity): entity.seq for entity in places}
        wanted = {id(m.entity): m.entity.seq for m in self.pods.members.values() if len(m.entity)}
        if queued.keys() != wanted.keys():
            only = [queued[key] for key in queued.keys() - wanted.keys()]
            lost = [wanted[key] for key in wanted.keys() - queued.keys()]
            raise InternalError(
                f"entities without pending pods are queued: {sorted(only)};"
                f" entities with pending pods are not: {sorted(lost)}"
            )

    def _check_attempts(self) -> None:
        for info in self.pods.registry:
            if bool(info.waiting) != (info.key in self.attempts.waiting_since):
                since = self.attempts.waiting_since.get(info.key)
                raise InternalError(
                    f"{info.key}: {info.waiting} members wait, waiting_since is {since}"
                )
        for key in self.attempts.waiting_since:
            if self.pods.registry.get(key) is None:
                raise InternalError(f"{key} is not a known group, and holds nodes")
        known = {id(member.entity) for member in self.pods.members.values()}
        for seq, entity in self.attempts.tried.items():
            if id(entity) not in known:
                raise InternalError(
                    f"entity {seq} is noted as tried, but no known pod belongs to it"
                )

    def _check_reserved(self) -> None:
        entries, ledger = self.reservations.entries(), self.nodes.ledger
        missing = [(each.owner, each.node) for each in entries if each not in ledger]
        if missing:
            raise InternalError(f"capacity is nominated or promised, and not reserved: {missing}")
        if len(ledger) != len(entries):
            raise InternalError(
                f"the ledger has {len(ledger)} entries,"
                f" the nominations and the reservation have {len(entries)}"
            )

    def _check_users(self) -> None:
        users: dict[Hashable, int] = {}
        for member in self.pods.members.values():
            signature = member.pod_class.signature
            users[signature] = users.get(signature, 0) + 1
        for signature, pod_class in self.pod_classes.by_signature.items():
            counted = users.pop(signature, 0)
            if pod_class.users != counted:
                raise InternalError(
                    f"pod class {signature}: users is {pod_class.users}, expected {counted}"
                )
        if users:
            raise InternalError(f"pod classes {list(users)} are not known")

    def _check_labels(self) -> None:
        pending: dict[Hashable, int] = {}
        for member in self.pods.members.values():
            signature = member.pod_class.signature
            if label_readers.is_pending(member) is not member.is_counted:
                expected = not member.is_counted
                raise InternalError(
                    f"{member.pod.uid}: is_counted is {member.is_counted}, expected {expected}"
                )
            pending[signature] = pending.get(signature, 0) + member.is_counted
        readers: dict[str, int] = {}
        for signature, pod_class in self.pod_classes.by_signature.items():
            counted_pending = pending.get(signature, 0)
            if pod_class.pending != counted_pending:
                raise InternalError(
                    f"pod class {signature}: pending is {pod_class.pending},"
                    f" expected {counted_pending}"
                )
            for key in pod_class.labels if pod_class.pending else ():
                readers[key] = readers.get(key, 0) + 1
        for info in self.pods.registry:
            if info.spec is not None and info.spec.topology is not None:
                key = info.spec.topology.key
                readers[key] = readers.get(key, 0) + 1
        known = self.pod_classes.labels._readers
        counted = {key: count for key, count in known.items() if count}
        if readers != counted:
            raise InternalError(f"labels are read by {readers}, counted as {counted}")
