"""Affinity, spreading and host ports against an oracle that scans all pods for each node.

The oracle is written from the documentation of Kubernetes; see ``support.kube_rules``. Clusters are
small, so that all ways to place a gang can be tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    Effect,
    GroupKey,
    InMemoryCluster,
    NodeAdded,
    NodeName,
    PodAdded,
    PodUID,
    PodUnschedulable,
    Scheduler,
    SchedulingUnit,
    presets,
)
from gangsched.cluster_objects import Namespace
from gangsched.events import ObjectChanged
from gangsched.explain import SearchBudgetExhausted, UnschedulableMember
from support.constrained_worlds import NAMESPACES, World, gangs_of_few_kinds, why, worlds
from support.settled import settle

pytestmark = pytest.mark.once("says itself which unit it is about")


def run(
    world: World, unit: SchedulingUnit
) -> tuple[dict[PodUID, NodeName], list[Effect], Scheduler]:
    """Schedule a world; return the nodes that pods were bound to, and all effects."""
    cluster = InMemoryCluster()
    for name, labels in NAMESPACES.items():
        cluster.apply(ObjectChanged(Namespace(name=name, labels=labels)))
    for node in world.nodes:
        cluster.apply(NodeAdded(node))
    for pod, node in world.running:
        cluster.apply(PodAdded(evolve(pod, node_name=node.name)))
    scheduler = presets.coscheduling(cluster, unit=unit, permit_timeout=1.0)
    seen = list(scheduler.rebuild(now=0.0))
    for pod in world.pending:
        seen += scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
        if not pod.labels.get("pod-group.scheduling.sigs.k8s.io/name"):
            seen += settle(cluster, scheduler, most=200)
    seen += settle(cluster, scheduler, most=200)
    scheduler._check()
    bound = {effect.uid: effect.node for effect in seen if isinstance(effect, Bind)}
    return bound, seen, scheduler


def said(reasons: Sequence[str], count: int) -> str:
    """Return a diagnosis as kube-scheduler words it."""
    counted = ", ".join(f"{n} {reason}" for reason, n in sorted(Counter(reasons).items()))
    return f"0/{count} nodes are available: {counted}."


@given(worlds(gang=False))
def test_single_pod_goes_where_every_constraint_holds(world: World) -> None:
    bound, seen, _scheduler = run(world, SchedulingUnit.POD)
    by_name = {node.name: node for node in world.nodes}
    placed = list(world.running)
    told = {e.uid: e.reason for e in reversed(seen) if isinstance(e, PodUnschedulable)}
    for pod in world.pending:
        refused = {node.name: why(world, placed, pod, node) for node in world.nodes}
        if pod.uid in bound and pod.uid not in told:
            assert refused[bound[pod.uid]] is None
            placed.append((pod, by_name[bound[pod.uid]]))
        elif pod.uid not in bound:
            reasons = [reason for reason in refused.values() if reason is not None]
            assert len(reasons) == len(world.nodes)
            assert told[pod.uid] == said(reasons, len(world.nodes))
        else:  # it was refused first, and accepted beside a later pod
            return


@given(worlds(gang=True) | gangs_of_few_kinds(), st.sampled_from(SchedulingUnit))
def test_gang_starts_where_every_constraint_among_its_members_holds(
    world: World, unit: SchedulingUnit
) -> None:
    """And a whole gang starts if any order of its members can be placed."""
    bound, _seen, scheduler = run(world, unit)
    if bound:
        by_name = {node.name: node for node in world.nodes}
        assert set(bound) == {pod.uid for pod in world.pending}
        placed = [(pod, by_name[bound[pod.uid]]) for pod in world.pending]
        assert world.holds(placed, world.running), bound
    elif unit is SchedulingUnit.GROUP and world.can_place(world.pending, world.running):
        found = getattr(scheduler.why(GroupKey("one/g")), "unschedulable_member", None)
        assert isinstance(found, UnschedulableMember)
        assert isinstance(found.proof, SearchBudgetExhausted), found
