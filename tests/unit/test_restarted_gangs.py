"""Gangs that fall below their minimum while they run, and are restarted as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    Evict,
    GroupBelowMinimum,
    GroupBound,
    GroupKey,
    GroupRejected,
    GroupRemoved,
    GroupRestarted,
    NodeAdded,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodPhase,
    Preemption,
    RestartLimitReached,
    RestartPolicy,
    presets,
)
from gangsched.explain import NotAdmitted
from gangsched.testing import make_node, make_pod
from support.story import Story, Way, each_way

G = GroupKey("default/g")
POLICY = RestartPolicy(max_restarts=2, backoff=10.0, longest_backoff=15.0)
FAILED, SUCCEEDED = PodPhase.FAILED, PodPhase.SUCCEEDED
both = pytest.mark.parametrize("make", [presets.gang, presets.coscheduling])


def running(make: Any = presets.gang, size: int = 3, way: Way = Way.LIVE, **how: Any) -> Story:
    """Return a story in which a gang runs that needs three members; its controller is the test."""
    options = {"can_evict": True, **how.pop("options", {})}
    story = Story(lambda cluster: make(cluster, **options), way, holds_evictions=True)
    story.tell(NodeAdded(make_node("n", cpu=9)))
    given: dict[str, Any] = {"min_available": 3, "restart": POLICY, **how}
    story.tell(PodGroupAdded(PodGroup(name="g", **given)))
    add(story, "a", size)
    story.decide()
    return story


def add(story: Story, name: str, size: int = 3, **more: Any) -> None:
    story.add(*(make_pod(f"{name}{n}", group="g", cpu=1, **more) for n in range(size)))


def settle(story: Story) -> None:
    """Let pass the second after which a lost member counts as lost."""
    story.run(until=story.now + 1.0)


@both
def test_lost_member_restarts_the_gang(make: Any) -> None:
    story = running(make)
    story.run(until=99.0)
    story.effects.clear()
    story.delete("a1")
    assert story.effects == []
    story.run(until=100.0)
    kinds = [type(each) for each in story.effects]
    assert kinds == [GroupBelowMinimum, GroupRestarted, Evict, Evict, GroupRejected]
    assert story.effects[0] == GroupBelowMinimum(G, 2, 3)
    assert story.effects[1] == GroupRestarted(G, 1, 2, 110.0)
    assert story.evicted == ["a0", "a2"]


@both
@each_way
def test_restarted_gang_waits_for_its_old_pods_and_its_backoff(make: Any, way: Way) -> None:
    story = running(make, way=way)
    story.update("a1", phase=FAILED)
    settle(story)
    add(story, "b")
    story.delete("a0")
    story.interrupt()
    story.run(until=11.0)
    assert set(story.bound) == {"a1", "a2"}, "an old pod is on a node"
    assert isinstance(story.scheduler.why(G), NotAdmitted)
    assert "being restarted" in str(story.scheduler.why(G))
    story.delete("a2")
    story.run(until=12.0)
    assert set(story.bound) == {"a1", "b0", "b1", "b2"}
    assert story.of(GroupBound)[-1].bound == 3
    assert [each.restarts for each in story.of(GroupRestarted)] == [1], "it is counted once"


@both
def test_backoff_keeps_a_complete_gang_from_starting_whatever_happens(make: Any) -> None:
    story = running(make)
    story.delete("a0")
    settle(story)
    story.delete("a1", "a2")
    add(story, "b")
    story.tell(NodeAdded(make_node("n2", cpu=9)))
    story.run(until=10.9)
    assert not story.bound
    story.run(until=11.0)
    assert len(story.bound) == 3


def test_gang_is_restarted_until_its_limit_and_then_keeps_its_members() -> None:
    story = running()
    for name, later in ("ab", "bc", "cd"):
        story.run(until=story.now + 99.0)
        story.delete(f"{name}0")
        settle(story)
        if name != "c":
            story.delete(f"{name}1", f"{name}2")
            add(story, later)
            story.run(until=story.now + 50.0)
    assert [each.until for each in story.of(GroupRestarted)] == [110.0, 265.0]
    assert story.of(RestartLimitReached) == [RestartLimitReached(G, 2)]
    add(story, "d", 1)
    story.decide()
    assert set(story.bound) == {"c1", "c2", "d0"}, "a late member, as without a policy"


@pytest.mark.parametrize(
    "how", [{"restart": None}, {"options": {"can_evict": False}}], ids=["no policy", "no evictions"]
)
def test_gang_that_cannot_be_restarted_is_reported_once(how: dict[str, Any]) -> None:
    story = running(**how)
    story.delete("a0", "a1")
    settle(story)
    assert story.of(GroupBelowMinimum) == [GroupBelowMinimum(G, 2, 3)]
    assert story.evicted == []


def test_elastic_members_may_be_lost() -> None:
    story = running(size=4)
    story.delete("a0")
    settle(story)
    assert story.of(GroupBelowMinimum) == []


@pytest.mark.parametrize("roles", [{}, {"worker": 3}], ids=["no roles", "roles"])
@pytest.mark.parametrize("is_marked", [True, False])
def test_members_that_succeed_and_are_deleted_do_not_make_a_gang_fall(
    is_marked: bool, roles: dict[str, int]
) -> None:
    story = running(size=0, roles=roles)
    add(story, "a", role="worker")
    story.decide()
    for name in ("a0", "a1", "a2"):
        story.update(name, phase=SUCCEEDED)
        if is_marked:
            story.update(name, deleted_at=story.now)
        story.delete(name)
        settle(story)
        assert story.of(GroupBelowMinimum) == []
    assert story.evicted == []


def test_succeeded_members_that_are_deleted_count_when_another_one_fails() -> None:
    story = running()
    for name in ("a0", "a1"):
        story.update(name, phase=SUCCEEDED)
        story.delete(name)
    settle(story)
    story.update("a2", phase=FAILED)
    settle(story)
    assert story.of(GroupBelowMinimum) == [GroupBelowMinimum(G, 2, 3)]


@pytest.mark.parametrize("roles", [{}, {"worker": 3}], ids=["no roles", "roles"])
def test_succeeded_member_counts_beside_one_that_is_being_bound(roles: dict[str, int]) -> None:
    story = running(size=0, roles=roles)
    add(story, "a", role="worker")
    story.decide()
    story.holds_binds = True
    add(story, "b", 1, role="worker")
    story.decide()
    story.update("a0", phase=SUCCEEDED)
    story.delete("a1")
    settle(story)
    story.finish_binds()
    assert story.of(GroupBelowMinimum) == []
    assert set(story.bound) == {"a0", "a2", "b0"}


@pytest.mark.parametrize("replaced", [2, 3])
def test_deleted_member_that_succeeded_counts_until_a_minimum_starts_without_it(
    replaced: int,
) -> None:
    story = running()
    story.update("a0", phase=SUCCEEDED)
    story.delete("a0", "a1")
    for number, name in enumerate("bc", 1):
        settle(story)
        assert len(story.of(GroupBelowMinimum)) == number
        story.delete(*story.bound)
        add(story, name, replaced)
        story.run(until=story.now + 20.0)
        assert len(story.bound) == replaced
        story.delete(f"{name}0")


def test_lost_role_restarts_the_gang_though_enough_members_are_left() -> None:
    story = running(size=0, roles={"ps": 1})
    add(story, "ps", 1, role="ps")
    add(story, "w", 3, role="worker")
    story.decide()
    story.delete("ps0")
    settle(story)
    assert story.of(GroupRestarted)
    assert story.evicted == ["w0", "w1", "w2"]


@pytest.mark.parametrize("lost_first", [True, False])
def test_raised_minimum_restarts_nothing_and_hides_no_loss(lost_first: bool) -> None:
    story = running()
    group = story.cluster.pod_group(G)
    assert group is not None
    if lost_first:
        story.delete("a0")
    story.tell(PodGroupUpdated(evolve(group, min_available=4)))
    settle(story)
    assert bool(story.of(GroupRestarted)) is lost_first


def test_lowered_minimum_keeps_the_gang_running() -> None:
    story = running()
    group = story.cluster.pod_group(G)
    assert group is not None
    story.delete("a0")
    story.tell(PodGroupUpdated(evolve(group, min_available=2)))
    settle(story)
    assert story.of(GroupBelowMinimum) == []


@pytest.mark.parametrize("failed", [False, True])
def test_gang_of_which_all_members_go_falls_only_if_one_of_them_failed(failed: bool) -> None:
    """A user who deletes a gang does not want it back."""
    story = running()
    if failed:
        story.update("a0", phase=FAILED)
    else:
        story.delete("a0")
    story.delete("a1", "a2")
    settle(story)
    assert bool(story.of(GroupRestarted)) is failed


def test_gang_that_is_preempted_is_not_restarted() -> None:
    story = running(options={"preemption": Preemption()})
    story.add(make_pod("high", cpu=8, priority=9))
    story.decide()
    assert story.evicted == ["a0", "a1", "a2"]
    story.delete("a0", "a1", "a2")
    settle(story)
    assert story.of(GroupRestarted) == []
    assert story.of(GroupBelowMinimum) == []


def test_member_that_is_being_bound_is_evicted_after_its_bind() -> None:
    story = running()
    story.holds_binds = True
    add(story, "late", 1)
    story.decide()
    story.update("a0", phase=FAILED)
    settle(story)
    assert story.evicted == [], "three members hold nodes"
    story.update("a1", phase=FAILED)
    settle(story)
    assert story.evicted == ["a2"]
    story.finish_binds()
    assert story.evicted == ["a2", "late0"]


def test_listing_that_replaces_a_member_at_once_restarts_nothing() -> None:
    story = running()
    story.cluster.apply(PodDeleted(story.uid("a0")))
    story.cluster.apply(PodAdded(evolve(make_pod("b0", group="g", cpu=1), node_name="n")))
    story.scheduler.rebuild(now=story.now)
    story.run(until=3.0)
    assert story.of(GroupBelowMinimum) == []


def test_group_whose_owner_is_gone_is_removed() -> None:
    story = running()
    story.tell(PodGroupDeleted(G))
    assert story.of(GroupRemoved) == []
    story.delete("a0", "a1", "a2")
    assert story.of(GroupRemoved) == [GroupRemoved(G)]
    assert story.of(GroupRestarted) == []
    assert not story.scheduler.snapshot().get("restarts")


def test_gang_is_reported_when_it_falls_after_its_specification_is_deleted() -> None:
    story = running(size=0)
    add(story, "a", min_available=3)
    story.decide()
    story.tell(PodGroupDeleted(G))
    story.delete("a0")
    settle(story)
    assert story.of(GroupBelowMinimum) == [GroupBelowMinimum(G, 2, 3)]


def test_pod_that_stays_terminating_is_waited_for_until_the_end_of_its_time() -> None:
    story = running()
    story.update("a0", phase=FAILED)
    settle(story)
    story.delete("a1")
    story.update("a2", deleted_at=60.0)
    add(story, "b")
    story.run(until=59.0)
    assert len(story.bound) == 2
    story.run(until=200.0)
    assert {"b0", "b1", "b2"} <= set(story.bound)
    assert not [each for each in story.of(Bind) if story.now < 60.0]


def test_older_status_of_a_group_does_not_change_what_is_remembered() -> None:
    story = running()
    story.delete("a0")
    settle(story)
    story.delete("a1", "a2")
    add(story, "b")
    story.run(until=20.0)
    assert len(story.bound) == 3
    group = story.cluster.pod_group(G)
    assert group is not None
    story.tell(PodGroupUpdated(evolve(group, restarts=0, restarting_until=None)))
    story.delete("b0")
    settle(story)
    assert [each.restarts for each in story.of(GroupRestarted)] == [1, 2]
