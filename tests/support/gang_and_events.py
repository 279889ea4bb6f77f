"""A gang, the pods and nodes about it, and what changes while it waits: drawn, and every placement.

Rules:
  R1  the oracle shares no code with the plugins or with the search: it places members one after
      another, in every order and on every node, by ``kube_rules`` and by the rules of volumes here;
  R2  a claim that waits for its first consumer takes the smallest volume that is reached from the
      node, as kube-scheduler chooses it. Later pods with the claim follow the volume.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from attrs import evolve, frozen
from hypothesis import strategies as st

from gangsched import Event, Node, NodeAdded, NodeSelectorTerm, NodeUpdated, Pod, PodAdded
from gangsched import NodeSelectorRequirement as Requirement
from gangsched.cluster_objects import (
    ClusterObject,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from gangsched.constraints import Disk, VolumeClaim
from gangsched.events import ObjectChanged, PodDeleted
from gangsched.model import PodUID
from support import constrained_worlds
from support.constrained_worlds import (
    HOST,
    NAMESPACES,
    ZONE,
    constrained_pods,
    few_constraints,
    small_nodes,
)

__all__ = ["Gang", "Placement", "gangs_and_events", "lean_pods", "roomy_nodes"]

GROUP: Final = "pod-group.scheduling.sigs.k8s.io/name"
MINIMUM: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
SOLO, ZONAL, LOCAL = "solo", "zonal", "local"
WAITING: Final = ("waiting-0", "waiting-1")
SIZES: Final[Mapping[str, int]] = {"small": 1, "large": 2}
"""The volumes that no claim has yet, each with its size."""

Placement: TypeAlias = tuple[tuple[Pod, Node], ...]


def _claim(name: str, **fields: Any) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(name=name, namespace="one", uid=name, **fields)


def _volume(name: str, term: NodeSelectorTerm | None, **fields: Any) -> PersistentVolume:
    return PersistentVolume(
        name=name, node_affinity=None if term is None else (term,), source=None, **fields
    )


@frozen
class Storage:
    """The claims that pods may use, and the terms of the nodes that reach the volumes."""

    reached: Mapping[str, NodeSelectorTerm | None]

    def objects(self) -> Iterator[ClusterObject]:
        """Yield the claims and the volumes."""
        yield StorageClass(name="slow", provisioner="kubernetes.io/no-provisioner", waits=True)
        for name in (SOLO, ZONAL, LOCAL):
            modes = ["ReadWriteOncePod" if name == SOLO else "ReadWriteMany"]
            claim = f"one/{name}"
            yield _volume(
                f"v-{name}", self.reached[name], claim=claim, claim_uid=name, available=False
            )
            yield _claim(name, volume=f"v-{name}", bound=True, access_modes=modes)
        for name, size in SIZES.items():
            capacity = {"storage": f"{size}Gi"}
            modes = ["ReadWriteMany"]
            yield _volume(
                name,
                self.reached[name],
                capacity=capacity,
                storage_class="slow",
                access_modes=modes,
            )
        for name in WAITING:
            asked = {"storage": "1Gi"}
            yield _claim(name, storage_class="slow", requests=asked, access_modes=["ReadWriteMany"])


TERMS: Final = st.sampled_from(
    [
        None,
        NodeSelectorTerm([Requirement(ZONE, "In", ["a"])]),
        NodeSelectorTerm([Requirement(ZONE, "In", ["b"])]),
        NodeSelectorTerm([Requirement(HOST, "In", ["n0"])]),
        NodeSelectorTerm([Requirement(HOST, "In", ["n1"])]),
    ]
)


@frozen
class Gang:
    """A cluster with one pending gang, and what changes after its first attempt.

    Attributes:
        nodes: The nodes at first.
        running: The pods on nodes at first.
        members: The members of the gang.
        minimum: How many members must start together.
        storage: The claims.
        changes: What happens after the first attempt.
    """

    nodes: tuple[Node, ...]
    running: tuple[tuple[Pod, Node], ...]
    members: tuple[Pod, ...]
    minimum: int
    storage: Storage
    changes: tuple[Event, ...]

    def before(self) -> Iterator[Event]:
        """Yield what the cluster has before the gang arrives."""
        for name, labels in NAMESPACES.items():
            yield ObjectChanged(Namespace(name=name, labels=labels))
        for each in self.storage.objects():
            yield ObjectChanged(each)
        for node in self.nodes:
            yield NodeAdded(node)
        for pod, node in self.running:
            yield PodAdded(evolve(pod, node_name=node.name))

    def after(self) -> Gang:
        """Return the gang as the changes leave it."""
        nodes = {node.name: node for node in self.nodes}
        gone: set[PodUID] = set()
        added: list[Pod] = []
        for change in self.changes:
            if isinstance(change, NodeAdded | NodeUpdated):
                nodes[change.node.name] = change.node
            elif isinstance(change, PodDeleted):
                gone.add(change.uid)
            elif isinstance(change, PodAdded):
                added.append(change.pod)
        held = [(pod, node.name) for pod, node in self.running if pod.uid not in gone]
        held += [(pod, pod.node_name) for pod in added if pod.node_name is not None]
        running = tuple((pod, nodes[name]) for pod, name in held)
        return evolve(self, nodes=tuple(nodes.values()), running=running, changes=())

    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """Return the labels of the namespaces."""
        return NAMESPACES

    def can_start(self) -> bool:
        """Return whether enough members can be placed one after another, in some order."""
        return self._can_start((), {}, set())

    def holds(self, placed: Placement) -> bool:
        """Return whether members can be placed on their nodes one after another, in some order."""
        return self._holds((), {}, placed)

    def _can_start(self, done: Placement, chosen: Mapping[str, str], seen: set[object]) -> bool:
        if len(done) == self.minimum:
            return True
        position = (
            frozenset((pod.uid, node.name) for pod, node in done),
            frozenset(chosen.items()),
        )
        if position in seen:
            return False
        seen.add(position)
        placed = {pod.uid for pod, _node in done}
        for pod in self.members:
            for node in self.nodes if pod.uid not in placed else ():
                more = self.accepted(done, chosen, pod, node)
                if more is not None and self._can_start((*done, (pod, node)), more, seen):
                    return True
        return False

    def _holds(self, done: Placement, chosen: Mapping[str, str], left: Placement) -> bool:
        if not left:
            return True
        for n, (pod, node) in enumerate(left):
            more = self.accepted(done, chosen, pod, node)
            rest = (*left[:n], *left[n + 1 :])
            if more is not None and self._holds((*done, (pod, node)), more, rest):
                return True
        return False

    def accepted(
        self, done: Placement, chosen: Mapping[str, str], pod: Pod, node: Node
    ) -> Mapping[str, str] | None:
        """Return the volumes that claims have with a member on a node; None if it is refused."""
        world = constrained_worlds.World(self.nodes, self.running, ())
        placed = [*self.running, *done]
        if node.unschedulable or constrained_worlds.why(world, placed, pod, node) is not None:
            return None
        return self._volumes(placed, chosen, pod, node)

    def _volumes(
        self, placed: Sequence[tuple[Pod, Node]], chosen: Mapping[str, str], pod: Pod, node: Node
    ) -> Mapping[str, str] | None:
        names = [claim.name for claim in pod.volume_claims]
        if SOLO in names and any(
            SOLO in [claim.name for claim in other.volume_claims] for other, _where in placed
        ):
            return None
        mine = {disk.identity for disk in pod.disks}
        for other, where in placed:
            if where.name == node.name and mine & {disk.identity for disk in other.disks}:
                return None
        found = dict(chosen)
        for name in names:
            if name in (SOLO, ZONAL, LOCAL):
                if not self._reaches(name, node):
                    return None
            elif name in found:
                if not self._reaches(found[name], node):
                    return None
            else:
                free = [v for v in SIZES if v not in found.values() and self._reaches(v, node)]
                if not free:
                    return None
                found[name] = min(free, key=lambda volume: SIZES[volume])
        return found

    def _reaches(self, name: str, node: Node) -> bool:
        term = self.storage.reached[name]
        return term is None or term.matches(node.labels, node.name)


@st.composite
def gangs_and_events(draw: st.DrawFn) -> Gang:
    """Draw a gang of at most four members on at most four nodes, and at most two changes."""
    nodes = draw(small_nodes() | roomy_nodes())
    running: list[tuple[Pod, Node]] = []
    for n in range(draw(st.integers(0, 3))):
        pod = draw(_pods(f"running-{n}"))
        running.append((evolve(pod, requests={"cpu": 0}), draw(st.sampled_from(nodes))))
    kinds = [draw(_kinds()) for _kind in range(draw(st.integers(1, 3)))]
    count = draw(st.integers(2, 4))
    minimum = count - draw(st.sampled_from([0, 0, 1]))
    members = tuple(
        evolve(kind, name=f"m{n}", uid=PodUID(f"m{n}"), labels={**kind.labels, **_labels(minimum)})
        for n, kind in enumerate(draw(st.sampled_from(kinds)) for _member in range(count))
    )
    storage = Storage({name: draw(TERMS) for name in (SOLO, ZONAL, LOCAL, *SIZES)})
    changes: list[Event] = []
    for n in range(draw(st.integers(0, 3))):
        changes.append(draw(_changes(n, nodes, running, changes)))
    return Gang(nodes, tuple(running), members, minimum, storage, tuple(changes))


@st.composite
def roomy_nodes(draw: st.DrawFn) -> tuple[Node, ...]:
    """Draw nodes with room for the gang, so that constraints alone decide."""
    zones = draw(st.lists(st.sampled_from("abc"), min_size=2, max_size=4))
    return tuple(
        Node(
            name=f"n{n}",
            allocatable={"cpu": draw(st.integers(1, 4)), "pods": 9},
            labels={HOST: f"n{n}", ZONE: zone},
        )
        for n, zone in enumerate(zones)
    )


@st.composite
def lean_pods(draw: st.DrawFn, name: str, namespace: str) -> Pod:
    """Draw a pod with at most two constraints about pods with one label."""
    fields = draw(few_constraints())
    labels = draw(st.sampled_from([{"app": "x"}, {"app": "x"}, {"app": "y"}, {}]))
    return Pod(name=name, namespace=namespace, labels=labels, requests={"cpu": 1}, **fields)


def _pods(name: str) -> st.SearchStrategy[Pod]:
    return constrained_pods(name) | lean_pods(name, "one") | lean_pods(name, "two")


def _labels(minimum: int) -> Mapping[str, str]:
    return {GROUP: "g", MINIMUM: str(minimum)}


@st.composite
def _kinds(draw: st.DrawFn) -> Pod:
    pod = draw(constrained_pods("kind", group="g") | lean_pods("kind", "one"))
    names = draw(
        st.sampled_from([(), (), (), (SOLO,), (ZONAL,), (LOCAL,), *((w,) for w in WAITING)])
    )
    disks = draw(st.sampled_from([(), (), (), (Disk("awsElasticBlockStore", "d"),)]))
    return evolve(pod, volume_claims=[VolumeClaim(name) for name in names], disks=disks)


Kind: TypeAlias = Literal["node", "bound", "gone", "labels"]


@st.composite
def _changes(
    draw: st.DrawFn,
    number: int,
    nodes: Sequence[Node],
    running: Sequence[tuple[Pod, Node]],
    before: Sequence[Event],
) -> Event:
    gone = {event.uid for event in before if isinstance(event, PodDeleted)}
    left = [pod for pod, _node in running if pod.uid not in gone]
    kinds: list[Kind] = ["node", "bound", "labels"]
    kind = draw(st.sampled_from([*kinds, "gone", "gone"] if left else kinds))
    if kind == "gone":
        return PodDeleted(draw(st.sampled_from(left)).uid)
    other = draw(small_nodes() | roomy_nodes())[0]
    if kind == "node":
        name = f"late-{number}"
        shared = other.labels.get(HOST) == "n0"
        labels = {**other.labels, HOST: name} if shared else other.labels
        return NodeAdded(evolve(other, name=name, labels=labels))
    node = draw(st.sampled_from(nodes))
    if kind == "labels":
        return NodeUpdated(evolve(other, name=node.name))
    pod = evolve(draw(_pods(f"bound-{number}")), requests={"cpu": 0})
    return PodAdded(evolve(pod, node_name=node.name))
