"""The parser of the command.

Rules:
  R1  an error is one line, with a suggestion for a misspelled word;
  R2  an option with one value is given once: a second value would drop the first in silence.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, NoReturn, cast, final

from gangsched.values.text import printable

__all__ = ["Parser"]

_BAD_INPUT: Final = 2
_GIVEN: Final = "_given"
_CHOICE: Final = re.compile(r"invalid choice: '(?P<word>[^']*)'")
_UNKNOWN: Final = re.compile(r"unrecognized arguments: (?P<word>--[^ =]+)")


@final
class _StoreOnce(argparse.Action):
    """Stores the value of an argument; an option that is given twice is an error."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Store the value."""
        # in the namespace, because a parser may be used again
        given: set[str] = vars(namespace).setdefault(_GIVEN, set())
        if option_string is not None and self.dest in given:
            raise argparse.ArgumentError(self, "expected one value, but it is given twice")
        given.add(self.dest)
        setattr(namespace, self.dest, values)


@final
class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line on standard error, and exit code 2."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        for action in (None, "store"):
            self.register("action", action, _StoreOnce)

    def error(self, message: str) -> NoReturn:
        """Print what is wrong, the nearest word that is right, and where help is."""
        found = self._suggestion(message)
        hint = f"; {found}" if found else ""
        line = f"{self.prog}: {printable(message)}{hint} (see {self.prog} --help)\n"
        self.exit(_BAD_INPUT, line)

    def _suggestion(self, message: str) -> str | None:
        """Return what was meant by the unknown word of a message, or where it is known."""
        choice, unknown = _CHOICE.search(message), _UNKNOWN.search(message)
        if choice is not None:
            return _nearest(choice["word"], self._choices())
        if unknown is None:
            return None
        word = unknown["word"]
        commands = [name for name, each in self._commands() if word in each._options()]
        if commands:
            return f"{word} is an option of {', '.join(commands)}"
        return _nearest(word, self._options())

    def _commands(self) -> list[tuple[str, Parser]]:
        found: list[tuple[str, Parser]] = []
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                known: Any = vars(action)["choices"]
                parsers = cast("Mapping[str, object]", known).items()
                found += [(name, each) for name, each in parsers if isinstance(each, Parser)]
        return found

    def _choices(self) -> list[str]:
        return [str(each) for action in self._actions for each in action.choices or ()]

    def _options(self) -> list[str]:
        words = [word for action in self._actions for word in action.option_strings]
        return words + [word for _name, each in self._commands() for word in each._options()]


def _nearest(word: str, known: Iterable[str]) -> str | None:
    found = get_close_matches(word, sorted(set(known)), n=1)
    return f"did you mean {found[0]}?" if found else None
