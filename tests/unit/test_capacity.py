"""What a group needs in all, against what nodes have free in all."""

from __future__ import annotations

from gangsched._core._capacity import resource_gap, total_free


def test_the_least_that_is_free_counts_and_what_is_overcommitted_does_not() -> None:
    assert total_free([{"cpu": 1, "gpu": 0}, {"cpu": 2}, {"cpu": -5}]) == {"cpu": 3}


def test_the_least_that_is_lacking_is_a_gap_and_nothing_lacking_is_none() -> None:
    wanted = {"cpu": 4, "gpu": 2, "memory": 3}
    gap = resource_gap(wanted, [{"cpu": 3, "gpu": 2}])
    assert dict(gap) == {"cpu": 1, "memory": 3}
