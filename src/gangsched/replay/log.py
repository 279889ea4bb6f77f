"""The decision log: its lines, and how they are written and read.

Rules:
  R1  the first line gives the format and its version; each line after it is one call;
  R2  a line is one JSON object in ASCII, with its fields in a fixed order: one run, one text;
  R3  a malformed line is refused, with its number and field, before any of it is used.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn, final

from attrs import field, frozen

from gangsched._version import __version__
from gangsched.errors import DecisionLogError, InvalidValueError
from gangsched.events import Effect, Event
from gangsched.quantity import is_seconds
from gangsched.replay.recipe import Recipe
from gangsched.values.form_table import EFFECT, EVENT
from gangsched.values.forms import Form, as_object, many

__all__ = ["CALLS", "FORMAT", "Call", "Header", "Log", "read_log"]

FORMAT: Final = "gangsched.decisions/1"
"""The name and version of the format, as in the header."""

CALLS: Final = (
    *("handle", "advance", "schedule_one", "rebuild"),
    *("restart", "allow_evictions", "shown"),
)
"""The kinds of lines: four calls of a scheduler, a new scheduler, that its host evicts, and what
the cluster showed."""

_EVENTS: Final[Form[tuple[Event, ...]]] = many(EVENT)
_EFFECTS: Final[Form[tuple[Effect, ...]]] = many(EFFECT)
_DECIDES: Final = frozenset(CALLS[:4])
_ALONE: Final = frozenset(("restart", "allow_evictions"))


@final
@frozen(kw_only=True)
class Header:
    """The first line.

    Attributes:
        recipe: How the scheduler was made; None if the writer did not record it.
        about: Other data of the writer, as plain data; replay ignores it.
        version: The version of the library that wrote the log.
    """

    recipe: Recipe | None = None
    about: Mapping[str, Any] = field(factory=dict[str, Any])
    version: str = __version__

    def to_line(self) -> str:
        """Return the header as a line, with its line break.

        Raises:
            InvalidValueError: ``about`` is not plain data.
        """
        try:
            _line(self.about)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidValueError("about", self.about, "an object of plain JSON data") from error
        scheduler = None if self.recipe is None else self.recipe.to_json()
        return _line(
            {
                "format": FORMAT,
                "gangsched": self.version,
                "scheduler": scheduler,
                "about": dict(self.about),
            }
        )


@final
@frozen(kw_only=True)
class Call:
    """One call, and what it returned.

    Attributes:
        line: The line in the log, from 1; 0 for a call that is being written.
        call: One of ``CALLS``. ``restart`` replaces the scheduler by a new one; ``shown`` is not a
            call of the scheduler.
        now: The instant of the call; None for ``restart``, ``allow_evictions`` and ``shown``.
        events: Those of ``handle``; the cluster shows them before the call.
        shown: What the cluster showed beyond the lines before and *events*: as events, in order.
        effects: What the call returned; None if ``schedule_one`` returned None, if the call raised,
            or if the kind of call returns nothing.
        raised: Type and message of the exception that the call raised; None if it returned.
    """

    line: int = 0
    call: str
    now: float | None = None
    events: tuple[Event, ...] = ()
    shown: tuple[Event, ...] = ()
    effects: tuple[Effect, ...] | None = None
    raised: str | None = None

    def to_line(self) -> str:
        """Return the call as a line, with its line break."""
        written: dict[str, Any] = {"call": self.call}
        if self.now is not None:
            written["now"] = self.now
        if len(self.events) == 1:
            written["event"] = EVENT.write(self.events[0])
        elif self.call == "handle":
            written["events"] = _EVENTS.write(self.events)
        if self.shown:
            written["shown"] = _EVENTS.write(self.shown)
        if self.raised is not None:
            written["raised"] = self.raised
        elif self.call in _DECIDES:
            written["effects"] = None if self.effects is None else _EFFECTS.write(self.effects)
        return _line(written)


@final
class Log:
    """A decision log that is read: its header, and its calls in order, each read when it is needed.

    Attributes:
        file: The name of the log for errors.
        header: Its first line.
    """

    def __init__(self, lines: Iterable[str], *, file: str = "log") -> None:
        self.file = file
        self._lines = enumerate(lines, start=1)
        _number, first = next(self._lines, (1, ""))
        self.header: Header = self._header(first)

    def __iter__(self) -> Iterator[Call]:
        """Iterate over the calls that were not read yet.

        Raises:
            DecisionLogError: The next line is malformed.
        """
        for number, text in self._lines:
            yield self._call(number, text)

    def _header(self, text: str) -> Header:
        if not text.strip():
            self._refuse(1, "", "expected a header, got nothing")
        given = self._object(1, text)
        if given.get("format") != FORMAT:
            found = _short(repr(given.get("format")))
            self._refuse(1, "format", f"expected {FORMAT}, got {found}")
        self._only(1, given, ("format", "gangsched", "scheduler", "about"))
        version, scheduler = given.get("gangsched"), None
        if not isinstance(version, str):
            self._refuse(1, "gangsched", f"expected a version, got {_short(repr(version))}")
        try:
            about = as_object(given.get("about"), "about")
            if given.get("scheduler") is not None:
                scheduler = Recipe.from_json(given["scheduler"], path="scheduler")
        except InvalidValueError as error:
            self._refuse_as(1, error)
        return Header(recipe=scheduler, about=about, version=version)

    def _call(self, number: int, text: str) -> Call:
        given = self._object(number, text)
        call = given.get("call")
        if call not in CALLS:
            found = _short(repr(call))
            self._refuse(number, "call", f"expected one of {', '.join(CALLS)}, got {found}")
        decides, has_events = call in _DECIDES, call == "handle"
        names = ("call", "now", "event", "events", "shown", "effects", "raised")
        fits = (True, decides, has_events, has_events, call not in _ALONE, decides, decides)
        self._only(number, given, [name for name, fit in zip(names, fits, strict=True) if fit])
        now = given.get("now")
        if decides and not is_seconds(now):
            found = _short(repr(now))
            self._refuse(number, "now", f"expected a finite number of seconds, got {found}")
        if has_events and ("event" in given) == ("events" in given):
            self._refuse(number, "event", "expected either event or events")
        raised = given.get("raised")
        if decides and ("effects" in given) == ("raised" in given):
            self._refuse(number, "effects", "expected either effects or raised")
        if "raised" in given and not isinstance(raised, str):
            self._refuse(number, "raised", f"expected a string, got {_short(repr(raised))}")
        returned = given.get("effects")
        if returned is None and "effects" in given and call != "schedule_one":
            self._refuse(number, "effects", "expected a list, got None")
        try:
            one = [given["event"]] if "event" in given else []
            events = tuple([EVENT.read(value, "event") for value in one])
            return Call(
                line=number,
                call=call,
                now=now,
                events=events or _EVENTS.read(given.get("events", []), "events"),
                shown=_EVENTS.read(given.get("shown", []), "shown"),
                effects=None if returned is None else _EFFECTS.read(returned, "effects"),
                raised=raised,
            )
        except InvalidValueError as error:
            self._refuse_as(number, error)

    def _object(self, number: int, text: str) -> dict[str, Any]:
        try:
            given: Any = json.loads(text, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            self._refuse(number, "", f"expected a JSON object, got {_short(text)}: {error}")
        if not isinstance(given, dict):
            self._refuse(number, "", f"expected a JSON object, got {_short(text)}")
        return as_object(given, "")

    def _only(self, number: int, given: dict[str, Any], names: Iterable[str]) -> None:
        for name in given:
            if name not in names:
                self._refuse(number, name, f"expected one of {', '.join(names)}")

    def _refuse_as(self, number: int, error: InvalidValueError) -> NoReturn:
        problem = f"expected {error.expected}, got {_short(repr(error.value))}"
        raise DecisionLogError(self.file, number, error.field, problem) from error

    def _refuse(self, number: int, name: str, problem: str) -> NoReturn:
        raise DecisionLogError(self.file, number, name, problem)


def read_log(lines: Iterable[str], *, file: str = "log") -> Log:
    """Read a decision log: the header at once, each call when it is needed.

    Args:
        lines: The lines, such as an open file.
        file: The name of the log for errors.

    Raises:
        DecisionLogError: The header is malformed, or of another format or version.
        InvalidValueError: An argument has a wrong type.
    """
    if isinstance(lines, str | bytes) or not isinstance(lines, Iterable):
        # a log may be large, so not all of its text is shown
        given = lines[:80] if isinstance(lines, str | bytes) else lines
        expected = "an iterable of lines, such as an open file or text.splitlines()"
        raise InvalidValueError("lines", given, expected)
    if not isinstance(file, str):
        raise InvalidValueError("file", file, "a string")
    return Log(lines, file=file)


def _line(written: Mapping[str, Any]) -> str:
    return json.dumps(written, separators=(",", ":"), allow_nan=False) + "\n"


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number in JSON")


def _short(text: str) -> str:
    text = text.strip()
    return text if len(text) <= 80 else text[:79] + "…"
