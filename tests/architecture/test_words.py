"""The text of the project reads like its field's: see ``support.words``."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest

from support.documents import ROOT
from support.words import LONGEST_SENTENCE, Text, long_sentences, text_of, vague_words

MOST_PER_THOUSAND = 1.0

SOURCES = sorted(chain((ROOT / "src").rglob("*.py"), (ROOT / "src").rglob("*.py[xi]")))
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "CHANGELOG.md"]
TESTS = [*sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "benchmarks").glob("*.*"))]


def read(paths: list[Path]) -> list[Text]:
    """Read files, but not what a build has made of them."""
    return [text_of(path) for path in paths if "_build" not in path.parts]


@pytest.mark.parametrize("paths", [SOURCES, PAGES, TESTS], ids=["src", "docs", "tests"])
def test_text_names_its_subjects(paths: list[Path]) -> None:
    texts = [text for text in read(paths) if text.words]
    if not texts:
        pytest.skip("an installed copy: the sources are not here")
    found = [f"{t.path}:{line}: {word}" for t in texts for line, word in vague_words(t)]
    words = sum(text.words for text in texts)
    assert 1000 * len(found) / words <= MOST_PER_THOUSAND, "\n".join(found)


def test_docstrings_have_no_long_sentence() -> None:
    found = [f"{t.path}:{line}: {what}" for t in read(SOURCES) for line, what in long_sentences(t)]
    assert found == [], f"more than {LONGEST_SENTENCE} words"


@pytest.mark.parametrize(
    ("source", "vague", "long"),
    [
        ('"""Return the pods of a group."""\n', 0, 0),
        ('"""Return who waits."""\n', 1, 0),
        ("x = 1  # nobody reads it\n", 1, 0),
        ("who = 1\n", 0, 0),
        ('"""' + "word " * 31 + '."""\n', 0, 1),
        ('"""' + "word " * 20 + ". And " + "word " * 20 + '."""\n', 0, 0),
    ],
)
def test_words_of_docstrings_and_comments_are_counted(
    tmp_path: Path, source: str, vague: int, long: int
) -> None:
    path = tmp_path / "module.py"
    path.write_text(source, encoding="utf-8")
    text = text_of(path)
    assert (len(vague_words(text)), len(long_sentences(text))) == (vague, long)


def test_code_in_a_page_is_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("Pods.\n\n```python\nwho = nobody\n```\n\nWho waits?\n", encoding="utf-8")
    assert vague_words(text_of(path)) == [(7, "Who")]
