"""What a changed specification of a group does to members that wait, or that are gone."""

from __future__ import annotations

from gangsched import (
    GroupKey,
    GroupRejected,
    NodeAdded,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    PodRejected,
    PodUID,
    Wait,
    presets,
)
from gangsched.explain import NotEnoughMembers
from gangsched.testing import make_node, make_pod
from support.faulty_plugin import FaultyPlugin
from support.immediate_host import ImmediateHost

G = GroupKey("default/g")


def with_gang(*plugins: object, cpu: int = 1) -> ImmediateHost:
    """Return a host that has decided about a gang of 2, where members have its priority."""
    host = ImmediateHost()
    host.scheduler = presets.coscheduling(host.cluster, plugins=plugins, strict_priorities=True)
    host.tell(NodeAdded(make_node("n", cpu=2)))
    host.tell(PodGroupAdded(PodGroup(name="g", min_available=2)))
    for number in range(2):
        host.tell(PodAdded(make_pod(f"g-{number}", group="g", cpu=cpu)))
    host.decide()
    return host


def test_waiting_member_that_contradicts_the_new_priority_is_rejected_with_that_reason() -> None:
    plugin = FaultyPlugin("permit")
    plugin.answers["permit"] = Wait(100.0)
    host = with_gang(plugin)
    assert PodUID("default/g-0") in host.scheduler.waiting
    known = len(host.effects)
    host.tell(PodGroupUpdated(PodGroup(name="g", min_available=2, priority=5)))
    rejected = [each for each in host.effects[known:] if isinstance(each, PodRejected)]
    assert rejected[0].reason == (
        "pod g-0 contradicts its group: pod default/g-0: priority must be 5,"
        " the priority of default/g, got 0"
    )
    assert any(isinstance(each, GroupRejected) for each in host.effects[known:])
    assert not len(host.scheduler.waiting)


def test_group_whose_members_are_gone_before_their_events_is_changed() -> None:
    host = with_gang(cpu=9)
    for number in range(2):
        host.cluster.apply(PodDeleted(PodUID(f"default/g-{number}")))
    host.tell(PodGroupUpdated(PodGroup(name="g", min_available=3)))
    why = host.scheduler.why(G)
    assert isinstance(why, NotEnoughMembers)
    assert (why.present, why.min_available) == (0, 3)
    for number in range(2):
        host.tell(PodDeleted(PodUID(f"default/g-{number}")))
    assert host.decide() == []
