"""How high is the core, how branched are its functions, how large are the library and its tests?

Rules:
  R1  a floor is a module of the core, or a package below it, whatever that contains. A floor is
      above those it imports, for type checkers too. Floors that import each other are one;
  R2  a branch is an ``if``, a loop, an exception that is caught, a case of a ``match``, a
      conditional expression, a comprehension, and each operand of ``and`` or ``or`` but the first.
      A nested function has its own branches, a lambda has those of its function;
  R3  lines are those of Python files, with docstrings, comments and empty lines. The library is
      counted without the folders ``kubernetes``, ``simulation`` and ``cli``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from attrs import frozen

import gangsched

__all__ = ["CROWDED", "LARGE", "branches", "floors", "large_files", "library_lines", "tests_lines"]

CROWDED: Final = 15
"""The branches that a function should not exceed."""
LARGE: Final = 400
"""The lines that a file of the core should not exceed."""

_PACKAGE: Final = Path(gangsched.__file__).parent
_CORE: Final = _PACKAGE / "core"
_APART: Final = frozenset({"kubernetes", "simulation", "cli"})
_BRANCHES: Final = (
    *(ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case, ast.IfExp),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _lines(files: Iterable[Path]) -> int:
    return sum(len(_text(file).splitlines()) for file in files)


def library_lines() -> int:
    """Return the lines of the library."""
    files = _PACKAGE.rglob("*.py")
    return _lines(f for f in files if f.relative_to(_PACKAGE).parts[0] not in _APART)


def tests_lines() -> int:
    """Return the lines of what the tests of this checkout share; 0 if there are no tests."""
    return _lines((_PACKAGE.parents[1] / "tests" / "support").rglob("*.py"))


def large_files() -> int:
    """Return how many files of the core have more than ``LARGE`` lines."""
    return sum(_lines([file]) > LARGE for file in _CORE.rglob("*.py"))


def _trees() -> dict[str, ast.Module]:
    """Return the modules of the core by their names, packages without ``__init__``."""
    named: dict[str, ast.Module] = {}
    for file in _CORE.rglob("*.py"):
        parts = file.relative_to(_PACKAGE.parent).with_suffix("").parts
        named[".".join(parts).removesuffix(".__init__")] = ast.parse(_text(file))
    return named


def _imported(tree: ast.Module) -> Iterator[tuple[str, ...]]:
    """Yield the names that each import may be about, the likeliest first."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield f"{node.module}.{alias.name}", f"{node.module}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.name,)


def _package_or_module(module: str) -> str:
    """Return the floor of a module: ``gangsched.core`` and one more name."""
    return ".".join(module.split(".")[:3])


def floors(*, by_module: bool = False) -> int:
    """Return the length of the longest chain of imports in the core."""
    trees = _trees()
    floor: Callable[[str], str] = str if by_module else _package_or_module
    below: dict[str, set[str]] = {floor(module): set() for module in trees}
    for module, tree in trees.items():
        for names in _imported(tree):
            targets = [floor(name) for name in names if name in trees][:1]
            below[floor(module)].update(targets)
    reached = {name: _reached(name, below) for name in below}

    # What a floor imports reaches less than that floor, so it comes before it in the sorted order.
    # Floors that import each other reach the same, and share an entry.
    heights: dict[frozenset[str], int] = {}
    for name in sorted(below, key=lambda name: len(reached[name])):
        lower = [heights[reached[n]] for n in reached[name] if reached[n] != reached[name]]
        heights[reached[name]] = 1 + max(lower, default=0)
    return max(heights.values())


def _reached(name: str, below: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """Return what a floor imports, directly or not, and itself."""
    reached, left = {name}, [name]
    while left:
        new = set(below[left.pop()]) - reached
        reached |= new
        left.extend(new)
    return frozenset(reached)


@frozen(order=True)
class Branched:
    """A function of the core, and its branches."""

    branches: int
    module: str
    name: str


def branches() -> list[Branched]:
    """Return the functions of the core, those with the most branches first."""
    found = [
        Branched(-_count(node), module.removeprefix("gangsched."), name)
        for module, tree in _trees().items()
        for name, node in _functions(tree, "")
    ]
    return [Branched(-each.branches, each.module, each.name) for each in sorted(found)]


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, _Function]]:
    """Yield the functions in a node, with the names of the classes and functions around them."""
    for child in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(child, (*_FUNCTIONS, ast.ClassDef)):
            inner = f"{prefix}{child.name}."
        if isinstance(child, _FUNCTIONS):
            yield inner[:-1], child
        yield from _functions(child, inner)


def _count(node: ast.AST) -> int:
    """Return how many branches there are below a node."""
    count = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _FUNCTIONS):
            continue
        count += isinstance(child, _BRANCHES) + _count(child)
        if isinstance(child, ast.BoolOp):
            count += len(child.values) - 1
    return count
