"""``gangsched replay``: run a decision log again."""

from __future__ import annotations

import argparse
from typing import Any, Final

from gangsched.cli._files import BadInputError, lines
from gangsched.cli._options import POLICY, add_policy, recipe
from gangsched.replay import replay

__all__ = ["add_replay"]

DIVERGED: Final = 1


def add_replay(commands: Any) -> None:
    """Add the command."""
    again = commands.add_parser(
        "replay",
        help="run a decision log again",
        description="Run a decision log again, and say where it first goes another way.",
    )
    again.set_defaults(run=_replay)
    again.add_argument("log", metavar="LOG", help="a decision log; - for stdin")
    add_policy(again)


def _replay(options: argparse.Namespace) -> int:
    given = {name: getattr(options, name) for name in POLICY}
    said = {name: value for name, value in given.items() if value is not None}
    if said and options.policy is None:
        raise BadInputError(f"--{next(iter(said)).replace('_', '-')}: expected --policy with it")
    divergence = replay(
        lines(options.log), recipe({**POLICY, **said}) if said else None, file=options.log
    )
    if divergence is None:
        print(f"{options.log}: no divergence")
        return 0
    print(f"{options.log}: {divergence}")
    return DIVERGED
