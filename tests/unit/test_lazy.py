"""``LazyDict`` behaves as a dict, and returns only copies of values."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.forking.lazy_dict import LazyDict


def lazy(**given_values: list[int]) -> LazyDict:
    return LazyDict(given_values, list)


def updated(one: dict[str, Any], other: LazyDict) -> dict[str, Any]:
    one.update(other)
    return one


READS: dict[str, Any] = {
    "[]": lambda d: d["a"],
    "get": lambda d: d.get("a"),
    "setdefault": lambda d: d.setdefault("a", []),
    "pop": lambda d: d.pop("a"),
    "pop or": lambda d: d.pop("a", None),
    "popitem": lambda d: d.popitem()[1],
    "values": lambda d: next(iter(d.values())),
    "items": lambda d: next(iter(d.items()))[1],
    "reversed values": lambda d: next(reversed(d.values())),
    "reversed items": lambda d: next(reversed(d.items()))[1],
    "copy": lambda d: d.copy()["a"],
    "dict": lambda d: dict(d)["a"],
    "**": lambda d: {**d}["a"],
    "update": lambda d: updated({}, d)["a"],
    "|": lambda d: (d | {})["a"],
    "| it": lambda d: ({} | d)["a"],
    "lazy |=": lambda d: (lambda other: other.__ior__(d))(lazy())["a"],
    "update of a lazy one": lambda d: updated(lazy(), d)["a"],
}


@pytest.mark.parametrize("read", READS)
def test_every_method_that_reads_returns_copies(read: str) -> None:
    original = [1, 2]
    found = READS[read](lazy(a=original))
    assert found == original
    assert found is not original


def test_value_is_copied_once_at_the_first_read() -> None:
    looks: Counter[int] = Counter()

    def copied(value: list[int]) -> list[int]:
        looks[value[0]] += 1
        return list(value)

    given_values = {"a": [1], "b": [2]}
    lazily = LazyDict(given_values, copied)
    assert looks == {}
    assert (len(lazily), list(lazily), "a" in lazily) == (2, ["a", "b"], True)
    assert looks == {}
    lazily["a"].append(9)
    assert lazily["a"] == [1, 9]
    assert looks == {1: 1}
    assert given_values == {"a": [1], "b": [2]}


keys = st.sampled_from("abc")
steps = st.one_of(
    st.tuples(st.just("set"), keys, st.integers(0, 9)),
    st.tuples(st.sampled_from(["del", "pop", "get", "setdefault", "append"]), keys, st.just(0)),
    st.tuples(st.sampled_from(["popitem", "clear", "copy"]), st.just("a"), st.just(0)),
)


def done(thing: Any, step: tuple[str, str, int]) -> Any:
    what, key, number = step
    match what:
        case "set":
            thing[key] = [number]
        case "del" if key in thing:
            del thing[key]
        case "pop":
            return thing.pop(key, None)
        case "get":
            return thing.get(key)
        case "setdefault":
            return list(thing.setdefault(key, []))
        case "append" if key in thing:
            thing[key].append(7)
        case "popitem" if thing:
            return thing.popitem()
        case "clear":
            thing.clear()
        case "copy":
            return thing.copy()
        case _:
            pass
    return None


@given(st.dictionaries(keys, st.lists(st.integers(0, 9), max_size=2)), st.lists(steps, max_size=12))
def test_lazy_dict_agrees_with_a_dict_of_copies(
    given_values: dict[str, list[int]], history: list[tuple[str, str, int]]
) -> None:
    kept = {key: list(value) for key, value in given_values.items()}
    lazily, plain = LazyDict(given_values, list), {k: list(v) for k, v in given_values.items()}
    for step in history:
        assert done(lazily, step) == done(plain, step)
        assert list(lazily) == list(plain)
        assert lazily == plain
        assert (lazily != plain, len(lazily)) == (False, len(plain))
    assert list(lazily.items()) == list(plain.items())
    assert list(lazily.values()) == list(plain.values())
    assert list(reversed(lazily.items())) == list(reversed(plain.items()))
    assert [list(reversed(d)) for d in (lazily, plain)] == [[*reversed(plain)]] * 2
    assert given_values == kept


def test_value_that_was_set_is_not_copied() -> None:
    lazily, own = lazy(a=[1]), [5]
    lazily.pop("a")
    lazily["a"] = own
    assert lazily["a"] is own
    lazily |= {"b": own}
    assert lazily["b"] is own
    assert lazily.setdefault("c", own) is own
    lazily.update(d=own)
    assert lazily["d"] is own
    assert lazy(a=[1]) != lazy(a=[2])
    assert lazy(a=[1]) != [("a", [1])]


def test_missing_key_raises_key_error() -> None:
    for ask in (lambda: lazy()["a"], lambda: lazy().pop("a"), lambda: lazy().__delitem__("a")):
        with pytest.raises(KeyError):
            ask()
    with pytest.raises((KeyError, StopIteration)):
        lazy().popitem()


class Key:
    """A key of which one can say whether it is still there."""


def test_deleted_key_is_not_kept_alive() -> None:
    key = Key()
    lazily, seen = LazyDict({key: [1]}, list), weakref.ref(key)
    assert lazily.pop(key) == [1]
    del key
    gc.collect()
    assert seen() is None
    assert lazily == {}
