"""What is pending, being bound or running, groups, quotas, and what domains take of a gang.

Rules:
  R1  a listing is a tuple of frozen rows, and its ``repr`` is a table, for a prompt;
  R2  a row is about a regular pod, or about a whole pod group. Only binds are listed pod by pod,
      because each is reported by itself;
  R3  a row is a value: it does not follow what the scheduler does later;
  R4  a table is for reading: ages are rounded there, and exact in the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar, cast, final

from attrs import frozen

from gangsched.explain import Why, in_utc
from gangsched.model import GroupKey, NodeName, PodUID
from gangsched.resources import Resources
from gangsched.values.seconds import format_span
from gangsched.values.text import printable

__all__ = [
    "BindingRow",
    "DomainRow",
    "GroupRow",
    "Listing",
    "PendingRow",
    "QuotaRow",
    "RunningRow",
]

_Row = TypeVar("_Row")


@final
@frozen
class PendingRow:
    """A regular pod without a node, or a group with members without a node.

    Attributes:
        name: ``namespace/name`` of the pod or the group.
        group: The key of the group; None for a regular pod.
        uid: The UID of the pod; None for a group.
        priority: Its priority.
        pods: The number of pods without a node.
        needed: The number of further members that the group needs to start; 1 for a regular pod,
            0 for a group that has started, None while the minimum is unknown.
        position: Its place among the active entities, 0 for the next one; None if it is in backoff,
            is parked as unschedulable, waits on permit, or is not admitted.
        attempts: The number of failed attempts in a row.
        age: The number of seconds since it was created.
        why: Why it is pending; ``str`` of it is a sentence.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = (
        "NAME",
        "PRIORITY",
        "PODS",
        "NEEDED",
        "PLACE",
        "ATTEMPTS",
        "AGE",
        "WHY",
    )

    name: str
    group: GroupKey | None
    uid: PodUID | None
    priority: int
    pods: int
    needed: int | None
    position: int | None
    attempts: int
    age: float
    why: Why

    def cells(self, said: Callable[[Why], str] = str) -> tuple[str, ...]:
        """Return the row as text, one cell a column; *said* writes the reason."""
        numbers = (self.priority, self.pods, self.needed, self.position, self.attempts)
        return (self.name, *map(_number, numbers), _age(self.age), said(self.why))


@final
@frozen
class BindingRow:
    """A pod, regular or a member of a group, whose bind is in progress.

    Attributes:
        name: ``namespace/name`` of the pod.
        group: The key of its group; None for a regular pod.
        uid: The UID of the pod.
        node: The node that it is bound to.
        attempt: The attempt that the bind belongs to, as ``Bound`` and ``BindFailed`` report it.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = ("POD", "GROUP", "NODE", "ATTEMPT")

    name: str
    group: GroupKey | None
    uid: PodUID
    node: NodeName
    attempt: int

    def cells(self, said: Callable[[Why], str] = str) -> tuple[str, ...]:
        """Return the row as text, one cell a column; *said* is not used: it has no reason."""
        return (self.name, self.group or "-", self.node, str(self.attempt))


@final
@frozen
class RunningRow:
    """A regular pod that is bound, or a group with members that are.

    Attributes:
        name: ``namespace/name`` of the pod or the group.
        group: The key of the group; None for a regular pod.
        uid: The UID of the pod; None for a group.
        priority: Its priority.
        pods: The number of pods that are bound.
        nodes: The nodes of these pods, each once, in the order of the pods.
        age: The number of seconds since the first of them was bound, or was first seen on its node.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = ("NAME", "PRIORITY", "PODS", "NODES", "AGE")

    name: str
    group: GroupKey | None
    uid: PodUID | None
    priority: int
    pods: int
    nodes: tuple[NodeName, ...]
    age: float

    def cells(self, said: Callable[[Why], str] = str) -> tuple[str, ...]:
        """Return the row as text, one cell a column; *said* is not used: it has no reason."""
        nodes = ",".join(self.nodes)
        return (
            self.name,
            str(self.priority),
            str(self.pods),
            nodes,
            _age(self.age),
        )


@final
@frozen
class GroupRow:
    """A pod group. The members of a group of groups are those of the groups below it.

    Attributes:
        key: ``namespace/name``.
        priority: Its priority.
        min_available: The quorum; None while it is unknown. Of a group of groups, the least number
            of members that start together.
        members: The number of members that count: with a node or without.
        pending: The number of members without a node.
        waiting: The number of members that wait on permit.
        bound: The number of bound members.
        attempts: The number of attempts so far.
        was_scheduled: Whether the group has been released once.
        age: The number of seconds since it was created.
        why: Why it is not running, or that it is.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = (
        *("GROUP", "PRIORITY", "NEEDED", "MEMBERS", "PENDING", "WAITING", "BOUND", "AGE", "WHY"),
    )

    key: GroupKey
    priority: int
    min_available: int | None
    members: int
    pending: int
    waiting: int
    bound: int
    attempts: int
    was_scheduled: bool
    age: float
    why: Why

    def cells(self, said: Callable[[Why], str] = str) -> tuple[str, ...]:
        """Return the row as text, one cell a column; *said* writes the reason."""
        counts = (self.members, self.pending, self.waiting, self.bound)
        numbers = (self.priority, self.min_available, *counts)
        return (self.key, *map(_number, numbers), _age(self.age), said(self.why))


@final
@frozen
class DomainRow:
    """What a domain of a level takes of a gang that requires one; see ``Scheduler.domains``.

    Attributes:
        part: The part of the gang that requires it, such as ``decode/0`` or ``slice-3``; empty for
            all of it.
        level: The label.
        domain: The domain: the values of the levels down to it, such as ``b1/r7``.
        fits: How many of the members that lack nodes it takes, at the most.
        needed: How many members the part lacks.
        why: What it lacks for them; empty if it takes enough.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = ("PART", "DOMAIN", "FITS", "NEEDED", "WHY")

    part: str
    level: str
    domain: str
    fits: int
    needed: int
    why: str

    def cells(self, said: Callable[[Why], str] = str) -> tuple[str, ...]:
        """Return the row as text, one cell a column."""
        del said
        where = f"{self.level}={self.domain}"
        return (self.part or "-", where, str(self.fits), str(self.needed), self.why)


@final
@frozen
class QuotaRow:
    """A quota, and what is charged to it and to those below; see ``Scheduler.quotas``.

    Attributes:
        name: Its name.
        parent: The name of the quota above; None for a root.
        depth: How many quotas are above.
        used: What is charged.
        nominal: What it may use without borrowing, with what those below lend; None if it has no
            part in the nominals of its tree.
        hard: What it may use at the most; see ``Quota``.
        weight: What its share is divided by.
        share: What it is ordered by among its siblings: the largest part of what its parent could
            lend that it uses beyond its nominal, over its weight; infinite if it has no weight.
        past: The share that counts what was used in the past, if that is more.
        pending: How many pods and groups without nodes are charged to it, or to one below.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = ("QUOTA", "USED", "NOMINAL", "HARD", "SHARE", "PENDING")

    name: str
    parent: str | None
    depth: int
    used: Resources
    nominal: Resources | None
    hard: Resources
    weight: float
    share: float
    past: float
    pending: int

    @property
    def is_queue(self) -> bool:
        """Whether it is more than a cap: it has a nominal, a parent or a weight."""
        return self.nominal is not None or self.parent is not None or self.weight != 1.0

    def cells(self, said: Callable[[Why], str] = str) -> tuple[str, ...]:
        """Return the row as text, one cell a column; quotas below others are indented."""
        del said
        share = f"{self.share:.2f}" + (f" ({self.past:.2f})" if self.past != self.share else "")
        amounts = [_amounts(each) for each in (self.used, self.nominal, self.hard)]
        return ("  " * self.depth + self.name, *amounts, share, str(self.pending))


@final
class Listing(tuple[_Row, ...]):
    """Rows of one kind. ``repr`` and ``str`` are a table."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the rows as a table with a header; a sentence if there are none."""
        return self._table(str)

    def __str__(self) -> str:
        """Return the table."""
        return repr(self)

    def in_utc(self) -> str:
        """Return the table; times in its reasons are shown as dates and times in UTC.

        It is for a host whose clock counts seconds from 1970, as the clock of the drivers does.
        """
        return self._table(in_utc)

    def _table(self, said: Callable[[Why], str]) -> str:
        if not self:
            return "(nothing)"
        rows = cast("Sequence[Any]", self)
        columns: tuple[str, ...] = rows[0].COLUMNS
        cells = [columns]
        for row in rows:
            texts: tuple[str, ...] = row.cells(said)
            cells.append(tuple(printable(text) for text in texts))
        widths = [max(len(line[n]) for line in cells) for n in range(len(cells[0]))]
        lines = (
            "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            for line in cells
        )
        return "\n".join(line.rstrip() for line in lines)


def _amounts(given: Resources | None) -> str:
    return ",".join(f"{name}={given.quantity(name)}" for name in given or ()) if given else "-"


def _age(seconds: float) -> str:
    """Return an age to a tenth of a second: more digits are noise in a table."""
    return format_span(round(seconds, 1))


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
