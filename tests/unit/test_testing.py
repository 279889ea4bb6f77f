"""The checks for others pass what is right and find what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import InMemoryCluster, Pod, QueuedPod, less
from gangsched.events import Bound, NodeDeleted, PodDeleted, PodGroupUpdated
from gangsched.model import PodUID
from gangsched.outcomes import SKIP, SUCCESS, Skip, Unschedulable
from gangsched.testing import (
    FakeClock,
    assert_effects,
    check_cluster_state,
    check_less,
    make_group,
    make_node,
    make_pod,
)


def test_the_in_memory_cluster_keeps_the_contract() -> None:
    check_cluster_state(InMemoryCluster)


class _ForgetsDeletions(InMemoryCluster):
    def apply(self, event: Any) -> Any:
        return event if isinstance(event, PodDeleted) else super().apply(event)


class _KeepsFinishedPods(InMemoryCluster):
    def pods_on(self, node: str) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods() if pod.node_name == node)


class _BindsByName(InMemoryCluster):
    def apply(self, event: Any) -> Any:
        if isinstance(event, Bound):
            name = next(pod.name for pod in self.pods() if pod.uid == event.uid)
            for pod in self.pods():
                if pod.name == name:
                    super().apply(evolve(event, uid=pod.uid))
            return event
        return super().apply(event)


class _ShufflesPods(InMemoryCluster):
    made = 0

    def __init__(self) -> None:
        super().__init__()
        _ShufflesPods.made += 1
        self.backwards = _ShufflesPods.made % 2 == 0

    def pods(self) -> tuple[Pod, ...]:
        pods = tuple(super().pods())
        return pods[::-1] if self.backwards and len(pods) == 3 else pods


class _ForgetsChanges(InMemoryCluster):
    def apply(self, event: Any) -> Any:
        return event if isinstance(event, PodGroupUpdated) else super().apply(event)


class _DropsPodsWithNodes(InMemoryCluster):
    def apply(self, event: Any) -> Any:
        if isinstance(event, NodeDeleted):
            for pod in self.pods_on(event.name):
                super().apply(PodDeleted(pod.uid))
        return super().apply(event)


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (_ShufflesPods, "the pods, by one history"),
        (_ForgetsChanges, "a changed group"),
        (_DropsPodsWithNodes, "the pods of a node that is deleted are there"),
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
def test_a_comparator_that_is_no_strict_total_order_is_found(wrong: Any, word: str) -> None:
    with pytest.raises(AssertionError, match=word):
        check_less(wrong, [0, 1, 2])


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


# Groups and re-keying: an item is (time of its group, group, number) --------------------------

Item = tuple[int, str, int]
ITEMS: list[Item] = [(1, "a", 1), (1, "a", 2), (1, "b", 3), (1, "b", 4), (2, "", 5)]


def _group(item: Item) -> str | None:
    return item[1] or None


def _later(item: Item) -> Item:
    return (9, item[1], item[2])


def test_an_order_by_time_then_group_passes_with_groups_and_rekeying() -> None:
    check_less(lambda a, b: a < b, ITEMS, group_of=_group, rekey=_later)


def test_an_order_that_interleaves_is_found() -> None:
    with pytest.raises(AssertionError, match=r"contiguous: .* which are of one group"):
        check_less(lambda a, b: (a[2] % 2, a) < (b[2] % 2, b), ITEMS, group_of=_group)


def test_an_order_that_interleaves_only_when_a_group_was_rekeyed_is_found() -> None:
    def less(a: Item, b: Item) -> bool:
        keys = [(item[0], item[2] if item[0] == 9 else 0, item) for item in (a, b)]
        return keys[0] < keys[1]

    items: list[Item] = [(9, "b", 3), (1, "a", 1), (1, "a", 4)]
    check_less(less, items, group_of=_group)
    with pytest.raises(AssertionError, match=r"contiguous"):
        check_less(less, items, group_of=_group, rekey=_later)


def test_a_key_that_changes_while_it_is_queued_is_found() -> None:
    failed: dict[str, int] = {}

    def less(a: Item, b: Item) -> bool:
        return (failed.get(a[1], 0), a) < (failed.get(b[1], 0), b)

    def fail(item: Item) -> Item:
        failed[item[1]] = 9
        return item

    with pytest.raises(AssertionError, match=r"frozen: .* what is still queued changes places"):
        check_less(less, ITEMS, group_of=_group, rekey=fail)


def test_others_that_change_places_when_a_group_is_rekeyed_are_found() -> None:
    seen: list[Item] = []

    def less(a: Item, b: Item) -> bool:
        seen.extend(item for item in (a, b) if item[0] == 9)
        return a > b if seen else a < b

    with pytest.raises(AssertionError, match=r"stable: .* others change places"):
        check_less(less, ITEMS, group_of=_group, rekey=_later)


# Effects --------------------------------------------------------------------------------------


def test_effects_that_are_as_expected_pass() -> None:
    found = (SUCCESS, SKIP, Unschedulable("no"))
    assert_effects(found, SUCCESS, Skip, Unschedulable("no"))
    assert_effects(found, SUCCESS, Unschedulable, exact=False)
    assert_effects(())


@pytest.mark.parametrize(
    ("expected", "exact", "sentence"),
    [
        ((SKIP,), True, r"expected Skip\(\) as number 1, found Success\(\)"),
        ((SUCCESS,), True, r"expected no more than 1, found Skip\(\)"),
        ((SUCCESS, SKIP, Skip), True, "expected a Skip as number 3, found no more"),
        ((SKIP, SUCCESS), False, r"expected Success\(\) as number 2, found no more"),
    ],
)
def test_effects_that_are_not_are_told_by_their_place(
    expected: tuple[object, ...], exact: bool, sentence: str
) -> None:
    with pytest.raises(AssertionError, match=sentence):
        assert_effects((SUCCESS, SKIP), *expected, exact=exact)


def test_a_node_and_a_group_are_made_in_few_words() -> None:
    node = make_node("n", cpu=8, gpu=4, labels={"zone": "a"})
    assert (node.allocatable.quantity("nvidia.com/gpu"), node.labels["zone"]) == ("4", "a")
    assert make_group("g", 4).min_available == 4
    assert make_group("g", roles={"ps": 1, "worker": 2}).min_available == 3
