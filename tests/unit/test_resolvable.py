"""A node that a filter refuses with ``resolvable=False`` is no candidate for eviction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    CycleState,
    NodeAdded,
    NodeName,
    NodeUpdated,
    Outcome,
    Pod,
    PodAdded,
    SchedulingUnit,
    Success,
    Taint,
    Unschedulable,
    presets,
)
from gangsched.protocols import NodeView
from gangsched.testing import make_node, make_pod
from support.faulty_plugin import FaultyPlugin
from support.preemption_host import EACH_UNIT, Host, runs


def crowded(*names: str, resolvable: bool) -> Callable[[CycleState, Pod, NodeView], Outcome]:
    """Return a filter that refuses these nodes to pods of priority 5 while pods are on them."""

    def answer(_state: CycleState, pod: Pod, node: NodeView) -> Outcome:
        if pod.priority == 5 and node.pod_count and node.node.name in names:
            return Unschedulable("not beside others", resolvable=resolvable)
        return Success()

    return answer


def faulty(is_signed: bool) -> FaultyPlugin:
    """Return a plugin with a filter; signed plugins say what their answers depend on."""
    return FaultyPlugin("filter", *["pod_signature"] * is_signed)


EACH_SIGNED = pytest.mark.parametrize("is_signed", [True, False])


@EACH_UNIT
@EACH_SIGNED
@pytest.mark.parametrize("group", [None, "high"])
def test_pods_are_evicted_only_where_the_refusal_is_resolvable(
    unit: SchedulingUnit, is_signed: bool, group: str | None
) -> None:
    plugin = faulty(is_signed)
    plugin.answers["pod_signature"] = lambda pod: pod.priority
    host = Host(1, unit=unit, faulty=plugin)
    host.pods(make_pod("low", cpu=1))
    more: dict[str, Any] = {} if group is None else {"group": group, "min_available": 1}
    plugin.answers["filter"] = crowded("n0", resolvable=False)
    host.pods(make_pod("high-0", cpu=1, priority=5, **more))
    assert host.evicted == []
    plugin.answers["filter"] = crowded("n0", resolvable=True)
    host.tell(NodeUpdated(make_node("n0", cpu=1, labels={"rack": "other"})))
    host.at(10.0)
    assert host.evicted == ["low"]


@EACH_UNIT
@EACH_SIGNED
def test_other_nodes_are_candidates_beside_one_that_is_not(
    unit: SchedulingUnit, is_signed: bool
) -> None:
    """Without the refusal, the younger pod would be evicted."""
    plugin = faulty(is_signed)
    plugin.answers["pod_signature"] = lambda pod: pod.priority
    host = Host(1, 1, unit=unit, faulty=plugin)
    host.pods(make_pod("elder", cpu=1))
    host.pods(make_pod("younger", cpu=1, created_at=1))
    refused = host.where["younger"]
    plugin.answers["filter"] = crowded(refused, resolvable=False)
    host.pods(make_pod("high", cpu=1, priority=5, created_at=2))
    assert host.evicted == ["elder"]


@EACH_UNIT
def test_no_plan_counts_on_what_a_victim_frees_on_a_node_that_is_no_candidate(
    unit: SchedulingUnit,
) -> None:
    plugin = faulty(is_signed=True)
    plugin.answers["pod_signature"] = lambda pod: pod.priority
    host = Host(1, 1, unit=unit, faulty=plugin)
    runs(host, "low", 0, 1)
    plugin.answers["filter"] = crowded("n1", resolvable=False)
    host.gang("high", 2, 5)
    assert (host.evicted, host.kept) == ([], [])


def test_pre_filter_runs_before_a_filter_is_asked_whether_it_is_resolvable() -> None:
    """If it refuses, no filter is asked, and every node stays a candidate."""
    plugin = FaultyPlugin("pre_filter", "filter")
    host = Host(2, unit=SchedulingUnit.GROUP, faulty=plugin)
    host.gang("low", 2, 0)
    passed: list[str] = []

    def check(_state: CycleState, pod: Pod, *, now: float) -> Outcome:
        passed.append(pod.name)
        return Success() if pod.name == "high-0" else Unschedulable("quota is used")

    def answer(_state: CycleState, pod: Pod, _node: NodeView) -> Outcome:
        assert pod.name in passed
        assert pod.name == "high-0", "the filter is asked about a pod that pre_filter refused"
        return Success()

    plugin.answers |= {"pre_filter": check, "filter": answer}
    host.gang("high", 2, 5)
    assert (host.evicted, host.kept) == ([], [])


def test_pods_on_a_tainted_node_are_not_evicted() -> None:
    """The taint stays when they are gone."""
    host = Host()
    host.scheduler = presets.coscheduling(
        host.cluster, preemption=host.scheduler._state.settings.preemption
    )
    node = make_node("n0", cpu=1)
    host.tell(NodeAdded(node))
    low = make_pod("low", cpu=1)
    host.tell(PodAdded(evolve(low, node_name=NodeName("n0"))))
    host.tell(NodeUpdated(evolve(node, taints=(Taint("reserved"),))))
    host.pods(make_pod("high", cpu=1, priority=5))
    assert host.evicted == []
