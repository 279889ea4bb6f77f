"""Which strategy places members, by the resources that they request."""

from __future__ import annotations

import pytest

from gangsched import PlacementStrategy
from gangsched.options.scheduling_unit import strategy_for


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (["cpu", "nvidia.com/gpu"], PlacementStrategy.PACK),
        (["cpu", "memory"], PlacementStrategy.SCORE),
        ([], PlacementStrategy.SCORE),
    ],
)
def test_members_with_extended_resources_are_packed(
    resources: list[str], expected: PlacementStrategy
) -> None:
    assert strategy_for(PlacementStrategy.AUTO, resources) is expected
    assert strategy_for(PlacementStrategy.SPREAD, resources) is PlacementStrategy.SPREAD
