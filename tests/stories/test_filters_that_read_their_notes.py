"""A plugin of one's own, whose ``filter`` reads what its ``reserve`` noted: never two on a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    NodeAdded,
    NodeName,
    Outcome,
    Pod,
    PodGroup,
    PodGroupAdded,
    PodUID,
    Preemption,
    Topology,
    Unschedulable,
    group_key,
)
from gangsched.outcomes import SUCCESS
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import make_node
from support.examples import one_in
from support.story import Story
from support.story_presets import GANG_PRESETS, WAITING_PRESETS, Preset, each_of


@define
class Apart:
    """One pod a node, by notes of its own."""

    name: str = "Apart"
    notes: dict[PodUID, NodeName] = field(factory=dict)

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        is_free = node.node.name not in self.notes.values()
        return SUCCESS if is_free else Unschedulable("node(s) had another pod")

    def reserve(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        self.notes[pod.uid] = node
        return SUCCESS

    def unreserve(
        self, state: CycleView, pod: Pod, node: NodeName, *, cause: str, now: float
    ) -> None:
        self.notes.pop(pod.uid, None)


def story_of(preset: Preset, **how: Any) -> Story:
    return Story(lambda cluster: preset(cluster, plugins=[Apart()], **how))


@each_of(WAITING_PRESETS)
def test_gang_that_waited_on_permit_in_vain_starts_apart(preset: Preset) -> None:
    """After the timeout it is tried as a whole."""
    story = story_of(preset)
    story.tell(NodeAdded(make_node("a", cpu=8)))
    story.gang("g", 2)
    story.run(until=100)
    assert story.bound == {}
    story.tell(NodeAdded(make_node("b", cpu=8)))
    story.run(until=200)
    assert story.bound == {"g-0": "a", "g-1": "b"}


@each_of(GANG_PRESETS)
@one_in(4, at_least=12)
@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=4),
    st.lists(st.sampled_from("abc"), min_size=1, max_size=5),
    st.sampled_from(["alone", "in one rack", "as a bundle"]),
    st.booleans(),
)
def test_no_path_puts_two_pods_on_a_node(
    preset: Preset, sizes: Sequence[int], racks: Sequence[str], how: str, preempts: bool
) -> None:
    story = story_of(preset, preemption=Preemption() if preempts else None)
    keys = tuple(group_key("default", f"g{number}") for number in range(len(sizes)))
    is_bundle = how == "as a bundle" and len(keys) > 1
    for number, size in enumerate(sizes):
        topology = Topology("rack", required=True) if how == "in one rack" else None
        bundle = keys if is_bundle else ()
        name = f"g{number}"
        story.tell(
            PodGroupAdded(PodGroup(name=name, min_available=size, topology=topology, bundle=bundle))
        )
        story.gang(name, size + number % 2, min_available=None, priority=number)
    for number, rack in enumerate(racks):
        story.tell(NodeAdded(make_node(f"n{number}", cpu=2, labels={"rack": rack})))
        story.run(until=story.now + 100)
    nodes = [*story.bound.values()]
    assert len(nodes) == len({*nodes})
