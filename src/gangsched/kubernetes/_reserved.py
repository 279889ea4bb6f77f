"""The sentence about nodes reserved for another gang, beside a reason for lack of capacity.

A filter sees a reserved node as a full one, so its reason is ``Insufficient cpu`` while ``kubectl
describe node`` shows that the CPUs are free. The sentence says where they are.

Rules:
  R1  only a reason for lack of capacity gets it. That of the gang with the reservation does not,
      and neither does that of a higher priority, which may use the nodes;
  R2  the count is that of the reserved nodes; whether all of them would suit the pod is not known.
"""

from __future__ import annotations

import re
from typing import Final

from gangsched._core._registry import PodGroupInfo
from gangsched.model import GroupKey, Pod
from gangsched.scheduler import Scheduler

__all__ = ["with_reservation"]

_LACKS: Final = re.compile(
    r"Insufficient |Too many pods| is short| in pieces too small"
    r"| fit (within .+ |beside .+ )?at once"
)


def with_reservation(
    reason: str, scheduler: Scheduler, key: GroupKey | None, pod: Pod | None = None
) -> str:
    """Return a reason with the sentence about reserved nodes, if R1 asks for it.

    Runtime complexity: O(reason + reserved nodes).

    Args:
        reason: Why a pod or a gang does not start.
        scheduler: The scheduler that may have a reservation.
        key: The gang, or that of the pod; None for a pod without one.
        pod: The pod without a gang.
    """
    if not _LACKS.search(reason):
        return reason
    found = scheduler.reservation
    if found is None or not found.nodes:
        return reason
    if found.group == key if pod is None else found.pod == pod.key:
        return reason
    of_gang: PodGroupInfo | None = None if key is None else scheduler.registry.get(key)
    theirs: PodGroupInfo | None = None
    if found.group is not None:
        theirs = scheduler.registry.get(found.group)
    mine = of_gang.priority if of_gang is not None else pod.priority if pod is not None else None
    if mine is not None and theirs is not None and mine > theirs.priority:
        return reason
    return f"{reason.rstrip('.')}; {len(found.nodes)} node(s) are reserved for {found.holder}"
