"""The packages of the framework, and which of them imports which, as a matrix.

Rules:
  R1  a dot is read from the sources: a module of one package imports a module of another;
  R2  the order is that of the architecture test, lowest package first. So every dot stands left
      of the diagonal, unless an import points up.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import gangsched
from pictures.svg import FAINT, INK, Picture

__all__ = ["imports_between", "package_matrix"]

FRAMEWORK = Path(gangsched.__file__).parent / "framework"
PREFIX = "gangsched.framework."
CELL, LEFT, TOP = 34.0, 150.0, 118.0


def imports_between(packages: Sequence[str]) -> Counter[tuple[str, str]]:
    """Return how many import statements of one package name another, by importer and imported."""
    found: Counter[tuple[str, str]] = Counter()
    for path in FRAMEWORK.rglob("*.py"):
        module = ".".join(path.relative_to(FRAMEWORK).with_suffix("").parts)
        here = _package_of(module, packages)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PREFIX):
                there = _package_of(str(node.module).removeprefix(PREFIX), packages)
                if here and there and here != there:
                    found[here, there] += 1
    return found


def package_matrix(packages: Sequence[str]) -> str:
    """Return the picture. Packages are given lowest first."""
    counts = imports_between(packages)
    width = LEFT + CELL * len(packages) + 44
    height = TOP + CELL * len(packages) + 20
    picture = Picture(width, height, "Which package of the framework imports which")
    for row, importer in enumerate(packages):
        y = TOP + CELL * row
        picture.text(LEFT - 10, y + 21, importer, text_anchor="end", font_weight="bold")
        x = LEFT + CELL * row + 20
        turn = f"rotate(-50 {x:.0f} {TOP - 8:.0f})"
        picture.text(x, TOP - 8, importer, transform=turn)
        for column, imported in enumerate(packages):
            number = counts[importer, imported]
            fill = "#e4ecf5" if number else "#f7f9fb"
            if row == column:
                fill = "#c5d0db"
            box = {"fill": fill, "stroke": "#ffffff"}
            picture.rect(LEFT + CELL * column, y, CELL, CELL, **box)
            if number:
                middle = LEFT + CELL * column + CELL / 2
                picture.shape("circle", None, cx=middle, cy=y + CELL / 2, r=5, fill=INK)
    picture.text(14, TOP - 14, "imports:", fill=FAINT)
    return str(picture)


def _package_of(module: str, packages: Sequence[str]) -> str:
    """Return the longest package that a module belongs to; empty for a module on top."""
    names = [name for name in packages if f"{module}.".startswith(f"{name}.")]
    return max(names, key=len, default="")
