"""``--picture``: a picture of a run, or of several."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gangsched.cli._files import BadInputError
from gangsched.simulation import Report
from gangsched.simulation.pictures import FORMATS, DrawnRun, check_picture, picture
from gangsched.simulation.timeline import Timeline

__all__ = ["add_picture", "check_file", "draw"]


def add_picture(group: Any) -> None:
    """Add the option."""
    group.add_argument(
        "--picture",
        metavar="FILE",
        help=f"draw the run to a file that ends with {', '.join(FORMATS)}; needs the extra"
        " pictures",
    )


def check_file(name: str | None) -> None:
    """Check before the run that a picture could be drawn after it.

    Raises:
        BadInputError: The ending of the name is unknown, or matplotlib is not installed.
    """
    if name is None:
        return
    check_picture(name)
    if find_spec("matplotlib") is None:
        raise BadInputError("--picture needs: pip install 'gangsched[pictures]'")


def draw(name: str, runs: Sequence[tuple[str, Report, Timeline]]) -> None:
    """Draw runs to a file.

    Raises:
        BadInputError: The file cannot be written.
    """
    drawn = [DrawnRun(title, result, timeline) for title, result, timeline in runs]
    found = picture(drawn, ending=check_picture(name))
    try:
        Path(name).write_bytes(found)
    except OSError as error:
        raise BadInputError(f"{name}: {error.strerror}") from error
