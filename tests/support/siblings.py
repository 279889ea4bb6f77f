"""Plugins that read where other pods are, written against the public protocols only, and an oracle.

The oracle tries every sequence of members and nodes. It asks the same rules as the plugins, but on
plain dicts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final

from attrs import evolve

from gangsched import Node, Pod, Success, Unschedulable
from gangsched.outcomes import Outcome
from gangsched.protocols import CycleView, NodeView, StateKey

__all__ = [
    "APP",
    "ZONE",
    "Beside",
    "CountedPerZone",
    "OnePerNode",
    "OnePerZone",
    "Placement",
    "Rule",
    "accepts",
    "can_place",
    "ruled",
]

APP: Final = "example.com/app"
ZONE: Final = "zone"
Placement = Mapping[str, str]
"""The node of each placed pod, by name."""


def app(pod: Pod) -> str | None:
    return pod.labels.get(APP)


class Rule(ABC):
    """What the plugins here have in common: they concern pods with a label, and read the zone."""

    name = "Rule"
    reason = "another pod is in the way"

    def reads_pods(self, pod: Pod) -> bool:
        return app(pod) is not None

    def pod_signature(self, pod: Pod) -> Hashable:
        return app(pod)

    def node_signature(self, node: NodeView) -> Hashable:
        return None

    def labels_read(self, pod: Pod) -> Iterable[str]:
        return (ZONE,) if app(pod) else ()

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        if app(pod) is None or self.allows(state, pod, node):
            return Success()
        return Unschedulable(self.reason)

    @abstractmethod
    def allows(self, state: CycleView, pod: Pod, node: NodeView) -> bool:
        """Return whether a pod that the rule concerns may be placed on a node."""


class OnePerNode(Rule):
    """No two pods of one application on one node."""

    name = "OnePerNode"
    reason = "a pod of the application is on the node"

    def allows(self, state: CycleView, pod: Pod, node: NodeView) -> bool:
        return all(app(other) != app(pod) for other in node.pods)


class OnePerZone(Rule):
    """No two pods of one application in one zone: looks at all nodes."""

    name = "OnePerZone"
    reason = "a pod of the application is in the zone"

    def allows(self, state: CycleView, pod: Pod, node: NodeView) -> bool:
        zone = node.node.labels.get(ZONE)
        return not any(
            app(other) == app(pod)
            for view in state.nodes.values()
            if view.node.labels.get(ZONE) == zone
            for other in view.pods
        )


_COUNTS: Final = StateKey[dict[str | None, int]]("pods per zone")


class CountedPerZone(OnePerZone):
    """The same rule with a count in the cycle, kept up to date."""

    name = "CountedPerZone"

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Outcome:
        counts: dict[str | None, int] = {}
        for view in state.nodes.values() if app(pod) else ():
            zone = view.node.labels.get(ZONE)
            counts[zone] = counts.get(zone, 0) + sum(app(p) == app(pod) for p in view.pods)
        state.write(_COUNTS, counts)
        return Success()

    def add_pod(self, state: CycleView, pod: Pod, added: Pod, node: NodeView) -> None:
        self._shift(state, pod, added, node, 1)

    def remove_pod(self, state: CycleView, pod: Pod, removed: Pod, node: NodeView) -> None:
        self._shift(state, pod, removed, node, -1)

    def _shift(self, state: CycleView, pod: Pod, other: Pod, node: NodeView, by: int) -> None:
        counts = state.read(_COUNTS)
        assert counts is not None
        if app(other) == app(pod):
            zone = node.node.labels.get(ZONE)
            counts[zone] = counts.get(zone, 0) + by

    def allows(self, state: CycleView, pod: Pod, node: NodeView) -> bool:
        counts = state.read(_COUNTS)
        assert counts is not None
        return counts.get(node.node.labels.get(ZONE), 0) == 0


class Beside(Rule):
    """A pod of ``b`` goes only where a pod of ``a`` is: an order in which they must be placed."""

    name = "Beside"
    reason = "no pod of a is on the node"

    def allows(self, state: CycleView, pod: Pod, node: NodeView) -> bool:
        return app(pod) != "b" or any(app(other) == "a" for other in node.pods)


def ruled(pod: Pod, label: str | None = "a") -> Pod:
    """Return a pod that the plugins here concern."""
    return pod if label is None else evolve(pod, labels={**pod.labels, APP: label})


# The oracle -----------------------------------------------------------------------------------


def accepts(rule: Rule, pod: Pod, node: Node, on: Mapping[str, list[Pod]], nodes: Any) -> bool:
    """Return whether a rule lets a pod go to a node, by its definition."""
    if app(pod) is None:
        return True
    if isinstance(rule, OnePerZone):
        zone = node.labels.get(ZONE)
        alike = [n.name for n in nodes if n.labels.get(ZONE) == zone]
        return not any(app(other) == app(pod) for name in alike for other in on[name])
    if isinstance(rule, OnePerNode):
        return not any(app(other) == app(pod) for other in on[node.name])
    return app(pod) != "b" or any(app(other) == "a" for other in on[node.name])


def can_place(
    rule: Rule, nodes: list[Node], running: Placement, pods: list[Pod], least: int
) -> bool:
    """Return whether *least* of the pending pods can be placed, by trying every sequence."""
    by_name = {pod.name: pod for pod in pods}
    on = {
        str(node.name): [by_name[p] for p, n in running.items() if n == node.name] for node in nodes
    }
    pending = [pod for pod in pods if pod.name not in running]
    seen: set[frozenset[tuple[str, str]]] = set()

    def free(node: Node) -> int:
        used = sum(pod.requests.amount("cpu") for pod in on[node.name])
        return node.allocatable.amount("cpu") - used

    def place(left: list[Pod], placed: frozenset[tuple[str, str]]) -> bool:
        if len(placed) >= least:
            return True
        if placed in seen:
            return False
        seen.add(placed)
        for pod in left:
            rest = [other for other in left if other is not pod]
            for node in nodes:
                asked = pod.requests.amount("cpu")
                fits = not asked or asked <= free(node)
                if fits and accepts(rule, pod, node, on, nodes):
                    on[node.name].append(pod)
                    found = place(rest, placed | {(pod.name, node.name)})
                    on[node.name].pop()
                    if found:
                        return True
        return False

    return place(pending, frozenset())
