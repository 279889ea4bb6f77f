"""The tables of a page of the documentation, as rows of text."""

from __future__ import annotations

from itertools import groupby
from typing import Final

from support.root import ROOT

__all__ = ["page_text", "tables_of"]

_DOCS: Final = ROOT / "docs"


def page_text(page: str) -> str:
    """Return the text of a page, by its path in ``docs``."""
    return (_DOCS / page).read_text(encoding="utf-8")


def tables_of(page: str, heading: str) -> list[list[list[str]]]:
    """Return the tables below a heading, up to the next one; each without its head.

    Args:
        page: The path of the page in ``docs``.
        heading: The heading, such as ``## Roles``.
    """
    lines = page_text(page).splitlines()
    begin = lines.index(heading) + 1
    rest = lines[begin:]
    end = next((n for n, line in enumerate(rest) if line.startswith("#")), len(rest))
    found: list[list[list[str]]] = []
    for is_row, group in groupby(rest[:end], lambda line: line.startswith("|")):
        if is_row:
            rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in group]
            found.append(rows[2:])
    return found
