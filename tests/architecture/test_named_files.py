"""The page on the architecture names files and functions that exist, and each package of the core.

A reader predicts from the page alone where an event goes. A file that is missing there, or a name
that has moved, makes the prediction wrong.
"""

from __future__ import annotations

import re
from pathlib import Path

import gangsched
from support.documents import ROOT

PACKAGE = Path(gangsched.__file__).parent
CORE = PACKAGE / "core"


def page() -> str:
    """Return the page on the architecture."""
    return (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")


def files_named(text: str) -> set[str]:
    """Return the modules that a text names with a package, such as ``intake/pods``."""
    return set(re.findall(r"`([a-z_]+/[a-z_]+)`", text))


def test_files_that_the_page_names_exist() -> None:
    named = files_named(page())
    assert len(named) > 25
    for name in sorted(named):
        places = [CORE / f"{name}.py", PACKAGE / f"{name}.py", PACKAGE / name]
        assert any(place.exists() for place in places), name


def test_functions_of_classes_that_the_page_names_exist() -> None:
    named = re.findall(r"`([A-Z]\w+)\.([a-z_]+)", page())
    assert len(named) >= 3
    sources = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")]
    for owner, name in named:
        defined = [source for source in sources if re.search(rf"^class {owner}\b", source, re.M)]
        assert any(re.search(rf"\n    def {name}\b", source) for source in defined), (owner, name)


def test_page_names_every_package_of_the_core() -> None:
    packages = {path.parent.name for path in CORE.rglob("__init__.py")} - {"core"}
    text = page()
    named = {name for name in packages if f"`{name}/" in text or f"core/{name}`" in text}
    assert named == packages
