"""Gangs on a real API server, one way of writing them for each row of the table of spellings."""

from __future__ import annotations

from typing import Any, Final

from attrs import frozen

from support.cluster_objects import pod_json
from support.control_plane import ApiError, Client
from support.definitions import CRDS, definition
from support.patience import until

__all__ = ["SPELLED", "Spelled", "create_gang", "serve_groups"]

Object = dict[str, Any]

_KEP_2: Final = "pod-group.scheduling.sigs.k8s.io"
_VERSIONS: Final = {
    "scheduling.k8s.io": "v1beta1",
    "scheduling.x-k8s.io": "v1alpha1",
    "scheduling.sigs.k8s.io": "v1alpha1",
    "scheduling.volcano.sh": "v1beta1",
    "scheduling.run.ai": "v2alpha2",
}
"""By API group, the version of its PodGroups."""


@frozen
class Spelled:
    """How a gang is written.

    Attributes:
        name: A name for names of objects.
        labels: The labels of a pod; values may contain ``{name}`` and ``{size}``.
        annotations: The annotations, alike.
        api: The API group of its PodGroup; empty for a gang without one.
    """

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    api: str = ""

    def __str__(self) -> str:
        return self.name


def _beside(name: str, minimum: str) -> tuple[tuple[str, str], ...]:
    return ((name, "{name}"), (minimum, "{size}"))


_KOORDINATOR: Final = "gang.scheduling.koordinator.sh"
_KUEUE: Final = "kueue.x-k8s.io/pod-group"

SPELLED: Final = (
    Spelled("native", api="scheduling.k8s.io"),
    Spelled("kep2", _beside(f"{_KEP_2}/name", f"{_KEP_2}/min-available")),
    Spelled("short", _beside("pod-group/name", "pod-group/min-available")),
    Spelled("plugins", (("scheduling.x-k8s.io/pod-group", "{name}"),), api="scheduling.x-k8s.io"),
    Spelled("older", ((_KEP_2, "{name}"),), api="scheduling.sigs.k8s.io"),
    Spelled(
        "batch", (), (("scheduling.k8s.io/group-name", "{name}"),), api="scheduling.volcano.sh"
    ),
    Spelled(
        "volcano",
        (),
        (("scheduling.volcano.sh/group-name", "{name}"),),
        api="scheduling.volcano.sh",
    ),
    Spelled("koordinator", (), _beside(f"{_KOORDINATOR}/name", f"{_KOORDINATOR}/min-available")),
    Spelled("kai", (), (("pod-group-name", "{name}"),), api="scheduling.run.ai"),
    Spelled("kueue", ((f"{_KUEUE}-name", "{name}"),), ((f"{_KUEUE}-total-count", "{size}"),)),
)
"""One for each row of the table of spellings."""


def serve_groups(client: Client) -> None:
    """Let an API server serve the PodGroups that are not built in."""
    for group, version in _VERSIONS.items():
        if group != "scheduling.k8s.io":
            client.create(CRDS, definition(f"{group}/{version}", "PodGroup", "podgroups"))
    until(lambda: all(_is_served(client, *each) for each in _VERSIONS.items()))


def _is_served(client: Client, group: str, version: str) -> bool:
    try:
        client.get(f"/apis/{group}/{version}/podgroups")
    except ApiError as error:
        if error.status not in (404, 429, 503):
            raise
        return False
    return True


def create_gang(
    client: Client, spelled: Spelled, namespace: str, name: str, size: int, **pod: Any
) -> list[str]:
    """Create a gang of *size* pods that start together; return the names of its pods.

    Args:
        client: A client of the API server.
        spelled: How it is written.
        namespace: Its namespace.
        name: Its name.
        size: How many members it has, and needs.
        **pod: More of ``pod_json``.
    """
    if spelled.api:
        version = _VERSIONS[spelled.api]
        native = spelled.api == "scheduling.k8s.io"
        minimum = {"schedulingPolicy": {"gang": {"minCount": size}}}
        body = {
            "apiVersion": f"{spelled.api}/{version}",
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": minimum if native else {"minMember": size},
        }
        client.create(f"/apis/{spelled.api}/{version}/namespaces/{namespace}/podgroups", body)
    texts = {"name": name, "size": size}
    members = [f"{name}-{number}" for number in range(size)]
    for member in members:
        group = name if spelled.name == "native" else None
        found = pod_json(member, group=group, namespace=namespace, **pod)
        found["metadata"]["labels"] = {k: v.format(**texts) for k, v in spelled.labels}
        found["metadata"]["annotations"] = {k: v.format(**texts) for k, v in spelled.annotations}
        del found["status"]
        client.create(f"/api/v1/namespaces/{namespace}/pods", found)
    return members
