"""``_check`` reports each broken invariant that other tests rely on."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from gangsched._core._equivalence_queue import EquivalenceQueue
from gangsched._core._heap import HeapHandle, PriorityHeap
from gangsched._core._heap._py import PriorityHeap as PythonHeap
from gangsched._core._ordering import sort_key
from gangsched._core._queue import SchedulingQueue
from gangsched._core._registry import PodGroupRegistry
from gangsched._core._waiting import WaitingMap
from gangsched.errors import InternalError
from gangsched.model import NodeName, PodUID
from support.entities import a_pod
from support.groups import claim_of, grouped, key


class Full:
    """A queue with an entity in each place."""

    def __init__(self) -> None:
        self.leading, self.standing = a_pod(1), a_pod(2)
        self.resting, self.gated = a_pod(3, rests_until=9.0), a_pod(4)
        self.alone, self.tired = a_pod(5), a_pod(6, rests_until=9.0)
        self.queue = SchedulingQueue(sort_key)
        for entity in (self.resting, self.leading, self.standing):
            self.queue.park(entity, equivalence_class="s", step=-1, now=0.0)
        self.queue.gate(self.gated, now=0.0)
        self.queue.activate(self.alone, now=0.0)
        self.queue.activate(self.tired, now=0.0)
        self.queue._check()

    @property
    def line(self) -> EquivalenceQueue:
        return self.queue._queues["s"]

    def put_twice(self) -> None:
        self.queue._gated[1] = self.leading

    def confuse(self) -> None:
        self.alone.place = self.gated.place

    def rest_longer(self) -> None:
        self.tired.backoff_until += 1

    def rename_a_line(self) -> None:
        self.queue._queues["t"] = self.queue._queues.pop("s")

    def keep_an_empty_line(self) -> None:
        self.queue._queues["t"] = EquivalenceQueue("t")

    def lose_the_leader(self) -> None:
        self.line.leader = None

    def be_led_by_nobody_active(self) -> None:
        self.line.blocked = True
        self.line.leader = self.gated

    def be_led_by_the_second(self) -> None:
        self.leading.sort_key = (9, 9.0, 9, 9, 9)

    def rest_while_active(self) -> None:
        self.line.in_backoff[5] = self.alone

    def lose_a_member(self) -> None:
        self.alone._pod = None


SABOTAGE: list[tuple[Callable[[Full], None], str]] = [
    (Full.put_twice, "entities [1] are in two places"),
    (Full.confuse, "entity 5 is kept as active, and says that it is unschedulable"),
    (Full.rest_longer, "entity 6 is in backoff until 9.0, not until its own deadline"),
    (Full.rename_a_line, "queue 1 of class 's' is kept under 't'"),
    (Full.keep_an_empty_line, "queue 0 is empty, and is kept"),
    (Full.lose_the_leader, "queue 1 is open, and has no leader"),
    (Full.be_led_by_nobody_active, "leader 4 of queue 1 is in UNSCHEDULABLE"),
    (Full.be_led_by_the_second, "queue 1 is open, and entity 2 sorts before its leader 1"),
    (
        Full.rest_while_active,
        "entity 5 of queue 1 is kept as in backoff, and is in ACTIVE",
    ),
    (Full.lose_a_member, "a ready member is not pending"),
]


@pytest.mark.parametrize(("sabotage", "says"), SABOTAGE)
def test_check_reports_broken_invariant_of_queue(
    sabotage: Callable[[Full], None], says: str
) -> None:
    full = Full()
    sabotage(full)
    with pytest.raises(InternalError) as caught:
        full.queue._check()
    assert caught.value.invariant == says


class BrokenHeap(PythonHeap[Any]):
    """A heap whose ``_check`` always raises."""

    def _check(self) -> None:
        raise InternalError("no heap")


def test_check_of_queue_checks_its_heaps() -> None:
    full = Full()
    for entity in (a_pod(7), a_pod(8)):
        full.queue.park(entity, equivalence_class="s", step=-1, now=0.0)
    full.queue._check()
    standing = full.line.queued = BrokenHeap()
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


def exchange_a_parent_and_its_child(heap: PriorityHeap[int]) -> None:
    heap._heap[1], heap._heap[3] = heap._heap[3], heap._heap[1]


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


def come_at_once(heap: PriorityHeap[int]) -> None:
    heap._new[-1][1] = heap._new[-2][1]


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
    (exchange_a_parent_and_its_child, "entry 3 is before its parent"),
    (lose, "0 tombstones, counted 1"),
    (bury, "1 tombstones, counted 0"),
    (mix, "an entry is of another heap"),
    (overtake, " are not in order of arrival"),
    (come_at_once, " are not in order of arrival"),
    (litter, "170 tombstones beside 105 items"),
    (leave_the_way_open, "the fast path is open, but the run does not hold all entries"),
    (mistake_the_kind, "a key is not a tuple of numbers"),
]


@pytest.mark.parametrize(("sabotage", "says"), SABOTAGE_OF_HEAPS)
def test_check_reports_broken_invariant_of_heap(sabotage: Break, says: str) -> None:
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
    assert re.fullmatch(rf"(entries \[.*\])?{re.escape(says)}", caught.value.invariant)


def sorted_heap() -> PriorityHeap[int]:
    heap: PriorityHeap[int] = PythonHeap()
    for item in range(100):
        heap.push((item,), item)
    assert heap.peek() == 0
    return heap


def let_one_come(heap: PriorityHeap[int]) -> None:
    heap.push((100,), 100)


def let_one_come_and_settle(heap: PriorityHeap[int]) -> None:
    heap.push((100,), 100)
    assert heap.peek() == 0


def let_one_leave(heap: PriorityHeap[int]) -> None:
    heap.remove(HeapHandle(heap._run[50]))


@pytest.mark.parametrize("event", [let_one_come, let_one_come_and_settle, let_one_leave])
def test_check_reports_open_fast_path_with_other_entries(event: Break) -> None:
    heap = sorted_heap()
    event(heap)
    assert heap._fast is None
    heap._check()
    heap._fast = heap._run
    with pytest.raises(InternalError):
        heap._check()


def test_check_reports_fast_path_to_another_list() -> None:
    heap = sorted_heap()
    assert heap._fast is heap._run
    heap._check()
    heap._fast = list(heap._run)
    with pytest.raises(InternalError):
        heap._check()


def give_a_number_twice(registry: PodGroupRegistry) -> None:
    next(iter(registry)).uid = 2


def keep_a_group_as_another(registry: PodGroupRegistry) -> None:
    registry._groups[key("i")] = registry._groups.pop(key("h"))


def lose_the_only_member(registry: PodGroupRegistry) -> None:
    next(iter(registry)).members.discard(PodUID("ns/p"))


def count_one_too_many(registry: PodGroupRegistry) -> None:
    next(iter(registry)).members._counts[0] += 1


@pytest.mark.parametrize(
    ("sabotage", "says"),
    [
        (give_a_number_twice, "group numbers [2, 2] do not ascend"),
        (keep_a_group_as_another, "group ns/h is kept as ns/i"),
        (lose_the_only_member, "group ns/g has neither specification nor member"),
        (
            count_one_too_many,
            "member counts [1, 1, 0, 0, 0, 0, 0, 0, 0, 0] are not [0, 1, 0, 0, 0, 0, 0, 0, 0, 0]",
        ),
    ],
)
def test_check_reports_broken_invariant_of_registry(
    sabotage: Callable[[PodGroupRegistry], None], says: str
) -> None:
    registry = PodGroupRegistry()
    for name in ("g", "h"):
        pod = grouped("p", name)
        registry.join(pod, claim_of(pod))
    registry._check()
    sabotage(registry)
    with pytest.raises(InternalError) as caught:
        registry._check()
    assert caught.value.invariant == says


def forget_that_it_is_of_a_group(waiting: WaitingMap) -> None:
    waiting._groups[key("g")].pop(PodUID("a"))


def forget_a_deadline(waiting: WaitingMap) -> None:
    waiting._deadlines.pop()


def mistake_one_for_another(waiting: WaitingMap) -> None:
    pod, arrival = waiting._pods[PodUID("a")]
    waiting._pods[PodUID("a")] = (evolve(pod, uid=PodUID("c")), arrival)


@pytest.mark.parametrize(
    ("sabotage", "says"),
    [
        (forget_that_it_is_of_a_group, "waiting pods and their groups differ"),
        (forget_a_deadline, "waiting pods and deadlines differ"),
        (mistake_one_for_another, "a is stored under another UID"),
    ],
)
def test_check_reports_broken_invariant_of_waiting_map(
    sabotage: Callable[[WaitingMap], None], says: str
) -> None:
    waiting = WaitingMap()
    for uid in "ab":
        waiting.wait(PodUID(uid), node=NodeName("n"), timeout=1, now=0, group=key("g"))
    waiting._check()
    sabotage(waiting)
    with pytest.raises(InternalError) as caught:
        waiting._check()
    assert caught.value.invariant == says
