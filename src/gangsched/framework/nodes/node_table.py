"""Nodes with what is free on them: the cluster state, and assumed pods laid over it.

Invariants (checked by ``_check``):
  I1  what is free on a node is what it offers, less what the pods ask for that are assigned to it
      or assumed on it; a pod that is both counts once;
  I2  each node is in the class of what it is now; see ``gangsched.framework.nodes.node_class``;
  I3  what is kept of a node for a gang that is to start later counts as taken, but while all that
      is kept is lifted; see ``gangsched.framework.nodes.reserved_capacity``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import final

from gangsched._core._capacity import total_free
from gangsched.errors import ClusterStateError, InternalError
from gangsched.framework.nodes.node_class import NodeClass, NodeClasses, Sign
from gangsched.framework.nodes.reserved_capacity import Need
from gangsched.model import Node, NodeName, Pod, PodUID, Resources
from gangsched.protocols import ClusterState
from gangsched.resources import NOTHING

__all__ = ["NodeInfo", "Nodes"]


@final
class NodeInfo:
    """One node; see ``gangsched.protocols.NodeView``.

    Attributes:
        kept: What is kept of it for a gang that is to start later; not free.
        kept_pods: For how many pods that is.
    """

    __slots__ = ("free", "holders", "index", "kept", "kept_pods", "node")

    def __init__(self, node: Node, index: int) -> None:
        self.node: Node = node
        self.index: int = index
        self.free: dict[str, int] = node.allocatable.to_milli()
        self.holders: dict[PodUID, Resources] = {}
        self.kept: dict[str, int] = {}
        self.kept_pods: int = 0

    @property
    def pod_count(self) -> int:
        """How many pods hold the node, or will hold what is kept of it."""
        return len(self.holders) + self.kept_pods

    def copy(self) -> NodeInfo:
        """Return a copy that changes by itself. O(pods on it)."""
        made = NodeInfo(self.node, self.index)
        made.free, made.holders = self.free.copy(), self.holders.copy()
        made.kept, made.kept_pods = self.kept, self.kept_pods
        return made

    def take(self, uid: PodUID, requests: Resources, total: dict[str, int] | None = None) -> None:
        """Let a pod hold the node, once; keep *total*, what nodes have free. O(resources)."""
        if uid in self.holders:
            self.give_back(uid, total)
        self.holders[uid] = requests
        self.shift(requests, -1, total)

    def give_back(self, uid: PodUID, total: dict[str, int] | None = None) -> None:
        """Let a pod hold the node no more; keep *total*, what nodes have free. O(resources)."""
        self.shift(self.holders.pop(uid), 1, total)

    def keep(self, kept: dict[str, int], pods: int, total: dict[str, int] | None = None) -> bool:
        """Keep so much of it, and no more; say whether that is a change. O(resources)."""
        if (kept, pods) == (self.kept, self.kept_pods):
            return False
        self.shift(self.kept, 1, total)
        self.shift(kept, -1, total)
        self.kept, self.kept_pods = kept, pods
        return True

    def unkept(self) -> dict[str, int]:
        """Return what would be free if nothing of it were kept. O(resources)."""
        free = dict(self.free)
        for name, amount in self.kept.items():
            free[name] += amount
        return free

    def shift(self, requests: Mapping[str, int], times: int, total: dict[str, int] | None) -> None:
        """Free what is asked for so many times, or take it where *times* is negative."""
        free = self.free
        for name, amount in requests.items():
            had = free.get(name, 0)
            has = free[name] = had + times * amount
            if total is not None and (has > 0 or had > 0):
                change = (has if has > 0 else 0) - (had if had > 0 else 0)
                total[name] = total.get(name, 0) + change


@final
class Nodes:
    """Every node, by name, as a scheduler sees them.

    Attributes:
        infos: The nodes.
        assumed: Which node each assumed pod holds.
        classes: The nodes by what plugins read of them.
        version: Ascends with each change.
        altered: Ascends with each node that comes, goes or is specified anew.
        needs: What a gang that is to start later needs of which node.
        lifted: Whether nothing is kept for it just now.
        unread: Nodes that were given back while the cluster state could not be read.
        departed: Who has left a node since anything was needed, until somebody looks.
    """

    __slots__ = (
        "_cluster",
        "_indices",
        "_looked",
        "_total",
        "altered",
        "assumed",
        "by_index",
        "classes",
        "departed",
        "infos",
        "lifted",
        "needs",
        "unread",
        "version",
    )

    def __init__(
        self,
        cluster: ClusterState,
        sign: Sign | None = None,
    ) -> None:
        self._cluster = cluster
        self._indices = 0
        self.infos: dict[NodeName, NodeInfo] = {}
        self.by_index: dict[int, NodeInfo] = {}
        self.assumed: dict[PodUID, tuple[NodeName, Pod]] = {}
        self.classes: NodeClasses = NodeClasses(sign)
        self.version: int = 0
        self.altered: int = 0
        self.needs: dict[NodeName, Need] = {}
        self.lifted: bool = False
        self.departed: list[PodUID] = []
        self.unread: dict[NodeName, None] = {}
        self._looked: dict[NodeName, tuple[Node | None, list[Pod]]] = {}
        self._total: dict[str, int] = {}

    def total(self) -> dict[str, int]:
        """Return what the nodes have free together; an overcommitted one has nothing. O(1)."""
        return self._total

    def restore_total(self, total: dict[str, int]) -> None:
        """Put back what ``total`` was before nodes were changed and changed back. O(resources)."""
        self._total.clear()
        self._total.update(total)

    def look(self, name: NodeName) -> None:
        """Ask the cluster state about a node, so that ``refresh`` need not. O(pods on the node).

        Raises:
            ClusterStateError: The cluster state shows a pod on a node that it does not say so of.
        """
        if name not in self._looked:
            self._looked[name] = self._ask(name)

    def looked_at(self, name: NodeName) -> list[PodUID]:
        """Return the pods that ``look`` found on a node; none if it was not read. O(pods on it)."""
        _node, on_it = self._looked.get(name, (None, []))
        return [pod.uid for pod in on_it]

    def forget_looks(self) -> None:
        """Forget what was asked and not used."""
        self._looked.clear()

    def _ask(self, name: NodeName) -> tuple[Node | None, list[Pod]]:
        node = self._cluster.node(name)
        if node is not None and node.name != name:
            raise ClusterStateError(name, f"is shown by the cluster state as the node {node.name}")
        on_it = [] if node is None else list(self._cluster.pods_on(name))
        for pod in on_it:
            if pod.node_name != name:
                raise ClusterStateError(pod.key, f"is shown on {name}, is on {pod.node_name}")
        return node, on_it

    def refresh(self, name: NodeName) -> bool:
        """Read a node anew from the cluster state; say whether it may take more than before.

        Runtime complexity: O(pods on the node).

        Raises:
            ClusterStateError: See ``look``.
        """
        node, on_it = self._looked.get(name) or self._ask(name)
        before = self.infos.get(name)
        if node is None:
            if before is not None:
                del self.infos[name], self.by_index[before.index]
                self._sum_up(before, -1)
                self.classes.remove(before.index)
                self.altered += 1
                self._touch()
            return False
        if before is None:
            self._indices += 1
        info = NodeInfo(node, self._indices if before is None else before.index)
        for pod in on_it:
            info.take(pod.uid, pod.requests)
        # who is assumed here held the node before, unless the node was away meanwhile
        for uid in self.assumed if before is None else before.holders:
            where, assumed = self.assumed.get(uid, (None, None))
            if where == name and assumed is not None and uid not in info.holders:
                info.take(uid, assumed.requests)
        self.infos[name] = self.by_index[info.index] = info
        if name in self.needs:
            self._keep(info)
        if self.needs and before is not None:
            for uid in before.holders:
                if uid not in info.holders:
                    self._note_departed(uid, name)
        self.altered += before is None or before.node != node
        if before is not None and before.node == node and before.holders == info.holders:
            return False
        if before is not None:
            self._sum_up(before, -1)
        self._sum_up(info, 1)
        self.classes.put(info.index, info)
        self._touch()
        return (
            before is None
            or before.node != node
            or len(before.holders) > len(info.holders)
            or any(amount > before.free.get(n, 0) for n, amount in info.free.items())
        )

    def assume(self, pod: Pod, name: NodeName) -> None:
        """Let a pod hold a node that it is not assigned to yet. O(resources)."""
        self.assumed[pod.uid] = (name, pod)
        info = self.infos[name]
        held = info.holders.get(pod.uid)
        if held is not None:
            self.classes.give_back(info.index, held)
        info.take(pod.uid, pod.requests, self._total)
        self.classes.take(info.index, pod.requests)
        self._keep_less(info)
        self._touch()

    def assume_together(
        self, pods: Iterable[tuple[Pod, Resources, int]], become: Iterable[tuple[int, NodeClass]]
    ) -> None:
        """Let pods that hold no node hold one each. O(pods) and O(nodes x log nodes) of theirs.

        Args:
            pods: Each pod, with what it asks for and the index of its node.
            become: What the nodes become by it.
        """
        info: NodeInfo | None = None
        asked, alike = NOTHING, 0
        for pod, requests, index in pods:
            if info is None or info.index != index or requests is not asked:
                if info is not None:
                    info.shift(asked, -alike, self._total)
                info, asked, alike = self.by_index[index], requests, 0
            self.assumed[pod.uid] = (info.node.name, pod)
            info.holders[pod.uid] = requests
            alike += 1
        if info is not None:
            info.shift(asked, -alike, self._total)
        for index, given in become:
            self.classes.move(index, given)
            self._keep_less(self.by_index[index])
        self._touch()

    def read_again(self) -> list[NodeName]:
        """Read the nodes that could not be read; return those that may take more than before.

        Raises whatever the cluster state raises, and changes nothing then.
        Runtime complexity: O(1) when there is none, otherwise O(pods on them).
        """
        for name in self.unread:
            self.look(name)
        names = [name for name in self.unread if self.refresh(name)]
        self.unread.clear()
        return names

    def confirm(self, uid: PodUID) -> None:
        """Take an assumed pod as assigned: the cluster state shows it from now on. O(1)."""
        del self.assumed[uid]

    def forget(self, uid: PodUID) -> NodeName:
        """Unassume a pod; return its node. O(resources).

        A pod that the cluster state shows on that node keeps its capacity, though no event said
        so yet. If the cluster state cannot be read, the capacity is freed, and the node is read
        again by ``read_again``: a step that gives nodes back cannot stop half-way.
        """
        name, _pod = self.assumed.pop(uid)
        info = self.infos.get(name)
        try:
            shown = self._cluster.pod(uid)
        except Exception:
            shown = None
            self.unread[name] = None
        if shown is not None and shown.node_name == name and not shown.is_finished:
            return name
        if info is not None:
            self.classes.give_back(info.index, info.holders[uid])
            info.give_back(uid, self._total)
            self.keep_anew(name)
            if self.needs:
                self._note_departed(uid, name)
            self._touch()
        return name

    def class_of(self, name: NodeName) -> NodeClass | None:
        """Return the class of a node; None for a node that is not there. O(1)."""
        info = self.infos.get(name)
        return None if info is None else self.classes.of(info.index)

    def classify_anew(self) -> None:
        """Classify every node anew, as plugins have come to read more of them. O(nodes)."""
        self.classes.classify_anew(self.by_index)

    # What is kept ---------------------------------------------------------------------------

    def _keep(self, info: NodeInfo, total: dict[str, int] | None = None) -> bool:
        """Keep what is to be kept of a node; say whether that is a change. O(holders)."""
        need = None if self.lifted else self.needs.get(info.node.name)
        if need is None:
            return info.keep({}, 0, total)
        return info.keep(*need.kept(info.holders, info.unkept()), total)

    def keep_anew(self, name: NodeName) -> None:
        """Keep what is to be kept of a node after a change. O(holders + plugins)."""
        info = self.infos.get(name)
        if info is None or not (name in self.needs or info.kept or info.kept_pods):
            return
        if self._keep(info, self._total):
            self.classes.put(info.index, info)

    def _note_departed(self, uid: PodUID, name: NodeName) -> None:
        """Take note that a pod has left a node; should it come again, it is not to leave. O(1)."""
        self.departed.append(uid)
        need = self.needs.get(name)
        if need is not None:
            need.returning.discard(uid)

    def _keep_less(self, info: NodeInfo) -> None:
        """Keep no more of a node than is free, whoever took of it. O(resources)."""
        if info.kept and any(info.free[name] < 0 for name in info.kept):
            self.keep_anew(info.node.name)

    def _sum_up(self, info: NodeInfo, sign: int) -> None:
        """Add what a node has free to the total, or take it away."""
        for name, amount in info.free.items():
            if amount > 0:
                self._total[name] = self._total.get(name, 0) + sign * amount

    def _touch(self) -> None:
        self.version += 1
        self.classes.forget_unused()

    def _check(self) -> None:
        for uid, (name, _pod) in self.assumed.items():
            if name in self.infos and uid not in self.infos[name].holders:
                raise InternalError(f"{uid} is assumed on {name}, and does not hold it")
        for name, info in self.infos.items():
            free = info.node.allocatable.to_milli()
            for requests in info.holders.values():
                for resource, amount in requests.items():
                    free[resource] = free.get(resource, 0) - amount
            need = self.needs.get(name)
            kept: dict[str, int] = {}
            pods = 0
            if need is not None:
                kept, pods = need.kept(info.holders, free)
            if (kept, pods) != (info.kept, info.kept_pods):
                raise InternalError(f"{name}: {info.kept} is kept, not {kept}")
            for resource, amount in info.kept.items():
                free[resource] -= amount
            for resource in free.keys() | info.free.keys():
                if free.get(resource, 0) != info.free.get(resource, 0):
                    raise InternalError(f"{name}: {resource} is miscounted")
        total = total_free(info.free for info in self.infos.values())
        if {name: n for name, n in self._total.items() if n} != total:
            raise InternalError(f"in all {total} is free, not {self._total}")
        self.classes._check(self.by_index)
