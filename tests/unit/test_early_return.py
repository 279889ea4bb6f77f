"""Early return from backoff: an event that may help ends it while no other entity is active."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    BindFailed,
    Bound,
    Effect,
    Event,
    GroupKey,
    InMemoryCluster,
    NodeAdded,
    NodeUpdated,
    Pod,
    PodAdded,
    PodDeleted,
    PodUnschedulable,
    Scheduler,
    SchedulingUnit,
    presets,
)
from gangsched._core._entity import Place, QueuedEntity
from gangsched._core._ordering import sort_key
from gangsched._core._queue import SchedulingQueue
from gangsched.testing import make_node, make_pod
from support.entities import a_pod

EACH_UNIT = pytest.mark.parametrize("unit", list(SchedulingUnit))


class Host:
    """A cluster, a scheduler, and the binds that it has asked for."""

    def __init__(self, unit: SchedulingUnit) -> None:
        self.cluster = InMemoryCluster()
        self.scheduler: Scheduler = presets.coscheduling(self.cluster, unit=unit)
        self.log: list[Effect] = []
        self.failures = 0

    def tell(self, *events: Event, now: float) -> None:
        """Apply and handle events, then decide until nothing is left."""
        for event in events:
            self.log += self.scheduler.handle(self.cluster.apply(event), now=now)
        self.decide(now=now)

    def decide(self, *, now: float) -> None:
        while (effects := self.scheduler.schedule_one(now=now)) is not None:
            self.log += effects
            # a pod that was tried itself is told before its group is
            self.failures += isinstance(next(iter(effects), None), PodUnschedulable)
            self.scheduler._check()

    @property
    def binds(self) -> dict[str, int]:
        """The attempt number of the last bind of each pod."""
        return {effect.uid: effect.attempt for effect in self.log if isinstance(effect, Bind)}


def gang(name: str, count: int) -> list[Pod]:
    return [make_pod(f"{name}-{n}", group=name, min_available=count, cpu=1) for n in range(count)]


@EACH_UNIT
@pytest.mark.parametrize("count", [0, 3])
def test_entity_in_backoff_is_tried_when_an_event_helps_and_no_other_is_active(
    unit: SchedulingUnit, count: int
) -> None:
    host = Host(unit)
    pods = gang("g", count) if count else [make_pod("p", cpu=1)]
    host.tell(*map(PodAdded, pods), now=0.0)
    assert host.scheduler.queue.unschedulable
    host.tell(NodeAdded(make_node("n", cpu=3)), now=0.1)
    assert len(host.binds) == len(pods)


@EACH_UNIT
def test_entity_in_backoff_waits_for_its_end_when_the_event_does_not_help(
    unit: SchedulingUnit,
) -> None:
    host = Host(unit)
    host.tell(*map(PodAdded, gang("g", 3)), now=0.0)
    failures = host.failures
    host.tell(NodeAdded(make_node("n", cpu=2)), now=0.1)
    assert (host.binds, host.failures) == ({}, failures)


@EACH_UNIT
def test_member_whose_bind_failed_waits_for_its_backoff_whatever_happens(
    unit: SchedulingUnit,
) -> None:
    """Its failure says nothing about the nodes."""
    host = Host(unit)
    host.tell(NodeAdded(make_node("n", cpu=3)), *map(PodAdded, gang("g", 2)), now=0.0)
    host.tell(BindFailed("default/g-0", 1, "no"), now=0.0)
    host.tell(Bound("default/g-1", "n", 1), now=0.1)
    host.tell(NodeUpdated(make_node("n", cpu=4)), now=0.2)
    host.tell(PodAdded(make_pod("g-2", group="g", min_available=2, cpu=1)), now=0.3)
    assert host.binds == {"default/g-0": 1, "default/g-1": 1}
    due = host.scheduler.next_deadline()
    assert due is not None
    host.decide(now=due)
    assert host.binds["default/g-0"] == 2


@EACH_UNIT
def test_failed_bind_ends_no_backoff(unit: SchedulingUnit) -> None:
    """Otherwise two pods whose binds fail would be tried in turns without any delay."""
    host = Host(unit)
    host.tell(NodeAdded(make_node("n", cpu=1)), now=0.0)
    host.tell(PodAdded(make_pod("a", cpu=1)), PodAdded(make_pod("b", cpu=1)), now=0.0)
    host.tell(BindFailed("default/a", 1, "no"), now=0.1)
    assert host.binds == {"default/a": 1}
    host.decide(now=1.0)
    assert host.binds == {"default/a": 1, "default/b": 1}


@EACH_UNIT
def test_event_that_may_help_costs_one_failed_attempt_for_each_class(
    unit: SchedulingUnit,
) -> None:
    """Each node has a free CPU in pieces too small, so the sum over nodes promises too much."""
    host = Host(unit)
    host.tell(NodeAdded(make_node("n", cpu=1)), now=0.0)
    for name in "abcdefgh":
        big = make_pod(f"{name}-big", group=name, min_available=2, cpu=2)
        host.tell(PodAdded(big), PodAdded(make_pod(f"{name}-1", group=name, cpu=1)), now=0.0)
    before = host.failures
    host.tell(NodeUpdated(make_node("n", cpu=2)), now=0.1)
    assert host.binds == {}
    assert host.failures - before <= 2
    host.decide(now=0.2)
    assert host.failures - before <= 2, "nothing has happened since"


@EACH_UNIT
def test_active_entity_goes_before_one_that_returns_early(unit: SchedulingUnit) -> None:
    host = Host(unit)
    host.tell(PodAdded(make_pod("old", cpu=2, priority=9)), now=0.0)
    node = NodeAdded(make_node("n", cpu=2))
    host.tell(node, PodAdded(make_pod("new", cpu=1)), now=0.1)
    assert list(host.binds) == ["default/new"]
    host.tell(NodeAdded(make_node("m", cpu=2)), now=0.2)
    assert "default/old" in host.binds


def test_early_attempt_that_fails_backs_off_for_longer() -> None:
    """Each member would fit alone, so the event seems to help."""
    host = Host(SchedulingUnit.GROUP)
    big = make_pod("g-big", group="g", min_available=2, cpu=2)
    host.tell(PodAdded(big), PodAdded(make_pod("g-1", group="g", min_available=2, cpu=1)), now=0.0)
    host.tell(NodeAdded(make_node("n", cpu=2)), now=0.5)
    assert host.binds == {}
    info = host.scheduler.registry.get(GroupKey("default/g"))
    assert info is not None
    assert (info.failures, info.backoff_until) == (2, 2.5)
    host.tell(NodeAdded(make_node("m", cpu=1)), now=0.6)
    assert len(host.binds) == 2
    assert info.failures == 0


@EACH_UNIT
def test_deleted_pod_ends_the_backoff_of_a_gang(unit: SchedulingUnit) -> None:
    host = Host(unit)
    host.tell(NodeAdded(make_node("n", cpu=2)), PodAdded(make_pod("p", cpu=1)), now=0.0)
    host.tell(Bound("default/p", "n", 1), now=0.0)
    host.tell(*map(PodAdded, gang("g", 2)), now=0.1)
    assert len(host.binds) == 1
    host.tell(PodDeleted("default/p"), now=0.2)
    assert len(host.binds) == 3


def parked(seq: int, *, priority: int = 0, until: float = 9.0) -> QueuedEntity:
    entity = a_pod(seq, priority=priority, rests_until=until)
    entity.refused_at = 1
    return entity


def test_hasten_returns_the_best_rank_first() -> None:
    queue = SchedulingQueue(sort_key)
    low, high = parked(1), parked(2, priority=5)
    for entity in (low, high):
        queue.park(entity, equivalence_class="s", step=1, now=0.0)
    (line,) = queue.blocked_queues()
    queue.open(line, step=2, now=0.0, helps=True)
    assert queue.head() is None
    assert queue.hasten(now=0.0)
    assert queue.head() is high
    assert not queue.hasten(now=0.0), "another entity is active"
    queue.remove(high, now=0.0)
    assert queue.hasten(now=0.0)
    assert queue.head() is low
    queue._check()


def test_hasten_leaves_entities_whose_class_failed_since() -> None:
    queue = SchedulingQueue(sort_key)
    for seq in (1, 2):
        queue.park(parked(seq), equivalence_class="s", step=1, now=0.0)
    (line,) = queue.blocked_queues()
    queue.open(line, step=2, now=0.0, helps=True)
    assert queue.hasten(now=0.0)
    first = queue.head()
    assert first is not None
    first.backoff_until, first.refused_at = 9.0, 3
    queue.park(first, equivalence_class="s", step=3, now=0.0)
    assert not queue.hasten(now=0.0)
    queue._check()


MOVES = st.lists(
    st.tuples(
        st.sampled_from(["park", "prove nothing", "open", "help", "hasten", "end", "event"]),
        st.integers(0, 5),
        st.integers(0, 1),
    ),
    max_size=40,
)


@given(MOVES)
def test_entity_returns_early_only_after_an_event_later_than_its_failure(
    moves: list[tuple[str, int, int]],
) -> None:
    queue = SchedulingQueue(sort_key)
    entities = [a_pod(seq, priority=seq % 3) for seq in range(6)]
    failed: dict[int, int] = {}
    helped: dict[int, int] = {}
    now = 0.0
    for step, (move, seq, number) in enumerate(moves, 1):
        entity, name = entities[seq], f"s{number}"
        line = queue._queues.get(name)
        if move in ("park", "prove nothing"):
            queue.remove(entity, now=now)
            entity.backoff_until = now + 5.0
            entity.refused_at = step if move == "park" else -1
            queue.park(entity, equivalence_class=name, step=entity.refused_at, now=now)
            failed[seq] = step
            helped.pop(seq, None)
        elif move == "open" and line is not None:
            queue.open(line, step=step, now=now)
        elif move == "help" and line is not None:
            queue.open(line, step=step, now=now, helps=True)
            helped.update({each.seq: step for each in entities if each.equivalence_class == name})
        elif move == "event" and entity.place is Place.BACKOFF:
            queue.activate(entity, now=now)
        elif move == "end":
            now += 2.0
            queue.advance(now=now)
        elif move == "hasten":
            was_idle = not queue.active
            if queue.hasten(now=now):
                assert was_idle
                (head,) = queue.active
                assert helped[head.seq] > failed[head.seq]
                assert head.refused_at >= 0
        queue._check()
