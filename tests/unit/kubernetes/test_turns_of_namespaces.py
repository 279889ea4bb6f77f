"""What waits of several namespaces is taken in turn; the flood of one drops nothing of others."""

from __future__ import annotations

import pytest

from gangsched.kubernetes._turns import Turns


def waiting(*items: str) -> Turns[str, str]:
    """Return items that wait, each named after its namespace and a number."""
    turns: Turns[str, str] = Turns()
    for item in items:
        turns.put(item[0], item, item)
    return turns


def taken(turns: Turns[str, str]) -> list[str]:
    return [turns.take() for _item in range(len(turns))]


def test_namespaces_are_taken_in_turn_and_their_items_in_order() -> None:
    assert taken(waiting("a1", "a2", "a3", "b1", "a4", "c1", "b2")) == [
        *("a1", "b1", "c1", "a2", "b2", "a3", "a4")
    ]


def test_namespace_that_comes_late_waits_for_one_item_of_each_other() -> None:
    turns = waiting(*(f"a{n}" for n in range(1000)))
    assert turns.take() == "a0"
    turns.put("b", "b1", "b1")
    assert [turns.take(), turns.take()] == ["a1", "b1"]


def test_item_replaces_the_one_of_the_same_key_in_its_place() -> None:
    turns = waiting("a1", "a2")
    turns.put("a", "a1", "later")
    assert (len(turns), turns.get("a", "a1")) == (2, "later")
    assert taken(turns) == ["later", "a2"]


def test_oldest_item_of_the_longest_namespace_is_dropped() -> None:
    turns = waiting("b1", "a1", "a2", "a3", "b2")
    assert [turns.drop(), turns.drop()] == ["a1", "b1"]
    assert taken(turns) == ["b2", "a2", "a3"]


def test_what_was_removed_is_not_taken() -> None:
    turns = waiting("a1", "b1")
    assert turns.remove("a", "a1") == "a1"
    assert turns.remove("a", "a1") is None
    assert turns.remove("a", "a2") is None
    assert turns.first() == "b1"
    assert taken(turns) == ["b1"]


def test_nothing_is_taken_of_nothing() -> None:
    turns = waiting()
    assert turns.first() is None
    with pytest.raises(LookupError, match="nothing waits"):
        turns.take()
    with pytest.raises(LookupError, match="nothing waits"):
        turns.drop()


def test_what_is_kept_keeps_its_place_and_the_rest_goes() -> None:
    turns = waiting("a1", "b1", "a2", "c1")
    turns.keep(lambda item: item != "a1" and item != "b1")
    assert len(turns) == 2
    assert taken(turns) == ["a2", "c1"]
