"""What the queues of a scheduler use over the time of a run, and how even that is.

Rules:
  R1  queues are the quotas that ``QuotaRow.is_queue`` is true of, and those above them. What is
      charged to them is what the scheduler says: see ``Scheduler.quotas``;
  R2  the dominant share of a queue is the largest share that it uses of what all nodes offer, of
      any resource: a queue that uses a tenth of the CPUs and half of the GPUs has 0.5;
  R3  fairness is Jain's index of the mean dominant share divided by the weight, of the queues
      without others below them that had a pod at any time. Of n queues it is 1 if all have the
      same, and 1/n if one has everything. Queues of weight 0 do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import final

from attrs import field, frozen

from gangsched.listings import QuotaRow
from gangsched.quantity import MILLI
from gangsched.resources import Resources
from gangsched.scheduler import Scheduler
from gangsched.simulation.metrics import largest_share

__all__ = ["QueueFigures", "QueueTracker", "QueueUse", "fairness_of", "leaves_of", "queues_of"]


@final
@frozen
class QueueUse:
    """What a queue uses at an instant.

    Attributes:
        queue: Its name.
        used: What is charged to it, and to those below.
        share: Its dominant share, from 0 to 1.
    """

    queue: str
    used: Resources
    share: float


@final
@frozen(kw_only=True)
class QueueFigures:
    """The figures of a queue over a whole run.

    Attributes:
        parent: The name of the queue above; None for a root.
        weight: Its weight.
        had_demand: Whether a pod was in it, or below it, at any time.
        used: The mean over time of what it used, in units.
        share: The mean over time of its dominant share.
    """

    parent: str | None
    weight: float
    had_demand: bool = False
    used: dict[str, float] = field(factory=dict[str, float])
    share: float = 0.0


def queues_of(scheduler: Scheduler) -> tuple[QuotaRow, ...]:
    """Return the quotas of a scheduler that are queues, and those above them. O(quotas)."""
    rows = scheduler.quotas()
    parents = {row.parent for row in rows}
    return tuple(row for row in rows if row.is_queue or row.name in parents)


def leaves_of(queues: Mapping[str, QueueFigures]) -> list[str]:
    """Return the names of the queues that no other is below."""
    parents = {each.parent for each in queues.values()}
    return [name for name in queues if name not in parents]


def fairness_of(queues: Mapping[str, QueueFigures]) -> float | None:
    """Return Jain's index of the shares, as R3 says; None if no such queue used anything."""
    leaves = (queues[name] for name in leaves_of(queues))
    shares = [each.share / each.weight for each in leaves if each.had_demand and each.weight]
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else None


@final
class QueueTracker:
    """Integrates what queues use over time; it holds from one instant to the next.

    Args:
        queues: The queues; see ``queues_of``.

    Attributes:
        rows: What each queue uses now, in the order of the listing.
    """

    def __init__(self, queues: Iterable[QuotaRow]) -> None:
        self.rows: tuple[QueueUse, ...] = ()
        self._queues: dict[str, QuotaRow] = {queue.name: queue for queue in queues}
        self._used: dict[str, dict[str, float]] = {name: {} for name in self._queues}
        self._shares: dict[str, float] = dict.fromkeys(self._queues, 0.0)
        self._demand: set[str] = set()
        self._at = 0.0

    def advance(
        self, listing: Iterable[QuotaRow], capacity: Resources, *, now: float, begin: float | None
    ) -> None:
        """Integrate up to now, and take what holds from now on. O(queues x resources).

        Args:
            listing: What is charged to the quotas.
            capacity: What all nodes offer.
            now: The instant in seconds.
            begin: The instant from which the time counts; None if it has not come.
        """
        self._integrate(now, begin)
        of_queues = [row for row in listing if row.name in self._queues]
        self._demand.update(row.name for row in of_queues if row.used or row.pending)
        rows = tuple(
            QueueUse(row.name, row.used, largest_share(row.used, capacity)[0]) for row in of_queues
        )
        if rows != self.rows:  # equal rows are one object, since a long run has many points
            self.rows = rows

    def figures(self, *, now: float, begin: float) -> dict[str, QueueFigures]:
        """Return the figures of each queue up to now, parents first."""
        self._integrate(now, begin)
        seconds = now - begin
        return {
            row.queue: QueueFigures(
                parent=self._queues[row.queue].parent,
                weight=self._queues[row.queue].weight,
                had_demand=row.queue in self._demand,
                used=_means(self._used[row.queue], seconds * MILLI),
                share=self._shares[row.queue] / seconds if seconds > 0 else 0.0,
            )
            for row in self.rows
        }

    def _integrate(self, now: float, begin: float | None) -> None:
        seconds = 0.0 if begin is None else now - max(self._at, begin)
        self._at = now
        for row in self.rows if seconds > 0 else ():
            areas = self._used[row.queue]
            for name, amount in row.used.items():
                areas[name] = areas.get(name, 0.0) + amount * seconds
            self._shares[row.queue] += row.share * seconds


def _means(areas: Mapping[str, float], divisor: float) -> dict[str, float]:
    return {name: area / divisor for name, area in sorted(areas.items())}
