"""Snapshots of entities without an equivalence class, and of a reservation without its node."""

from __future__ import annotations

import json

from gangsched import (
    Coscheduling,
    InMemoryCluster,
    NodeAdded,
    NodeDeleted,
    NodeName,
    PodAdded,
    Profile,
    Scheduler,
)
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.testing import make_node, make_pod
from support.backfill_host import crowded
from support.faulty_plugin import FaultyPlugin


def test_entity_without_an_equivalence_class_is_requeued_after_a_restore() -> None:
    cluster = InMemoryCluster()

    def made() -> Scheduler:
        plugins = (Coscheduling(), NodeResources(), FaultyPlugin("filter"), DefaultBinder())
        return Scheduler(cluster, Profile(*plugins))

    scheduler = made()
    scheduler.handle(cluster.apply(NodeAdded(make_node("small", cpu=1))), now=0.0)
    scheduler.handle(cluster.apply(PodAdded(make_pod("large", cpu=4))), now=0.0)
    scheduler.schedule_one(now=0.0)
    twin = made()
    twin.restore(json.loads(json.dumps(scheduler.snapshot())))
    twin._check()
    assert twin.snapshot() == scheduler.snapshot()
    node = cluster.apply(NodeAdded(make_node("n", cpu=4)))
    for each in (scheduler, twin):
        each.handle(node, now=100.0)
    effects = twin.schedule_one(now=100.0)
    assert effects
    assert effects == scheduler.schedule_one(now=100.0)


def test_reservation_on_a_node_that_is_gone_is_restored_and_then_moved() -> None:
    host = crowded()
    (name, *_others) = host.reservation.nodes
    host.scheduler.handle(host.cluster.apply(NodeDeleted(NodeName(name))), now=host.now)
    twin = host.make()
    twin.restore(json.loads(json.dumps(host.scheduler.snapshot())))
    twin._check()
    assert twin.snapshot() == host.scheduler.snapshot()
    assert twin.schedule_one(now=host.now) == host.scheduler.schedule_one(now=host.now)
