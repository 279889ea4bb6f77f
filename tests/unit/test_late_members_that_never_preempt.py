"""A late member that never preempts keeps its parked gang from evicting pods."""

from __future__ import annotations

from attrs import evolve

from gangsched import (
    GroupKey,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    Preemption,
    PreemptionPolicy,
    SchedulingUnit,
)
from gangsched.framework.queueing.equivalence import EquivalenceClass
from gangsched.testing import make_node, make_pod
from support.preemption_host import EACH_UNIT, Host


def late(name: str, policy: str = "PreemptLowerPriority") -> Pod:
    """Return a member, too large for every node, of a gang that starts with one member."""
    pod = make_pod(name, group="g", cpu=2, priority=5, min_available=1)
    return evolve(pod, preemption_policy=PreemptionPolicy(policy))


@EACH_UNIT
def test_parked_gang_may_evict_no_pod_once_a_late_member_never_preempts(
    unit: SchedulingUnit,
) -> None:
    host = Host(1, unit=unit, preemption=Preemption(elastic_members=True))
    host.pods(make_pod("g-0", group="g", cpu=1, priority=5, min_available=1))
    host.pods(late("g-1"))
    entity = host.scheduler._state.pods.entities[GroupKey("default/g")]
    before = entity.equivalence_class
    assert isinstance(before, EquivalenceClass)
    assert before.reach == (5, True)
    host.pods(late("g-2"))
    assert entity.equivalence_class is before  # it is like the member that waits
    host.tell(PodAdded(late("g-3", "Never")))
    assert entity.equivalence_class is not before
    host.tell(NodeAdded(make_node("full", cpu=2)))
    host.tell(PodAdded(evolve(make_pod("low", cpu=2), node_name=NodeName("full"))))
    host.decide()
    assert host.evicted == []
    after = entity.equivalence_class
    assert isinstance(after, EquivalenceClass)
    assert after.reach == (5, False)
