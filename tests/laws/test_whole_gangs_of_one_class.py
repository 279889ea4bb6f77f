"""Whole gangs whose members ask for different things, where no plugin reads what they ask for."""

from __future__ import annotations

import pytest

from gangsched import (
    Bind,
    Coscheduling,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    Outcome,
    Pod,
    PodAdded,
    Profile,
    SchedulingUnit,
    Success,
    Unschedulable,
)
from gangsched.plugins import DefaultBinder
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import make_pod
from support.busy import NOW, tell
from support.cores import make_scheduler

pytestmark = pytest.mark.once("says itself which unit it is about")


class Spare:
    """Lets pods onto nodes that have two processors left, whatever they ask for."""

    name = "Spare"

    def filter(self, _state: CycleView, _pod: Pod, node: NodeView) -> Outcome:
        return Success() if node.free.get("cpu", 0) >= 2000 else Unschedulable("busy")

    def pod_signature(self, _pod: Pod) -> str:
        return "alike"

    def node_signature(self, node: NodeView) -> int:
        return node.free.get("cpu", 0)


def placed(*cpus: int) -> dict[str, str]:
    """Return the node of each member of a gang that needs all its members."""
    cluster = InMemoryCluster()
    profile = Profile(Coscheduling(permit_timeout=50.0), Spare(), DefaultBinder())
    scheduler = make_scheduler(cluster, profile, unit=SchedulingUnit.GROUP)
    tell(cluster, scheduler, NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 4})), now=NOW)
    for number, cpu in enumerate(cpus):
        pod = make_pod(f"w-{number}", group="w", min_available=len(cpus), cpu=cpu)
        tell(cluster, scheduler, PodAdded(pod), now=NOW)
    effects = scheduler.schedule_one(now=NOW) or ()
    scheduler._check()
    return {effect.uid: effect.node for effect in effects if isinstance(effect, Bind)}


def test_members_are_placed_by_their_own_requests() -> None:
    assert placed(1, 1, 4) == {f"default/w-{number}": "n" for number in range(3)}
    assert placed(1, 4, 4) == {}, "after the second nobody is let onto the node"
