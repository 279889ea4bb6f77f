"""Between the API server's JSON and the values of this library.

Rules:
  R1  pure: mappings in, values out, and back;
  R2  instants are seconds since 1970, as the API server gives them: whole seconds;
  R3  a notification is read if its kind is known; bookmarks and other kinds give no event;
  R4  nothing is ignored without a note.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final, cast, final

from attrs import evolve, frozen

from gangsched.errors import InvalidValueError, ManifestError
from gangsched.events import (
    Bind,
    Event,
    Evict,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    ObjectChanged,
    ObjectDeleted,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodUnschedulable,
    PodUpdated,
)
from gangsched.manifests import (
    DIALECTS,
    OBJECT_KINDS,
    Field,
    Manifest,
    Note,
    PriorityClasses,
    Source,
    read_group_of,
    read_manifest,
    read_node,
    read_object,
    read_pod,
)
from gangsched.manifests.group_fields import GROUP_KINDS
from gangsched.model import NodeName, Pod, PodUID, group_key

__all__ = [
    "DEFAULT_SCHEDULERS",
    "Notification",
    "binding",
    "deletion",
    "read_event",
    "read_notification",
    "unschedulable_condition",
]

_WATCH: Final = "watch"
_CORE_GROUP: Final = "scheduling.k8s.io"
_CLASSES: Final = PriorityClasses()
_NAMESPACED: Final = (
    *("PersistentVolumeClaim", "CSIStorageCapacity", "PodDisruptionBudget"),
    *("Service", "ReplicationController", "ReplicaSet", "StatefulSet"),
)

DEFAULT_SCHEDULERS: Final = ("default-scheduler", "gangsched")
"""The values of ``spec.schedulerName`` whose pods are scheduled unless the caller names others."""


@final
@frozen
class Notification:
    """A notification of a watch, read.

    Attributes:
        event: The event for a scheduler; None for a bookmark or an unknown kind.
        notes: What was read otherwise than the object says. A note of the kind ``HELD`` names a
            constraint for which the scheduler holds the pod.
    """

    event: Event | None
    notes: tuple[Note, ...] = ()


def read_notification(
    change: Mapping[str, Any],
    *,
    ignore: Collection[str] = (),
    scheduler_names: Collection[str] | None = DEFAULT_SCHEDULERS,
    classes: PriorityClasses | None = None,
) -> Notification:
    """Return one notification of a watch as an event, with notes.

    A pending pod with a hard constraint that is not modelled is read with that constraint in
    ``Pod.unmodelled``, so that no scheduler places it. Of a deleted object only name and UID are
    read.

    Args:
        change: ``{"type": "ADDED", "object": {...}}``, as decoded from JSON. The object may be one
            as for ``kubectl apply``, with a quantity such as ``cpu: 0.5``.
        ignore: Constraints that are not modelled and shall be ignored, as paths without indices:
            ``spec.resourceClaims``.
        scheduler_names: The values of ``spec.schedulerName`` whose pods are scheduled. A pending
            pod of another scheduler is held. None for all.
        classes: The priority classes that groups may name; None for those that Kubernetes defines.

    Raises:
        ManifestError: The notification is malformed, or it is an error that the API server
            reports, such as that the watch must be restarted.
        InvalidValueError: An argument has a wrong type.
    """
    if not isinstance(change, Mapping):
        raise Field(Source(_WATCH, 1), "", cast("Any", change)).refuse("a mapping")
    kind, value = change.get("type"), change.get("object")
    root = Field(Source(_WATCH, 1), "", cast("Any", value))
    if kind == "BOOKMARK":
        return Notification(None)
    if kind == "ERROR":
        raise root.problem(f"the API server reports: {root['message'].text('an error')}")
    if kind not in ("ADDED", "MODIFIED", "DELETED"):
        found = Field(Source(_WATCH, 1), "type", cast("Any", kind))
        raise found.refuse("ADDED, MODIFIED, DELETED, BOOKMARK or ERROR")
    version, what = root["apiVersion"].name(), root["kind"].name()
    api = version.rpartition("/")[0]
    if not _is_known(api, what):
        return Notification(None)
    created_at = _instant(root["metadata"]["creationTimestamp"]) or 0.0 if kind != "DELETED" else 0
    manifest = read_manifest(
        root,
        at=created_at,
        classes=_CLASSES if classes is None else classes,
        ignore=ignore,
        scheduler_names=scheduler_names,
    )
    event = _deleted(manifest, what) if kind == "DELETED" else _changed(kind, manifest, api, what)
    return Notification(event, tuple(root.source.noted))


def read_event(change: Mapping[str, Any]) -> Event | None:
    """Return the event of a notification; None for a bookmark or an unknown kind.

    ``read_notification`` returns the notes too, and has options.

    Args:
        change: ``{"type": "ADDED", "object": {...}}``, as decoded from JSON.

    Raises:
        ManifestError: The notification is malformed, or it is an error that the API server
            reports, such as that the watch must be restarted.
    """
    return read_notification(change).event


def _is_known(api: str, kind: str) -> bool:
    if (api, kind) in OBJECT_KINDS or (api == "" and kind in ("Pod", "Node")):
        return True
    if api == _CORE_GROUP:
        return kind in GROUP_KINDS
    return kind == "PodGroup" and api in DIALECTS


def _deleted(manifest: Manifest, kind: str) -> Event:
    if kind == "Pod":
        uid = manifest.document["metadata"]["uid"]
        return PodDeleted(PodUID(uid.text(f"{manifest.namespace}/{manifest.name}")))
    if kind == "Node":
        return NodeDeleted(NodeName(manifest.name))
    if kind in GROUP_KINDS:
        return PodGroupDeleted(group_key(manifest.namespace, manifest.name))
    namespaced = kind in _NAMESPACED
    key = f"{manifest.namespace}/{manifest.name}" if namespaced else manifest.name
    return ObjectDeleted(kind, key)


def _changed(how: str, manifest: Manifest, api: str, kind: str) -> Event:
    if (api, kind) in OBJECT_KINDS:
        return ObjectChanged(read_object(manifest))
    if kind == "Pod":
        pod = _pod(manifest)
        return PodAdded(pod) if how == "ADDED" else PodUpdated(pod)
    if kind == "Node":
        node = read_node(manifest)
        return NodeAdded(node) if how == "ADDED" else NodeUpdated(node)
    group = read_group_of(api, manifest)
    return PodGroupAdded(group) if how == "ADDED" else PodGroupUpdated(group)


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
