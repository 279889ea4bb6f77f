"""Where the repository is; it needs nothing, so the demonstrations need no test runner."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["ROOT"]

ROOT: Final = Path(__file__).parents[2]
