"""The effect of an event on a pod that holds a node: unassumed, bound, or no longer waiting."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bound,
    CycleState,
    EvictGroup,
    GroupKey,
    GroupRejected,
    NodeDeleted,
    NodeName,
    PodGroupAdded,
    PodPhase,
    PodRejected,
    PodScheduled,
    PodUID,
    Wait,
)
from gangsched.errors import ClusterStateError
from gangsched.explain import BackingOff, PartlyRunning, Terminating
from gangsched.plugins import PrioritySort
from gangsched.testing import make_pod
from support.driver import Fate
from support.faulty_driver import faulty_driver, told, update
from support.gangs import GPU, members, node, specify, where

G = GroupKey("default/g")
N = NodeName("n")
P = PodUID("default/p")


# Pods that hold a node ------------------------------------------------------------------------


ENDS = {
    "the node goes": ("node n is gone", "node_gone"),
    "it ends": ("pod p has succeeded", "changed"),
    "its end is asked for": ("pod p is terminating", "changed"),
    "it ranks higher": ("pod p has changed", "changed"),
    "it goes": ("pod p was deleted", "deleted"),
    "time": ("timed out after waiting 9s on permit", "timeout"),
}


@pytest.mark.parametrize("group", [None, "g"])
@pytest.mark.parametrize("fact", ENDS)
def test_waiting_gang_rejected_by_an_event_states_it_and_is_not_tried_in_vain(
    fact: str, group: str | None
) -> None:
    driver, faulty = faulty_driver("permit", "reserve", "unreserve", cpu=4)
    causes = list[tuple[str, float]]()
    faulty.answers = {
        "permit": Wait(9.0),
        "unreserve": lambda *_args, cause, now: causes.append((cause, now)),
    }
    driver.advance(3.0)
    driver.add(make_pod("p", group=group, min_available=1 if group else None))
    driver.drain()
    driver.advance(4.0)
    if fact == "the node goes":
        driver.tell(NodeDeleted(N))
    elif fact == "it ends":
        update(driver, P, phase=PodPhase.SUCCEEDED)
    elif fact == "its end is asked for":
        update(driver, P, deleted_at=4.0)
    elif fact == "it ranks higher":
        update(driver, P, priority=1)
    elif fact == "it goes":
        driver.delete(P)
    else:
        driver.advance(12.0)
    reason, cause = ENDS[fact]
    assert told(driver, PodRejected) == [PodRejected(P, N, reason)]
    assert causes == [(cause, driver.now)]
    assert len(driver.scheduler.queue) == (fact in ("the node goes", "it ranks higher", "time"))


def test_deleted_waiting_member_is_no_failure_of_its_group() -> None:
    """No plugin rejects the group."""
    driver, faulty = faulty_driver("permit", policy=PrioritySort(), cpu=4)
    faulty.answers["permit"] = Wait(9.0)
    driver.add(*members("g", 2))
    driver.drain()
    driver.delete("default/g-1")
    state = driver.scheduler._state
    assert state.pods.entities[G].failures == 0
    driver.delete("default/g-0")
    assert state.attempts.waiting_since == {}


def test_group_whose_only_waiting_member_loses_its_node_assumes_nothing() -> None:
    driver, faulty = faulty_driver("permit", policy=PrioritySort(), cpu=4)
    faulty.answers["permit"] = Wait(9.0)
    driver.add(*members("g", 2, cpu=3))
    driver.drain()
    assert len(driver.scheduler.waiting) == 1
    driver.tell(NodeDeleted(N))
    assert driver.scheduler._state.attempts.waiting_since == {}


@pytest.mark.parametrize("also", [{}, {"phase": PodPhase.SUCCEEDED}])
def test_pod_shown_on_another_node_has_left_the_first(also: dict[str, Any]) -> None:
    driver, _odd = faulty_driver(cpu=4)
    driver.tell(node("m", 4))
    driver.add(evolve(make_pod("p", cpu=4), node_name=N), make_pod("q", cpu=1))
    driver.drain()
    driver.add(make_pod("next", cpu=4))
    driver.drain()
    update(driver, P, node_name=NodeName("m"), **also)
    driver.settle()
    assert where(driver)["next"] == "n"
    for name, info in driver.scheduler._state.nodes.infos.items():
        assert set(info.holders) == {pod.uid for pod in driver.cluster.pods_on(name)}


def test_waiting_pod_bound_by_another_scheduler_waits_no_more() -> None:
    driver, faulty = faulty_driver("permit", "post_bind", cpu=4)
    bound = list[tuple[str, str, float]]()
    faulty.answers = {
        "permit": Wait(9.0),
        "post_bind": lambda pod, node, *, now: bound.append((pod.name, node, now)),
    }
    driver.watched = False
    driver.add(*members("g", 1))
    driver.drain()
    driver.advance(2.0)
    update(driver, PodUID("default/g-0"), node_name=N)
    assert told(driver, PodScheduled) == [PodScheduled(PodUID("default/g-0"), N)]
    assert bound == [("g-0", "n", 2.0)]
    assert list(driver.scheduler.waiting) == []
    assert driver.scheduler._state.attempts.waiting_since == {}


# Waits that are over --------------------------------------------------------------------------


def test_each_pod_whose_wait_expires_backs_off_and_frees_its_node() -> None:
    """A gang with one elastic member, and pods that wait for a plugin on the same nodes."""
    driver, faulty = faulty_driver("permit", policy=PrioritySort(), cpu=4)
    driver.watched = False
    faulty.answers["permit"] = Wait(9.0)
    driver.tell(node("m", 1, 1), node("x", 1), node("y", 1))
    for number, asks in enumerate(({"cpu": 1, GPU: 1}, {"cpu": 2}, {"cpu": 2})):
        driver.add(make_pod(f"g-{number}", group="g", min_available=2, requests=asks, priority=1))
    driver.add(make_pod("p", cpu=1), make_pod("q", cpu=1))
    driver.drain()
    assert len(driver.scheduler.waiting) == 5
    faulty.answers.clear()
    driver.add(make_pod("on-m", requests={GPU: 1}), make_pod("on-n", cpu=4))
    driver.drain()
    assert where(driver) == {}
    driver.advance(9.0)
    (fallen,) = told(driver, GroupRejected)
    assert fallen.reason == "timed out after waiting 9s on permit"
    assert len(driver.scheduler.queue.backoff) == 3
    driver.drain()
    assert where(driver) == {"on-n": "n", "on-m": "m"}


def test_gang_with_a_quorum_waits_on_when_one_wait_expires() -> None:
    driver, faulty = faulty_driver("permit", policy=PrioritySort(), cpu=4)
    driver.watched = False
    faulty.answers["permit"] = lambda _cycle, pod, _node, *, now: Wait(5.0 + int(pod.name[-1]))
    driver.add(*members("g", 3, 2))
    driver.drain()
    driver.advance(5.0)
    assert told(driver, GroupRejected) == []
    assert [each.uid for each in driver.scheduler.waiting] == ["default/g-1", "default/g-2"]
    driver.advance(6.0)
    (fallen,) = told(driver, GroupRejected)
    assert fallen.reason == "timed out after waiting 6s on permit"
    assert list(driver.scheduler.waiting) == []


def test_expired_wait_of_one_member_leaves_its_group_without_nodes() -> None:
    driver, faulty = faulty_driver("permit", cpu=4)
    driver.add(*members("g", 2))
    driver.drain()
    faulty.answers["permit"] = Wait(5.0)
    driver.add(*members("g", 1, 2, prefix="late-"))
    driver.drain()
    assert len(driver.scheduler.waiting) == 1
    driver.advance(5.0)
    assert told(driver, GroupRejected) == []
    assert driver.scheduler._state.attempts.waiting_since == {}


# Binds ----------------------------------------------------------------------------------------


def test_reported_bind_that_the_cluster_state_does_not_show_is_an_error() -> None:
    driver, _odd = faulty_driver(cpu=4)
    driver.fate = Fate.PENDING
    driver.add(make_pod("p"))
    driver.drain()
    with pytest.raises(ClusterStateError) as caught:
        driver.scheduler.handle(Bound(P, N, 1), now=0.0)
    assert str(caught.value) == "default/p: was bound, and the cluster state does not show it"
    assert driver.scheduler.handle(Bound(P, N, 7), now=0.0) == (), "news of another attempt"
    assert driver.scheduler.handle(Bound(PodUID("nobody"), N, 1), now=0.0) == ()
    driver.report(driver.under_way[0], Fate.FAILED)
    assert driver.scheduler.handle(Bound(P, N, 1), now=0.0) == (), "it is over"


def test_failed_bind_frees_its_node_during_backoff() -> None:
    driver, faulty = faulty_driver("reserve", "unreserve", cpu=4)
    causes = list[tuple[str, float]]()
    faulty.answers["unreserve"] = lambda *_args, cause, now: causes.append((cause, now))
    driver.fate = Fate.PENDING
    driver.add(make_pod("p", cpu=4), make_pod("q", cpu=3))
    driver.drain()
    driver.advance(20.0)
    driver.drain()
    (bind,) = driver.under_way
    driver.fate = Fate.DONE
    driver.report(bind, Fate.FAILED)
    assert causes == [("bind_failed", 20.0)]
    driver.drain()
    assert where(driver) == {"q": "n"}


def test_bind_that_was_done_ends_the_row_of_those_that_failed() -> None:
    """Its node is taken from it then, and it is tried again."""
    driver, _odd = faulty_driver(cpu=4)
    driver.watched = False
    driver.add(make_pod("p"))
    for fate, failures in ((Fate.FAILED, 1), (Fate.DONE, 0), (Fate.FAILED, 1), (Fate.FAILED, 2)):
        driver.fate = fate
        driver.advance(driver.now + 20.0)
        driver.step()
        assert driver.scheduler._state.pods.members[P].entity.failures == failures
        if fate is Fate.DONE:
            update(driver, P, node_name=None)


def test_evicted_member_is_pending_again_when_its_bind_fails() -> None:
    driver, faulty = faulty_driver("reserve", "unreserve", cpu=4)
    driver.watched = False
    driver.fate = Fate.PENDING
    driver.add(*members("g", 2))
    driver.drain()
    left = list[int]()

    def undo(cycle: CycleState, *_args: Any, **_how: Any) -> EvictGroup:
        assert cycle.group is not None
        left.append(cycle.group.unscheduled)
        return EvictGroup(G, "all or nothing")

    faulty.answers["unreserve"] = undo
    for bind in list(driver.under_way):
        driver.report(bind, Fate.FAILED)
    assert left == [1, 2]


def test_why_a_bind_failed_is_no_reason_of_a_group_of_which_others_went_since() -> None:
    driver, faulty = faulty_driver("permit", cpu=4)
    driver.fate = Fate.PENDING
    driver.add(*members("g", 1))
    driver.drain()
    faulty.answers["permit"] = Wait(9.0)
    driver.add(*members("g", 1, prefix="late-"))
    driver.drain()
    driver.report(driver.under_way[0], Fate.FAILED)
    faulty.answers.clear()
    driver.tell(PodGroupAdded(specify("g", 1)))
    why = driver.scheduler.why(G)
    assert isinstance(why, PartlyRunning)
    assert why.rest == BackingOff(1.0, 0, "", None)


def test_change_of_a_pod_during_its_bind_holds_after_the_bind_failed() -> None:
    driver, _odd = faulty_driver(cpu=4)
    driver.fate = Fate.PENDING
    driver.add(make_pod("p"))
    driver.drain()
    update(driver, P, deleted_at=0.0)
    driver.report(driver.under_way[0], Fate.FAILED)
    assert isinstance(driver.scheduler.why(P), Terminating)
    assert len(driver.scheduler.queue) == 0


def test_running_pod_that_is_evicted_has_no_earlier_reason() -> None:
    driver, _odd = faulty_driver(cpu=4)
    driver.add(make_pod("p", cpu=5))
    driver.drain()
    driver.tell(node("m", 5))
    driver.settle()
    assert where(driver) == {"p": "m"}
    update(driver, P, deleted_at=1.0)
    assert driver.scheduler.why(P) == Terminating("")


def test_pod_that_becomes_another_as_its_bind_is_shown_was_bound_first() -> None:
    driver, faulty = faulty_driver("post_bind", cpu=4)
    bound = list[tuple[str, str, float]]()
    faulty.answers["post_bind"] = lambda pod, node, *, now: bound.append((pod.name, node, now))
    driver.watched = False
    driver.fate = Fate.PENDING
    driver.add(make_pod("p"))
    driver.drain()
    driver.advance(2.0)
    update(driver, P, node_name=N, priority=7)
    assert bound == [("p", "n", 2.0)]
    assert told(driver, PodScheduled) == [PodScheduled(P, N)]
