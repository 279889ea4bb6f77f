"""The registry of pod groups, from the first member to the last."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gangsched.errors import InvalidPodGroupError
from gangsched.model import GroupKey, PodGroup, PodUID
from gangsched.primitives.counters import MemberState, RoleCounts
from gangsched.primitives.group_info import PodGroupInfo
from gangsched.primitives.registry import PodGroupRegistry
from support.fingerprint import fingerprint
from support.groups import claim_of, grouped, key

G = key("g")


def join(registry: PodGroupRegistry, *names: str, **how: Any) -> PodGroupInfo:
    for name in names:
        pod = grouped(name, **how)
        info = registry.join(pod, claim_of(pod))
    return info


def spec(minimum: int = 2, **fields: Any) -> PodGroup:
    given_: dict[str, Any] = {"name": "g", "namespace": "ns", "min_available": minimum, **fields}
    return PodGroup(**given_)


def uid(name: str) -> PodUID:
    return PodUID(f"ns/{name}")


def test_first_member_sets_minimum_and_priority() -> None:
    registry = PodGroupRegistry()
    info = join(registry, "a", minimum=3, priority=7, created_at=5.0)
    assert (info.attempts, info.failures, info.untried, info.was_scheduled) == (0, 0, 1, False)
    join(registry, "b", priority=7, created_at=1.0)
    assert (info.min_available, info.priority, info.created_at) == (3, 7, 5.0)
    assert (info.namespace, info.name) == ("ns", "g")
    registry._check()


def test_completeness_counts_members_with_and_without_node() -> None:
    registry = PodGroupRegistry()
    info = registry.set_spec(spec(2, roles={"ps": 2}))
    for name in ("a", "b"):
        pod = grouped(name, annotations={"volcano.sh/task-spec": "ps"})
        registry.join(pod, claim_of(pod))
        assert info.is_complete is (name == "b")
    info.members.set(uid("a"), MemberState.ASSIGNED)
    assert info.is_complete
    assert info.role("ps") == RoleCounts(unscheduled=1, scheduled=1, untried=1)


@pytest.mark.parametrize(
    ("how", "field", "value"),
    [({"minimum": 4}, "min_available", 4), ({"minimum": 3, "priority": 8}, "priority", 8)],
)
def test_contradicting_member_is_refused(how: dict[str, int], field: str, value: int) -> None:
    """F23, rows 32 and 33."""
    registry = PodGroupRegistry()
    info = join(registry, "a", minimum=3, priority=7)
    with pytest.raises(InvalidPodGroupError) as caught:
        join(registry, "b", **{"priority": 7, **how})
    error = caught.value
    assert (error.subject, error.field, error.value) == ("pod ns/b", field, value)
    assert "ns/g" in error.expected
    assert (info.min_available, info.priority, len(info.members)) == (3, 7, 1)
    registry._check()


def test_minimum_and_priority_are_kept_while_a_member_claims_them() -> None:
    registry = PodGroupRegistry()
    info = join(registry, "a", minimum=3, priority=7)
    join(registry, "b", minimum=3, priority=7)
    join(registry, "silent", priority=7)
    registry.leave(G, uid("a"), now=0.0)
    assert (info.min_available, info.priority) == (3, 7)
    for how in ({"minimum": 2, "priority": 7}, {"priority": 8}):
        with pytest.raises(InvalidPodGroupError):
            join(registry, "c", **how)


@pytest.mark.parametrize(("now", "known"), [(10.999, ["ns/h"]), (11.0, [])])
def test_undeclare_deletes_groups_whose_grace_has_ended(now: float, known: list[str]) -> None:
    registry = PodGroupRegistry(grace=10.0)
    pod = grouped("a", "h")
    registry.join(pod, claim_of(pod))
    registry.leave(key("h"), pod.uid, now=1.0)
    registry.set_spec(spec())
    registry.delete_spec(G, now=now)
    assert [info.key for info in registry] == known


def test_claims_of_departed_members_do_not_bind() -> None:
    registry = PodGroupRegistry()
    info = join(registry, "typo", minimum=5)
    join(registry, "silent")
    registry.leave(G, uid("typo"), now=0.0)
    assert info.min_available is None
    join(registry, "c", minimum=2)
    assert info.min_available == 2


def test_group_without_members_is_reset() -> None:
    """F39: a group that returns has no state from before."""
    registry = PodGroupRegistry()
    registry.set_spec(spec(2))
    info = join(registry, "a", minimum=3, priority=1, created_at=4.0)
    info.attempt_started_at = info.last_failure_at = info.complete_at = 9.0
    info.failures, info.backoff_until, info.was_scheduled = 3, 99.0, True
    registry.leave(G, uid("a"), now=0.0)
    assert registry.get(G) is info
    forgotten = (
        "claimed_min",
        "claimed_priority",
        "first_seen_at",
        "attempt_started_at",
        "last_failure_at",
        "complete_at",
    )
    assert [getattr(info, name) for name in forgotten] == [None] * 6
    assert (info.failures, info.backoff_until, info.was_scheduled) == (0, -math.inf, False)


def test_group_counts_are_those_of_its_members() -> None:
    registry = PodGroupRegistry()
    info = join(registry, "a", "b", "c", "d", "e", "f")
    states = (
        MemberState.WAITING,
        MemberState.BINDING,
        MemberState.BINDING,
        MemberState.ASSIGNED,
        MemberState.GATED,
    )
    for name, state in zip("abcde", states, strict=True):
        info.members.set(uid(name), state)
    counts = (info.unscheduled, info.waiting, info.assumed, info.assigned)
    assert counts == (1, 1, 3, 1)
    assert (info.scheduled, info.all) == (4, 5)


def test_refused_members_keep_a_group_without_claims() -> None:
    registry = PodGroupRegistry()
    info = join(registry, "a", minimum=3, priority=1)
    other = grouped("b", minimum=5, priority=2)
    registry.join(other, claim_of(other), MemberState.REFUSED)
    assert info.min_available == 3
    registry.leave(G, uid("a"), now=0.0)
    assert registry.get(G) is info
    assert [info.min_available, info.priority, info.all] == [None, 0, 0]
    join(registry, "c", minimum=4)
    assert info.min_available == 4


@pytest.mark.parametrize(
    "state", [*set(MemberState) - {MemberState.GATED, MemberState.UNSCHEDULED}], ids=str
)
def test_bound_or_finished_member_joins_despite_contradiction(state: MemberState) -> None:
    """Only an unplaced member can be refused: a running one holds its node."""
    registry = PodGroupRegistry()
    info = join(registry, "a", minimum=3, priority=1)
    other = grouped("b", minimum=5, priority=2)
    registry.join(other, claim_of(other), state)
    assert info.members.state(other.uid) is state
    highest = 1 if state is MemberState.REFUSED else 2
    assert (info.min_available, info.priority) == (3, highest)
    registry.leave(G, other.uid, now=0.0)
    assert info.priority == 1
    registry._check()


def test_specification_overrides_claims() -> None:
    registry = PodGroupRegistry()
    info = join(registry, "a", minimum=3, priority=1, created_at=5.0)
    registry.set_spec(spec(2, schedule_timeout=4.0, priority=9, created_at=1.0))
    assert (info.min_available, info.priority, info.created_at) == (2, 9, 1.0)
    assert info.schedule_timeout == 4.0
    registry.delete_spec(G, now=0.0)
    assert (info.min_available, info.priority, info.created_at) == (3, 1, 5.0)
    assert info.schedule_timeout is None


def test_specification_allows_other_minima_not_priorities() -> None:
    registry = PodGroupRegistry()
    registry.set_spec(spec(2, priority=9))
    join(registry, "a", minimum=3, priority=9)
    join(registry, "b", minimum=4, priority=9)
    with pytest.raises(InvalidPodGroupError) as caught:
        join(registry, "c", priority=1)
    assert caught.value.expected == "9, the priority of ns/g"


def test_specification_without_priority_uses_that_of_members() -> None:
    registry = PodGroupRegistry()
    info = registry.set_spec(spec(2))
    assert info.priority == 0
    join(registry, "a", priority=5)
    assert info.priority == 5
    with pytest.raises(InvalidPodGroupError):
        join(registry, "b", priority=6)


def _pickled(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, _pickled])
def test_copy_of_a_group_shows_the_counts_of_its_members(copied: Callable[[Any], Any]) -> None:
    made = copied(join(PodGroupRegistry(), "a", "b", minimum=2))
    assert (made.all, made.unscheduled) == (2, 2)
    made.members.set(uid("a"), MemberState.ASSIGNED)
    assert (made.assigned, made.unscheduled) == (1, 1)


def test_query_creates_no_group() -> None:
    """F41."""
    registry = PodGroupRegistry()
    pod = grouped("a")
    assert registry.get(G) is None
    assert registry.conflict(pod, claim_of(pod)) is None
    assert G not in registry
    registry.leave(G, pod.uid, now=0.0)
    registry.delete_spec(G, now=0.0)
    assert (len(registry), list(registry)) == (0, [])


class RegistryMachine(RuleBasedStateMachine):
    """A group is known exactly while it has a specification or a member."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = PodGroupRegistry()
        self.members: dict[GroupKey, set[PodUID]] = {key(name): set() for name in "gh"}
        self.declared: set[GroupKey] = set()
        self.numbers: list[int] = []

    def note(self, info: PodGroupInfo) -> None:
        if info.uid not in self.numbers:
            assert all(info.uid > number for number in self.numbers)
            self.numbers.append(info.uid)

    @rule(group=st.sampled_from("gh"), name=st.sampled_from("abc"), minimum=st.integers(1, 2))
    def joins(self, group: str, name: str, minimum: int) -> None:
        pod = grouped(name, group, minimum)
        problem = self.registry.conflict(pod, claim_of(pod))
        if problem is not None:
            with pytest.raises(InvalidPodGroupError):
                self.registry.join(pod, claim_of(pod))
        else:
            self.note(self.registry.join(pod, claim_of(pod)))
            self.members[key(group)].add(pod.uid)

    @rule(group=st.sampled_from("gh"), name=st.sampled_from("abc"))
    def leaves(self, group: str, name: str) -> None:
        self.registry.leave(key(group), uid(name), now=0.0)
        self.members[key(group)].discard(uid(name))

    @rule(group=st.sampled_from("gh"), minimum=st.integers(1, 2))
    def declares(self, group: str, minimum: int) -> None:
        self.note(self.registry.set_spec(spec(minimum, name=group)))
        self.declared.add(key(group))

    @rule(group=st.sampled_from("gh"))
    def undeclares(self, group: str) -> None:
        self.registry.delete_spec(key(group), now=0.0)
        self.declared.discard(key(group))

    @invariant()
    def agrees(self) -> None:
        self.registry._check()
        known = {group for group, members in self.members.items() if members} | self.declared
        assert {info.key for info in self.registry} == known
        assert len(self.registry) == len(known)
        for group, members in self.members.items():
            info = self.registry.get(group)
            assert (group in self.registry) is (info is not None) is (group in known)
            if info is not None:
                assert set(info.members) == members
                assert info.all == len(members)


TestRegistryMachine = RegistryMachine.TestCase


def test_groups_that_come_and_go_leave_nothing_behind() -> None:
    """F38, F39, law 7: a group that returns has a new number."""
    registry, fresh = PodGroupRegistry(), PodGroupRegistry()
    for number in range(1, 4):
        assert join(registry, "a", minimum=1).uid == number
        registry.leave(G, uid("a"), now=0.0)
    assert len(registry) == 0
    for _number in range(3):
        fresh.set_spec(spec())
        fresh.delete_spec(G, now=0.0)
    assert fingerprint(registry) == fingerprint(fresh)
