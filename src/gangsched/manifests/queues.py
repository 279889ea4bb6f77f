"""The queue of a pod or a pod group: a label of the library, since no field says it.

Rules:
  R1  a queue is the name of a ``Quota`` of the configuration. Whether there is one is not known
      here, and the scheduler holds what is in a queue that does not exist;
  R2  the queues of other projects are read only if the configuration says so, see ``peer_quotas``:
      those projects may run beside this one and count, too.
"""

from __future__ import annotations

from typing import Final

from gangsched.manifests.fields import Field

__all__ = ["QUEUE", "queue_in"]

QUEUE: Final = "gangsched.io/queue"
"""The name of a queue; on pods, and on pod groups of any dialect."""


def queue_in(metadata: Field) -> str | None:
    """Return the queue that the labels of an object name; None if they name none.

    Raises:
        ManifestError: The label is empty.
    """
    label = metadata["labels"][QUEUE]
    return label.name() if label.given else None
