"""Small clusters of which pods end at known instants, played in time, and an oracle for each step.

Rules:
  R1  run times are exact: a pod is deleted when it was expected to end. At one instant, pods end
      first; then pods and gangs arrive; then the scheduler decides until it has nothing to decide;
  R2  the oracle tries every order of members on every node, by rules that share no code with the
      plugins, the search or the plan of a reservation;
  R3  all have one priority, so that no gang outranks the one with the reservation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import define, evolve, field, frozen
from hypothesis import strategies as st

from gangsched import (
    AnnotatedRunTimes,
    Backfill,
    Bind,
    Bound,
    ClusterState,
    Effect,
    GroupKey,
    HostPort,
    InMemoryCluster,
    LabelSelector,
    Node,
    NodeAdded,
    NodeName,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodDeleted,
    PodUID,
    Scheduler,
    TopologySpreadConstraint,
    presets,
)
from gangsched.cluster_objects import Namespace, PersistentVolume, PersistentVolumeClaim
from gangsched.constraints import VolumeClaim
from gangsched.events import ObjectChanged
from gangsched.model import group_key
from support import kube_rules
from support.constrained_worlds import HOST, NAMESPACES, ZONE
from support.reservation_oracle import holder
from support.restored import posted

__all__ = ["Job", "Placed", "Player", "World", "backfilling", "worlds"]

SECONDS: Final = "test.example/seconds"
GROUP: Final = "pod-group.scheduling.sigs.k8s.io/name"
MINIMUM: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
SOLO: Final = "solo"
"""A claim of each namespace that only one pod may use."""
ZONAL: Final = "zonal"
"""A claim of each namespace whose volume is reached from one zone."""

Placed: TypeAlias = list[tuple[Pod, Node]]


def backfilling(cluster: ClusterState) -> Scheduler:
    """Return a scheduler that knows the run time of every pod."""
    return presets.gang(cluster, backfill=Backfill(AnnotatedRunTimes(SECONDS)))


@frozen
class Job:
    """Pods that arrive together: a gang, or one pod.

    Attributes:
        at: When they arrive.
        pods: The pods; those of a gang have its labels.
        seconds: How long each runs.
    """

    at: float
    pods: tuple[Pod, ...]
    seconds: float

    @property
    def group(self) -> GroupKey | None:
        """The key of the gang; None for a pod without one."""
        name = self.pods[0].labels.get(GROUP)
        return None if name is None else group_key(self.pods[0].namespace, name)

    @property
    def key(self) -> str:
        """The key of the gang, or of the pod."""
        return str(self.group or self.pods[0].key)


@frozen
class World:
    """Nodes, and jobs that arrive on them."""

    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]


ALIKE: Final = LabelSelector({"app": "x"})


@st.composite
def _constraints(draw: st.DrawFn) -> dict[str, Any]:
    """Draw at most two constraints about pods with one label, ports, or volumes."""
    key = draw(st.sampled_from([ZONE, HOST]))
    where: dict[str, Any] = draw(
        st.sampled_from(
            [
                {},
                {},
                {"namespaces": ("one", "two")},
                {"namespace_selector": LabelSelector()},
                {"namespace_selector": LabelSelector({"team": "b"})},
            ]
        )
    )
    selector = draw(st.sampled_from([ALIKE, ALIKE, LabelSelector({"app": "y"})]))
    term = PodAffinityTerm(topology_key=key, label_selector=selector, **where)
    spread = TopologySpreadConstraint(
        max_skew=draw(st.integers(1, 2)),
        topology_key=key,
        label_selector=selector,
        min_domains=draw(st.none() | st.integers(1, 3)),
    )
    address = draw(st.sampled_from(["", "10.0.0.1", "10.0.0.2"]))
    zone = NodeSelectorRequirement(ZONE, "In", [draw(st.sampled_from("ab"))])
    families: list[dict[str, Any]] = [
        {"host_ports": [HostPort(80, "TCP", address)]},
        {"pod_anti_affinity": [term]},
        {"pod_affinity": [term]},
        {"topology_spread_constraints": [spread]},
        {"affinity": [NodeSelectorTerm([zone])]},
        {"volume_claims": [VolumeClaim(draw(st.sampled_from([SOLO, ZONAL])))]},
    ]
    chosen = draw(st.lists(st.sampled_from(families), max_size=2))
    return {name: value for family in chosen for name, value in family.items()}


_LABELS: Final = st.sampled_from([{"app": "x"}, {"app": "x"}, {"app": "y"}, {}])
_LENGTHS: Final = st.sampled_from((1.0, 2.0, 5.0, 10.0, 20.0, 40.0))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Draw at most four nodes, three gangs and five pods."""
    zones = draw(st.lists(st.sampled_from("aabc"), min_size=1, max_size=4))
    nodes = tuple(
        Node(
            name=f"n{n}",
            allocatable={"cpu": draw(st.integers(1, 3)), "pods": 9},
            labels={HOST: f"n{n}", ZONE: zone},
        )
        for n, zone in enumerate(zones)
    )
    jobs: list[Job] = []
    for n in range(draw(st.integers(1, 5))):
        pod = draw(_kinds(f"p{n}"))
        jobs.append(_job(draw, float(draw(st.integers(0, 4))), [pod]))
    for n in range(draw(st.integers(1, 3))):
        kinds = draw(st.lists(_kinds(f"g{n}"), min_size=1, max_size=2))
        count = draw(st.integers(2, 3))
        labels = {GROUP: f"g{n}", MINIMUM: str(count)}
        pods = [
            evolve(
                kind,
                name=f"g{n}-{m}",
                uid=PodUID(f"g{n}-{m}"),
                namespace=kinds[0].namespace,
                labels={**kind.labels, **labels},
            )
            for m, kind in enumerate(draw(st.sampled_from(kinds)) for _m in range(count))
        ]
        jobs.append(_job(draw, float(draw(st.integers(0, 4))), pods))
    return World(nodes, tuple(sorted(jobs, key=lambda job: job.at)))


def _job(draw: st.DrawFn, at: float, pods: Sequence[Pod]) -> Job:
    seconds = draw(_LENGTHS)
    notes = {SECONDS: str(seconds)}
    return Job(at, tuple(evolve(p, annotations=notes, created_at=at) for p in pods), seconds)


@st.composite
def _kinds(draw: st.DrawFn, name: str) -> Pod:
    return Pod(
        name=name,
        uid=PodUID(name),
        namespace=draw(st.sampled_from(["one", "one", "two"])),
        labels=draw(_LABELS),
        requests={"cpu": draw(st.integers(0, 2))},
        **draw(_constraints()),
    )


def _objects() -> Iterator[Any]:
    for name, labels in NAMESPACES.items():
        yield Namespace(name=name, labels=labels)
        for kind, mode in ((SOLO, "ReadWriteOncePod"), (ZONAL, "ReadWriteMany")):
            volume = f"{kind}-of-{name}"
            terms = [NodeSelectorTerm([NodeSelectorRequirement(ZONE, "In", ["a"])])]
            yield PersistentVolume(
                name=volume,
                claim=f"{name}/{kind}",
                available=False,
                node_affinity=terms if kind == ZONAL else None,
            )
            yield PersistentVolumeClaim(
                name=kind, namespace=name, volume=volume, bound=True, access_modes=[mode]
            )


def refused(nodes: Sequence[Node], placed: kube_rules.Placed, pod: Pod, node: Node) -> str | None:
    """Return why a pod may not go to a node; None if it may."""
    if pod.affinity and not any(term.matches(node.labels, node.name) for term in pod.affinity):
        return "node affinity"
    names = {claim.name for claim in pod.volume_claims}
    if ZONAL in names and node.labels[ZONE] != "a":
        return "volume of another zone"
    if SOLO in names and any(
        other.namespace == pod.namespace and SOLO in {c.name for c in other.volume_claims}
        for other, _where in placed
    ):
        return "claim is in use"
    return kube_rules.refusal(nodes, placed, pod, node, NAMESPACES)


@define(eq=False)
class Player:
    """Plays a world in time, and keeps what a check needs.

    Attributes:
        world: The world.
        make: Makes the scheduler.
        settled: Called at each instant when there is nothing left to decide.
        reserved: Called when a reservation was made or moved, and nothing was bound since.
        restores: Whether the scheduler is replaced by one that is restored from its snapshot, at
            each instant and after each decision.
        now: The current instant.
        log: What was bound: when, which pod, and where.
        placed: The pods on nodes, by UID, each with its node and its end.
        waiting: The jobs that have arrived and not started.
        promised: The first expected start of each gang or pod that had the reservation.
        started: When each of them started.
    """

    world: World
    make: Callable[[ClusterState], Scheduler] = backfilling
    settled: Callable[[Player], None] | None = None
    reserved: Callable[[Player], None] | None = None
    restores: bool = False
    now: float = 0.0
    log: list[tuple[float, PodUID, NodeName]] = field(
        factory=list[tuple[float, PodUID, NodeName]], init=False
    )
    placed: dict[PodUID, tuple[Pod, Node, float]] = field(
        factory=dict[PodUID, tuple[Pod, Node, float]], init=False
    )
    waiting: list[Job] = field(factory=list[Job], init=False)
    promised: dict[str, float] = field(factory=dict[str, float], init=False)
    started: dict[str, float] = field(factory=dict[str, float], init=False)
    backfilled: int = field(default=0, init=False)
    cluster: InMemoryCluster = field(factory=InMemoryCluster, init=False)
    scheduler: Scheduler = field(init=False)
    _by_name: dict[NodeName, Node] = field(init=False)
    _jobs: dict[PodUID, Job] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._by_name = {node.name: node for node in self.world.nodes}
        self._jobs = {pod.uid: job for job in self.world.jobs for pod in job.pods}
        for each in _objects():
            self.cluster.apply(ObjectChanged(each))
        for node in self.world.nodes:
            self.cluster.apply(NodeAdded(node))
        self.scheduler = self.make(self.cluster)
        self.scheduler.rebuild(now=0.0)

    def play(self, *, instants: int = 300) -> None:
        """Play until nothing happens any more.

        Raises:
            AssertionError: A bind breaks a constraint, or the world goes on for ever.
        """
        left = list(self.world.jobs)
        for _ in range(instants):
            ends = [end for _pod, _node, end in self.placed.values()]
            deadline = self.scheduler.next_deadline()
            times = [
                *ends,
                *(job.at for job in left[:1]),
                *([] if deadline is None else [deadline]),
            ]
            if not times or (not ends and not left and not self.waiting):
                return
            self.now = max(self.now, min(times))
            self._restore()
            self._took(self.scheduler.advance(now=self.now))
            for uid in [u for u, (_p, _n, end) in self.placed.items() if end <= self.now]:
                del self.placed[uid]
                self._tell(PodDeleted(uid))
            while left and left[0].at <= self.now:
                job = left.pop(0)
                self.waiting.append(job)
                for pod in job.pods:
                    self._tell(PodAdded(pod))
            self._settle()
        raise AssertionError("it goes on for ever")

    def _restore(self) -> None:
        if self.restores:
            data = posted(self.scheduler.snapshot())
            self.scheduler = self.make(self.cluster)
            self.scheduler.restore(data)
            self.scheduler._check()

    def _tell(self, event: Any) -> None:
        self._took(self.scheduler.handle(self.cluster.apply(event), now=self.now))

    def _settle(self) -> None:
        held = self.scheduler.reservation
        for _ in range(200):
            self._restore()
            effects = self.scheduler.schedule_one(now=self.now)
            self.scheduler._check()
            if effects is None:
                break
            is_new = self.scheduler.reservation not in (None, held)
            held = self.scheduler.reservation
            self._took(effects)
            if (
                is_new
                and self.reserved is not None
                and not any(isinstance(e, Bind) for e in effects)
            ):
                self.reserved(self)
        else:
            raise AssertionError("it decides for ever")
        held = self.scheduler.reservation
        if held is not None and held.starts_at is not None and holder(held) not in self.started:
            self.promised.setdefault(holder(held), held.starts_at)
        if self.settled is not None:
            self.settled(self)

    def _took(self, effects: tuple[Effect, ...]) -> None:
        binds = [each for each in effects if isinstance(each, Bind)]
        left = [(self._jobs[each.uid], each) for each in binds]
        while left:
            # the members of a gang are bound in one step, in an order that need not be theirs
            for pair in left:
                job, bind = pair
                pod = next(pod for pod in job.pods if pod.uid == bind.uid)
                node = self._by_name[bind.node]
                if refused(self.world.nodes, self.on_nodes(), pod, node) is None:
                    left.remove(pair)
                    self._start(job, pod, node)
                    break
            else:
                raise AssertionError(f"no order of these is valid at {self.now}: {left}")
        for each in binds:
            self._tell(Bound(each.uid, each.node, each.attempt))

    def _start(self, job: Job, pod: Pod, node: Node) -> None:
        held = self.scheduler.reservation
        self.backfilled += held is not None and holder(held) != job.key
        self.placed[pod.uid] = (pod, node, self.now + job.seconds)
        self.log.append((self.now, pod.uid, node.name))
        if job in self.waiting:
            self.waiting.remove(job)
        self.started.setdefault(job.key, self.now)

    def on_nodes(self, after: float = -math.inf) -> Placed:
        """Return the pods on nodes that end after an instant."""
        return [(pod, node) for pod, node, end in self.placed.values() if end > after]

    def earliest(self, job: Job) -> float:
        """Return the first instant at which a job could start if no other starts; or infinity."""
        ends = sorted({self.now, *(end for _pod, _node, end in self.placed.values())})
        return next((at for at in ends if self.can_start(job.pods, self.on_nodes(at))), math.inf)

    def can_start(
        self,
        pods: Sequence[Pod],
        placed: Placed,
        holds: Callable[[Placed], bool] = lambda _mine: True,
    ) -> bool:
        """Return whether pods can be placed in some order, with a condition after each."""
        known = len(placed)

        def accepts(so_far: kube_rules.Placed, pod: Pod, node: Node) -> bool:
            return self._accepts(so_far, pod, node) and holds([*so_far[known:], (pod, node)])

        return kube_rules.can_be_placed(pods, placed, self.world.nodes, accepts)

    def plan_holds(self, plan: Mapping[PodUID, NodeName], at: float, more: Placed) -> bool:
        """Return whether planned members can be placed on their nodes in some order."""
        pods = {uid: pod for job in self.waiting for pod in job.pods for uid in [pod.uid]}
        left = [(pods[uid], self._by_name[name]) for uid, name in plan.items()]
        return kube_rules.hold_in_some_order(left, [*self.on_nodes(at), *more], self._accepts)

    def _accepts(self, placed: kube_rules.Placed, pod: Pod, node: Node) -> bool:
        return refused(self.world.nodes, placed, pod, node) is None
