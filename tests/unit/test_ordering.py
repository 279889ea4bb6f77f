"""The queue order is a strict total order, and the published one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cmp_to_key
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.errors import InvalidValueError
from gangsched.model import GroupKey, Pod
from gangsched.primitives.ordering import Order, QueuedPod, SortKey, less, sort_key
from support.views import FakeGroup

ORDERS = pytest.mark.parametrize("order", Order)
TIMES = st.sampled_from([0.0, 1.0, 2.0])
PRIORITIES = st.integers(0, 1)


def plain(seq: int, *, priority: int = 0, at: float = 0.0) -> QueuedPod:
    pod = Pod(name=f"p{seq}", priority=priority, created_at=at)
    return QueuedPod(pod=pod, seq=seq, queued_at=at)


def member(seq: int, group: FakeGroup, *, at: float = 0.0) -> QueuedPod:
    pod = Pod(name=f"p{seq}", priority=group.priority, created_at=at)
    return QueuedPod(pod=pod, seq=seq, queued_at=at, group=group)


@st.composite
def mixtures(draw: st.DrawFn) -> list[QueuedPod]:
    """Pods in groups and regular pods, with many ties, in any order."""
    groups = [
        FakeGroup(
            key=GroupKey(f"ns/{uid}"),
            uid=uid,
            priority=draw(PRIORITIES),
            created_at=draw(TIMES),
            last_failure_at=draw(st.none() | TIMES),
        )
        for uid in range(1, draw(st.integers(1, 3)) + 1)
    ]
    kinds = draw(st.lists(st.none() | st.sampled_from(groups), max_size=9))
    pods = [
        plain(seq, priority=draw(PRIORITIES), at=draw(TIMES))
        if group is None
        else member(seq, group, at=draw(TIMES))
        for seq, group in enumerate(kinds)
    ]
    return draw(st.permutations(pods))


@ORDERS
@given(mixtures())
def test_order_is_total(order: Order, pods: list[QueuedPod]) -> None:
    for a, b in itertools.combinations(pods, 2):
        assert less(a, b, order=order) is not less(b, a, order=order)
    assert not any(less(a, a, order=order) for a in pods)


@ORDERS
@given(mixtures())
def test_order_is_transitive(order: Order, pods: list[QueuedPod]) -> None:
    """The proposal taken literally has cycles of three, see the module."""
    for a, b, c in itertools.permutations(pods[:6], 3):
        if less(a, b, order=order) and less(b, c, order=order):
            assert less(a, c, order=order)


@ORDERS
@given(mixtures())
def test_group_is_contiguous_in_queue_order(order: Order, pods: list[QueuedPod]) -> None:
    """F56: also when all times are equal."""
    queue = sorted(pods, key=lambda pod: sort_key(pod, order=order))
    runs = [key for key, _run in itertools.groupby(queue, lambda p: p.group and p.group.key)]
    groups = [key for key in runs if key is not None]
    assert sorted(set(groups)) == sorted(groups)


@ORDERS
@given(mixtures())
def test_less_agrees_with_sort_key(order: Order, pods: list[QueuedPod]) -> None:
    """F60: both work without a scheduler."""
    keys: dict[int, SortKey] = {pod.seq: sort_key(pod, order=order) for pod in pods}
    for a, b in itertools.product(pods, repeat=2):
        assert (keys[a.seq] < keys[b.seq]) is less(a, b, order=order)

    def compare(a: QueuedPod, b: QueuedPod) -> int:
        return less(b, a, order=order) - less(a, b, order=order)

    by_less = sorted(pods, key=cmp_to_key(compare))
    assert sorted(pods, key=lambda pod: keys[pod.seq]) == by_less


def test_member_has_priority_and_creation_of_its_group() -> None:
    group = FakeGroup(priority=5, created_at=3.0)
    pod = Pod(name="p", priority=1, created_at=1.0)
    queued = QueuedPod(pod=pod, seq=1, queued_at=2.0, group=group)
    assert (queued.priority, queued.created_at) == (5, 3.0)
    assert sort_key(queued) == SortKey(-5, 3.0, 1, group.uid, 1)


def test_key_does_not_change_when_its_group_fails() -> None:
    """F4."""
    group = FakeGroup(created_at=1.0)
    key = sort_key(member(1, group))
    group.last_failure_at, group.priority = 9.0, 5
    assert SortKey(0, 1.0, 1, 1, 1) == key
    assert SortKey(-5, 9.0, 1, 1, 1) == sort_key(member(1, group))


def test_orders_differ_after_a_failure() -> None:
    """F3: a failed entity sorts behind all that were not tried since."""
    failed, fresh = FakeGroup(uid=1, created_at=0.0, last_failure_at=5.0), plain(2, at=3.0)
    assert less(fresh, member(1, failed), order=Order.LAST_FAILURE)
    assert less(member(1, failed), fresh, order=Order.CREATION)


def test_unknown_order_is_refused() -> None:
    with pytest.raises(InvalidValueError) as caught:
        Order("random")
    assert (caught.value.field, caught.value.value) == ("order", "random")


# The conformance table ------------------------------------------------------------------------

OLD, NEW = 1.0, 2.0


def group(uid: int, *, priority: int = 0, at: float = 0.0) -> FakeGroup:
    return FakeGroup(key=GroupKey(f"ns{uid}/g"), uid=uid, priority=priority, created_at=at)


def of(uid: int, priority: int, at: float, *, own: float = 0.0) -> QueuedPod:
    """Return a member of a group created at *at*; its own time must not matter."""
    return member(uid, group(uid, priority=priority, at=at), at=own)


ROWS: list[tuple[str, QueuedPod, QueuedPod, bool]] = [
    ("1", plain(1, priority=10), plain(2, priority=100), False),
    ("2", plain(1, priority=100), plain(2, priority=10), True),
    ("3", plain(1, at=OLD), plain(2, at=NEW), True),
    ("4", plain(1, at=NEW), plain(2, at=OLD), False),
    ("5", of(1, 10, OLD), plain(2, priority=100, at=NEW), False),
    ("6", of(1, 100, NEW), plain(2, priority=10, at=OLD), True),
    ("7", of(1, 10, OLD, own=9.0), plain(2, priority=10, at=NEW), True),
    ("8", of(1, 10, NEW, own=0.0), plain(2, priority=10, at=OLD), False),
    ("9", of(1, 10, OLD), of(2, 100, NEW), False),
    ("10", of(1, 100, NEW), plain(2, priority=10, at=OLD), True),
    ("11", of(1, 10, OLD, own=9.0), of(2, 10, NEW), True),
    ("12", of(1, 10, NEW), of(2, 100, OLD), False),
    ("13", plain(1, priority=10, at=OLD), of(2, 10, NEW), True),
    ("14", plain(1, priority=10, at=OLD), of(2, 10, NEW), True),
    ("14v", plain(2, priority=10, at=OLD), of(1, 10, OLD), True),
    ("14v-reverse", of(1, 10, OLD), plain(2, priority=10, at=OLD), False),
]


@ORDERS
@pytest.mark.parametrize(
    ("p1", "p2", "ahead"), [pytest.param(*row[1:], id=f"row-{row[0]}") for row in ROWS]
)
def test_published_examples_of_the_order(
    order: Order, p1: QueuedPod, p2: QueuedPod, ahead: bool
) -> None:
    assert ahead is less(p1, p2, order=order)
    assert ahead is not less(p2, p1, order=order)


@ORDERS
@given(mixtures())
def test_order_may_be_given_as_string(order: Order, pods: list[QueuedPod]) -> None:
    word: Any = order.value
    for a, b in itertools.pairwise(pods):
        assert sort_key(a, order=word) == sort_key(a, order=order)
        assert less(a, b, order=word) is less(a, b, order=order)


def mark(g: FakeGroup) -> None:
    g.last_failure_at = 60.0


def clear(g: FakeGroup) -> None:
    g.last_failure_at = None


Step = Callable[[FakeGroup], None]


@pytest.mark.parametrize(
    ("steps", "ahead"),
    [
        pytest.param((), True, id="row-15"),
        pytest.param((mark,), False, id="row-16"),
        pytest.param((mark, clear), True, id="row-17"),
    ],
)
def test_failed_group_sorts_behind_until_reset(steps: tuple[Step, ...], ahead: bool) -> None:
    older, newer = group(1, at=OLD), group(2, at=NEW)
    for step in steps:
        step(older)
    assert ahead is less(member(1, older), member(2, newer))
    assert ahead is not less(member(2, newer), member(1, older))


@pytest.mark.parametrize(
    ("steps", "at"),
    [
        pytest.param((), OLD, id="row-18"),
        pytest.param((mark,), 60.0, id="row-19"),
        pytest.param((mark, clear), OLD, id="row-20"),
    ],
)
def test_effective_time_is_the_failure_or_the_creation(steps: tuple[Step, ...], at: float) -> None:
    failing = group(1, at=OLD)
    for step in steps:
        step(failing)
    assert at == sort_key(member(1, failing)).at
