"""The total request of a group against the total free capacity of nodes."""

from __future__ import annotations

from gangsched._core._capacity import resource_gap, total_free


def test_overcommitted_node_counts_as_zero() -> None:
    assert total_free([{"cpu": 1, "gpu": 0}, {"cpu": 2}, {"cpu": -5}]) == {"cpu": 3}


def test_gap_has_only_lacking_amounts() -> None:
    wanted = {"cpu": 4, "gpu": 2, "memory": 3}
    gap = resource_gap(wanted, [{"cpu": 3, "gpu": 2}])
    assert dict(gap) == {"cpu": 1, "memory": 3}
