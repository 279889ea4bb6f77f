"""What gangs ask of the nodes, so that a failure of one speaks for all that ask for the same.

A ``Demand`` has the *minima* of a gang. A minimum names classes of pods, each with the most that
count. It says how many of them must find a node, and within which domains. Each minimum is a sum
over nodes, so it is necessary for a placement; for members of one class it is enough.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, final

from attrs import frozen

from gangsched.cluster_objects import ClusterObject
from gangsched.core.evaluation.pod_class import PodClass
from gangsched.core.nodes.domains import EVERYWHERE, Domain
from gangsched.core.queue.by_account import ParkedGangs
from gangsched.core.records.gang import GangRecord
from gangsched.primitives.capacity import gap
from gangsched.resources import NOTHING, Resources

__all__ = ["Bounds", "Demand", "Minimum", "Reach"]


class Reach(NamedTuple):
    """Whom a gang may preempt.

    Attributes:
        below: The priority below which it preempts.
        evicts: Whether it may evict pods.
        queue: On whose account; None if priority alone decides.
    """

    below: int
    evicts: bool
    queue: str | None = None


Bounds: TypeAlias = Mapping[PodClass, int]
"""How many more pods of some classes plugins accept, on all nodes together."""
_NO_BOUNDS: Final[Bounds] = {}


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

    def could_be_met(self, bounds: Bounds = _NO_BOUNDS) -> bool:
        """Return whether enough pods fit, each class counted by itself. O(classes x domains)."""
        for pod_class, _most in self.parts:
            pod_class.memo.refresh()
        if self.level is None:
            return self._fits_in(EVERYWHERE, bounds) >= self.number
        return any(self._fits_in(domain, bounds) >= self.number for domain in self._domains())

    def shortfall(self, domain: Domain | None = None) -> int:
        """Return how many pods lack capacity, at the least, in a domain or the best of them."""
        for pod_class, _most in self.parts:
            pod_class.memo.refresh()
        domains = self._domains() if domain is None else (domain,)
        return max(self.number - max(map(self._fits_in, domains), default=0), 0)

    def _domains(self) -> Iterable[Domain]:
        if self.level is None:
            return (EVERYWHERE,)
        return self.parts[0][0].table.domains.at(self.level)

    def _fits_in(self, domain: Domain, bounds: Bounds = _NO_BOUNDS) -> int:
        total = 0
        for pod_class, most in self.parts:
            fits = pod_class.memo.within(domain)
            if bounds:
                fits = min(fits, bounds.get(pod_class, fits))
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
        in_all: What has to be free on all nodes together.
        has_room: Whether its gang has room of its own, which nobody else sees; see ``spares``.
        least: What each of its pods needs at the least, by the number of a resource.
    """

    __slots__ = (
        *("_classes", "_single", "alternatives", "blocked_at", "gangs", "has_room", "in_all"),
        *("key", "leader", "least", "parked", "reach", "reads_pods", "reads_terms"),
    )

    def __init__(
        self,
        key: Hashable,
        alternatives: tuple[tuple[Minimum, ...], ...],
        reach: Reach | None = None,
        in_all: Resources = NOTHING,
    ) -> None:
        self.in_all: Resources = in_all
        self.key: Hashable = key
        self.reach: Reach | None = reach
        self.has_room: bool = False
        self.alternatives: tuple[tuple[Minimum, ...], ...] = alternatives
        self.blocked_at: int = 0
        self.gangs: int = 0
        self.parked: ParkedGangs = ParkedGangs()
        self.leader: GangRecord | None = None
        found = {c: None for minima in alternatives for m in minima for c, _most in m.parts}
        self._classes: tuple[PodClass, ...] = tuple(found)
        self._single: tuple[PodClass, int] | None = _single(alternatives)
        self.least: dict[int, int] = _least(self._classes)
        self.reads_pods: bool = any(c.reads_pods for c in found)
        self.reads_terms: bool = any(c.reads_terms for c in found)

    @property
    def classes(self) -> tuple[PodClass, ...]:
        """The classes of its pods."""
        return self._classes

    def could_fit(self, bounds: Bounds = _NO_BOUNDS) -> bool:
        """Return whether every minimum of an alternative could be met by itself."""
        if self.has_room:
            return True
        if self._single is not None and not self.in_all and not bounds:
            pod_class, number = self._single
            return pod_class.memo.refresh().total >= number
        if self.in_all and self._classes and gap(self.in_all, self._classes[0].table.total_free()):
            return False
        for minima in self.alternatives:
            for minimum in minima:
                if not minimum.could_be_met(bounds):
                    break
            else:
                return True
        return False

    def reads(self, kinds: Collection[type[ClusterObject]]) -> bool:
        """Return whether plugins read objects of some kinds for a pod of this demand."""
        return any(not pod_class.objects.isdisjoint(kinds) for pod_class in self._classes)

    def is_helped_by(self, slots: Collection[int]) -> bool:
        """Return whether a pod of this demand fits on one of some nodes."""
        for pod_class in self._classes:
            state_of = pod_class.table.state_of
            for slot in slots:
                if pod_class.memo.takes(state_of[slot]):
                    return True
        return False


def _single(alternatives: tuple[tuple[Minimum, ...], ...]) -> tuple[PodClass, int] | None:
    """Return what most demands ask for: so many pods of one class, on all nodes together."""
    if len(alternatives) == 1 and len(alternatives[0]) == 1:
        (minimum,) = alternatives[0]
        if len(minimum.parts) == 1 and minimum.level is None:
            ((pod_class, most),) = minimum.parts
            if most >= minimum.number:
                return pod_class, minimum.number
    return None


def _least(classes: Sequence[PodClass]) -> dict[int, int]:
    """Return what pods of any of some classes need of the resources that all of them need."""
    if len(classes) == 1:
        return classes[0].least
    needs = [pod_class.least for pod_class in classes]
    common = set(needs[0]).intersection(*needs) if needs else set[int]()
    return {number: min(each[number] for each in needs) for number in sorted(common)}
