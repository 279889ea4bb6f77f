"""Whether a pod may be placed on a node: the oracle's own arithmetic, in whole numbers.

While events are delayed, a scheduler may have read either state. So a placement is a fault only
if neither state allows it.
"""

from __future__ import annotations

from gangsched import Node, NodeName, Pod
from support.account import Account

__all__ = ["lacks", "may_be_placed"]


def may_be_placed(pod: Pod, gone: bool = False) -> bool:
    """Return whether a pod may be placed at all."""
    going = gone or pod.is_finished or pod.deleted_at is not None
    return not (pod.node_name or going or pod.scheduling_gates)


def lacks(account: Account, pod: Pod, name: NodeName) -> str:
    """Return why *pod* may not be placed on a node; empty if it may. O(resources) if it may."""
    late = None if account.cluster is None else account.cluster.node(name)
    nodes = [*account.nodes.get(name, ()), *([] if late is None else [late])]
    if not nodes:
        return "does not exist"
    if all(node.unschedulable for node in nodes):
        return "is cordoned"
    for key, value in pod.node_selector.items():
        if all(node.labels.get(key) != value for node in nodes):
            return f"has no label {key}={value}"
    usage = account.usage.get(name)
    if usage is None:
        short = _short(pod, nodes, {}, 0)
    else:
        short = _short(pod, nodes, usage.taken, len(usage.holders))
        if short and account.cluster is not None:
            short = _short(pod, nodes, *_surely_taken(account, name))
    if not short:
        return ""
    beside = [] if usage is None else list(usage.holders)
    return f"has too little {short} left beside {beside}"


def _short(pod: Pod, nodes: list[Node], taken: dict[str, int], count: int) -> list[str]:
    """Return the resources of which no version of a node has enough left."""
    short: list[str] = []
    for resource, amount in pod.requests.items():
        offered = max(node.allocatable.amount(resource) for node in nodes)
        if offered - taken.get(resource, 0) < amount:
            short.append(resource)
    limits = [node.allocatable.amount("pods") for node in nodes]
    if all(0 < limit < (count + 1) * 1000 for limit in limits):
        short.append("pods")
    return short


def _surely_taken(account: Account, name: NodeName) -> tuple[dict[str, int], int]:
    """Return the capacity used by pods that every accepted state shows on the node."""
    assert account.cluster is not None
    taken: dict[str, int] = {}
    count = 0
    for uid, record in account.usage[name].holders.items():
        truth = account.cluster.pod(uid)
        there = truth is not None and truth.node_name == name and not truth.is_finished
        if there or (record.hold is not None and record.hold.node == name):
            count += 1
            for resource, amount in record.places[name].items():
                taken[resource] = taken.get(resource, 0) + amount
    return taken, count
