"""Logs of the running scheduler: lines for people, or JSON objects for machines.

Rules:
  R1  a line is one record. In JSON it has ``ts``, ``level``, ``logger``, ``msg``, and ``error``
      if there is one;
  R2  what a record says about a pod, a group or a decision has the keys of ``FIELDS``. Their names
      and their types do not change: dashboards and queries rely on them. In text they follow the
      message as ``key=value``.
"""

from __future__ import annotations

import json
import logging
from typing import Any, Final, final

from gangsched.kubernetes._instants import micro_time
from gangsched.values.text import printable

__all__ = ["FIELDS", "JsonFormatter", "TextFormatter", "configure_logs"]

FIELDS: Final = ("pod", "group", "node", "attempt", "members", "reason", "seconds")
"""The fields of records, as ``extra`` gives them; a record has those that apply to it."""

_LEVELS: Final = {0: logging.WARNING, 1: logging.INFO, 2: logging.INFO}
_DECISIONS: Final = "gangsched.kubernetes.decisions"
_DECISIONS_FROM: Final = 2
"""The verbosity from which on each decision is logged."""


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    known = vars(record)
    return {name: known[name] for name in FIELDS if name in known}


@final
class JsonFormatter(logging.Formatter):
    """Writes each record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        entry: dict[str, Any] = {
            "ts": micro_time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
            **_fields(record),
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
        for name, value in _fields(record).items():
            text = printable(str(value))
            line += f" {name}={json.dumps(text) if ' ' in text else text}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def configure_logs(*, verbosity: int = 1, as_json: bool = False) -> None:
    """Send the logs of this package to standard error.

    Args:
        verbosity: 0 for warnings, 1 for what happens, 2 for every decision too, more for every
            effect.
        as_json: Whether each line is a JSON object.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    root = logging.getLogger("gangsched")
    root.handlers[:] = [handler]
    root.propagate = False
    root.setLevel(_LEVELS.get(verbosity, logging.DEBUG))
    quiet = verbosity < _DECISIONS_FROM
    logging.getLogger(_DECISIONS).setLevel(logging.WARNING if quiet else logging.NOTSET)
