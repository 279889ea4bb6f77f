"""How the text of the project reads: words that hide a subject, and sentences that are too long.

The subject of a sentence is a noun of the field. The words counted here stand where such a noun
should: in docstrings and comments of the package, in the pages of ``docs`` and in the changelog.

``python tests/support/words.py [PATH ...]`` lists both for the given files and folders.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import field, frozen

__all__ = ["LONGEST_SENTENCE", "Text", "long_sentences", "text_of", "vague_words"]

LONGEST_SENTENCE: Final = 30
"""Words in one sentence of a docstring."""

_VAGUE: Final = re.compile(r"\b(?:who|whom|whoever|nobody|everybody|somebody)\b", re.IGNORECASE)
_CODE_BLOCK: Final = re.compile(r"^(?:```|~~~).*?^(?:```|~~~)", re.MULTILINE | re.DOTALL)
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_WORD: Final = re.compile(r"[A-Za-z0-9_'`][\w'`./-]*")
_END: Final = re.compile(
    r"(?<=[.!?:;])\s+(?=[A-Z`*(\"])|\n\s*\n|\n\s*(?=(?:[-*] |[A-Z]\d+  |\w+: ))"
)
_DIRECTIVE: Final = re.compile(r"^\s*(?:>>>|\.\.\.|\.\. ).*$", re.MULTILINE)


@frozen
class Text:
    """What a person reads in one file.

    Attributes:
        path: The file.
        parts: Docstrings and comments of a module, or the prose of a page, with their lines.
        docstrings: The docstrings alone.
    """

    path: Path
    parts: tuple[tuple[int, str], ...]
    docstrings: tuple[tuple[int, str], ...] = field(default=())

    @property
    def words(self) -> int:
        """How many words there are."""
        return sum(len(_WORD.findall(part)) for _line, part in self.parts)


def text_of(path: Path) -> Text:
    """Read a module or a page."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        prose = _COMMENT.sub("", _CODE_BLOCK.sub(lambda m: "\n" * m[0].count("\n"), source))
        return Text(path, tuple(enumerate(prose.splitlines(), start=1)))
    docstrings = tuple(_docstrings(source)) if path.suffix == ".py" else ()
    comments = tuple(_comments(source)) if path.suffix == ".py" else ((1, source),)
    return Text(path, (*docstrings, *comments), docstrings)


def vague_words(text: Text) -> list[tuple[int, str]]:
    """Return the words that hide a subject, each with its line."""
    return [
        (line + part[: found.start()].count("\n"), found[0])
        for line, part in text.parts
        for found in _VAGUE.finditer(part)
    ]


def long_sentences(text: Text) -> list[tuple[int, str]]:
    """Return the sentences of docstrings with more than ``LONGEST_SENTENCE`` words."""
    return [
        (line, " ".join(sentence.split()))
        for line, part in text.docstrings
        for sentence in _END.split(_DIRECTIVE.sub("\n", part))
        if len(_WORD.findall(sentence)) > LONGEST_SENTENCE
    ]


def _docstrings(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for child in body if isinstance(body, list) else ():
            match child:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield child.lineno, text
                case _:
                    pass


def _comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def _files(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(p for p in path.rglob("*") if p.suffix in {".py", ".md", ".pyx"})
        else:
            yield path


def _main(arguments: list[str]) -> None:
    words = vague = 0
    for path in _files([Path(each) for each in arguments or ["src", "docs", "CHANGELOG.md"]]):
        text = text_of(path)
        words += text.words
        for line, word in vague_words(text):
            vague += 1
            print(f"{path}:{line}: {word}")
        for line, sentence in long_sentences(text):
            print(f"{path}:{line}: long: {sentence}")
    print(f"{vague} vague words in {words}: {1000 * vague / max(words, 1):.2f} per 1,000")


if __name__ == "__main__":
    _main(sys.argv[1:])
