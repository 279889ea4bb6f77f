"""Binds of the asyncio driver begin after a run of decisions where their ends are gathered."""

from __future__ import annotations

import asyncio

import pytest

from gangsched import Bind, Effect, Event, Node, NodeAdded, NodeName, PodAdded
from gangsched.drivers import aio
from gangsched.testing import make_pod
from support.running import on_a_loop, until
from support.shells import Aio


class Began:
    """Binds that end at once.

    Attributes:
        binds: How many binds have begun.
        at_decisions: At each decision to bind, how many binds had begun.
    """

    def __init__(self) -> None:
        self.binds = 0
        self.at_decisions: list[int] = []

    async def bind(self, bind: Bind) -> None:
        self.binds += 1

    # as an observer

    def event(self, event: Event, now: float) -> None:
        return

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        if any(isinstance(effect, Bind) for effect in effects):
            self.at_decisions.append(self.binds)

    def settled(self, now: float) -> None:
        return


async def decided(gather: float) -> list[int]:
    """Return how many binds had begun at each of five decisions."""
    began = Began()
    shell = Aio(bind=began.bind, observers=(began,), gather=gather)
    shell.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 64})))
    shell.tell(*(PodAdded(make_pod(f"p{n}", cpu=1)) for n in range(5)))
    run = asyncio.create_task(shell.driver.run())
    await until(lambda: began.binds == 5)
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    return began.at_decisions


@on_a_loop
async def test_bind_begins_before_the_next_decision_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aio, "_SLICE", 3600.0)
    assert await decided(gather=0.0) == [0, 1, 2, 3, 4]


@on_a_loop
async def test_binds_begin_after_the_decisions_where_their_ends_are_gathered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aio, "_SLICE", 3600.0)
    assert await decided(gather=60.0) == [0, 0, 0, 0, 0]


@on_a_loop
async def test_binds_begin_once_a_run_of_decisions_has_taken_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aio, "_SLICE", 0.0)
    assert await decided(gather=60.0) == [0, 1, 2, 3, 4]
