"""InMemoryCluster against a cluster that searches everything again."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched.errors import ClusterStateError
from gangsched.events import (
    BindFailed,
    Bound,
    Event,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodUpdated,
)
from gangsched.memory import InMemoryCluster
from gangsched.model import GroupKey, Node, NodeName, Pod, PodGroup, PodPhase, PodUID
from support.fingerprint import fingerprint

N1, N2 = NodeName("n1"), NodeName("n2")
UIDS = [PodUID(uid) for uid in "abc"]
NODES = [N1, N2, NodeName("n3")]
KEYS = [GroupKey(f"default/{name}") for name in "gh"]


class Naive:
    """The same facts, without any index."""

    def __init__(self) -> None:
        self.pods: dict[PodUID, Pod] = {}
        self.nodes: dict[NodeName, Node] = {}
        self.groups: dict[GroupKey, PodGroup] = {}

    def apply(self, event: Event) -> bool:
        match event:
            case PodAdded(pod) | PodUpdated(pod):
                self.pods[pod.uid] = pod
            case PodDeleted(uid):
                self.pods.pop(uid, None)
            case NodeAdded(node) | NodeUpdated(node):
                self.nodes[node.name] = node
            case NodeDeleted(name):
                self.nodes.pop(name, None)
            case PodGroupAdded(group) | PodGroupUpdated(group):
                self.groups[group.key] = group
            case PodGroupDeleted(key):
                self.groups.pop(key, None)
            case Bound(uid, node_name):
                if uid not in self.pods or self.pods[uid].node_name not in (None, node_name):
                    return False
                self.pods[uid] = evolve(self.pods[uid], node_name=node_name)
            case BindFailed():
                pass
        return True

    def on(self, name: NodeName) -> dict[PodUID, Pod]:
        ended = (PodPhase.SUCCEEDED, PodPhase.FAILED)
        on_it = [p for p in self.pods.values() if p.node_name == name and p.phase not in ended]
        return {pod.uid: pod for pod in on_it}


def shown(cluster: InMemoryCluster) -> dict[str, Any]:
    return {
        "pods": list(cluster.pods()),
        "nodes": list(cluster.nodes()),
        "groups": list(cluster.pod_groups()),
        "on": {name: {pod.uid: pod for pod in cluster.pods_on(name)} for name in NODES},
        "pod": {uid: cluster.pod(uid) for uid in UIDS},
        "node": {name: cluster.node(name) for name in NODES},
        "group": {key: cluster.pod_group(key) for key in KEYS},
    }


def expected(naive: Naive) -> dict[str, Any]:
    return {
        "pods": list(naive.pods.values()),
        "nodes": list(naive.nodes.values()),
        "groups": list(naive.groups.values()),
        "on": {name: naive.on(name) for name in NODES},
        "pod": {uid: naive.pods.get(uid) for uid in UIDS},
        "node": {name: naive.nodes.get(name) for name in NODES},
        "group": {key: naive.groups.get(key) for key in KEYS},
    }


uids, names, keys = st.sampled_from(UIDS), st.sampled_from(NODES), st.sampled_from(KEYS)
pods = st.builds(
    Pod,
    name=st.just("p"),
    uid=uids,
    node_name=st.none() | names,
    phase=st.sampled_from(PodPhase),
    requests=st.builds(dict, cpu=st.integers(0, 3)),
)
nodes = st.builds(Node, name=names, unschedulable=st.booleans())
groups = st.builds(PodGroup, name=st.sampled_from("gh"), min_available=st.integers(1, 3))
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(PodAdded, pods),
    st.builds(PodUpdated, pods),
    st.builds(PodDeleted, uids),
    st.builds(NodeAdded, nodes),
    st.builds(NodeUpdated, nodes),
    st.builds(NodeDeleted, names),
    st.builds(PodGroupAdded, groups),
    st.builds(PodGroupUpdated, groups),
    st.builds(PodGroupDeleted, keys),
    st.builds(Bound, uids, names, st.just(1)),
    st.builds(Bound, uids, names, st.just(1)),
    st.builds(BindFailed, uids, st.just(1), st.just("why")),
)


@given(st.lists(events, max_size=30))
def test_cluster_agrees_with_a_naive_model_for_every_history(history: list[Event]) -> None:
    cluster, naive = InMemoryCluster(), Naive()
    for event in history:
        before = shown(cluster)
        if naive.apply(event):
            assert cluster.apply(event) is event
        else:
            with pytest.raises(ClusterStateError):
                cluster.apply(event)
            assert before == shown(cluster)
        cluster._check()
        assert expected(naive) == shown(cluster)
    deletions: list[Event] = [
        *map(PodDeleted, UIDS),
        *map(NodeDeleted, NODES),
        *map(PodGroupDeleted, KEYS),
    ]
    for deleted in deletions:
        cluster.apply(deleted)
    assert fingerprint(cluster) == fingerprint(InMemoryCluster())


@given(st.lists(events, max_size=20))
def test_apply_is_idempotent(history: list[Event]) -> None:
    once, twice = InMemoryCluster(), InMemoryCluster()
    for event in history:
        try:
            once.apply(event)
        except ClusterStateError:
            continue
        twice.apply(event)
        twice.apply(event)
        twice._check()
    assert shown(once) == shown(twice)


def test_listings_are_copies() -> None:
    cluster = InMemoryCluster()
    cluster.apply(PodAdded(Pod(name="p", uid=UIDS[0], node_name=N1)))
    before = (cluster.pods(), cluster.pods_on(N1))
    cluster.apply(PodDeleted(UIDS[0]))
    assert [len(tuple(part)) for part in before] == [1, 1]
    assert tuple(cluster.pods()) == ()
