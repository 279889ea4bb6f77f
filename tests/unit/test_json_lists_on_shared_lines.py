"""A JSON list whose objects end and begin on one line is read object by object."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.errors import TraceError
from gangsched.simulation import _json_list
from gangsched.simulation._json_list import objects_of

NAMES = st.sampled_from(["a", "{", "}", "}, {", '"', "\\", "ü"])
OBJECTS = st.recursive(
    st.dictionaries(NAMES, st.integers(0, 3) | NAMES, max_size=2),
    lambda inner: st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)


def shared(objects: list[dict[str, object]]) -> list[str]:
    """Return a list in which each object but the first begins on the line on which one ends."""
    text = "},\n{".join(json.dumps(each, indent=1)[1:-1] for each in objects)
    return ("[{" + text.replace("},\n{", "}, {") + "}]").splitlines(keepends=True)


def test_longest_object_counts_and_not_the_whole_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_json_list, "LONGEST", 100)
    lines = shared([{"a": n, "b": n} for n in range(50)])
    assert [value["a"] for _line, value in objects_of(lines, "f")] == list(range(50))


def test_object_that_is_too_long_is_refused_with_its_first_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_json_list, "LONGEST", 100)
    lines = shared([{"a": 0}, {f"key-{n}": n for n in range(20)}])
    with pytest.raises(TraceError, match="an object of at most 100 characters"):
        list(objects_of(lines, "f"))


def test_first_object_is_given_before_the_list_ends() -> None:
    lines = iter(shared([{"a": 0}, {"a": 1}, {"a": 2}]))
    assert next(objects_of(lines, "f")) == (1, {"a": 0})
    assert len(list(lines)) > 1


@given(st.lists(OBJECTS, min_size=1, max_size=5))
def test_objects_on_shared_lines_are_those_of_the_decoder(objects: list[dict[str, object]]) -> None:
    lines = shared(objects)
    assert [value for _line, value in objects_of(lines, "f")] == json.loads("".join(lines))
