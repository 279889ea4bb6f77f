"""What ``_check`` is for: each invariant that a test relies on is seen when it is broken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from gangsched._core._heap import PriorityHeap
from gangsched._core._heap._py import PriorityHeap as PythonHeap
from gangsched._core._ordering import sort_key
from gangsched._core._queue import Line, SchedulingQueue
from gangsched._core._registry import PodGroupRegistry
from gangsched._core._waiting import WaitingMap
from gangsched.errors import InternalError
from gangsched.model import NodeName, PodUID
from support.entities import a_pod
from support.groups import claim_of, grouped, key


class Full:
    """A queue with somebody everywhere."""

    def __init__(self) -> None:
        self.leading, self.standing = a_pod(1), a_pod(2)
        self.resting, self.gated = a_pod(3, rests_until=9.0), a_pod(4)
        self.alone, self.tired = a_pod(5), a_pod(6, rests_until=9.0)
        self.queue = SchedulingQueue(sort_key)
        for entity in (self.resting, self.leading, self.standing):
            self.queue.park(entity, shape="s", step=-1, now=0.0)
        self.queue.gate(self.gated, now=0.0)
        self.queue.activate(self.alone, now=0.0)
        self.queue.activate(self.tired, now=0.0)
        self.queue._check()

    @property
    def line(self) -> Line:
        return self.queue._lines["s"]

    def put_twice(self) -> None:
        self.queue._gated[1] = self.leading

    def confuse(self) -> None:
        self.alone.place = self.gated.place

    def rest_longer(self) -> None:
        self.tired.backoff_until += 1

    def rename_a_line(self) -> None:
        self.queue._lines["t"] = self.queue._lines.pop("s")

    def keep_an_empty_line(self) -> None:
        self.queue._lines["t"] = Line("t")

    def lose_the_leader(self) -> None:
        self.line.leader = None

    def be_led_by_nobody_active(self) -> None:
        self.line.blocked = True
        self.line.leader = self.gated

    def be_led_by_the_second(self) -> None:
        self.leading.rank = (9, 9.0, 9, 9, 9)

    def rest_while_active(self) -> None:
        self.line.resting[5] = self.alone

    def lose_a_member(self) -> None:
        self.alone._pod = None


SABOTAGE = [name for name in vars(Full) if not name.startswith("_") and name != "line"]


@pytest.mark.parametrize("name", SABOTAGE)
def test_the_queue_sees_what_is_wrong(name: str) -> None:
    full = Full()
    getattr(full, name)()
    with pytest.raises(InternalError):
        full.queue._check()


class BrokenHeap(PythonHeap[Any]):
    """A heap that knows that it is none."""

    def _check(self) -> None:
        raise InternalError("no heap")


def test_the_queue_sees_heaps_that_are_none() -> None:
    full = Full()
    for entity in (a_pod(7), a_pod(8)):
        full.queue.park(entity, shape="s", step=-1, now=0.0)
    full.queue._check()
    standing = full.line.standing = BrokenHeap()
    standing.push((0,), full.standing)
    with pytest.raises(InternalError):
        full.queue._check()
    full = Full()
    full.queue._active = BrokenHeap()
    with pytest.raises(InternalError):
        full.queue._check()


Break = Callable[[PriorityHeap[int]], None]


def reverse(heap: PriorityHeap[int]) -> None:
    heap._run.reverse()


def reverse_the_heap(heap: PriorityHeap[int]) -> None:
    heap._heap.reverse()


def lose(heap: PriorityHeap[int]) -> None:
    heap._dead += 1


def bury(heap: PriorityHeap[int]) -> None:
    heap._run[0][2:] = None, None


def mix(heap: PriorityHeap[int]) -> None:
    other: PriorityHeap[int] = PythonHeap()
    number = heap._new[-1][1]
    heap._new[-1] = other.push((1,), 1)
    heap._new[-1][1] = number


def overtake(heap: PriorityHeap[int]) -> None:
    heap._new.reverse()


def litter(heap: PriorityHeap[int]) -> None:
    heap._new.extend([[(101,), 1_000 + n, None, None] for n in range(170)])
    heap._dead += 170


def leave_the_way_open(heap: PriorityHeap[int]) -> None:
    heap._fast = heap._run


def mistake_the_kind(heap: PriorityHeap[int]) -> None:
    heap._new[-1][0] = ("a",)


SABOTAGE_OF_HEAPS: list[tuple[Break, str]] = [
    (reverse, "entry 3 is behind 2 in the run"),
    (reverse_the_heap, "entry 1 is before its parent"),
    (lose, "0 tombstones, counted 1"),
    (bury, "1 tombstones, counted 0"),
    (mix, "an entry is of another heap"),
    (overtake, "are not in order of arrival"),
    (litter, "170 tombstones beside 105 items"),
    (leave_the_way_open, "the short way out is open, and is not the only one"),
    (mistake_the_kind, "a key is not of numbers"),
]


@pytest.mark.parametrize(("sabotage", "says"), SABOTAGE_OF_HEAPS)
def test_a_heap_sees_what_is_wrong(sabotage: Break, says: str) -> None:
    heap: PriorityHeap[int] = PythonHeap()
    for item in range(100):
        heap.push((item,), item)
    assert heap.pop() == 0
    for item in range(100, 104):
        heap.push((item,), item)
        assert heap.peek() == 1
    for item in range(2):
        heap.push((item,), item)
    assert all(map(len, (heap._run, heap._heap, heap._new)))
    heap._check()
    sabotage(heap)
    with pytest.raises(InternalError) as caught:
        heap._check()
    assert says in caught.value.invariant


def test_a_registry_sees_what_is_wrong() -> None:
    def registry() -> PodGroupRegistry:
        made = PodGroupRegistry()
        for name in ("g", "h"):
            pod = grouped("p", name)
            made.join(pod, claim_of(pod))
        made._check()
        return made

    sabotaged = registry()
    next(iter(sabotaged)).uid = 2
    with pytest.raises(InternalError):
        sabotaged._check()
    sabotaged = registry()
    sabotaged._groups[key("i")] = sabotaged._groups.pop(key("h"))
    with pytest.raises(InternalError):
        sabotaged._check()
    sabotaged = registry()
    next(iter(sabotaged)).members.discard(PodUID("ns/p"))
    with pytest.raises(InternalError):
        sabotaged._check()
    sabotaged = registry()
    next(iter(sabotaged)).members._counts[0] += 1
    with pytest.raises(InternalError):
        sabotaged._check()


def test_a_waiting_map_sees_what_is_wrong() -> None:
    def waiting() -> WaitingMap:
        made = WaitingMap()
        for uid in "ab":
            made.wait(PodUID(uid), node=NodeName("n"), timeout=1, now=0, group=key("g"))
        made._check()
        return made

    sabotaged = waiting()
    sabotaged._groups[key("g")].pop(PodUID("a"))
    with pytest.raises(InternalError):
        sabotaged._check()
    sabotaged = waiting()
    sabotaged._deadlines.popitem()
    with pytest.raises(InternalError):
        sabotaged._check()
    sabotaged = waiting()
    pod, arrival = sabotaged._pods[PodUID("a")]
    sabotaged._pods[PodUID("a")] = (evolve(pod, uid=PodUID("c")), arrival)
    with pytest.raises(InternalError):
        sabotaged._check()
