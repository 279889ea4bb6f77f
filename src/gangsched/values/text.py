"""Text that others have written: made printable, and cut at a sane length."""

from __future__ import annotations

from typing import Final

__all__ = ["LONGEST_NAME", "printable", "shortened"]

LONGEST_NAME: Final = 253
"""The most characters of the name of a Kubernetes object."""
_CUT: Final = "..."


def printable(text: str) -> str:
    r"""Return *text* on one line, with every character that is not printable escaped.

    Names and messages come from files and from API servers. Written raw, a control sequence in
    a name could clear the screen, and a line break could forge a line of a report.

    Runtime complexity: O(text).

    >>> printable("a\x1b[2Jb\nc")
    'a\\x1b[2Jb\\nc'
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def shortened(text: str, most: int) -> str:
    """Return *text*, cut at *most* bytes of UTF-8; three dots at its end say that it was cut.

    The API server counts bytes, and refuses an event whose note is longer.

    Runtime complexity: O(most).

    >>> shortened("insufficient memory", 12)
    'insuffici...'
    """
    if 4 * len(text) <= most or len(text[: most + 1].encode(errors="replace")) <= most:
        return text
    kept = text[:most].encode(errors="replace")[: most - len(_CUT)]
    return kept.decode(errors="ignore") + _CUT
