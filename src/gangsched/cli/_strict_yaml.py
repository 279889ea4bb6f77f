"""YAML as kube-scheduler reads its configuration: strictly.

Rules:
  R1  a key that a mapping has twice is an error, as in the strict decoding of Kubernetes; PyYAML
      takes the later value, so that a setting is lost without a word;
  R2  an alias within the node that it names is an error: such a document has no end;
  R3  an error is one line, with the line and the column of the text, counted from 1.
"""

from __future__ import annotations

import json
from typing import Any, cast

__all__ = ["NotStrictError", "read_strictly"]


class NotStrictError(Exception):
    """A text is not YAML, has a key twice, or refers to itself.

    Attributes:
        repeated: Of each key that is given twice, in the order of the text, the path and the
            sentence; the error is about the first. Empty for any other error.
        document: The document with the later values, if keys are given twice.
    """

    repeated: tuple[tuple[str, str], ...] = ()
    document: object = None


def read_strictly(text: str) -> object:
    """Return the only document of a text; None if it is empty.

    Raises:
        NotStrictError: The text is not YAML, has several documents, has a key twice, or has an
            alias within the node that it names.
    """
    import yaml

    untyped: Any = yaml  # the stubs of PyYAML do not type what is composed
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        repeated = _repeated_keys(untyped.compose(text, Loader=loader))
        document: object = untyped.load(text, Loader=loader)
        json.dumps(document, default=str, skipkeys=True)  # finds a circle
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise NotStrictError(f"{_at(mark)}: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # ValueError: a timestamp such as 2026-13-01, or a circle
        raise NotStrictError(" ".join(str(error).split())) from error
    if repeated:
        repeated.sort(key=lambda each: (each[0].line, each[0].column))
        found = tuple((path, f"{_at(mark)}: {problem}") for mark, path, problem in repeated)
        twice = NotStrictError(found[0][1])
        twice.repeated, twice.document = found, document
        raise twice
    return document


def _repeated_keys(root: Any) -> list[tuple[Any, str, str]]:
    """Return place, path and problem of keys that a mapping has twice. An alias was seen."""
    found: list[tuple[Any, str, str]] = []
    seen = set[int]()
    left: list[tuple[Any, str]] = [(root, "")]
    while left:
        node, path = left.pop()
        if id(node) in seen or not isinstance(getattr(node, "value", None), list):
            continue
        seen.add(id(node))
        keys = set[tuple[str, str]]()
        children: list[Any] = node.value
        for number, each in enumerate(children):
            if not isinstance(each, tuple):  # an item of a sequence
                left.append((each, f"{path}[{number}]"))
                continue
            key, value = cast("tuple[Any, Any]", each)
            if not isinstance(key.value, str):
                left += ((key, path), (value, path))
                continue
            at = f"{path}.{key.value}" if path else key.value
            left.append((value, at))
            named = (str(key.tag), key.value)
            if named in keys:
                problem = f"the key {key.value!r} is given twice in one mapping"
                found.append((key.start_mark, at, problem))
            keys.add(named)
    return found


def _at(mark: Any) -> str:
    return "the text" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}"
