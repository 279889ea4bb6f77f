"""Checks and builders for the tests of others; free of any test runner.

Rules:
  R1  a check raises ``AssertionError`` with a sentence, or returns;
  R2  what is checked need not come from here: it only has to keep the contract.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Protocol, TypeVar, final

from attrs import evolve

from gangsched.events import (
    Bound,
    Event,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodUpdated,
)
from gangsched.model import Node, NodeName, Pod, PodGroup, PodPhase, PodUID, Resources
from gangsched.protocols import ClusterState

__all__ = ["FakeClock", "WritableClusterState", "check_cluster_state", "check_less", "make_pod"]

T = TypeVar("T")


@final
class FakeClock:
    """A clock that goes when it is told to: ``clock()`` is the instant, ``advance`` moves it."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """Return the current instant."""
        return self.now

    def advance(self, seconds: float) -> float:
        """Let time pass; return the new instant."""
        assert seconds >= 0, f"a clock never goes back, not by {seconds} s"
        self.now += seconds
        return self.now


def make_pod(
    name: str,
    *,
    group: str | None = None,
    min_available: int | None = None,
    role: str | None = None,
    cpu: str | int = 0,
    gpu: int = 0,
    requests: Mapping[str, str | int] | None = None,
    priority: int = 0,
    created_at: float = 0.0,
    uid: str | None = None,
) -> Pod:
    """Return a pod, in few words: ``make_pod("w-0", group="g", min_available=4, gpu=2)``."""
    labels: dict[str, str] = {}
    if group is not None:
        labels["pod-group.scheduling.sigs.k8s.io/name"] = group
    if min_available is not None:
        labels["pod-group.scheduling.sigs.k8s.io/min-available"] = str(min_available)
    if role is not None:
        labels["pod-group.scheduling.sigs.k8s.io/role"] = role
    asked = {"cpu": cpu, "nvidia.com/gpu": gpu, **(requests or {})}
    pod = Pod(
        name=name,
        labels=labels,
        requests=Resources(asked),
        priority=priority,
        created_at=created_at,
    )
    return pod if uid is None else evolve(pod, uid=PodUID(uid))


class WritableClusterState(ClusterState, Protocol):
    """A cluster state that facts can be told to."""

    def apply(self, event: Event) -> object:
        """Make a fact true."""
        ...


def check_cluster_state(make: Callable[[], WritableClusterState]) -> None:
    """Hold an implementation of the ``ClusterState`` port to its contract.

    Args:
        make: Makes a fresh, empty one.

    Raises:
        AssertionError: It breaks the contract; the sentence says where.
    """
    state = make()
    _expect("a fresh state has no nodes", [], list(state.nodes()))
    _expect("a fresh state has no pods", [], list(state.pods()))
    _expect("a node that is not there", None, state.node(NodeName("n")))
    _expect("a pod that is not there", None, state.pod(PodUID("p")))
    _expect("pods on a node that is not there", [], list(state.pods_on(NodeName("n"))))

    node = Node(name=NodeName("n"), allocatable={"cpu": 4})
    pod = make_pod("p", cpu=1)
    twin = evolve(pod, uid=PodUID("twin"))
    group = PodGroup(name="g", min_available=2)
    arrivals = (NodeAdded(node), PodAdded(pod), PodAdded(twin), PodGroupAdded(group))
    for arrival in arrivals:
        state.apply(arrival)
    _expect("the node", node, state.node(node.name))
    _expect("the nodes", [node], list(state.nodes()))
    _expect("the pods: one name, two UIDs", [pod, twin], list(state.pods()))
    _expect("the group", group, state.pod_group(group.key))
    _expect("the groups", [group], list(state.pod_groups()))
    _expect("an unassigned pod is on no node", [], list(state.pods_on(node.name)))

    state.apply(Bound(pod.uid, node.name, 1))
    bound = evolve(pod, node_name=node.name)
    _expect("a bound pod shows its node", bound, state.pod(pod.uid))
    _expect("a bound pod is on its node", [bound], list(state.pods_on(node.name)))
    _expect("its twin is not bound", twin, state.pod(twin.uid))
    state.apply(PodUpdated(evolve(bound, deleted_at=1.0)))
    _expect("a terminating pod holds its node", 1, len(list(state.pods_on(node.name))))
    state.apply(PodUpdated(evolve(bound, phase=PodPhase.SUCCEEDED)))
    _expect("a finished pod holds no node", [], list(state.pods_on(node.name)))

    smaller = evolve(node, allocatable=Resources({"cpu": 2}))
    state.apply(NodeUpdated(smaller))
    _expect("a changed node", smaller, state.node(node.name))
    for uid in (pod.uid, pod.uid, twin.uid):
        state.apply(PodDeleted(uid))
    _expect("no pods after they were deleted", [], list(state.pods()))
    state.apply(PodGroupDeleted(group.key))
    _expect("no group after it was deleted", None, state.pod_group(group.key))
    state.apply(NodeDeleted(node.name))
    _expect("no nodes after they were deleted", [], list(state.nodes()))


def check_less(less: Callable[[T, T], bool], items: Sequence[T]) -> None:
    """Hold a comparator to a strict total order over *items*. O(items ** 3).

    Raises:
        AssertionError: It is none; the sentence gives the smallest counter-example of its kind.
    """
    for a in items:
        assert not less(a, a), f"irreflexive: {a!r} goes before itself"
    for a, b in product(items, repeat=2):
        if a is not b:
            both = (less(a, b), less(b, a))
            assert both != (True, True), f"asymmetric: {a!r} and {b!r} go before each other"
            assert both != (False, False), f"total: neither of {a!r} and {b!r} goes first"
    for a, b, c in product(items, repeat=3):
        if less(a, b) and less(b, c):
            assert less(a, c), f"transitive: {a!r} before {b!r} before {c!r}, but not before it"


def _expect(what: str, expected: object, found: object) -> None:
    assert expected == found, f"{what}: expected {expected!r}, found {found!r}"
