"""Text for a terminal, without control characters."""

from __future__ import annotations

__all__ = ["printable"]


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
