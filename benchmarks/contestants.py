"""The contestants of ``heap.py``, and the task of each."""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Callable, Iterable
from functools import cmp_to_key, partial
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any, Final, cast

from attrs import field, frozen
from sortedcontainers import SortedKeyList

from gangsched import Pod, SchedulingQueue, SortKey
from gangsched._core import _queue
from gangsched._core._entity import Place, QueuedEntity
from gangsched._core._group_entity import QueuedGroup
from gangsched._core._registry import PodGroupInfo
from gangsched.model import GroupKey, PodUID

BASE: Final = "heapq, ready tuples"
"""The baseline of the comparison."""


@frozen
class Contestant:
    """One way to put n items in and take them out.

    Attributes:
        name: What the table calls it.
        prepare: Makes what is there before the clock starts, of n keys; once for all rounds.
        run: Puts all in and takes all out; returns how many came out.
        fill: Puts all in; returns what then holds them. For bytes per item.
        slow: Whether it sits out the largest size.
        renew: Makes of it what a round uses up, before its clock starts: as heapq has its tuples
            ready, a queue has its entities.
    """

    name: str
    prepare: Callable[[list[SortKey]], Any]
    run: Callable[[Any], int]
    fill: Callable[[Any], object]
    slow: bool = field(default=False)
    renew: Callable[[Any], Any] = field(default=lambda prepared: prepared)


def keys(count: int, seed: int = 0) -> list[SortKey]:
    """Return keys as the queue makes them, shuffled."""
    draw = random.Random(seed)
    made = [SortKey(-draw.randrange(3), float(n // 8), 1, n, 0) for n in range(count)]
    draw.shuffle(made)
    return made


# Rivals ---------------------------------------------------------------------------------------


def _fill_heapq(items: Iterable[Any]) -> list[Any]:
    heap: list[Any] = []
    for item in items:
        heappush(heap, item)
    return heap


def _run_heapq(items: list[Any]) -> int:
    heap: list[Any] = []
    for item in items:
        heappush(heap, item)
    count = 0
    while heap:
        heappop(heap)
        count += 1
    return count


class Comparable:
    """An item that compares by its key."""

    __slots__ = ("key",)

    def __init__(self, key: SortKey) -> None:
        self.key = key

    def __lt__(self, other: Comparable) -> bool:
        return self.key < other.key


def _less(a: SortKey, b: SortKey) -> int:
    return -1 if a < b else 1


def _fill_sorted(items: list[SortKey]) -> Any:
    ordered = SortedKeyList(key=lambda key: key)
    for key in items:
        ordered.add(key)
    return ordered


def _run_sorted(items: list[SortKey]) -> int:
    ordered = _fill_sorted(items)
    for _ in items:
        ordered.pop(0)
    return len(items)


def _fill_mapping(make: Callable[[], Any], items: list[SortKey]) -> Any:
    heap = make()
    for key in items:
        heap[key] = key
    return heap


def _run_mapping(make: Callable[[], Any], items: list[SortKey]) -> int:
    heap = _fill_mapping(make, items)
    for _ in items:
        heap.popitem()
    return len(items)


# Ours -----------------------------------------------------------------------------------------


def _fill_heap(build: Any, items: list[SortKey]) -> object:
    heap = build()
    return [heap.push(key, key) for key in items], heap


def _run_heap(build: Any, items: list[SortKey]) -> int:
    heap = build()
    for key in items:
        heap.push(key, key)
    for _ in items:
        heap.pop()
    return len(items)


class Stub:
    """A pod as far as the queue looks at it; a million real ones would take the memory."""

    __slots__ = ("uid",)

    def __init__(self, number: int) -> None:
        self.uid = PodUID(f"u{number}")


def _queue_with(build: Any) -> SchedulingQueue:
    _queue.PriorityHeap = build  # type: ignore[misc]
    return SchedulingQueue(attrgetter("sort_key"))


def _single(given: list[SortKey]) -> list[QueuedEntity]:
    """Return entities of one pod each, with their ranks ready, as heapq's are."""
    made = []
    for key in given:
        entity = QueuedEntity(key.entity, key.at)
        entity.add(cast("Pod", Stub(key.entity)), key.entity)
        made.append(entity)
    return made


def _singles(given: list[SortKey]) -> tuple[list[QueuedEntity], list[SortKey]]:
    return _single(given), given


def _fill_queue(build: Any, entities: list[QueuedEntity], ranks: list[SortKey]) -> SchedulingQueue:
    queue = _queue_with(build)
    for entity, rank in zip(entities, ranks, strict=True):
        entity.sort_key = rank
        queue.activate(entity, now=0.0)
    return queue


def _fill_singles(build: Any, given: tuple[list[QueuedEntity], list[SortKey]]) -> object:
    """Fill a queue with entities that are made for it: they are part of what a pod takes."""
    entities, ranks = given
    made = []
    for given_entity in entities:
        entity = QueuedEntity(given_entity.seq, 0.0)
        entity.add(given_entity.pod, given_entity.seq)
        made.append(entity)
    return _fill_queue(build, made, ranks)


def _run_queue(build: Any, given: tuple[list[QueuedEntity], list[SortKey]]) -> int:
    entities, ranks = given
    queue = _fill_queue(build, entities, ranks)
    count = 0
    while queue.pop(now=0.0) is not None:
        count += 1
    return count


def _members(size: int, given: list[SortKey]) -> list[tuple[int, SortKey, Pod, int]]:
    """Return per pod its group, the group's rank, the pod and its number; pods shuffled."""
    return [
        (
            key.entity // size,
            SortKey(-(key.entity // size % 3), key.at, 1, key.entity // size, 0),
            cast("Pod", Stub(key.entity)),
            seq,
        )
        for seq, key in enumerate(given)
    ]


def _groups(size: int, given: list[SortKey]) -> Any:
    members = _members(size, given)
    groups = {
        uid: (rank, PodGroupInfo(key=GroupKey(f"ns/{uid}"), uid=uid))
        for uid, rank, _pod, _seq in members
    }
    return [(uid, pod, seq) for uid, _rank, pod, seq in members], groups


def _fresh(given: Any) -> tuple[list[tuple[QueuedGroup, Pod, int]], list[QueuedGroup]]:
    """Return per pod its group, which is empty and has its rank, the pod and its number."""
    members, groups = given
    entities: dict[int, QueuedGroup] = {}
    for uid, (rank, info) in groups.items():
        info.untried = 0
        entities[uid] = entity = QueuedGroup(uid, 0.0, info)
        entity.sort_key = rank
    return [(entities[uid], pod, seq) for uid, pod, seq in members], list(entities.values())


def _fill_groups(build: Any, given: Any) -> tuple[SchedulingQueue, object]:
    members, entities = given
    queue = _queue_with(build)
    for entity, pod, seq in members:
        entity.add(pod, seq)
        if entity.place is Place.NOWHERE:
            queue.activate(entity, now=0.0)
    return queue, entities


def _run_groups(build: Any, given: Any) -> int:
    queue, _entities = _fill_groups(build, given)
    count = 0
    while (entity := queue.pop(now=0.0)) is not None:
        while (pod := entity.next_member) is not None:
            entity.mark_tried(pod.uid)
            count += 1
    return count


def _run_whole(build: Any, given: Any) -> int:
    queue, _entities = _fill_groups(build, given)
    count = 0
    while (entity := queue.pop(now=0.0)) is not None:
        count += len(entity.pending)
    return count


def contestants() -> list[Contestant]:
    """Return the contestants: heapq first, then ours, then the others that are installed."""
    eights, sixty_fours = partial(_groups, 8), partial(_groups, 64)
    made = [Contestant(BASE, list, _run_heapq, _fill_heapq)]
    for name, module in (("python", "_py"), ("cython", "_c")):
        try:
            build = importlib.import_module(f"gangsched._core._heap.{module}").PriorityHeap
        except ImportError:
            print(f"the heap in {name} is not built", file=sys.stderr)
            continue
        made += [
            Contestant(
                f"PriorityHeap, {name}", list, partial(_run_heap, build), partial(_fill_heap, build)
            ),
            Contestant(
                f"queue, single pods, {name}",
                _singles,
                partial(_run_queue, build),
                partial(_fill_singles, build),
            ),
            *(
                Contestant(
                    f"queue, {what} {size}, {name}",
                    prepare,
                    partial(run, build),
                    partial(_fill_groups, build),
                    renew=_fresh,
                )
                for what, size, run, prepare in (
                    ("groups of", 8, _run_groups, eights),
                    ("whole groups of", 64, _run_whole, sixty_fours),
                )
            ),
        ]
    compare = cmp_to_key(_less)
    made += [
        Contestant(
            "heapq, objects with __lt__",
            lambda given: [Comparable(key) for key in given],
            _run_heapq,
            _fill_heapq,
            slow=True,
        ),
        Contestant(
            "heapq, cmp_to_key(less)",
            lambda given: [compare(key) for key in given],
            _run_heapq,
            _fill_heapq,
            slow=True,
        ),
        Contestant("SortedKeyList", list, _run_sorted, _fill_sorted, slow=True),
    ]
    for module, name in (("heapdict", "heapdict"), ("pqdict", "pqdict")):
        try:
            make = getattr(importlib.import_module(module), name)
        except ImportError:
            print(f"{module} is not installed: pip install --group bench", file=sys.stderr)
            continue
        made.append(
            Contestant(
                module, list, partial(_run_mapping, make), partial(_fill_mapping, make), slow=True
            )
        )
    return made
