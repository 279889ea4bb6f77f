"""``gangsched replay``: run a decision log again."""

from __future__ import annotations

import argparse
import sys
from typing import Any, Final

from gangsched.cli._command import INTERRUPTED
from gangsched.cli._files import BadInputError, lines
from gangsched.cli._options import POLICY, add_policy, make_of, policy_settings
from gangsched.replay import Replay, read_log
from gangsched.values.text import printable

__all__ = ["add_replay"]

DIVERGED: Final = 1


def add_replay(commands: Any) -> None:
    """Add the command."""
    again = commands.add_parser(
        "replay",
        help="run a decision log again",
        description="Run a decision log again, and print the first call that differs from it.",
    )
    again.set_defaults(run=_replay)
    again.add_argument("log", metavar="LOG", help="a decision log; - for standard input")
    add_policy(again)


def _replay(options: argparse.Namespace) -> int:
    given = {name: getattr(options, name) for name in POLICY}
    said = {name: value for name, value in given.items() if value is not None}
    if options.config is not None:
        said["config"] = options.config
    elif said and options.policy is None:
        raise BadInputError(f"--{next(iter(said)).replace('_', '-')} requires --policy")
    log = read_log(lines(options.log), file=options.log)
    if log.header.recipe is None and not said:
        raise BadInputError(
            f"{options.log}: the log's header has no recipe: the log was written with a function"
            " or a configuration; name it: --policy MODULE:FUNCTION, or --config FILE"
        )
    running = Replay(log, make_of(policy_settings(options)) if said else None)
    line = 1
    try:
        for call in log:
            line = call.line
            running.show(call)
            running.perform(call)
            if running.divergence is not None:
                print(f"{printable(options.log)}: {running.divergence}")
                return DIVERGED
    except KeyboardInterrupt:
        print(f"{printable(options.log)}: no divergence before line {line}")
        print("gangsched: interrupted", file=sys.stderr)
        return INTERRUPTED
    print(f"{printable(options.log)}: no divergence")
    return 0
