"""Members of a gang that are taken back leave nothing of their placement behind."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import InMemoryCluster, NodeAdded, PodAdded, presets
from gangsched.framework.placement.sibling_placement import SiblingPlacement
from gangsched.testing import make_node, make_pod
from support.siblings import APP, ZONE, OnePerZone


@pytest.fixture
def taken_back(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many members were taken back each time, and see that nothing is left."""
    found: list[int] = []
    original = SiblingPlacement.take_back

    def checked(placement: Any) -> None:
        found.append(len(placement.tentative.placed))
        original(placement)
        assert placement.positions == {}
        assert placement.used == {}
        assert not any(placement.counts)
        for kind, alike in placement.task.kinds.items():
            assert placement.left[kind] == alike[::-1]

    monkeypatch.setattr(SiblingPlacement, "take_back", checked)
    return found


def test_members_of_a_gang_that_does_not_fit_are_taken_back(taken_back: list[int]) -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, plugins=(OnePerZone(),))
    for number in range(4):
        node = make_node(f"n{number}", cpu=4, labels={ZONE: f"z{number // 2}"})
        cluster.apply(NodeAdded(node))
    for number in range(5):
        pod = make_pod(f"g-{number}", group="g", min_available=5, cpu=1 + number % 2)
        # two zones take two of the members with the label, of which there are three
        labels = {**pod.labels, APP: "a"} if number < 3 else pod.labels
        cluster.apply(PodAdded(evolve(pod, labels=labels)))
    scheduler.rebuild(now=0.0)
    assert scheduler.schedule_one(now=0.0)
    scheduler._check()
    assert max(taken_back) > 1
