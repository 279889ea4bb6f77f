"""Events of one instant that are handled in one call: at rest as if each had its own call."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    Bound,
    ClusterStateError,
    Event,
    GroupIncomplete,
    GroupRejected,
    GroupRestarted,
    InMemoryCluster,
    InvalidValueError,
    PermitAllowed,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodScheduled,
    PodUID,
    PodUnschedulable,
    Release,
    RestartPolicy,
    presets,
)
from gangsched.testing import make_group, make_pod
from support import histories as h
from support.driver import Driver, Fate
from support.gangs import members, node
from support.history_steps import Catch, Decide, HistoryStep
from support.world import World

DEEDS = st.lists(st.one_of(h.node_deeds, h.pod_deeds, h.group_deeds, h.pod_changes), max_size=5)


def runs(world: World) -> dict[str, str | None]:
    """Return where each pod runs."""
    return {pod.uid: pod.node_name for pod in world.driver.cluster.pods()}


@given(h.steady_policies, st.lists(DEEDS, max_size=5))
def test_it_comes_to_rest_as_after_one_call_for_each(
    policy: h.Policy, instants: list[list[HistoryStep]]
) -> None:
    one, all_ = (evolve(policy, together=together).world() for together in (False, True))
    for deeds in instants:
        for world in (one, all_):
            world.live(Catch(late=True), *deeds, Catch(late=False), Decide())
            world.driver.settle()
        assert runs(all_) == runs(one)


def test_gang_that_arrives_whole_was_never_incomplete() -> None:
    driver = Driver(presets.gang, together=True)
    driver.tell(node("n", cpu=3), *map(PodAdded, members("g", 3, cpu=1)))
    assert driver.effects(GroupIncomplete) == []
    driver.drain()
    assert len(driver.effects(Release)) == 1
    assert len(driver.effects(PodScheduled)) == 3


def test_gang_that_loses_several_waiting_members_is_rejected_once() -> None:
    driver = Driver(presets.coscheduling, together=True)
    driver.tell(node("n", cpu=3), *map(PodAdded, members("g", 4, cpu=1)))
    for _cycle in range(3):
        driver.step()
    driver.delete("default/g-0", "default/g-1")
    assert len(driver.effects(GroupRejected)) == 1
    told = driver.effects(PodUnschedulable)
    assert len({each.uid for each in told[-2:]}) == 2


def test_gang_that_runs_for_no_time_is_restarted() -> None:
    """Its last bind is reported with the loss of its node: by one call it fell, by two as well."""
    for together in (True, False):
        driver = Driver(partial(presets.gang, can_evict=True), together=together)
        group = evolve(make_group("g", 2), restart=RestartPolicy(backoff=1.0))
        driver.tell(PodGroupAdded(group), node("n", cpu=2), node("m", cpu=2))
        driver.add(*[make_pod(f"g-{n}", group="g", cpu=1) for n in range(2)])
        driver.fate = Fate.PENDING
        driver.drain()
        first, second = driver.under_way
        driver.report(first, Fate.DONE)
        for bind in (first, second):
            driver.cluster.apply(Bound(bind.uid, bind.node, bind.attempt))
        driver.cluster.apply(PodDeleted(first.uid))
        events: list[Event] = [
            Bound(second.uid, second.node, second.attempt),
            PodDeleted(first.uid),
        ]
        for some in [events] if together else [[event] for event in events]:
            driver.tell_again(*some)
        driver.advance(2.0)
        assert len(driver.effects(GroupRestarted)) == 1


def test_event_that_the_cluster_contradicts_loses_no_other_one() -> None:
    """F: the others are handled, the error is raised, and the next call has their effects."""
    driver = Driver(presets.gang)
    cluster, scheduler = driver.cluster, driver.scheduler
    driver.tell(node("n", cpu=2))
    driver.add(make_pod("p", cpu=1))
    driver.fate = driver.fate.PENDING
    driver.drain()
    (bind,) = driver.under_way
    other = PodAdded(make_pod("q", cpu=1))
    cluster.apply(other)
    wrong = Bound(bind.uid, bind.node, bind.attempt)  # the cluster does not show it
    with pytest.raises(ClusterStateError, match="default/p"):
        scheduler.handle(wrong, other, now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    assert [effect.uid for effect in effects if isinstance(effect, Bind)] == ["default/q"]


def test_malformed_event_changes_nothing() -> None:
    driver = Driver(presets.gang)
    pod = make_pod("p")
    driver.cluster.apply(PodAdded(pod))
    uid: Any = 3
    malformed: list[Any] = ["pod", PermitAllowed(PodUID("p"), "nobody", 1), PodDeleted(uid)]
    for wrong in malformed:
        with pytest.raises(InvalidValueError):
            driver.scheduler.handle(PodAdded(pod), wrong, now=0.0)
    assert driver.scheduler.pending() == ()


def test_call_without_an_event_is_allowed() -> None:
    """Its cluster may have had none at this instant."""
    scheduler = presets.gang(InMemoryCluster())
    assert scheduler.handle(now=3.0) == ()
