"""The words of kubectl."""

from __future__ import annotations

import pytest
from attrs import evolve

from gangsched import (
    BindFailed,
    GroupIncomplete,
    GroupKey,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    PodAdded,
    PodDeleted,
    PodNotAdmitted,
    PodPhase,
    PodRefused,
    PodUID,
    PodUpdated,
    PodWaiting,
)
from gangsched.simulation import EventLog
from gangsched.simulation.describe import human_duration, pod_rows
from gangsched.testing import make_pod


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        *((0, "0s"), (-3, "0s"), (43.9, "43s"), (119, "119s"), (120, "2m"), (403, "6m43s")),
        *((599, "9m59s"), (600, "10m"), (10_799, "179m"), (10_800, "3h"), (18_420, "5h7m")),
        *((28_800, "8h"), (172_799, "47h"), (172_800, "2d"), (273_600, "3d4h"), (691_200, "8d")),
    ],
)
def test_age_is_printed_as_by_kubectl(seconds: float, expected: str) -> None:
    assert human_duration(seconds) == expected


def test_row_shows_the_status_of_a_pod() -> None:
    pod = make_pod("p", created_at=5.0)
    on_it = evolve(pod, node_name=NodeName("n"))
    cases = [
        (pod, "0/1", "Pending"),
        (evolve(pod, scheduling_gates=("wait",)), "0/1", "SchedulingGated"),
        (on_it, "1/1", "Running"),
        (evolve(on_it, deleted_at=6.0), "0/1", "Terminating"),
        (evolve(on_it, phase=PodPhase.SUCCEEDED), "0/1", "Completed"),
        (evolve(on_it, phase=PodPhase.FAILED), "0/1", "Error"),
    ]
    for shown, ready, status in cases:
        (row,) = pod_rows([shown], now=65.0)
        assert (row.ready, row.status, row.node, row.age) == (ready, status, shown.node_name, "60s")


def test_events_and_effects_become_entries_with_their_object() -> None:
    log = EventLog()
    pod = make_pod("p", uid="u")
    log.event(NodeAdded(Node(name=NodeName("n"), allocatable={"memory": "4Gi"})), 0.0)
    log.event(PodAdded(pod), 1.0)
    log.event(BindFailed(pod.uid, 1, "no route"), 2.0)
    log.event(PodUpdated(evolve(pod, phase=PodPhase.FAILED)), 3.0)
    log.event(PodDeleted(pod.uid), 4.0)
    log.event(NodeDeleted(NodeName("n")), 5.0)
    said = [(e.at, e.type, e.reason, e.object, e.message) for e in log.entries]
    assert said == [
        (0.0, "Normal", "RegisteredNode", "node/n", "Allocatable: memory=4Gi"),
        (2.0, "Warning", "FailedBinding", "pod/default/p", "Binding rejected: no route"),
        (3.0, "Normal", "Failed", "pod/default/p", "Pod has finished"),
        (4.0, "Normal", "Killing", "pod/default/p", "Pod was deleted"),
        (5.0, "Normal", "RemovingNode", "node/n", "Node is gone"),
    ]


def test_notices_become_sentences() -> None:
    log = EventLog()
    uid, group = PodUID("u"), GroupKey("default/g")
    log.effects(
        (
            PodRefused(uid, "priority: expected 1"),
            PodNotAdmitted(uid, "has scheduling gates: x"),
            GroupIncomplete(group, 1, None),
            GroupIncomplete(group, 2, 5),
            PodWaiting(uid, NodeName("n"), 12.0, 1),
        ),
        2.0,
    )
    assert [(e.reason, e.object, e.message) for e in log.entries] == [
        ("Refused", "pod/u", "priority: expected 1"),
        ("NotAdmitted", "pod/u", "has scheduling gates: x"),
        (
            "WaitingForMembers",
            "podgroup/default/g",
            "Has 1 member, needs a minimum, which is not given yet",
        ),
        ("WaitingForMembers", "podgroup/default/g", "Has 2 members, needs 5"),
        (
            "WaitingOnPermit",
            "pod/u",
            "Waiting on permit on n for 1 more member, until t=12s at the latest",
        ),
    ]
