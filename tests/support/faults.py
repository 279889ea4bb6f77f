"""Schedulers with a fault, made around a correct one: they know of it only the public calls.

A fault is in what the scheduler sees, in what it says, or in when it is called. So a fault is the
same on each core.

Rules:
  R1  the scheduler inside reads a ``View`` of the cluster, in which a fault may change each pod,
      each node and each group, or hide a pod;
  R2  a fault begins when its cause happens. Until then the scheduler decides as the one inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, cast

from attrs import evolve

from gangsched import (
    Bind,
    BindFailed,
    ClusterState,
    Effect,
    Event,
    Evict,
    GroupKey,
    GroupRejected,
    GroupRestarted,
    Node,
    NodeName,
    NodeUpdated,
    Pod,
    PodDeleted,
    PodGroup,
    PodRejected,
    PodUID,
    Resources,
    Scheduler,
)
from gangsched.primitives.waiting import WaitingPod
from support.minima import minima

__all__ = [
    "AnyChild",
    "BacksOffNever",
    "CountsRestartsTwice",
    "EvictsNone",
    "Faulty",
    "ForgetsToRequeue",
    "GivesBackTwice",
    "SeesTerminatingPodsOnNodes",
    "HoldsOneMember",
    "LosesEnds",
    "Make",
    "NoRestartBackoff",
    "NoRestartLimit",
    "OneShort",
    "ReleasesLate",
    "RoleOneShort",
    "SeesNoTerminatingPods",
    "faulty",
]

Make: TypeAlias = Callable[[ClusterState], Scheduler]

_LATE = 5.0
_MINIMUM = "pod-group.scheduling.sigs.k8s.io/min-available"


class View:
    """A cluster state as a faulty scheduler sees it."""

    def __init__(self, cluster: ClusterState, fault: Faulty) -> None:
        self._cluster = cluster
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def nodes(self) -> Iterator[Node]:
        return map(self._fault.node, self._cluster.nodes())

    def node(self, name: NodeName) -> Node | None:
        node = self._cluster.node(name)
        return None if node is None else self._fault.node(node)

    def pods(self) -> Iterator[Pod]:
        seen = map(self._fault.pod, self._cluster.pods())
        return (pod for pod in seen if pod is not None)

    def pod(self, uid: PodUID) -> Pod | None:
        pod = self._cluster.pod(uid)
        return None if pod is None else self._fault.pod(pod)

    def pods_on(self, node: NodeName) -> Iterator[Pod]:
        seen = map(self._fault.pod, self._cluster.pods_on(node))
        return (pod for pod in seen if pod is not None)

    def pod_groups(self) -> Iterator[PodGroup]:
        return map(self._fault.group, self._cluster.pod_groups())

    def pod_group(self, key: GroupKey) -> PodGroup | None:
        group = self._cluster.pod_group(key)
        return None if group is None else self._fault.group(group)


class Faulty:
    """A scheduler around another one, without a fault; subclasses have one each."""

    def __init__(self, make: Make, cluster: ClusterState) -> None:
        self.make = make
        self.view: Any = View(cluster, self)
        self.inner = make(self.view)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    # What it sees -------------------------------------------------------------------------------

    def pod(self, pod: Pod) -> Pod | None:
        """Return a pod as it is seen; None if it is hidden."""
        return pod

    def node(self, node: Node) -> Node:
        """Return a node as it is seen."""
        return node

    def group(self, group: PodGroup) -> PodGroup:
        """Return a group as it is seen."""
        return group

    # What it says -------------------------------------------------------------------------------

    def said(self, effects: tuple[Effect, ...], now: float) -> Iterable[Effect]:
        """Return what is said instead of some effects."""
        return effects

    # The calls ----------------------------------------------------------------------------------

    def handle(self, *events: Event, now: float) -> tuple[Effect, ...]:
        return tuple([effect for event in events for effect in self.handle_one(event, now=now)])

    def handle_one(self, event: Event, *, now: float) -> tuple[Effect, ...]:
        return tuple(self.said(self.inner.handle(event, now=now), now))

    def advance(self, *, now: float) -> tuple[Effect, ...]:
        return tuple(self.said(self.inner.advance(now=now), now))

    def schedule_one(self, *, now: float) -> tuple[Effect, ...] | None:
        effects = self.inner.schedule_one(now=now)
        return None if effects is None else tuple(self.said(effects, now))

    def rebuild(self, *, now: float) -> tuple[Effect, ...]:
        return tuple(self.said(self.inner.rebuild(now=now), now))


def faulty(fault: type[Faulty], make: Make) -> Make:
    """Return a factory of schedulers that have a fault."""
    return lambda cluster: cast("Scheduler", fault(make, cluster))


# Quorums ----------------------------------------------------------------------------------------


class OneShort(Faulty):
    """The quorum of each group is one short."""

    def pod(self, pod: Pod) -> Pod | None:
        stated = pod.labels.get(_MINIMUM)
        if stated is None:
            return pod
        fewer = str(max(1, int(stated) - 1))
        return evolve(pod, labels={**pod.labels, _MINIMUM: fewer})

    def group(self, group: PodGroup) -> PodGroup:
        if group.min_groups is not None or group.has_copies:
            return group
        of_roles = sum(minima(group).values())
        return evolve(group, min_available=max(1, of_roles, group.min_available - 1))


class AnyChild(Faulty):
    """Each group of groups wants one child."""

    def group(self, group: PodGroup) -> PodGroup:
        return group if group.min_groups is None else evolve(group, min_groups=1)


class RoleOneShort(Faulty):
    """The minimum of each role is one short."""

    def group(self, group: PodGroup) -> PodGroup:
        fewer = {role: count - 1 for role, count in minima(group).items() if count > 1}
        return evolve(group, roles=fewer)


# Holding nodes ----------------------------------------------------------------------------------


class HoldsOneMember(Faulty):
    """The first member of a rejected attempt goes on waiting."""

    def __init__(self, make: Make, cluster: ClusterState) -> None:
        super().__init__(make, cluster)
        self._held: list[WaitingPod] = []
        self._before: list[WaitingPod] = []

    @property
    def waiting(self) -> list[WaitingPod]:
        return [*self.inner.waiting, *self._held]

    def said(self, effects: tuple[Effect, ...], now: float) -> Iterable[Effect]:
        rejected = {effect.uid for effect in effects if isinstance(effect, PodRejected)}
        left = [each for each in self._before if each.uid in rejected]
        if left and not self._held:
            self._held = left[-1:]
        self._before = list(self.inner.waiting)
        return effects


class ReleasesLate(Faulty):
    """Released members are bound some seconds later, and wait meanwhile."""

    def __init__(self, make: Make, cluster: ClusterState) -> None:
        super().__init__(make, cluster)
        self._late: list[tuple[float, Bind]] = []

    @property
    def waiting(self) -> list[WaitingPod]:
        return [
            WaitingPod(each.uid, None, each.node, each.attempt, since=at - _LATE, deadline=at)
            for at, each in self._late
        ]

    def next_deadline(self) -> float | None:
        due = self.inner.next_deadline()
        return min([at for at, _bind in self._late] + ([] if due is None else [due]), default=None)

    def said(self, effects: tuple[Effect, ...], now: float) -> Iterable[Effect]:
        due = [bind for at, bind in self._late if at <= now]
        binds = [effect for effect in effects if isinstance(effect, Bind)]
        self._late = [each for each in self._late if each[0] > now]
        self._late += [(now + _LATE, bind) for bind in binds]
        return [*due, *[effect for effect in effects if not isinstance(effect, Bind)]]


class GivesBackTwice(Faulty):
    """A node that a pod leaves gets twice what the pod held."""

    def __init__(self, make: Make, cluster: ClusterState) -> None:
        self._more: dict[NodeName, Resources] = {}
        self._held: dict[PodUID, tuple[NodeName, Resources]] = {}
        super().__init__(make, cluster)

    def node(self, node: Node) -> Node:
        more = self._more.get(node.name)
        return node if more is None else evolve(node, allocatable=node.allocatable + more)

    def said(self, effects: tuple[Effect, ...], now: float) -> Iterable[Effect]:
        for effect in effects:
            pod = self.view.pod(effect.uid) if isinstance(effect, Bind) else None
            if isinstance(effect, Bind) and pod is not None:
                self._held[effect.uid] = (effect.node, pod.requests)
        return effects

    def handle_one(self, event: Event, *, now: float) -> tuple[Effect, ...]:
        effects = super().handle_one(event, now=now)
        if isinstance(event, BindFailed | PodDeleted) and event.uid in self._held:
            name, requests = self._held.pop(event.uid)
            self._more[name] = self._more.get(name, Resources()) + requests
            node = self.view.node(name)
            if node is not None:
                effects += super().handle_one(NodeUpdated(node), now=now)
        return effects


# Queueing ---------------------------------------------------------------------------------------


class ForgetsToRequeue(Faulty):
    """After a rejected attempt nothing is tried before the next event."""

    is_stuck = False

    def said(self, effects: tuple[Effect, ...], now: float) -> Iterable[Effect]:
        self.is_stuck = self.is_stuck or any(isinstance(e, GroupRejected) for e in effects)
        return effects

    def handle_one(self, event: Event, *, now: float) -> tuple[Effect, ...]:
        self.is_stuck = False
        return super().handle_one(event, now=now)

    def schedule_one(self, *, now: float) -> tuple[Effect, ...] | None:
        return None if self.is_stuck else super().schedule_one(now=now)


class BacksOffNever(Faulty):
    """A failed bind begins no backoff, since the scheduler starts anew."""

    def handle_one(self, event: Event, *, now: float) -> tuple[Effect, ...]:
        effects = super().handle_one(event, now=now)
        if isinstance(event, BindFailed):
            self.inner = self.make(self.view)
            self.inner.advance(now=now)
        return effects


# Restarts ---------------------------------------------------------------------------------------


class NoRestartBackoff(Faulty):
    """A group is restarted before the end of the backoff that it names."""

    def group(self, group: PodGroup) -> PodGroup:
        policy = group.restart
        return group if policy is None else evolve(group, restart=evolve(policy, backoff=0.001))

    def said(self, effects: tuple[Effect, ...], now: float) -> Iterable[Effect]:
        return [
            evolve(effect, until=now + 10.0) if isinstance(effect, GroupRestarted) else effect
            for effect in effects
        ]


class NoRestartLimit(Faulty):
    """A group is restarted again and again, also beyond the limit of 2 that it names."""

    def group(self, group: PodGroup) -> PodGroup:
        policy = group.restart
        return group if policy is None else evolve(group, restart=evolve(policy, max_restarts=99))

    def said(self, effects: tuple[Effect, ...], now: float) -> Iterable[Effect]:
        return [
            evolve(effect, limit=2) if isinstance(effect, GroupRestarted) else effect
            for effect in effects
        ]


class CountsRestartsTwice(Faulty):
    """Each restart but the first is counted twice."""

    def said(self, effects: tuple[Effect, ...], now: float) -> Iterable[Effect]:
        return [
            evolve(effect, restarts=2 * effect.restarts - 1)
            if isinstance(effect, GroupRestarted)
            else effect
            for effect in effects
        ]


class EvictsNone(Faulty):
    """No pod is evicted."""

    def said(self, effects: tuple[Effect, ...], now: float) -> Iterable[Effect]:
        return [effect for effect in effects if not isinstance(effect, Evict)]


class SeesNoTerminatingPods(Faulty):
    """A terminating pod is taken as gone, although it still has its node."""

    def pod(self, pod: Pod) -> Pod | None:
        return pod if pod.deleted_at is None else None


# Quotas -----------------------------------------------------------------------------------------


class LosesEnds(Faulty):
    """A pod that has ended or is gone is taken as one that still runs."""

    def __init__(self, make: Make, cluster: ClusterState) -> None:
        self._running: dict[PodUID, Pod] = {}
        super().__init__(make, cluster)

    def pod(self, pod: Pod) -> Pod | None:
        if pod.node_name is not None and not pod.is_finished:
            self._running[pod.uid] = pod
        return self._running.get(pod.uid, pod)

    def handle_one(self, event: Event, *, now: float) -> tuple[Effect, ...]:
        return () if isinstance(event, PodDeleted) else super().handle_one(event, now=now)


class SeesTerminatingPodsOnNodes(Faulty):
    """A terminating pod without a node is taken as one with a node, and twice as large."""

    def pod(self, pod: Pod) -> Pod | None:
        is_pending = pod.deleted_at is not None and pod.node_name is None
        if not is_pending:
            return pod
        return evolve(pod, node_name=NodeName("n0"), requests=pod.requests + pod.requests)
