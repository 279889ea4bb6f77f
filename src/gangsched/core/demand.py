"""What gangs ask of the nodes, so that a failure of one speaks for all that ask for the same.

A ``Demand`` has the *minima* of a gang. A minimum names classes of pods, each with the most that
count. It says how many of them must find a node, and within which domains. Each minimum is a sum
over nodes, so it is necessary for a placement; for members of one class it is enough.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import TypeAlias, final

from attrs import frozen

from gangsched.core.by_account import ParkedGangs
from gangsched.core.domains import EVERYWHERE, Domain
from gangsched.core.pod_class import PodClass
from gangsched.core.records import Gang

__all__ = ["Demand", "Minimum", "Reach"]

Reach: TypeAlias = tuple[int, bool]
"""The priority below which a gang preempts, and whether it may evict pods."""


@final
@frozen
class Minimum:
    """Members that have to find nodes together.

    Attributes:
        parts: The classes of pods that count, each with the most that do.
        number: How many of them must find a node.
        level: The label of which one value has to take them; None for all nodes together.
    """

    parts: tuple[tuple[PodClass, int], ...]
    number: int
    level: str | None = None

    def could_be_met(self) -> bool:
        """Return whether enough pods fit, each class counted by itself. O(classes x domains)."""
        for pod_class, _most in self.parts:
            pod_class.refresh()
        if self.level is None:
            return self._fits_in(EVERYWHERE) >= self.number
        return any(self._fits_in(domain) >= self.number for domain in self._domains())

    def shortfall(self, domain: Domain | None = None) -> int:
        """Return how many pods lack capacity, at the least, in a domain or the best of them."""
        for pod_class, _most in self.parts:
            pod_class.refresh()
        domains = self._domains() if domain is None else (domain,)
        return max(self.number - max(map(self._fits_in, domains), default=0), 0)

    def _domains(self) -> Iterable[Domain]:
        if self.level is None:
            return (EVERYWHERE,)
        return self.parts[0][0].table.domains.at(self.level)

    def _fits_in(self, domain: Domain) -> int:
        total = 0
        for pod_class, most in self.parts:
            fits = pod_class.within(domain)
            total += fits if fits < most else most
        return total


@final
class Demand:
    """What equal gangs ask for.

    Attributes:
        key: Equal for gangs that fail alike.
        alternatives: Minima of which those of one alternative have to be met; see the module.
        blocked_at: The step at which a gang of it failed; 0 while none is known to fail.
        gangs: How many gangs ask for it; without any it is forgotten.
        parked: The gangs that wait.
        leader: The gang that was activated for all of them.
        reads_pods: Whether pods that come or go on any node may help.
        reads_terms: Whether they may if they carry terms about other pods.
        reach: Whom its gangs may preempt; None if nobody.
    """

    __slots__ = (
        *("_classes", "alternatives", "blocked_at", "gangs", "key", "leader", "parked", "reach"),
        *("reads_pods", "reads_terms"),
    )

    def __init__(
        self,
        key: Hashable,
        alternatives: tuple[tuple[Minimum, ...], ...],
        reach: Reach | None = None,
    ) -> None:
        self.key: Hashable = key
        self.reach: Reach | None = reach
        self.alternatives: tuple[tuple[Minimum, ...], ...] = alternatives
        self.blocked_at: int = 0
        self.gangs: int = 0
        self.parked: ParkedGangs = ParkedGangs()
        self.leader: Gang | None = None
        self._classes: tuple[PodClass, ...] = tuple(
            dict.fromkeys(c for minima in alternatives for m in minima for c, _most in m.parts)
        )
        late = [each.only_about_carried for c in self._classes for each in c.late]
        self.reads_pods: bool = not all(late)
        self.reads_terms: bool = any(late)

    def could_fit(self) -> bool:
        """Return whether every minimum of an alternative could be met by itself."""
        return any(
            all(minimum.could_be_met() for minimum in minima) for minima in self.alternatives
        )

    def is_helped_by(self, slots: Collection[int]) -> bool:
        """Return whether a pod of this demand fits on one of some nodes."""
        for pod_class in self._classes:
            state_of = pod_class.table.state_of
            for slot in slots:
                if pod_class.takes(state_of[slot]):
                    return True
        return False
