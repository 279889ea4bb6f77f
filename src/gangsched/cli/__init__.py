"""The ``gangsched`` command.

Rules:
  R1  exit code 0; 1 where a replay diverges; 2 for bad input, with one sentence that names file,
      place, field and value;
  R2  data goes to standard output, progress to standard error, and only on a terminal;
  R3  one input and one seed give the same bytes;
  R4  one module for each command, beside those that they share.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from gangsched._version import __version__
from gangsched.cli._demo import add_demo
from gangsched.cli._explain import add_explain
from gangsched.cli._files import BadInputError
from gangsched.cli._replay import add_replay
from gangsched.cli._simulate import add_simulate
from gangsched.errors import GangschedError

__all__ = ["main"]

BAD_INPUT: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    try:
        result: int = options.run(options)
    except (GangschedError, BadInputError) as error:
        print(f"gangsched: {error}", file=sys.stderr)
        return BAD_INPUT
    except ModuleNotFoundError as error:
        if error.name not in ("yaml", "rich"):
            raise
        print("gangsched: the command line needs: pip install 'gangsched[cli]'", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:
        # who reads us has read enough
        sys.stderr.close()
        return 0
    return result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gangsched", description="Start every worker of a job together, or none."
    )
    parser.add_argument("--version", action="version", version=f"gangsched {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for add in (add_demo, add_simulate, add_explain, add_replay):
        add(commands)
    return parser
