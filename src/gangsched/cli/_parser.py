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
        hint = f"; did you mean {found}?" if found else ""
        line = f"{self.prog}: {printable(message)}{hint} (see {self.prog} --help)\n"
        self.exit(_BAD_INPUT, line)

    def _suggestion(self, message: str) -> str | None:
        """Return the known word that is nearest to the unknown one of a message."""
        choice, unknown = _CHOICE.search(message), _UNKNOWN.search(message)
        if choice is not None:
            return _nearest(choice["word"], self._choices())
        if unknown is not None:
            return _nearest(unknown["word"], self._options())
        return None

    def _choices(self) -> list[str]:
        return [str(each) for action in self._actions for each in action.choices or ()]

    def _options(self) -> list[str]:
        words = [word for action in self._actions for word in action.option_strings]
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                found: Any = vars(action)["choices"]
                parsers = cast("Mapping[str, object]", found).values()
                known = (each for each in parsers if isinstance(each, Parser))
                words += [word for each in known for word in each._options()]
        return words


def _nearest(word: str, known: Iterable[str]) -> str | None:
    return next(iter(get_close_matches(word, sorted(set(known)), n=1)), None)
