"""``--picture``: a picture of a run, or of several."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gangsched.cli._files import BadInputError
from gangsched.errors import InvalidValueError
from gangsched.simulation import Report
from gangsched.simulation.pictures import FORMATS, DrawnRun, check_picture, picture
from gangsched.simulation.timeline import Timeline

__all__ = ["add_picture", "check_files", "draw"]


def add_picture(group: Any) -> None:
    """Add the option."""
    group.add_argument(
        "--picture",
        action="append",
        default=[],
        metavar="FILE",
        help=f"draw the run to a file that ends with {', '.join(FORMATS)}; may be repeated; needs"
        " the extra pictures",
    )


def check_files(names: Sequence[str]) -> None:
    """Check before the run that pictures could be drawn after it.

    Raises:
        BadInputError: matplotlib is not installed.
        InvalidValueError: The ending of a name is unknown.
    """
    for name in names:
        try:
            check_picture(name)
        except InvalidValueError as error:
            raise InvalidValueError("--picture", error.value, error.expected) from None
    if names and find_spec("matplotlib") is None:
        raise BadInputError("--picture needs: pip install 'gangsched[pictures]'")


def draw(
    names: Sequence[str],
    runs: Sequence[tuple[str, Report, Timeline]],
    *,
    caption: str,
    summary: str = "",
    table: Sequence[Sequence[str]] = (),
) -> None:
    """Draw runs to each of several files.

    Args:
        names: The files.
        runs: The name of each run, its report and its timeline.
        caption: What was run.
        summary: The figures of the runs as text.
        table: The figures of the runs as rows of cells.

    Raises:
        BadInputError: A file cannot be written.
    """
    drawn = [DrawnRun(title, result, timeline) for title, result, timeline in runs]
    for name in names:
        ending = check_picture(name)
        found = picture(drawn, ending=ending, summary=summary, table=table, caption=caption)
        try:
            Path(name).write_bytes(found)
        except OSError as error:
            raise BadInputError(f"{name}: {error.strerror}") from error
