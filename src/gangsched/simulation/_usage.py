"""Which job holds which resources, and what the nodes offer, over the time of a run.

Rules:
  R1  an event only names the objects to look at; their state is read from the cluster, because
      events may arrive twice and late;
  R2  the effects of a call are recorded before any of them is performed.
"""

from __future__ import annotations

from typing import Final, final

from gangsched.events import (
    Bind,
    BindFailed,
    Bound,
    Effect,
    Event,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    Nominated,
    ObjectChanged,
    ObjectDeleted,
    PermitAllowed,
    PermitRejected,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodRejected,
    PodUpdated,
    PodWaiting,
)
from gangsched.model import GroupKey, NodeName, PodUID
from gangsched.protocols import ClusterState
from gangsched.simulation.jobs import Jobs
from gangsched.simulation.metrics import Account
from gangsched.simulation.places import Places

__all__ = ["RECORDED", "UsageTracker"]


RECORDED: Final = frozenset((Bind, Nominated, PodRejected, PodWaiting))
"""The effects that ``record_effects`` reads."""


@final
class UsageTracker:
    """Tracks the jobs of a run and the capacity of its cluster.

    Args:
        cluster: The cluster as it is, not as the scheduler sees it.

    Attributes:
        jobs: The jobs, and what they hold.
        capacity: The allocatable resources of all nodes, over time; from the first pod on, once one
            has arrived: before that, nothing could use them.
        places: Which pod holds which node.
        first_pod_at: When the first pod arrived; None before that.
        to_last_arrival: ``utilisation`` as of the last instant at which a job arrived.
    """

    def __init__(self, cluster: ClusterState) -> None:
        self.jobs = Jobs()
        self.capacity = Account()
        self.places = Places()
        self.first_pod_at: float | None = None
        self.to_last_arrival: dict[str, float] = {}
        self._noted_at: float | None = None
        self._cluster = cluster
        self._attempts: dict[PodUID, int] = {}

    def record_event(self, event: Event, now: float) -> list[PodUID]:
        """Record an event that the cluster shows already; return the pods whose work begins."""
        match event:
            case PodAdded(pod) | PodUpdated(pod):
                return self._pod(pod.uid, now)
            case PodDeleted(uid) | Bound(uid):
                return self._pod(uid, now)
            case ObjectChanged() | ObjectDeleted() | PermitAllowed() | PermitRejected():
                pass
            case BindFailed(uid, attempt):
                if self._attempts.get(uid) == attempt:
                    self._give_back(uid, now)
            case PodGroupAdded(group) | PodGroupUpdated(group):
                self._group(group.key, now)
            case PodGroupDeleted(key):
                self._group(key, now)
            case NodeAdded(node) | NodeUpdated(node):
                self._node(node.name, now)
            case NodeDeleted(name):
                self._node(name, now)
        return []

    def utilisation(self, now: float) -> dict[str, float]:
        """Return for each resource the share of the capacity so far that running jobs held."""
        used = self.jobs.used.areas(now=now)
        offered = self.capacity.areas(now=now)
        return {n: used.get(n, 0.0) / area for n, area in offered.items() if n != "pods"}

    def _note_arrival(self, now: float) -> None:
        # the jobs of one instant hold nothing before its end
        if self.jobs.last_submitted_at == now != self._noted_at:
            self._noted_at = now
            self.to_last_arrival = self.utilisation(now)

    def record_effects(self, effects: tuple[Effect, ...], now: float) -> list[PodUID]:
        """Record the effects of a call; return the pods that it assigns to a node."""
        assigned: list[PodUID] = []
        for effect in effects:
            if type(effect) not in RECORDED:
                continue  # most effects are notices
            match effect:
                case PodWaiting(uid, node):
                    if self._hold(uid, node, now):
                        assigned.append(uid)
                case Bind(uid, node, attempt):
                    self._attempts[uid] = attempt
                    if self._hold(uid, node, now):
                        assigned.append(uid)
                case PodRejected(uid):
                    self._give_back(uid, now)
                case Nominated(victims=victims):
                    self.jobs.preempted += len(victims)
                case _:
                    pass
        return assigned

    def record_restart(self, now: float) -> None:
        """Record a new scheduler, which knows only the pods that are bound."""
        self._attempts.clear()
        for job in self.jobs:
            for uid in sorted(job.holding - job.bound):
                self.jobs.give_back(uid, now=now)
                self.places.drop(uid, now=now)

    def _hold(self, uid: PodUID, node: NodeName, now: float) -> bool:
        """Record that a pod is assigned to a node; return whether it held none before."""
        if not self.jobs.hold(uid, now=now):
            return False
        pod = self._cluster.pod(uid)
        if pod is not None:
            self.places.put(uid, node, pod.requests, now=now)
        return True

    def _give_back(self, uid: PodUID, now: float) -> None:
        """Record that a scheduler takes a pod off a node; a pod that is bound stays where it is.

        A bind of the scheduler before a restart may have taken effect on another node.
        """
        pod = self._cluster.pod(uid)
        if pod is None or pod.node_name is None:
            self.jobs.give_back(uid, now=now)
            self.places.drop(uid, now=now)

    def _pod(self, uid: PodUID, now: float) -> list[PodUID]:
        pod = self._cluster.pod(uid)
        if pod is None:
            self._attempts.pop(uid, None)
            self.jobs.remove_pod(uid, now=now)
            self.places.drop(uid, now=now)
            return []
        if self.first_pod_at is None:
            self.first_pod_at = now
            self.capacity.restart(now=now)
        self.jobs.add_pod(pod, now=now)
        self._note_arrival(now)
        if pod.is_finished:
            self.places.drop(uid, now=now)
            self.jobs.finish(uid, now=now)
        elif pod.node_name is not None:
            self.places.put(uid, pod.node_name, pod.requests, now=now)
            return self.jobs.bind(uid, now=now)
        else:
            self.places.resize(uid, pod.requests, now=now)
        return []

    def _group(self, key: GroupKey, now: float) -> None:
        group = self._cluster.pod_group(key)
        if group is None:
            self.jobs.remove_group(key)
        else:
            self.jobs.add_group(group, now=now)
            self._note_arrival(now)

    def _node(self, name: NodeName, now: float) -> None:
        before, node = self.places.nodes.get(name), self._cluster.node(name)
        if before is not None:
            self.capacity.subtract(before.allocatable, now=now)
        if node is not None:
            self.capacity.add(node.allocatable, now=now)
        self.places.set_node(name, node, now=now)
