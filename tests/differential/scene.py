"""A scene: nodes, running pods and pending pods, as the objects that an API server is given.

Rules:
  R1  a scene is plain JSON without anything random in it: the same scene can be played again;
  R2  nodes carry a rank, as a label. No two are equal, and both schedulers prefer the highest rank
      among nodes that are equal otherwise. So both have one best node among those that fit.
"""

from __future__ import annotations

from typing import Any, Final

from attrs import evolve, field, frozen

__all__ = [
    "ENDED",
    "HIGHEST",
    "NAMESPACES",
    "RANK",
    "Object",
    "Running",
    "Scene",
    "ranked",
    "repelling_by_rank",
]

Object = dict[str, Any]

RANK: Final = "judge.test/rank"
HIGHEST: Final = 10
"""The highest rank; a scene has no more nodes."""

ENDED: Final = ("Succeeded", "Failed")
"""The phases of a pod that has ended."""

NAMESPACES: Final[dict[str, dict[str, str]]] = {
    "judge-a": {"team": "red"},
    "judge-b": {"team": "blue"},
}
"""The namespaces of every scene, with their labels."""


@frozen
class Running:
    """A pod that is on a node already.

    Attributes:
        pod: The pod, without ``spec.nodeName``.
        node: The name of its node.
        is_terminating: Whether its deletion has begun.
        phase: Its phase; empty to leave it as it is.
        started: The second of a minute at which it started; 0 if its start is unknown.
        status: What else its status says.
    """

    pod: Object
    node: str
    is_terminating: bool = False
    phase: str = ""
    started: int = 0
    status: Object = field(factory=dict[str, Any])


@frozen
class Scene:
    """What one example puts on the cluster.

    Attributes:
        nodes: The nodes; see ``ranked``.
        running: Pods on nodes.
        pending: Pods to place, in this order, each seeing those before it placed. One that names
            its node in ``spec.nodeName`` is there at once, and is not decided about.
        others: Further objects, with the path of their list: volumes, claims, classes.
    """

    nodes: tuple[Object, ...]
    running: tuple[Running, ...] = ()
    pending: tuple[Object, ...] = ()
    others: tuple[tuple[str, Object], ...] = field(default=())


def ranked(nodes: tuple[Object, ...]) -> tuple[Object, ...]:
    """Return the nodes with a rank each, the first highest, and with the labels of a node."""
    return tuple(_with_rank(node, len(nodes) - place) for place, node in enumerate(nodes))


def repelling_by_rank(scene: Scene) -> Scene:
    """Return a scene in which a node has more taints the lower its rank is.

    The taints only prefer that pods go elsewhere. So the score of ``TaintToleration`` prefers the
    higher rank where ``NodeAffinity`` is the plugin that is compared.
    """
    return evolve(scene, nodes=tuple(_with_taints(node) for node in scene.nodes))


def _with_taints(node: Object) -> Object:
    missing = HIGHEST - int(node["metadata"]["labels"][RANK])
    taints = [
        {"key": f"judge.test/rank-{number}", "effect": "PreferNoSchedule"}
        for number in range(missing)
    ]
    return {**node, "spec": {**node["spec"], "taints": taints}}


def _with_rank(node: Object, rank: int) -> Object:
    name = node["metadata"]["name"]
    labels = {"kubernetes.io/hostname": name, **node["metadata"].get("labels", {}), RANK: str(rank)}
    return {**node, "metadata": {**node["metadata"], "labels": labels}}
