"""Amounts against plain dictionaries; the immutable mapping under them; capacity of nodes."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.model import Pod
from gangsched.quantity import Thousandths
from gangsched.resources import EMPTY, NOTHING, FrozenMap, Resources
from support.refusals import check_rows, each

# Amounts against plain dictionaries; the immutable mapping under them

AMOUNTS = st.dictionaries(st.sampled_from("abcd"), st.integers(-(10**6), 10**6))


def without_zeros(amounts: dict[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}


@given(AMOUNTS, AMOUNTS)
def test_arithmetic_agrees_with_a_dict_of_ints(left: dict[str, int], right: dict[str, int]) -> None:
    names = left.keys() | right.keys()
    a, b = Resources.from_milli(left), Resources.from_milli(right)
    plus = {name: left.get(name, 0) + right.get(name, 0) for name in names}
    minus = {name: left.get(name, 0) - right.get(name, 0) for name in names}
    assert without_zeros(plus) == dict(a + b)
    assert without_zeros(minus) == dict(a - b)
    assert a == a + b - b
    assert (left, right) == (left | dict(a), right | dict(b))


@given(AMOUNTS, AMOUNTS)
def test_resources_of_equal_amounts_are_equal_and_hash_alike(
    left: dict[str, int], right: dict[str, int]
) -> None:
    a, b = Resources.from_milli(left), Resources.from_milli(right)
    assert (without_zeros(left) == without_zeros(right)) is (a == b)
    shuffled = Resources.from_milli(dict(reversed(left.items())))
    assert a == shuffled
    assert hash(a) == hash(shuffled)
    assert list(a) == sorted(a) == list(shuffled)


@given(AMOUNTS, AMOUNTS)
def test_missing_from_names_the_resources_with_too_little_free(
    asked: dict[str, int], free: dict[str, int]
) -> None:
    expected = sorted(n for n, need in asked.items() if need > 0 and need > free.get(n, 0))
    assert tuple(expected) == Resources.from_milli(asked).missing_from(free)


@given(AMOUNTS)
def test_resources_survive_pickle_and_str(amounts: dict[str, int]) -> None:
    made = Resources.from_milli(amounts)
    assert made == pickle.loads(pickle.dumps(made)) == eval(repr(made))
    plain = made.to_milli()
    assert plain == without_zeros(amounts)
    assert {type(amount) for amount in plain.values()} <= {int}
    assert made.from_milli(amounts).amount("a") == amounts.get("a", 0)
    if made:
        written = dict(part.split("=") for part in str(made).split(", "))
        assert made == Resources(written)
    else:
        assert str(made) == "nothing"


def test_unnamed_resource_is_zero_and_a_zero_is_left_out() -> None:
    made = Resources({"cpu": 0, "memory": "1Ki"})
    assert 0 == made.amount("cpu") == made.amount("gpu")
    assert list(made) == ["memory"]
    assert Resources({"memory": 1024}) == made
    assert Resources({"cpu": "0"}) == NOTHING


def test_frozen_map_equals_a_mapping_with_equal_items() -> None:
    assert FrozenMap({"a": "1", "b": "2"}) == FrozenMap([("b", "2"), ("a", "1")])
    assert FrozenMap({"a": "1"}) != FrozenMap({"a": "2"})
    assert FrozenMap({"a": "1"}) != FrozenMap({"a": "1", "b": "2"})
    assert FrozenMap({"a": "1"}) == {"a": "1"} != FrozenMap()
    assert FrozenMap() == EMPTY


@given(st.dictionaries(st.text(), st.text()))
def test_frozen_map_has_the_methods_of_a_dict_in_key_order(items: dict[str, str]) -> None:
    made = FrozenMap(items)
    assert sorted(items.items()) == list(made.items())
    assert len(items) == len(made)
    assert all(key in made and made[key] == value for key, value in items.items())
    assert made.get("\0absent") == items.get("\0absent")
    assert made == pickle.loads(pickle.dumps(made))
    assert hash(made) == hash(FrozenMap(dict(reversed(items.items()))))


def test_frozen_map_copies_its_argument() -> None:
    items = {"a": "1"}
    made = FrozenMap(items)
    items["a"] = "2"
    assert made["a"] == "1"


CHANGES: dict[str, tuple[Any, ...]] = {
    "__setitem__": ("a", "2"),
    "__delitem__": ("a",),
    "__ior__": ({"a": "2"},),
    "update": ({"a": "2"},),
    "setdefault": ("b", "2"),
    "pop": ("a",),
    "popitem": (),
    "clear": (),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", [FrozenMap, Resources])
def test_frozen_map_cannot_be_changed(kind: type[FrozenMap[Any]], change: str) -> None:
    made = kind({"a": "1"})
    before = dict(made)
    with pytest.raises(TypeError, match="is immutable"):
        getattr(made, change)(*CHANGES[change])
    assert made == before


def test_repr_of_a_mapping_names_its_type() -> None:
    assert repr(FrozenMap({"a": "1"})) == "FrozenMap({'a': '1'})"
    assert repr(Resources({"cpu": "1500m"})) == "Resources({'cpu': '1500m'})"
    assert str(Resources({"gpu": 2, "cpu": "1.5"})) == "cpu=1500m, gpu=2"


@given(AMOUNTS)
def test_dict_of_resources_makes_equal_resources_and_pods(amounts: dict[str, int]) -> None:
    made = Resources.from_milli({name: abs(amount) for name, amount in amounts.items()})
    copied = dict(made)

    assert Resources(copied) == made
    assert Resources(list(made.items())) == made
    assert Pod(name="p", requests=copied).requests == made
    assert eval(repr(copied), {"Thousandths": Thousandths}) == copied
    assert Resources(eval(repr(copied), {"Thousandths": Thousandths})) == made


def test_amount_prints_and_computes_as_an_int() -> None:
    amount = Resources({"cpu": "500m"})["cpu"]

    assert (str(amount), f"{amount}", f"{amount:6d}") == ("500", "500", "   500")
    assert json.dumps({"cpu": amount}) == '{"cpu": 500}'
    assert type(amount + 1) is type(2 * amount) is int
    assert pickle.loads(pickle.dumps(amount)) == amount


NO_MAPPINGS: list[Any] = [5, None, "ab", ["a"], [([], 1)]]
NO_QUANTITIES: list[Any] = ["", "1 ", "x", "1Gb", "\u0663", 1.0, True, None, []]


def test_malformed_amount_is_refused_with_the_name_of_its_resource() -> None:
    check_rows(each(Resources, "quantities", *NO_MAPPINGS))
    check_rows(each(FrozenMap, "items", *NO_MAPPINGS))
    check_rows(each(Resources.from_milli, "amounts", None, 5))
    check_rows(each(lambda x: Resources({x: 1}), "quantities", 1))
    check_rows(each(lambda x: FrozenMap({"a": 1, x: 1}), "items", 2))
    check_rows(each(lambda x: Resources.from_milli({x: 1}), "amounts", 3))
    check_rows(each(lambda x: Resources({"gpu": x, "cpu": 1}), "gpu", *NO_QUANTITIES))
    check_rows(each(lambda x: Resources.from_milli({"cpu": x}), "cpu", "x", 1.0, True, None))


def test_zero_pods_are_kept_because_a_missing_limit_means_no_limit() -> None:
    none, unlimited = Resources({"pods": "0", "cpu": 0}), Resources({"cpu": "0"})

    assert none != unlimited
    assert (dict(none), dict(unlimited)) == ({"pods": 0}, {})
    assert Resources.from_milli({"pods": 0}) == none
    assert pickle.loads(pickle.dumps(none)) == eval(repr(none)) == none
    assert Resources({"pods": 3}) - Resources({"pods": 3}) == none
