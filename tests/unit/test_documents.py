"""Documents: scalars as Kubernetes reads them, duplicate keys, aliases, bounds, errors."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import textwrap
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gangsched.errors import ManifestError
from gangsched.manifests.scalars import Number, Value
from gangsched.simulation import documents
from gangsched.simulation.documents import read_documents


def _read(text: str) -> list[Value]:
    return [document.value for document in read_documents(textwrap.dedent(text), file="f.yaml")]


def _refused(text: str) -> ManifestError:
    with pytest.raises(ManifestError) as caught:
        _read(text)
    assert caught.value.file == "f.yaml"
    return caught.value


NUMBERS = (
    *("18446744073709551615", "9" * 5000, "08", "0.5", "1e3", "1.0E+3", ".5", "1.", ".inf", ".NaN"),
    "0.1000000000000000055511151231257827",
)
TEXTS = (
    *("1:30", "1:30.5", "2024-01-01", "2024-01-01T00:00:00Z", "500m", "4Gi", "+", ".", "1.2.3"),
    *("inf", "tRue", "="),
)
OTHERS: list[tuple[str, Any]] = [
    *(("1", 1), ("-1", -1), ("+1", 1), ("0", 0), ("010", 8), ("0o10", 8), ("-010", -8)),
    *(("0x10", 16), ("0b11", 3), ("1_000", 1000), ("9223372036854775807", 2**63 - 1)),
    *(("-", [None]), ("''", ""), ("'1'", "1"), ('"on"', "on"), ("|\n  1", "1")),
    *(("!!str 1", "1"), ("! 1", "1"), ("!!int 1", 1), ("!!float 1", 1), ("!!bool yes", True)),
    *(("!!float 1.5", Number("1.5")), ("!!null ''", None), ("!!seq [1]", [1])),
    *(("!!map {a: 1}", {"a": 1}), ("\ufeffa: 1", {"a": 1})),
]


@pytest.mark.parametrize(
    ("text", "value"),
    [*((text, Number(text)) for text in NUMBERS), *((text, text) for text in TEXTS), *OTHERS],
    ids=lambda value: str(value)[:20],
)
def test_scalar_has_the_value_that_kubernetes_gives_it(text: str, value: Value) -> None:
    (read,) = _read(text)
    assert value == read
    assert type(value) is type(read)


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("y Y yes Yes YES true True TRUE on On ON", True),
        ("n N no No NO false False FALSE off Off OFF", False),
        ("~ null Null NULL", None),
        ("yEs tRUE oN nO nULL t f Y1 none None", "text"),
    ],
)
def test_boolean_has_three_spellings_only(words: str, value: Value) -> None:
    for word in words.split():
        assert [word if value == "text" else value] == _read(word)


@pytest.mark.parametrize(
    "text",
    [
        *("!!int x", "!!int 1.5", "!!bool 1", "!!null 1", "!!binary aGk=", "!!set {a}"),
        *("!!timestamp 2024-01-01", "!!python/object/apply:os.system [ls]", "!own {a: 1}"),
        "!!map [1]",
    ],
)
def test_other_tags_are_refused(text: str) -> None:
    assert "the tag " in _refused(text).problem


def test_documents_are_numbered_and_empty_ones_count() -> None:
    documents = list(read_documents("a: 1\n---\n---\nb: 2\n...\n---\n# nothing\n", file="f"))
    assert [(document.number, document.value) for document in documents] == [
        (1, {"a": 1}),
        (2, None),
        (3, {"b": 2}),
        (4, None),
    ]
    assert _read("") == []
    assert _read("# a comment\n") == []


def test_other_scalars_as_keys_become_strings_as_in_json() -> None:
    assert _read("{1: a, 0x10: b, 1.50: c, on: d, n: e}") == [
        {"1": "a", "16": "b", "1.50": "c", "true": "d", "false": "e"}
    ]


@pytest.mark.parametrize(
    ("text", "shown_as"),
    [
        ("{~: 1}", "got nothing"),
        ("{[1]: 1}", "got a collection"),
        ("{{a: 1}: 1}", "got a collection"),
        ("{x: &a [1], *a : 2}", "got a list"),
        ("{x: &a {b: 1}, *a : 2}", "got a mapping"),
    ],
)
def test_other_keys_are_refused(text: str, shown_as: str) -> None:
    assert _refused(text).problem == f"expected a string as a key, {shown_as}"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("{a: 1, a: 1}", "a"),
        ("a: {b: [0, {c: 1, 'c': 2}]}", "a.b[1].c"),
        ("{1: a, '1': b}", "[1]"),
        ("{on: a, y: b}", "true"),
        ("limits: {nvidia.com/gpu: 1, nvidia.com/gpu: 2}", "limits[nvidia.com/gpu]"),
    ],
)
def test_key_that_is_given_twice_is_refused_by_its_path(text: str, path: str) -> None:
    error = _refused(text)
    assert (error.field, error.problem) == (path, "the key is given twice")


def test_aliases_stand_for_their_anchors() -> None:
    (value,) = _read("""\
        a: &one {x: 1}
        b: *one
        c: &word text
        *word : [*one, *word]
    """)
    assert value == {"a": {"x": 1}, "b": {"x": 1}, "c": "text", "text": [{"x": 1}, "text"]}


def test_explicit_and_earlier_keys_win_over_merged_ones() -> None:
    _, value = _read("""\
        ignored
        ---
        one: &one {a: 1, b: 1}
        two: &two {b: 2, c: 2}
        p: {a: 0, <<: [*one, *two], d: 3}
        q: {<<: *two, b: 4}
        r: {"<<": 5}
    """)
    assert isinstance(value, dict)
    assert value["p"] == {"a": 0, "b": 1, "c": 2, "d": 3}
    assert value["q"] == {"b": 4, "c": 2}
    assert value["r"] == {"<<": 5}


@pytest.mark.parametrize("text", ["{<<: 1}", "{<<: [1]}", "{a: &a 1, <<: *a}"])
def test_only_mappings_are_merged(text: str) -> None:
    assert "takes mappings only" in _refused(text).problem


def test_two_merges_in_one_mapping_are_refused() -> None:
    assert "'<<' is given twice" in _refused("{a: &a {x: 1}, m: {<<: *a, <<: *a}}").problem


def test_alias_needs_an_anchor_before_it_in_its_own_document() -> None:
    assert "*a has no anchor" in _refused("b: *a").problem
    assert "inside its own anchor" in _refused("a: &a {b: [*a]}").problem
    error = _refused("a: &a 1\n---\nb: *a")
    assert (error.document, error.field) == (2, "b")


@pytest.mark.parametrize("template", ["[{}]", "{{x: [{}]}}", "{{<<: [{}]}}"])
def test_values_of_aliases_are_bounded(template: str) -> None:
    levels = ["a0: &a0 {k: v}"]
    for level in range(1, 40):
        items = ", ".join([f"*a{level - 1}"] * 10)
        levels.append(f"a{level}: &a{level} {template.format(items)}")
    error = _refused("\n".join(levels))
    assert "unfold to more than 1,000,000 values" in error.problem


def test_values_without_aliases_are_not_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_UNFOLDED", 100)
    (value,) = _read("[" + "1," * 101 + "]")
    assert value == [1] * 101


@pytest.mark.parametrize("opening", ["[", "{a: ", "- " * 1, "[{b: "])
def test_nesting_is_bounded(opening: str) -> None:
    assert "nested deeper than 200 levels" in _refused(opening * 100_000).problem


@pytest.mark.parametrize(
    ("text", "document", "line"),
    [
        ("a: [", 1, "line 2"),
        ("a: 1\n---\nb: 2\n---\nc: ]\n", 3, "line 5"),
        ("a: 1\nb\n", 1, "line 3"),
        ("a: 1\n...\n%BAD x\n---\nb: 1", 2, "line 3"),
        ("a: @x", 1, "line 1"),
        ("a: 'x", 1, "line 1"),
        ("a: \x00", 1, ""),
        ("a: \ud800", 1, "surrogate"),
    ],
    ids=range(8),
)
def test_malformed_yaml_is_refused_with_document_and_line(
    text: str, document: int, line: str
) -> None:
    error = _refused(text)
    assert document == error.document
    assert error.problem.startswith("not YAML: ")
    assert line in error.problem


def test_both_parsers_of_pyyaml_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: &x [1, 0.5, on]\nb: {<<: {c: *x}, d: 'e'}\n---\n- 1e3\n"
    fast = _read(text)
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert fast == _read(text)


def test_error_without_pyyaml_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(
        ModuleNotFoundError, match=re.escape("pip install 'gangsched[cli]'")
    ) as caught:
        _read("a: 1")
    assert caught.value.name == "yaml"


def test_pyyaml_is_loaded_by_the_first_reading() -> None:
    program = "import sys, gangsched.simulation.manifests; sys.exit('yaml' in sys.modules)"

    subprocess.run(
        [sys.executable, "-c", program], check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )


_TEXT = st.text("abyn ~:#'\"\\/\n\t-019.\u00e9\u6f22", max_size=8)
_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=20,
)


@given(_PLAIN)
def test_json_is_read_back_as_the_same_value(value: Value) -> None:
    assert [value] == _read(json.dumps(value, ensure_ascii=False))


@given(st.text() | st.text("ab:-[]{}&*!<>|'\"#%.?\n ,~01", max_size=40))
def test_no_text_raises_anything_but_our_own_error(text: str) -> None:
    with contextlib.suppress(ManifestError):
        list(read_documents(text, file="f.yaml"))


# JSON -----------------------------------------------------------------------------------------


def test_json_that_escapes_a_surrogate_pair_is_read() -> None:
    text = json.dumps({"name": "\U0001f600", "\U0001f601": ["é"]})
    assert "\\ud83d" in text
    assert _read(text) == [{"name": "\U0001f600", "\U0001f601": ["é"]}]


@pytest.mark.parametrize("text", [r'{"a": "\ud83d"}', r'{"\ude00": 1}', r'[["x\ud83dx"]]'])
def test_json_with_half_of_a_surrogate_pair_is_refused(text: str) -> None:
    assert _refused(text).problem == "not JSON: half of a surrogate pair"


def test_json_documents_may_be_separated_as_in_yaml() -> None:
    text = '{"a": "\\ud83d\\ude00"}\n---\n{"b": [1, 2.50]}\n'
    found = list(read_documents(text, file="f.json"))
    assert [(one.number, one.value) for one in found] == [
        (1, {"a": "\U0001f600"}),
        (2, {"b": [1, Number("2.50")]}),
    ]


def test_json_may_be_nested_as_deep_as_yaml() -> None:
    assert len(_read("[" * 200 + "]" * 200)) == 1
    for depth in (201, 200_000):
        assert _refused("[" * depth + "]" * depth).problem == "nested deeper than 200 levels"


@pytest.mark.parametrize(
    "text",
    ['{"a": 1, "a": 2}', '{"a": [{"b": 1, "b": 1}]}', '{"a": 1}\n{"b": 2}', '{"a": ', '{"a": 1}}'],
)
def test_malformed_json_is_refused_with_its_place(text: str) -> None:
    problem = _refused(text)
    assert "given twice" in problem.problem or "line" in problem.problem


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text('ab\n"\\:#{ é'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abé<"), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(json_values, min_size=1, max_size=3))
def test_json_has_the_values_that_the_yaml_reader_gives(given_value: list[object]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        text = json.dumps(given_value)
        found = _read(text)
        patch.setattr("gangsched.simulation.documents.read_json", lambda *_args, **_named: None)
        assert found == _read(text)
