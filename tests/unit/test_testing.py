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


def test_in_memory_cluster_passes_check_cluster_state() -> None:
    check_cluster_state(InMemoryCluster)


def without(kind: type[Any]) -> type[InMemoryCluster]:
    """Return a class of clusters that take no notice of a kind of events."""

    def apply(self: InMemoryCluster, event: Any) -> Any:
        return event if isinstance(event, kind) else InMemoryCluster.apply(self, event)

    return type("Without", (InMemoryCluster,), {"apply": apply})


class KeepsFinishedPods(InMemoryCluster):
    def pods_on(self, node: str) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods() if pod.node_name == node)


class BindsByName(InMemoryCluster):
    def apply(self, event: Any) -> Any:
        if isinstance(event, Bound):
            name = next(pod.name for pod in self.pods() if pod.uid == event.uid)
            for pod in self.pods():
                if pod.name == name:
                    super().apply(evolve(event, uid=pod.uid))
            return event
        return super().apply(event)


class ShufflesPods(InMemoryCluster):
    made = 0

    def __init__(self) -> None:
        super().__init__()
        ShufflesPods.made += 1
        self.backwards = ShufflesPods.made % 2 == 0

    def pods(self) -> tuple[Pod, ...]:
        pods = tuple(super().pods())
        return pods[::-1] if self.backwards and len(pods) == 3 else pods


class DropsPodsWithNodes(InMemoryCluster):
    def apply(self, event: Any) -> Any:
        if isinstance(event, NodeDeleted):
            for pod in self.pods_on(event.name):
                super().apply(PodDeleted(pod.uid))
        return super().apply(event)


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (ShufflesPods, "the pods, after the same events"),
        (without(PodGroupUpdated), "a changed group"),
        (DropsPodsWithNodes, "the pods of a deleted node exist"),
        (without(PodDeleted), "no pods after they were deleted"),
        (KeepsFinishedPods, "a finished pod is on no node"),
        (BindsByName, "its twin is not bound|a bound pod is on its node"),
    ],
)
def test_check_cluster_state_finds_broken_implementations(
    broken: type[InMemoryCluster], sentence: str
) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_cluster_state(broken)


def test_less_passes_check_less() -> None:
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
def test_check_less_finds_what_is_no_strict_total_order(wrong: Any, word: str) -> None:
    with pytest.raises(AssertionError, match=word):
        check_less(wrong, [0, 1, 2])


def test_fake_clock_refuses_to_go_back() -> None:
    clock = FakeClock(5.0)
    assert clock.advance(2.5) == 7.5
    assert clock() == 7.5
    with pytest.raises(AssertionError):
        clock.advance(-1)


def test_make_pod_fills_labels_and_requests() -> None:
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


def test_order_by_time_then_group_passes_check_less() -> None:
    check_less(lambda a, b: a < b, ITEMS, group_of=_group, rekey=_later)


def test_check_less_finds_interleaved_groups() -> None:
    with pytest.raises(AssertionError, match=r"contiguous: .* of one group"):
        check_less(lambda a, b: (a[2] % 2, a) < (b[2] % 2, b), ITEMS, group_of=_group)


def test_check_less_finds_groups_interleaved_by_rekey() -> None:
    def less(a: Item, b: Item) -> bool:
        keys = [(item[0], item[2] if item[0] == 9 else 0, item) for item in (a, b)]
        return keys[0] < keys[1]

    items: list[Item] = [(9, "b", 3), (1, "a", 1), (1, "a", 4)]
    check_less(less, items, group_of=_group)
    with pytest.raises(AssertionError, match=r"contiguous"):
        check_less(less, items, group_of=_group, rekey=_later)


def test_check_less_finds_a_key_that_changes_while_queued() -> None:
    failed: dict[str, int] = {}

    def less(a: Item, b: Item) -> bool:
        return (failed.get(a[1], 0), a) < (failed.get(b[1], 0), b)

    def fail(item: Item) -> Item:
        failed[item[1]] = 9
        return item

    with pytest.raises(AssertionError, match=r"frozen: .* queued items change places"):
        check_less(less, ITEMS, group_of=_group, rekey=fail)


def test_check_less_finds_other_items_moved_by_rekey() -> None:
    seen: list[Item] = []

    def less(a: Item, b: Item) -> bool:
        seen.extend(item for item in (a, b) if item[0] == 9)
        return a > b if seen else a < b

    with pytest.raises(AssertionError, match=r"stable: .* other items change places"):
        check_less(less, ITEMS, group_of=_group, rekey=_later)


# Effects --------------------------------------------------------------------------------------


def test_assert_effects_accepts_expected_effects() -> None:
    found = (SUCCESS, SKIP, Unschedulable("no"))
    assert_effects(found, SUCCESS, Skip, Unschedulable("no"))
    assert_effects(found, SUCCESS, Unschedulable, exact=False)
    assert_effects(())


@pytest.mark.parametrize(
    ("expected", "exact", "sentence"),
    [
        ((SKIP,), True, r"expected Skip\(\) as effect 1, found Success\(\)"),
        ((SUCCESS,), True, r"expected 1 effects, then found Skip\(\)"),
        ((SUCCESS, SKIP, Skip), True, "expected a Skip as effect 3, found no more"),
        ((SKIP, SUCCESS), False, r"expected Success\(\) as effect 2, found no more"),
    ],
)
def test_assert_effects_reports_the_first_difference(
    expected: tuple[object, ...], exact: bool, sentence: str
) -> None:
    with pytest.raises(AssertionError, match=sentence):
        assert_effects((SUCCESS, SKIP), *expected, exact=exact)


def test_make_node_and_make_group_fill_fields() -> None:
    node = make_node("n", cpu=8, gpu=4, labels={"zone": "a"})
    assert (node.allocatable.quantity("nvidia.com/gpu"), node.labels["zone"]) == ("4", "a")
    assert make_group("g", 4).min_available == 4
    assert make_group("g", roles={"ps": 1, "worker": 2}).min_available == 3
