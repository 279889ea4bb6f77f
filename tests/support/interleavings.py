"""Explore all histories that a few moves can make.

Rules:
  R1  every move is made in every reached state in which it is possible. Nothing is random, so a
      property that holds in a walk holds for every order;
  R2  states that are equal for the scheduler and the cluster are visited once;
  R3  a walk over too many states fails, as for a system that never settles.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterator

from attrs import frozen

from gangsched import PodUID
from support.driver import Driver, Fate
from support.restored import restored
from support.shown import situation

__all__ = ["Move", "decide", "pass_early", "pass_time", "report", "walk"]


@frozen
class Move:
    """A move.

    Attributes:
        name: Its name in failures.
        may: Returns whether it is possible now.
        do: Makes the move.
        times: The maximum number of times; None for no limit.
    """

    name: str
    may: Callable[[Driver], bool]
    do: Callable[[Driver], object]
    times: int | None = 1


def _active(driver: Driver) -> bool:
    return bool(driver.scheduler.queue.active)


def _due(driver: Driver) -> bool:
    return driver.scheduler.next_deadline() is not None


def _idle(driver: Driver) -> bool:
    return _due(driver) and not _active(driver)


def _pass(driver: Driver) -> None:
    due = driver.scheduler.next_deadline()
    assert due is not None
    driver.advance(due)


decide = Move("decide", _active, Driver.step, None)
"""The scheduler makes one decision."""

pass_time = Move("pass", _idle, _pass, None)
"""Time passes until the next deadline, while no entity is active."""

pass_early = Move("pass early", _due, _pass)
"""Time passes until the next deadline, although an entity is active.

A driver that always did would let each wait time out, so it is done a bounded number of times.
"""


def report(uid: PodUID, fate: Fate, times: int | None = 1) -> Move:
    """A bind in flight is reported."""

    def is_under_way(driver: Driver) -> bool:
        return any(bind.uid == uid for bind in driver.under_way)

    def tell(driver: Driver) -> None:
        (bind,) = (bind for bind in driver.under_way if bind.uid == uid)
        driver.report(bind, fate)

    return Move(f"{fate.value} {uid.rpartition('/')[2]}", is_under_way, tell, times)


def walk(
    driver: Driver,
    moves: list[Move],
    *,
    at_rest: Callable[[Driver], object],
    always: Callable[[Driver], object] = lambda _driver: None,
    most: int = 100_000,
) -> int:
    """Make every move in every state that can be reached.

    The oracle and the scheduler's own check have a look at each step, as the driver says.

    Args:
        driver: Where it begins; left as it is.
        moves: What may happen.
        at_rest: Looks at each state in which no move may be made any more.
        always: Looks at each state.
        most: How many states there are at most.

    Returns:
        How many states there are.
    """
    seen: set[Hashable] = set()
    begin = tuple(move.times for move in moves)
    stack: list[tuple[Driver, tuple[int | None, ...], tuple[str, ...]]] = [(driver, begin, ())]
    while stack:
        here, left, path = stack.pop()
        known = (left, _fingerprint(here))
        if known in seen:
            continue
        seen.add(known)
        assert len(seen) <= most, f"still walking after {most} states, in step {len(path)}"
        try:
            always(here)
            ways = list(_ways(here, moves, left))
            if not ways:
                at_rest(here)
            for index in ways:
                # the last way goes on with this scheduler, the others with a restored one
                there = here if index == ways[-1] else _copy(here)
                there.log.clear()
                moves[index].do(there)
                rest = (*left[:index], _less(left[index]), *left[index + 1 :])
                stack.append((there, rest, (*path, moves[index].name)))
        except Exception as error:
            error.add_note("by way of: " + ", ".join(path[-60:]))
            raise
    return len(seen)


def _ways(driver: Driver, moves: list[Move], left: tuple[int | None, ...]) -> Iterator[int]:
    for index, (move, times) in enumerate(zip(moves, left, strict=True)):
        if times != 0 and move.may(driver):
            yield index


def _copy(driver: Driver) -> Driver:
    # values need no copy, and one object is known by its identity alone
    memo: dict[int, object] = {id(value): value for value in _values(driver)}
    memo[id(driver.scheduler)] = None
    other = copy.deepcopy(driver, memo)
    # the copied driver has the binds under way
    other.scheduler = restored(driver.make(other.cluster), driver.scheduler.snapshot())
    return other


def _values(driver: Driver) -> Iterator[object]:
    account = driver.oracle.account
    yield driver.make
    yield from (*driver.cluster.pods(), *driver.cluster.nodes(), *driver.cluster.pod_groups())
    yield from (record.pod for record in account.pods.values())
    yield from (node for nodes in account.nodes.values() for node in nodes)


def _less(times: int | None) -> int | None:
    return None if times is None else times - 1


def _fingerprint(driver: Driver) -> Hashable:
    """Return all that the future depends on."""
    cluster = driver.cluster
    return (
        *(driver.now, situation(driver.scheduler)),
        *(tuple(cluster.nodes()), tuple(cluster.pods()), tuple(driver.under_way)),
        *(tuple(driver.landing), tuple(driver.dying)),
    )
