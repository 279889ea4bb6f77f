"""The page with figures on Kubernetes shows what was measured, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PAGE = _ROOT / "docs" / "explanation" / "measured-on-kubernetes.md"


@pytest.mark.parametrize(
    ("figures", "mark"),
    [
        ("kubernetes.json", "figures"),
        ("kubernetes-twenty-minutes.json", "twenty minutes"),
        ("kubernetes-flood.json", "flood"),
        ("kubernetes-levels.json", "levels"),
        ("kubernetes-levels-5000.json", "levels of 5,000 nodes"),
    ],
)
def test_page_has_the_table_that_the_figures_give(tmp_path: Path, figures: str, mark: str) -> None:
    copy = tmp_path / "page.md"
    copy.write_text(_PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    program = _ROOT / "benchmarks" / "kubernetes_table.py"
    given = _ROOT / "benchmarks" / figures
    command = [sys.executable, str(program), str(given), "--page", str(copy), "--mark", mark]
    subprocess.run(command, check=True)
    assert copy.read_text(encoding="utf-8") == _PAGE.read_text(encoding="utf-8")
