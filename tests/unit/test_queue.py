"""Compare the scheduling queue with a simple model of the place of each entity."""

from __future__ import annotations

from attrs import define
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from gangsched._core._entity import Place, QueuedEntity
from gangsched._core._equivalence_queue import EquivalenceQueue
from gangsched._core._ordering import sort_key
from gangsched._core._queue import SchedulingQueue
from gangsched.protocols import QueueSortKey
from support.entities import a_group, a_pod

COUNT = 7
entities = st.integers(0, COUNT - 1)
shapes = st.sampled_from(["s", "t"])
rests = st.sampled_from([0.0, 0.0, 1.0, 3.0])


@define
class LineModel:
    """The model of an equivalence queue, without its order."""

    blocked: bool = False
    opened_at: int = -1


class QueueMachine(RuleBasedStateMachine):
    """Random sequences of the moves that a scheduler makes."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = SchedulingQueue(sort_key)
        self.now = 0.0
        self.step = 0
        self.shape: dict[int, str] = {}
        self.lines: dict[str, LineModel] = {}
        self.gated: set[int] = set()
        self.queued: set[int] = set()
        self.keys: dict[int, QueueSortKey] = {}
        self.entities: list[QueuedEntity] = []

    @initialize(
        kinds=st.lists(
            st.tuples(st.booleans(), st.integers(0, 2), st.integers(0, 1)),
            min_size=COUNT,
            max_size=COUNT,
        )
    )
    def prepare(self, kinds: list[tuple[bool, int, int]]) -> None:
        for seq, (grouped, priority, at) in enumerate(kinds):
            made = (
                a_group(seq, priority=priority, created_at=at)
                if grouped
                else a_pod(seq, priority=priority, queued_at=at)
            )
            self.entities.append(made)

    # What happens ---------------------------------------------------------------------------

    def take_out(self, index: int) -> QueuedEntity:
        """Remove an entity, as every move does first."""
        entity = self.entities[index]
        self.gated.discard(index)
        self.queued.discard(index)
        shape = self.shape.pop(index, None)
        if shape is not None and shape not in self.shape.values():
            del self.lines[shape]
        return entity

    def end_attempt(self, entity: QueuedEntity) -> None:
        if entity.group is not None:
            entity.group.attempt_started_at = None

    @rule(index=entities, rest=rests)
    def activate(self, index: int, rest: float) -> None:
        entity = self.take_out(index)
        self.queue.remove(entity, now=self.now)
        self.end_attempt(entity)
        entity.backoff_until = self.now + rest
        self.keys[index] = sort_key(entity)
        self.queue.activate(entity, now=self.now)
        self.queued.add(index)

    @rule(index=entities, rest=rests, shape=shapes, age=st.integers(0, 3))
    def park(self, index: int, rest: float, shape: str, age: int) -> None:
        """An attempt failed now, some steps ago, or at an unknown step (-1)."""
        entity = self.take_out(index)
        self.queue.remove(entity, now=self.now)
        self.end_attempt(entity)
        self.step += 1
        step = max(self.step - age, -1)
        entity.backoff_until = self.now + rest
        entity.queued_at = self.now
        self.keys[index] = sort_key(entity)
        self.queue.park(entity, equivalence_class=shape, step=step, now=self.now)
        line = self.lines.setdefault(shape, LineModel())
        line.blocked = line.blocked or step > line.opened_at
        self.shape[index] = shape
        self.queued.add(index)

    @rule(index=entities)
    def activate_by_name(self, index: int) -> None:
        """An event about an entity moves it from any place; its backoff continues."""
        entity = self.entities[index]
        if index in self.queued:
            self.take_out(index)
            self.keys[index] = sort_key(entity)
            self.queue.activate(entity, now=self.now)
            self.queued.add(index)

    @rule(index=entities)
    def gate(self, index: int) -> None:
        entity = self.take_out(index)
        self.queue.gate(entity, now=self.now)
        self.end_attempt(entity)
        self.gated.add(index)
        self.queued.add(index)

    @rule(index=entities)
    def remove(self, index: int) -> None:
        entity = self.take_out(index)
        self.queue.remove(entity, now=self.now)
        self.end_attempt(entity)
        assert entity.place is Place.NOWHERE

    @rule()
    def pop(self) -> None:
        """``pop`` removes the head; without active entities it returns None."""
        head = self.queue.head()
        popped = self.queue.pop(now=self.now)
        assert popped is head
        if popped is not None:
            self.take_out(self.entities.index(popped))
            self.end_attempt(popped)
            assert (popped.place, popped.sort_key, popped.equivalence_class) == (
                Place.NOWHERE,
                None,
                None,
            )

    def blocked_line(self, shape: str) -> EquivalenceQueue | None:
        found = [line for line in self.queue.blocked_queues() if line.equivalence_class == shape]
        return found[0] if found else None

    @rule(shape=shapes)
    def open(self, shape: str) -> None:
        line = self.blocked_line(shape)
        if line is not None:
            self.step += 1
            self.queue.open(line, step=self.step, now=self.now)
            self.lines[shape] = LineModel(blocked=False, opened_at=self.step)

    @rule(shape=shapes)
    def block(self, shape: str) -> None:
        line = self.blocked_line(shape)
        if line is not None:
            self.step += 1
            self.queue.block(line, step=self.step)
            assert line.blocked_at == self.step

    @rule(passed=st.sampled_from([0.0, 0.5, 1.0, 3.0]))
    def advance(self, passed: float) -> None:
        self.now += passed
        self.queue.advance(now=self.now)
        assert all(entity.backoff_until > self.now for entity in self.queue.backoff)

    @precondition(lambda self: self.queue.head() is not None)
    @rule()
    def begin_an_attempt(self) -> None:
        head = self.queue.head()
        assert head is not None
        if head.group is not None:
            head.group.attempt_started_at = self.now

    @rule(index=entities, priority=st.integers(0, 2))
    def change_the_priority_of(self, index: int, priority: int) -> None:
        group = self.entities[index].group
        if group is not None:
            group.claimed_priority = priority

    # What holds -----------------------------------------------------------------------------

    @invariant()
    def the_queue_agrees_with_itself(self) -> None:
        self.queue._check()

    @invariant()
    def everybody_is_where_it_was_put(self) -> None:
        active, backoff = set(self.queue.active), set(self.queue.backoff)
        unschedulable = set(self.queue.unschedulable)
        assert len(active) + len(backoff) + len(unschedulable) == len(self.queued)
        assert len(self.queue) == len(self.queued)
        assert active | backoff | unschedulable == {self.entities[i] for i in self.queued}
        assert {self.entities[i] for i in self.gated} <= unschedulable
        assert {i for i, e in enumerate(self.entities) if self.queue.is_gated(e)} == self.gated
        for index in self.queued - self.gated - self.shape.keys():
            assert self.entities[index] not in unschedulable

    @invariant()
    def shapes_and_lines_agree(self) -> None:
        for index, entity in enumerate(self.entities):
            assert entity.equivalence_class == self.shape.get(index)
        blocked = {shape for shape, line in self.lines.items() if line.blocked}
        assert {line.equivalence_class for line in self.queue.blocked_queues()} == blocked
        assert self.queue._queues.keys() == self.lines.keys()

    @invariant()
    def who_rests_is_not_tried_before_its_deadline(self) -> None:
        assert all(entity.backoff_until <= self.now for entity in self.queue.active)
        deadlines = [entity.backoff_until for entity in self.queue.backoff]
        assert deadlines == sorted(deadlines)
        assert self.queue.next_deadline() == (deadlines[0] if deadlines else None)

    @invariant()
    def the_first_of_the_active_is_the_head(self) -> None:
        keys = [entity.sort_key for entity in self.queue.active]
        assert all(key is not None for key in keys)
        assert keys == sorted(keys, key=lambda key: key or ())
        head = self.queue.head()
        assert head is (self.queue.active[0] if keys else None)

    @invariant()
    def one_of_each_shape_is_tried_at_a_time(self) -> None:
        shapes = [
            entity.equivalence_class
            for entity in self.queue.active
            if entity.equivalence_class is not None
        ]
        assert len(shapes) == len(set(shapes))

    @invariant()
    def an_open_line_is_led_by_its_first(self) -> None:
        for shape, line in self.lines.items():
            mine = [self.entities[i] for i, s in self.shape.items() if s == shape]
            standing = [entity for entity in mine if entity.place is Place.UNSCHEDULABLE]
            leading = [entity for entity in mine if entity.place is Place.ACTIVE]
            if line.blocked or not standing:
                continue
            assert len(leading) == 1
            first = min(standing, key=lambda entity: entity.sort_key or ())
            assert first.sort_key is not None
            assert leading[0].sort_key is not None
            assert leading[0].sort_key < first.sort_key or leading[0].is_under_way

    @invariant()
    def sort_keys_are_frozen(self) -> None:
        """F4."""
        for index in self.queued - self.gated:
            assert self.entities[index].sort_key == self.keys[index]


TestQueueMachine = QueueMachine.TestCase
