"""Copies of pods are equal to what the constructor makes."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st

from gangsched import Pod
from gangsched.kubernetes._copies import in_phase, on_node
from gangsched.model import NodeName, PodPhase
from gangsched.strategies import pods


@given(pods(), st.sampled_from(["n1", "n2"]), st.sampled_from(list(PodPhase)))
def test_copy_equals_the_evolved_pod_and_leaves_the_pod_as_it_is(
    pod: Pod, node: str, phase: PodPhase
) -> None:
    before = attrs.asdict(pod, recurse=False)
    assert on_node(pod, NodeName(node)) == attrs.evolve(pod, node_name=node)
    assert in_phase(pod, phase) == attrs.evolve(pod, phase=phase)
    assert attrs.asdict(pod, recurse=False) == before
