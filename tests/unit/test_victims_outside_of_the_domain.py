"""A victim may be on a node outside of the domain that a preemptor must be placed in.

A pod of lower priority anywhere in a zone keeps a gang away whose topology is a rack of that zone.
"""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import (
    LabelSelector,
    Node,
    NodeAdded,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodGroup,
    PodGroupAdded,
    PodUID,
    Preemption,
    SchedulingUnit,
    Topology,
    presets,
)
from gangsched.events import Bind, Evict
from support.immediate_host import ImmediateHost

pytestmark = pytest.mark.once("says itself which unit it is about")

EACH_UNIT = pytest.mark.parametrize("unit", list(SchedulingUnit), ids=lambda unit: unit.value)
_APART = PodAffinityTerm(topology_key="zone", label_selector=LabelSelector({"app": "noisy"}))


def _host(unit: SchedulingUnit) -> ImmediateHost:
    """Return two racks in one zone, of which the second is too small for the gang."""
    host = ImmediateHost()
    options: dict[str, Any] = {"preemption": Preemption(elastic_members=True)}
    if unit is SchedulingUnit.GROUP:
        host.scheduler = presets.gang(host.cluster, **options)
    else:
        host.scheduler = presets.coscheduling(host.cluster, **options)
    for name, rack, size in (("a", "r1", 3), ("b", "r2", 1)):
        labels = {"zone": "z", "rack": rack}
        host.tell(NodeAdded(Node(name=name, allocatable={"pods": size}, labels=labels)))
    host.tell(PodGroupAdded(PodGroup(name="g", min_available=2, topology=Topology("rack"))))
    return host


def _noisy() -> Pod:
    return Pod(name="noisy", labels={"app": "noisy"}, node_name="b")


def _member(n: int) -> Pod:
    return Pod(name=f"g-{n}", pod_group="g", priority=5, pod_anti_affinity=[_APART])


def _evicted(host: ImmediateHost) -> list[PodUID]:
    return [effect.uid for effect in host.effects if isinstance(effect, Evict)]


@EACH_UNIT
def test_gang_within_a_rack_preempts_pod_in_another_rack_of_its_zone(unit: SchedulingUnit) -> None:
    host = _host(unit)
    host.tell(PodAdded(_noisy()))
    host.tell(PodAdded(Pod(name="low", node_name="a")))
    for n in range(2):
        host.tell(PodAdded(_member(n)))
    host.decide()
    assert _evicted(host) == ["default/noisy"]
    host.end("noisy")
    host.decide()
    assert {e.node for e in host.effects if isinstance(e, Bind)} == {"a"}


@EACH_UNIT
def test_late_member_preempts_pod_outside_of_the_rack_of_its_siblings(unit: SchedulingUnit) -> None:
    host = _host(unit)
    for n in range(2):
        host.tell(PodAdded(_member(n)))
    host.decide()
    host.tell(PodAdded(_noisy()))
    host.tell(PodAdded(_member(2)))
    host.decide()
    assert _evicted(host) == ["default/noisy"]
    host.end("noisy")
    host.decide()
    assert {e.node for e in host.effects if isinstance(e, Bind)} == {"a"}


def test_pod_outside_of_the_rack_goes_before_one_of_higher_priority_inside() -> None:
    """The other rack would take the gang only without a pod of a higher priority."""
    host = _host(SchedulingUnit.GROUP)
    other = {"zone": "z2", "rack": "r3"}
    host.tell(NodeAdded(Node(name="c", allocatable={"pods": 2}, labels=other)))
    host.tell(PodAdded(_noisy()))
    for n in range(2):
        host.tell(PodAdded(Pod(name=f"mid-{n}", node_name="c", priority=3)))
        host.tell(PodAdded(_member(n)))
    host.decide()
    assert _evicted(host) == ["default/noisy"]
