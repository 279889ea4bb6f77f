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
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from gangsched._text import printable
from gangsched._version import __version__
from gangsched.cli._cluster import add_cluster
from gangsched.cli._compare import add_compare
from gangsched.cli._completion import add_completion
from gangsched.cli._demo import add_demo
from gangsched.cli._explain import add_explain
from gangsched.cli._files import BadInputError
from gangsched.cli._parser import Parser
from gangsched.cli._replay import add_replay
from gangsched.cli._run import INTERRUPTED
from gangsched.cli._simulate import add_simulate
from gangsched.errors import GangschedError

__all__ = ["main"]

BAD_INPUT: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    _escape_what_cannot_be_encoded()
    try:
        try:
            return _run(arguments)
        finally:
            # While the interpreter exits, a failed write could no longer be reported.
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as `head`, has closed the pipe. That is no error of this command.
        _discard_output()
        return 0
    except OSError as error:
        _discard_output()
        return _complain(f"standard output: {error.strerror}")
    except (GangschedError, BadInputError) as error:
        return _complain(str(error))
    except ModuleNotFoundError as error:
        if error.name not in ("yaml", "rich", "shtab"):
            raise
        return _complain("the command line needs: pip install 'gangsched[cli]'")
    except KeyboardInterrupt:
        _complain("interrupted")
        return INTERRUPTED


def _run(arguments: Sequence[str] | None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    options.parser = parser  # a script for completion is made from it
    code: int = options.run(options)
    return code


def _complain(sentence: str) -> int:
    print(f"gangsched: {printable(sentence)}", file=sys.stderr)
    return BAD_INPUT


def _escape_what_cannot_be_encoded() -> None:
    """Let standard output and standard error escape what their encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _discard_output() -> None:
    """Discard what is still buffered, so that the interpreter does not fail on it at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
        add_completion,
    ):
        add(commands)
    return parser
