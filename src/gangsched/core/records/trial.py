"""A trial: the nodes as they would be without some pods and holds.

Pods are lifted off their nodes in the records' own view, so everything that reads the view sees the
nodes without them. The memo reads the log of the table, plugins the pods on nodes and their counts.
So the preemptor, or the gang that is looked ahead for, is placed by the code that places it
in its cycle. At the end every pod is back. Nothing is woken by a trial.

Rules:
  R1  one trial at a time, and no event is handled and nothing is assumed within it;
  R2  the records are as before when it ends, however it ends.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from types import TracebackType
from typing import TypeAlias, final

from gangsched.core.nodes.hold import Hold
from gangsched.core.records import Records
from gangsched.core.records.gang import PodRecord

__all__ = ["Lifted", "Trial"]

Lifted: TypeAlias = PodRecord | Hold
"""What a trial takes off its node."""


@final
class Trial:
    """The nodes without some pods and holds, as a context manager."""

    __slots__ = ("_records",)

    def __init__(self, records: Records) -> None:
        self._records = records

    def __enter__(self) -> Trial:
        self._records.table.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        records = self._records
        records.clear_plan()
        records.land_all()
        records.table.rewind()
        records.table.end()

    def lift(self, some: Iterable[Lifted]) -> None:
        """Take pods and holds off their nodes. O(resources) for each."""
        records = self._records
        for each in some:
            if isinstance(each, Hold):
                records.lift_hold(each)
            else:
                records.lift(each)

    def land(self, some: Iterable[Lifted]) -> None:
        """Put pods and holds back. O(resources) for each."""
        records = self._records
        for each in some:
            if isinstance(each, Hold):
                records.land_hold(each)
            else:
                records.land(each)

    @contextmanager
    def placing(self) -> Generator[None, None, None]:
        """Undo what is placed inside the ``with`` block."""
        records = self._records
        mark = records.table.point()
        try:
            yield
        finally:
            records.clear_plan()
            records.table.rewind(mark)
