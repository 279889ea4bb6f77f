"""Amounts over time, and numbers summed up."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import Resources
from gangsched.simulation import Account, Distribution

CHANGES = st.lists(st.tuples(st.integers(0, 10), st.booleans(), st.integers(1, 9)), max_size=20)


@given(CHANGES)
def test_account_is_the_exact_integral_of_its_amount(
    changes: list[tuple[int, bool, int]],
) -> None:
    account, now, amount, area = Account(), 0, 0, Fraction(0)
    for passed, grows, units in changes:
        area += amount * passed
        now += passed
        amount += units if grows else -units
        change = account.add if grows else account.subtract
        change(Resources({"cpu": units}), now=now)
    expected = {"cpu": float(area)} if area else {}
    assert account.areas(now=now) == expected
    assert account.amounts() == Resources({"cpu": amount})


def test_asking_changes_nothing() -> None:
    account = Account()
    account.add(Resources({"cpu": "1500m"}), now=1.0)
    assert [account.areas(now=3.0), account.areas(now=3.0)] == [{"cpu": 3.0}] * 2
    assert account.areas(now=5.0) == {"cpu": 6.0}


@given(st.lists(st.integers(-50, 50), min_size=1))
def test_distribution_gives_numbers_that_are_there_at_their_ranks(numbers: list[int]) -> None:
    found = Distribution.of(numbers)
    assert (found.count, found.max) == (len(numbers), max(numbers))
    assert found.mean == pytest.approx(sum(numbers) / len(numbers))
    for value, share in ((found.median, 50), (found.p95, 95), (found.p99, 99)):
        assert value in numbers
        at_most = sum(n <= value for n in numbers)
        below = sum(n < value for n in numbers)
        assert 100 * at_most >= share * len(numbers)
        assert 100 * below < share * len(numbers)


def test_median_of_nothing_does_not_exist() -> None:
    assert Distribution.of([]) == Distribution(0, None, None, None, None, None)
