"""Copies of pods and nodes that are made without validation: equal to those that are validated."""

from __future__ import annotations

from attrs import asdict, evolve, fields
from hypothesis import given
from hypothesis import strategies as st

from gangsched import InMemoryCluster, Node, Pod, PodAdded, strategies
from gangsched.events import Bound
from gangsched.model import NodeName, PodPhase
from gangsched.model._pod_copy import pod_with_fields


@given(strategies.pods(), st.sampled_from(list(PodPhase)))
def test_copy_of_a_pod_is_equal_to_the_pod_that_evolve_makes(pod: Pod, phase: PodPhase) -> None:
    before = asdict(pod, recurse=False)
    assert pod_with_fields(pod, phase=phase) == evolve(pod, phase=phase)
    copy = pod_with_fields(pod, node_name="n")
    assert copy == evolve(pod, node_name="n")
    assert asdict(pod, recurse=False) == before
    assert hash(copy) == hash(evolve(pod, node_name="n"))
    assert all(hasattr(copy, each.name) for each in fields(Pod))
    assert pod.node_name != "n" or copy == pod


def test_bound_pod_in_memory_differs_in_its_node_only() -> None:
    cluster = InMemoryCluster()
    pod = Pod(name="p", requests={"cpu": 1}, labels={"a": "b"})
    cluster.apply(PodAdded(pod))
    cluster.apply(Bound(pod.uid, NodeName("n"), 1))
    assert cluster.pod(pod.uid) == evolve(pod, node_name="n")
    assert [each.uid for each in cluster.pods_on("n")] == [pod.uid]
    assert Node(name="n").name == "n"
