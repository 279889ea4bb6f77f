"""A cluster on the API server in memory: what a test puts into it, and what it looks at."""

from __future__ import annotations

from typing import Any

from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.memory_api import Fault, MemoryApi

__all__ = [
    "all_bound",
    "change",
    "cluster",
    "condition",
    "events",
    "notes",
    "put_gang",
    "reasons",
    "scheduled",
    "striking",
]


def cluster(nodes: int = 1, *, api: MemoryApi | None = None, **node: Any) -> MemoryApi:
    """Return a cluster with the nodes ``n0``, ``n1``, …; *api* itself, if it is given."""
    api = MemoryApi() if api is None else api
    for n in range(nodes):
        api.put(NODES, node_json(f"n{n}", **node))
    return api


def put_gang(
    api: MemoryApi, name: str = "g", size: int = 3, *, grouped: bool = True, **pod: Any
) -> None:
    """Add a native PodGroup and its pods ``g-0``, ``g-1``, …; not *grouped*: the pods alone."""
    if grouped:
        api.put(GROUPS, group_json(name, size))
    for n in range(size):
        api.put(PODS, pod_json(f"{name}-{n}", group=name, **pod))


def change(api: MemoryApi, collection: str, key: str, **fields: Any) -> None:
    """Update ``spec``, ``status`` or ``metadata`` of an object with these fields."""
    found = api.get(collection, key)
    assert found is not None
    for name, value in fields.items():
        found.setdefault(name, {}).update(value)
    api.put(collection, found)


def condition(api: MemoryApi, collection: str, name: str, kind: str) -> dict[str, Any]:
    """Return a condition of an object; empty if it has none of that type."""
    found = api.get(collection, f"default/{name}") or {}
    conditions = found.get("status", {}).get("conditions", ())
    return next((each for each in conditions if each["type"] == kind), dict[str, Any]())


def scheduled(api: MemoryApi, name: str) -> dict[str, Any]:
    """Return the condition ``PodScheduled`` of a pod; empty if it has none."""
    return condition(api, PODS, name, "PodScheduled")


def events(api: MemoryApi, name: str | None = None) -> list[dict[str, Any]]:
    """Return the events that regard an object of this name; None: all."""
    found = api.objects.get("/apis/events.k8s.io/v1/events", {}).values()
    return [each for each in found if name in (None, each["regarding"]["name"])]


def reasons(api: MemoryApi, name: str | None = None) -> list[str]:
    """Return the reasons of the events of an object."""
    return [each["reason"] for each in events(api, name)]


def notes(api: MemoryApi, name: str | None = None) -> list[str]:
    """Return the notes of the events of an object."""
    return [each["note"] for each in events(api, name)]


def all_bound(api: MemoryApi) -> bool:
    """Return whether each pod has a node."""
    return all(api.pods().values())


def striking(*faults: Fault, ends: str = "/binding", method: str = "POST") -> Any:
    """Return what lets one request after the other to such a path fail."""
    left = list(faults)

    def fault(given: str, path: str) -> Fault | None:
        strikes = given in method and path.partition("?")[0].endswith(ends) and left
        return left.pop(0) if strikes else None

    return fault
