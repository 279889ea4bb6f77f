"""The bounds on the expected runs of the entities that wait in one equivalence queue."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import PodUID, PodUpdated
from gangsched._core._entity import QueuedEntity
from gangsched._core._equivalence_queue import EquivalenceQueue
from gangsched._core._ordering import sort_key
from gangsched._core._queue import SchedulingQueue
from gangsched._core._run_bounds import RunBounds
from gangsched.errors import InternalError
from gangsched.framework.backfill import reservation, run_times
from gangsched.framework.nodes.reserved_views import exempt
from support.backfill_host import Host, crowded, running
from support.entities import a_pod

RUNS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9).map(float)), max_size=8)


def of_runs(runs: list[tuple[int, float]]) -> list[QueuedEntity]:
    entities = [a_pod(seq, priority=priority) for seq, (priority, _s) in enumerate(runs)]
    for entity, run in zip(entities, runs, strict=True):
        entity.expected_run = run
    return entities


@given(RUNS, st.data())
def test_bounds_hold_for_every_entity_that_waits(
    runs: list[tuple[int, float]], data: st.DataObject
) -> None:
    entities, bounds = of_runs(runs), RunBounds()
    for entity in entities:
        bounds.add(entity)
        bounds._check(entities[: entity.seq + 1])
    bounds.read(runs)
    bounds._check(entities)
    left = data.draw(st.sets(st.integers(0, 7)))
    for entity in entities:
        if entity.seq in left:
            bounds.discard(entity)
    rest = [entity for entity in entities if entity.seq not in left]
    bounds._check(rest)
    bounds.renew(rest)
    bounds._check(rest)
    seconds = [entity.expected_run[1] for entity in rest if entity.expected_run is not None]
    priorities = [entity.expected_run[0] for entity in rest if entity.expected_run is not None]
    assert bounds.shortest == min(seconds, default=float("inf"))
    assert bounds.highest == max(priorities, default=float("-inf"))


@pytest.mark.parametrize("run", [None, (0, 4.0), (1, 5.0)], ids=["unknown", "shorter", "higher"])
def test_check_refuses_an_entity_outside_of_the_bounds(run: tuple[int, float] | None) -> None:
    (entity,), bounds = of_runs([(0, 5.0)]), RunBounds()
    bounds.add(entity)
    bounds.read([(0, 5.0)])
    bounds._check([entity])
    entity.expected_run = run
    with pytest.raises(InternalError, match="is not within 0 and 5"):
        bounds._check([entity])


def test_check_refuses_an_unread_entity_that_does_not_wait() -> None:
    (entity,), bounds = of_runs([(0, 5.0)]), RunBounds()
    bounds.add(entity)
    with pytest.raises(InternalError, match="do not wait"):
        bounds._check([])


def test_entity_is_unread_while_it_waits() -> None:
    queue, entities = SchedulingQueue(sort_key), of_runs([(0, 5.0), (0, 6.0)])
    for entity in entities:
        queue.park(entity, equivalence_class="a", step=1, now=0.0)
    (line,) = queue.blocked_queues()
    assert list(line.runs.unread) == [0, 1]
    queue.remove(entities[0], now=0.0)
    assert list(line.runs.unread) == [1]
    queue.open(line, step=2, now=0.0)
    assert list(line.runs.unread) == [], "the leader is active"


def test_changed_entity_is_unread_again_if_it_waits_in_its_place() -> None:
    queue, (waits, gated) = SchedulingQueue(sort_key), of_runs([(0, 5.0), (0, 6.0)])
    queue.park(waits, equivalence_class="a", step=1, now=0.0)
    queue.gate(gated, now=0.0)
    (line,) = queue.blocked_queues()
    line.runs.read([(0, 5.0)])
    queue.note_changed(gated)
    assert not line.runs.unread
    queue.note_changed(waits)
    assert list(line.runs.unread) == [0]


def first_exempt(host: Host) -> str | None:
    """Return the entity that is tried first of those exempt from the reservation."""
    state = host.scheduler._state
    made = state.reservations.backfill.reservation
    assert made is not None
    with exempt(state.nodes, made.capacity.values()):
        found = reservation._first_exempt(state, made, host.now)
    return None if found is None else found.pod.name


def test_pods_that_run_too_long_are_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds may wait, and each decision asks whether one of them may run."""
    host = crowded()
    for n in range(8):
        host.pod(f"long{n}", 500)
    host.decide()
    assert first_exempt(host) is None
    asked: list[object] = []

    def note(*args: object) -> None:
        asked.append(args)

    monkeypatch.setattr(run_times, "exempt", note)
    assert first_exempt(host) is None
    assert not asked


def newest_line(host: Host) -> EquivalenceQueue:
    return host.scheduler._state.queue.blocked_queues()[-1]


def test_bounds_are_narrowed_when_no_entity_is_within_them() -> None:
    """As after the pod with the shortest run time has left."""
    host = crowded()
    host.pod("long", 500)
    host.decide()
    assert first_exempt(host) is None
    line = newest_line(host)
    line.runs.shortest = 1.0
    assert first_exempt(host) is None
    assert line.runs.shortest == 500


def test_entities_of_a_higher_priority_are_looked_at_however_long_they_run() -> None:
    host = crowded()
    host.pod("long", 500)
    host.decide()
    assert first_exempt(host) is None
    line, state = newest_line(host), host.scheduler._state
    made = state.reservations.backfill.reservation
    assert made is not None

    def may_be_exempt() -> bool:
        found = run_times.may_be_exempt(state.reservations, state.call, made, line, host.now)
        return bool(found)

    assert not may_be_exempt()
    line.runs.highest = made.entity.priority + 1
    assert may_be_exempt()


def test_late_member_that_waits_in_its_place_makes_its_group_unread() -> None:
    host = Host(a=2)
    host.gang("g", 2)
    host.decide()
    host.pod("late-0", 10, group="g", min_available=2)
    host.decide()
    line = newest_line(host)
    (group,) = line.queued
    group.expected_run = (0, 10.0)
    line.runs.read([group.expected_run])
    host.pod("late-1", 20, group="g", min_available=2)
    assert group.expected_run is None
    assert list(line.runs.unread) == [group.seq]
    host.scheduler._check()


def test_pod_that_becomes_short_is_found() -> None:
    """A new version of a pod that waits in its place may end in time."""
    host = crowded()
    host.pod("late", 500)
    host.decide()
    assert first_exempt(host) is None
    pod = host.cluster.pod(PodUID("default/late"))
    assert pod is not None
    shorter = PodUpdated(running(pod, "20"))
    host.scheduler.handle(host.cluster.apply(shorter), now=host.now)
    assert first_exempt(host) == "late"
    host.scheduler._check()
