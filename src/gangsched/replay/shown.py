"""What a cluster shows to a scheduler, noted as it is read.

A host's cluster state may show a fact before it is told, and a fact that is told again may be
long outdated. So it is not enough to keep the facts: what the scheduler read is kept, as far as
it is other than the facts say.

Invariants:
  I1  what the scheduler read is what ``known`` shows, once all news are in it;
  I2  ``known`` is made of facts alone: of those that were told and of the news.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TypeVar, final

from attrs import evolve

from gangsched.errors import ClusterStateError
from gangsched.events import (
    Event,
    NodeAdded,
    NodeDeleted,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodUpdated,
)
from gangsched.memory import InMemoryCluster
from gangsched.model import GroupKey, Node, NodeName, Pod, PodGroup, PodUID
from gangsched.protocols import ClusterState

__all__ = ["Shown", "take_in"]

T = TypeVar("T")


def take_in(cluster: InMemoryCluster, event: Event) -> None:
    """Make a fact true as far as it can be: one that contradicts what is there is passed over."""
    with suppress(ClusterStateError):
        cluster.apply(event)


@final
class Shown:
    """A cluster state that hands on every question, and notes the answers that are news.

    Attributes:
        news: What was read and is not in ``known`` by the facts that were told; as facts.
    """

    __slots__ = ("_cluster", "_known", "news")

    def __init__(self, cluster: ClusterState, known: InMemoryCluster) -> None:
        self._cluster = cluster
        self._known = known
        self.news: list[Event] = []

    def fork(self) -> ClusterState:
        """Return the cluster state itself: what is read to see what would be is no news."""
        return self._cluster

    def take_news(self) -> tuple[Event, ...]:
        """Return the news, and begin anew."""
        news = tuple(self.news)
        self.news.clear()
        return news

    def nodes(self) -> Iterable[Node]:
        """Return every node."""
        shown = list(self._cluster.nodes())
        for node in shown:
            self._see_node(node.name, node)
        listed = {node.name for node in shown}
        for known in self._known.nodes():
            if known.name not in listed:
                self._note(NodeDeleted(known.name))
        self._put_in_order(
            shown, self._known.nodes(), lambda node: (NodeDeleted(node.name), NodeAdded(node))
        )
        return shown

    def node(self, name: NodeName) -> Node | None:
        """Return one node; None when there is none."""
        shown = self._cluster.node(name)
        self._see_node(name, shown)
        return shown

    def pods(self) -> Iterable[Pod]:
        """Return every pod, whatever its state."""
        shown = list(self._cluster.pods())
        for pod in shown:
            self._see_pod(pod.uid, pod)
        listed = {pod.uid for pod in shown}
        for known in self._known.pods():
            if known.uid not in listed:
                self._note(PodDeleted(known.uid))
        self._put_in_order(
            shown, self._known.pods(), lambda pod: (PodDeleted(pod.uid), PodAdded(pod))
        )
        return shown

    def pod(self, uid: PodUID) -> Pod | None:
        """Return one pod; None when there is none."""
        shown = self._cluster.pod(uid)
        self._see_pod(uid, shown)
        return shown

    def pods_on(self, node: NodeName) -> Iterable[Pod]:
        """Return the pods that are assigned to *node* and not finished."""
        shown = tuple(self._cluster.pods_on(node))
        if shown == self._known.pods_on(node):
            return shown
        for pod in shown:
            self._see_pod(pod.uid, pod)
        listed = {pod.uid for pod in shown}
        for known in self._known.pods_on(node):
            if known.uid not in listed:
                self._see_pod(known.uid, self._cluster.pod(known.uid))
        self._put_in_order(
            shown,
            self._known.pods_on(node),
            lambda pod: (PodUpdated(evolve(pod, node_name=None)), PodUpdated(pod)),
        )
        return shown

    def pod_groups(self) -> Iterable[PodGroup]:
        """Return every pod group."""
        shown = list(self._cluster.pod_groups())
        for group in shown:
            self._see_group(group.key, group)
        listed = {group.key for group in shown}
        for known in self._known.pod_groups():
            if known.key not in listed:
                self._note(PodGroupDeleted(known.key))
        self._put_in_order(
            shown,
            self._known.pod_groups(),
            lambda group: (PodGroupDeleted(group.key), PodGroupAdded(group)),
        )
        return shown

    def pod_group(self, key: GroupKey) -> PodGroup | None:
        """Return one pod group's specification; None when there is none."""
        shown = self._cluster.pod_group(key)
        self._see_group(key, shown)
        return shown

    # Inside ---------------------------------------------------------------------------------

    def _see_node(self, name: NodeName, shown: Node | None) -> None:
        if shown != self._known.node(name):
            self._note(NodeDeleted(name) if shown is None else NodeAdded(shown))

    def _see_pod(self, uid: PodUID, shown: Pod | None) -> None:
        if shown != self._known.pod(uid):
            self._note(PodDeleted(uid) if shown is None else PodAdded(shown))

    def _see_group(self, key: GroupKey, shown: PodGroup | None) -> None:
        if shown != self._known.pod_group(key):
            self._note(PodGroupDeleted(key) if shown is None else PodGroupAdded(shown))

    def _put_in_order(
        self,
        shown: Sequence[T],
        known: Iterable[T],
        again: Callable[[T], tuple[Event, Event]],
    ) -> None:
        """Note in which order a list came, where it is another than the facts give."""
        pairs = enumerate(zip(known, shown, strict=False))
        same = next((n for n, (one, other) in pairs if one != other), len(shown))
        for one in shown[same:]:
            for event in again(one):
                self._note(event)

    def _note(self, event: Event) -> None:
        take_in(self._known, event)
        self.news.append(event)
