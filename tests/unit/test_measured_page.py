"""The page with figures on Kubernetes shows what was measured, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_PAGE = _ROOT / "docs" / "explanation" / "measured-on-kubernetes.md"


def test_page_has_the_table_that_the_figures_give(tmp_path: Path) -> None:
    copy = tmp_path / "page.md"
    copy.write_text(_PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    program = _ROOT / "benchmarks" / "kubernetes_table.py"
    figures = _ROOT / "benchmarks" / "kubernetes.json"
    subprocess.run([sys.executable, program, figures, "--page", copy], check=True)
    assert copy.read_text(encoding="utf-8") == _PAGE.read_text(encoding="utf-8")
