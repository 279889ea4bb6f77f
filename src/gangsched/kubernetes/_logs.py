"""Logs of the running scheduler: lines for people, or JSON objects for machines.

Rules:
  R1  a line is one record. In JSON it has ``ts``, ``level``, ``logger``, ``msg``, and ``error``
      if there is one.
"""

from __future__ import annotations

import json
import logging
from typing import Final, final

from gangsched._text import printable
from gangsched.kubernetes._instants import micro_time

__all__ = ["JsonFormatter", "TextFormatter", "configure_logs"]

_LEVELS: Final = {0: logging.WARNING, 1: logging.INFO, 2: logging.INFO}


@final
class JsonFormatter(logging.Formatter):
    """Writes each record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        entry = {
            "ts": micro_time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry)


@final
class TextFormatter(logging.Formatter):
    """Writes each record as one line of text, without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record; a traceback follows on lines of its own."""
        at, level = micro_time(record.created), record.levelname.lower()
        line = f"{at} {level} {record.name}: {printable(record.getMessage())}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def configure_logs(*, verbosity: int = 1, as_json: bool = False) -> None:
    """Send the logs of this package to standard error.

    Args:
        verbosity: 0 for warnings, 1 and 2 for what happens, more for every effect.
        as_json: Whether each line is a JSON object.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    root = logging.getLogger("gangsched")
    root.handlers[:] = [handler]
    root.propagate = False
    root.setLevel(_LEVELS.get(verbosity, logging.DEBUG))
