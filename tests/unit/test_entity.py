"""Queue entities: the ready members and their order."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gangsched._core._entity import Place, QueuedEntity
from gangsched._core._group_entity import QueuedGroup
from gangsched._core._registry import PodGroupInfo
from gangsched.errors import InternalError
from gangsched.model import GroupKey, Pod, PodUID
from support.entities import a_group, a_pod, ready_uids

UIDS = [PodUID(f"uid-{number}") for number in range(5)]
INDICES = st.integers(0, 4)


def pod(index: int, name: str = "p") -> Pod:
    return Pod(name=name, uid=UIDS[index])


class EntityMachine(RuleBasedStateMachine):
    """Members are added, tried and discarded; each keeps its number."""

    def __init__(self) -> None:
        super().__init__()
        self.group = PodGroupInfo(key=GroupKey("ns/g"), uid=1)
        self.entity = QueuedGroup(1, 0.0, self.group)
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
        self.entity.mark_tried(UIDS[first])
        if undo:
            self.entity.mark_ready(UIDS[first])
        else:
            self.ready.remove(first)

    @rule(index=INDICES)
    def have_no_turn(self, index: int) -> None:
        self.entity.mark_tried(UIDS[index])
        self.ready.discard(index)

    @rule(index=INDICES)
    def have_it_back(self, index: int) -> None:
        if index in self.pending:
            self.entity.mark_ready(UIDS[index])
            self.ready.add(index)

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


def test_member_put_back_keeps_its_order() -> None:
    """A member whose gate is removed late keeps its place in the order of arrival."""
    entity = a_group(1, members=0)
    for index in (2, 0, 1):
        entity.add(pod(index), index)
    turns = []
    while (following := entity.next_member) is not None:
        turns.append(following.uid)
        entity.mark_tried(following.uid)
    assert turns == UIDS[:3]


def test_order_is_by_number_not_by_uid() -> None:
    entity = a_group(1, members=0)
    for uid_index, seq in ((1, 3), (3, 2), (2, 1)):
        entity.add(pod(uid_index), seq, f"role of {seq}")
    entity._check()
    turns = []
    while (following := entity.next_of(["role of 3", "role of 2", "role of 1"])) is not None:
        assert entity.next_member is following
        turns.append(following.uid)
        entity.mark_tried(following.uid)
    assert turns == [UIDS[2], UIDS[3], UIDS[1]]


@pytest.mark.parametrize("members", [1, 2])
def test_repeated_put_aside_and_discard_count_once(members: int) -> None:
    """With and without other members of the role."""
    entity = a_group(1, members=0)
    for index in range(members):
        entity.add(pod(index), index, "ps")
    for move in (entity.mark_tried, entity.mark_tried, entity.discard, entity.discard):
        move(UIDS[0])
        entity._check()
        assert entity.ready_of("ps") == members - 1
    assert len(entity) == members - 1


def test_put_aside_of_unknown_uid_changes_nothing() -> None:
    entity = a_group(1, members=2)
    entity.mark_tried(PodUID("stranger"))
    assert (entity.ready_count, len(entity)) == (2, 2)
    entity._check()


def test_new_entity_is_not_queued() -> None:
    entity = QueuedEntity(7, 3.0)
    assert (entity.seq, entity.queued_at, len(entity)) == (7, 3.0, 0)
    assert (entity.place, entity.sort_key, entity.equivalence_class) == (Place.NOWHERE, None, None)
    assert (entity.failures, entity.reason, entity.unschedulable_member) == (0, "", None)
    steps = (entity.tried_step, entity.failed_step, entity.event_step, entity.round_step)
    assert steps == (-1, -1, -1, -1)
    assert entity.backoff_until < -1e300
    assert entity.next_member is None


def test_entity_has_priority_and_creation_of_group_or_pod() -> None:
    group, single = a_group(1, priority=7, created_at=3.0), a_pod(2, priority=4)
    assert (group.priority, group.created_at) == (7, 3.0)
    assert (single.priority, single.created_at) == (4, 0.0)


def test_is_under_way_during_an_attempt() -> None:
    entity = a_group(1)
    assert entity.group is not None
    assert not entity.is_under_way
    entity.group.attempt_started_at = 0.0
    assert entity.is_under_way
    assert not a_pod(2).is_under_way


FACTS: dict[str, Callable[[QueuedEntity], None]] = {
    "a member came": lambda entity: entity.add(pod(4), 9),
    "a member changed": lambda entity: entity.replace(entity.pod),
    "a member went": lambda entity: entity.discard(entity.pod.uid),
    "nobody went": lambda entity: entity.discard_all(()),
}


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize("make", [a_pod, a_group])
def test_changes_of_an_entity_reset_its_prospect(
    make: Callable[[int], QueuedEntity], fact: str
) -> None:
    entity = make(1)
    assert entity.expected_run is None
    entity.expected_run = (0, 60.0)
    entity.mark_tried(entity.pod.uid)
    entity.mark_ready(entity.pod.uid)
    entity.refill()
    assert entity.expected_run == (0, 60.0)
    FACTS[fact](entity)
    assert entity.expected_run is None


def come_in_another_order(entity: QueuedGroup) -> None:
    entity._kinds[None][0]._line.reverse()


def miscount_members(entity: QueuedGroup) -> None:
    entity._kinds[None][0].pending = 3


def pass_a_member_over(entity: QueuedGroup) -> None:
    entity._kinds[None][0]._cursor = 1


def forget_who_was_tried(entity: QueuedGroup) -> None:
    entity.mark_tried(PodUID("e1-1"))
    entity._kinds[None][0]._tried.clear()


def miscount(entity: QueuedGroup) -> None:
    entity._info.untried = 1


def lose_a_member(entity: QueuedGroup) -> None:
    entity._pending.popitem()


def lose_a_turn(entity: QueuedGroup) -> None:
    assert entity._heap is not None
    entity._heap.pop(0)


def forget_a_role(entity: QueuedGroup) -> None:
    assert entity._heaps_by_role is not None
    del entity._heaps_by_role["ps"]


def forget_the_members_of_a_role(entity: QueuedGroup) -> None:
    assert entity._heaps_by_role is not None
    entity._heaps_by_role["ps"].clear()


def miscount_a_role(entity: QueuedGroup) -> None:
    entity._info.untried_by_role["ps"] = 2


def file_a_member_elsewhere(entity: QueuedGroup) -> None:
    entity._kinds["another"] = [entity._kinds[None].pop()]


def note_a_stranger(entity: QueuedGroup) -> None:
    entity._kinds[None][0].untold[PodUID("s")] = [0, pod(0), None, 0]


@pytest.mark.parametrize(
    ("sabotage", "says"),
    [
        (come_in_another_order, "members of role None: [1, 0] are out of order"),
        (
            miscount_members,
            "members of role None: counted 3 pending and 2 ready, there are 2 and 2",
        ),
        (pass_a_member_over, "members of role None: a member is passed over that is not tried"),
        (
            forget_who_was_tried,
            "members of role None: a member that was tried would not be tried again",
        ),
        (miscount, "ns/e1: 1 untried, 3 ready; by role {'ps': 1} and {'ps': 1}"),
        (lose_a_member, "ns/e1: 2 members pending, 3 filed"),
        (lose_a_turn, "ns/e1: no entry leads to member 0"),
        (forget_a_role, "ns/e1: a role with ready members has no heap"),
        (forget_the_members_of_a_role, "ns/e1: no entry leads to member 2"),
        (miscount_a_role, "ns/e1: 3 untried, 3 ready; by role {'ps': 2} and {'ps': 1}"),
        (file_a_member_elsewhere, "ns/e1: members are filed where they do not belong"),
        (note_a_stranger, "members of role None: ['s'] are not all pending"),
    ],
)
def test_check_reports_members_out_of_order(
    sabotage: Callable[[QueuedGroup], None], says: str
) -> None:
    entity = a_group(1, members=2)
    entity.add(pod(2), 2, "ps")
    assert entity.next_member is not None
    assert entity.next_of(["ps"]) is not None
    entity._check()
    sabotage(entity)
    with pytest.raises(InternalError) as caught:
        entity._check()
    assert caught.value.invariant == says


def test_check_reports_missing_ready_members() -> None:
    entity = a_pod(1)
    entity._check()
    entity._pod = None
    with pytest.raises(InternalError) as caught:
        entity._check()
    assert caught.value.invariant == "a ready member is not pending"


def test_regular_pod_is_its_only_member() -> None:
    entity, uid = a_pod(1), PodUID("uid-0")
    entity.discard(entity.pod.uid)
    assert (len(entity), entity.ready_count, entity.pending, entity.next_member) == (0, 0, [], None)
    entity.add(pod(0), 1)
    for stranger in (entity.discard, entity.mark_tried):
        stranger(PodUID("stranger"))
    assert (uid in entity, PodUID("stranger") in entity) == (True, False)
    assert (len(entity), entity.ready_count, entity.next_member) == (1, 1, entity.pod)
    entity.mark_tried(uid)
    entity.replace(pod(0, "newer"))
    assert (len(entity), entity.ready_count, entity.next_member) == (1, 0, None)
    assert (entity.pod.name, [p.name for p in entity.pending]) == ("newer", ["newer"])
    for again in (entity.refill, lambda: entity.mark_ready(uid)):
        again()
        assert entity.ready_count == 1
        entity.mark_tried(uid)
    assert (entity.next_of(["ps"]), entity.ready_of("ps")) == (None, 0)
    entity.discard_all([uid])
    entity.refill()
    assert entity.ready_count == 0
    entity._check()


@pytest.mark.parametrize("members", [63, 64, 65, 200])
def test_members_are_tried_in_order(members: int) -> None:
    entity = a_group(1, members=members)
    for _round in range(2):
        turns = []
        while (following := entity.next_member) is not None:
            turns.append(following.uid)
            entity.mark_tried(following.uid)
            entity._check()
        assert turns == [f"e1-{number}" for number in range(members)]
        entity.refill()
        entity._check()
    entity.add(Pod(name="late", uid=PodUID("late")), members)
    entity._check()
    assert ready_uids(entity)[-1] == "late"


@pytest.mark.parametrize("role", [None, "ps"])
def test_discarded_members_leave_no_ready_records(role: str | None) -> None:
    entity = a_group(1, members=0)
    for number in range(1_000):
        entity.add(Pod(name="p", uid=PodUID(f"{number}")), number, role)
        following = entity.next_member
        assert entity.next_of(["ps"]) is (None if role is None else following)
        if number >= 10:
            entity.discard(PodUID(f"{number - 3}"))
        entity._check()
    assert sum(len(kind._line) for like in entity._kinds.values() for kind in like) < 100
    assert len(entity._heap or ()) < 100
    assert sum(map(len, (entity._heaps_by_role or {}).values())) < 100


@pytest.mark.parametrize("put_back", [0, 2, 4])
def test_member_put_back_takes_its_former_place(put_back: int) -> None:
    """As after a rejected permit. Sorting the members for each of them would cost too much."""
    entity = a_group(1, members=5)
    (kind,), member = entity._kinds[None], entity.pending[put_back]
    assert entity.next_member is not None
    for _again in range(3):
        entity.discard(member.uid)
        entity._check()
        entity.add(member, put_back)
        assert kind.is_in_order
        assert ready_uids(entity) == tuple(f"e1-{number}" for number in range(5))
        entity.mark_tried(member.uid)
        entity.mark_ready(member.uid)
        entity._check()
    turns = []
    while (following := entity.next_member) is not None:
        turns.append(following.uid)
        entity.mark_tried(following.uid)
    assert turns == [f"e1-{number}" for number in range(5)]


@pytest.mark.parametrize("members", [40, 200])
def test_like_members_that_arrive_share_an_entry(members: int) -> None:
    entity = a_group(1, members=members)
    assert entity.next_member is not None
    for number in range(members, members + 3):
        entity.add(Pod(name="late", uid=PodUID(f"late-{number}")), number)
        entity._check()
    assert len(entity._heap or ()) == 1


def test_next_of_keeps_its_heaps_when_members_come_and_go() -> None:
    entity = a_group(1, members=0)
    for number in range(3):
        entity.add(pod(number), number, "ps")
    assert entity.next_of(["ps"]) == pod(0)
    turns = entity._heaps_by_role
    entity.mark_tried(UIDS[0])
    entity.add(pod(3), 3, "worker")
    assert (entity.next_of(["ps"]), entity.next_of(["worker"])) == (pod(1), pod(3))
    assert entity._heaps_by_role is turns


def test_heap_is_dropped_when_most_of_its_entries_are_superfluous() -> None:
    entity = a_group(1, members=2)
    entity.add(pod(0), 2, "ps")
    assert (entity.next_member, entity.next_of(["ps"])) == (entity.pending[0], pod(0))
    for _again in range(1_000):
        for one in entity.pending:
            entity.mark_tried(one.uid)
            entity.mark_ready(one.uid)
        entity._check()
        assert len(entity._heap or ()) <= 70
        assert sum(map(len, (entity._heaps_by_role or {}).values())) <= 70


def test_records_that_are_gone_are_dropped_when_they_outnumber_members() -> None:
    entity = a_group(1, members=100)
    assert entity.next_member is not None
    (kind,) = entity._kinds[None]
    for number in range(100, 1_000):
        late = Pod(name="p", uid=PodUID(f"{number}"))
        entity.add(late, number)
        assert entity.next_member is not None
        assert len(kind._line) <= 2 * len(entity) + 65
        entity.discard(late.uid)


def test_group_without_members_has_no_next_member() -> None:
    entity = a_group(1, members=0)
    assert entity.next_member is None
    assert entity.next_of(["ps"]) is None


def test_group_keeps_no_discarded_member() -> None:
    entity = a_group(1, members=3)
    assert entity.next_member is not None
    for uid in [pod.uid for pod in entity.pending]:
        entity.discard(uid)
    assert (entity._heap, entity._heaps_by_role, entity.pending) == (None, None, [])
    assert not entity._kinds
    assert entity.next_member is None


def test_member_of_a_role_is_inserted_by_its_number() -> None:
    entity = a_group(1, members=0)
    for seq in (0, 2):
        entity.add(pod(seq), seq, "ps")
    assert entity.next_of(["ps"]) == pod(0)
    entity.add(pod(1), 1, "ps")
    entity._check()
    turns = []
    while (following := entity.next_of(["ps"])) is not None:
        turns.append(following.uid)
        entity.mark_tried(following.uid)
        entity._check()
    assert turns == UIDS[:3]


def test_loaded_group_keeps_tried_members() -> None:
    entity = a_group(1, members=0)
    rows = [(pod(0), 0, "ps", False), (pod(1), 1, None, True), (pod(2), 2, "ps", True)]
    entity.load([(*row, "alike") for row in rows])
    entity._check()
    assert ready_uids(entity) == (UIDS[1], UIDS[2])
    assert entity.records() == ((UIDS[0], False), (UIDS[1], True), (UIDS[2], True))
    assert (entity.ready_of("ps"), entity.next_of(["ps"])) == (1, pod(2))
