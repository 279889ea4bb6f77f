"""One call at a time: a call of the scheduler from inside another call is refused.

A plugin, the run times and the cluster state are called in the middle of a call, when the state is
between two invariants. If one of them calls back, the inner call would read or change half a step.

Invariants:
  I1  ``outer`` is the name of the call that is under way, and empty between two calls.
"""

from __future__ import annotations

from types import TracebackType
from typing import final

from gangsched.errors import ReentrantCallError

__all__ = ["OneCall"]


@final
class OneCall:
    """A reusable context manager around each call of one scheduler. O(1).

    It is a class and not a generator, because it is entered with every event.
    """

    __slots__ = ("_next", "outer")

    def __init__(self) -> None:
        self.outer: str = ""
        self._next: str = ""

    def refuse_inside(self, name: str) -> None:
        """Refuse a call that changes nothing, and so need not be entered, inside another.

        Raises:
            ReentrantCallError: Another call is under way; that one is not disturbed.
        """
        if self.outer:
            raise ReentrantCallError(name, self.outer)

    def __call__(self, name: str) -> OneCall:
        """Name the call that begins with the ``with`` statement.

        Raises:
            ReentrantCallError: See ``refuse_inside``.
        """
        if self.outer:
            raise ReentrantCallError(name, self.outer)
        self._next = name
        return self

    def __enter__(self) -> None:
        self.outer, self._next = self._next, ""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.outer = ""
