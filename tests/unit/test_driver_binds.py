"""Binds of a driver: concurrent up to ``max_binds``, reported in order, beside decisions."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from gangsched import (
    Bind,
    BindFailed,
    Bound,
    Effect,
    Event,
    GroupScheduled,
    InvalidValueError,
    Node,
    NodeAdded,
    NodeName,
    PodAdded,
    presets,
)
from gangsched.testing import make_pod
from support.patience import HANG
from support.shells import SHELLS, Aio, Blocking, Shell, Together

both = pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell.__name__.lower())


def node(cpu: int) -> Event:
    return NodeAdded(Node(name=NodeName("n0"), allocatable={"cpu": cpu}))


def gang(name: str, size: int, cpu: int = 1) -> list[Event]:
    return [
        PodAdded(make_pod(f"{name}-{n:03}", group=name, min_available=size, cpu=cpu))
        for n in range(size)
    ]


class Reports:
    """An observer that lists the reports of binds in order."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def event(self, event: Event, now: float) -> None:
        if isinstance(event, Bound | BindFailed):
            self.seen.append(event.uid)

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        return

    def settled(self, now: float) -> None:
        return


# Concurrency ----------------------------------------------------------------------------------


@both
def test_binds_of_a_gang_are_under_way_at_once(shell: type[Shell]) -> None:
    """Each of 64 binds waits for the 63 others: one at a time, none would ever end."""
    run = shell(bind=Together(shell, 64).meet)
    run.run(node(64), *gang("a", 64))
    assert len(run.placed()) == 64


@both
@pytest.mark.parametrize("most", [1, 3])
def test_no_more_binds_are_under_way_than_max_binds(shell: type[Shell], most: int) -> None:
    under_way, peak, lock = [0], [0], threading.Lock()

    def enter() -> None:
        with lock:
            under_way[0] += 1
            peak[0] = max(peak[0], under_way[0])

    def leave() -> None:
        with lock:
            under_way[0] -= 1

    def blocked(_bind: Bind) -> None:
        enter()
        time.sleep(0.002)
        leave()

    async def awaited(_bind: Bind) -> None:
        enter()
        await asyncio.sleep(0.002)
        leave()

    bind: Any = blocked if shell is Blocking else awaited
    run = shell(bind=bind, max_binds=most)
    run.run(node(12), *gang("a", 12))
    assert len(run.placed()) == 12
    assert peak == [most]


@both
def test_driver_decides_while_a_bind_is_under_way(shell: type[Shell]) -> None:
    """The bind of the first gang ends only when that of the second is under way."""
    run = shell(bind=Together(shell, 2).meet)
    run.run(node(2), *gang("a", 1), *gang("b", 1))
    started = [effect.group for effect in run.effects if isinstance(effect, GroupScheduled)]
    assert started == ["default/a", "default/b"]
    assert len(run.placed()) == 2


@both
def test_driver_takes_in_events_while_a_bind_is_under_way(shell: type[Shell]) -> None:
    """The bind of the first pod ends only when a pod that arrives meanwhile is being bound."""
    together = Together(shell, 2)

    def bind(effect: Bind) -> Any:
        if effect.uid == "default/a-000":
            run.tell(*gang("b", 1))
            run.driver.stop()
        return together.meet(effect)

    run = shell(bind=bind)
    run.tell(node(2), *gang("a", 1))
    run.run_on()
    assert len(run.placed()) == 2


# Reports ----------------------------------------------------------------------------------------


@both
def test_binds_of_a_gang_are_reported_in_order_however_they_end(shell: type[Shell]) -> None:
    """Each bind of a gang ends after the bind that follows it."""
    over = [threading.Event() for _number in range(9)]
    ended = list[str]()
    over[8].set()

    def follow(bind: Bind) -> int:
        return int(bind.uid[-1]) + 1

    def end(bind: Bind) -> None:
        ended.append(bind.uid)
        over[follow(bind) - 1].set()

    def blocked(bind: Bind) -> None:
        assert over[follow(bind)].wait(HANG)
        end(bind)

    async def awaited(bind: Bind) -> None:
        while not over[follow(bind)].is_set():
            await asyncio.sleep(0)
        end(bind)

    reports = Reports()
    bind: Any = blocked if shell is Blocking else awaited
    run = shell(bind=bind, observers=(reports,))
    run.run(node(8), *gang("a", 8))
    assert ended == sorted(run.placed(), reverse=True)
    assert reports.seen == sorted(run.placed())


@both
def test_every_bind_has_one_report_when_some_fail(shell: type[Shell]) -> None:
    def bind(effect: Bind) -> None:
        if int(effect.uid[-1]) % 3 == 0:
            raise OSError("no route")

    reports = Reports()
    run = shell(presets.gang, bind=bind, observers=(reports,), clock=lambda: 0.0)
    run.run(node(10), *gang("a", 10))
    binds = [effect.uid for effect in run.effects if isinstance(effect, Bind)]
    assert sorted(reports.seen) == sorted(binds)
    assert len(run.placed()) == 6


@both
@pytest.mark.parametrize("seed", range(4))
def test_gangs_start_whole_with_any_number_of_binds_at_once(shell: type[Shell], seed: int) -> None:
    """What a driver places does not depend on how many binds it performs at once."""
    sizes = [1 + (seed * 7 + n * 5) % 6 for n in range(20)]
    events = [node(40), *(pod for n, size in enumerate(sizes) for pod in gang(f"g{n}", size))]
    placed = [shell(max_binds=most) for most in (1, 2, 64)]
    for run in placed:
        run.run(*events)
        assert len(run.placed()) <= 40
        for n, size in enumerate(sizes):
            names = [uid for uid in run.placed() if uid.startswith(f"default/g{n}-")]
            assert len(names) in (0, size)
    assert len({frozenset(run.placed()) for run in placed}) == 1


@pytest.mark.parametrize("value", [0, -1, 1.0, True, None, "8"])
@both
def test_max_binds_that_is_no_count_is_refused(shell: type[Shell], value: Any) -> None:
    with pytest.raises(InvalidValueError) as raised:
        shell(max_binds=value)
    assert (raised.value.field, raised.value.expected) == ("max_binds", "an int >= 1")


def test_binds_that_do_not_wait_are_performed_before_the_next_decision() -> None:
    """As in the simulator: under asyncio such a bind has ended when the driver goes on."""
    seen = list[str]()
    run = Aio(
        bind=lambda bind: seen.append(f"bound {bind.uid}"),
        observe=lambda effect: (
            seen.append(f"started {effect.group}") if isinstance(effect, GroupScheduled) else None
        ),
    )
    run.run(node(3), *gang("a", 2), *gang("b", 1))
    assert seen == [
        "started default/a",
        *("bound default/a-000", "bound default/a-001"),
        *("started default/b", "bound default/b-000"),
    ]
