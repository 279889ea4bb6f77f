"""The page on the architecture names files and functions that exist, and each file of a walk.

A reader predicts from the page alone where an event goes. A file that is missing there, or a name
that has moved, makes the prediction wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import gangsched
from support.documents import ROOT

PACKAGE = Path(gangsched.__file__).parent
FRAMEWORK = PACKAGE / "framework"
WALKED = ("cycle", "events", "lifecycle", "queueing")
NOT_ON_THE_WALK = {
    "events/gates": "read by `wanted_state`",
    "lifecycle/notices": "posts notices, decides nothing",
    "queueing/quotas": "asked by PreEnqueue, through `bundles`",
}
"""Files of the walked packages that the walks need not name, and why."""


def page() -> str:
    """Return the page on the architecture."""
    return (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")


def files_named(text: str) -> set[str]:
    """Return the modules that a text names with a package, such as ``events/dispatch``."""
    return set(re.findall(r"`([a-z_]+/[a-z_]+)(?:\.\w+)?`", text))


def functions_named(text: str) -> set[tuple[str, str]]:
    """Return the functions that a text names with a module, such as ``release.perform``."""
    found = re.findall(r"`(?:[a-z_]+/)?([a-z_]+)\.([a-z_]+)`", text)
    return {(module, name) for module, name in found if name != "py"}


def sources_of(module: str) -> Iterator[str]:
    """Yield the sources of every module with a name."""
    for path in PACKAGE.rglob(f"{module}.py"):
        yield path.read_text(encoding="utf-8")


def test_files_that_the_page_names_exist() -> None:
    named = files_named(page())
    assert len(named) > 40
    for name in sorted(named):
        places = [FRAMEWORK / f"{name}.py", PACKAGE / f"{name}.py", FRAMEWORK / name]
        assert any(place.exists() for place in places), name


def test_functions_that_the_page_names_are_defined_in_their_module() -> None:
    named = functions_named(page())
    assert len(named) > 30
    for module, name in sorted(named):
        sources = list(sources_of(module))
        if not sources:  # a package of a package, such as placement.packing
            assert list(PACKAGE.rglob(f"{module}/{name}/__init__.py")), f"{module}.{name}"
            continue
        is_defined = re.compile(rf"^ *(?:def|class) {name}\b", re.MULTILINE)
        assert any(is_defined.search(source) for source in sources), f"{module}.{name}"


@pytest.mark.parametrize("package", WALKED)
def test_page_names_every_file_of_the_packages_that_a_walk_passes(package: str) -> None:
    text = page()
    walks = text[text.index("### The walk of an event") : text.index("## The laws")]
    paths = sorted((FRAMEWORK / package).glob("[a-z]*.py"))
    assert paths
    for path in paths:
        name = f"{package}/{path.stem}"
        is_named = f"`{name}" in walks or re.search(rf"`{path.stem}[.`]", walks) is not None
        assert is_named or name in NOT_ON_THE_WALK, name


def test_list_of_files_outside_of_the_walks_is_not_out_of_date() -> None:
    assert all((FRAMEWORK / f"{name}.py").exists() for name in NOT_ON_THE_WALK)
