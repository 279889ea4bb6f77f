"""How a command is run: its exit code, and what becomes of errors.

Rules:
  R1  an error is one line on standard error, which begins with the name of the command;
  R2  a reader that closes the pipe early, such as ``head``, is no error.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from gangsched.cli._files import BadInputError
from gangsched.errors import GangschedError, TraceError
from gangsched.values.text import printable

__all__ = ["BAD_INPUT", "INTERRUPTED", "execute"]

BAD_INPUT: Final = 2
INTERRUPTED: Final = 130
"""The exit code after Ctrl-C: 128 and the number of SIGINT, as shells have it."""


def execute(
    make_parser: Callable[[], argparse.ArgumentParser], arguments: Sequence[str] | None
) -> int:
    """Parse arguments and run what they ask for; return the exit code.

    Args:
        make_parser: Returns the parser; its commands set ``run``, a callable that takes the options
            and returns the exit code.
        arguments: The arguments; None for those of the process.
    """
    _escape_what_cannot_be_encoded()
    parser = make_parser()
    try:
        try:
            return _run(parser, arguments)
        finally:
            # While the interpreter exits, a failed write could no longer be reported.
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as `head`, has closed the pipe. That is no error of this command.
        _discard_output()
        return 0
    except OSError as error:
        _discard_output()
        return _complain(parser, f"standard output: {error.strerror}")
    except (TraceError, BadInputError) as error:
        return _complain(parser, *error.sentences())
    except GangschedError as error:
        return _complain(parser, str(error))
    except ModuleNotFoundError as error:
        if error.name not in ("yaml", "rich", "shtab"):
            raise
        return _complain(parser, "the command line needs: pip install 'gangsched[cli]'")
    except KeyboardInterrupt:
        _complain(parser, "interrupted")
        return INTERRUPTED


def _run(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    options.parser = parser  # a script for completion is made from it
    code: int = options.run(options)
    return code


def _complain(parser: argparse.ArgumentParser, *sentences: str) -> int:
    for sentence in sentences:
        print(f"{parser.prog}: {printable(sentence)}", file=sys.stderr)
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
