"""The page of failure modes is whole: each number has its row, each row a test that names it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from attrs import frozen

from support.documents import ROOT

_PAGE = ROOT / "docs" / "explanation" / "failure-modes.md"
_NUMBERS = [f"F{number}" for number in range(1, 62)]
_EXCUSE = "Cannot happen: "


@frozen
class Row:
    """One row: a number or an issue, what goes wrong elsewhere, what is done here."""

    name: str
    elsewhere: str
    here: str


def _rows() -> Iterator[Row]:
    for line in _PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and not line.startswith("| |"):
            yield Row(*(cell.strip() for cell in line.strip("|").split("|")))


ROWS = list(_rows())


@pytest.fixture(scope="module")
def docstrings() -> str:
    """Return what the files of tests, and what is in them, say of themselves."""
    scenarios = (ROOT / "tests" / "testdata").glob("*.txt")
    lines = (line for path in scenarios for line in path.read_text(encoding="utf-8").splitlines())
    found = [line for line in lines if line.startswith("# ")]
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        found.extend(
            ast.get_docstring(node) or ""
            for node in (module, *module.body)
            if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        )
    return "\n".join(found)


def test_each_failure_mode_has_exactly_one_row_and_the_rows_are_in_order() -> None:
    assert [row.name for row in ROWS if re.fullmatch(r"F\d+", row.name)] == _NUMBERS


def test_no_row_is_there_twice_and_none_is_empty() -> None:
    names = [row.name for row in ROWS]

    assert len(set(names)) == len(names)
    assert not [row.name for row in ROWS if not row.elsewhere or not row.here]


def test_each_row_is_named_by_a_test_or_says_that_it_cannot_happen(docstrings: str) -> None:
    bare = {
        row.name
        for row in ROWS
        if not re.search(rf"(?<!\w){re.escape(row.name)}(?!\w)", docstrings)
    }

    assert bare == {row.name for row in ROWS if row.here.startswith(_EXCUSE)}


def test_page_is_linked() -> None:
    text = (_PAGE.parent / "index.md").read_text(encoding="utf-8")

    assert "(failure-modes.md)" in text
    assert re.search(r"^failure-modes$", text, re.MULTILINE)
