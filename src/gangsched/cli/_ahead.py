"""What is tried before a pod group: how many groups and pods, and what they request.

Rules:
  R1  the order is that of ``Scheduler.pending``;
  R2  only what could start counts: a group that lacks members, or is not admitted, does not.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, final

from attrs import frozen

from gangsched.errors import InvalidPodGroupError
from gangsched.explain import BackingOff, NoNodeFits, PartlyRunning, Queued
from gangsched.listings import PendingRow
from gangsched.membership import membership
from gangsched.model import GroupKey, Pod, Resources
from gangsched.simulation import Simulator

__all__ = ["QueueAhead", "queue_ahead"]

_QUEUED: Final = Queued | BackingOff | NoNodeFits


@final
@frozen
class QueueAhead:
    """The queue before a pod group.

    Attributes:
        count: The number of pod groups, and of pods without a group.
        requests: What their pods without a node request in total.
    """

    count: int
    requests: Resources

    def __str__(self) -> str:
        which = "1 other pod group or pod is" if self.count == 1 else ""
        which = which or f"{self.count} other pod groups and pods are"
        what = f"; together they request {self.requests}" if self.requests else ""
        return f"{which} tried before it{what}"

    def to_dict(self) -> dict[str, Any]:
        """Return the count and the requests as plain data."""
        requests = {name: self.requests.quantity(name) for name in self.requests}
        return {"count": self.count, "requests": requests}


def queue_ahead(simulator: Simulator, key: GroupKey) -> QueueAhead | None:
    """Return what is tried before a group; None if the group is not queued, or is the first.

    Runtime complexity: O(pods log pods).
    """
    queued = [row for row in simulator.scheduler.pending() if _is_queued(row)]
    place = next((place for place, row in enumerate(queued) if row.group == key), 0)
    if not place:
        return None
    before = queued[:place]
    groups = {row.group for row in before if row.group is not None}
    single = {row.uid for row in before if row.uid is not None}
    total: Counter[str] = Counter()
    for pod in simulator.cluster.pods():
        needs_a_node = pod.node_name is None and pod.deleted_at is None and not pod.is_finished
        if needs_a_node and (pod.uid in single or _group(pod) in groups):
            total.update(pod.requests.to_milli())
    return QueueAhead(place, Resources.from_milli(total))


def _is_queued(row: PendingRow) -> bool:
    """Return whether a pod or a group is tried; of a group that runs, the rest is."""
    why = row.why.rest if isinstance(row.why, PartlyRunning) else row.why
    return isinstance(why, _QUEUED)


def _group(pod: Pod) -> GroupKey | None:
    try:
        claim = membership(pod)
    except InvalidPodGroupError:
        return None
    return None if claim is None else claim.group
