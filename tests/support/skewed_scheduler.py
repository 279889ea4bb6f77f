"""``gangsched`` with a wall clock that is wrong, and jumps: ``skewed_scheduler.py FILE run …``.

FILE holds the error of the clock in seconds. It may be rewritten while the program runs. Only
``time.time`` is wrong: no machine's steady clock jumps.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

_LOOK: Final = 0.05


class SkewedClock:
    """``time.time`` plus the number in a file."""

    def __init__(self, file: Path) -> None:
        self._file: Final = file
        self._true: Final = time.time
        self._looked_at = 0.0
        self._error = 0.0

    def __call__(self) -> float:
        now = time.monotonic()
        if now - self._looked_at >= _LOOK:
            self._looked_at = now
            self._error = float(self._file.read_text(encoding="ascii") or self._error)
        return self._true() + self._error


if __name__ == "__main__":
    time.time = SkewedClock(Path(sys.argv[1]))
    from gangsched.cli import main  # after the clock: modules take time.time when they are loaded

    sys.exit(main(sys.argv[2:]))
