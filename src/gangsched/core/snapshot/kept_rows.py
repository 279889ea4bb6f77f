"""The rows of capacity that is kept for gangs: nominations, and the reservation."""

from __future__ import annotations

import math
from typing import final

from attrs import frozen

from gangsched.model import GroupKey, NodeName, PodGroup, PodUID

__all__ = [
    "BackfillRow",
    "NominatedPodRow",
    "NominationRow",
    "ReservationRow",
    "ReservedRow",
]


@final
@frozen(kw_only=True)
class NominatedPodRow:
    """A pod with its nominated node.

    *since* is the step at which its capacity was taken. *pod_class* is a digest of what the pod
    asks for: if that has changed, it is not nominated any more.
    """

    uid: PodUID
    node: NodeName
    since: int
    pod_class: str


@final
@frozen(kw_only=True)
class NominationRow:
    """A ``Nomination``; *is_new* is true if there was no event, and no later instant, since."""

    gang: str
    group: GroupKey | None
    priority: int
    pods: tuple[NominatedPodRow, ...] = ()
    required: tuple[tuple[tuple[str, ...], int], ...] = ()
    specs: tuple[tuple[GroupKey, PodGroup | None], ...] = ()
    awaited: tuple[PodUID, ...] = ()
    deadline: float
    is_new: bool = False
    is_tried: bool = False


@final
@frozen(kw_only=True)
class ReservedRow:
    """What is reserved on a node; *returning* are the pods that will have left it by then."""

    node: NodeName
    since: int
    wanted: tuple[tuple[str, int], ...] = ()
    returning: tuple[PodUID, ...] = ()


@final
@frozen(kw_only=True)
class ReservationRow:
    """The reservation in force; *has_refused* says whether its plan refused a pod a node."""

    gang: str
    since: float
    starts_at: float
    deadline: float
    ends: tuple[tuple[PodUID, float], ...] = ()
    reserved: tuple[ReservedRow, ...] = ()
    planned: tuple[tuple[PodUID, NodeName], ...] = ()
    drained: tuple[PodUID, ...] = ()
    has_refused: bool = False
    departed: tuple[PodUID, ...] = ()


@final
@frozen(kw_only=True)
class BackfillRow:
    """What is remembered to make reservations, by the keys of gangs; see ``ReservationState``.

    *failed* has a gang of each demand that failed although it was exempt, with the step.
    """

    qualified: tuple[str, ...] = ()
    drain_timeouts: tuple[tuple[str, int], ...] = ()
    infeasible: tuple[str, ...] = ()
    failed: tuple[tuple[str, int], ...] = ()
    reservation: ReservationRow | None = None
    is_contested: bool = False
    is_stale: bool = False
    is_drain_paused: bool = False
    has_no_candidate: bool = True
    no_candidate_until: float = math.inf
    altered: int = 0
    node_changes: int = 0
