"""Whether a plan has enough members is counted in one pass over them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gangsched import GroupKey, InMemoryCluster, presets
from gangsched.framework.placement.plan import Plan
from gangsched.framework.state.role_count import RoleCount

_keys = st.sampled_from([GroupKey("default/a"), GroupKey("default/b")])
_roles = st.none() | st.sampled_from(["ps", "worker"])


@given(
    st.lists(st.tuples(_keys, _roles), max_size=6),
    st.lists(st.builds(RoleCount, _keys, _roles, st.integers(0, 3)), max_size=4),
)
def test_plan_meets_numbers_exactly_if_each_is_covered(
    planned: list[tuple[GroupKey, str | None]], asks: list[RoleCount]
) -> None:
    plan = Plan(presets.gang(InMemoryCluster())._state.nodes)
    for key, role in planned:
        member: Any = SimpleNamespace(group=SimpleNamespace(key=key), role=role)
        plan.placed.append((member, 0))
    covered = [sum(ask.covers(key, role) for key, role in planned) for ask in asks]
    expected = all(count >= ask.count for count, ask in zip(covered, asks, strict=True))
    assert plan.meets(asks) == expected
