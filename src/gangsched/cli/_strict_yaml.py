"""YAML as kube-scheduler reads its configuration: strictly.

Rules:
  R1  a key that a mapping has twice is an error, as in the strict decoding of Kubernetes; PyYAML
      takes the later value, so that a setting is lost without a word;
  R2  an error is one line, with the line and the column of the text, counted from 1.
"""

from __future__ import annotations

from typing import Any, cast

__all__ = ["NotStrictError", "read_strictly"]


class NotStrictError(Exception):
    """A text is not YAML, or has a key twice."""


def read_strictly(text: str) -> object:
    """Return the only document of a text; None if it is empty.

    Raises:
        NotStrictError: The text is not YAML, has several documents, or has a key twice.
    """
    import yaml

    untyped: Any = yaml  # the stubs of PyYAML do not type what is composed
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_keys(untyped.compose(text, Loader=loader))
        document: object = untyped.load(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise NotStrictError(f"{_at(mark)}: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # ValueError: a timestamp such as 2026-13-01
        raise NotStrictError(" ".join(str(error).split())) from error
    return document


def _check_keys(root: Any) -> None:
    """Check that no mapping has a key twice. An alias leads to a node that was seen."""
    seen = set[int]()
    left: list[Any] = [root]
    while left:
        node: Any = left.pop()
        if id(node) in seen or not isinstance(getattr(node, "value", None), list):
            continue
        seen.add(id(node))
        keys = set[tuple[str, str]]()
        children: list[Any] = node.value
        for each in children:
            if not isinstance(each, tuple):  # an item of a sequence
                left.append(each)
                continue
            key, value = cast("tuple[Any, Any]", each)
            left += (key, value)
            if not isinstance(key.value, str):
                continue
            named = (str(key.tag), key.value)
            if named in keys:
                problem = f"the key {key.value!r} is given twice in one mapping"
                raise NotStrictError(f"{_at(key.start_mark)}: {problem}")
            keys.add(named)


def _at(mark: Any) -> str:
    return "the text" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}"
