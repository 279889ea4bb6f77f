"""The Python of ``README.md`` and ``docs`` as modules, for type checkers to read.

``python tests/support/document_types.py FOLDER`` writes one module for each document: its Python
blocks and doctests in their order, as they run. A block that follows ``<!-- file: NAME.py -->`` is
a program of its own and becomes a module of its own. Lines keep their numbers: an error in
``docs/how-to/write_a_driver.py:12`` is in line 12 of ``docs/how-to/write-a-driver.md``.

It also writes ``mypy.ini`` and ``pyrightconfig.json``, so that both checkers run in FOLDER without
arguments. Both are strict, and every function is annotated: what a reader copies passes the same
checks in a project of theirs. Two exceptions: a later block may define a name again, to extend an
example step by step; and a doctest may show a value, or the exception that the block before it
caught.
"""

from __future__ import annotations

import doctest
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["modules_of", "write_modules"]

_ROOT: Final = Path(__file__).parents[2]
_BLOCK: Final = re.compile(
    r"^(?:<!-- file: (?P<file>\S+) -->\n+)?^```py(?:thon)?\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_NAMESPACE: Final = "import pathlib; folder = pathlib.Path()"
"""What ``support.documents`` defines for every document; it goes into line 1, a heading."""

_MYPY: Final = """[mypy]
files = .
strict = True
allow_redefinition = True
disable_error_code = no-redef
namespace_packages = True
explicit_package_bases = True
ignore_missing_imports = True

# the packages that these programs extend have no types
[mypy-hosts.*]
disallow_subclassing_any = False
disallow_untyped_decorators = False
"""
_PYRIGHT: Final = {
    "include": ["."],
    # the packages that these programs extend have no types
    "exclude": ["hosts"],
    "pythonVersion": "3.11",
    "typeCheckingMode": "strict",
    "reportRedeclaration": "none",
    "reportUnusedExpression": "none",
    "reportPossiblyUnboundVariable": "none",
    "reportMissingImports": "none",
    "reportMissingModuleSource": "none",
}


def modules_of(name: str, text: str) -> dict[str, str]:
    """Return the modules of one document: file names to source.

    Args:
        name: The name of the document's own module, without a suffix.
        text: The document.
    """
    shared: list[str] = []
    modules: dict[str, str] = {}
    files: list[str] = []
    for found in _BLOCK.finditer(text):
        before = text.count("\n", 0, found.start("text"))
        block = found["text"]
        code = _of_doctests(block) if re.search(r"^>>> ", block, re.MULTILINE) else block
        if found["file"] is None:
            shared.append("\n" * (before - "".join(shared).count("\n")) + code)
        else:
            stem = Path(found["file"]).stem
            files.append(stem)
            modules[f"{name}__{stem}.py"] = "\n" * before + code
    for file, source in modules.items():
        # one file of a page may import another
        for stem in files:
            source = re.sub(
                rf"^from {stem} import", f"from .{name}__{stem} import", source, flags=re.M
            )
        modules[file] = source
    if shared:
        modules[f"{name}.py"] = _NAMESPACE + "".join(shared)
    return modules


def write_modules(folder: Path) -> Iterator[Path]:
    """Write the modules of all documents below a folder, and the programs that pages include."""
    for page in (_ROOT / "README.md", *sorted((_ROOT / "docs").glob("**/*.md"))):
        place = page.relative_to(_ROOT)
        if "_build" in place.parts:
            continue
        name = re.sub(r"\W", "_", place.stem)
        for file, source in modules_of(name, page.read_text(encoding="utf-8")).items():
            path = folder / place.parent / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source, encoding="utf-8")
            yield path
    for program in sorted((_ROOT / "docs" / "how-to" / "hosts").glob("*.py")):
        path = folder / "hosts" / program.name  # how-to is no name of a package
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(program.read_text(encoding="utf-8"), encoding="utf-8")
        yield path


def _of_doctests(text: str) -> str:
    """Return the examples of a block in their lines, without prompts and output."""
    lines = [""] * text.count("\n")
    for example in doctest.DocTestParser().get_examples(text):
        for number, line in enumerate(example.source.splitlines(), start=example.lineno):
            lines[number] = line
    return "".join(f"{line}\n" for line in lines)


def _main(folder: Path) -> None:
    written = list(write_modules(folder))
    (folder / "mypy.ini").write_text(_MYPY, encoding="utf-8")
    (folder / "pyrightconfig.json").write_text(json.dumps(_PYRIGHT), encoding="utf-8")
    print(f"{len(written)} modules of documents")


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
