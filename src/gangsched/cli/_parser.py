"""The parser of the command: an error is one line, with a suggestion for a misspelled word."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final, NoReturn, cast, final

from gangsched._text import printable

__all__ = ["Parser"]

_BAD_INPUT: Final = 2
_CHOICE: Final = re.compile(r"invalid choice: '(?P<word>[^']*)'")
_UNKNOWN: Final = re.compile(r"unrecognized arguments: (?P<word>--[^ =]+)")


@final
class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line on standard error, and exit code 2."""

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
