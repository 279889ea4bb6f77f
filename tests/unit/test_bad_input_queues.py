"""Bad input to the heap and to the queue: refused, and nothing has changed, which is compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from gangsched import Pod, PriorityHeap, SchedulingQueue, sort_key
from gangsched.errors import GangschedError, InvalidValueError
from gangsched.protocols import QueueSortKey
from support.entities import a_group, a_pod
from support.fingerprint import fingerprint
from support.refusals import NAN, check_refusal, row


def bad(name: str, call: Callable[..., object], field: str, value: object, **more: Any) -> Any:
    return row(name, call, InvalidValueError, field=field, value=value, **more)


# The heap -------------------------------------------------------------------------------------


class Heaps:
    """A heap with two items, and handles that are good for nothing."""

    def __init__(self) -> None:
        self.heap: PriorityHeap[str] = PriorityHeap()
        self.other: PriorityHeap[str] = PriorityHeap()
        self.first = self.heap.push((1, 0.0), "first")
        self.second = self.heap.push((2, 0.0), "second")
        self.gone = self.heap.push((0, 0.0), "gone")
        self.heap.pop()
        self.theirs = self.other.push((0, 0.0), "theirs")

    def _check(self) -> None:
        self.heap._check()
        self.other._check()


NO_HANDLES: list[Any] = [None, "first", [], 1, {}, (0, 1, 2, 3)]
NO_KEYS: list[Any] = ["soon", None, NAN, (NAN, 0.0), (0, NAN), (1, "x"), (0.5, None, NAN)]
HEAP = [
    bad("removing what has left", lambda h: h.heap.remove(h.gone), "handle", 3),
    bad("re-keying what has left", lambda h: h.heap.rekey(h.gone, (0, 0.0)), "handle", 3),
    bad("removing another's", lambda h: h.heap.remove(h.theirs), "handle", 1),
    bad("re-keying another's", lambda h: h.heap.rekey(h.theirs, (0, 0.0)), "handle", 1),
    *[
        bad(f"{what} {x!r}", call, "handle", x)
        for x in NO_HANDLES
        for what, call in (
            ("removing", lambda h, x=x: h.heap.remove(x)),
            ("re-keying", lambda h, x=x: h.heap.rekey(x, (0, 0.0))),
        )
    ],
    *[
        bad(f"{what} {x!r}", call, "key", x)
        for x in NO_KEYS
        for what, call in (
            ("pushing at", lambda h, x=x: h.heap.push(x, "new")),
            ("moving to", lambda h, x=x: h.heap.rekey(h.first, x)),
        )
    ],
]


@pytest.mark.parametrize(("call", "error", "fields"), HEAP)
def test_refused_item_leaves_the_heap_unchanged(
    call: Callable[[Heaps], object], error: type[GangschedError], fields: dict[str, object]
) -> None:
    heaps = Heaps()
    before = fingerprint(heaps.heap, heaps.other)
    check_refusal(lambda: call(heaps), error, fields)
    assert fingerprint(heaps.heap, heaps.other) == before
    heaps._check()
    heaps.first = heaps.heap.rekey(heaps.first, (3, 0.0))
    assert [heaps.heap.pop(), heaps.heap.pop()] == ["second", "first"]


# The queue ------------------------------------------------------------------------------------


def test_entity_of_another_queue_is_refused_by_this_one() -> None:
    mine, theirs = SchedulingQueue(sort_key), SchedulingQueue(sort_key)
    entity, stranger = a_pod(1), a_group(2)
    mine.activate(entity, now=0.0)
    theirs.activate(stranger, now=0.0)
    before = fingerprint(mine, theirs)
    for call in (mine.remove, mine.activate, mine.gate):
        check_refusal(
            lambda call=call: call(stranger, now=0.0),
            InvalidValueError,
            {"field": "handle", "value": 1},
        )
        assert fingerprint(mine, theirs) == before
    mine._check()
    assert mine.head() is entity


def test_order_that_raises_leaves_its_entity_where_it_was() -> None:
    keys = [(0, 0.0, 0, 1, 0)]
    queue = SchedulingQueue(lambda _entity: keys[0])
    entity = a_pod(1)
    queue.activate(entity, now=0.0)
    keys.clear()
    with pytest.raises(IndexError):
        queue.activate(entity, now=0.0)
    assert queue.head() is entity


def test_removal_of_an_entity_that_is_not_queued_does_nothing() -> None:
    queue = SchedulingQueue(sort_key)
    queue.activate(a_pod(1), now=0.0)
    before = fingerprint(queue)
    stranger = a_pod(2)
    queue.remove(stranger, now=0.0)
    assert fingerprint(queue) == before
    assert Pod(name="e2") == stranger.pod


class Lost:
    """A sort key that cannot be compared while it is lost."""

    is_lost = False

    def __init__(self, number: int) -> None:
        self.number = number

    def __lt__(self, other: Lost) -> bool:
        if Lost.is_lost:
            raise IndexError("lost")
        return self.number < other.number


def test_sort_keys_that_cannot_be_compared_are_not_taken_for_an_empty_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Though they raise what an empty heap raises."""
    queue = SchedulingQueue(lambda entity: cast("QueueSortKey", (Lost(entity.seq),)))
    for seq in range(3):
        queue.activate(a_pod(seq), now=0.0)
    with monkeypatch.context() as patch:
        patch.setattr(Lost, "is_lost", True)
        with pytest.raises(IndexError, match="lost"):
            queue.pop(now=0.0)
    assert [entity.seq for entity in iter(lambda: queue.pop(now=0.0), None)] == [0, 1, 2]
