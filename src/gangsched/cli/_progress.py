"""How far a run is, on standard error: a bar on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import monotonic
from typing import Final, TypeAlias

from gangsched.values.seconds import format_span
from gangsched.values.text import printable

__all__ = ["Advanced", "progress"]

Advanced: TypeAlias = Callable[[int, float], None]
"""Takes how many arrivals have come, and the instant of the run."""

_EVERY: Final = 10.0
"""How many seconds pass between two lines. A short run prints none."""


@contextmanager
def progress(name: str, total: int) -> Generator[Advanced, None, None]:
    """Show how far a run is.

    Args:
        name: What is run: the policy, as the user wrote it.
        total: The number of arrivals.
    """
    if not sys.stderr.isatty():
        yield _lines(name, total)
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=total)
        yield lambda done, _now: bar.update(task, completed=done)


def _lines(name: str, total: int) -> Advanced:
    said_at = monotonic()

    def advanced(done: int, now: float) -> None:
        nonlocal said_at
        if monotonic() < said_at + _EVERY:
            return
        said_at = monotonic()
        text = f"gangsched: {name}: {done} of {total} arrivals, t={format_span(now)}"
        print(printable(text), file=sys.stderr, flush=True)

    return advanced
