"""The suite is whole: each row once, and each of our own answers explained."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from support.conformance import ROWS, ids_in

pytestmark = pytest.mark.once("makes no scheduler that decides")

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "explanation" / "conformance.md"


def explained() -> list[str]:
    """Return the number of each row in the page's table of answers that differ."""
    text = PAGE.read_text(encoding="utf-8")
    table = text.partition("\n## Rows with another result\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| ")]
    return [number for cell in cells for number in re.findall(r"\b\d+v?\b", cell)]


def test_every_row_is_covered_exactly_once() -> None:
    counted = Counter(number for number, _ours in ids_in(HERE))
    assert counted == Counter(ROWS)


def test_every_answer_of_our_own_is_explained_and_nothing_else() -> None:
    ours = sorted(number for number, is_ours in ids_in(HERE) if is_ours)
    assert sorted(explained()) == ours
