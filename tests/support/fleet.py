"""A changing cluster, and ``Nodes`` that follow it."""

from __future__ import annotations

from collections.abc import Hashable

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from gangsched.events import Bound, NodeAdded, NodeDeleted, PodAdded, PodDeleted
from gangsched.framework.nodes.node_info import NodeInfo
from gangsched.framework.nodes.node_table import Nodes
from gangsched.memory import InMemoryCluster
from gangsched.model import Node, NodeName, Pod, PodPhase, PodUID
from gangsched.plugins import NodeResources
from gangsched.protocols import NodeView

__all__ = ["NAMES", "UIDS", "FleetMachine", "amounts", "names", "uids"]

NAMES = [NodeName(f"n{number}") for number in range(3)]
UIDS = [PodUID(f"uid-{number}") for number in range(6)]

names, uids = st.sampled_from(NAMES), st.sampled_from(UIDS)
amounts = st.fixed_dictionaries({"cpu": st.integers(0, 4), "gpu": st.integers(0, 2)})


class FleetMachine(RuleBasedStateMachine):
    """Adds and removes nodes; assigns, assumes, confirms and forgets pods."""

    signed = True

    def __init__(self) -> None:
        super().__init__()
        self.cluster = InMemoryCluster()
        self.nodes = Nodes(self.cluster, signature if self.signed else None)

    def look_at(self, *changed: NodeName | None) -> None:
        """Read nodes again, and check the reported changes."""
        for name in changed:
            if name is None:
                continue
            before, version = self.nodes.infos.get(name), self.nodes.version
            may_take_more = self.nodes.refresh(name)
            after = self.nodes.infos.get(name)
            assert may_take_more is gained(before, after)
            assert self.nodes.version == version + (not same(before, after))

    @rule(name=names, allocatable=amounts, cordoned=st.booleans())
    def put_node(self, name: NodeName, allocatable: dict[str, int], cordoned: bool) -> None:
        node = Node(name=name, allocatable=allocatable, unschedulable=cordoned)
        self.cluster.apply(NodeAdded(node))
        self.look_at(name)

    @rule(name=names)
    def drop_node(self, name: NodeName) -> None:
        self.cluster.apply(NodeDeleted(name))
        self.look_at(name)

    @rule(uid=uids, name=st.none() | names, requests=amounts, done=st.booleans())
    def put_pod(
        self, uid: PodUID, name: NodeName | None, requests: dict[str, int], done: bool
    ) -> None:
        if uid in self.nodes.assumed:
            return
        before = self.cluster.pod(uid)
        phase = PodPhase.SUCCEEDED if done else PodPhase.RUNNING
        pod = Pod(name="p", uid=uid, node_name=name, requests=requests, phase=phase)
        self.cluster.apply(PodAdded(pod))
        self.look_at(None if before is None else before.node_name, name)

    @rule(uid=uids)
    def drop_pod(self, uid: PodUID) -> None:
        if uid in self.nodes.assumed:
            self.nodes.forget(uid)
        before = self.cluster.pod(uid)
        self.cluster.apply(PodDeleted(uid))
        self.look_at(None if before is None else before.node_name)

    @rule(uid=uids, name=names, requests=amounts)
    def assume(self, uid: PodUID, name: NodeName, requests: dict[str, int]) -> None:
        """Assume a pending or new pod on an existing node."""
        if uid in self.nodes.assumed or not self.nodes.infos:
            return
        pod = self.cluster.pod(uid)
        if pod is None or pod.node_name is not None or pod.is_finished:
            self.put_pod(uid, None, requests, done=False)
            pod = self.cluster.pod(uid)
            assert pod is not None
        before = self.nodes.version
        self.nodes.assume(pod, name if name in self.nodes.infos else min(self.nodes.infos))
        assert self.nodes.version == before + 1

    @rule(uid=uids, look_first=st.booleans())
    def confirm(self, uid: PodUID, look_first: bool) -> None:
        """Report a bind; in between, the pod is both assigned and assumed."""
        if uid not in self.nodes.assumed:
            return
        name, _pod = self.nodes.assumed[uid]
        self.cluster.apply(Bound(uid, name, 1))
        if look_first:
            self.look_at(name)
            self.nodes.confirm(uid)
        else:
            self.nodes.confirm(uid)
            self.look_at(name)

    @rule(uid=uids)
    def forget(self, uid: PodUID) -> None:
        if uid in self.nodes.assumed:
            name, _pod = self.nodes.assumed[uid]
            assert self.nodes.forget(uid) == name


def signature(view: NodeView) -> tuple[Hashable, ...]:
    """Return what the plugins of these tests read of a node."""
    return (view.node.unschedulable, NodeResources().node_signature(view))


def gained(before: NodeInfo | None, after: NodeInfo | None) -> bool:
    """Return whether a node has more of any resource than before."""
    if after is None or before is None:
        return after is not None
    more = any(free > before.free.get(name, 0) for name, free in after.free.items())
    return more or after.pod_count < before.pod_count or before.node != after.node


def same(before: NodeInfo | None, after: NodeInfo | None) -> bool:
    """Return whether a node is unchanged."""
    if after is None or before is None:
        return after is before
    return before.node == after.node and before.holders == after.holders
