"""From the rows of a snapshot to the nodes, with the pods that are on them.

A node and the pods on it are as they were last read from the cluster state, which may have changed
since. What is free, what is withheld and the equivalence classes of nodes follow from them.
"""

from __future__ import annotations

from gangsched.framework.nodes.node_info import NodeInfo
from gangsched.framework.snapshot.reading import Reading, each_once, require, unique
from gangsched.framework.snapshot.rows import NodeRow

__all__ = ["finish_nodes", "read_nodes"]


def read_nodes(reading: Reading) -> None:
    """Read the nodes, the pods on them and the assumed pods."""
    nodes, rows = reading.state.nodes, reading.rows
    last = 0
    for n, row in enumerate(rows.nodes):
        path = f"nodes[{n}]"
        unique(nodes.infos, row.node.name, f"{path}.node.name")
        require(row.index > last, f"{path}.index", row.index, "in ascending order")
        last = row.index
        info = _node(reading, row, path)
        nodes.infos[row.node.name] = nodes.by_index[row.index] = info
    nodes._indices, nodes.altered = rows.node_arrivals, rows.node_changes
    nodes.departed = list(rows.departed)
    nodes.unread = each_once(rows.unread, "unread")
    _read_assumed(reading)


def _node(reading: Reading, row: NodeRow, path: str) -> NodeInfo:
    others = {pod.uid: pod for pod in row.others}
    each_once((pod.uid for pod in row.others), f"{path}.others")
    info = NodeInfo(row.node, row.index)
    for m, uid in enumerate(each_once(row.pods, f"{path}.pods")):
        pod = others.pop(uid, None)
        known = reading.state.pods.members.get(uid)
        at = f"{path}.pods[{m}]"
        require(pod is None or known is None or known.pod != pod, at, uid, "described once")
        shown = reading.member(uid, at).pod if pod is None else pod
        expected = f"a pod that is bound to {row.node.name}, or assumed there"
        is_assumed = known is not None and known.node == row.node.name
        require(shown.node_name == row.node.name or is_assumed, at, uid, expected)
        info.take(uid, shown.requests)
        info.show(shown)
    require(not others, f"{path}.others", list(others), "pods on the node")
    return info


def _read_assumed(reading: Reading) -> None:
    nodes, members = reading.state.nodes, reading.state.pods.members
    for n, row in enumerate(reading.rows.assumed):
        path = f"assumed[{n}]"
        unique(nodes.assumed, row.uid, f"{path}.uid")
        member = reading.member(row.uid, f"{path}.uid")
        require(member.node is not None, f"{path}.uid", row.uid, "a pod that holds a node")
        assert member.node is not None
        given = row.pod
        if given is not None:
            require(given.uid == row.uid, f"{path}.pod.uid", given.uid, f"{row.uid}")
            require(given != member.pod, f"{path}.pod", given, "other than the known pod")
        nodes.assumed[row.uid] = (member.node, member.pod if given is None else given)
    missing = [uid for uid, m in members.items() if m.node is not None and uid not in nodes.assumed]
    require(not missing, "assumed", missing, "each pod that holds a node")


def finish_nodes(reading: Reading) -> None:
    """Compute what follows from the nodes, the pods on them and the reserved capacity."""
    nodes = reading.state.nodes
    for entry in nodes.ledger:
        info = nodes.infos.get(entry.node)
        if info is not None and entry.returning is None:
            info.nominate(entry)
        elif info is not None:
            info.expected.append(entry)
    for pod_class in reading.state.pod_classes.by_signature.values():
        if pod_class.watches_pods:
            reading.state.pod_classes.watch(pod_class, 1, nodes)
    for info in nodes.infos.values():
        info.withhold()
        nodes._sum_up(info, 1)
        nodes.classes.put(info.index, info)
