"""The fingerprint sees every change: each thing that a scheduler holds is changed, one by one."""

from __future__ import annotations

import copy
import enum
import gc
import itertools
import types
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest
from sortedcontainers import SortedDict, SortedList

from gangsched import PriorityHeap, WaitingMap
from gangsched.core.nodes.views import NodeViews
from gangsched.model import FrozenMap, NodeName, PodUID, Resources
from support.busy import busy_scheduler
from support.fingerprint import attributes, fingerprint, is_as, is_ours, reachable, remembered

Undo = Callable[[], object]
CODE = (type, types.FunctionType, types.ModuleType)


def parts(thing: Any) -> list[Any]:
    """Return what a thing holds; of what others have made, only what was put in."""
    if isinstance(thing, Mapping) and not isinstance(thing, NodeViews):  # it holds none
        return [*thing.keys(), *thing.values()]
    if isinstance(thing, PriorityHeap) or type(thing).__name__ == "HeapEntry":
        return list(
            next(iter(attributes(thing).values()))
        )  # the list itself was made for the failure message
    if isinstance(thing, list | tuple | set | deque | SortedList):
        return list(thing)
    if isinstance(thing, types.MethodType):
        return [thing.__self__]
    return list(remembered(thing).values()) if is_ours(thing) else []


def referents(thing: Any) -> list[Any]:
    """Return what the garbage collector says that a thing holds; of code, nothing."""
    return [] if isinstance(thing, CODE) else gc.get_referents(thing)


def changes(thing: Any) -> Iterator[Undo]:
    """Make each change of a thing that there is, one after the other; yield how to undo it."""
    if isinstance(thing, SortedDict | SortedList):
        kept = copy.copy(thing)
        if kept:
            thing.clear()
            yield lambda: thing.update(kept)
    elif isinstance(thing, list):
        yield from changes_of_a_list(thing)
    elif isinstance(thing, dict) and not isinstance(thing, FrozenMap):
        yield from changes_of_a_dict(thing)
    elif isinstance(thing, PriorityHeap):
        yield from changes_of_a_heap(thing)
    elif type(thing).__name__ == "HeapEntry":
        kept = thing.__reduce__()[2]
        for place in range(4):
            thing.__setstate__((*kept[:place], 77, *kept[place + 1 :]))
            yield partial(thing.__setstate__, kept)
    elif is_ours(thing) and not isinstance(thing, Mapping | enum.Enum):
        yield from changes_of_an_object(thing)


def changes_of_a_list(items: list[Any]) -> Iterator[Undo]:
    kept = list(items)

    def restore() -> None:
        items[:] = kept

    items.append("one more")
    yield restore
    if kept:
        items.pop()
        yield restore
    if kept != kept[::-1]:
        items.reverse()
        yield restore


def changes_of_a_dict(entries: dict[Any, Any]) -> Iterator[Undo]:
    kept = list(entries.items())

    def put(order: list[tuple[Any, Any]]) -> None:
        entries.clear()
        dict.update(entries, order)  # as a Counter's own would count

    def restore() -> None:
        put(kept)

    entries["one more"] = 1
    yield restore
    if kept:
        del entries[kept[0][0]]
        yield restore
        entries[kept[0][0]] = "another value"
        yield restore
    if len(kept) > 1:
        put(kept[::-1])
        yield restore


def changes_of_a_heap(heap: PriorityHeap[Any]) -> Iterator[Undo]:
    """Push; to undo it, put back the whole heap but for its entries, which a push leaves alone."""
    kept = copy.copy(heap)
    if type(heap).__module__.endswith("_c"):
        compiled: Any = heap
        state: Any = heap.__reduce__()[2]
        state = ([list(part) for part in state[0]], *state[1:])
        restore: Undo = partial(compiled.__setstate__, state)
    else:
        slots = {name: getattr(kept, name) for name in type(heap).__slots__}
        slots.update({name: list(slots[name]) for name in ("_run", "_heap", "_new")}, _fast=None)

        def restore() -> None:
            for name, value in slots.items():
                setattr(heap, name, value)

    heap.push((0, 0.0, 0, 0, 0), "one more")
    yield restore


def changes_of_an_object(thing: Any) -> Iterator[Undo]:
    given = attributes(thing)
    for name, before in [(name, given[name]) for name in remembered(thing)]:
        is_number = isinstance(before, int | float) and abs(before) != float("inf")
        object.__setattr__(thing, name, before + 1 if is_number else "another value")
        yield partial(object.__setattr__, thing, name, before)


def test_every_single_change_of_what_a_scheduler_holds_changes_its_fingerprint() -> None:
    cluster, scheduler = busy_scheduler()
    before = fingerprint(cluster, scheduler)
    count = 0
    seen: Counter[type] = Counter()
    for thing in reachable((cluster, scheduler), parts):
        seen[type(thing)] += is_ours(thing)
        if seen[type(thing)] > 1:
            continue  # one pod is like another
        for undo in changes(thing):
            try:
                is_seen = not is_as(before, cluster, scheduler)
            except Exception:  # a view of what is not there
                is_seen = True
            undo()
            assert is_seen, f"a change of {thing!r} is not seen"
            count += 1
    assert count > 300


def test_nothing_of_the_library_is_held_where_the_fingerprint_does_not_look() -> None:
    """What the garbage collector finds, and the fingerprint's own walk, are the same."""
    _cluster, scheduler = busy_scheduler()
    collected = reachable(scheduler, referents)
    walked = {id(thing) for thing in reachable(scheduler, parts)}
    missed = [thing for thing in collected if is_ours(thing) and id(thing) not in walked]
    # entries of heaps that no longer count, and what is computed when it is read first
    apart = ("HeapEntry", "Standing", "Row")
    missed = [thing for thing in missed if type(thing).__name__ not in apart]
    assert missed == []


def test_two_schedulers_with_one_history_have_one_fingerprint() -> None:
    assert fingerprint(*busy_scheduler()) == fingerprint(*busy_scheduler())


def test_reading_leaves_the_fingerprint_as_it_is() -> None:
    """F41: queries never change anything; a cached hash is ignored."""
    cluster, scheduler = busy_scheduler()
    before = fingerprint(cluster, scheduler)
    queue, waiting = scheduler.queue, scheduler.waiting
    assert (queue.head(), scheduler.next_deadline(), waiting.next_deadline()) is not None
    assert [len(queue), len(queue.active), len(queue.backoff), len(queue.unschedulable)]
    assert [list(waiting), list(waiting.groups()), list(scheduler.registry), list(cluster.pods())]
    assert [hash(pod) for pod in cluster.pods()]
    assert waiting.of(next(waiting.groups()))
    assert fingerprint(cluster, scheduler) == before


def test_sharing_of_objects_counts() -> None:
    one: list[int] = []
    other: list[int] = []
    assert fingerprint([one, one]) != fingerprint([one, other])
    assert fingerprint([one, other]) == fingerprint([other, one])
    assert fingerprint((1, 2), (1, 2)) == fingerprint((1, 2), (*[1], 2))


def test_cycle_has_an_end() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    assert "again" in fingerprint(ring)[-1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0, False),
        (1, 1.0),
        (0.0, -0.0),
        ("1", 1),
        ([1, 2], [2, 1]),
        ([1], (1,)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (deque([1]), [1]),
        (Resources({"cpu": 1}), Resources({"cpu": 2})),
        (SortedDict({1: "a"}), {1: "a"}),
        (SortedList([1]), SortedList([2])),
        (len, max),
        (int, float),
    ],
    ids=repr,
)
def test_different_states_have_different_fingerprints(one: object, other: object) -> None:
    assert fingerprint(one) != fingerprint(other)


def test_order_of_a_set_does_not_count() -> None:
    orders = [dict.fromkeys(order) for order in itertools.permutations(["a", "b", "c"])]
    assert len({fingerprint(set(order)) for order in orders}) == 1


def test_impossible_report_is_refused() -> None:
    with pytest.raises(TypeError, match="no fingerprint"):
        fingerprint({"a": [iter({})]})


def test_removal_and_a_return_are_seen_by_their_counters() -> None:
    """A map that has forgotten all pods differs from a map that never had any."""
    waiting = WaitingMap()
    before = fingerprint(waiting)
    waiting.wait(PodUID("u"), node=NodeName("n"), timeout=1, now=0)
    waiting.remove(PodUID("u"))
    assert fingerprint(waiting) != before
    heap: PriorityHeap[str] = PriorityHeap()
    before = fingerprint(heap)
    heap.remove(heap.push(1, "a"))
    assert fingerprint(heap) != before
