"""The page of failure modes is whole: each number has its row, each row a test that shows it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from attrs import frozen

from support.documents import ROOT

_PAGE = ROOT / "docs" / "explanation" / "failure-modes.md"
_NUMBERS = [f"F{number}" for number in range(1, 62)]
_LATER: list[str] = []
"""Those that belong to what is not there yet."""
_EXCUSES = ("Cannot happen: ", "Later: ")


@frozen
class Row:
    """One row: a number or an issue, what goes wrong elsewhere, what is done here, the tests."""

    name: str
    elsewhere: str
    here: str
    tests: tuple[str, ...]


def _rows() -> list[Row]:
    rows: list[Row] = []
    for line in _PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and not line.startswith("| |"):
            name, elsewhere, here, shown = (cell.strip() for cell in line.strip("|").split("|"))
            rows.append(Row(name, elsewhere, here, tuple(re.findall(r"`([^`]+)`", shown))))
    return rows


ROWS = _rows()
NAMED = [(row.name, test) for row in ROWS for test in row.tests]


@cache
def _docstrings(path: Path) -> dict[str, str]:
    """Return what each test of a file says of itself; with it, what the file says."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    about = ast.get_docstring(module) or ""
    return {
        node.name: f"{about}\n{ast.get_docstring(node) or ''}"
        for node in module.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name.lower().startswith("test")
    }


def test_each_failure_mode_has_exactly_one_row_and_the_rows_are_in_order() -> None:
    assert [row.name for row in ROWS if re.fullmatch(r"F\d+", row.name)] == _NUMBERS


def test_no_row_is_there_twice_and_none_is_empty() -> None:
    names = [row.name for row in ROWS]

    assert len(set(names)) == len(names)
    assert not [row.name for row in ROWS if not row.elsewhere or not row.here]


def test_each_row_names_a_test_or_says_why_there_is_none() -> None:
    bare = [row for row in ROWS if not row.tests]

    assert [row.name for row in bare if not row.here.startswith(_EXCUSES)] == []
    assert [row.name for row in bare if row.here.startswith("Later: ")] == _LATER


@pytest.mark.parametrize(("name", "test"), NAMED)
def test_each_test_that_is_named_exists_and_cites_the_number_of_its_row(
    name: str, test: str
) -> None:
    path, _colons, function = test.partition("::")
    about = _docstrings(ROOT / path)

    assert function in about, f"{name}: {test} does not exist"
    cites = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", about[function])
    assert cites, f"{test} does not say that it is about {name}"


def test_page_is_linked() -> None:
    text = (_PAGE.parent / "index.md").read_text(encoding="utf-8")

    assert "(failure-modes.md)" in text
    assert re.search(r"^failure-modes$", text, re.MULTILINE)
