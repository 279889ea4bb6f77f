"""The index by what items need finds exactly the items that a scan finds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched._core import _capacity_index
from gangsched._core._capacity_index import CapacityIndex, Need
from gangsched.errors import InternalError

RESOURCES = ("cpu", "gpu", "memory")
needs = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 6), max_size=3).map(
    lambda found: tuple(sorted(found.items()))
)
free = st.dictionaries(st.sampled_from(RESOURCES), st.integers(-3, 6), max_size=3)


def fits(need: Need, amounts: dict[str, int]) -> bool:
    return all(amount <= amounts.get(name, 0) for name, amount in need)


@given(st.data())
def test_index_returns_the_items_with_a_need_that_is_within_an_amount(data: st.DataObject) -> None:
    index, known = CapacityIndex(), dict[int, list[Need]]()
    for number in range(data.draw(st.integers(0, 12))):
        known[number] = data.draw(st.lists(needs, min_size=1, max_size=3, unique=True))
        index.add(number, known[number])
        if data.draw(st.booleans()):
            gone = data.draw(st.sampled_from(sorted(known)))
            index.discard(gone, known.pop(gone))
        index._check(known)
        amounts = data.draw(free)
        expected = {n for n, each in known.items() if any(fits(need, amounts) for need in each)}
        assert index.fitting(amounts) == expected
    for number, each in known.items():
        index.discard(number, each)
    assert not len(index)
    index._check({})


def test_question_looks_at_the_items_within_the_scarcest_resource_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index = CapacityIndex()
    for number in range(1000):
        index.add(number, ((("cpu", number), ("memory", 1000 - number)),))
    looked: list[tuple[int, ...]] = []
    original = _capacity_index._is_within

    def counted(amounts: tuple[int, ...], most: tuple[int, ...]) -> bool:
        looked.append(amounts)
        return original(amounts, most)

    monkeypatch.setattr(_capacity_index, "_is_within", counted)
    assert index.fitting({"cpu": 5, "memory": 2000}) == set(range(6))
    assert len(looked) == 6
    assert index.fitting({"cpu": 5, "memory": 0}) == set()
    assert len(looked) == 6


def test_check_notices_an_item_that_is_filed_wrongly() -> None:
    index = CapacityIndex()
    need: Any = (("cpu", 1),)
    index.add(1, (need,))
    index._check({1: [need]})
    with pytest.raises(InternalError, match="not those of its items"):
        index._check({1: [(("cpu", 2),)]})
    index._alike[("cpu",)].by_amount[0].add((3, 1))
    with pytest.raises(InternalError, match="filed wrongly"):
        index._check({1: [need]})
