"""Amounts against plain dictionaries; the immutable mapping under them."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.errors import InvalidValueError
from gangsched.resources import EMPTY, NOTHING, FrozenMap, Resources

AMOUNTS = st.dictionaries(st.sampled_from("abcd"), st.integers(-(10**6), 10**6))


def without_zeros(amounts: dict[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}


@given(AMOUNTS, AMOUNTS)
def test_adding_and_subtracting_agree_with_a_dictionary(
    left: dict[str, int], right: dict[str, int]
) -> None:
    names = left.keys() | right.keys()
    a, b = Resources.from_milli(left), Resources.from_milli(right)
    plus = {name: left.get(name, 0) + right.get(name, 0) for name in names}
    minus = {name: left.get(name, 0) - right.get(name, 0) for name in names}
    assert without_zeros(plus) == dict(a + b)
    assert without_zeros(minus) == dict(a - b)
    assert a == a + b - b
    assert (left, right) == (left | dict(a), right | dict(b))


@given(AMOUNTS, AMOUNTS)
def test_equal_amounts_are_equal_and_hash_alike(
    left: dict[str, int], right: dict[str, int]
) -> None:
    a, b = Resources.from_milli(left), Resources.from_milli(right)
    assert (without_zeros(left) == without_zeros(right)) is (a == b)
    shuffled = Resources.from_milli(dict(reversed(left.items())))
    assert a == shuffled
    assert hash(a) == hash(shuffled)
    assert list(a) == sorted(a) == list(shuffled)


@given(AMOUNTS, AMOUNTS)
def test_what_is_missing_is_what_is_asked_for_and_not_free(
    asked: dict[str, int], free: dict[str, int]
) -> None:
    expected = sorted(n for n, need in asked.items() if need > 0 and need > free.get(n, 0))
    assert tuple(expected) == Resources.from_milli(asked).missing_from(free)


def test_a_thousandth_of_what_is_not_there_is_missing() -> None:
    assert Resources.from_milli({"cpu": 1}).missing_from({}) == ("cpu",)
    assert Resources.from_milli({"cpu": -1}).missing_from({}) == ()
    assert Resources({"cpu": 1}).missing_from({"cpu": 1000}) == ()


@given(AMOUNTS)
def test_amounts_survive_pickling_and_writing(amounts: dict[str, int]) -> None:
    made = Resources.from_milli(amounts)
    assert made == pickle.loads(pickle.dumps(made))
    assert made.from_milli(amounts).amount("a") == amounts.get("a", 0)
    if made:
        written = dict(part.split("=") for part in str(made).split(", "))
        assert made == Resources(written)
    else:
        assert str(made) == "nothing"


def test_a_name_that_is_not_there_is_zero_and_zero_is_not_there() -> None:
    made = Resources({"cpu": 0, "memory": "1Ki"})
    assert 0 == made.amount("cpu") == made.amount("gpu")
    assert list(made) == ["memory"]
    assert Resources({"memory": 1024}) == made
    assert Resources({"cpu": "0"}) == NOTHING


def test_a_bad_quantity_is_refused_by_the_name_of_its_resource() -> None:
    with pytest.raises(InvalidValueError) as caught:
        Resources({"cpu": "1", "nvidia.com/gpu": "one"})
    assert (caught.value.field, caught.value.value) == ("nvidia.com/gpu", "one")


def test_a_mapping_is_equal_to_one_with_the_same_items_and_to_nothing_else() -> None:
    assert FrozenMap({"a": "1", "b": "2"}) == FrozenMap([("b", "2"), ("a", "1")])
    assert FrozenMap({"a": "1"}) != FrozenMap({"a": "2"})
    assert FrozenMap({"a": "1"}) != FrozenMap({"a": "1", "b": "2"})
    assert FrozenMap({"a": "1"}) != {"a": "1"}
    assert FrozenMap() == EMPTY


@given(st.dictionaries(st.text(), st.text()))
def test_a_mapping_speaks_like_a_dictionary_in_key_order(items: dict[str, str]) -> None:
    made = FrozenMap(items)
    assert sorted(items.items()) == list(made.items())
    assert len(items) == len(made)
    assert all(key in made and made[key] == value for key, value in items.items())
    assert made.get("\0absent") == items.get("\0absent")
    assert made == pickle.loads(pickle.dumps(made))
    assert hash(made) == hash(FrozenMap(dict(reversed(items.items()))))


def test_a_mapping_keeps_its_own_copy() -> None:
    items = {"a": "1"}
    made = FrozenMap(items)
    items["a"] = "2"
    assert made["a"] == "1"
    writable: Any = made
    with pytest.raises(TypeError):
        writable["a"] = "3"


def test_a_mapping_says_what_it_is() -> None:
    assert repr(FrozenMap({"a": "1"})) == "FrozenMap({'a': '1'})"
    assert repr(Resources({"cpu": "1500m"})) == "Resources({'cpu': 1500})"
    assert str(Resources({"gpu": 2, "cpu": "1.5"})) == "cpu=1500m, gpu=2"
