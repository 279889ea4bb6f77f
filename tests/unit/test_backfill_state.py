"""The memory of candidates for a reservation: each event by itself, without a scheduler."""

from __future__ import annotations

import math

import pytest
from attrs import evolve

from gangsched import (
    Backfill,
    GroupKey,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    PodGroup,
    Reservation,
)
from gangsched._core._group_entity import QueuedGroup
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.reserved_capacity import ReservedCapacity
from gangsched.framework.nodes.reserved_views import exempt
from gangsched.framework.state.backfill_state import ActiveReservation, BackfillState
from support.entities import a_group, a_pod

N1 = NodeName("n1")
NODES = Nodes(InMemoryCluster())


def fleet() -> Nodes:
    """Return one empty node."""
    cluster = InMemoryCluster()
    nodes = Nodes(cluster)
    cluster.apply(NodeAdded(Node(name=N1, allocatable={"cpu": 8})))
    nodes.refresh(N1)
    return nodes


def key_of(entity: QueuedGroup) -> GroupKey:
    assert entity.group is not None
    return entity.group.key


def qualified(*entities: QueuedGroup) -> BackfillState:
    """Return a memory in which these gangs qualify, and all were evaluated."""
    mine = BackfillState(Backfill())
    for entity in entities:
        mine.note_rejected(entity, "shape", 1, NODES, lacks_capacity=True)
    mine.has_no_candidate, mine.is_contested, mine.is_stale = True, False, False
    return mine


def promised(entity: QueuedGroup, *others: QueuedGroup) -> BackfillState:
    """Return a memory in which a gang has a reservation, and others ask."""
    mine = qualified(entity, *others)
    mine.reservation = ActiveReservation(entity, key_of(entity), 0.0, math.inf, 9.0, {})
    return mine


# Rejections -----------------------------------------------------------------------------------


def test_gang_rejected_for_lack_of_capacity_may_preempt() -> None:
    mine, gang = BackfillState(Backfill()), a_group(1)
    assert mine.has_no_candidate is True
    mine.note_rejected(gang, "shape", 3, NODES, lacks_capacity=True)
    assert mine.qualified == {key_of(gang): None}
    assert mine.has_no_candidate is False
    assert not mine.failed


def test_no_entity_preempts_without_a_policy() -> None:
    mine, gang = BackfillState(), a_group(1)
    mine.note_rejected(gang, "shape", 3, NODES, lacks_capacity=True)
    mine.note_event(gang)
    mine.note_capacity_gain(None, None)
    assert not len(mine)
    assert not mine.gained


def test_gang_rejected_for_another_reason_does_not_preempt_again() -> None:
    gang, other = a_group(1), a_group(2)
    mine = qualified(gang, other)
    mine.note_rejected(gang, "shape", 3, NODES, lacks_capacity=False)
    assert mine.qualified == {key_of(other): None}


def test_started_gang_preempts_nothing_for_late_members() -> None:
    mine, gang = BackfillState(Backfill()), a_group(1)
    assert gang.group is not None
    gang.group.was_scheduled = True
    mine.note_rejected(gang, "shape", 3, NODES, lacks_capacity=True)
    assert not mine.qualified
    assert mine.has_no_candidate


@pytest.mark.parametrize(
    ("is_exempt", "step", "known"), [(True, 0, {"shape": 0}), (True, -1, {}), (False, 3, {})]
)
def test_class_that_failed_on_all_capacity_is_recorded(
    is_exempt: bool, step: int, known: dict[str, int]
) -> None:
    mine, nodes = promised(a_group(1)), fleet()
    entry = ReservedCapacity.expecting(1, N1, 0, ())
    assert mine.reservation is not None
    mine.reservation.capacity[N1] = entry
    nodes.reserve([entry])
    with exempt(nodes, [entry] if is_exempt else []):
        mine.note_rejected(a_pod(1), "shape", step, nodes, lacks_capacity=True)
    assert mine.failed == known


def test_no_class_is_recorded_without_a_reservation() -> None:
    mine = BackfillState(Backfill())
    mine.note_rejected(a_pod(1), "shape", 3, NODES, lacks_capacity=True)
    assert not mine.failed
    assert not mine.qualified


@pytest.mark.parametrize("has_node", [False, True])
def test_reservation_is_not_left_out_on_nodes_that_withhold_it_or_are_gone(has_node: bool) -> None:
    mine, nodes = promised(a_group(1)), fleet() if has_node else NODES
    entry = ReservedCapacity.expecting(1, N1, 0, ())
    assert mine.reservation is not None
    mine.reservation.capacity[N1] = entry
    nodes.reserve([entry])
    assert not mine.reservation.is_left_out(nodes)
    nodes.release([entry])


@pytest.mark.parametrize(("priority", "contests"), [(1, True), (0, False)])
def test_gang_of_higher_priority_contests_a_reservation_when_it_is_rejected(
    priority: int, contests: bool
) -> None:
    mine = promised(a_group(1))
    mine.note_rejected(a_group(2, priority=priority), "shape", 3, NODES, lacks_capacity=True)
    assert mine.is_contested is contests
    mine.note_rejected(a_group(3), "shape", 4, NODES, lacks_capacity=True)
    assert mine.is_contested is contests


# Notices --------------------------------------------------------------------------------------


def test_event_of_a_gang_makes_it_worth_a_try_again() -> None:
    gang, other = a_group(1), a_group(2)
    mine = qualified(gang, other)
    mine.infeasible = {key_of(gang): 7, key_of(other): 7}
    gang.expected_run = (0, 5.0)
    mine.note_event(gang)
    assert gang.expected_run is None
    assert mine.infeasible == {key_of(other): 7}
    assert mine.has_no_candidate is False


def test_event_of_a_hopeful_gang_recomputes_nothing() -> None:
    gang, other = a_group(1), a_group(2)
    mine = qualified(gang, other)
    mine.infeasible = {key_of(other): 7}
    mine.note_event(gang)
    assert mine.has_no_candidate is True


def test_event_of_the_gang_with_the_reservation_may_move_it() -> None:
    gang, other = a_group(1), a_group(2)
    mine = promised(gang, other)
    mine.note_event(other)
    assert mine.is_stale is False
    mine.note_event(gang)
    assert mine.is_stale is True
    mine.note_event(other)
    assert mine.is_stale is True


def test_event_of_a_group_of_the_bundle_may_move_the_reservation() -> None:
    gang, other, stranger = a_group(1), a_group(2), a_group(3)
    mine = promised(gang)
    assert gang.group is not None
    gang.group.spec = PodGroup(name="e1", min_available=1, bundle=(key_of(gang), key_of(other)))
    mine.note_event(stranger)
    assert mine.is_stale is False
    mine.note_event(other)
    assert mine.is_stale is True


def test_event_of_a_preemptor_of_higher_priority_contests_a_reservation() -> None:
    gang, above, below = a_group(1), a_group(2, priority=1), a_group(3)
    mine = promised(gang, above, below)
    mine.note_event(below)
    mine.note_event(a_group(4, priority=9))  # it does not ask
    assert mine.is_contested is False
    mine.note_event(above)
    assert mine.is_contested is True
    mine.note_event(below)
    assert mine.is_contested is True


def test_added_capacity_reopens_every_parked_entity() -> None:
    mine = qualified(a_group(1))
    mine.failed, mine.is_drain_paused = {"a": 1, "b": 5}, True
    mine.note_capacity_gain(None, None)
    assert (mine.failed, mine.is_drain_paused, mine.has_no_candidate, mine.gained) == (
        {},
        False,
        False,
        True,
    )


def test_capacity_of_a_rejected_gang_requeues_entities_that_failed_meanwhile() -> None:
    mine = qualified(a_group(1))
    mine.failed = {"before": 4, "meanwhile": 5, "itself": 6, "later": 7}
    mine.is_drain_paused = True
    mine.note_capacity_gain(5, "itself")
    assert mine.failed == {"before": 4, "itself": 6}
    assert (mine.is_drain_paused, mine.has_no_candidate, mine.gained) == (True, True, True)


def test_forgotten_pod_is_forgotten_everywhere() -> None:
    gang, other = a_group(1), a_group(2)
    mine = promised(gang, other)
    for key in (key_of(gang), key_of(other)):
        mine.drain_timeouts[key] = mine.infeasible[key] = 1
    mine.forget(key_of(other))
    assert mine.qualified == {key_of(gang): None}
    assert (set(mine.drain_timeouts), set(mine.infeasible)) == ({key_of(gang)}, {key_of(gang)})
    assert mine.is_stale is False
    mine.forget(key_of(gang))
    assert mine.is_stale is True


def test_length_counts_each_entry() -> None:
    gang = a_group(1)
    mine = promised(gang, a_group(2), a_group(3))
    assert len(mine) == 7  # three qualify, three are candidates, one has the reservation
    mine.drain_timeouts[key_of(gang)] = 1
    assert len(mine) == 8
    mine.infeasible[key_of(gang)] = 1
    assert len(mine) == 9
    mine.failed["shape"] = 1
    assert len(mine) == 10


# Values ---------------------------------------------------------------------------------------


def test_reservation_says_where_and_by_when() -> None:
    group, nodes = GroupKey("default/g"), (NodeName("a"), NodeName("b"))
    made = Reservation(group, 0.0, 12.5, nodes)
    assert str(made) == "2 nodes are reserved for pod group default/g, starts by 12.5"
    assert str(evolve(made, nodes=nodes[:1], starts_at=None)) == (
        "1 node is drained for pod group default/g"
    )


def test_policy_accepts_boundary_values() -> None:
    policy = Backfill(
        after_attempts=1, after_seconds=0, least_members=1, overdue_after=0, drain_for=0.5
    )
    assert policy.drain_for == 0.5
