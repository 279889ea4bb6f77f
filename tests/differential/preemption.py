"""Scenes in which one pod has to preempt others, and what both schedulers do about it.

Nodes are full of pods of several priorities, of which budgets protect some. kube-scheduler names a
node and evicts pods there. Its candidates are ordered by what they cost: evictions that violate a
budget, then the highest priority of a victim, then the priorities of all, then their number. Two
choices of one cost are equally good, and kube-scheduler takes any of them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from attrs import frozen
from hypothesis import strategies as st

from differential.scene import NAMESPACES, Object, Running, Scene, ranked

__all__ = ["PRIORITIES", "Preemption", "cost", "is_enough", "preempting_scenes"]

PRIORITIES: Final[dict[str, int]] = {"judge-1": 1, "judge-2": 2, "judge-3": 3}
"""The priority classes, with their values; the last one is the preemptor's."""

_BASE: Final = 2**31
_NAMESPACE: Final = next(iter(NAMESPACES))
_CPUS: Final = 4


@frozen
class Preemption:
    """What a scheduler does for a pod.

    Attributes:
        node: The nominated node; empty if there is none.
        victims: The names of the pods that are evicted.
    """

    node: str = ""
    victims: frozenset[str] = frozenset()


@st.composite
def preempting_scenes(draw: st.DrawFn) -> Scene:
    """Draw a scene with one pending pod, which has the highest priority."""
    nodes: list[Object] = []
    running: list[Running] = []
    for number in range(draw(st.integers(1, 3))):
        name = f"n{number}"
        offers = {"cpu": str(_CPUS), "memory": "8Gi", "pods": "20"}
        status = {"allocatable": offers}
        nodes.append({"metadata": {"name": name, "labels": {}}, "spec": {}, "status": status})
        free = _CPUS
        while free and len(running) < 10:
            cpus = min(draw(st.integers(1, 3)), free)
            free -= cpus
            priority = draw(st.sampled_from(tuple(PRIORITIES)))
            app = draw(st.sampled_from(("web", "db")))
            pod = _pod(f"r{len(running)}", cpus, priority, {"app": app})
            running.append(Running(pod, name, started=len(running) + 1))
    pending = _pod("p", draw(st.integers(1, _CPUS)), tuple(PRIORITIES)[-1], {})
    return Scene(ranked(tuple(nodes)), tuple(running), (pending,), draw(_budgets()))


@st.composite
def _budgets(draw: st.DrawFn) -> tuple[tuple[str, Object], ...]:
    found: list[tuple[str, Object]] = []
    for app in ("web", "db"):
        allowed = draw(st.sampled_from((None, 0, 0, 1, 2)))
        if allowed is not None:
            spec = {"minAvailable": 0, "selector": {"matchLabels": {"app": app}}}
            status = {
                "disruptionsAllowed": allowed,
                "currentHealthy": 0,
                "desiredHealthy": 0,
                "expectedPods": 0,
            }
            body = {"metadata": {"name": app}, "spec": spec, "status": status}
            path = f"/apis/policy/v1/namespaces/{_NAMESPACE}/poddisruptionbudgets"
            found.append((path, body))
    return tuple(found)


def _pod(name: str, cpus: int, priority: str, labels: dict[str, str]) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": str(cpus)}}}
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": 3600,
        "containers": [container],
        "priorityClassName": priority,
    }
    return {"metadata": {"name": name, "namespace": _NAMESPACE, "labels": labels}, "spec": spec}


def is_enough(scene: Scene, node: str, victims: Collection[str]) -> bool:
    """Return whether the pending pod of a scene fits on a node without some victims."""
    others = [each.pod for each in scene.running if each.node == node]
    staying = [pod for pod in others if pod["metadata"]["name"] not in victims]
    return sum(_cpus(pod) for pod in (*scene.pending, *staying)) <= _CPUS


def _cpus(pod: Object) -> int:
    (container,) = pod["spec"]["containers"]
    return int(container["resources"]["requests"]["cpu"])


def cost(scene: Scene, victims: Collection[str]) -> tuple[int, int, int, int]:
    """Return what kube-scheduler minimises: violations, highest priority, sum, and number.

    Victims are counted by budgets from the most important one, as kube-scheduler does.
    """
    pods = {each.pod["metadata"]["name"]: each.pod for each in scene.running}
    allowed = {
        body["metadata"]["name"]: body["status"]["disruptionsAllowed"]
        for _path, body in scene.others
    }
    values = {name: PRIORITIES[pods[name]["spec"]["priorityClassName"]] for name in victims}
    violations = 0
    for name in victims:
        app = pods[name]["metadata"]["labels"]["app"]
        if app in allowed:
            allowed[app] -= 1
            violations += allowed[app] < 0
    total = sum(value + _BASE for value in values.values())
    return violations, max(values.values()), total, len(values)
