"""The effects of an event about a pod, a group or a bundle on memory and notices."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bound,
    GroupKey,
    GroupRejected,
    GroupScheduled,
    NodeDeleted,
    NodeName,
    Pod,
    PodGroupAdded,
    PodGroupUpdated,
    PodPhase,
    PodRefused,
    PodRejected,
    PodScheduled,
    PodUID,
    Success,
    Unschedulable,
    Wait,
)
from gangsched.errors import ClusterStateError
from gangsched.explain import NotAdmitted, Terminating
from gangsched.plugins import PrioritySort
from gangsched.testing import make_pod
from support.bundles import AB, pods, spec, why
from support.driver import Fate
from support.faulty_driver import faulty_driver, told, update
from support.gangs import GPU, members, node, specify, where
from support.shown import nothing_is_assumed

G = GroupKey("default/g")
P = PodUID("default/p")


# Pods that change -----------------------------------------------------------------------------


def test_finished_pod_without_node_name_frees_its_node() -> None:
    driver, _odd = faulty_driver(cpu=1)
    driver.add(make_pod("p", cpu=1), make_pod("q", cpu=1))
    driver.drain()
    update(driver, P, node_name=None, phase=PodPhase.SUCCEEDED)
    driver.settle()
    assert where(driver) == {"q": "n"}


def test_pod_whose_priority_rises_is_sorted_first() -> None:
    driver, _odd = faulty_driver(cpu=4)
    driver.add(make_pod("p", cpu=3), make_pod("q", cpu=3, priority=1))
    update(driver, P, priority=2)
    driver.drain()
    assert where(driver) == {"p": "n"}


@pytest.mark.parametrize("group", [None, "g"])
def test_pod_that_changes_in_what_a_plugin_holds_it_for_is_held_no_more(
    group: str | None,
) -> None:
    driver, faulty = faulty_driver("pre_enqueue", cpu=4)

    def ask(pod: Pod, given: Any, *, now: float) -> Any:
        assert now == driver.now
        assert (None if given is None else given.key) == (None if group is None else G)
        return Success() if pod.annotations else Unschedulable("not yet")

    faulty.answers["pre_enqueue"] = ask
    driver.add(make_pod("p", group=group, min_available=1 if group else None))
    driver.drain()
    assert where(driver) == {}
    driver.advance(5.0)
    update(driver, P, annotations={"ready": "yes"})
    assert driver.scheduler.queue.head() is not None
    update(driver, P, annotations={})
    driver.drain()
    assert where(driver) == {}
    update(driver, P, annotations={"ready": "yes"})
    driver.drain()
    assert where(driver) == {"p": "n"}


@pytest.mark.parametrize("fact", ["it goes", "it is held", "it waits on a node"])
def test_next_entity_leads_when_an_event_removes_the_leader(fact: str) -> None:
    driver, faulty = faulty_driver("pre_enqueue", "permit", cpu=4)
    driver.add(make_pod("p", cpu=9), make_pod("q", cpu=9))
    driver.drain()
    driver.advance(100.0)
    driver.drain()
    driver.tell(node("large", 18))
    faulty.answers["permit"] = Wait(9.0)
    if fact == "it goes":
        driver.delete(P)
    elif fact == "it is held":
        faulty.answers["pre_enqueue"] = lambda pod, _group, *, now: (
            Unschedulable("not now") if pod.annotations else Success()
        )
        update(driver, P, annotations={"a": "b"})
    else:
        driver.step()
        assert [each.uid for each in driver.scheduler.waiting] == [P]
    head = driver.scheduler.queue.head()
    assert head is not None
    assert head.pod.name == "q"


# Groups ---------------------------------------------------------------------------------------


def test_member_is_refused_while_its_specification_contradicts_it() -> None:
    """F23: also one that was in already."""
    driver, _odd = faulty_driver(cpu=4, strict_priorities=True)
    driver.tell(PodGroupAdded(specify("g", 2, priority=5)))
    driver.add(make_pod("p", group="g", priority=5))
    assert told(driver, PodRefused) == []
    driver.tell(PodGroupUpdated(specify("g", 2, priority=7)))
    (refused,) = told(driver, PodRefused)
    assert refused.uid == P
    assert refused.reason == "pod default/p: priority must be 7, the priority of default/g, got 5"
    driver.tell(PodGroupUpdated(specify("g", 1, priority=5)))
    driver.drain()
    assert where(driver) == {"p": "n"}


def test_member_that_is_in_stays_in_whatever_it_says_then() -> None:
    driver, _odd = faulty_driver(cpu=4)
    driver.add(*(make_pod(name, group="g", min_available=3) for name in "pq"))
    labels = make_pod("q", group="g", min_available=4).labels
    update(driver, PodUID("default/q"), labels=labels)
    assert told(driver, PodRefused) == []
    driver.add(make_pod("r", group="g", min_available=3))
    driver.drain()
    assert len(where(driver)) == 3


def test_group_waited_from_when_it_was_complete_for_the_first_time() -> None:
    driver, _odd = faulty_driver(cpu=4)
    for now, name in ((5.0, "p"), (8.0, "q"), (10.0, "r")):
        driver.advance(now)
        driver.add(make_pod(name, group="g", min_available=2))
    driver.advance(12.0)
    driver.drain()
    (started,) = told(driver, GroupScheduled)
    assert started.waited == 4.0


def test_waiting_group_is_checked_again_when_its_specification_arrives() -> None:
    driver, faulty = faulty_driver("permit", cpu=4)
    faulty.answers["permit"] = Wait(9.0)
    driver.add(*members("g", 1))
    driver.drain()
    faulty.answers.clear()
    driver.tell(PodGroupAdded(specify("g", 1)))
    assert where(driver) == {"g-0": "n"}


def test_waiting_group_is_rejected_with_the_reason_why_it_is_not_admitted() -> None:
    driver, faulty = faulty_driver("permit", "pre_enqueue", cpu=4)
    faulty.answers["permit"] = Wait(9.0)
    driver.add(*members("g", 2))
    driver.drain()
    faulty.answers["pre_enqueue"] = Unschedulable("not now")
    driver.tell(PodGroupAdded(specify("g", 2)))
    assert told(driver, GroupRejected) == [GroupRejected(G, 1, "not now", 1.0)]


# Bundles --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["they go", "their end is asked for"])
def test_group_that_was_to_follow_a_running_group_is_not_admitted_without_it(how: str) -> None:
    driver, _odd = faulty_driver(cpu=4)
    driver.tell(PodGroupAdded(spec("two/b", 2)))
    driver.add(*pods("two/b"))
    driver.drain()
    driver.tell(PodGroupUpdated(spec("two/b", 2, AB)), PodGroupAdded(spec("one/a", 2, AB)))
    driver.add(*pods("one/a", cpu=9))
    driver.settle()
    assert not isinstance(why(driver, "one/a"), NotAdmitted), "it is waited for by nobody"
    for pod in pods("two/b"):
        if how == "they go":
            driver.delete(pod.uid)
        else:
            update(driver, pod.uid, deleted_at=driver.now)
    reason = "waiting for pod group two/b of its bundle: it has no pending members"
    assert why(driver, "one/a") == NotAdmitted(reason)


# The effect of an event on a pod that holds a node: unassumed, bound, or no longer waiting


N = NodeName("n")


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
    driver.scheduler._check()


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
    assert nothing_is_assumed(driver.scheduler)


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


def test_change_of_a_pod_during_its_bind_holds_after_the_bind_failed() -> None:
    driver, _odd = faulty_driver(cpu=4)
    driver.fate = Fate.PENDING
    driver.add(make_pod("p"))
    driver.drain()
    update(driver, P, deleted_at=0.0)
    driver.report(driver.under_way[0], Fate.FAILED)
    assert isinstance(driver.scheduler.why(P), Terminating)
    assert len(driver.scheduler.queue) == 0


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
