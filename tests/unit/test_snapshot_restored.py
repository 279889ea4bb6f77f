"""A scheduler continues from its snapshot: with the same reserved capacity, and so on."""

from __future__ import annotations

import pytest
from attrs import evolve

from gangsched import (
    InMemoryCluster,
    NodeAdded,
    PluginError,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    Resources,
    Scheduler,
)
from gangsched.framework.queueing.equivalence import EquivalenceClass
from gangsched.framework.state.role_count import RoleCount
from gangsched.testing import make_node
from support import backfill_host, preemption_host
from support.backfill_host import BIG, draining, plans
from support.bundles import AB, pods, specs
from support.busy import tell
from support.driver import Driver
from support.preemption_host import blocked, reason_of
from support.restored import posted
from support.snapshots import Fitting, another


def elsewhere(scheduler: Scheduler) -> Scheduler:
    """Return a new scheduler, restored from a snapshot of a scheduler."""
    state = scheduler._state
    other = Scheduler(
        state.settings.cluster,
        state.settings.profile,
        unit=state.settings.unit,
        preemption=state.settings.preemption,
        backfill=state.reservations.backfill.policy,
    )
    other.restore(posted(scheduler.snapshot()))
    return other


# Reserved capacity ------------------------------------------------------------------------------


def test_restored_nomination_lapses_when_too_few_members_are_left() -> None:
    host = blocked()
    host.scheduler = elsewhere(host.scheduler)
    host.end("high-0")
    assert reason_of(host) == "too few nominated pods or nodes are left"


def test_restored_nomination_lapses_when_the_group_is_specified_anew() -> None:
    host = preemption_host.Host(2)
    host.gang("low", 2, 0)
    spec = PodGroup(name="high", min_available=2, priority=5)
    host.tell(PodGroupAdded(spec))
    host.gang("high", 2, 5, min_available=None)
    assert host.kept == ["high-0", "high-1"]
    host.scheduler = elsewhere(host.scheduler)
    host.tell(PodGroupUpdated(evolve(spec, schedule_timeout=7.0)))
    assert reason_of(host) == "the specification of pod group default/high has changed"


def test_restored_scheduler_does_not_count_on_overdue_pods() -> None:
    host = blocked()
    host.at(60.0)
    assert reason_of(host) == "2 pods did not terminate in time"
    host.scheduler = elsewhere(host.scheduler)
    host.at(200.0)
    host.tell(NodeAdded(make_node("n1", cpu=1)))
    host.decide()
    assert host.kept == []


# Equivalence queues -----------------------------------------------------------------------------


def test_failed_requests_are_restored() -> None:
    """Two groups that start together, with roles, and with resources that they need in all."""
    driver = Driver()
    driver.tell(NodeAdded(make_node("n", cpu=5)))
    roles = {"head": 1, "arm": 1}
    for event in specs(*AB, roles=roles, min_resources={"cpu": 2}):
        driver.tell(event)
    for group in AB:
        for n, role in enumerate(roles):
            driver.add(*pods(group, 1, first=n, cpu=4, role=role))
    driver.step()
    other = elsewhere(driver.scheduler)
    for scheduler in (driver.scheduler, other):
        (shape,) = scheduler._state.queue._queues
        assert isinstance(shape, EquivalenceClass)
        assert (shape.needed, shape.floor, len(shape.parts)) == (4, Resources({"cpu": 4}), 2)
        for part in shape.parts:
            assert (part.needed, part.floor) == (2, Resources({"cpu": 2}))
            asked = (RoleCount(None, "arm", 1), RoleCount(None, "head", 1))
            assert part.role_counts == asked
            assert part.roles == ("head", "arm")


# Reservations -----------------------------------------------------------------------------------


def test_restored_scheduler_moves_the_reservation_for_an_early_departure() -> None:
    host = backfill_host.Host(a=2, b=2)
    host.pod("soon", 100)
    host.pod("late", 200)
    host.decide()
    host.gang("big", 4)
    host.decide()
    assert host.reservation.starts_at == 200.0
    host.end("late")
    host.scheduler = elsewhere(host.scheduler)
    host.decide()
    assert host.reservation.starts_at == 100.0


def test_restored_scheduler_alternates_gangs_after_nodes_were_drained_in_vain() -> None:
    host = draining()
    turns: list[str] = []
    for n in range(4):
        host.decide()
        turns.append(host.reservation.group)
        host.at(50.0 * (n + 1))
        assert host.scheduler.reservation is None
        host.scheduler = elsewhere(host.scheduler)
        host.tell(NodeAdded(make_node(f"n{n}", cpu=1)))
        host.pod(f"fills-{n}")
    young, elder = "default/young", "default/elder"
    assert turns == [young, elder, elder, young]


def test_restored_entity_that_fits_no_empty_cluster_is_not_planned_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planned = plans(monkeypatch)
    host = backfill_host.Host(a=2)
    host.gang("huge", 3)
    host.decide()
    assert planned == ["default/huge"]
    host.scheduler = elsewhere(host.scheduler)
    host.at(1.0)
    host.pod("p", 100)
    host.decide()
    host.gang("big", 2)
    host.decide()
    assert planned == ["default/huge", BIG]


# Classes of nodes -------------------------------------------------------------------------------


def test_plugin_is_asked_again_for_a_node_that_it_could_not_read() -> None:
    cluster = InMemoryCluster()
    fitting = Fitting(signs=True)
    fitting.is_broken = True
    scheduler = another(cluster, fitting)
    with pytest.raises(PluginError, match="no such node"):
        tell(cluster, scheduler, NodeAdded(make_node("n", cpu=2)), now=0)
    assert scheduler._state.nodes.classes.of(1).key is None
    with pytest.raises(PluginError, match="no such node"):
        elsewhere(scheduler)
    fitting.is_broken = False
    other = elsewhere(scheduler)
    assert other._state.nodes.classes.of(1).key is not None
    assert other.schedule_one(now=0) is None


def test_later_error_of_a_plugin_is_raised_before_earlier_ones() -> None:
    cluster = InMemoryCluster()
    fitting = Fitting(signs=True)
    scheduler = another(cluster, fitting)
    tell(cluster, scheduler, NodeAdded(make_node("n", cpu=2)), now=0)
    earlier = PluginError("Fitting", "post_bind", "default/p", "raised OSError('no route')")
    scheduler._state.call.deferred.append(earlier)
    fitting.is_broken = True
    with pytest.raises(PluginError, match="'Fitting' at node_signature for n: raised OSError"):
        elsewhere(scheduler)
    fitting.is_broken = False
    with pytest.raises(PluginError, match="'Fitting' at post_bind for default/p"):
        elsewhere(scheduler).advance(now=1)
