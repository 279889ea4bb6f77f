"""The HTML page round a picture: a heading, the figures, and the charts.

Rules:
  R1  the page needs no other file;
  R2  it is readable on a phone: what is wider than the screen is scrolled by itself. Then the names
      of the rows of a table stay in sight;
  R3  every text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

__all__ = ["page_of"]

_PAGE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>body {{ margin: 0 auto; max-width: 44rem; background: #fff; font-family: sans-serif }}
h1 {{ font-size: 1.2rem }}
pre, div {{ overflow-x: auto }}
table {{ border-collapse: collapse; font-size: 0.8rem }}
th, td {{ padding: 0.1rem 0.5rem; text-align: right; white-space: nowrap }}
tr > :first-child {{ position: sticky; left: 0; background: #fff; text-align: left }}
tbody th {{ font-weight: normal; white-space: pre }}
tbody tr:nth-child(even) > * {{ background: #f4f4f4 }}
svg {{ width: 100%; height: auto }}</style>
<h1>{title}</h1>
{figures}{svg}
</html>
"""


def page_of(title: str, svg: str, *, summary: str, table: Sequence[Sequence[str]]) -> str:
    """Return a page.

    Args:
        title: The heading.
        svg: The charts.
        summary: Figures as text; empty for none.
        table: Figures as rows of cells, the first one being the headings; empty for none.
    """
    figures = f"<pre>{escape(summary)}</pre>\n" if summary else ""
    if table:
        figures += f"<div><table>\n{_rows(table)}</tbody>\n</table></div>\n"
    return _PAGE.format(title=escape(title), figures=figures, svg=svg)


def _rows(table: Sequence[Sequence[str]]) -> str:
    headings, *rows = table
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in headings)
    return f"<thead><tr>{head}</tr></thead>\n<tbody>\n{''.join(map(_row, rows))}"


def _row(cells: Iterable[str]) -> str:
    name, *values = cells
    found = "".join(f"<td>{escape(value)}</td>" for value in values)
    return f'<tr><th scope="row">{escape(name)}</th>{found}</tr>\n'
