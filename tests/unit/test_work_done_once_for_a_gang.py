"""What is done once for a gang equals what would be done for each of its members."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import GroupKey, InMemoryCluster, Pod, PodUID, presets
from gangsched._core._counters import MemberState
from gangsched._core._group_entity import QueuedGroup
from gangsched._core._registry import PodGroupInfo, PodGroupRegistry
from gangsched.framework.placement.like_runs import runs
from gangsched.framework.state.pods import Pods
from gangsched.membership import membership
from gangsched.model import Resources
from gangsched.testing import make_pod

UIDS = [PodUID(f"uid-{number}") for number in range(6)]
_members = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from([None, "ps"]), st.booleans()),
    min_size=1,
    max_size=6,
)


def entity_of(members: list[tuple[str, str | None, bool]]) -> QueuedGroup:
    """Return a queued group with members of some classes and roles, some of them tried."""
    entity = QueuedGroup(1, 0.0, PodGroupInfo(key=GroupKey("ns/g"), uid=1))
    for n, (kind, role, is_tried) in enumerate(members):
        entity.add(Pod(name="p", uid=UIDS[n]), n, role, kind)
        if is_tried:
            entity.mark_tried(UIDS[n])
    return entity


def state_of(entity: QueuedGroup) -> tuple[object, ...]:
    entity._check()
    info, following = entity.group, entity.next_member
    assert info is not None
    return (entity.records(), info.untried, info.untried_by_role, following, list(entity.firsts))


@given(_members, st.sets(st.sampled_from(UIDS)))
def test_discard_all_equals_discard_one_by_one(
    members: list[tuple[str, str | None, bool]], leaving: set[PodUID]
) -> None:
    for uids in (sorted(leaving), UIDS[: len(members)]):
        one_by_one, together = entity_of(members), entity_of(members)
        one_by_one.expected_run = together.expected_run = (0, 1.0)
        if members[0][1] is not None:  # with heaps that are built, too
            assert one_by_one.next_of(["ps"]) == together.next_of(["ps"])
        for uid in uids:
            one_by_one.discard(uid)
        together.discard_all(uids)
        assert state_of(together) == state_of(one_by_one)
        assert together.expected_run is None
        for entity in (one_by_one, together):  # a member that returns is ready
            entity.discard(UIDS[0])
            entity.add(Pod(name="p", uid=UIDS[0]), 0, "ps", "a")
        assert state_of(together) == state_of(one_by_one)
        assert together.next_of(["ps"]) == one_by_one.next_of(["ps"])


@given(_members)
def test_pending_uids_are_those_of_the_pending_members(
    members: list[tuple[str, str | None, bool]],
) -> None:
    entity = entity_of(members)
    entity.discard(UIDS[0])
    assert list(entity.pending_uids) == [pod.uid for pod in entity.pending]


def test_put_all_returns_uids_and_counts_members() -> None:
    info = PodGroupInfo(key=GroupKey("ns/g"), uid=1)
    members: list[Any] = [
        SimpleNamespace(pod=Pod(name="p", uid=uid), group=info, state=None) for uid in UIDS[:3]
    ]
    for uid in UIDS[:3]:
        info.members.set(uid, MemberState.UNSCHEDULED)
    pods = Pods(PodGroupRegistry())
    assert pods.put_all(members, MemberState.WAITING) == UIDS[:3]
    assert (info.unscheduled, info.waiting) == (0, 3)
    assert [member.state for member in members] == [MemberState.WAITING] * 3
    assert pods.put_all([], MemberState.WAITING) == []
    info.members._check()


def test_registry_has_left_groups_until_their_grace_period_ends() -> None:
    registry = PodGroupRegistry(grace=5.0)
    pod = make_pod("p", group="g", min_available=1)
    claim = membership(pod)
    assert claim is not None
    registry.join(pod, claim)
    assert not registry.has_left
    registry.leave(claim.group, pod.uid, now=1.0)
    assert registry.has_left
    registry.expire(now=5.9)
    assert registry.has_left
    registry.expire(now=6.0)
    assert not registry.has_left


@pytest.mark.parametrize("signed", [True, False])
@given(_members)
def test_runs_are_members_of_one_kind_in_order(
    signed: bool, members: list[tuple[str, str | None, bool]]
) -> None:
    nodes = presets.gang(InMemoryCluster())._state.nodes
    requests = Resources({"cpu": 1})
    given_members: list[Any] = [
        SimpleNamespace(
            pod_class=kind,
            requests=Resources({"cpu": 1}) if is_other else requests,  # equal, and another object
            group="g",
            role=role,
            seq=n,
        )
        for n, (kind, role, is_other) in enumerate(members)
    ]
    found = list(runs(nodes, given_members, signed=signed))
    assert [each for *_, run in found for each in run] == given_members
    for _terms, _selected, run in found:
        assert len({(each.pod_class, each.role) for each in run}) == 1
    if signed:
        firsts = [(run[0].pod_class, run[0].role) for *_, run in found]
        assert all(one != other for one, other in pairwise(firsts))
    else:
        assert all(len(run) == 1 for *_, run in found)
