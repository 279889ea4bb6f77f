"""A gang of high priority, and running pods and gangs that it may have evicted: drawn, and judged.

Rules:
  R1  the oracle tries every order of the gang's members on every node, by ``kube_rules``;
  R2  a running gang loses all its members, or keeps its minimum; one that is evicted whole loses
      all or none. So the sets of victims that are allowed are those of ``allowed``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import chain, combinations
from typing import Any, Final

from attrs import evolve, field, frozen
from hypothesis import strategies as st

from gangsched import (
    Bind,
    ClusterState,
    Coscheduling,
    Effect,
    Evict,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    Nominated,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodUID,
    Preemption,
    Scheduler,
    SchedulingUnit,
    presets,
)
from gangsched.cluster_objects import Namespace, PodDisruptionBudget
from gangsched.events import ObjectChanged, VictimSearchExhausted
from support import constrained_worlds
from support.constrained_worlds import NAMESPACES, constrained_pods, small_nodes
from support.gang_and_events import lean_pods, roomy_nodes
from support.settled import settle

__all__ = ["HIGH", "PRESETS", "Case", "Outcome", "cases", "play"]

HIGH: Final = 9
GROUP: Final = "pod-group.scheduling.sigs.k8s.io/name"


def _gang(cluster: ClusterState) -> Scheduler:
    return presets.gang(cluster, preemption=Preemption(grace=1e6))


def _kube_default(cluster: ClusterState) -> Scheduler:
    policy, unit = Coscheduling(), SchedulingUnit.GROUP
    return presets.kube_default(cluster, policy=policy, unit=unit, preemption=Preemption(grace=1e6))


PRESETS: Final[dict[str, Callable[[ClusterState], Scheduler]]] = {
    "gang": _gang,
    "kube_default": _kube_default,
}


@frozen
class Running:
    """Pods that run on nodes: one pod, or a gang.

    Attributes:
        pods: The pods, each with its node.
        minimum: How many of them a gang keeps; 0 for a pod without a gang.
        evicted_whole: Whether a gang may only lose all members.
    """

    pods: tuple[tuple[Pod, Node], ...]
    minimum: int = 0
    evicted_whole: bool = False

    @property
    def priority(self) -> int:
        """The priority of the pods."""
        return self.pods[0][0].priority

    @property
    def uids(self) -> frozenset[PodUID]:
        """The pods."""
        return frozenset(pod.uid for pod, _node in self.pods)

    def losses(self) -> Iterator[frozenset[PodUID]]:
        """Yield the sets of pods that may be evicted."""
        yield frozenset()
        if self.priority >= HIGH:
            return
        most = 0 if self.evicted_whole or not self.minimum else len(self.pods) - self.minimum
        for size in range(1, most + 1):
            yield from map(frozenset, combinations(self.uids, size))
        yield self.uids


@frozen
class Case:
    """Nodes, what runs on them, and a gang of high priority."""

    nodes: tuple[Node, ...]
    running: tuple[Running, ...]
    gang: tuple[Pod, ...]

    def left(self, gone: Collection[PodUID]) -> list[tuple[Pod, Node]]:
        """Return the running pods that are not gone, each with its node."""
        every = chain.from_iterable(each.pods for each in self.running)
        return [(pod, node) for pod, node in every if pod.uid not in gone]

    def fits(self, gone: Collection[PodUID]) -> bool:
        """Return whether the whole gang can be placed, in some order, without some pods."""
        return constrained_worlds.World(self.nodes, (), ()).can_place(self.gang, self.left(gone))

    def holds(self, gone: Collection[PodUID], bound: dict[PodUID, NodeName]) -> bool:
        """Return whether the members can be placed on these nodes in some order."""
        nodes = {node.name: node for node in self.nodes}
        members = [(pod, nodes[bound[pod.uid]]) for pod in self.gang]
        return constrained_worlds.World(self.nodes, (), ()).holds(members, self.left(gone))

    def allowed(self) -> Iterator[frozenset[PodUID]]:
        """Yield every set of victims that is allowed."""
        found: list[frozenset[PodUID]] = [frozenset()]
        for each in self.running:
            found = [one | more for one in found for more in each.losses()]
        yield from found

    def lower(self, priority: int) -> frozenset[PodUID]:
        """Return the pods of at most this priority."""
        uids = (each.uids for each in self.running if each.priority <= priority)
        return frozenset(chain.from_iterable(uids))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a case of at most four nodes, three pods, two running gangs, and a gang of three."""
    nodes = draw(small_nodes() | roomy_nodes())
    used: dict[NodeName, int] = {}
    priorities = st.sampled_from([0, 0, 1, HIGH])
    running: list[Running] = []
    for n in range(draw(st.integers(0, 3))):
        pod = evolve(draw(_pods(f"r{n}")), priority=draw(priorities))
        running.append(Running((_placed(draw, pod, nodes, used),)))
    for n in range(draw(st.integers(0, 2))):
        size, priority = draw(st.integers(2, 3)), draw(priorities)
        kind = draw(_pods(f"w{n}"))
        pods = [
            evolve(
                kind,
                name=f"w{n}-{m}",
                uid=PodUID(f"w{n}-{m}"),
                priority=priority,
                created_at=float(m),
                labels={**kind.labels, GROUP: f"w{n}"},
            )
            for m in range(size)
        ]
        places = tuple(_placed(draw, pod, nodes, used) for pod in pods)
        running.append(Running(places, draw(st.integers(1, size)), draw(st.booleans())))
    kinds = draw(st.lists(_members(), min_size=1, max_size=2))
    count = draw(st.integers(1, 3))
    gang = tuple(
        evolve(
            kind,
            name=f"m{n}",
            uid=PodUID(f"m{n}"),
            priority=HIGH,
            labels={**kind.labels, GROUP: "g"},
        )
        for n, kind in enumerate(draw(st.sampled_from(kinds)) for _member in range(count))
    )
    return Case(nodes, tuple(running), gang)


def _pods(name: str) -> st.SearchStrategy[Pod]:
    return constrained_pods(name) | lean_pods(name, "one") | lean_pods(name, "two")


def _members() -> st.SearchStrategy[Pod]:
    return constrained_pods("kind", group="g") | lean_pods("kind", "one")


def _placed(
    draw: st.DrawFn, pod: Pod, nodes: tuple[Node, ...], used: dict[NodeName, int]
) -> tuple[Pod, Node]:
    """Return a pod on a node; it requests nothing where nothing is left."""
    node = draw(st.sampled_from(nodes))
    after = used.get(node.name, 0) + pod.requests.amount("cpu")
    if after > node.allocatable.amount("cpu"):
        return evolve(pod, requests={"cpu": 0}), node
    used[node.name] = after
    return pod, node


@frozen
class Outcome:
    """What became of a case."""

    evicted: frozenset[PodUID]
    bound: dict[PodUID, NodeName]
    is_exhausted: bool = False
    nominations: int = field(default=0)


def play(case: Case, preset: str, *budgets: PodDisruptionBudget) -> Outcome:
    """Let the gang arrive, carry out the evictions, and let the gang start."""
    cluster = InMemoryCluster()
    for name, labels in NAMESPACES.items():
        cluster.apply(ObjectChanged(Namespace(name=name, labels=labels)))
    for node in case.nodes:
        cluster.apply(NodeAdded(node))
    for budget in budgets:
        cluster.apply(ObjectChanged(budget))
    for each in case.running:
        if each.minimum:
            first = each.pods[0][0]
            fields: dict[str, Any] = {"evicted_whole": each.evicted_whole}
            group = PodGroup(
                name=first.labels[GROUP],
                namespace=first.namespace,
                min_available=each.minimum,
                **fields,
            )
            cluster.apply(PodGroupAdded(group))
        for pod, node in each.pods:
            cluster.apply(PodAdded(evolve(pod, node_name=node.name)))
    group = PodGroup(name="g", namespace="one", min_available=len(case.gang))
    cluster.apply(PodGroupAdded(group))
    scheduler = PRESETS[preset](cluster)
    seen: list[Effect] = [*scheduler.rebuild(now=0.0)]
    for pod in case.gang:
        seen += scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    seen += settle(cluster, scheduler)
    evicted = frozenset(each.uid for each in seen if isinstance(each, Evict))
    for uid in sorted(evicted):
        seen += scheduler.handle(cluster.apply(PodDeleted(uid)), now=0.0)
        scheduler._check()
    seen += settle(cluster, scheduler)
    seen += scheduler.advance(now=1000.0)
    seen += settle(cluster, scheduler, now=1000.0)
    evicted = frozenset(each.uid for each in seen if isinstance(each, Evict))
    return Outcome(
        evicted,
        {each.uid: each.node for each in seen if isinstance(each, Bind)},
        any(isinstance(each, VictimSearchExhausted) for each in seen),
        sum(isinstance(each, Nominated) for each in seen),
    )
