"""Nomination: the nodes that a preemptor is meant to go to once its victims have terminated.

The capacity there is held (``hold``), one hold for each nominated pod. A nomination lasts until its
pods hold nodes, or until it lapses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from attrs import define, field, frozen

from gangsched.core.evaluation.pod_class import PodClass
from gangsched.core.nodes.hold import Hold
from gangsched.core.records.gang import GangRecord, PodRecord
from gangsched.errors import InternalError
from gangsched.model import GroupKey, PodGroup, PodUID

__all__ = ["Mark", "NominatedPod", "Nomination", "Nominations"]

Mark = tuple[float, int]
"""An instant, and how many events there were by then: between two of a mark nothing changes."""


@final
@frozen(eq=False)
class NominatedPod:
    """One pod with its nominated node.

    Attributes:
        record: The pod.
        pod_class: Its class when it was nominated; None if it has changed by the time of a restore.
        hold: The capacity that is kept for it.
    """

    record: PodRecord
    pod_class: PodClass | None
    hold: Hold


@final
@define(eq=False)
class Nomination:
    """The nominated nodes of a gang.

    Attributes:
        gang: The gang.
        group: The group that notices name, which may leave the gang; None for a regular pod.
        priority: Its reach: gangs of this priority or a lower one cannot use the capacity.
        pods: The nominated pods.
        required: How many pods of some leaves the gang needs to start.
        specs: The specifications of its groups when it was made.
        awaited: The pods that still hold capacity that the gang needs.
        deadline: The instant at which it lapses if some of them are still there, unless the bind of
            one of them is under way.
        made_at: When it was made.
        is_tried: Whether the gang is tried though pods are awaited: another node may take it.
    """

    gang: GangRecord
    group: GroupKey | None
    priority: int
    pods: dict[PodUID, NominatedPod]
    required: tuple[tuple[frozenset[str], int], ...]
    specs: tuple[tuple[GroupKey, PodGroup | None], ...]
    deadline: float
    made_at: Mark
    awaited: list[PodRecord] = field(factory=list[PodRecord])
    is_tried: bool = False

    @property
    def holds(self) -> list[Hold]:
        """The capacity that is kept for its pods. O(pods)."""
        return [each.hold for each in self.pods.values()]

    @property
    def slots(self) -> list[int]:
        """The nominated nodes, each once. O(pods)."""
        return list(dict.fromkeys(each.hold.slot for each in self.pods.values()))

    @property
    def is_sufficient(self) -> bool:
        """Whether as many pods are nominated as the gang needs to start. O(pods)."""
        leaves = [each.record.leaf for each in self.pods.values()]
        return bool(leaves) and all(
            sum(leaf in below for leaf in leaves) >= count for below, count in self.required
        )


@final
class Nominations:
    """All nominations.

    Attributes:
        known: Each by its gang.
        overdue: Pods that did not terminate in time; no plan counts on them any more.
    """

    def __init__(self) -> None:
        self.known: dict[GangRecord, Nomination] = {}
        self.overdue: set[PodUID] = set()

    def add(self, nomination: Nomination) -> None:
        """Add the nomination of a gang that has none."""
        self.known[nomination.gang] = nomination

    def remove(self, nomination: Nomination) -> None:
        """Remove a nomination."""
        del self.known[nomination.gang]

    def __iter__(self) -> Iterator[Nomination]:
        return iter(list(self.known.values()))

    def check(self, holds: dict[Hold, None]) -> None:
        """Require that each nomination holds what it says, and is of its gang."""
        for gang, nomination in self.known.items():
            if nomination.gang is not gang or not nomination.pods:
                raise InternalError(f"the nomination of {gang} is another's, or has no pods")
            if any(hold not in holds for hold in nomination.holds):
                raise InternalError(f"the nomination of {gang} holds no capacity")
