"""Items in order: a list while they are few, a ``SortedList`` when they are many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sortedcontainers import SortedList

from gangsched.framework.nodes import in_order

numbers = st.lists(st.integers(0, 20), unique=True, max_size=12)


@pytest.mark.parametrize("many", [0, 3, 100])
@given(numbers, numbers, st.data())
def test_items_stay_in_order_whichever_container_has_them(
    many: int, begun: list[int], added: list[int], data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_order, "_MANY", many)
        items, expected = in_order.made(begun), sorted(begun)
        for each in added:
            items = in_order.add(items, each)
            expected = sorted([*expected, each])
            assert type(items) is (list if len(expected) <= many else SortedList)
        for each in data.draw(st.permutations(begun)):
            in_order.remove(items, each)
            expected.remove(each)
        assert list(items) == expected
        bound = data.draw(st.integers(-1, 21))
        first = in_order.first_at_least(items, bound)
        assert first == sum(each < bound for each in expected)
        assert list(in_order.between(items, first)) == [e for e in expected if e >= bound]
        last = data.draw(st.integers(first, len(expected)))
        assert list(in_order.between(items, first, last)) == expected[first:last]


@pytest.mark.parametrize("many", [0, 100])
@pytest.mark.parametrize("item", [1, 9])
def test_item_that_is_not_there_cannot_be_removed(
    many: int, item: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_order, "_MANY", many)
    items = in_order.made([0, 2, 4])
    with pytest.raises(ValueError, match=str(item)):
        in_order.remove(items, item)
    assert list(items) == [0, 2, 4]
