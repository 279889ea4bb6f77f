"""Taints and tolerations, and conditions on a node's labels."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.constraints import (
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Taint,
    TaintEffect,
    Toleration,
)
from gangsched.errors import InvalidValueError

KEYS = st.sampled_from(["a", "b"])
VALUES = st.sampled_from(["", "x", "y"])
EFFECTS = st.sampled_from(TaintEffect)
LABELS = st.dictionaries(KEYS, st.sampled_from(["-2", "0", "7", "x"]))
NO_EXECUTE = TaintEffect.NO_EXECUTE


@pytest.mark.parametrize(
    ("toleration", "taint", "expected"),
    [
        (Toleration("k", "v"), Taint("k", "v"), True),
        (Toleration("k", "v"), Taint("k", "w"), False),
        (Toleration("k", "v"), Taint("j", "v"), False),
        (Toleration("k"), Taint("k"), True),
        (Toleration("k"), Taint("k", "v"), False),
        (Toleration("k", exists=True), Taint("k", "v"), True),
        (Toleration("k", exists=True), Taint("j"), False),
        (Toleration(exists=True), Taint("j", "v", NO_EXECUTE), True),
        (Toleration("k", "v", effect=NO_EXECUTE), Taint("k", "v"), False),
        (Toleration("k", "v", effect=NO_EXECUTE), Taint("k", "v", NO_EXECUTE), True),
        (Toleration(exists=True, effect=NO_EXECUTE), Taint("k"), False),
    ],
)
def test_toleration_compares_key_value_and_effect(
    toleration: Toleration, taint: Taint, expected: bool
) -> None:
    assert expected is toleration.tolerates(taint)


@given(KEYS, VALUES, EFFECTS)
def test_toleration_without_key_matches_every_taint(
    key: str, value: str, effect: TaintEffect
) -> None:
    assert Toleration(exists=True).tolerates(Taint(key, value, effect))


def test_effect_is_converted_from_its_name() -> None:
    toleration = Toleration("k", exists=True, effect="NoExecute")
    assert toleration.tolerates(Taint("k", effect="NoExecute"))
    assert not toleration.tolerates(Taint("k", effect="NoSchedule"))


BAD: list[tuple[type[Any], dict[str, Any], str, object]] = [
    (Taint, {"key": ""}, "key", ""),
    (Taint, {"key": "k", "value": 1}, "value", 1),
    (Taint, {"key": "k", "effect": "noexecute"}, "effect", "noexecute"),
    (Toleration, {}, "key", ""),
    (Toleration, {"key": None, "exists": True}, "key", None),
    (Toleration, {"key": "k", "value": 1}, "value", 1),
    (Toleration, {"key": "k", "effect": "Never"}, "effect", "Never"),
    (NodeSelectorRequirement, {"key": "", "operator": "Exists"}, "key", ""),
    (NodeSelectorRequirement, {"key": "k", "operator": "in"}, "operator", "in"),
    (NodeSelectorRequirement, {"key": "k", "operator": "In"}, "values", ()),
    (NodeSelectorRequirement, {"key": "k", "operator": "NotIn"}, "values", ()),
    (NodeSelectorRequirement, {"key": "k", "operator": "In", "values": "abc"}, "values", "abc"),
    (NodeSelectorRequirement, {"key": "k", "operator": "In", "values": (1,)}, "values", (1,)),
    *[
        (NodeSelectorRequirement, {"key": "k", "operator": o, "values": ("v",)}, "values", ("v",))
        for o in ("Exists", "DoesNotExist", "Gt", "Lt")
    ],
    *[
        (NodeSelectorRequirement, {"key": "k", "operator": "Gt", "values": v}, "values", v)
        for v in [(), ("1", "2"), ("1.5",), ("",), ("-",), ("--1",), ("\u0663",), ("9" * 5000,)]
    ],
]


@pytest.mark.parametrize(("kind", "given_", "field", "value"), BAD)
def test_malformed_constraint_is_refused_with_field_and_value(
    kind: type[Any], given_: dict[str, Any], field: str, value: object
) -> None:
    with pytest.raises(InvalidValueError) as caught:
        kind(**given_)
    assert (field, value) == (caught.value.field, caught.value.value)


@pytest.mark.parametrize(
    ("operator", "values", "label", "expected"),
    [
        ("In", ("x", "y"), "y", True),
        ("In", ("x", "y"), "z", False),
        ("In", ("x",), None, False),
        ("NotIn", ("x", "y"), "y", False),
        ("NotIn", ("x", "y"), "z", True),
        ("NotIn", ("x",), None, True),
        ("Exists", (), "", True),
        ("Exists", (), None, False),
        ("DoesNotExist", (), "", False),
        ("DoesNotExist", (), None, True),
        ("Gt", ("5",), "6", True),
        ("Gt", ("5",), "5", False),
        ("Gt", ("-5",), "-4", True),
        ("Lt", ("5",), "4", True),
        ("Lt", ("5",), "5", False),
        ("Lt", ("5",), "x", False),
        ("Gt", ("5",), None, False),
        ("Gt", ("5",), "9" * 5000, False),
        ("Gt", ("9",), "10", True),
        ("Lt", (str(2**63 - 1),), str(-(2**63)), True),
        ("Lt", ("0",), str(-(2**63) - 1), False),
        ("Gt", ("0",), str(2**63), False),
    ],
)
def test_operators_match_as_in_kubernetes(
    operator: str, values: tuple[str, ...], label: str | None, expected: bool
) -> None:
    labels = {} if label is None else {"k": label}
    assert expected is NodeSelectorRequirement("k", operator, values).matches(labels)


@given(LABELS, KEYS, st.sets(st.sampled_from(["0", "7"]), min_size=1))
def test_opposite_operators_never_agree(labels: dict[str, str], key: str, values: set[str]) -> None:
    for one, other, operands in (("In", "NotIn", values), ("Exists", "DoesNotExist", ())):
        first = NodeSelectorRequirement(key, one, tuple(operands)).matches(labels)
        assert first is not NodeSelectorRequirement(key, other, tuple(operands)).matches(labels)


@given(LABELS)
def test_term_matches_if_all_requirements_match(labels: dict[str, str]) -> None:
    requirements = (
        NodeSelectorRequirement("a", "Exists"),
        NodeSelectorRequirement("b", "In", ("0", "7")),
    )
    expected = "a" in labels and labels.get("b") in ("0", "7")
    assert expected is NodeSelectorTerm(requirements).matches(labels)


def test_term_without_requirements_matches_no_node() -> None:
    assert not NodeSelectorTerm(()).matches({"a": "b"})
    assert not NodeSelectorTerm(()).matches({})
