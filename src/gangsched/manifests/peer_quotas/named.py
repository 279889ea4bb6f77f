"""Which queue a pod or a pod group names, in the spelling of another project.

Rules:
  R1  the label of this library counts before the spelling of another project;
  R2  an object that names no queue is in that which its project has for such objects, if it exists;
  R3  a local queue of Kueue is named with its namespace: ``team/queue``. It leads to a cluster
      queue only where the local queues are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gangsched.manifests.manifest import Manifest
from gangsched.manifests.peer_quotas.koordinator import DEFAULT_QUOTA, PREFIX
from gangsched.manifests.peer_quotas.yunikorn import full_name
from gangsched.manifests.queues import queue_in

__all__ = ["DEFAULT_OF_VOLCANO", "KEYS", "default_queue", "named_queue", "queue_of_group"]

_LABEL: Final = "labels"
_ANNOTATION: Final = "annotations"
_NAMED_BY: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "kueue": (
        (_LABEL, "kueue.x-k8s.io/queue-name"),
        (_LABEL, "kueue.x-k8s.io/local-queue-name"),
    ),
    "kai": ((_LABEL, "kai.scheduler/queue"),),
    "volcano": (
        (_LABEL, "volcano.sh/queue-name"),
        (_ANNOTATION, "scheduling.volcano.sh/queue-name"),
        (_ANNOTATION, "volcano.sh/queue-name"),
    ),
    "yunikorn": (
        (_LABEL, "yunikorn.apache.org/queue"),
        (_ANNOTATION, "yunikorn.apache.org/queue"),
        (_LABEL, "queue"),
    ),
    "koordinator": ((_LABEL, f"{PREFIX}name"),),
}
"""By project, the labels and annotations that name a queue; the first one counts."""
KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    peer: tuple(key for _where, key in named) for peer, named in _NAMED_BY.items()
}
"""The labels and annotations that name a queue, by project."""
DEFAULT_OF_VOLCANO: Final = "default"
"""The queue of pod groups of Volcano that name none; its API server states it."""
_DEFAULTS: Final[Mapping[str, str]] = {
    "kueue": "{namespace}/default",
    "kai": "default-queue",
    "volcano": DEFAULT_OF_VOLCANO,
    "yunikorn": "root.default",
    "koordinator": DEFAULT_QUOTA,
}
_VOLCANO: Final = "scheduling.volcano.sh/"


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
    found = {_LABEL: labels, _ANNOTATION: annotations}
    names = (found[where].get(key, "") for where, key in _NAMED_BY.get(peer, ()))
    name = next(filter(None, names), None)
    if name is None:
        return None
    if peer == "kueue":
        return f"{namespace}/{name}"
    return full_name(name) if peer == "yunikorn" else name


def default_queue(peer: str, namespace: str) -> str:
    """Return the queue of objects of a namespace that name none, which may not exist."""
    return _DEFAULTS[peer].format(namespace=namespace)


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
        found = document["spec"]["queue"].text(DEFAULT_OF_VOLCANO if is_volcano else "") or None
    return found
