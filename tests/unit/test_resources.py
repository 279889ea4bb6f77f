"""Amounts against plain dictionaries; the immutable mapping under them."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.errors import InvalidValueError
from gangsched.model import Pod
from gangsched.quantity import Thousandths
from gangsched.resources import EMPTY, NOTHING, FrozenMap, Resources

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


def test_missing_from_counts_an_unnamed_resource_as_zero() -> None:
    assert Resources.from_milli({"cpu": 1}).missing_from({}) == ("cpu",)
    assert Resources.from_milli({"cpu": -1}).missing_from({}) == ()
    assert Resources({"cpu": 1}).missing_from({"cpu": 1000}) == ()


@given(AMOUNTS)
def test_resources_survive_pickle_and_str(amounts: dict[str, int]) -> None:
    made = Resources.from_milli(amounts)
    assert made == pickle.loads(pickle.dumps(made))
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


def test_malformed_quantity_is_refused_with_the_name_of_its_resource() -> None:
    with pytest.raises(InvalidValueError) as caught:
        Resources({"cpu": "1", "nvidia.com/gpu": "one"})
    assert (caught.value.field, caught.value.value) == ("nvidia.com/gpu", "one")


def test_frozen_map_equals_only_a_frozen_map_with_equal_items() -> None:
    assert FrozenMap({"a": "1", "b": "2"}) == FrozenMap([("b", "2"), ("a", "1")])
    assert FrozenMap({"a": "1"}) != FrozenMap({"a": "2"})
    assert FrozenMap({"a": "1"}) != FrozenMap({"a": "1", "b": "2"})
    assert FrozenMap({"a": "1"}) != {"a": "1"}
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
    writable: Any = made
    with pytest.raises(TypeError):
        writable["a"] = "3"


def test_repr_of_a_mapping_names_its_type() -> None:
    assert repr(FrozenMap({"a": "1"})) == "FrozenMap({'a': '1'})"
    assert repr(Resources({"cpu": "1500m"})) == "Resources({'cpu': '1500m'})"
    assert str(Resources({"gpu": 2, "cpu": "1.5"})) == "cpu=1500m, gpu=2"


@given(AMOUNTS)
def test_repr_of_resources_evaluates_to_equal_resources(amounts: dict[str, int]) -> None:
    made = Resources.from_milli(amounts)

    assert eval(repr(made)) == made


@given(AMOUNTS)
def test_dict_of_resources_makes_equal_resources_and_pods(amounts: dict[str, int]) -> None:
    made = Resources.from_milli({name: abs(amount) for name, amount in amounts.items()})
    copied = dict(made)

    assert Resources(copied) == made
    assert Resources(list(made.items())) == made
    assert Pod(name="p", requests=copied).requests == made
    assert eval(repr(copied), {"Thousandths": Thousandths}) == copied
    assert Resources(eval(repr(copied), {"Thousandths": Thousandths})) == made


@given(AMOUNTS)
def test_to_milli_returns_plain_ints(amounts: dict[str, int]) -> None:
    made = Resources.from_milli(amounts).to_milli()

    assert made == without_zeros(amounts)
    assert {type(amount) for amount in made.values()} <= {int}
    assert Resources.from_milli(made).to_milli() == made


def test_amount_prints_and_computes_as_an_int() -> None:
    amount = Resources({"cpu": "500m"})["cpu"]

    assert (str(amount), f"{amount}", f"{amount:6d}") == ("500", "500", "   500")
    assert json.dumps({"cpu": amount}) == '{"cpu": 500}'
    assert type(amount + 1) is type(2 * amount) is int
    assert pickle.loads(pickle.dumps(amount)) == amount


@pytest.mark.parametrize(
    ("amounts", "field", "value"),
    [
        ({"cpu": "x"}, "cpu", "x"),
        ({"cpu": 1.0}, "cpu", 1.0),
        ({"cpu": True}, "cpu", True),
        ({"cpu": None}, "cpu", None),
        ({3: 1}, "amounts", 3),
        (None, "amounts", None),
        (5, "amounts", 5),
    ],
)
def test_from_milli_refuses_what_is_not_an_int(amounts: Any, field: str, value: object) -> None:
    with pytest.raises(InvalidValueError) as caught:
        Resources.from_milli(amounts)

    assert (caught.value.field, caught.value.value) == (field, value)


def test_zero_pods_are_kept_because_a_missing_limit_means_no_limit() -> None:
    none, unlimited = Resources({"pods": "0", "cpu": 0}), Resources({"cpu": "0"})

    assert none != unlimited
    assert (dict(none), dict(unlimited)) == ({"pods": 0}, {})
    assert Resources.from_milli({"pods": 0}) == none
    assert pickle.loads(pickle.dumps(none)) == eval(repr(none)) == none
    assert Resources({"pods": 3}) - Resources({"pods": 3}) == none
