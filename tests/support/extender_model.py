"""kube-scheduler as the extender meets it, without I/O: it forgets, repeats, leaves and comes late.

It has a view of capacity of its own: pods whose bind it waits for, and pods that it has seen on
nodes. It learns of a bind that it did not wait for when time passes. By this view it places pods
without a group.

The scheduler and the answers are the real ones, on one cluster state. What is modelled is the queue
of kube-scheduler: a pod that was refused sleeps until it is nominated. No other event wakes it, so
a decision that nominates too few members is found.

Rules:
  R1  a release is checked when it happens: each of its members waits to be bound at that instant,
      or was given up less than the timeout ago, after it had come for the same decision. With those
      on nodes already they are a quorum, or late members of a gang that has started;
  R2  a bind that was withdrawn is never performed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from attrs import evolve

from gangsched.configuration import Settings, make_scheduler
from gangsched.events import (
    Bind,
    BindFailed,
    Bound,
    Effect,
    Event,
    Evict,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
)
from gangsched.kubernetes.extender._answers import (
    Asked,
    Extender,
    ExtenderEffect,
    HowToBind,
    PauseNode,
    ResumeNode,
)
from gangsched.kubernetes.extender._plans import Nominate, NotDecided, Release, Withdraw
from gangsched.membership import membership
from gangsched.memory import InMemoryCluster
from gangsched.model import GroupKey, Node, NodeName, Pod, PodGroup, PodUID

__all__ = ["TIMEOUT", "KubeScheduler"]

TIMEOUT: Final = 20.0


class KubeScheduler:
    """A cluster, the scheduler, the extender, and the model of kube-scheduler.

    Attributes:
        cluster: The cluster state.
        extender: The answers.
        now: The time.
        awake: The pods in the queue of kube-scheduler, in order.
        held: The pods that wait to be bound, and their nodes.
        released: The number of releases.
    """

    def __init__(self) -> None:
        self.cluster: Final = InMemoryCluster()
        self.extender: Final = Extender(self.cluster, _group, timeout=TIMEOUT)
        self.now = 0.0
        self.awake: Final[dict[PodUID, None]] = {}
        self.held: Final[dict[PodUID, NodeName]] = {}
        self.released = 0
        self._nominated: Final[dict[PodUID, NodeName]] = {}
        self._under_way: Final[set[Bind]] = set()
        self._given_up: Final[dict[PodUID, tuple[NodeName, float]]] = {}
        self._unseen: Final[set[PodUID]] = set()
        self._fails: set[PodUID] = set()
        self._paused: Final[set[NodeName]] = set()
        self._started: Final[set[str]] = set()
        self._scheduler: Final = make_scheduler(Settings(), self.cluster)
        self._scheduler.allow_evictions()

    # The cluster --------------------------------------------------------------------------------

    def add_node(self, name: str, cpu: int) -> None:
        """Add a node."""
        if self.cluster.node(name) is None:
            self.tell(NodeAdded(Node(name=NodeName(name), allocatable={"cpu": cpu})))

    def delete_node(self, name: str) -> None:
        """Delete a node, and its pods with it."""
        if self.cluster.node(name) is not None:
            for pod in list(self.cluster.pods_on(name)):
                self.delete_pod(pod.uid)
            self._paused.discard(NodeName(name))
            self.tell(NodeDeleted(NodeName(name)))

    def add_gang(self, name: str, size: int, minimum: int) -> None:
        """Add a group and its members."""
        self.tell(PodGroupAdded(PodGroup(name=name, min_available=minimum)))
        for number in range(size):
            self.add_member(name, f"{name}-{number}")

    def add_member(self, group: str, name: str) -> None:
        """Add a member of a group."""
        uid = PodUID(name)
        if self.cluster.pod(uid) is None:
            self.awake[uid] = None
            pod = Pod(name=name, uid=uid, requests={"cpu": 1}, pod_group=group)
            self.tell(PodAdded(pod))

    def delete_pod(self, uid: PodUID) -> None:
        """Delete a pod."""
        if self.cluster.pod(uid) is not None:
            self.awake.pop(uid, None)
            self.held.pop(uid, None)
            self._nominated.pop(uid, None)
            self.tell(PodDeleted(uid))

    def tell(self, event: Event) -> None:
        """Let an event happen, and the scheduler decide."""
        self.cluster.apply(event)
        match event:
            case PodDeleted(uid):
                self._perform(self.extender.pod_is_gone(uid))
            case NodeDeleted(name):
                self._perform(self.extender.node_is_gone(name))
            case _:
                pass
        self._take(self._scheduler.handle(event, now=self.now))
        self._decide()

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self._unseen.clear()
        self._perform(self.extender.advance(self.now))
        self._take(self._scheduler.advance(now=self.now))
        self._decide()

    def fail_next(self, uid: PodUID) -> None:
        """Let the API server refuse the next bind of a pod."""
        self._fails.add(uid)

    # What kube-scheduler does -------------------------------------------------------------------

    def attempt(self, uid: PodUID, *, without: Iterable[str] = ()) -> None:
        """Try a pod: ``filter``, then ``bind``.

        Args:
            uid: The pod.
            without: The nodes that the filters of kube-scheduler refuse.
        """
        pod = self.cluster.pod(uid)
        self.awake.pop(uid, None)
        if pod is None or pod.node_name is not None or uid in self.held:
            return
        names = [node.name for node in self.cluster.nodes() if node.name not in without]
        if not names:
            return  # the extender is not asked; here the pod is just tried again
        found = self.extender.filter(
            Asked(pod, nominated=self._nominated.get(uid)), names, self.now
        )
        assert set(found.names) <= set(names)
        assert {*found.names, *found.failed} == set(names)
        self._perform(found.effects)
        if not found.names:
            return
        (node,) = found.names
        self.held[uid] = NodeName(node)
        try:
            how, effects = self.extender.bind(uid, node, self.now)
        except NotDecided:
            self._error(uid)
            return
        assert how is HowToBind.HELD
        self._perform(effects)

    def leave(self, uid: PodUID) -> None:
        """Give up waiting for a bind, and try the pod again."""
        if uid in self.held:
            self._given_up[uid] = self.held[uid], self.now
            self.extender.plans.leave(uid, self.now)
            self._error(uid)

    def place_ordinary(self, name: str) -> None:
        """Place a pod without a group, wherever it fits as far as kube-scheduler knows."""
        pod = Pod(name=name, uid=PodUID(name), requests={"cpu": 1})
        if self.cluster.pod(pod.uid) is not None:
            return
        names = [node.name for node in self.cluster.nodes() if self._seems_free(node)]
        found = self.extender.filter(Asked(pod), names, self.now).names
        if found:
            self.tell(PodAdded(evolve(pod, node_name=NodeName(found[0]))))

    def _seems_free(self, node: Node) -> bool:
        taken = {pod.uid for pod in self.cluster.pods_on(node.name)} - self._unseen
        taken |= {uid for uid, name in self.held.items() if name == node.name}
        return 1000 * len(taken) < node.allocatable.amount("cpu")

    def settle(self, rounds: int = 30) -> None:
        """Do everything that is to be done, without faults, and let time pass."""
        for _ in range(rounds):
            for uid in list(self.awake):
                self.attempt(uid)
            self.wait(3.0)
            self.check()

    def check(self) -> None:
        """Check the invariants."""
        self.extender._check()
        self.cluster._check()
        load = {node.name: 0 for node in self.cluster.nodes()}
        for pod in self.cluster.pods():
            if pod.node_name is not None and pod.node_name in load:
                load[pod.node_name] += 1
        for name, count in load.items():
            node = self.cluster.node(name)
            assert node is not None
            assert 1000 * count <= node.allocatable.amount("cpu"), f"{name} is oversubscribed"

    def on_nodes(self, group: str) -> int:
        """Return how many members of a group are on nodes."""
        return sum(p.node_name is not None for p in self.cluster.pods() if p.pod_group == group)

    # What follows -------------------------------------------------------------------------------

    def _decide(self) -> None:
        while (effects := self._scheduler.schedule_one(now=self.now)) is not None:
            self._take(effects)

    def _take(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Bind):
                self._under_way.add(effect)
        self._perform(self.extender.observe(effects, self.now))
        for effect in effects:
            if isinstance(effect, Evict):
                self.delete_pod(effect.uid)

    def _perform(self, effects: Iterable[ExtenderEffect]) -> None:
        for effect in effects:
            match effect:
                case Release(binds):
                    self._release(binds)
                case Withdraw(binds, reason):
                    for bind in binds:
                        self._nominated.pop(bind.uid, None)
                        if bind.uid in self.held:
                            self._error(bind.uid)
                    for bind in binds:
                        self._failed(bind, reason)
                case Nominate(uid, node):
                    self._nominated[uid] = node
                    if uid not in self.held:
                        self.awake[uid] = None
                case PauseNode(name):
                    self._paused.add(name)
                    self._cordon(name, cordoned=True)
                case ResumeNode(name):
                    self._paused.discard(name)
                    self._cordon(name, cordoned=False)

    def _release(self, binds: Sequence[Bind]) -> None:
        self.released += 1
        groups: dict[str, int] = {}
        for bind in binds:
            pod = self.cluster.pod(bind.uid)
            assert pod is not None
            given_up, at = self._given_up.get(bind.uid, (None, 0.0))
            has_come = given_up == bind.node and self.now - at < TIMEOUT
            assert has_come or self.held.get(bind.uid) == bind.node, f"{bind.uid} is not here"
            assert bind in self._under_way, f"{bind} was withdrawn"
            groups[pod.pod_group or ""] = groups.get(pod.pod_group or "", 0) + 1
        for name, count in groups.items():
            group = self.cluster.pod_group(f"default/{name}")
            assert group is not None
            assert group.min_available is not None
            on_nodes = self.on_nodes(name)
            is_late = name in self._started and on_nodes > 0
            assert is_late or on_nodes + count >= group.min_available, f"{name} would be partial"
            self._started.add(name)
        for bind in binds:
            if self.held.pop(bind.uid, None) is None:
                self._unseen.add(bind.uid)
            is_bound = bind.uid not in self._fails
            self._fails.discard(bind.uid)
            self.extender.ended(bind, self.now, is_bound=is_bound)
            if is_bound:
                self._under_way.discard(bind)
                event = Bound(bind.uid, bind.node, bind.attempt)
                self.cluster.apply(event)
                self._take(self._scheduler.handle(event, now=self.now))
            else:
                self.awake[bind.uid] = None
                self._failed(bind, "refused")

    def _failed(self, bind: Bind, reason: str) -> None:
        self._under_way.discard(bind)
        self._given_up.pop(bind.uid, None)
        report = BindFailed(bind.uid, bind.attempt, reason)
        self._take(self._scheduler.handle(report, now=self.now))

    def _error(self, uid: PodUID) -> None:
        """Take in that a bind failed: kube-scheduler tries the pod again by itself."""
        self.held.pop(uid, None)
        self.awake[uid] = None

    def _cordon(self, name: NodeName, *, cordoned: bool) -> None:
        node = self.cluster.node(name)
        if node is not None:
            changed = Node(name=name, allocatable=node.allocatable, unschedulable=cordoned)
            self.tell(NodeUpdated(changed))


def _group(pod: Pod) -> GroupKey | None:
    claim = membership(pod)
    return None if claim is None else claim.group
