"""A constraint that no plugin of the profile checks keeps its pod from being scheduled."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from attrs import evolve, frozen

from gangsched import (
    Bind,
    Effect,
    HostPort,
    InMemoryCluster,
    NodeAdded,
    Outcome,
    Pod,
    PodAdded,
    PodNotAdmitted,
    Profile,
    Scheduler,
)
from gangsched.errors import ProfileError
from gangsched.outcomes import SUCCESS
from gangsched.plugins import DefaultBinder, NodeResources, PrioritySort
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import make_node, make_pod

BASE = (PrioritySort(), NodeResources(), DefaultBinder())
POD = evolve(make_pod("p", cpu=1), host_ports=(HostPort(80),))


@frozen
class Checking:
    """A filter of ours that says which constraints it checks."""

    constraints_checked: Collection[str]
    name: str = "Checking"

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        """Accept every node."""
        return SUCCESS


def effects(profile: Profile, pod: Pod) -> list[Effect]:
    """Return what a scheduler with a large node does about a pod."""
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(make_node("n", cpu=4)))
    scheduler = Scheduler(cluster, profile)
    scheduler.rebuild(now=0.0)
    found = list(scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0))
    return found + list(scheduler.schedule_one(now=0.0) or ())


def test_pod_whose_constraint_no_plugin_checks_is_held_and_the_constraint_named() -> None:
    (told,) = [e for e in effects(Profile(*BASE), POD) if isinstance(e, PodNotAdmitted)]
    assert told.reason == "has constraints that no plugin checks: host_ports"
    assert not [e for e in effects(Profile(*BASE), POD) if isinstance(e, Bind)]
    free = evolve(POD, host_ports=())
    assert [e for e in effects(Profile(*BASE), free) if isinstance(e, Bind)]


@pytest.mark.parametrize("named", [("host_ports",), ["disks", "host_ports"], "host_ports"])
def test_plugin_of_any_name_may_say_that_it_checks_a_constraint(named: Collection[str]) -> None:
    found = effects(Profile(*BASE, Checking(named)), POD)
    assert [effect for effect in found if isinstance(effect, Bind)]


def test_constraint_that_is_not_known_is_refused_by_plugin_and_name() -> None:
    with pytest.raises(ProfileError) as caught:
        Profile(*BASE, Checking(("ports",)))
    message = str(caught.value)
    assert "'Checking' has 'ports', not names out of pod_affinity" in message
    assert "constraints_checked" in message
