"""A plugin on a page takes what the protocols pass to it.

A plugin is any object, so type checkers compare no method of it with a protocol.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import gangsched.protocols
from support.document_types import modules_of
from support.documents import ROOT

_PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md")))
    if "_build" not in page.parts
]
_WIDER = {"NodeName": {"str"}, "PodUID": {"str"}}
"""Types that a method may take in place of the one that it is given, besides ``object``."""


def _methods(source: str, *, of_plugins: bool) -> Iterator[ast.FunctionDef]:
    """Yield the methods of classes; of plugins only where these are known by a name."""
    for each in ast.walk(ast.parse(source)):
        if isinstance(each, ast.ClassDef):
            named = any(
                isinstance(target, ast.Name) and target.id == "name"
                for line in each.body
                for target in (
                    line.targets
                    if isinstance(line, ast.Assign)
                    else [line.target]
                    if isinstance(line, ast.AnnAssign)
                    else []
                )
            )
            for line in each.body:
                if isinstance(line, ast.FunctionDef) and (
                    named or bool(each.bases) or not of_plugins
                ):
                    yield line


def _parameters(function: ast.FunctionDef) -> dict[str, str]:
    given = function.args
    every = (*given.posonlyargs, *given.args, *given.kwonlyargs)
    return {each.arg: ast.unparse(each.annotation) for each in every if each.annotation is not None}


_PORTS = sorted(Path(gangsched.protocols.__file__).parent.glob("*.py"))
_PASSED = {
    method.name: _parameters(method)
    for file in _PORTS
    for method in _methods(file.read_text(encoding="utf-8"), of_plugins=False)
    if not method.name.startswith("_") and method.name not in ("node", "pod", "pods", "nodes")
}
"""By method: the parameters of a plugin, with the type of what is passed."""


def _wrong(source: str) -> list[str]:
    return [
        f"{method.name}: {name} is {taken}, not {passed}"
        for method in _methods(source, of_plugins=True)
        for name, taken in _parameters(method).items()
        for passed in [_PASSED.get(method.name, {}).get(name, taken)]
        if taken not in {passed, "object", "Any", *_WIDER.get(passed, ())}
    ]


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_plugin_on_a_page_takes_what_is_passed_to_it(page: Path) -> None:
    sources = modules_of("page", page.read_text(encoding="utf-8")).values()

    assert [line for source in sources for line in _wrong(source)] == []


def test_wrong_parameter_of_a_plugin_is_found() -> None:
    source = (
        "class P:\n    name = 'P'\n    def node_signature(self, node: Node) -> Hashable: return 1\n"
    )

    assert _wrong(source) == ["node_signature: node is Node, not NodeView"]
    assert _wrong(source.replace("node: Node", "node: NodeView")) == []
