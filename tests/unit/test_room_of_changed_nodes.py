"""Room by resources alone: of nodes that an event has changed, and for kinds of members."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from attrs import evolve

from gangsched import GroupKey, InMemoryCluster, NodeAdded, NodeName, PodAdded, presets
from gangsched.framework.backfill.room import Room
from gangsched.framework.queueing.node_change import NodeChange
from gangsched.framework.state.scheduler_state import State
from gangsched.testing import make_node, make_pod
from support.busy import NOW

G = GroupKey("default/g")


def state_of(cpus: Sequence[int], members: Sequence[int], *, cordoned: bool = False) -> State:
    """Return the state of a scheduler with nodes and a pending gang, by their CPUs."""
    cluster = InMemoryCluster()
    for n, cpu in enumerate(cpus):
        node = make_node(f"n{n}", cpu=cpu)
        cluster.apply(NodeAdded(evolve(node, unschedulable=cordoned and n == 0)))
    for n, cpu in enumerate(members):
        pod = make_pod(f"g-{n}", group="g", min_available=len(members), cpu=cpu)
        cluster.apply(PodAdded(pod))
    scheduler = presets.gang(cluster)
    scheduler.rebuild(now=NOW)
    return scheduler._state


@pytest.mark.parametrize(("cordoned", "expected"), [(False, 3 + 3), (True, 0)])
def test_changed_node_that_a_plugin_refuses_has_no_room(cordoned: bool, expected: int) -> None:
    state = state_of([3, 3], [1], cordoned=cordoned)
    (member,) = state.pods.members.values()
    change = NodeChange(state.settings, state.nodes, [NodeName("n0")], NOW)
    assert change.has_room(member.pod_class), "its resources are free all the same"
    assert change.room(member.pod_class) == expected


def test_changed_node_without_what_a_pod_requests_has_no_room() -> None:
    state = state_of([1, 9], [2])
    (member,) = state.pods.members.values()
    change = NodeChange(state.settings, state.nodes, [NodeName("n0")], NOW)
    assert not change.has_room(member.pod_class)
    assert change.room(member.pod_class) == 0


@pytest.mark.parametrize(
    ("cpus", "members", "fits"),
    [
        ([2, 2, 2], [1, 2, 3], False),
        ([2, 2, 3], [1, 2, 3], True),
        # of four kinds, only the least of each resource is compared
        ([2, 2, 2], [1, 2, 3, 4], True),
        ([1, 2], [1, 2, 3, 4], False),
    ],
)
def test_up_to_three_kinds_of_members_are_told_apart(
    cpus: list[int], members: list[int], fits: bool
) -> None:
    state = state_of(cpus, members)
    room = Room(state.settings, state.pods, state.call, state.pods.entities[G]).fill(state.nodes)
    assert room.is_enough is fits
