"""Nodes with their free capacity: the cluster state with the assumed pods added.

Theory of operation. A node is read from the cluster state if an event concerns it (``refresh``).
Between events the scheduler assumes pods on nodes. An assumed pod counts on its node until the
cluster state shows it there (``confirm``) or it gives the node back (``forget``). If a node is read
again, the assumed pods stay on it. Each change also moves the node to its new class; see
``gangsched.framework.nodes.node_classes``.

An event about a pod reads the whole node of the pod, so that what happened to other pods there is
known early. On a *crowded* node that would cost more than it is worth. There only the pod is read
(``refresh_pod``); each other pod has an event of its own.

Invariants (checked by ``_check``):
  I1  the free capacity of a node is its allocatable capacity, less the requests of the pods that
      are bound or assumed there; a pod that is both counts once;
  I2  each node is in the class of its current signature;
  I3  capacity that entries of the ledger withhold from a node is not free; between two decisions
      each entry is withheld; see ``gangsched.framework.nodes.reserved_capacity``;
  I4  the pods shown on a node are those that hold it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from operator import attrgetter, is_
from typing import Final, final

from gangsched._core._capacity import total_free
from gangsched._core._pod_counts import PodCounts
from gangsched.constraints.matchers import CarriedTerm
from gangsched.errors import ClusterStateError, InternalError
from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.node_classes import NodeClasses, Sign, SignAfter
from gangsched.framework.nodes.node_info import NodeInfo
from gangsched.framework.nodes.plan_guard import PlanGuard
from gangsched.framework.nodes.reserved_capacity import CapacityLedger, ReservedCapacity
from gangsched.model import Node, NodeName, Pod, PodUID, Resources
from gangsched.protocols import ClusterState
from gangsched.resources import NOTHING

__all__ = ["Nodes"]

_CROWDED: Final = 256
"""More pods than a node has in practice; the kubelet allows 110 by default."""
_uid_of: Final[Callable[[Pod], PodUID]] = attrgetter("uid")
_requests_of: Final[Callable[[Pod], Resources]] = attrgetter("requests")


@final
class Nodes:
    """All nodes as the scheduler sees them.

    Attributes:
        infos: The nodes, by name.
        by_index: The nodes, by their index in order of arrival.
        assumed: The node of each assumed pod, and the pod.
        classes: The classes of nodes.
        version: Ascends with each change.
        altered: Ascends when a node is added or deleted, or its specification changes.
        counts: The counts of pods by domain, for plugins.
        watches_pods: Whether a plugin reads which pods are on nodes for some known pod.
        pods_version: Ascends when ``refresh`` finds that the pods shown on a node have changed.
            Counted only while *watches_pods*.
        ledger: All reserved capacity.
        unread: Nodes that were given back while the cluster state could not be read.
        departed: The pods that have left a node since the ledger got its last reservation, until
            the reservation is reviewed; empty without one. Nominated pods that lost their
            capacity are among them.
        guard: What keeps the plan of the reserved gang valid; None without a reservation, and
            while an exempt entity is tried.
    """

    __slots__ = (
        "_cluster",
        "_indices",
        "_looked",
        "_pods_only",
        "_total",
        "altered",
        "assumed",
        "by_index",
        "classes",
        "counts",
        "departed",
        "guard",
        "infos",
        "ledger",
        "pods_version",
        "unread",
        "version",
        "watches_pods",
    )

    def __init__(
        self,
        cluster: ClusterState,
        sign: Sign | None = None,
        sign_after: SignAfter | None = None,
        *,
        carried: Callable[[Pod], tuple[CarriedTerm, ...]] | None = None,
        changing: tuple[int, ...] | None = None,
        signs_allocatable: bool = False,
    ) -> None:
        self._cluster = cluster
        self.watches_pods: bool = False
        self._indices = 0
        self.infos: dict[NodeName, NodeInfo] = {}
        self.by_index: dict[int, NodeInfo] = {}
        self.assumed: dict[PodUID, tuple[NodeName, Pod]] = {}
        self.classes: NodeClasses = NodeClasses(
            sign, sign_after, changing, signs_allocatable=signs_allocatable
        )
        self.counts: PodCounts = PodCounts(self.by_index, carried)
        self.version: int = 0
        self.altered: int = 0
        self.pods_version: int = 0
        self.ledger: CapacityLedger = CapacityLedger()
        self.departed: list[PodUID] = []
        self.guard: PlanGuard | None = None
        self.unread: dict[NodeName, None] = {}
        self._looked: dict[NodeName, tuple[Node | None, list[Pod]]] = {}
        self._pods_only: set[NodeName] = set()
        self._total: dict[str, int] = {}

    def total(self) -> dict[str, int]:
        """Return what is free on all nodes in sum; an overcommitted node counts as 0. O(1)."""
        return self._total

    def restore_total(self, total: dict[str, int]) -> None:
        """Restore ``total`` after nodes were changed and changed back. O(resources)."""
        self._total.clear()
        self._total.update(total)

    def look(self, name: NodeName, *, of_pod: bool = False) -> list[PodUID]:
        """Read a node ahead of ``refresh``, which then cannot raise.

        Runtime complexity: O(pods on the node); O(1) for a crowded node if *of_pod*.

        Args:
            name: The node.
            of_pod: Whether ``refresh_pod`` is to be called: then a crowded node is not read.

        Returns:
            The pods that were found on the node and that do not hold it yet.

        Raises:
            ClusterStateError: The cluster state lists a pod on this node that names another node.
        """
        info, found = self.infos.get(name), self._looked.get(name)
        holders = {} if info is None else info.holders
        if of_pod:
            shown = 0 if found is None else len(found[1])
            if name in self._pods_only or max(len(holders), shown) > _CROWDED:
                self._pods_only.add(name)
                return []
        if found is None:
            found = self._looked[name] = self._ask(name)
        return [pod.uid for pod in found[1] if pod.uid not in holders]

    def forget_looks(self) -> None:
        """Drop what ``look`` has read and ``refresh`` has not used."""
        self._looked.clear()
        self._pods_only.clear()

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
        """Read a node from the cluster state; return whether it may take more than before.

        Runtime complexity: O(pods on the node).

        Raises:
            ClusterStateError: See ``look``.
        """
        node, on_it = self._looked.get(name) or self._ask(name)
        before = self.infos.get(name)
        if node is None:
            if before is not None:
                del self.infos[name], self.by_index[before.index]
                self._recount(before, None)
                self._sum_up(before, -1)
                self.classes.remove(before.index)
                self.altered += 1
                self.pods_version += self.watches_pods
                self._touch()
            return False
        if before is not None:
            may_take_more = self._refresh_one_pod(before, node, on_it)
            if may_take_more is not None:
                return may_take_more
        if before is None:
            self._indices += 1
        info = NodeInfo(node, self._indices if before is None else before.index)
        info.pods_by_uid = {pod.uid: pod for pod in on_it}
        for uid, pod in info.pods_by_uid.items():
            info.holders[uid] = pod.requests
            info.shift(pod.requests, -1, None)
        # a pod that is assumed here held the node before, unless the node was gone meanwhile
        for uid in self.assumed if before is None else before.holders:
            where, assumed = self.assumed.get(uid, (None, None))
            if where == name and assumed is not None and uid not in info.holders:
                info.take(uid, assumed.requests)
                info.show(assumed)
        if self.watches_pods and (before is None or before.pods_by_uid != info.pods_by_uid):
            self.pods_version += 1
        self.infos[name] = self.by_index[info.index] = info
        if self.counts.is_active:
            self._recount(before, info)
        if before is None:
            for entry in self.ledger.on(name):
                (info.expected.append if entry.returning is not None else info.nominate)(entry)
        else:
            for entry in before.nominated:
                info.nominate(entry)
            info.expected = before.expected.copy()
        if info.expected:
            info.withhold()
        if before is not None and self.ledger.expecting:
            for uid in before.holders:
                if uid not in info.holders:
                    self._note_departed(uid, name)
        is_altered = before is None or before.node != node
        self.altered += is_altered
        if before is not None and not is_altered and before.holders == info.holders:
            return False
        if before is not None:
            self._sum_up(before, -1)
        self._sum_up(info, 1)
        self._classify(info)
        self._touch()
        return (
            before is None
            or is_altered
            or len(before.holders) > len(info.holders)
            or any(amount > before.free.get(n, 0) for n, amount in info.free.items())
        )

    def refresh_pod(self, name: NodeName, uid: PodUID, pod: Pod | None) -> bool:
        """Read the node of a pod again; return whether it may take more than before.

        Runtime complexity: as ``refresh``; O(resources) if ``look`` found it crowded.

        Args:
            name: The node.
            uid: The pod.
            pod: The pod as the cluster state shows it; None if it is gone.

        Raises:
            ClusterStateError: See ``look``.
        """
        info = self.infos.get(name)
        if name not in self._pods_only or info is None:
            return self.refresh(name)
        held = info.holders.get(uid)
        if pod is not None and pod.node_name == name and not pod.is_finished:
            return self._put_on(info, pod, held)
        where, _assumed = self.assumed.get(uid, (None, None))
        if held is None or where == name:
            return False
        self._take_off(info, uid, held)
        if self.ledger.expecting:
            self._note_departed(uid, name)
        self.pods_version += self.watches_pods
        return True

    def _put_on(self, info: NodeInfo, pod: Pod, held: Resources | None) -> bool:
        """Put a pod on its node; return whether it requests less than it held before."""
        shown = info.pods_by_uid.get(pod.uid)
        if held == pod.requests and shown == pod:
            return False
        self._hold(info, pod, held)
        self.withhold_anew(info)
        self._touch()
        self.pods_version += self.watches_pods
        return held is not None and any(
            amount > pod.requests.amount(name) for name, amount in held.items()
        )

    def _take_off(self, info: NodeInfo, uid: PodUID, held: Resources) -> None:
        """Free the capacity that a pod holds. O(resources)."""
        self.classes.give_back(info.index, held)
        self._uncount(uid, info)
        info.give_back(uid, self._total)
        self.withhold_anew(info)
        self._touch()

    def _refresh_one_pod(self, before: NodeInfo, node: Node, on_it: list[Pod]) -> bool | None:
        """Read a node that is as before, except that one pod may have left it.

        Most events are about one pod: it was bound where it was assumed, or it has ended. Building
        the node anew for these costs as much as the rest of the event.

        Returns:
            Whether the node may take more than before; None if more has changed, and nothing has
            been done.
        """
        if before.node is not node or before.nominated or before.expected:
            return None
        if self.watches_pods or self.counts.is_active or self.ledger.expecting:
            return None
        holders, name = before.holders, node.name
        shown: dict[PodUID, Pod] = dict(zip(map(_uid_of, on_it), on_it, strict=True))
        # without a loop in Python: nodes have many pods, and one of them has an event
        held: Iterator[Resources | None] = map(holders.get, shown)
        if len(shown) < len(on_it) or not all(map(is_, held, map(_requests_of, on_it))):
            return None
        departed: PodUID | None = None
        if len(shown) < len(holders):
            for uid, requests in holders.items():
                if uid in shown:
                    continue
                where, assumed = self.assumed.get(uid, (None, None))
                if where == name and assumed is not None:
                    # a member of a gang may hold an equal object that its siblings share
                    if assumed.requests is not requests and assumed.requests != requests:
                        return None
                    shown[uid] = assumed
                elif departed is None:
                    departed = uid
                else:
                    return None
        # in the order in which a node that is built anew has them
        info = before.with_pods({uid: holders[uid] for uid in shown}, shown)
        self.infos[name] = self.by_index[info.index] = info
        if departed is not None:
            requests = holders[departed]
            self.classes.give_back(info.index, requests)
            info.shift(requests, 1, self._total)
            self._touch()
        return departed is not None

    def _recount(self, before: NodeInfo | None, info: NodeInfo | None) -> None:
        """Count the pods of a node that was read again. O(pods on the node)."""
        counts = self.counts
        old = {} if before is None else before.pods_by_uid
        new = {} if info is None else info.pods_by_uid
        for uid, pod in old.items():
            if before is not None and new.get(uid) is not pod:
                counts.take(pod, before.index)
        for uid, pod in new.items():
            if info is not None and old.get(uid) is not pod:
                counts.put(pod, info.index)
        if (
            before is None
            or info is None
            or (
                before.node is not info.node
                and (
                    before.node.labels != info.node.labels or before.node.taints != info.node.taints
                )
            )
        ):
            counts.nodes_changed()

    def _hold(self, info: NodeInfo, pod: Pod, held: Resources | None) -> None:
        """Let a node hold a pod, instead of what it held of it before."""
        if held is not None:
            self.classes.give_back(info.index, held)
            self._uncount(pod.uid, info)
        info.take(pod.uid, pod.requests, self._total)
        info.show(pod)
        self.counts.put(pod, info.index)
        self.classes.take(info.index, pod.requests)

    def assume(self, pod: Pod, name: NodeName) -> None:
        """Assume a pod, which is not bound, on a node. O(resources)."""
        self.assumed[pod.uid] = (name, pod)
        info = self.infos[name]
        self._hold(info, pod, info.holders.get(pod.uid))
        self._withhold_less(info)
        self._touch()

    def assume_together(
        self, pods: Iterable[tuple[Pod, Resources, int]], become: Iterable[tuple[int, NodeClass]]
    ) -> None:
        """Assume pods that hold no node. O(pods), and O(log nodes) for each of their nodes.

        Args:
            pods: Each pod with its requests and the index of its node.
            become: The class of each of these nodes afterwards.
        """
        become = list(become)
        # where no two nodes are alike, what is free afterwards was computed for the class
        adopted = self._adopt(become)
        info: NodeInfo | None = None
        assumed, is_counting = self.assumed, self.counts.is_active
        asked, alike, in_all = NOTHING, 0, 0
        for pod, requests, index in pods:
            if info is None or info.index != index or requests is not asked:
                if alike and info is not None:
                    info.shift(asked, -alike, self._total)
                if in_all and requests is not asked:
                    self._sum_taken(asked, in_all)
                    in_all = 0
                info, asked, alike = self.by_index[index], requests, 0
            uid = pod.uid
            assumed[uid] = (info.node.name, pod)
            info.holders[uid] = requests
            info.pods_by_uid[uid] = pod
            if is_counting:
                self.counts.put(pod, index)
            if index in adopted:
                in_all += 1
            else:
                alike += 1
        if alike and info is not None:
            info.shift(asked, -alike, self._total)
        self._sum_taken(asked, in_all)
        self.classes.move_together(become)
        if self.ledger.expecting:
            for index, _given in become:
                self._withhold_less(self.by_index[index])
        self._touch()

    def _adopt(self, become: Iterable[tuple[int, NodeClass]]) -> Set[int]:
        """Set the free capacity of nodes to that of their classes after a gang was assumed.

        Only nodes that are the only ones of their shape, and of which no more is used than they
        have: ``total`` counts less than the requests otherwise.

        Returns:
            The indices of these nodes.
        """
        by_index = self.by_index
        adopted: set[int] = set()
        for index, given in become:
            if not given.is_signed and min(given.free.values(), default=0) >= 0:
                by_index[index].share(given.free, given.defaulted)
                adopted.add(index)
        return adopted

    def _sum_taken(self, requests: Resources, count: int) -> None:
        """Subtract what pods with these requests have taken of free capacity. O(resources)."""
        if count:
            for name, need in requests.items():
                if need:
                    self._total[name] -= count * need

    def replace_pod(self, pod: Pod) -> bool:
        """Show an assumed pod as it is now; return whether its node may take more than before.

        The node holds what the pod requests now: a bind that is under way cannot be recalled, and
        binds the pod as the cluster has it. O(resources + log nodes).
        """
        name, _before = self.assumed[pod.uid]
        self.assumed[pod.uid] = (name, pod)
        info = self.infos.get(name)
        held = None if info is None else info.holders.get(pod.uid)
        return info is not None and held is not None and self._put_on(info, pod, held)

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
        """Stop assuming a pod that the cluster state shows on its node. O(1)."""
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
            self._take_off(info, uid, info.holders[uid])
            if self.ledger.expecting:
                self._note_departed(uid, name)
        return name

    def _uncount(self, uid: PodUID, info: NodeInfo) -> None:
        self.counts.take(info.pods_by_uid[uid], info.index)

    def class_of(self, name: NodeName) -> NodeClass | None:
        """Return the class of a node; None if there is no such node. O(1)."""
        info = self.infos.get(name)
        return None if info is None else self.classes.of(info.index)

    def classify_anew(self) -> None:
        """Classify every node again, because plugins read other labels now. O(nodes)."""
        self.classes.classify_anew(self.by_index)

    # Reserved capacity ----------------------------------------------------------------------

    def reserve(self, entries: Iterable[ReservedCapacity]) -> None:
        """Add entries to the ledger, and withhold them.

        Runtime complexity: O(resources + log nodes) for each nominated pod, and O(plugins) for
        each node with a reservation.
        """
        entries = list(entries)
        for entry in entries:
            self.ledger.add(entry)
        self.withhold(entries)
        self._touch()

    def release(self, entries: Iterable[ReservedCapacity]) -> None:
        """Remove entries from the ledger, and free them; see ``reserve``.

        An entry that is not in the ledger is passed over.
        """
        self.leave_out([entry for entry in entries if self.ledger.remove(entry)])
        self._touch()

    def replace_expected(self, entries: Iterable[ReservedCapacity]) -> None:
        """Replace the entries of all reservations in the ledger.

        A node of which as much is withheld as before stays in its class.
        Runtime complexity: O(returning pods + plugins) for each node with an entry.
        """
        before, after = self.ledger.expected(), list(entries)
        for entry in before:
            self.ledger.remove(entry)
            info = self.infos.get(entry.node)
            if info is not None and entry in info.expected:
                info.expected.remove(entry)
        for entry in after:
            self.ledger.add(entry)
            info = self.infos.get(entry.node)
            if info is not None:
                info.expected.append(entry)
        for name in dict.fromkeys(entry.node for entry in (*before, *after)):
            info = self.infos.get(name)
            if info is not None:
                self.withhold_anew(info)

    def withhold(self, entries: Iterable[ReservedCapacity]) -> None:
        """Withhold entries again that were left out, as far as the ledger still has them."""
        for entry in entries:
            info = self.infos.get(entry.node)
            if info is None or entry not in self.ledger:
                continue
            if entry.returning is not None:
                if entry not in info.expected:
                    info.expected.append(entry)
            elif entry not in info.nominated:
                info.nominate(entry, self._total)
                self.classes.take(info.index, entry.requests)
            self.withhold_anew(info)

    def leave_out(self, entries: Iterable[ReservedCapacity]) -> None:
        """Free entries for an entity that is exempt from them; the ledger keeps them."""
        for entry in entries:
            info = self.infos.get(entry.node)
            if info is None:
                continue
            if entry in info.expected:
                info.expected.remove(entry)
            elif entry in info.nominated:
                info.withdraw(entry, self._total)
                self.classes.give_back(info.index, entry.requests)
            self.withhold_anew(info)

    def withhold_anew(self, info: NodeInfo) -> None:
        """Follow a change of a node with a reservation; O(1) for any other.

        Runtime complexity: O(returning pods + plugins).
        """
        if (info.expected or info.withheld or info.withheld_pods) and info.withhold(self._total):
            self._classify(info)

    def _classify(self, info: NodeInfo) -> None:
        """Put a node into its class. O(plugins + log nodes)."""
        given = self.classes.put(info.index, info)
        if given.free == info.free:
            # one dict for both, so that a decision reads less memory
            info.share(given.free, info.defaulted)

    def _note_departed(self, uid: PodUID, name: NodeName) -> None:
        """Record that a pod has left a node, for the reservation.

        It supplies nothing any more: if it comes back to the node, it may stay. O(entries).
        """
        for entry in self.ledger.on(name):
            if entry.returning is not None:
                entry.returning.discard(uid)
        self.departed.append(uid)

    def _withhold_less(self, info: NodeInfo) -> None:
        """Withhold no more than is free after a pod took capacity. O(resources)."""
        if info.withheld and any(info.free[name] < 0 for name in info.withheld):
            self.withhold_anew(info)

    def _sum_up(self, info: NodeInfo, sign: int) -> None:
        """Add the free capacity of a node to the total, or subtract it."""
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
        self.ledger._check()
        for name, info in self.infos.items():
            entries = [*info.nominated, *info.expected]
            if set(map(id, entries)) != set(map(id, self.ledger.on(name))):
                raise InternalError(f"{name}: the ledger has other entries than are withheld")
        self._check_nodes()
        self.counts._check()

    def _check_nodes(self) -> None:
        """Check all but the assumed pods, which a ``NodesView`` may have removed."""
        for name, info in self.infos.items():
            free = info.node.allocatable.to_milli()
            for requests in info.holders.values():
                for resource, amount in requests.items():
                    free[resource] = free.get(resource, 0) - amount
            for entry in info.nominated:
                for resource, amount in entry.requests.items():
                    free[resource] = free.get(resource, 0) - amount
            amounts, pods = dict[str, int](), 0
            for entry in info.expected:
                found, count = entry.withheld(info.holders, free)
                pods += count
                for resource, amount in found.items():
                    amounts[resource] = amounts.get(resource, 0) + amount
                    free[resource] -= amount
            if (amounts, pods) != (info.withheld, info.withheld_pods):
                raise InternalError(f"{name}: {info.withheld} is withheld, not {amounts}")
            counting = (*info.holders.values(), *(entry.requests for entry in info.nominated))
            counted = sum(counting, NOTHING).defaulted
            if counted != info.defaulted:
                raise InternalError(f"{name}: {counted} is defaulted, not {info.defaulted}")
            if info.holders.keys() != info.pods_by_uid.keys():
                shown = list(info.pods_by_uid)
                raise InternalError(f"{name} shows {shown}, not {list(info.holders)}")
            for resource in free.keys() | info.free.keys():
                if free.get(resource, 0) != info.free.get(resource, 0):
                    raise InternalError(f"{name}: {resource} is miscounted")
        total = total_free(info.free for info in self.infos.values())
        if {name: n for name, n in self._total.items() if n} != total:
            raise InternalError(f"in all {total} is free, not {self._total}")
        self.classes._check(self.by_index)
