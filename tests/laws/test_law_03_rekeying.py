"""Law 3: whatever changes while entities are queued, they leave in the order of a full sort.

F4: a key that changes inside a heap breaks the heap. So a key is made when its entity is enqueued,
and an entity whose sort key changes is removed and inserted again, as a whole.
"""

from __future__ import annotations

import itertools
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import GroupKey, Order, Pod, PriorityHeap, QueuedPod
from gangsched.primitives.ordering import less, sort_key
from gangsched.testing import check_less
from support.examples import one_in
from support.views import FakeGroup

pytestmark = pytest.mark.once("makes no scheduler")


ORDERS = pytest.mark.parametrize("order", Order)
TIMES = st.sampled_from([0.0, 1.0, 2.0])
FAILURES = st.none() | TIMES


@st.composite
def entities(draw: st.DrawFn) -> list[QueuedPod]:
    """Regular pods and first members of groups, with many ties."""
    made: list[QueuedPod] = []
    for seq in range(1, draw(st.integers(2, 7)) + 1):
        priority, at = draw(st.integers(0, 1)), draw(TIMES)
        group = None
        if draw(st.booleans()):
            failed_at = draw(FAILURES)
            group = FakeGroup(
                key=GroupKey(f"ns/{seq}"),
                uid=seq,
                priority=priority,
                created_at=at,
                last_failure_at=failed_at,
            )
        pod = Pod(name=f"p{seq}", priority=priority)
        made.append(QueuedPod(pod=pod, seq=seq, queued_at=at, group=group))
    return made


changes = st.lists(st.tuples(st.integers(0, 6), FAILURES, st.integers(0, 1)), max_size=8)


@ORDERS
@one_in(2)
@given(entities())
def test_pods_and_groups_stand_in_one_strict_and_total_order(
    order: Order, made: list[QueuedPod]
) -> None:
    check_less(lambda a, b: less(a, b, order=order), made)
    for a, b in itertools.product(made, repeat=2):
        assert less(a, b, order=order) is (sort_key(a, order=order) < sort_key(b, order=order))


@ORDERS
@one_in(2)
@given(entities(), changes)
def test_after_any_changes_the_heap_gives_what_a_full_sort_gives(
    order: Order, made: list[QueuedPod], then: list[tuple[int, float | None, int]]
) -> None:
    """F4: mark and clear failures, and change priorities, while all are queued."""
    heap: PriorityHeap[QueuedPod] = PriorityHeap()
    handles = {one.seq: heap.push(sort_key(one, order=order), one) for one in made}
    for index, failed_at, priority in then:
        one = made[index % len(made)]
        if isinstance(one.group, FakeGroup):
            one.group.last_failure_at = failed_at
            one.group.priority = priority
        handles[one.seq] = heap.rekey(handles[one.seq], sort_key(one, order=order))
        heap._check()
        assert heap.peek() is min(made, key=partial(sort_key, order=order))
    assert [heap.pop() for _one in made] == sorted(made, key=partial(sort_key, order=order))


# Pod by pod -----------------------------------------------------------------------------------


def pods_of(groups: list[FakeGroup], kinds: list[int | None]) -> list[QueuedPod]:
    return [
        QueuedPod(
            pod=Pod(name=f"p{seq}"),
            seq=seq,
            queued_at=float(seq % 3),
            group=None if kind is None else groups[kind],
        )
        for seq, kind in enumerate(kinds)
    ]


@ORDERS
@one_in(2)
@given(
    st.lists(st.none() | st.integers(0, 2), min_size=1, max_size=9),
    st.lists(st.tuples(st.integers(0, 2), FAILURES), max_size=6),
)
def test_group_of_which_every_member_gets_its_new_key_at_once_stays_together(
    order: Order, kinds: list[int | None], marks: list[tuple[int, float | None]]
) -> None:
    """F4, F56: in a heap of pods re-keying is of the whole group."""
    groups = [FakeGroup(key=GroupKey(f"ns/{uid}"), uid=uid) for uid in range(3)]
    pods = pods_of(groups, kinds)
    heap: PriorityHeap[QueuedPod] = PriorityHeap()
    handles = {pod.seq: heap.push(sort_key(pod, order=order), pod) for pod in pods}
    for index, failed_at in marks:
        groups[index].last_failure_at = failed_at
        for pod in pods:
            if pod.group is groups[index]:
                handles[pod.seq] = heap.rekey(handles[pod.seq], sort_key(pod, order=order))
    heap._check()
    popped = [heap.pop() for _pod in pods]
    assert popped == sorted(pods, key=lambda pod: sort_key(pod, order=order))
    runs = [uid for uid, _run in itertools.groupby(popped, lambda pod: pod.group and pod.group.uid)]
    owned = [uid for uid in runs if uid is not None]
    assert len(owned) == len(set(owned))
