"""Which blocked queues a node may help: by what one pod needs, and by how many pods must fit."""

from __future__ import annotations

import math
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from gangsched._core._blocked_queues import BlockedQueues, Filing
from gangsched._core._equivalence_queue import EquivalenceQueue
from gangsched.errors import InternalError

CPU = (("cpu", 2),)


@frozen
class Asked:
    """An equivalence class that states what may help it."""

    number: int
    filing: Filing | None


def blocked(*filings: Filing | None) -> BlockedQueues:
    """Return blocked queues of classes with these filings, numbered from 0."""
    found = BlockedQueues()
    for number, filing in enumerate(filings):
        found.add(EquivalenceQueue(Asked(number, filing), number), step=1)
    return found


def near(
    queues: BlockedQueues, *free: dict[str, int], room: Any = math.inf, helps: Any = None
) -> list[int]:
    """Return the numbers of the queues that nodes with so much free may help."""
    found = queues.near(free, lambda section: section == helps, lambda pods: {"pods": room}[pods])
    return [queue.number for queue in found]


def test_gangs_of_like_pods_are_near_only_if_there_is_room_for_all_that_they_need() -> None:
    queues = blocked(*(Filing("low", (CPU,), "pods", least) for least in (8, 1, 4, 2, 4)))
    assert near(queues, {"cpu": 2}, room=0) == []
    assert near(queues, {"cpu": 2}, room=3) == [1, 3]
    assert near(queues, {"cpu": 2}, room=4) == [1, 2, 3, 4]
    assert near(queues, {"cpu": 2}, room=math.inf) == [0, 1, 2, 3, 4]


def test_node_without_room_for_one_pod_helps_no_gang_however_much_room_there_is() -> None:
    queues = blocked(Filing("low", (CPU,), "pods", 1))
    assert near(queues, {"cpu": 1}) == []
    assert near(queues, {"cpu": 1}, {"cpu": 2}) == [0]


def test_queue_is_near_whatever_the_room_if_the_number_of_its_pods_is_not_known() -> None:
    queues = blocked(Filing("low", (CPU,)), None, Filing("low", (CPU,), "pods", 1))
    assert near(queues, {"cpu": 2}, room=0) == [0, 1]


def test_queues_of_a_section_that_is_helped_are_near_whatever_they_need() -> None:
    queues = blocked(Filing("low", (CPU,), "pods", 9), Filing("high", (CPU,), "pods", 9))
    assert near(queues, {}, room=0, helps="high") == [1]


def test_queue_that_is_opened_is_not_near_and_leaves_the_queues_like_it() -> None:
    first = EquivalenceQueue(Asked(1, Filing("low", (CPU,), "pods", 2)), 1)
    other = EquivalenceQueue(Asked(2, Filing("low", (CPU,), "pods", 2)), 2)
    queues = BlockedQueues()
    for queue in (first, other):
        queues.add(queue, step=1)
    queues.discard(first)
    queues._check([first, other])
    assert near(queues, {"cpu": 2}) == [2]
    queues.discard(other)
    queues._check([first, other])
    assert near(queues, {"cpu": 2}) == []


def test_queue_that_is_blocked_again_takes_the_new_step() -> None:
    queue = EquivalenceQueue(Asked(1, None), 1)
    queues = BlockedQueues()
    for step in (5, 5, 3):
        queues.add(queue, step=step)
        assert queue.blocked_at == step
        queues._check([queue])


def test_queue_that_is_filed_by_another_number_of_pods_is_found_by_the_check() -> None:
    queue = EquivalenceQueue(Asked(1, Filing("low", (CPU,), "pods", 2)), 1)
    queues = BlockedQueues()
    queues.add(queue, step=1)
    queue.equivalence_class = Asked(1, Filing("low", (CPU,), "pods", 3))
    with pytest.raises(InternalError, match="other needs"):
        queues._check([queue])


amounts = st.integers(0, 4)


def filing(section: str, needs: list[int], pods: str | None, least: int) -> Filing:
    return Filing(section, tuple((("cpu", n),) for n in needs), pods, least if pods else 0)


filings = st.builds(
    filing,
    st.sampled_from(["a", "b"]),
    st.lists(amounts, min_size=1, max_size=2),
    st.sampled_from([None, "small", "large"]),
    st.integers(1, 5),
)


@given(
    st.lists(st.none() | filings, max_size=8),
    st.sets(st.integers(0, 7)),
    st.lists(amounts, max_size=3),
    st.fixed_dictionaries({"small": st.integers(0, 5), "large": st.integers(0, 5)}),
    st.sampled_from([None, "a"]),
)
def test_queues_near_are_those_that_each_filing_alone_would_find(
    given_filings: list[Filing | None],
    opened: set[int],
    free: list[int],
    room: dict[str, int],
    helped: str | None,
) -> None:
    queues = BlockedQueues()
    every = [EquivalenceQueue(Asked(n, each), n) for n, each in enumerate(given_filings)]
    for queue in every:
        queues.add(queue, step=1)
    for queue in every:
        if queue.number in opened:
            queues.discard(queue)
    queues._check(every)

    def expected(filing: Filing | None) -> bool:
        if filing is None or filing.section == helped:
            return True
        fits = any(need[0][1] <= amount for need in filing.needs for amount in free)
        return fits and (filing.pods is None or filing.least <= room[str(filing.pods)])

    found = queues.near([{"cpu": each} for each in free], lambda s: s == helped, room.__getitem__)
    wanted = [q for q in every if q.number not in opened and expected(given_filings[q.number])]
    assert [queue.number for queue in found] == [queue.number for queue in wanted]
