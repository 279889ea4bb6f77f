"""``gangsched completion``: a script with which a shell completes the command."""

from __future__ import annotations

import argparse
from typing import Any, Final, cast

__all__ = ["add_completion"]

_SHELLS: Final = ("bash", "zsh", "tcsh")
_FILES: Final = ("FILE", "MANIFEST", "LOG", "JSON", "COUNTxGPUS|CSV")
"""The metavars of arguments that are files."""


def add_completion(commands: Any) -> None:
    """Add the command."""
    completion = commands.add_parser(
        "completion",
        help="print a script with which a shell completes the command",
        description="Print a script with which a shell completes the command. For bash: eval"
        ' "$(gangsched completion bash)"',
    )
    completion.set_defaults(run=_completion)
    completion.add_argument("shell", choices=_SHELLS)


def _completion(options: argparse.Namespace) -> int:
    import shtab

    parser: argparse.ArgumentParser = options.parser
    _mark_files(parser, shtab.FILE)
    print(shtab.complete(parser, shell=options.shell))
    return 0


def _mark_files(parser: argparse.ArgumentParser, files: object) -> None:
    """Let shtab complete names of files where a file is expected."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            inner = cast("dict[str, argparse.ArgumentParser]", vars(action)["choices"])
            for each in inner.values():
                _mark_files(each, files)
        elif set(_FILES) & set(_metavars(action)):
            vars(action)["complete"] = files


def _metavars(action: argparse.Action) -> tuple[str, ...]:
    given = action.metavar
    return given if isinstance(given, tuple) else (given or "",)
