"""Law 1: no member is released unless a quorum holds nodes in the same instant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import Bind, GroupScheduled, PodUID, Release
from support.examples import one_in
from support.histories import Policy, steady_policies
from support.history_steps import ChangePod, Decide, PutGroup, PutNode, PutPods, Restart
from support.world import World

gangs = steady_policies.filter(lambda policy: policy.gangs)


def running(world: World) -> int:
    """Return how many pods are bound."""
    return sum(pod.node_name is not None for pod in world.driver.cluster.pods())


@one_in(2)
@given(gangs, st.integers(1, 6), st.integers(0, 3), st.integers(0, 9))
def test_gang_starts_exactly_where_its_minimum_fits(
    policy: Policy, minimum: int, spare: int, room: int
) -> None:
    """Off by one in either direction is a start that must not be, or none that must (F15, F16)."""
    world = policy.world()
    world.live(PutNode(0, cpu=room), PutPods(0, minimum + spare, minimum)).finish()
    assert running(world) == (min(room, minimum + spare) if room >= minimum else 0)


@one_in(2)
@given(gangs, st.integers(2, 6))
def test_waiting_members_are_released_in_one_step(policy: Policy, minimum: int) -> None:
    """Release and binds are one tuple of effects, in the order in which the members came."""
    world = policy.world().live(PutNode(0, cpu=8), PutPods(0, minimum, minimum), Decide())
    (told,) = [t for t in world.driver.log if any(isinstance(e, Bind) for e in t.effects)]
    members = tuple(PodUID(f"u{n + 1}") for n in range(minimum))
    assert [e.members for e in told.effects if isinstance(e, Release)] == [members]
    assert tuple(e.uid for e in told.effects if isinstance(e, Bind)) == members
    assert [e.scheduled for e in told.effects if isinstance(e, GroupScheduled)] == [minimum]


@pytest.mark.parametrize("how", ["succeed", "fail"])
def test_members_that_finished_without_a_node_have_started_nothing(how: str) -> None:
    """Row 77: a member that never ran counts for no quorum, then or later."""
    world = Policy().world().live(PutNode(0, cpu=1), PutPods(1, 3, 2))
    world.live(ChangePod(0, how), ChangePod(1, how)).finish()
    assert running(world) == 0


def test_members_that_ran_and_finished_have_started_their_group() -> None:
    """F30: a replacement goes alone, also after a restart that remembers nothing."""
    world = Policy().world().live(PutNode(0, cpu=2), PutPods(1, 2, 2), Decide())
    world.live(ChangePod(0, "succeed"), ChangePod(1, "succeed"))
    world.live(Restart(), PutNode(0, cpu=1), PutPods(1, 1, 2)).finish()
    assert running(world) == 3


@pytest.mark.parametrize("how", ["terminate", "delete"])
def test_members_that_are_going_count_for_no_quorum(how: str) -> None:
    """Two of three are left, and stay."""
    world = Policy().world().live(PutNode(0, cpu=3), PutPods(2, 3, 3), ChangePod(0, how))
    assert running(world.finish()) == 0


def test_members_bound_by_another_scheduler_count_for_the_quorum() -> None:
    """F21: two were bound by another scheduler; capacity for the third is enough."""
    world = Policy().world().live(PutNode(0, cpu=3), PutPods(2, 3, 3))
    world.live(ChangePod(0, "seize"), ChangePod(1, "seize"), Decide())
    assert running(world) == 3


def test_group_whose_members_have_all_gone_must_start_together_again() -> None:
    """F39: what comes under its name is a new group, though its specification stayed."""
    world = Policy().world().live(PutNode(0, cpu=2), PutGroup(0, 2), PutPods(0, 2), Decide())
    assert running(world) == 2
    world.live(ChangePod(0), ChangePod(0), PutNode(0, cpu=1), PutPods(0, 2)).finish()
    assert running(world) == 0
