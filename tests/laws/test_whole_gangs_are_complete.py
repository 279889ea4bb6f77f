"""Whole gangs: one starts exactly where some placement exists, and what is said of it is true."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    ClusterState,
    Coscheduling,
    GroupKey,
    PlacementStrategy,
    Pod,
    Profile,
    Scheduler,
    SchedulingUnit,
    Success,
)
from gangsched.explain import SearchBudgetExhausted, Shortage
from gangsched.plugins import (
    DefaultBinder,
    NodeAffinity,
    NodeResources,
    NodeUnschedulable,
    TaintToleration,
)
from support.examples import one_in
from support.gangs import GPU, gang_driver, node, place, specify, unschedulable, where
from support.small_clusters import MemberKind, NodeKind, SmallCluster, small_clusters

pytestmark = pytest.mark.once("says itself which unit it is about")

layouts = st.sampled_from(PlacementStrategy)
PARTED = SmallCluster(
    (NodeKind(4), NodeKind(8)),
    (MemberKind(2, cpu=2), MemberKind(1, cpu=4), MemberKind(1, cpu=4)),
    4,
)
"""The first two fit beside each other on either node; but then one of four has no place."""


def what_is_said_is_true(small: SmallCluster, proof: object) -> None:
    """Hold a proof against every way there is."""
    assert isinstance(proof, Shortage)
    most = small.most()
    assert (proof.needed, proof.role, proof.within) == (small.needed, "", "")
    assert proof.fits == most if proof.exact else most <= proof.fits < proof.needed
    helps = [name for name in ("cpu", GPU) if small.without_bound(name).possible()]
    assert proof.resource in helps if helps else proof.resource is None


@one_in(2)
@given(small_clusters(), layouts)
def test_gang_starts_exactly_where_some_placement_exists(
    small: SmallCluster, placement: PlacementStrategy
) -> None:
    """Law 1, for unlike members, with taints, selectors, cordons and a most of pods."""
    driver = gang_driver(*small.nodes, placement=placement)
    placed = place(driver, *small.pods)
    assert bool(placed) is small.possible()
    if placed:
        assert len(placed) >= small.needed
        assert small.could_join(placed) == [], "who is not needed has what room is left"
    else:
        what_is_said_is_true(small, unschedulable(driver, "g").proof)


@one_in(2)
@given(small_clusters(), st.lists(st.sampled_from(["ps", "worker"]), min_size=3, max_size=3))
def test_result_is_the_same_when_roles_are_required(small: SmallCluster, roles: list[str]) -> None:
    """As many servers as there can be beside the others, or one more."""
    sorts = tuple(evolve(s, role=r) for s, r in zip(small.sorts, roles, strict=False))
    servers = min(sum(s.count for s in sorts if s.role == "ps"), small.needed)
    for count in range(servers + 1):
        wanted = evolve(small, sorts=sorts, roles=(("ps", count),) if count else ())
        spec = specify("g", small.needed, roles=dict(wanted.roles))
        driver = gang_driver(*wanted.nodes)
        placed = place(driver, *wanted.pods, spec=spec)
        assert bool(placed) is wanted.possible()
        wanted.replay(placed)


class ByPod:
    """Says nothing about what it reads of pods or of nodes."""

    name = "ByPod"

    def filter(self, _state: object, _pod: Pod, _node: object) -> Success:
        """Refuse no pod."""
        return Success()


class ByNode(ByPod):
    """Says what it reads of pods, and nothing of nodes."""

    def pod_signature(self, _pod: Pod) -> str:
        """Depends on nothing."""
        return ""


@pytest.mark.parametrize("plugin", [ByPod(), ByNode()], ids=["pods", "nodes"])
@one_in(2)
@given(small=small_clusters())
def test_result_is_the_same_when_a_plugin_has_no_signature(
    plugin: object, small: SmallCluster
) -> None:
    def make(cluster: ClusterState) -> Scheduler:
        filters = (NodeUnschedulable(), TaintToleration(), NodeAffinity(), NodeResources())
        profile = Profile(Coscheduling(), plugin, *filters, DefaultBinder())
        return Scheduler(cluster, profile, unit=SchedulingUnit.GROUP)

    driver = gang_driver(*small.nodes, make=make)
    placed = place(driver, *small.pods)
    assert bool(placed) is small.possible()
    small.replay(placed)


@one_in(2)
@given(small_clusters(), st.sampled_from([0, 1, 3, 10, 40]))
def test_report_is_true_for_any_budget(small: SmallCluster, budget: int) -> None:
    """A placement fits, a proof is one, and what was not decided is said to be so."""
    driver = gang_driver(*small.nodes, search_budget=budget)
    placed = place(driver, *small.pods)
    small.replay(placed)
    if placed:
        assert len(placed) >= small.needed
        return
    proof = unschedulable(driver, "g").proof
    if isinstance(proof, SearchBudgetExhausted):
        assert (proof.needed, proof.placed <= small.most()) == (small.needed, True)
        assert proof.steps <= budget
    else:
        assert isinstance(proof, Shortage)
        assert small.most() <= proof.fits < proof.needed


HARD = SmallCluster(
    (NodeKind(8), NodeKind(12), NodeKind(10)),
    (MemberKind(2, cpu=6), MemberKind(2, cpu=3), MemberKind(1, cpu=5), MemberKind(1, cpu=7)),
    6,
)
"""It fits to the last processor, in few of many ways."""


def test_undecidable_step_is_reported() -> None:
    driver = gang_driver(*HARD.nodes, search_budget=0)
    assert place(driver, *HARD.pods) == {}
    proof = unschedulable(driver, "g").proof
    assert isinstance(proof, SearchBudgetExhausted)
    assert (proof.needed, proof.steps) == (6, 0)
    assert str(proof) in str(driver.scheduler.why(GroupKey("default/g")))
    driver.tell(node("wide", 30))
    driver.settle()
    assert len(where(driver)) == 6


@pytest.mark.parametrize("placement", list(PlacementStrategy))
def test_placement_that_greed_misses_is_found_in_every_layout(
    placement: PlacementStrategy,
) -> None:
    assert PARTED.possible()
    assert len(place(gang_driver(*PARTED.nodes, placement=placement), *PARTED.pods)) == 4


def test_gang_of_which_no_member_fits_is_reported_with_its_nodes() -> None:
    small = SmallCluster((NodeKind(1), NodeKind(9, tainted=True)), (MemberKind(2, cpu=4),), 2)
    driver = gang_driver(*small.nodes)
    assert place(driver, *small.pods) == {}
    found = unschedulable(driver, "g")
    taint = "node(s) had untolerated taint(s)"
    assert found.reason == f"0/2 nodes are available: 1 Insufficient cpu, 1 {taint}."
    assert isinstance(found.proof, Shortage)
    assert (found.proof.fits, found.proof.needed) == (0, 2)


def test_fragmented_capacity_is_reported_as_such() -> None:
    small = SmallCluster((NodeKind(3), NodeKind(3)), (MemberKind(3, cpu=2),), 3)
    driver = gang_driver(*small.nodes)
    assert place(driver, *small.pods) == {}
    assert unschedulable(driver, "g").reason == (
        "at most 2 of 3 members fit: cpu is free in pieces too small"
    )
