"""Members of one pod class with unlike labels: a gang starts in whatever order they came.

Most members have no constraint, so only their labels tell them apart; one or two depend on siblings
or on nodes by name. Nodes have barely room. So most gangs that can start need a certain choice.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    GroupKey,
    LabelSelector,
    Node,
    NodeAdded,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAdded,
    PodAffinityTerm,
    TopologySpreadConstraint,
    presets,
)
from gangsched.events import Bind
from gangsched.explain import SearchBudgetExhausted
from gangsched.options import PlacementStrategy
from support.constrained_worlds import HOST, ZONE, World
from support.immediate_host import ImmediateHost

pytestmark = pytest.mark.once("is about whole gangs")

_APPS = st.sampled_from(["x", "y"])
_ABOUT = _APPS.map(lambda app: LabelSelector({"app": app}))
_KEYS = st.sampled_from([HOST, HOST, ZONE])
_TERMS = st.builds(PodAffinityTerm, topology_key=_KEYS, label_selector=_ABOUT)
_SPREADS = st.builds(
    TopologySpreadConstraint, max_skew=st.just(1), topology_key=_KEYS, label_selector=_ABOUT
)


_SIZES = [(3, (1, 2)), (3, (2, 1)), (3, (1, 1, 2)), (3, (2, 1, 1)), (4, (1, 3)), (2, (1, 1, 2))]
"""Numbers of members, and of the pods that each node takes."""


def _named(operator: str, name: str) -> tuple[NodeSelectorTerm, ...]:
    return (NodeSelectorTerm((), [NodeSelectorRequirement("metadata.name", operator, [name])]),)


_NAMED = st.builds(_named, st.sampled_from(["In", "NotIn"]), st.sampled_from(["n0", "n1", "n2"]))


@st.composite
def _constrained(draw: st.DrawFn) -> dict[str, Any]:
    found: dict[str, Any] = {}
    families = draw(st.lists(st.sampled_from("aaans"), min_size=1, max_size=2))
    if "a" in families:
        found["pod_affinity"] = [draw(_TERMS)]
    if "n" in families:
        found["affinity"] = draw(_NAMED)
    if "s" in families:
        found["topology_spread_constraints"] = [draw(_SPREADS)]
    return found


@st.composite
def _gangs(draw: st.DrawFn) -> World:
    count, sizes = draw(st.sampled_from(_SIZES))
    nodes = tuple(
        Node(
            name=f"n{n}",
            allocatable={"pods": size},
            labels={HOST: f"n{n}", ZONE: draw(st.sampled_from(["a", "b"]))},
        )
        for n, size in enumerate(sizes)
    )
    plain: list[dict[str, Any]] = [{}] * (count - 1)
    kinds = draw(st.permutations([*plain, draw(_constrained())]))
    pending = tuple(
        Pod(
            name=f"p{n}",
            namespace="one",
            labels={"app": draw(_APPS)},
            pod_group="g",
            min_available=count,
            **kind,
        )
        for n, kind in enumerate(kinds)
    )
    return World(nodes, (), pending)


@given(_gangs(), st.sampled_from(PlacementStrategy))
def test_gang_starts_wherever_its_members_fit_in_some_order(
    world: World, placement: PlacementStrategy
) -> None:
    host = ImmediateHost()
    host.scheduler = presets.gang(host.cluster, placement=placement)
    for node in world.nodes:
        host.tell(NodeAdded(node))
    for pod in world.pending:
        host.tell(PodAdded(pod))
    host.decide()
    bound = [effect for effect in host.effects if isinstance(effect, Bind)]
    assert len(bound) in (0, len(world.pending))
    if bool(bound) != world.can_place(world.pending, ()):
        found = getattr(host.scheduler.why(GroupKey("one/g")), "unschedulable_member", None)
        assert isinstance(getattr(found, "proof", None), SearchBudgetExhausted), (found, bound)
