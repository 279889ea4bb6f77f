"""The registry checks its grace periods: each broken invariant is reported."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gangsched._core._registry import PodGroupRegistry
from gangsched.errors import InternalError
from gangsched.model import PodUID
from support.groups import claim_of, grouped, key


def leaving() -> PodGroupRegistry:
    """Return a registry with two groups in their grace period and one with a member."""
    registry = PodGroupRegistry(grace=10.0)
    for name in ("first", "second", "third"):
        pod = grouped(f"p-{name}", name)
        registry.join(pod, claim_of(pod))
    registry.leave(key("first"), PodUID("ns/p-first"), now=1.0)
    registry.leave(key("second"), PodUID("ns/p-second"), now=2.0)
    registry._check()
    return registry


def leave_in_another_order(registry: PodGroupRegistry) -> None:
    registry._left[key("first")] = 99.0


def forget_when_one_was_left(registry: PodGroupRegistry) -> None:
    del registry._left[key("first")]


def forget_one_that_has_a_member(registry: PodGroupRegistry) -> None:
    registry._left[key("third")] = 99.0


def forget_one_too_early(registry: PodGroupRegistry) -> None:
    del registry._groups[key("first")]


@pytest.mark.parametrize(
    ("sabotage", "says"),
    [
        (leave_in_another_order, "grace periods are not in the order in which they end"),
        (forget_when_one_was_left, "group ns/first has neither specification nor member"),
        (forget_one_that_has_a_member, "group ns/third has a member and a grace period"),
        (forget_one_too_early, "a grace period belongs to an unknown group"),
    ],
)
def test_check_reports_broken_grace_periods(
    sabotage: Callable[[PodGroupRegistry], None], says: str
) -> None:
    registry = leaving()
    sabotage(registry)
    with pytest.raises(InternalError) as caught:
        registry._check()
    assert caught.value.invariant == says
