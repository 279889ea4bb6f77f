"""A pod with a hard constraint that is not modelled, or that no plugin checks, is not scheduled."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest
from attrs import evolve, frozen

from gangsched import (
    Bind,
    Effect,
    GroupIncomplete,
    HostPort,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    Outcome,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodNotAdmitted,
    PodUpdated,
    Profile,
    Scheduler,
    presets,
)
from gangsched.errors import ProfileError
from gangsched.outcomes import SUCCESS
from gangsched.plugins import DefaultBinder, NodeResources, PrioritySort
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import make_pod

# A pod with a hard constraint that is not modelled is not scheduled, whatever the profile

GROUP = {"pod-group.scheduling.sigs.k8s.io/name": "g"}
HELD = Pod(name="p", unmodelled=["spec.resourceClaims", "spec.new"])


class Host:
    def __init__(self, make: Callable[..., Scheduler] = presets.coscheduling) -> None:
        self.cluster = InMemoryCluster()
        self.scheduler = make(self.cluster)
        self.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 8})))

    def tell(self, event: Any) -> list[Any]:
        effects = list(self.scheduler.handle(self.cluster.apply(event), now=0.0))
        while (more := self.scheduler.schedule_one(now=0.0)) is not None:
            effects += more
        return effects


def test_pod_with_an_unmodelled_constraint_is_held_and_the_notice_names_it() -> None:
    host = Host()
    reason = "has constraints that are not modelled: spec.resourceClaims, spec.new"
    assert host.tell(PodAdded(HELD)) == [PodNotAdmitted(HELD.uid, reason)]
    assert reason in str(host.scheduler.why(HELD.uid))
    assert HELD.is_gated


def test_held_pod_names_its_gates_too_and_is_scheduled_once_it_has_neither() -> None:
    host = Host()
    (notice,) = host.tell(PodAdded(evolve(HELD, scheduling_gates=["x"])))
    assert notice.reason.startswith("has scheduling gates: x; has constraints that are not")
    effects = host.tell(PodUpdated(evolve(HELD, unmodelled=())))
    assert any(isinstance(effect, Bind) for effect in effects)


def test_held_member_does_not_count_for_the_quorum() -> None:
    host = Host()
    host.tell(PodGroupAdded(PodGroup(name="g", min_available=2)))
    host.tell(PodAdded(evolve(HELD, labels=GROUP)))
    effects = host.tell(PodAdded(Pod(name="q", labels=GROUP)))
    assert not any(isinstance(effect, Bind) for effect in effects)
    assert any(isinstance(effect, GroupIncomplete) for effect in effects)


def test_bound_pod_counts_whatever_it_states() -> None:
    host = Host()
    host.tell(PodAdded(evolve(HELD, node_name="n", requests={"cpu": 8})))
    effects = host.tell(PodAdded(Pod(name="q", requests={"cpu": 1})))
    assert not any(isinstance(effect, Bind) for effect in effects)


# A constraint that no plugin of the profile checks keeps its pod from being scheduled

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
    return Host(lambda cluster: Scheduler(cluster, profile)).tell(PodAdded(pod))


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
