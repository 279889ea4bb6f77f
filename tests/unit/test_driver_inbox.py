"""The inbox of a driver: bounded, fair to decisions, and the event loop stays responsive."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    BindFailed,
    Bound,
    Event,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    NodeUpdated,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodUID,
    PodUpdated,
)
from gangsched.drivers._inbox import Inbox, Marker
from gangsched.model import group_key
from gangsched.testing import make_pod
from support.patience import HANG
from support.shells import SHELLS, Aio, Blocking, Shell

both = pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell.__name__.lower())


def node(name: str, cpu: int, kind: Callable[[Node], Event] = NodeUpdated) -> Event:
    return kind(Node(name=NodeName(name), allocatable={"cpu": cpu}))


# Fairness ---------------------------------------------------------------------------------------


@both
def test_driver_decides_while_events_pour_in(shell: type[Shell]) -> None:
    """Each event that is taken in is followed by another, so the inbox is never empty."""
    cluster, taken, bound = InMemoryCluster(), list[Event](), list[int]()

    def apply(event: Event) -> None:
        cluster.apply(event)
        taken.append(event)
        if not bound and len(taken) < 5000:
            run.tell(node("other", len(taken)))
        elif len(taken) == 5000 or bound == [len(taken)]:
            run.driver.stop()

    def bind(_bind: Bind) -> None:
        bound.append(len(taken))

    run = shell(cluster=cluster, apply=apply, bind=bind, max_binds=1)
    run.tell(*(node("other", n) for n in range(200)))
    run.run(node("n0", 1), PodAdded(make_pod("p", cpu=1)))
    assert bound
    assert bound[0] < 1000


@both
def test_events_that_wait_are_taken_in_while_there_is_much_to_decide(shell: type[Shell]) -> None:
    """An event that arrives during a decision does not wait for all the others."""
    decided: list[str] = []
    seen_after: list[int] = []
    cluster = InMemoryCluster()

    def apply(event: Event) -> None:
        cluster.apply(event)
        if event == node("late", 1):
            seen_after.append(len(decided))

    def bind(effect: Bind) -> None:
        decided.append(effect.uid)
        if len(decided) == 1:
            run.tell(node("late", 1))
            run.driver.stop()

    run = shell(cluster=cluster, apply=apply, bind=bind, max_binds=1)
    for n in range(50):
        cluster.apply(PodAdded(make_pod(f"p{n}", cpu=1)))
    run.tell(node("n0", 50))
    run.run_on()
    assert len(decided) == 50
    assert seen_after == [1]


def test_event_loop_runs_other_tasks_at_least_every_five_milliseconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a clock by which each event takes one millisecond."""
    now, ticks = [0.0], list[float]()
    monkeypatch.setattr("gangsched.drivers.aio.time.perf_counter", lambda: now[0])
    cluster = InMemoryCluster()

    def apply(event: Event) -> None:
        now[0] += 0.001
        cluster.apply(event)

    async def tick() -> None:
        while True:
            ticks.append(now[0])
            await asyncio.sleep(0)

    async def story() -> None:
        run = Aio(cluster=cluster, apply=apply, clock=lambda: 0.0)
        run.tell(node("n0", 300), *(PodAdded(make_pod(f"p{n}", cpu=1)) for n in range(600)))
        run.driver.stop()
        ticking = asyncio.create_task(tick())
        await asyncio.sleep(0)
        await run.driver.run()
        ticking.cancel()

    asyncio.run(story())
    gaps = [later - earlier for earlier, later in itertools.pairwise(ticks)]
    assert now[0] > 0.6
    assert max(gaps) <= 0.005 + 1e-9


# Bounds -----------------------------------------------------------------------------------------


@both
def test_flood_of_updates_does_not_make_the_inbox_grow(shell: type[Shell]) -> None:
    run = shell()
    run.tell(PodAdded(make_pod("p", cpu=7)))
    for n in range(6_000):
        run.tell(node(f"n{n % 10}", n))
    assert "4096 events waiting" in repr(run.driver)
    run.run()
    assert {n.name: n.allocatable["cpu"] for n in run.cluster.nodes()} == {
        f"n{n % 10}": n * 1000 for n in range(5_990, 6_000)
    }
    assert len(run.placed()) == 1


FLOOD = [NodeDeleted(NodeName(f"n{n}")) for n in range(5000)]


def test_thread_that_is_ahead_of_the_driver_waits_until_it_is_ready() -> None:
    run = Blocking()
    run.driver.ready()
    run.tell(*FLOOD)
    with pytest.raises(TimeoutError, match="5000 events wait"):
        run.driver.ready(timeout=0.01)
    waits = threading.Thread(target=run.driver.ready, daemon=True)
    waits.start()
    running = threading.Thread(target=run.run_on, daemon=True)
    running.start()
    waits.join(HANG)
    assert not waits.is_alive()
    run.driver.stop()
    running.join(HANG)


def test_thread_in_run_does_not_wait_until_it_is_ready() -> None:
    run: Blocking = Blocking(apply=lambda _event: run.driver.ready())
    run.run(*FLOOD)


def test_tasks_that_are_ahead_of_the_driver_wait_until_it_is_ready() -> None:
    longest = 0

    async def story() -> None:
        nonlocal longest
        run = Aio()

        async def tell(number: int) -> None:
            nonlocal longest
            for n in range(3000):
                await run.driver.ready()
                run.tell(NodeDeleted(NodeName(f"n{number}-{n}")))
                longest = max(longest, int(repr(run.driver).split(": ")[1].split()[0]))

        tellers = [asyncio.create_task(tell(number)) for number in range(3)]
        await asyncio.sleep(0)
        running = asyncio.create_task(run.driver.run())
        async with asyncio.timeout(HANG):
            await asyncio.gather(*tellers)
            run.driver.stop()
            await running

    asyncio.run(story())
    assert longest == 4096


# The inbox itself -------------------------------------------------------------------------------


def taken(inbox: Inbox) -> list[Event | Marker | None]:
    return [inbox.take() for _number in range(len(inbox))]


def group(minimum: int, kind: Callable[[PodGroup], Event]) -> Event:
    return kind(PodGroup(name="g", min_available=minimum))


def pod(cpu: int, kind: Callable[[Pod], Event]) -> Event:
    return kind(make_pod("p", cpu=cpu))


PAIRS: list[tuple[Event, Event, Event]] = [
    (pod(1, PodAdded), pod(2, PodUpdated), pod(2, PodAdded)),
    (pod(1, PodUpdated), pod(2, PodAdded), pod(2, PodAdded)),
    (node("n", 1, NodeAdded), node("n", 2), node("n", 2, NodeAdded)),
    (node("n", 1), node("n", 2), node("n", 2)),
    (group(1, PodGroupAdded), group(2, PodGroupUpdated), group(2, PodGroupAdded)),
]


@pytest.mark.parametrize(("first", "second", "merged"), PAIRS)
def test_update_replaces_the_event_that_waits_for_its_object(
    first: Event, second: Event, merged: Event
) -> None:
    other = node("other", 1)
    below, above = Inbox(3), Inbox(2)
    for inbox in (below, above):
        for event in (first, other, second):
            inbox.put(event)
    assert taken(below) == [first, other, second]
    assert taken(above) == [merged, other]


UID = PodUID("default/p")
BARRIERS: list[tuple[Event, Event]] = [
    (pod(1, PodUpdated), PodDeleted(UID)),
    (pod(1, PodUpdated), Bound(UID, NodeName("n"), 1)),
    (pod(1, PodUpdated), BindFailed(UID, 1, "why")),
    (node("n", 1), NodeDeleted(NodeName("n"))),
    (group(2, PodGroupUpdated), PodGroupDeleted(group_key("default", "g"))),
]


@pytest.mark.parametrize(("update", "barrier"), BARRIERS)
def test_no_event_is_moved_across_a_deletion_or_a_report(update: Event, barrier: Event) -> None:
    inbox = Inbox(1)
    for event in (update, barrier, update, update, barrier):
        inbox.put(event)
    assert taken(inbox) == [update, barrier, update, barrier]


@pytest.mark.parametrize("marker", list(Marker))
def test_no_event_is_moved_across_a_marker(marker: Marker) -> None:
    inbox = Inbox(1)
    inbox.put(node("n", 1))
    inbox.mark(marker)
    inbox.put(node("n", 2))
    assert inbox.take() == node("n", 1)
    assert inbox.stop_is_next == (marker is Marker.STOP)
    assert inbox.take() == (None if marker is Marker.STOP else marker)
    assert inbox.take_stop() == (marker is Marker.STOP)
    assert inbox.take() == node("n", 2)
    assert (inbox.take(), inbox.take_stop(), len(inbox)) == (None, False, 0)


_told = st.one_of(
    st.builds(lambda n, cpu: node(f"n{n}", cpu), st.integers(0, 2), st.integers(1, 3)),
    st.builds(lambda n: NodeDeleted(NodeName(f"n{n}")), st.integers(0, 2)),
    st.builds(
        lambda n, cpu: PodUpdated(make_pod(f"p{n}", cpu=cpu)), st.integers(0, 2), st.integers(1, 3)
    ),
    st.builds(lambda n: PodDeleted(PodUID(f"default/p{n}")), st.integers(0, 2)),
)


@given(st.lists(st.one_of(_told, st.none()), max_size=40), st.integers(1, 6))
def test_cluster_is_the_same_however_many_events_were_replaced(told: list[Any], limit: int) -> None:
    """None stands for the driver taking in an event."""
    whole, merged, inbox = InMemoryCluster(), InMemoryCluster(), Inbox(limit)
    for event in told:
        if event is not None:
            whole.apply(event)
            inbox.put(event)
        else:
            taken = inbox.take()
            if taken is not None:
                assert not isinstance(taken, Marker)
                merged.apply(taken)
    while (left := inbox.take()) is not None:
        assert not isinstance(left, Marker)
        merged.apply(left)
    assert {n.name: n for n in merged.nodes()} == {n.name: n for n in whole.nodes()}
    assert {p.uid: p for p in merged.pods()} == {p.uid: p for p in whole.pods()}
