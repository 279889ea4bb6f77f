"""Text for a terminal: numbers in plain decimals, and no control characters."""

from __future__ import annotations

__all__ = ["plain_number", "printable"]


def plain_number(value: float) -> str:
    """Return a number with at most three decimals, and never with an exponent.

    >>> plain_number(1795370000.25), plain_number(60.0)
    ('1795370000.25', '60')
    """
    text = f"{value:.3f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


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
