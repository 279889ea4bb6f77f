"""What stands in the queue: whose turn is to come, and in which order."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gangsched._core._entity import Place, QueuedEntity
from gangsched._core._registry import PodGroupInfo
from gangsched.errors import InternalError
from gangsched.model import GroupKey, Pod, PodUID
from support.entities import a_group, a_pod

UIDS = [PodUID(f"uid-{number}") for number in range(5)]
INDICES = st.integers(0, 4)


def pod(index: int, name: str = "p") -> Pod:
    return Pod(name=name, uid=UIDS[index])


class EntityMachine(RuleBasedStateMachine):
    """Members come, have their turn and go; each has its number for good."""

    def __init__(self) -> None:
        super().__init__()
        self.group = PodGroupInfo(key=GroupKey("ns/g"), uid=1)
        self.entity = QueuedEntity(1, self.group, 0.0)
        self.pending: dict[int, str] = {}
        self.ready: set[int] = set()

    @precondition(lambda self: len(self.pending) < len(UIDS))
    @rule(index=INDICES)
    def add(self, index: int) -> None:
        if index not in self.pending:
            self.entity.add(pod(index), index)
            self.pending[index] = "p"
            self.ready.add(index)

    @rule(index=INDICES, name=st.sampled_from("xyz"))
    def replace(self, index: int, name: str) -> None:
        if index in self.pending:
            self.entity.replace(pod(index, name))
            self.pending[index] = name

    @rule(index=INDICES)
    def discard(self, index: int) -> None:
        self.entity.discard(UIDS[index])
        self.pending.pop(index, None)
        self.ready.discard(index)

    @precondition(lambda self: self.ready)
    @rule(undo=st.booleans())
    def have_a_turn(self, undo: bool) -> None:
        first = min(self.ready)
        self.entity.put_aside(UIDS[first])
        if undo:
            self.entity.put_back(UIDS[first])
        else:
            self.ready.remove(first)

    @rule()
    def refill(self) -> None:
        self.entity.refill()
        self.ready = set(self.pending)

    @invariant()
    def agrees(self) -> None:
        self.entity._check()
        assert len(self.entity) == len(self.pending)
        assert {p.uid: p.name for p in self.entity.pending} == {
            UIDS[index]: name for index, name in self.pending.items()
        }
        assert [uid in self.entity for uid in UIDS] == [i in self.pending for i in range(len(UIDS))]
        assert self.entity.ready_count == self.group.untried == len(self.ready)
        following = self.entity.next_member
        if self.ready:
            assert following is not None
            assert following.uid == UIDS[min(self.ready)]
            assert self.entity.pod is following
        else:
            assert following is None
        if self.pending:
            assert self.entity.pod.uid in {UIDS[index] for index in self.pending}


TestEntityMachine = EntityMachine.TestCase


def test_a_member_that_is_held_back_for_a_while_keeps_its_turn() -> None:
    """A gate that is lifted late does not cost the place in the order of arrival."""
    entity = a_pod(1)
    entity.discard(entity.pod.uid)
    for index in (2, 0, 1):
        entity.add(pod(index), index)
    turns = []
    while (following := entity.next_member) is not None:
        turns.append(following.uid)
        entity.put_aside(following.uid)
    assert turns == UIDS[:3]


def test_who_came_first_is_told_by_numbers_and_never_by_uids() -> None:
    entity = a_group(1, members=0)
    for uid_index, seq in ((1, 3), (3, 2), (2, 1)):
        entity.add(pod(uid_index), seq, f"role of {seq}")
    entity._check()
    turns = []
    while (following := entity.next_of(["role of 3", "role of 2", "role of 1"])) is not None:
        assert entity.next_member is following
        turns.append(following.uid)
        entity.put_aside(following.uid)
    assert turns == [UIDS[2], UIDS[3], UIDS[1]]


@pytest.mark.parametrize("members", [1, 2])
def test_who_had_its_turn_may_have_it_again_and_go(members: int) -> None:
    """Whether others of its role are left or not."""
    entity = a_group(1, members=0)
    for index in range(members):
        entity.add(pod(index), index, "ps")
    for move in (entity.put_aside, entity.put_aside, entity.discard, entity.discard):
        move(UIDS[0])
        entity._check()
        assert entity.ready_of("ps") == members - 1
    assert len(entity) == members - 1


def test_the_turn_of_a_stranger_changes_nothing() -> None:
    entity = a_group(1, members=2)
    entity.put_aside(PodUID("stranger"))
    assert (entity.ready_count, len(entity)) == (2, 2)
    entity._check()


def test_a_new_entity_is_nowhere_and_has_nothing_behind_it() -> None:
    entity = QueuedEntity(7, None, 3.0)
    assert (entity.seq, entity.queued_at, len(entity)) == (7, 3.0, 0)
    assert (entity.place, entity.rank, entity.shape) == (Place.NOWHERE, None, None)
    assert (entity.failures, entity.reason, entity.culprit) == (0, "", None)
    steps = (entity.tried_step, entity.failed_step, entity.stirred_step, entity.round_step)
    assert steps == (-1, -1, -1, -1)
    assert entity.backoff_until < -1e300
    assert entity.next_member is None


def test_a_group_speaks_for_its_members_and_a_pod_for_itself() -> None:
    group, single = a_group(1, priority=7, created_at=3.0), a_pod(2, priority=4)
    assert (group.priority, group.created_at) == (7, 3.0)
    assert (single.priority, single.created_at) == (4, 0.0)


def test_an_attempt_is_under_way_from_its_beginning_to_its_end() -> None:
    entity = a_group(1)
    assert entity.group is not None
    assert not entity.is_under_way
    entity.group.attempt_started_at = 0.0
    assert entity.is_under_way
    assert not a_pod(2).is_under_way


def come_in_another_order(entity: QueuedEntity) -> None:
    entity._pending = entity._ready = dict(reversed(entity._ready.items()))


def miscount(entity: QueuedEntity) -> None:
    assert entity.group is not None
    entity.group.untried = 1


def lose_a_member(entity: QueuedEntity) -> None:
    entity._ready = entity._ready.copy()
    entity._pending.popitem()


def forget_a_role(entity: QueuedEntity) -> None:
    assert entity._ready_by_role is not None
    del entity._ready_by_role["ps"]


def miscount_a_role(entity: QueuedEntity) -> None:
    assert entity.group is not None
    entity.group.untried_by_role["ps"] = 2


@pytest.mark.parametrize(
    ("sabotage", "says"),
    [
        (come_in_another_order, "ready members [2, 1, 0] are out of order"),
        (miscount, "ns/e1: 1 untried, [0, 1, 2] ready"),
        (lose_a_member, "a ready member is not pending"),
        (forget_a_role, "ready by role are {'ps': ['uid-2']}, not {}"),
        (miscount_a_role, "ns/e1: {'ps': 2} untried, {'ps': 1} ready"),
    ],
)
def test_the_check_sees_members_out_of_order_and_counts_that_drifted(
    sabotage: Callable[[QueuedEntity], None], says: str
) -> None:
    entity = a_group(1, members=2)
    entity.add(pod(2), 2, "ps")
    entity._check()
    sabotage(entity)
    with pytest.raises(InternalError) as caught:
        entity._check()
    assert caught.value.invariant == says


@pytest.mark.parametrize("members", [63, 64, 65, 200])
def test_members_have_their_turns_in_order_however_many_they_are(members: int) -> None:
    entity = a_group(1, members=members)
    for _round in range(2):
        turns = []
        while (following := entity.next_member) is not None:
            turns.append(following.uid)
            entity.put_aside(following.uid)
            entity._check()
        assert turns == [f"e1-{number}" for number in range(members)]
        entity.refill()
        entity._check()
    entity.add(Pod(name="late", uid=PodUID("late")), members)
    entity._check()
    assert next(reversed(entity._ready)) == "late"
