"""What ``_check`` is for: each invariant that a test relies on is seen when it is broken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from gangsched._core._heap import PriorityHeap
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
        self.alone._pending.clear()


SABOTAGE: list[tuple[Callable[[Full], None], str]] = [
    (Full.put_twice, "an entity is in two places"),
    (Full.confuse, "entity 5 believes itself Place.UNSCHEDULABLE"),
    (Full.rest_longer, "entity 6 rests until 9.0, not its own deadline"),
    (Full.rename_a_line, "a line is kept under another shape"),
    (Full.keep_an_empty_line, "an empty line is kept"),
    (Full.lose_the_leader, "an open line has no leader"),
    (Full.be_led_by_nobody_active, "a leader is not active"),
    (Full.be_led_by_the_second, "the first in an open line does not lead it"),
    (Full.rest_while_active, "who rests in a line is not in backoff"),
    (Full.lose_a_member, "a ready member is not pending"),
]


def check_says(machine: Any, says: str) -> None:
    with pytest.raises(InternalError) as caught:
        machine._check()
    assert caught.value.invariant == says


@pytest.mark.parametrize(
    ("sabotage", "says"),
    [pytest.param(sabotage, says, id=sabotage.__name__) for sabotage, says in SABOTAGE],
)
def test_the_queue_sees_what_is_wrong(sabotage: Callable[[Full], None], says: str) -> None:
    full = Full()
    sabotage(full)
    check_says(full.queue, says)


def test_the_queue_sees_heaps_that_are_none() -> None:
    full = Full()
    for entity in (a_pod(7), a_pod(8)):
        full.queue.park(entity, shape="s", step=-1, now=0.0)
    full.line.standing._entries.reverse()
    check_says(full.queue, "entry 1 is before its parent")
    full = Full()
    full.queue._active._entries.reverse()
    check_says(full.queue, "entry 1 is before its parent")


Break = Callable[[PriorityHeap[int]], None]


def reverse(heap: PriorityHeap[int]) -> None:
    heap._entries.reverse()


def lose(heap: PriorityHeap[int]) -> None:
    heap._entries.pop()


def bury(heap: PriorityHeap[int]) -> None:
    other: PriorityHeap[int] = PriorityHeap()
    handle = other.push(0, 0)
    other.remove(handle)
    heap._entries.insert(0, [-1, 0, handle[2], heap._mark])


def mix(heap: PriorityHeap[int]) -> None:
    other: PriorityHeap[int] = PriorityHeap()
    heap._entries[-1] = other.push(99, 99)


def litter(heap: PriorityHeap[int]) -> None:
    gone = heap.push(100, 100)
    heap.remove(gone)
    heap._entries.extend([[101, n, gone[2], heap._mark] for n in range(70)])


@pytest.mark.parametrize(
    ("sabotage", "says"),
    [
        (reverse, "entry 1 is before its parent"),
        (lose, "2 live entries, counted 3"),
        (bury, "the first entry is a tombstone"),
        (mix, "an entry is of another heap"),
        (litter, "71 tombstones beside 3 items"),
    ],
)
def test_a_heap_sees_what_is_wrong(sabotage: Break, says: str) -> None:
    heap: PriorityHeap[int] = PriorityHeap()
    for item in range(3):
        heap.push(item, item)
    heap._check()
    sabotage(heap)
    check_says(heap, says)


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
    check_says(sabotaged, "group numbers [2, 2] do not ascend")
    sabotaged = registry()
    sabotaged._groups[key("i")] = sabotaged._groups.pop(key("h"))
    check_says(sabotaged, "group ns/h is kept as ns/i")
    sabotaged = registry()
    next(iter(sabotaged)).members.discard(PodUID("ns/p"))
    check_says(sabotaged, "group ns/g has neither specification nor member")
    sabotaged = registry()
    next(iter(sabotaged)).members._counts[0] += 1
    counts = "[1, 1, 0, 0, 0, 0, 0, 0, 0] are not [0, 1, 0, 0, 0, 0, 0, 0, 0]"
    check_says(sabotaged, f"member counts {counts}")


def test_a_waiting_map_sees_what_is_wrong() -> None:
    def waiting() -> WaitingMap:
        made = WaitingMap()
        for uid in "ab":
            made.wait(PodUID(uid), node=NodeName("n"), timeout=1, now=0, group=key("g"))
        made._check()
        return made

    sabotaged = waiting()
    sabotaged._groups[key("g")].pop(PodUID("a"))
    check_says(sabotaged, "waiting pods and their groups differ")
    sabotaged = waiting()
    sabotaged._deadlines.popitem()
    check_says(sabotaged, "waiting pods and deadlines differ")
    sabotaged = waiting()
    pod, arrival = sabotaged._pods[PodUID("a")]
    sabotaged._pods[PodUID("a")] = (evolve(pod, uid=PodUID("c")), arrival)
    check_says(sabotaged, "a waits under another name")
