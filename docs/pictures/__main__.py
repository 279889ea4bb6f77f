"""Draw every picture again, into ``docs/_static``."""

from __future__ import annotations

from pictures.draw import STATIC, drawn

for name, text in drawn().items():
    (STATIC / name).write_text(text, encoding="utf-8")
    print(STATIC / name)
