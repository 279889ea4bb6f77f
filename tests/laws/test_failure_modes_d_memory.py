"""Failure modes 3.D, second part: what is remembered of which objects (F36, F38-F42)."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sized
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given

from gangsched import (
    Event,
    GroupKey,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    NodeUpdated,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodPhase,
    PodUID,
    PodUpdated,
    Scheduler,
)
from gangsched.testing import make_pod
from support.driver import Driver, Fate
from support.examples import one_in
from support.histories import Policy, histories, policies
from support.history_steps import HistoryStep
from support.shown import memory, nothing_is_assumed, shown

GROUPS = 100_000 if os.environ.get("HYPOTHESIS_PROFILE") == "deep" else 300


def node(cpu: int, name: str = "n") -> NodeAdded:
    """Return the fact that a node comes."""
    return NodeAdded(Node(name=NodeName(name), allocatable={"cpu": cpu}))


def bound(driver: Driver) -> set[PodUID]:
    """Return the bound pods."""
    return {pod.uid for pod in driver.cluster.pods() if pod.node_name}


def sizes(scheduler: Scheduler) -> dict[str, int]:
    """Return the size of everything that a scheduler lists."""
    seen = shown(scheduler)
    held: dict[str, Sized] = {
        "pods": seen.pods,
        "evicted": seen.evicted,
        "nominations": seen.nominations,
        "queue": scheduler.queue,
        "waiting": scheduler.waiting,
        "registry": scheduler.registry,
    }
    return {name: len(value) for name, value in held.items()}


def churn(driver: Driver, first: int, count: int) -> int:
    """Let groups arrive and leave, three at a time, a tenth unstarted; return the largest map."""
    most = 0
    for n in range(first, first + count):
        driver.now += 10.0
        size = 2 if n % 10 else 3
        group = PodGroup(name=f"g{n}", min_available=size)
        pods = [evolve(make_pod(f"p{n}-{k}", cpu=1), pod_group=group.name) for k in range(size)]
        if n % 3:
            driver.tell(PodGroupAdded(group))
        else:  # the labels of the members are all that there is of the group
            labels: dict[str, Any] = {"group": group.name, "min_available": size}
            pods = [make_pod(f"p{n}-{k}", cpu=1, **labels) for k in range(size)]
        driver.add(*pods)
        driver.drain()
        if n % 7 == 0:
            driver.advance(driver.now + 10.0)
        most = max(most, *sizes(driver.scheduler).values())
        # the specification goes first, or last
        gone: list[Event] = [PodDeleted(pod.uid) for pod in pods]
        if n % 3:
            gone.insert(0 if n % 2 else len(gone), PodGroupDeleted(group.key))
        driver.tell(*gone)
        driver.reports.clear()
    return most


def test_groups_by_the_hundred_thousand_leave_nothing_behind() -> None:
    """F38, SP#8: in constant memory; fewer of them in a quick run."""
    driver = Driver(Policy().make, watched=False, checked=False, logged=False)
    driver.tell(node(2))
    churn(driver, 0, 200)
    driver.advance(driver.now + 60.0)
    gc.collect()
    before, blocks = sizes(driver.scheduler), sys.getallocatedblocks()
    most = churn(driver, 200, GROUPS)
    assert most <= 3 + 6 + 1, "no map is larger than what is alive, or went in the last minute"
    driver.advance(driver.now + 60.0)
    gc.collect()
    assert sizes(driver.scheduler) == before
    assert sys.getallocatedblocks() - blocks < 500, "of every thing that Python keeps, nothing more"
    assert driver.scheduler.next_deadline() is None


def test_nodes_that_come_and_go_leave_nothing_behind() -> None:
    """An autoscaler gives each node another name."""
    driver = Driver(Policy().make, watched=False, checked=False, logged=False)
    blocks = 0
    for number in range(1200):
        if number == 200:
            gc.collect()
            blocks = sys.getallocatedblocks()
        driver.tell(node(2, f"n{number}"))
        driver.tell(NodeDeleted(NodeName(f"n{number}")))
        driver.reports.clear()
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 500


def test_group_is_remembered_while_one_member_lives() -> None:
    """F39: with its place in the order, for as long as that takes; and for a minute after."""
    driver = Driver(Policy().make)
    pods = [make_pod(f"g-{n}", group="g", min_available=3, cpu=1) for n in range(3)]
    driver.add(*pods)
    (info,) = driver.scheduler.registry
    driver.delete(pods[0].uid)
    driver.advance(3_600.0)
    driver.delete(pods[1].uid)
    driver.advance(7_200.0)
    assert list(driver.scheduler.registry) == [info]
    driver.delete(pods[2].uid)
    driver.advance(7_259.0)
    assert list(driver.scheduler.registry) == [info]
    driver.advance(7_260.0)
    assert list(driver.scheduler.registry) == []


@pytest.mark.parametrize("event", [PodDeleted(PodUID("x")), PodGroupDeleted(GroupKey("ns/x"))])
def test_delete_of_what_was_never_seen_changes_nothing(event: Event) -> None:
    """F40: the add and the delete arrived as one event, or the add never arrived."""
    driver = Driver(Policy().make)
    driver.tell(event)
    assert driver.log[-1].effects == ()
    assert set(sizes(driver.scheduler).values()) == {0}


@pytest.mark.parametrize("state", ["waiting", "binding", "bound", "pending"])
def test_delete_counts_whatever_was_last_known_of_the_pod(state: str) -> None:
    """F40, KO#2911: the last state that a watch shows is of no matter; gone is gone."""
    driver = Driver(Policy().make)
    driver.tell(node(3 if state != "waiting" else 1))
    driver.fate = Fate.PENDING if state == "binding" else Fate.DONE
    pods = [make_pod(f"g-{n}", group="g", min_available=2, cpu=1) for n in range(2)]
    driver.add(*pods)
    if state != "pending":
        driver.drain()
    # what the watch missed meanwhile: it was bound elsewhere, ran and finished
    driver.cluster.apply(PodUpdated(evolve(pods[0], phase=PodPhase.SUCCEEDED)))
    driver.cluster.apply(PodDeleted(pods[0].uid))
    driver.tell_again(PodDeleted(pods[0].uid))
    (info,) = driver.scheduler.registry
    assert pods[0].uid not in info.members
    driver.delete(pods[1].uid)
    assert nothing_is_assumed(driver.scheduler)
    assert len(info.members) == 0
    driver.advance(driver.now + 60.0)
    assert len(driver.scheduler.registry) == 0


def test_object_in_an_event_is_read_from_the_cluster_state() -> None:
    """F36: there is one source of truth; an event says where to look."""
    driver = Driver(Policy().make)
    driver.tell(node(1))
    pod = make_pod("p", cpu=1)
    driver.cluster.apply(PodAdded(pod))
    stale: list[Event] = [
        PodAdded(evolve(pod, scheduling_gates=("old",))),
        PodUpdated(evolve(pod, node_name=NodeName("n"))),
        PodUpdated(evolve(pod, requests={"cpu": 9})),
        NodeUpdated(Node(name=NodeName("n"), allocatable={"cpu": 9})),
        PodDeleted(pod.uid),
        PodGroupAdded(PodGroup(name="g", min_available=9)),
    ]
    for event in stale:
        driver.tell_again(event)
        assert [entity.pod for entity in driver.scheduler.queue.active] == [pod]
    assert len(driver.scheduler.registry) == 0
    driver.drain()
    assert bound(driver) == {pod.uid}


def ask_everything(scheduler: Scheduler) -> None:
    """Ask whatever can be asked, of what is there and of what is not."""
    queue, registry, waiting = scheduler.queue, scheduler.registry, scheduler.waiting
    scheduler.next_deadline()
    for key in [GroupKey("default/nobody"), *(info.key for info in registry)]:
        registry.get(key)
        assert (key in registry) is (registry.get(key) is not None)
        waiting.of(key)
        for name in ("all", "unscheduled", "waiting", "assumed", "assigned", "scheduled"):
            info = registry.get(key)
            assert info is None or getattr(info, name) >= 0
    for uid in [PodUID("nobody"), *(pod.uid for pod in waiting)]:
        assert (waiting.get(uid) is not None) is (uid in waiting)
    everybody = [*queue.active, *queue.backoff, *queue.unschedulable]
    assert len(everybody) == len(queue)
    for entity in everybody:
        queue.is_gated(entity)
        queue.has_current_key(entity)
    for pod in (pod for entity in everybody for pod in entity.pending):
        assert str(scheduler.why(pod.uid))
    for info in registry:
        if len(info.members):
            assert str(scheduler.why(info.key))
    queue.head()
    list(waiting.groups())


@one_in(4)
@given(policies, histories(chapters=3))
def test_asking_changes_nothing(policy: Policy, steps: list[HistoryStep]) -> None:
    """F41, SP#63: of two schedulers, one is asked all the time; they do the same."""
    asked, left_alone = policy.world(), policy.world()
    for number, step in enumerate(steps):
        if number % 4 == 0:
            ask_everything(asked.driver.scheduler)
        asked.do(step)
        left_alone.do(step)
    ask_everything(asked.driver.scheduler)
    assert memory(asked.driver.scheduler) == memory(left_alone.driver.scheduler)
    assert repr(asked.driver.log) == repr(left_alone.driver.log)
