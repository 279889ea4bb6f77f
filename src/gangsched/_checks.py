"""Whether a fact is one, and a cluster state: asked where they come in.

Rules:
  R1  a fact is of one of the closed set of classes, itself: what only looks like one is none;
  R2  what it carries is of the type that its class says, so that nobody asks again;
  R3  a cluster state is what has the methods of one, whatever its class; none is called.
"""

from __future__ import annotations

from typing import Final

from gangsched.errors import InvalidValueError
from gangsched.events import (
    BindFailed,
    Bound,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodUpdated,
)
from gangsched.model import Node, Pod, PodGroup

__all__ = ["check_cluster", "check_event"]

_CARRIED: Final[dict[type, tuple[tuple[str, type, str], ...]]] = {
    PodAdded: (("pod", Pod, "a Pod"),),
    PodUpdated: (("pod", Pod, "a Pod"),),
    PodDeleted: (("uid", str, "a string"),),
    NodeAdded: (("node", Node, "a Node"),),
    NodeUpdated: (("node", Node, "a Node"),),
    NodeDeleted: (("name", str, "a string"),),
    PodGroupAdded: (("group", PodGroup, "a PodGroup"),),
    PodGroupUpdated: (("group", PodGroup, "a PodGroup"),),
    PodGroupDeleted: (("key", str, "a string"),),
    Bound: (("uid", str, "a string"), ("node", str, "a string"), ("attempt", int, "an int")),
    BindFailed: (
        ("uid", str, "a string"),
        ("attempt", int, "an int"),
        ("reason", str, "a string"),
    ),
}

_ASKED: Final = ("nodes", "node", "pods", "pod", "pods_on", "pod_groups", "pod_group")


def check_cluster(cluster: object) -> None:
    """Refuse what lacks a method of ``ClusterState``.

    Runtime complexity: O(1).

    Raises:
        InvalidValueError: It does (``cluster``).
    """
    lacking = [name for name in _ASKED if not callable(getattr(cluster, name, None))]
    if lacking:
        expected = f"a ClusterState, which has the methods {', '.join(lacking)}"
        raise InvalidValueError("cluster", cluster, expected)


def check_event(event: object) -> None:
    """Refuse what is no fact.

    Runtime complexity: O(1).

    Raises:
        InvalidValueError: It is of no class of facts (``event``), or carries what it cannot.
    """
    carried = _CARRIED.get(type(event))
    if carried is None:
        raise InvalidValueError("event", event, "an Event, see gangsched.events")
    for name, kind, expected in carried:
        value = getattr(event, name)
        if not isinstance(value, kind):
            raise InvalidValueError(name, value, expected)
