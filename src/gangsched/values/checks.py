"""Validate events and cluster states where they enter the package.

Rules:
  R1  an event is an exact instance of one of the event classes; duck typing is not accepted;
  R2  the fields of an event have the declared types, so that no later code checks them again;
  R3  a cluster state is any object with the methods of ``ClusterState``; none of them is called.
"""

from __future__ import annotations

from typing import Any, Final

from gangsched.cluster_objects import KINDS
from gangsched.errors import InvalidValueError
from gangsched.events import (
    BindFailed,
    Bound,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    ObjectChanged,
    ObjectDeleted,
    PermitAllowed,
    PermitRejected,
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
    ObjectDeleted: (("object_kind", str, "a string"), ("key", str, "a string")),
    Bound: (("uid", str, "a string"), ("node", str, "a string"), ("attempt", int, "an int")),
    BindFailed: (
        ("uid", str, "a string"),
        ("attempt", int, "an int"),
        ("reason", str, "a string"),
    ),
    PermitAllowed: (
        ("uid", str, "a string"),
        ("plugin", str, "a string"),
        ("attempt", int, "an int"),
    ),
    PermitRejected: (
        ("uid", str, "a string"),
        ("plugin", str, "a string"),
        ("attempt", int, "an int"),
        ("reason", str, "a string"),
    ),
}

_OBJECTS: Final = frozenset(KINDS.values())
_ASKED: Final = ("nodes", "node", "pods", "pod", "pods_on", "pod_groups", "pod_group")


def check_cluster(cluster: object) -> None:
    """Require an object with the methods of ``ClusterState``.

    Runtime complexity: O(1).

    Raises:
        InvalidValueError: A method is missing (``cluster``).
    """
    lacking = [name for name in _ASKED if not callable(getattr(cluster, name, None))]
    if lacking:
        expected = f"a ClusterState with the methods {', '.join(lacking)}"
        raise InvalidValueError("cluster", cluster, expected)


def check_event(event: object) -> None:
    """Require an event.

    Runtime complexity: O(1).

    Raises:
        InvalidValueError: *event* is no event (``event``), or a field has a wrong type.
    """
    carried = _CARRIED.get(type(event))
    if carried is None:
        if type(event) is ObjectChanged:
            value: Any = event.value
            if type(value) not in _OBJECTS:
                raise InvalidValueError("value", value, f"one of {', '.join(KINDS)}")
            return
        raise InvalidValueError("event", event, "an Event, see gangsched.events")
    for name, kind, expected in carried:
        value = getattr(event, name)
        if not isinstance(value, kind):
            raise InvalidValueError(name, value, expected)
    if type(event) is ObjectDeleted and event.object_kind not in KINDS:
        raise InvalidValueError("object_kind", event.object_kind, f"one of {', '.join(KINDS)}")
