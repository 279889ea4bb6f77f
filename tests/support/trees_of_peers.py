"""Documents of peers with trees: read, and what starts of their pods."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from gangsched import (
    Bind,
    InMemoryCluster,
    Node,
    NodeAdded,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodRefused,
    Scheduler,
    presets,
)
from gangsched.kubernetes import Notification, read_notification
from gangsched.kubernetes._facts import Dialect
from gangsched.kubernetes._read import read_pod_group_slowly

__all__ = [
    "Document",
    "Placed",
    "group_in",
    "placed",
    "pod_document",
    "pod_in",
    "read",
    "read_from_list",
    "starts",
]

Document = dict[str, Any]


def read(document: Mapping[str, Any], *, ignore: Collection[str] = ()) -> Notification:
    """Return a document as a notification of a watch."""
    change = {"type": "ADDED", "object": document}
    return read_notification(change, ignore=ignore, scheduler_names=None)


def group_in(document: Mapping[str, Any], *, ignore: Collection[str] = ()) -> PodGroup:
    """Return the group of a document."""
    event = read(document, ignore=ignore).event
    assert isinstance(event, PodGroupAdded)
    return event.group


def pod_in(document: Mapping[str, Any]) -> Pod:
    """Return the pod of a document."""
    event = read(document).event
    assert isinstance(event, PodAdded)
    return event.pod


def read_from_list(document: Mapping[str, Any]) -> PodGroup:
    """Return the group as the scheduler on a cluster reads it from a list: without its version."""
    api, _slash, version = document["apiVersion"].partition("/")
    bare = {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}
    dialect = Dialect(api, version, f"/apis/{api}/{version}/podgroups")
    return read_pod_group_slowly({**bare, "kind": "PodGroup"}, dialect)[0]


def pod_document(name: str, *, cpu: int = 1, **metadata: Any) -> Document:
    """Return a pod that requests some CPU."""
    container = {"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, **metadata},
        "spec": {"containers": [container]},
    }


class Placed(NamedTuple):
    """Where pods start, by UID; why others are refused; and the scheduler."""

    nodes: dict[str, str]
    refused: dict[str, str]
    scheduler: Scheduler


def placed(documents: Iterable[Mapping[str, Any]], *nodes: Node, **options: Any) -> Placed:
    """Return where pods start.

    Args:
        documents: Groups and pods, in the order in which they come.
        nodes: The nodes.
        options: Those of ``presets.gang``.
    """
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, **options)
    events = [NodeAdded(node) for node in nodes]
    effects = [each for e in events for each in scheduler.handle(cluster.apply(e), now=0.0)]
    for document in documents:
        event = read(document).event
        assert event is not None
        effects += scheduler.handle(cluster.apply(event), now=0.0)
    while (more := scheduler.schedule_one(now=0.0)) is not None:
        effects += more
    bound = {str(each.uid): str(each.node) for each in effects if isinstance(each, Bind)}
    refused = {str(each.uid): each.reason for each in effects if isinstance(each, PodRefused)}
    return Placed(bound, refused, scheduler)


def starts(documents: Iterable[Mapping[str, Any]], cpu: int) -> tuple[set[str], dict[str, str]]:
    """Return the pods that start on one node, by UID, and why others are refused.

    Args:
        documents: Groups and pods, in the order in which they come.
        cpu: The CPUs of the node.
    """
    node = Node(name="n", allocatable={"cpu": cpu, "memory": "999Gi", "pods": 999})
    found = placed(documents, node)
    return {*found.nodes}, found.refused
