"""The effects of an event about a pod, a group or a bundle on memory and notices."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Coscheduling,
    GroupKey,
    GroupRejected,
    GroupScheduled,
    InMemoryCluster,
    MatchPolicy,
    Membership,
    NodeName,
    NodeUpdated,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodNotAdmitted,
    PodPhase,
    PodRefused,
    PodUID,
    Profile,
    Scheduler,
    Success,
    Topology,
    Unschedulable,
    Wait,
    WhenBlocked,
    membership,
)
from gangsched.explain import NotAdmitted
from gangsched.framework.nodes.node_table import Nodes
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.testing import make_pod
from support.bundles import AB, pods, spec, specs, why
from support.driver import Fate
from support.faulty_driver import faulty_driver, told, update
from support.gangs import gang_driver, members, node, specify, where

G = GroupKey("default/g")
N = NodeName("n")
P = PodUID("default/p")


# Pods that change -----------------------------------------------------------------------------


def test_finished_pod_without_node_name_frees_its_node() -> None:
    driver, _odd = faulty_driver(cpu=1)
    driver.add(make_pod("p", cpu=1), make_pod("q", cpu=1))
    driver.drain()
    update(driver, P, node_name=None, phase=PodPhase.SUCCEEDED)
    driver.settle()
    assert where(driver) == {"q": "n"}


def test_pod_with_gates_is_held_with_their_names() -> None:
    driver, _odd = faulty_driver(cpu=4)
    driver.add(evolve(make_pod("p"), scheduling_gates=("one", "two")))
    reason = "has scheduling gates: one, two"
    assert told(driver, PodNotAdmitted) == [PodNotAdmitted(P, reason)]
    assert driver.scheduler.why(P) == NotAdmitted(reason)


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


def test_node_labels_are_dropped_with_their_last_reader() -> None:
    driver, _odd = faulty_driver(cpu=4)
    driver.tell(node("m", 4, zone="z", rack="r"))
    labels = driver.scheduler._state.pod_classes.labels
    assert len(labels) == 0
    driver.tell(PodGroupAdded(specify("g", 1, Topology("rack"))))
    assert len(labels) == 1
    driver.tell(PodGroupUpdated(specify("g", 1, Topology("zone"))))
    assert len(labels) == 1
    driver.tell(PodGroupDeleted(G))
    assert len(labels) == 0
    driver = gang_driver(node("n", 4, zone="z"))
    labels = driver.scheduler._state.pod_classes.labels
    driver.add(evolve(make_pod("p"), node_selector={"zone": "z"}))
    assert len(labels) == 1
    driver.delete(P)
    assert len(labels) == 0


def test_group_without_a_label_splits_no_node_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver, _odd = faulty_driver(cpu=4)
    anew = list[str]()
    inner = Nodes.classify_anew

    def noted(nodes: Nodes) -> None:
        anew.append("all")
        inner(nodes)

    monkeypatch.setattr(Nodes, "classify_anew", noted)
    driver.tell(PodGroupAdded(specify("g", 1)), PodGroupUpdated(specify("g", 2)))
    assert anew == []
    driver.tell(PodGroupUpdated(specify("g", 2, Topology("rack"))))
    assert anew == ["all"]
    driver.tell(PodGroupAdded(specify("h", 1, Topology("rack"))), PodGroupDeleted(G))
    assert anew == ["all"], "another reads it"


def test_pod_that_arrives_on_a_node_refreshes_the_node() -> None:
    """Its own event is late."""
    driver, _odd = faulty_driver(cpu=4)
    driver.add(make_pod("p", cpu=6))
    driver.drain()
    driver.advance(20.0)
    driver.drain()
    driver.tell_late(NodeUpdated(node("n", 8).node))
    driver.add(evolve(make_pod("other", cpu=1), node_name=N))
    driver.drain()
    assert where(driver) == {"other": "n", "p": "n"}


def test_pod_that_runs_and_changes_shows_what_has_become_of_its_node() -> None:
    driver, _odd = faulty_driver(cpu=4)
    driver.add(evolve(make_pod("other", cpu=1), node_name=N), make_pod("p", cpu=6))
    driver.drain()
    driver.advance(20.0)
    driver.drain()
    driver.tell_late(NodeUpdated(node("n", 8).node))
    update(driver, PodUID("default/other"), annotations={"a": "b"})
    driver.drain()
    assert where(driver) == {"other": "n", "p": "n"}


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


def test_next_entity_is_tried_when_the_last_untried_member_leaves() -> None:
    """The other of the two waits on a node, and a plugin says that it waits on."""
    driver, faulty = faulty_driver("permit", cpu=0)
    driver.add(*members("g", 2, cpu=1), *members("h", 2, cpu=1))
    driver.settle()
    driver.advance(100.0)
    faulty.answers["permit"] = Wait(9.0)
    driver.tell(node("large", 4))
    driver.step()
    assert [each.uid for each in driver.scheduler.waiting] == ["default/g-0"]
    driver.tell(node("m", 1))
    update(driver, PodUID("default/g-1"), node_name=NodeName("m"))
    assert [each.uid for each in driver.scheduler.waiting] == ["default/g-0"]
    head = driver.scheduler.queue.head()
    assert head is not None
    assert head.pod.name == "h-0"


def test_next_entity_is_tried_when_too_few_members_are_left() -> None:
    """Two were released, and the third is no quorum by the policy: it is not admitted."""
    match = MatchPolicy.ONLY_WAITING
    driver, _odd = faulty_driver(policy=Coscheduling(match_policy=match), match=match, cpu=0)
    driver.add(*(pod for group in "gh" for pod in members(group, 3, 2, cpu=1)))
    driver.settle()
    driver.advance(100.0)
    driver.tell(node("large", 4))
    driver.step()
    driver.step()
    assert set(where(driver)) == {"g-0", "g-1"}
    head = driver.scheduler.queue.head()
    assert head is not None
    assert head.pod.name == "h-0"
    driver.drain()
    assert set(where(driver)) == {"g-0", "g-1", "h-0", "h-1"}


def test_arrival_does_not_repeat_a_cycle_within_a_round() -> None:
    driver, _odd = faulty_driver(policy=Coscheduling(when_blocked=WhenBlocked.UNTIL_TIMEOUT), cpu=4)
    driver.watched = False
    driver.add(make_pod("g-0", group="g", min_available=3, cpu=9))
    driver.add(*(make_pod(f"g-{n}", group="g", min_available=3) for n in (1, 2, 3)))
    driver.step()
    driver.add(make_pod("g-4", group="g", min_available=3))
    driver.step()
    assert [each.uid for each in driver.scheduler.waiting] == ["default/g-1"]


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


def test_contradicting_member_joins_when_a_specification_arrives() -> None:
    driver, _odd = faulty_driver(cpu=4)
    driver.add(make_pod("p", group="g", min_available=2), make_pod("q", group="g", min_available=3))
    assert [each.uid for each in told(driver, PodRefused)] == ["default/q"]
    driver.tell(PodGroupAdded(specify("g", 2)))
    driver.drain()
    assert set(where(driver)) == {"p", "q"}


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


def test_group_with_roles_has_started_where_just_enough_of_each_run() -> None:
    """As after a restart: its release is not remembered."""
    driver, _odd = faulty_driver(cpu=4)
    driver.watched = False
    driver.tell(PodGroupAdded(specify("g", 2, roles={"server": 1})))
    for name, role in (("p", "server"), ("q", "worker")):
        driver.add(evolve(make_pod(name, group="g", role=role), node_name=N))
    (info,) = driver.scheduler.registry
    assert info.was_scheduled


def test_specification_without_members_is_forgotten_when_it_is_deleted() -> None:
    driver, _odd = faulty_driver(cpu=4)
    driver.add(make_pod("other", group="h"))
    driver.delete("default/other")
    driver.tell(PodGroupAdded(specify("g", 2)))
    driver.advance(5.0)
    driver.tell(PodGroupDeleted(G))
    driver.tell(PodGroupDeleted(GroupKey("default/never")))
    assert driver.scheduler._state.pods.registry.get(G) is None


def test_departure_from_a_consistent_group_rereads_no_other_member() -> None:
    asked = list[str]()

    def listen(pod: Pod) -> Membership | None:
        asked.append(pod.name)
        return membership(pod)

    cluster = InMemoryCluster()
    profile = Profile(Coscheduling(), NodeResources(), DefaultBinder())
    scheduler = Scheduler(cluster, profile, membership=listen)
    for pod in members("g", 3, 3):
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    asked.clear()
    scheduler.handle(cluster.apply(PodDeleted(PodUID("default/g-1"))), now=0.0)
    assert asked == []


# Bundles --------------------------------------------------------------------------------------


def test_group_of_another_bundle_is_reported_at_once() -> None:
    driver, faulty = faulty_driver("pre_filter", cpu=4)
    faulty.answers["pre_filter"] = Unschedulable("not today")
    driver.tell(*specs(*AB))
    driver.add(*(pod for group in AB for pod in pods(group)))
    driver.drain()
    assert why(driver, "two/b") == NotAdmitted("starts with pod group one/a")
    driver.tell(PodGroupUpdated(spec("one/a", 2)))
    assert why(driver, "two/b") == NotAdmitted("pod group one/a names another bundle")


def test_waiting_group_is_rejected_when_it_joins_a_bundle() -> None:
    driver, faulty = faulty_driver("permit", cpu=4)
    faulty.answers["permit"] = Wait(9.0)
    driver.tell(PodGroupAdded(spec("two/b", 2, AB)), PodGroupAdded(spec("one/a", 2)))
    driver.add(*pods("two/b"), *pods("one/a"))
    driver.drain()
    assert len(driver.scheduler.waiting) == 2
    driver.tell(PodGroupUpdated(spec("one/a", 2, AB)))
    (fallen,) = told(driver, GroupRejected)
    assert (fallen.group, fallen.reason) == ("one/a", "starts with others of its bundle")
    assert list(driver.scheduler.waiting) == []


def test_group_that_waits_for_a_group_without_binds_is_checked_in_that_instant() -> None:
    driver, faulty = faulty_driver("pre_enqueue", cpu=4)
    asked = list[float]()

    def ask(_pod: Pod, _group: object, *, now: float) -> Success:
        asked.append(now)
        return Success()

    faulty.answers["pre_enqueue"] = ask
    driver.tell(*specs(*AB))
    driver.add(*(pod for group in AB for pod in pods(group)))
    driver.fate = Fate.PENDING
    driver.drain()
    driver.advance(2.0)
    asked.clear()
    for bind in list(driver.under_way):
        driver.report(bind, Fate.FAILED)
    assert set(asked) == {2.0}
    assert why(driver, "two/b") == NotAdmitted("starts with pod group one/a")


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


def test_failed_bind_of_a_running_group_requeues_no_group_of_its_bundle() -> None:
    driver, _odd = faulty_driver(cpu=4)
    driver.tell(PodGroupAdded(spec("two/b", 2)))
    driver.add(*pods("two/b"))
    driver.fate = Fate.PENDING
    driver.drain()
    driver.tell(PodGroupUpdated(spec("two/b", 2, AB)), PodGroupAdded(spec("one/a", 2, AB)))
    driver.add(*pods("one/a", cpu=9))
    driver.drain()
    driver.advance(20.0)
    driver.drain()
    driver.report(driver.under_way[0], Fate.FAILED)
    assert driver.scheduler.queue.head() is None
