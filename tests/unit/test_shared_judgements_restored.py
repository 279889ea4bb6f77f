"""After a restore, classes share judgements as they did before, without waiting for new pods."""

from __future__ import annotations

from attrs import evolve

from gangsched import (
    Bind,
    Bound,
    InMemoryCluster,
    LabelSelector,
    NodeAdded,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodDeleted,
    Scheduler,
    presets,
)
from gangsched.testing import make_node, make_pod


def apart(name: str, *, cpu: int = 64) -> Pod:
    """Return a pod that is not beside a pod of its own name; each has a class of its own."""
    term = PodAffinityTerm(topology_key="zone", label_selector=LabelSelector({"app": name}))
    return evolve(make_pod(name, cpu=cpu), labels={"app": name}, pod_anti_affinity=[term])


def scheduler_with(*pods: Pod) -> tuple[InMemoryCluster, Scheduler]:
    """Return a scheduler that has tried these pods, and bound those that fit."""
    cluster = InMemoryCluster()
    for n in range(4):
        cluster.apply(NodeAdded(make_node(f"n{n}", cpu=4 + n, labels={"zone": f"z{n % 2}"})))
    scheduler = presets.gang(cluster)
    for pod in pods:
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    while (effects := scheduler.schedule_one(now=0.0)) is not None:
        for effect in effects:
            if isinstance(effect, Bind):
                report = Bound(effect.uid, effect.node, effect.attempt)
                scheduler.handle(cluster.apply(report), now=0.0)
    return cluster, scheduler


def restored(cluster: InMemoryCluster, scheduler: Scheduler) -> Scheduler:
    other = presets.gang(cluster)
    other.restore(scheduler.snapshot())
    other._check()
    return other


def judgements(scheduler: Scheduler, *pods: Pod) -> set[int]:
    """Return the identities of the judgements that the classes of some pods use."""
    members = scheduler._state.pods.members
    return {id(members[pod.uid].pod_class.judgements) for pod in pods}


def test_classes_that_shared_judgements_share_them_after_a_restore() -> None:
    pods = [apart("one"), apart("other"), apart("third")]
    cluster, scheduler = scheduler_with(*pods)
    assert len(judgements(scheduler, *pods)) == 1
    twin = restored(cluster, scheduler)
    assert len(judgements(twin, *pods)) == 1
    for left, pod in zip((2, 1, 0), pods, strict=True):
        twin.handle(cluster.apply(PodDeleted(pod.uid)), now=0.0)
        twin._check()
        assert sum(each.sharing for each in twin._state.pod_classes.alike.values()) == left


def test_classes_that_ask_for_unlike_amounts_do_not_share_after_a_restore() -> None:
    pods = [apart("one"), apart("other", cpu=65)]
    cluster, scheduler = scheduler_with(*pods)
    assert len(judgements(restored(cluster, scheduler), *pods)) == 2


def test_class_that_only_runs_shares_after_a_restore_when_a_pod_of_it_is_pending() -> None:
    runs, waits = apart("runs", cpu=1), apart("waits")
    cluster, scheduler = scheduler_with(runs, waits)
    twin = restored(cluster, scheduler)
    assert len(twin._state.pod_classes.alike) == 1
    twin.handle(cluster.apply(PodAdded(evolve(runs, name="again", uid="again"))), now=0.0)
    assert len(twin._state.pod_classes.alike) == 2
    twin._check()
