"""Which queue a pod or a pod group names, in the spelling of another project.

Rules:
  R1  the label of this library counts before the spelling of another project;
  R2  a local queue of Kueue is named with its namespace: ``team/queue``. It leads to a cluster
      queue only where the local queues are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gangsched.manifests.manifest import Manifest
from gangsched.manifests.peer_quotas.koordinator import PREFIX
from gangsched.manifests.peer_quotas.yunikorn import full_name
from gangsched.manifests.queues import queue_in

__all__ = ["KEYS", "named_queue", "queue_of_group"]

_LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    "kueue": ("kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/local-queue-name"),
    "kai": ("kai.scheduler/queue",),
    "volcano": ("volcano.sh/queue-name",),
    "yunikorn": ("yunikorn.apache.org/queue", "queue"),
    "koordinator": (f"{PREFIX}name",),
}
_ANNOTATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "volcano": ("scheduling.volcano.sh/queue-name", "volcano.sh/queue-name"),
    "yunikorn": ("yunikorn.apache.org/queue",),
}
KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    peer: (*labels, *_ANNOTATIONS.get(peer, ())) for peer, labels in _LABELS.items()
}
"""The labels and annotations that name a queue, by project."""
_VOLCANO: Final = "scheduling.volcano.sh/"
_DEFAULT_OF_VOLCANO: Final = "default"


def named_queue(
    peer: str, namespace: str, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> str | None:
    """Return the queue that labels and annotations of an object name; None if they name none.

    Args:
        peer: The project.
        namespace: The namespace of the object.
        labels: Its labels.
        annotations: Its annotations.
    """
    names = [labels.get(key, "") for key in _LABELS.get(peer, ())]
    names += [annotations.get(key, "") for key in _ANNOTATIONS.get(peer, ())]
    name = next(filter(None, names), None)
    if name is None:
        return None
    if peer == "kueue":
        return f"{namespace}/{name}"
    return full_name(name) if peer == "yunikorn" else name


def queue_of_group(manifest: Manifest, *, dialect: str = "") -> str | None:
    """Return the queue that a pod group names; None if it names none.

    Args:
        manifest: The group.
        dialect: The project whose queues ``spec.queue`` names; empty if there is no such field.

    Raises:
        ManifestError: It is malformed.
    """
    document, peer = manifest.document, manifest.queues_from
    metadata = document["metadata"]
    own = queue_in(metadata)
    if own is not None or not peer:
        return own
    found = named_queue(
        peer, manifest.namespace, metadata["labels"].texts(), metadata["annotations"].texts()
    )
    if found is None and dialect == peer:
        # an item of a list may be without a version; then the API server has put the default in
        is_volcano = document["apiVersion"].text().startswith(_VOLCANO)
        found = document["spec"]["queue"].text(_DEFAULT_OF_VOLCANO if is_volcano else "") or None
    return found
