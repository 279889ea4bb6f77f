"""The reason against a node is that of the first filter that refuses it, with an evaluator too."""

from __future__ import annotations

import pytest

from gangsched import InMemoryCluster, Node, NodeAdded, NodeName, PodAdded, Scheduler, Taint
from gangsched.coscheduling import Coscheduling
from gangsched.explain import NoNodeFits
from gangsched.plugins import DefaultBinder, NodeResources, TaintToleration
from gangsched.profile import Profile
from gangsched.testing import make_pod


def reason(plugins: tuple[object, ...], *cpus: int) -> str:
    """Return the reason why tainted nodes do not take a pod of 4 CPUs."""
    cluster = InMemoryCluster()
    scheduler = Scheduler(cluster, Profile(Coscheduling(), *plugins, DefaultBinder()))
    for n, cpu in enumerate(cpus):
        name, taints = NodeName(f"n{n}"), (Taint("dedicated", "others"),)
        node = Node(name=name, allocatable={"cpu": cpu, "pods": 9}, taints=taints)
        scheduler.handle(cluster.apply(NodeAdded(node)), now=0.0)
    pod = make_pod("p", cpu=4)
    scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    scheduler.schedule_one(now=0.0)
    why = scheduler.why(pod)
    assert isinstance(why, NoNodeFits)
    return why.reason


@pytest.mark.parametrize("cpus", [(4, 1), (1, 4), (4, 1, 5, 2), (2, 4, 1, 5)])
def test_capacity_is_the_reason_if_it_is_asked_first(cpus: tuple[int, ...]) -> None:
    half = len(cpus) // 2
    found = reason((NodeResources(), TaintToleration()), *cpus)
    assert f"{half} Insufficient cpu" in found
    assert f"{half} node(s) had untolerated taint" in found


def test_taint_is_the_reason_if_it_is_asked_first() -> None:
    found = reason((TaintToleration(), NodeResources()), 4, 1)
    assert "2 node(s) had untolerated taint" in found
    assert "Insufficient cpu" not in found
