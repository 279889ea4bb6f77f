"""Gangs that preempt with some members on nodes, or with members that a plugin refuses."""

from __future__ import annotations

from attrs import evolve

from gangsched import (
    CycleState,
    NodeName,
    Outcome,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    SchedulingUnit,
    StateKey,
    Success,
    Topology,
    Unschedulable,
)
from gangsched.protocols import NodeView
from gangsched.testing import make_pod
from support.faulty_plugin import FaultyPlugin
from support.preemption_host import EACH_UNIT, Host

_PASSED: StateKey[bool] = StateKey("passed")


def on_node(host: Host, pod: Pod, node: int) -> None:
    """Let a pod run on a node."""
    host.tell(PodAdded(evolve(pod, node_name=NodeName(f"n{node}"))))


@EACH_UNIT
def test_gang_preempts_within_all_values_that_its_running_members_hold(
    unit: SchedulingUnit,
) -> None:
    """Another scheduler has bound two members; a pod of low priority is beside each."""
    host = Host(2, 2, 2, unit=unit)
    topology = Topology("rack", required=True)
    host.tell(PodGroupAdded(PodGroup(name="g", min_available=4, topology=topology)))
    members = [make_pod(f"g-{n}", group="g", cpu=1, priority=5) for n in range(4)]
    for number in (0, 1):
        on_node(host, members[number], number)
        on_node(host, make_pod(f"low-{number}", cpu=1, priority=1), number)
    on_node(host, make_pod("least", cpu=2), 2)
    host.pods(*members[2:])
    assert sorted(host.evicted) == ["low-0", "low-1"]


def test_gang_preempts_although_a_plugin_refuses_a_member_that_is_not_needed() -> None:
    """No filter is asked about a member that its ``pre_filter`` has refused."""

    def pre_filter(state: CycleState, pod: Pod, *, now: float) -> Outcome:
        if pod.name == "high-0":
            return Unschedulable("not this one")
        state.write(_PASSED, True)
        return Success()

    def find(state: CycleState, _pod: Pod, _node: NodeView) -> Outcome:
        assert state.read(_PASSED)
        return Success()

    faulty = FaultyPlugin("pre_filter", "filter")
    faulty.answers |= {"pre_filter": pre_filter, "filter": find}
    host = Host(2, faulty=faulty)
    on_node(host, make_pod("low", cpu=2), 0)
    host.gang("high", 3, 5, min_available=2)
    assert host.evicted == ["low"]


@EACH_UNIT
def test_elastic_member_is_evicted_on_the_node_where_a_nomination_is_taken(
    unit: SchedulingUnit,
) -> None:
    """Neither is enough by itself, and the member that came last is on another node."""
    host = Host(2, 1, unit=unit)
    on_node(host, make_pod("low", cpu=1), 0)
    for number in (0, 1):
        pod = make_pod(f"a-{number}", group="a", min_available=1, cpu=1, priority=3)
        on_node(host, pod, number)
    host.pods(make_pod("nominated", cpu=1, priority=3))
    assert (host.evicted, host.kept) == (["low"], ["nominated"])
    host.pods(make_pod("high", cpu=2, priority=5))
    assert (host.evicted, host.kept) == (["low", "a-0"], ["high"])
