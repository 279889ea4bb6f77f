"""Candidates for the reservation that a call has no steps left to look ahead for."""

from __future__ import annotations

import pytest

from gangsched import Backfill, NodeAdded
from gangsched.framework.backfill import reservation
from gangsched.framework.placement import budget_shares
from gangsched.testing import make_node
from support.backfill_host import BIG, EXACT, YOUNG, Host, draining, plans


def look_without_steps(host: Host) -> None:
    """Review the reservation in a call that has spent the steps for looking ahead."""
    state = host.scheduler._state
    state.call.steps = state.settings.search_budget // 4
    assert budget_shares.for_look_ahead(state.settings, state.call) == 0
    reservation.look(state, now=host.now)
    host.scheduler._check()


def rejected(host: Host, name: str, priority: int = 0) -> None:
    """Let the attempt of a gang fail, and no more."""
    host.gang(name, 4, priority=priority)
    host._take(host.scheduler.schedule_one(now=host.now) or ())


def half_full() -> Host:
    """Return two nodes of size 2, one half full until 100."""
    host = Host(Backfill(EXACT), a=2, b=2)
    host.pod("old", 100)
    host.decide()
    return host


def test_gang_without_steps_to_look_ahead_gets_the_reservation_in_the_next_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = half_full()
    rejected(host, "big")
    planned = plans(monkeypatch)
    look_without_steps(host)
    assert planned == []
    assert host.scheduler.reservation is None
    host.decide()
    assert host.reservation.group == BIG


def test_gang_that_outranks_the_reservation_without_steps_gets_it_in_the_next_call() -> None:
    host = half_full()
    rejected(host, "big")
    host.decide()
    assert host.reservation.group == BIG
    rejected(host, "young", priority=5)
    look_without_steps(host)
    assert host.reservation.group == BIG
    host.decide()
    assert host.reservation.group == YOUNG


def test_gangs_are_not_considered_again_without_an_event_while_draining_is_paused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No gang that failed is remembered then, so each call would look ahead for the same ones."""
    host = draining()
    host.at(50.0)
    assert host.scheduler.reservation is None
    backfill = host.scheduler._state.reservations.backfill
    assert backfill.is_drain_paused
    backfill.has_no_candidate = False
    planned = plans(monkeypatch)
    look_without_steps(host)
    assert host.decide() == []
    assert planned == []
    host.tell(NodeAdded(make_node("b", cpu=1)))
    host.decide()
    assert planned
