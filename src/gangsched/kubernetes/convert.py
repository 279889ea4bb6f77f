"""Between the API server's JSON and the values of this library.

Rules:
  R1  pure: mappings in, values out, and back;
  R2  instants are seconds since 1970, as the API server gives them: whole seconds;
  R3  an event of a watch is read if its kind is known; bookmarks and other kinds give None.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, cast

from attrs import evolve

from gangsched.errors import InvalidValueError, ManifestError
from gangsched.events import (
    Bind,
    Event,
    Evict,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodUnschedulable,
    PodUpdated,
)
from gangsched.model import Pod, PodGroup
from gangsched.objects import (
    Field,
    Manifest,
    PriorityClasses,
    Source,
    read_core_group,
    read_group,
    read_manifest,
    read_node,
    read_pod,
)

__all__ = ["binding", "deletion", "read_event", "unschedulable_condition"]

_WATCH: Final = "watch"
_CLASSES: Final = PriorityClasses()


def read_event(change: Mapping[str, Any]) -> Event | None:
    """Return one event of a watch; None for a bookmark or an unknown kind.

    Args:
        change: ``{"type": "ADDED", "object": {...}}``, as decoded from JSON.

    Raises:
        ManifestError: The event is malformed, or it is an error that the API server reports, such
            as that the watch must be restarted.
    """
    if not isinstance(change, Mapping):
        raise Field(Source(_WATCH, 1), "", cast("Any", change)).refuse("a mapping")
    kind, value = change.get("type"), change.get("object")
    root = Field(Source(_WATCH, 1), "", cast("Any", value))
    if kind == "BOOKMARK":
        return None
    if kind == "ERROR":
        raise root.problem(f"the API server reports: {root['message'].text('an error')}")
    if kind not in ("ADDED", "MODIFIED", "DELETED"):
        raise root.problem(f"expected ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, got {kind!r}")
    version, what = root["apiVersion"].name(), root["kind"].name()
    group = version.rpartition("/")[0]
    created_at = _instant(root["metadata"]["creationTimestamp"]) or 0.0
    manifest = read_manifest(root, at=created_at, classes=_CLASSES)
    match (group, what):
        case ("", "Pod"):
            return _pod_event(kind, _pod(manifest))
        case ("", "Node"):
            node = read_node(manifest)
            if kind == "DELETED":
                return NodeDeleted(node.name)
            return NodeAdded(node) if kind == "ADDED" else NodeUpdated(node)
        case ("scheduling.k8s.io", "PodGroup"):
            return _group_event(kind, read_core_group(manifest))
        case (
            "scheduling.x-k8s.io" | "scheduling.sigs.k8s.io" | "scheduling.volcano.sh",
            "PodGroup",
        ):
            return _group_event(kind, read_group(manifest))
        case _:
            return None


def binding(effect: Bind, pod: Pod) -> dict[str, Any]:
    """Return the body to post to the ``binding`` subresource of a pod.

    The body has the UID, so that a pod of the same name that was created meanwhile is not bound.

    Raises:
        InvalidValueError: An argument has a wrong type.
    """
    _check("effect", effect, Bind)
    _check("pod", pod, Pod)
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": effect.node},
    }


def deletion(effect: Evict) -> dict[str, Any]:
    """Return the body of the request that deletes a pod.

    The body has the UID, so that a pod of the same name that was created meanwhile is not deleted.
    The request is a deletion and not an eviction, because disruption budgets must not keep a part
    of a failed gang running.

    Raises:
        InvalidValueError: *effect* is not an Evict.
    """
    _check("effect", effect, Evict)
    return {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": effect.uid},
    }


def unschedulable_condition(notice: PodUnschedulable) -> dict[str, Any]:
    """Return the strategic merge patch of a pod's status that autoscalers look for.

    Raises:
        InvalidValueError: *notice* is not a PodUnschedulable.
    """
    _check("notice", notice, PodUnschedulable)
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": notice.reason,
    }
    return {"status": {"conditions": [condition]}}


def _check(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise InvalidValueError(name, value, f"a {kind.__name__}")


def _pod(manifest: Manifest) -> Pod:
    pod = read_pod(manifest, manifest.document)
    deleted_at = _instant(manifest.document["metadata"]["deletionTimestamp"])
    return evolve(pod, deleted_at=deleted_at)


def _pod_event(kind: str, pod: Pod) -> Event:
    if kind == "DELETED":
        return PodDeleted(pod.uid)
    return PodAdded(pod) if kind == "ADDED" else PodUpdated(pod)


def _group_event(kind: str, group: PodGroup) -> Event:
    if kind == "DELETED":
        return PodGroupDeleted(group.key)
    return PodGroupAdded(group) if kind == "ADDED" else PodGroupUpdated(group)


def _instant(field: Field) -> float | None:
    text = field.text()
    if not text:
        return None
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise field.refuse("an instant such as 2026-01-31T12:00:00Z") from None
    if when.tzinfo is None:
        raise _without_zone(field)
    return when.timestamp()


def _without_zone(field: Field) -> ManifestError:
    return field.refuse("an instant with its time zone, such as 2026-01-31T12:00:00Z")
