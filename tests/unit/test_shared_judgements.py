"""Pods that differ only in terms about other pods share the judgements of nodes."""

from __future__ import annotations

from typing import Any

import pytest
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
from gangsched.errors import InternalError
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.testing import make_node, make_pod


def apart(name: str, *, cpu: int = 1, **more: Any) -> Pod:
    """Return a pod that is not beside a pod of its own name; each has a class of its own."""
    term = PodAffinityTerm(topology_key="zone", label_selector=LabelSelector({"app": name}))
    pod = evolve(make_pod(name, cpu=cpu), labels={"app": name})
    return evolve(pod, pod_anti_affinity=[term], **more)


def scheduler_with(*pods: Pod) -> tuple[InMemoryCluster, Scheduler]:
    cluster = InMemoryCluster()
    for n in range(4):
        cluster.apply(NodeAdded(make_node(f"n{n}", cpu=4 + n, labels={"zone": f"z{n % 2}"})))
    scheduler = presets.gang(cluster)
    for pod in pods:
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    return cluster, scheduler


def class_of(scheduler: Scheduler, pod: Pod) -> PodClass:
    return scheduler._state.pods.members[pod.uid].pod_class


def test_classes_that_differ_in_terms_only_share_judgements() -> None:
    one, other = apart("one"), apart("other")
    _cluster, scheduler = scheduler_with(one, other)
    first, second = class_of(scheduler, one), class_of(scheduler, other)
    assert first is not second
    assert first.judgements is second.judgements
    scheduler._check()


@pytest.mark.parametrize(
    "unlike",
    [
        pytest.param(apart("other", cpu=2), id="requests"),
        pytest.param(apart("other", node_selector={"zone": "z1"}), id="node selector"),
        pytest.param(make_pod("other", cpu=1), id="no terms"),
    ],
)
def test_classes_that_differ_in_what_classes_of_nodes_are_asked_for_do_not_share(
    unlike: Pod,
) -> None:
    one = apart("one")
    _cluster, scheduler = scheduler_with(one, unlike)
    assert class_of(scheduler, one).judgements is not class_of(scheduler, unlike).judgements
    scheduler._check()


def test_shared_judgements_are_forgotten_with_the_last_class() -> None:
    pods = [apart("one"), apart("other")]
    cluster, scheduler = scheduler_with(*pods)
    assert len(scheduler._state.pod_classes.alike) == 1
    for left, pod in zip((1, 0), pods, strict=True):
        scheduler.handle(cluster.apply(PodDeleted(pod.uid)), now=0.0)
        scheduler._check()
        assert len(scheduler._state.pod_classes.alike) == left


def test_class_that_has_pending_pods_again_shares_once() -> None:
    one = apart("one")
    cluster, scheduler = scheduler_with(one)
    (bind,) = [e for e in scheduler.schedule_one(now=0.0) or () if isinstance(e, Bind)]
    bound = Bound(bind.uid, bind.node, bind.attempt)
    scheduler.handle(cluster.apply(bound), now=0.0)
    again = evolve(one, name="again", uid="again")
    scheduler.handle(cluster.apply(PodAdded(again)), now=0.0)
    assert class_of(scheduler, again) is class_of(scheduler, one)
    assert class_of(scheduler, again).judgements.sharing == 1
    scheduler._check()


def test_check_sees_a_miscounted_share() -> None:
    one = apart("one")
    _cluster, scheduler = scheduler_with(one)
    class_of(scheduler, one).judgements.sharing += 1
    with pytest.raises(InternalError, match="share the judgements"):
        scheduler._check()
