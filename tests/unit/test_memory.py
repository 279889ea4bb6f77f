"""InMemoryCluster against a cluster that searches everything again."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched.errors import ClusterStateError, InternalError
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
from gangsched.protocols import ClusterState

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


@given(st.lists(events, max_size=20))
def test_no_node_lists_pods_when_all_are_deleted(history: list[Event]) -> None:
    cluster = InMemoryCluster()
    for event in history:
        try:
            cluster.apply(event)
        except ClusterStateError:
            continue
    for uid in UIDS:
        cluster.apply(PodDeleted(uid))
    assert not cluster._on
    assert not cluster._pods


def test_cluster_satisfies_the_cluster_state_protocol() -> None:
    cluster: ClusterState = InMemoryCluster()
    assert not [*cluster.nodes(), *cluster.pods(), *cluster.pods_on(N1), *cluster.pod_groups()]


def test_apply_refuses_a_bind_of_an_unknown_pod() -> None:
    with pytest.raises(ClusterStateError) as caught:
        InMemoryCluster().apply(Bound(UIDS[0], N1, 1))
    assert (UIDS[0], "is not there and cannot be bound to n1") == (
        caught.value.subject,
        caught.value.problem,
    )


def test_apply_refuses_a_bind_to_a_second_node() -> None:
    """F21: a pod is on one node."""
    cluster = InMemoryCluster()
    cluster.apply(PodAdded(Pod(name="p", uid=UIDS[0], node_name=N1)))
    with pytest.raises(ClusterStateError) as caught:
        cluster.apply(Bound(UIDS[0], N2, 1))
    assert caught.value.subject == "default/p"
    assert caught.value.problem == "is bound to n1 and cannot be bound to n2"


def test_listings_are_copies() -> None:
    cluster = InMemoryCluster()
    cluster.apply(PodAdded(Pod(name="p", uid=UIDS[0], node_name=N1)))
    before = (cluster.pods(), cluster.pods_on(N1))
    cluster.apply(PodDeleted(UIDS[0]))
    assert [len(tuple(part)) for part in before] == [1, 1]
    assert tuple(cluster.pods()) == ()


@pytest.mark.parametrize("ended", [PodPhase.SUCCEEDED, PodPhase.FAILED])
def test_pods_on_leaves_out_finished_pods(ended: PodPhase) -> None:
    cluster = InMemoryCluster()
    pod = Pod(name="p", uid=UIDS[0], node_name=N1, phase=PodPhase.RUNNING)
    cluster.apply(PodAdded(pod))
    assert cluster.pods_on(N1) == (pod,)
    cluster.apply(PodUpdated(evolve(pod, phase=ended)))
    cluster._check()
    assert not cluster.pods_on(N1)


@pytest.mark.parametrize("elsewhere", [N2, None])
def test_pods_on_follows_the_last_update_of_a_pod(elsewhere: NodeName | None) -> None:
    cluster = InMemoryCluster()
    pod = Pod(name="p", uid=UIDS[0], node_name=N1)
    cluster.apply(PodAdded(pod))
    cluster.apply(PodUpdated(evolve(pod, node_name=elsewhere)))
    cluster._check()
    assert not cluster.pods_on(N1)
    assert [p.uid for p in cluster.pods_on(N2)] == ([] if elsewhere is None else [pod.uid])


def test_pods_stay_on_a_deleted_node_until_they_are_deleted() -> None:
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(Node(name=N1)))
    cluster.apply(PodAdded(Pod(name="p", uid=UIDS[0], node_name=N1)))
    cluster.apply(NodeDeleted(N1))
    assert cluster.node(N1) is None
    assert [UIDS[0]] == [pod.uid for pod in cluster.pods_on(N1)]


def test_check_detects_a_pod_on_the_wrong_node() -> None:
    cluster = InMemoryCluster()
    cluster.apply(PodAdded(Pod(name="p", uid=UIDS[0], node_name=N1)))
    cluster._on[N2] = {}
    with pytest.raises(InternalError):
        cluster._check()
    del cluster._on[N2], cluster._on[N1]
    with pytest.raises(InternalError):
        cluster._check()
