"""``OverlayCluster`` against a cluster to which all events were applied."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    OverlayCluster,
    Pod,
    PodUID,
)
from gangsched.errors import ClusterStateError, InvalidValueError
from gangsched.events import Bound, Event, PodAdded, PodDeleted
from gangsched.testing import check_cluster_state
from support.fingerprint import fingerprint

N1, N2, N3 = NodeName("n1"), NodeName("n2"), NodeName("n3")
UIDS = [PodUID(uid) for uid in "abc"]


def test_overlay_of_an_empty_cluster_passes_the_kit() -> None:
    check_cluster_state(lambda: OverlayCluster(InMemoryCluster()))


def shown(cluster: InMemoryCluster) -> dict[str, Any]:
    return {
        "pods": list(cluster.pods()),
        "nodes": list(cluster.nodes()),
        "groups": list(cluster.pod_groups()),
        "on": [list(cluster.pods_on(name)) for name in (N1, N2, N3)],
        "pod": [cluster.pod(uid) for uid in UIDS],
        "node": [cluster.node(name) for name in (N1, N2, N3)],
        "group": [cluster.pod_group(group.key) for group in cluster.pod_groups()],
    }


names, uids = st.sampled_from([N1, N2, N3]), st.sampled_from(UIDS)
pods = st.builds(
    Pod,
    name=st.just("p"),
    uid=uids,
    node_name=st.none() | names,
    phase=st.sampled_from(["Pending", "Running", "Succeeded"]),
)
nodes = st.builds(Node, name=names, unschedulable=st.booleans())
facts: st.SearchStrategy[Event] = st.one_of(
    st.builds(PodAdded, pods),
    st.builds(PodAdded, pods),
    st.builds(PodDeleted, uids),
    st.builds(NodeAdded, nodes),
    st.builds(NodeDeleted, names),
    st.builds(Bound, uids, names, st.just(1)),
)


def told(cluster: InMemoryCluster, event: Event) -> bool:
    try:
        cluster.apply(event)
    except ClusterStateError:
        return False
    return True


@given(st.lists(facts, max_size=12), st.lists(facts, max_size=12), st.booleans())
def test_overlay_shows_what_one_cluster_with_all_events_shows(
    before: list[Event], after: list[Event], looked_at: bool
) -> None:
    below, alone = InMemoryCluster(), InMemoryCluster()
    for event in before:
        assert told(below, event) == told(alone, event)
    overlay, kept = OverlayCluster(below), fingerprint(below)
    for event in after:
        assert told(overlay, event) == told(alone, event)
        if looked_at:
            overlay._check()
            assert shown(overlay) == shown(alone)
    assert shown(overlay) == shown(alone)
    overlay._check()
    assert fingerprint(below) == kept


def test_overlay_reads_only_what_is_asked_for() -> None:
    class Below(InMemoryCluster):
        def nodes(self) -> Any:
            raise AssertionError("all nodes were read")

        def pods(self) -> Any:
            raise AssertionError("all pods were read")

    overlay = OverlayCluster(Below())
    pod = Pod(name="p")
    overlay.apply(PodAdded(pod))
    overlay.apply(NodeAdded(Node(name=N1)))
    overlay.apply(Bound(pod.uid, N1, 1))
    assert list(overlay.pods_on(N1)) == [evolve(pod, node_name=N1)]


@pytest.mark.parametrize("below", [None, 3, object()])
def test_overlay_refuses_what_is_not_a_cluster_state(below: Any) -> None:
    with pytest.raises(InvalidValueError, match="cluster") as caught:
        OverlayCluster(below)

    assert caught.value.value is below
