"""Threads: one thread at a time may use a heap; without a lock, it only must not crash.

On a free-threaded interpreter, the same tests run on parallel threads.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from gangsched._core._heap import PriorityHeap
from support.heaps import BUILDS, each_build

THREADS, EACH = 6, 1_500


@pytest.fixture(autouse=True)
def switch_often() -> Iterator[None]:
    """Switch threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def run(work: Callable[[int], None]) -> None:
    """Run functions in threads and join them; raise the error of one of them."""
    raised: list[BaseException] = []
    start = threading.Barrier(THREADS)

    def body(number: int) -> None:
        try:
            start.wait()
            work(number)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=body, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


@each_build
def test_threads_share_a_heap_under_a_lock(build: str) -> None:
    heap: PriorityHeap[tuple[int, int]] = BUILDS[build]()
    lock = threading.Lock()
    popped: list[list[tuple[int, int]]] = [[] for _ in range(THREADS)]

    def work(number: int) -> None:
        rng = random.Random(number)
        for n in range(EACH):
            with lock:
                handle = heap.push((rng.randrange(9), float(n)), (number, n))
                match n % 4:
                    case 0:
                        popped[number].append(heap.remove(handle))
                    case 1:
                        heap.rekey(handle, (0, -1.0))
                    case 2:
                        popped[number].append(heap.pop())
                    case _:
                        heap.peek()

    run(work)
    heap._check()
    left = [heap.pop() for _ in range(len(heap))]
    everybody = sorted([*left, *(item for part in popped for item in part)])
    assert everybody == [(number, n) for number in range(THREADS) for n in range(EACH)]


@each_build
def test_threads_with_separate_heaps_need_no_lock(build: str) -> None:
    def work(number: int) -> None:
        heap: PriorityHeap[int] = BUILDS[build]()
        keys = [(n * 7919 % EACH, 0.5) for n in range(EACH)]
        for n, key in enumerate(keys):
            heap.push(key, n)
        assert [keys[heap.pop()] for _ in keys] == sorted(keys)

    run(work)


@each_build
@pytest.mark.parametrize("name", ["packed", "not packed"])
def test_threads_that_share_a_heap_without_lock_do_not_crash(build: str, name: str) -> None:
    """The result is undefined, but the interpreter does not crash."""
    heap: PriorityHeap[int] = BUILDS[build]()

    def work(number: int) -> None:
        rng = random.Random(number)
        handles = []
        for n in range(EACH):
            key = (rng.randrange(50), 0.5) if name == "packed" else (str(rng.randrange(50)),)
            try:
                handles.append(heap.push(key, n))
                if n % 3:
                    heap.pop()
                if n % 5 == 0:
                    heap.remove(handles[rng.randrange(len(handles))])
                if n % 100 == 0:
                    list(heap)
                if n % 400 == 0:
                    heap.clear()
            except Exception:
                continue

    run(work)
    heap.clear()
    assert list(heap) == []
