"""How the queue of a gang that waits stands beside other queues: a part of the answers of ``why``.

It is said beside what decides, and never decides anything. Shares change with every start of a pod,
so answers that differ in this alone are equal.
"""

from __future__ import annotations

from typing import ClassVar, final

from attrs import frozen

from gangsched.resources import NOTHING, Resources

__all__ = ["OtherQueue", "QueueTurn", "ReachedLimit"]


@final
@frozen
class OtherQueue:
    """A queue below the same parent as the one of a gang, or as one above that.

    Attributes:
        name: Its name.
        share: Its share; infinite if it borrows without weight.
        beside: The queue below the same parent that the gang is in, or below.
        own_share: The share of that one.
        borrowed: What it uses beyond its nominal, of what the gang lacks.
    """

    name: str
    share: float
    beside: str
    own_share: float
    borrowed: Resources = NOTHING

    def __str__(self) -> str:
        """``red has borrowed nvidia.com/gpu=8, share 0.50 to 0.25``"""
        has = f" has borrowed {_quantities(self.borrowed)}" if self.borrowed else ""
        return f"{self.name}{has}, share {_share(self.share)} to {_share(self.own_share)}"

    def _said(self, queue: str) -> str:
        return str(self) if self.beside == queue else f"{self} of {self.beside}"


@final
@frozen
class ReachedLimit:
    """A queue that borrows as much as it may, or nearly so.

    Attributes:
        name: Its name.
        borrows: What it borrows, of what the gang lacks.
        most: What it may borrow.
    """

    name: str
    borrows: Resources
    most: Resources

    def __str__(self) -> str:
        """``red borrows nvidia.com/gpu=8 of at most nvidia.com/gpu=16``"""
        borrows = " and ".join(
            f"{name}={self.borrows.quantity(name)} of at most {name}={self.most.quantity(name)}"
            for name in self.most
        )
        return f"{self.name} borrows {borrows}"


@final
@frozen
class QueueTurn:
    """How the queue of a gang stands beside others.

    Attributes:
        queue: The queue.
        used: What it uses, of the resources that the gang requests and that queues share.
        limited: What it may use at the moment.
        nominal: What it may use without borrowing.
        limit: What it, or a queue above it, may not borrow; None if that does not hold up the gang.
        borrowers: The first queues that hold up the gang since they use more than their nominal;
            those with the nearest parent come first, and of these the largest share.
        others: How many more queues do.
        behind: The queue whose gangs are asked before: it has a smaller share, and gangs that wait.
            None if there is none.
    """

    MOST_NAMED: ClassVar[int] = 2
    """How many borrowers an answer names."""

    queue: str
    used: Resources
    limited: Resources
    nominal: Resources
    limit: ReachedLimit | None = None
    borrowers: tuple[OtherQueue, ...] = ()
    others: int = 0
    behind: OtherQueue | None = None

    @property
    def usage(self) -> str:
        """``queue red: used cpu=8, limited cpu=24, nominal cpu=16``"""
        amounts = [("used", self.used), ("limited", self.limited), ("nominal", self.nominal)]
        return f"queue {self.queue}: " + ", ".join(
            f"{word} {_quantities(amount)}" for word, amount in amounts
        )

    def __str__(self) -> str:
        """``queue blue has borrowed cpu=8, share 0.50 to 0.00; waits behind queue …``"""
        parts = [] if self.limit is None else [f"queue {self.limit}"]
        parts += [f"queue {other._said(self.queue)}" for other in self.borrowers]
        if self.others:
            parts.append(f"and {self.others} more")
        if self.behind is not None:
            parts.append(f"waits behind queue {self.behind._said(self.queue)}")
        return "; ".join(parts)


def _share(share: float) -> str:
    """Return a share with two decimals; a small one is told from 0."""
    return "<0.01" if 0 < share < 0.005 else f"{share:.2f}"


def _quantities(given: Resources) -> str:
    return ",".join(f"{name}={given.quantity(name)}" for name in given)
