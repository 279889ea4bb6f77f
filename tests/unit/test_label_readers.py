"""Nodes are told apart by a label only while a pod that reads it has no node of its own yet."""

from __future__ import annotations

from attrs import evolve

from gangsched import (
    Bind,
    Bound,
    InMemoryCluster,
    NodeAdded,
    NodeName,
    PodAdded,
    PodDeleted,
    PodUpdated,
    Scheduler,
    presets,
)
from gangsched.framework.nodes.labels_read import LabelsRead
from gangsched.model import Node, Pod
from gangsched.testing import make_pod

HOSTNAME = "kubernetes.io/hostname"
NODES = 12


def on_hosts(*pods: Pod) -> tuple[InMemoryCluster, Scheduler]:
    cluster = InMemoryCluster()
    for number in range(NODES):
        name = NodeName(f"n{number}")
        labels = {HOSTNAME: name}
        cluster.apply(NodeAdded(Node(name=name, allocatable={"cpu": 64}, labels=labels)))
    for pod in pods:
        cluster.apply(PodAdded(pod))
    scheduler = presets.coscheduling(cluster)
    scheduler.rebuild(now=0.0)
    return cluster, scheduler


def selecting(name: str, host: str) -> Pod:
    return evolve(make_pod(name, cpu=1), node_selector={HOSTNAME: host})


def classes(scheduler: Scheduler) -> int:
    return len(list(scheduler._state.nodes.classes.occupied()))


def place(cluster: InMemoryCluster, scheduler: Scheduler) -> list[str]:
    """Decide until nothing is active, and report every bind; return the nodes."""
    nodes: list[str] = []
    while (effects := scheduler.schedule_one(now=0.0)) is not None:
        for bind in effects:
            if isinstance(bind, Bind):
                nodes.append(bind.node)
                bound = Bound(bind.uid, bind.node, bind.attempt)
                cluster.apply(bound)
                scheduler.handle(bound, now=0.0)
    scheduler._check()
    return nodes


def test_running_pod_does_not_split_node_classes_by_its_selector() -> None:
    running = evolve(selecting("running", "n3"), node_name=NodeName("n3"))
    _cluster, scheduler = on_hosts(running)
    assert scheduler._state.pod_classes.labels.keys == ()
    assert classes(scheduler) == 2, "the node of the running pod has less free than the others"
    scheduler._check()


def test_pending_pod_splits_node_classes_by_its_selector() -> None:
    cluster, scheduler = on_hosts(selecting("p", "n5"))
    assert classes(scheduler) == NODES
    assert place(cluster, scheduler) == ["n5"]


def test_gated_pod_splits_node_classes_until_it_is_gone() -> None:
    gated = evolve(selecting("p", "n5"), scheduling_gates=("wait",))
    cluster, scheduler = on_hosts(gated)
    assert len(scheduler._state.pod_classes.labels) == 1
    scheduler.handle(cluster.apply(PodDeleted(gated.uid)), now=0.0)
    assert len(scheduler._state.pod_classes.labels) == 0
    scheduler._check()


def test_pod_that_was_bound_reads_labels_again_when_it_is_recreated() -> None:
    cluster, scheduler = on_hosts(selecting("p", "n5"))
    assert place(cluster, scheduler) == ["n5"]
    assert len(scheduler._state.pod_classes.labels) == 0
    scheduler.handle(cluster.apply(PodDeleted(selecting("p", "n5").uid)), now=0.0)
    scheduler.handle(cluster.apply(PodAdded(selecting("p", "n7"))), now=0.0)
    assert len(scheduler._state.pod_classes.labels) == 1
    assert place(cluster, scheduler) == ["n7"]


def test_like_pods_read_labels_until_the_bind_of_the_last_is_reported() -> None:
    cluster, scheduler = on_hosts(selecting("a", "n5"), selecting("b", "n5"))
    first = [e for e in scheduler.schedule_one(now=0.0) or () if isinstance(e, Bind)]
    assert place(cluster, scheduler) == ["n5"]
    assert len(scheduler._state.pod_classes.labels) == 1, "the bind of the first may still fail"
    for bind in first:
        bound = Bound(bind.uid, bind.node, bind.attempt)
        cluster.apply(bound)
        scheduler.handle(bound, now=0.0)
    assert len(scheduler._state.pod_classes.labels) == 0


def test_label_that_is_not_read_any_more_is_dropped_after_as_many_changes_as_nodes() -> None:
    cluster, scheduler = on_hosts(selecting("p", "n5"))
    place(cluster, scheduler)
    assert classes(scheduler) == NODES, "to drop it at once would classify every node twice a pod"
    for number in range(NODES):
        scheduler.handle(cluster.apply(PodAdded(make_pod(f"later-{number}", cpu=1))), now=0.0)
        place(cluster, scheduler)
    assert scheduler._state.pod_classes.labels.keys == ()
    assert classes(scheduler) <= 3


def test_label_of_a_pod_that_is_bound_by_another_scheduler_is_not_read() -> None:
    pod = evolve(selecting("p", "n5"), scheduling_gates=("wait",))
    cluster, scheduler = on_hosts(pod)
    elsewhere = evolve(pod, scheduling_gates=(), node_name=NodeName("n5"))
    scheduler.handle(cluster.apply(PodUpdated(elsewhere)), now=0.0)
    assert len(scheduler._state.pod_classes.labels) == 0
    scheduler._check()


def test_idle_labels_are_counted_through_restore() -> None:
    labels = LabelsRead()
    labels.restore({"zone": 0, "disk": 2}, 1)
    assert (labels.keys, len(labels)) == (("disk", "zone"), 1)
    assert [labels.forget_idle(changes, 4) for changes in (7, 8, 9)] == [False] * 3
    assert labels.idle_changes(9) == 3
    assert labels.forget_idle(10, 4)
    assert labels.keys == ("disk",)
    assert not labels.forget_idle(100, 4)


def test_label_that_is_read_again_is_not_dropped() -> None:
    labels = LabelsRead()
    labels.add(["zone"])
    labels.discard(["zone"])
    assert not labels.forget_idle(0, 3)
    assert not labels.add(["zone"])
    assert not labels.forget_idle(100, 3)
    assert labels.keys == ("zone",)
