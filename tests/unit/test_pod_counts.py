"""Counts of pods by domain agree with the pods on nodes, whenever they are asked for."""

from __future__ import annotations

from typing import Any, Final

import pytest
from attrs import define, evolve, field
from hypothesis import given
from hypothesis import strategies as st

from gangsched import LabelSelector, Pod, PodAffinityTerm
from gangsched.constraints.matchers import CarriedTerm, PodMatcher
from gangsched.cycle_state import pod_counts
from gangsched.cycle_state.pod_counts import KeptPodCounts
from gangsched.model import Node
from gangsched.plugins import InterPodAffinity
from gangsched.resources import NOTHING, FrozenMap
from gangsched.testing import make_node, make_pod

NODES: Final = 3
APPS: Final = ("a", "b")
TERM: Final = PodAffinityTerm(topology_key="zone", label_selector=LabelSelector({"app": "a"}))


@define
class Shown:
    """A node that shows the pods which were put on it."""

    node: Node
    on_it: dict[str, Pod] = field(factory=dict[str, Pod])
    free: dict[str, int] = field(factory=dict[str, int])
    pod_count: int = 0
    defaulted: FrozenMap[int] = NOTHING.defaulted

    @property
    def pods(self) -> Any:
        return self.on_it.values()


def carried(pod: Pod) -> tuple[CarriedTerm, ...]:
    return InterPodAffinity().pods_affected(pod)


@st.composite
def some_pods(draw: st.DrawFn) -> list[Pod]:
    made: list[Pod] = []
    for n in range(draw(st.integers(1, 6))):
        pod = evolve(make_pod(f"p{n}"), labels={"app": draw(st.sampled_from(APPS))})
        if draw(st.booleans()):
            pod = evolve(pod, pod_anti_affinity=[TERM])
        if draw(st.booleans()):
            pod = evolve(pod, deleted_at=1.0)
        made.append(pod)
    return made


class Cluster:
    def __init__(self) -> None:
        self.infos = {n: Shown(make_node(f"n{n}", labels={"zone": "xyx"[n]})) for n in range(NODES)}
        self.counts = KeptPodCounts(self.infos, carried)
        self.where: dict[str, int] = {}

    def toggle(self, pod: Pod, index: int, *, knows_terms: bool) -> None:
        """Put a pod on a node, or take it off the node on which it is."""
        at = self.where.pop(pod.uid, None)
        if at is not None:
            self.counts.take(self.infos[at].on_it.pop(pod.uid), at)
            return
        self.where[pod.uid] = index
        self.infos[index].on_it[pod.uid] = pod
        self.counts.put(pod, index, carried(pod) if knows_terms else None)

    def ask(self, app: str, *, live_only: bool) -> None:
        """Compare a count with the pods that the nodes show."""
        matcher = PodMatcher(
            LabelSelector({"app": app}), frozenset({"default"}), live_only=live_only
        )
        found = self.counts.matching(matcher, "zone")
        expected = {"x": 0, "y": 0}
        for info in self.infos.values():
            for pod in info.pods:
                if pod.labels["app"] == app and not (live_only and pod.deleted_at is not None):
                    expected[info.node.labels["zone"]] += 1
        assert {zone: found.get(zone) for zone in expected} == expected
        assert found.total == sum(expected.values())
        assert found.least == min(expected.values())


@pytest.mark.parametrize("remembered", [0, 2, 4096])
@given(some_pods(), st.data())
def test_counts_agree_with_the_pods_on_nodes(
    remembered: int, pods: list[Pod], data: st.DataObject
) -> None:
    moves = st.tuples(st.sampled_from(pods), st.integers(0, NODES - 1), st.booleans())
    asks = st.tuples(st.sampled_from(APPS), st.booleans())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pod_counts, "_MOST_REMEMBERED", remembered)
        cluster = Cluster()
        for step in data.draw(st.lists(moves | asks, max_size=25)):
            if len(step) == 3:
                pod, index, knows_terms = step
                cluster.toggle(pod, index, knows_terms=knows_terms)
            else:
                app, live_only = step
                cluster.ask(app, live_only=live_only)
            if data.draw(st.booleans()):
                cluster.counts._check()
        cluster.counts._check()
