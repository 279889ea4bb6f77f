"""The ``gangsched`` command.

Rules:
  R1  the exit code is 0; 1 if a replay diverges; 2 for bad input, or if standard output cannot
      be written; 130 after Ctrl-C. ``_signals`` has those of a command that works on a cluster.
      An error is one sentence with file, place, field and value;
  R2  data goes to standard output; progress goes to standard error: on a terminal a bar,
      elsewhere a line now and then;
  R3  the same input and the same seed give the same bytes;
  R4  text output escapes every character that is not printable or that the stream cannot encode;
  R5  there is one module for each command, and one for each thing that commands share. Of the
      commands, only the one that is named is imported: ``run`` starts in half the time without
      the simulator.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final, cast

from gangsched._version import __version__
from gangsched.cli._command import execute
from gangsched.cli._parser import Parser

__all__ = ["main"]

_COMMANDS: Final = {
    "demo": "_demo",
    "simulate": "_simulate",
    "compare": "_compare",
    "explain": "_explain",
    "replay": "_replay",
    "run": "_cluster",
    "extender": "_extender",
    "completion": "_completion",
}
"""The module of each command, in the order of the help; each has a function ``add_…``."""
_ON_A_CLUSTER: Final = ("run", "extender")
"""The commands that have read a whole cluster when they end."""
_NEEDS_ALL: Final = "completion"
"""Its script knows the options of every command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    code = execute(partial(_parser, given[0] if given else ""), arguments)
    if arguments is None and given and given[0] in _ON_A_CLUSTER:
        from gangsched.cli._signals import end_process  # no other command needs asyncio

        end_process(code)
    return code


def _parser(first: str = "") -> argparse.ArgumentParser:
    """Return the parser; if *first* names a command, only that one is known."""
    parser = Parser(prog="gangsched", description="Start every worker of a job together, or none.")
    parser.add_argument("--version", action="version", version=f"gangsched {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    only = first if first in _COMMANDS and first != _NEEDS_ALL else ""
    for command, module in _COMMANDS.items():
        if only in ("", command):
            _adder(module)(commands)
    return parser


def _adder(module: str) -> Callable[[Any], None]:
    found = import_module(f"gangsched.cli.{module}")
    return cast("Callable[[Any], None]", getattr(found, f"add{module}"))
