"""The scratch of one cycle."""

from __future__ import annotations

from gangsched.cycle_state import CycleState
from gangsched.model import Node, NodeName
from gangsched.protocols import StateKey
from support.views import FakeGroup, cycle, node_view

COUNT: StateKey[int] = StateKey("count")
OTHER: StateKey[int] = StateKey("count")


def test_written_values_are_read_back_and_no_others() -> None:
    state = CycleState(None, {})
    assert state.read(COUNT) is None
    state.write(COUNT, 3)
    assert state.read(COUNT) == 3
    state.write(COUNT, 0)
    assert state.read(COUNT) == 0


def test_keys_of_one_name_are_distinct_by_identity() -> None:
    """Plugins do not know each other, and may choose the same word."""
    state = CycleState(None, {})
    state.write(COUNT, 3)
    assert state.read(OTHER) is None


def test_cycle_shows_its_group_and_its_nodes() -> None:
    group, view = FakeGroup(), node_view(Node(name=NodeName("n")))
    state = cycle(group, view)
    assert state.group is group
    assert dict(state.nodes) == {"n": view}
