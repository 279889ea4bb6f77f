"""The modules that ``support.document_types`` writes for type checkers."""

from __future__ import annotations

import ast
from pathlib import Path

from support.document_types import modules_of, write_modules

PAGE = """# A page

Text.

```python
first = 1
```

<!-- file: program.py -->
```python
print("a program")
```

```python
>>> if first:
...     print(first)
1
>>> first
1
```
"""


def test_blocks_and_doctests_keep_their_lines() -> None:
    modules = modules_of("page", PAGE)
    lines = modules["page.py"].splitlines()

    assert set(modules) == {"page.py", "page__program.py"}
    assert modules["page__program.py"].splitlines()[10] == 'print("a program")'
    assert lines[5] == "first = 1"
    assert lines[14:16] == ["if first:", "    print(first)"]
    assert lines[17] == "first"


def test_every_page_with_python_becomes_a_valid_module(tmp_path: Path) -> None:
    written = {path.relative_to(tmp_path).as_posix(): path for path in write_modules(tmp_path)}

    assert {"README.py", "docs/tutorial/first_gang.py"} <= written.keys()
    for path in written.values():
        ast.parse(path.read_text(encoding="utf-8"))
