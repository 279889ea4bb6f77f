"""The checks for others pass what is right and find what is wrong."""

from __future__ import annotations

import pytest
from attrs import evolve

from gangsched import InMemoryCluster, Pod, QueuedPod, less
from gangsched.events import Bound, Event, PodDeleted
from gangsched.model import NodeName, PodUID
from gangsched.testing import FakeClock, check_cluster_state, check_less, make_pod


def test_the_in_memory_cluster_keeps_the_contract() -> None:
    check_cluster_state(InMemoryCluster)


class _ForgetsDeletions(InMemoryCluster):
    def apply(self, event: Event) -> Event:  # type: ignore[override]
        return event if isinstance(event, PodDeleted) else super().apply(event)


class _KeepsFinishedPods(InMemoryCluster):
    def pods_on(self, node: NodeName) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods() if pod.node_name == node)


class _BindsByName(InMemoryCluster):
    def apply(self, event: Event) -> Event:  # type: ignore[override]
        if isinstance(event, Bound):
            name = next(pod.name for pod in self.pods() if pod.uid == event.uid)
            for pod in self.pods():
                if pod.name == name:
                    super().apply(evolve(event, uid=pod.uid))
            return event
        return super().apply(event)


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (_ForgetsDeletions, "no pods after they were deleted"),
        (_KeepsFinishedPods, "a finished pod holds no node"),
        (_BindsByName, "its twin is not bound|a bound pod is on its node"),
    ],
)
def test_a_cluster_state_that_breaks_the_contract_is_found(
    broken: type[InMemoryCluster], sentence: str
) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_cluster_state(broken)


def test_the_published_order_passes() -> None:
    pods = [QueuedPod(pod=make_pod(f"p-{n}"), seq=n, queued_at=0.0) for n in range(5)]
    check_less(less, pods)


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        (lambda a, b: a <= b, "irreflexive"),
        (lambda a, b: a != b, "asymmetric"),
        (lambda a, b: a // 2 < b // 2, "total"),
        (lambda a, b: (a - b) % 3 == 1, "transitive"),
    ],
)
def test_a_comparator_that_is_no_strict_total_order_is_found(wrong: object, word: str) -> None:
    with pytest.raises(AssertionError, match=word):
        check_less(wrong, [0, 1, 2])  # type: ignore[arg-type]


def test_a_fake_clock_goes_forward_only() -> None:
    clock = FakeClock(5.0)
    assert clock.advance(2.5) == 7.5
    assert clock() == 7.5
    with pytest.raises(AssertionError):
        clock.advance(-1)


def test_a_pod_is_made_in_few_words() -> None:
    pod = make_pod("w-0", group="g", min_available=4, gpu=2, uid="u")
    assert pod.uid == PodUID("u")
    assert pod.requests.quantity("nvidia.com/gpu") == "2"
    assert pod.labels["pod-group.scheduling.sigs.k8s.io/min-available"] == "4"
