"""The Python of ``README.md`` and ``docs`` as modules, for type checkers to read.

``python tests/support/document_types.py FOLDER`` writes one module for each document: its Python
blocks and doctests in their order, as they run. A block that follows ``<!-- file: NAME.py -->`` is
a program of its own and becomes a module of its own. Lines keep their numbers, so that an error of
mypy or pyright in ``docs/how-to/host_asyncio.py:12`` is in line 12 of the page.
"""

from __future__ import annotations

import doctest
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["modules_of", "write_modules"]

_ROOT: Final = Path(__file__).parents[2]
_BLOCK: Final = re.compile(
    r"^(?:<!-- file: (?P<file>\S+) -->\n+)?^```python\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


def modules_of(name: str, text: str) -> dict[str, str]:
    """Return the modules of one document: file names to source.

    Args:
        name: The name of the document's own module, without a suffix.
        text: The document.
    """
    shared: list[str] = []
    modules: dict[str, str] = {}
    for found in _BLOCK.finditer(text):
        first = text.count("\n", 0, found.start("text"))
        code = found["text"] if ">>> " not in found["text"] else _of_doctests(found["text"])
        if found["file"] is None:
            shared.append(_padded(code, first - "".join(shared).count("\n")))
        else:
            modules[f"{name}__{Path(found['file']).stem}.py"] = _padded(code, first)
    if shared:
        modules[f"{name}.py"] = "".join(shared)
    return modules


def write_modules(folder: Path) -> Iterator[Path]:
    """Write the modules of all documents below a folder, and yield their paths."""
    pages = [_ROOT / "README.md", *sorted((_ROOT / "docs").glob("**/*.md"))]
    for page in pages:
        place = page.relative_to(_ROOT)
        if "_build" in place.parts:
            continue
        name = place.stem.replace("-", "_").replace(".", "_")
        for file, source in modules_of(name, page.read_text(encoding="utf-8")).items():
            path = folder / place.parent / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source, encoding="utf-8")
            yield path


def _of_doctests(text: str) -> str:
    """Return the examples of a block in their lines, without prompts and output."""
    lines = [""] * text.count("\n")
    for example in doctest.DocTestParser().get_examples(text):
        for number, line in enumerate(example.source.splitlines(), start=example.lineno):
            lines[number] = line
    return "".join(f"{line}\n" for line in lines)


def _padded(code: str, missing: int) -> str:
    return "\n" * missing + code


if __name__ == "__main__":
    print(*write_modules(Path(sys.argv[1])), sep="\n")
