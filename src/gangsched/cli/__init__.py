"""The ``gangsched`` command.

Rules:
  R1  the exit code is 0; 1 if a replay diverges; 2 for bad input, or if standard output cannot
      be written; 130 after Ctrl-C. An error is one sentence with file, place, field and value;
  R2  data goes to standard output; progress goes to standard error, and only on a terminal;
  R3  the same input and the same seed give the same bytes;
  R4  text output escapes every character that is not printable or that the stream cannot encode;
  R5  there is one module for each command, and one for each thing that commands share.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from gangsched._version import __version__
from gangsched.cli._cluster import add_cluster
from gangsched.cli._command import execute
from gangsched.cli._compare import add_compare
from gangsched.cli._completion import add_completion
from gangsched.cli._demo import add_demo
from gangsched.cli._explain import add_explain
from gangsched.cli._extender import add_extender
from gangsched.cli._parser import Parser
from gangsched.cli._replay import add_replay
from gangsched.cli._simulate import add_simulate

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    return execute(_parser, arguments)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="gangsched", description="Start every worker of a job together, or none.")
    parser.add_argument("--version", action="version", version=f"gangsched {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for add in (
        add_demo,
        add_simulate,
        add_compare,
        add_explain,
        add_replay,
        add_cluster,
        add_extender,
        add_completion,
    ):
        add(commands)
    return parser
