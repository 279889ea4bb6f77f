"""A pod whose bind failed is not counted on its node any more, and its constraints end there."""

from __future__ import annotations

from attrs import evolve

from gangsched import (
    Bind,
    BindFailed,
    InMemoryCluster,
    LabelSelector,
    NodeAdded,
    PodAdded,
    PodAffinityTerm,
    PodDeleted,
    presets,
)
from gangsched.testing import make_node, make_pod

HOST = "kubernetes.io/hostname"
APART = PodAffinityTerm(topology_key=HOST, label_selector=LabelSelector({"app": "a"}))


def test_anti_affinity_of_a_pod_whose_bind_failed_keeps_no_other_pod_away() -> None:
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(evolve(make_node("n", cpu=4), labels={HOST: "n"})))
    carrying = evolve(make_pod("carrying", cpu=1), pod_anti_affinity=(APART,))
    also = evolve(make_pod("also", cpu=9), pod_anti_affinity=(APART,))
    other = evolve(make_pod("other", cpu=1), labels={"app": "a"})
    cluster.apply(PodAdded(carrying))
    scheduler = presets.kube_default(cluster)
    scheduler.rebuild(now=0.0)
    (bind,) = [e for e in scheduler.schedule_one(now=0.0) or () if isinstance(e, Bind)]
    scheduler.handle(cluster.apply(PodAdded(also)), now=0.0)  # so that pods stay counted
    scheduler.handle(BindFailed(bind.uid, bind.attempt, "refused"), now=1.0)
    scheduler.handle(cluster.apply(PodDeleted(carrying.uid)), now=2.0)
    scheduler.handle(cluster.apply(PodAdded(other)), now=3.0)
    scheduler._check()
    bound = []
    while (effects := scheduler.schedule_one(now=3.0)) is not None:
        bound += [effect.uid for effect in effects if isinstance(effect, Bind)]
    assert bound == [other.uid]
