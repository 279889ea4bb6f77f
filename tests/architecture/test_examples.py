"""What a reader copies from a page is a program as it would be written for production."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.document_types import modules_of
from support.documents import ROOT

_KIT = {
    *("docs/reference/testing.md", "docs/how-to/test-your-scheduler.md"),
    "docs/how-to/test-your-plugin.md",
    "docs/tutorial/test-a-scheduler.md",
}
"""The pages of the testing kit itself."""
_PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md")))
    if "_build" not in page.parts
]

_PROGRAMS = sorted((ROOT / "docs" / "how-to" / "hosts").glob("*.py"))


def _taken_from_the_kit(name: str, text: str) -> Iterator[str]:
    """Yield what the Python of a page imports from the testing kit."""
    for source in modules_of(name, text).values():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                if node.module.startswith(("gangsched.testing", "gangsched.strategies")):
                    yield from (each.name for each in node.names)
            elif isinstance(node, ast.Import):
                for each in node.names:
                    if each.name.startswith(("gangsched.testing", "gangsched.strategies")):
                        yield each.name


def _is_a_check(name: str) -> bool:
    """Whether a name is a check of something that the reader wrote, such as ``check_plugin``."""
    return name.startswith("check_")


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_example_needs_no_builder_of_the_testing_kit(page: Path) -> None:
    taken = list(_taken_from_the_kit("page", page.read_text(encoding="utf-8")))

    if str(page.relative_to(ROOT)) not in _KIT:
        assert [name for name in taken if not _is_a_check(name)] == []


def test_pages_of_the_testing_kit_import_it() -> None:
    for name in _KIT:
        assert list(_taken_from_the_kit("page", (ROOT / name).read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "line",
    [
        "from gangsched.testing import make_pod",
        "import gangsched.testing",
        ">>> from gangsched.strategies import pods",
    ],
)
def test_builder_in_an_example_is_found(line: str) -> None:
    assert list(_taken_from_the_kit("page", f"# A page\n\n```python\n{line}\n```\n"))


def test_every_function_of_an_example_is_annotated() -> None:
    """The type checkers demand it, too; this says so without them."""
    sources = [
        (page.name, source)
        for page in _PAGES
        for source in modules_of("page", page.read_text(encoding="utf-8")).values()
    ]
    sources += [(path.name, path.read_text(encoding="utf-8")) for path in _PROGRAMS]
    bare = [
        f"{name}: {node.name}"
        for name, source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if not _is_annotated(node)
    ]

    assert bare == []


def _is_annotated(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    starred = [each for each in (given.vararg, given.kwarg) if each is not None]
    bare = [each.arg for each in (*named, *starred) if each.annotation is None]
    return bare in ([], ["self"], ["cls"]) and function.returns is not None


def test_function_without_annotations_is_found() -> None:
    (function,) = ast.parse("def f(a, b: int) -> None: ...").body
    assert isinstance(function, ast.FunctionDef)

    assert not _is_annotated(function)
