"""MemberKind keys: any tuple of numbers, strings and such tuples orders the queue."""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    ClusterState,
    InMemoryCluster,
    NodeAdded,
    Pod,
    PodAdded,
    Profile,
    Scheduler,
)
from gangsched.plugins import DefaultBinder, NodeResources, PrioritySort, QOSSort
from gangsched.primitives.heap import PriorityHeap
from gangsched.primitives.ordering import SortKey
from gangsched.profile import sort_keys
from gangsched.protocols import EntityView
from gangsched.testing import check_plugin, make_node, make_pod

NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.integers(),
    st.floats(allow_nan=False),
    st.booleans(),
    st.sampled_from([10**400, -(10**400), math.inf, -math.inf]),
)
PARTS = st.recursive(
    NUMBERS | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)
KEYS = st.lists(PARTS, min_size=1, max_size=4).map(tuple)


class Level(enum.IntEnum):
    HIGH = 1


class Word(str):
    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        raise AssertionError("was compared")


class Backwards(tuple[int, ...]):
    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        raise AssertionError("was compared")

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("was read")

    def __len__(self) -> int:
        raise AssertionError("was counted")


def made(key: object) -> tuple[Any, ...]:
    found = sort_keys.comparable(key)
    assert found is not None
    return found


@given(st.lists(KEYS, max_size=6))
def test_any_two_keys_compare_and_the_order_is_total(keys: list[tuple[Any, ...]]) -> None:
    found = [made(key) for key in keys]
    last = (math.inf, math.inf, 0.0, 0)  # of an entity without a key
    for key in found:
        assert key < last
    for one, other in product(found, repeat=2):
        assert (one < other) + (other < one) + (one == other) == 1
    heap: PriorityHeap[int] = PriorityHeap()
    for number, key in enumerate(found):
        heap.push(key, number)
    popped = [heap.pop() for _each in found]
    assert [found[number] for number in popped] == sorted(found)


@given(st.lists(st.tuples(NUMBERS, st.text(max_size=2), st.tuples(NUMBERS)), max_size=8))
def test_keys_of_one_kind_keep_their_own_order(keys: list[tuple[Any, ...]]) -> None:
    assert sorted(keys, key=made) == sorted(keys)


@given(st.lists(st.integers() | st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_key_of_numbers_is_used_unchanged(parts: list[float]) -> None:
    """So the heap compares it without calling Python."""
    for key in (tuple(parts), SortKey(-3, 1.5, 1, 2, 3)):
        assert sort_keys.comparable(key) is key


@pytest.mark.parametrize(
    "key",
    [None, 5, "ab", [1], (), (None,), (1, None), (math.nan,), (1, (math.nan,)), (b"a",), ({},)],
    ids=repr,
)
def test_anything_else_is_no_key(key: object) -> None:
    assert sort_keys.comparable(key) is None


def test_parts_of_other_classes_become_plain_values() -> None:
    """A comparison must not call the code of a plugin."""
    assert made((Word("b"), 1)) < made((Word("c"), 1))
    assert made(Backwards((1, 2))) < made(Backwards((1, 3)))
    assert made((Backwards((1, 2)),)) < made((Backwards((1, 3)),))
    assert sort_keys.comparable(Backwards()) is None
    key = made(("a", Level.HIGH))
    assert [type(part) for part in key[2:]] == [str, int]


# In a scheduler ---------------------------------------------------------------------------------


class ByName:
    """Orders the queue by a label, then by name: strings, and one more part for one of them."""

    name = "ByName"

    def queue_sort(self, entity: EntityView) -> tuple[object, ...]:
        pod = entity.pod
        return ((pod.labels.get("team", ""), -entity.priority), pod.name, entity.seq)


def a_scheduler(sort: object, cluster: ClusterState) -> Scheduler:
    return Scheduler(cluster, Profile(sort, NodeResources(), DefaultBinder()))


def order_of(sort: object, *pods: Any, restart: Callable[[Any], Any] | None = None) -> list[str]:
    """Return the order in which pods are bound."""
    cluster = InMemoryCluster()
    scheduler = a_scheduler(sort, cluster)
    scheduler.handle(cluster.apply(NodeAdded(make_node("n", cpu=100))), now=0.0)
    for pod in pods:
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    if restart is not None:
        data = restart(scheduler.snapshot())
        scheduler = a_scheduler(sort, cluster)
        scheduler.restore(data)
        scheduler._check()
    bound: list[str] = []
    while (effects := scheduler.schedule_one(now=0.0)) is not None:
        bound += [effect.uid.partition("/")[2] for effect in effects if isinstance(effect, Bind)]
        scheduler._check()
    return bound


def in_team(team: str, pod: Pod) -> Pod:
    return evolve(pod, labels={"team": team})


TEAMS = [
    in_team("x", make_pod("b", cpu=1)),
    in_team("x", make_pod("a", cpu=1)),
    in_team("x", make_pod("d", priority=5, cpu=1)),
    in_team("a", make_pod("c", priority=-9, cpu=1)),
]


def test_queue_is_ordered_by_strings_and_nested_tuples_also_after_a_snapshot() -> None:
    def through_json(data: Any) -> Any:
        return json.loads(json.dumps(data))

    check_plugin(ByName())
    for restart in (None, through_json):
        assert order_of(ByName(), *TEAMS, restart=restart) == ["c", "d", "a", "b"]


def test_keys_of_two_types_are_each_ordered_by_type() -> None:
    class Mixed:
        name = "Mixed"

        def queue_sort(self, entity: EntityView) -> tuple[object, ...]:
            name = entity.pod.name
            return (name,) if name < "c" else (-entity.priority, entity.seq)

    assert order_of(Mixed(), *TEAMS) == ["d", "c", "a", "b"]


def test_equal_keys_keep_the_order_of_arrival() -> None:
    class Alike:
        name = "Alike"

        def queue_sort(self, entity: EntityView) -> tuple[int]:
            return (1,)

    assert order_of(Alike(), *TEAMS) == ["b", "a", "d", "c"]


def test_qos_sort_does_not_mix_priority_and_class() -> None:
    """A priority is any int, and its distance to the next one does not matter."""
    huge = 10**30
    pods = [make_pod("low", priority=huge), make_pod("high", priority=huge + 1)]
    assert order_of(QOSSort(), *pods) == order_of(PrioritySort(), *pods) == ["high", "low"]
