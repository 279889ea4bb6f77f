"""Members of a group that are alike: tried together, ready together, and told together."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gangsched._core._group_entity import QueuedGroup
from gangsched._core._registry import PodGroupInfo
from gangsched.model import GroupKey, Pod, PodUID
from support.entities import a_group, a_pod, ready_uids

UIDS = [PodUID(f"uid-{number}") for number in range(9)]
INDICES = st.integers(0, 8)
WORDS = st.sampled_from(["too few cpus", "too few GPUs"])


def pod(index: int) -> Pod:
    return Pod(name="p", uid=UIDS[index])


def class_of(index: int) -> str:
    return "abc"[index % 3]


def role_of(index: int) -> str | None:
    return (None, "ps", "worker")[index // 3 % 3] if index % 3 else None


class LikeMembersMachine(RuleBasedStateMachine):
    """A group with members of three classes and three roles, beside a plain model of it."""

    def __init__(self) -> None:
        super().__init__()
        self.group = PodGroupInfo(key=GroupKey("ns/g"), uid=1)
        self.entity = QueuedGroup(1, 0.0, self.group)
        self.pending = dict[int, str]()  # with what each was told
        self.ready = set[int]()

    def like(self, index: int) -> list[int]:
        return sorted(other for other in self.pending if class_of(other) == class_of(index))

    @rule(index=INDICES)
    def add(self, index: int) -> None:
        if index not in self.pending:
            self.entity.add(pod(index), index, role_of(index), class_of(index))
            self.pending[index] = ""
            self.ready.add(index)

    @rule(index=INDICES)
    def discard(self, index: int) -> None:
        self.entity.discard(UIDS[index])
        self.pending.pop(index, None)
        self.ready.discard(index)

    @rule(index=INDICES)
    def mark_tried(self, index: int) -> None:
        self.entity.mark_tried(UIDS[index])
        self.ready.discard(index)

    @rule(index=INDICES)
    def mark_ready(self, index: int) -> None:
        if index in self.pending:
            self.entity.mark_ready(UIDS[index])
            self.ready.add(index)

    @rule(index=INDICES)
    def mark_like_tried(self, index: int) -> None:
        if index in self.pending:
            self.entity.mark_like_tried(UIDS[index])
            self.ready -= set(self.like(index))

    @rule()
    def refill(self) -> None:
        self.entity.refill()
        self.ready = set(self.pending)

    @rule(index=INDICES, told=WORDS)
    def tell_one(self, index: int, told: str) -> None:
        if index in self.pending:
            self.entity.note_told(UIDS[index], None)
            self.pending[index] = told

    @rule(index=INDICES, told=WORDS)
    def tell_those_alike(self, index: int, told: str) -> None:
        if index in self.pending:
            asked = [UIDS.index(each.uid) for each in self.entity.told_otherwise(UIDS[index], told)]
            assert asked == sorted(asked)
            like = self.like(index)
            assert set(asked) <= set(like)
            assert {other for other in like if self.pending[other] != told} <= set(asked)
            self.entity.note_told(UIDS[index], told)
            self.pending.update(dict.fromkeys(like, told))

    @invariant()
    def agrees(self) -> None:
        self.entity._check()
        entity = self.entity
        assert {UIDS.index(each.uid) for each in entity.pending} == set(self.pending)
        assert ready_uids(entity) == tuple(UIDS[index] for index in sorted(self.ready))
        assert entity.ready_count == len(self.ready)
        following = entity.next_member
        assert following == (pod(min(self.ready)) if self.ready else None)
        for role in ("ps", "worker"):
            of_role = [index for index in self.ready if role_of(index) == role]
            assert entity.ready_of(role) == len(of_role)
            assert entity.next_of([role]) == (pod(min(of_role)) if of_role else None)
        firsts: dict[tuple[str, str | None], int] = {}
        for index in sorted(self.pending):
            firsts.setdefault((class_of(index), role_of(index)), index)
        assert [UIDS.index(each.uid) for each in entity.firsts] == sorted(firsts.values())
        if self.pending:
            assert entity.pod == pod(min(self.ready or self.pending))


TestLikeMembersMachine = LikeMembersMachine.TestCase


def test_member_that_arrives_after_like_ones_were_tried_is_ready() -> None:
    entity = a_group(1, members=3)
    entity.mark_like_tried(PodUID("e1-1"))
    assert (entity.next_member, entity.ready_count) == (None, 0)
    entity.add(pod(3), 3)
    assert ready_uids(entity) == (UIDS[3],)
    entity.refill()
    assert entity.ready_count == 4


def test_regular_pod_is_like_no_other() -> None:
    entity = a_pod(1)
    uid = entity.pod.uid
    assert entity.firsts == entity.told_otherwise(uid, "why") == [entity.pod]
    entity.note_told(uid, "why")
    entity.mark_like_tried(uid)
    assert entity.next_member is None


def test_each_member_is_looked_at_once_for_each_thing_that_it_was_told() -> None:
    """With each node that takes one of many late members, the others were looked at once more."""
    entity = a_group(1, members=100)
    first = PodUID("e1-0")
    assert len(entity.told_otherwise(first, "too few cpus")) == 100
    entity.note_told(first, "too few cpus")
    assert entity.told_otherwise(first, "too few cpus") == []
    entity.note_told(PodUID("e1-7"), None)
    entity.add(pod(3), 200)
    assert [each.uid for each in entity.told_otherwise(first, "too few cpus")] == ["e1-7", "uid-3"]
    assert len(entity.told_otherwise(first, "too few GPUs")) == 101


def test_round_of_like_members_touches_no_record() -> None:
    """Marking like members as tried, and a new round, took a step for each of them."""
    entity = a_group(1, members=500)
    (kind,) = entity._kinds[None]
    before = [tuple(record) for record in kind._line]
    for _round in range(3):
        assert entity.next_member is not None
        entity.mark_tried(entity.next_member.uid)
        entity.mark_like_tried(PodUID("e1-0"))
        assert entity.next_member is None
        entity.refill()
        assert len(kind._tried) <= 1
    changed = [
        record for record, old in zip(kind._line, before, strict=True) if tuple(record) != old
    ]
    assert changed == []
