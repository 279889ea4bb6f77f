"""Disruption budgets where a gang preempts, waits on permit, or has a nomination."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    LabelSelector,
    NodeAdded,
    NodeName,
    ObjectChanged,
    Pod,
    PodAdded,
    SchedulingUnit,
)
from gangsched.cluster_objects import PodDisruptionBudget
from gangsched.testing import make_node, make_pod
from support.faulty_plugin import FaultyPlugin
from support.preemption_host import EACH_UNIT, Host


def budget(host: Host, app: str, allowed: int = 0) -> None:
    """Let the cluster have a budget for the pods with a label ``app``."""
    selector = LabelSelector({"app": app})
    one = PodDisruptionBudget(name=app, selector=selector, disruptions_allowed=allowed)
    host.tell(ObjectChanged(one))


def labelled(name: str, app: str, **fields: Any) -> Pod:
    """Return a pod with a label ``app``."""
    pod = make_pod(name, cpu=1, **fields)
    return evolve(pod, labels={**pod.labels, "app": app})


def alone(host: Host, name: str, node: int, app: str, **fields: Any) -> None:
    """Let a regular pod run on a node."""
    host.tell(PodAdded(evolve(labelled(name, app, **fields), node_name=NodeName(f"n{node}"))))


@EACH_UNIT
def test_gang_violates_a_budget_where_nothing_else_is_enough(unit: SchedulingUnit) -> None:
    host = Host(1, 1, unit=unit)
    budget(host, "x")
    alone(host, "a", 0, "x")
    alone(host, "b", 1, "y")
    host.gang("high", 2, 5)
    assert sorted(host.evicted) == ["a", "b"]


@EACH_UNIT
@pytest.mark.parametrize("spared", ["a", "b", "c"])
def test_gang_spares_first_the_victim_that_violates_a_budget(
    unit: SchedulingUnit, spared: str
) -> None:
    """Two of three are needed, and each set of two violates a budget.

    An unsigned profile tells nothing about gains, so all three are taken before one is spared.
    """
    host = Host(1, 1, 1, unit=unit, faulty=FaultyPlugin("filter"))
    budget(host, "x")
    budget(host, "y", 1)
    for number, name in enumerate("abc"):
        alone(host, name, number, "x" if name == spared else "y", created_at=float(number))
    host.gang("high", 2, 5)
    assert len(host.evicted) == 2
    assert spared not in host.evicted


@EACH_UNIT
def test_nomination_is_taken_whatever_the_budget_of_its_pods_allows(unit: SchedulingUnit) -> None:
    """Its pods hold no node, so none is evicted; the other victim would be."""
    host = Host(1, unit=unit)
    alone(host, "low", 0, "y")
    budget(host, "x")
    host.pods(labelled("nominated", "x", priority=5))
    assert (host.evicted, host.kept) == (["low"], ["nominated"])
    host.tell(NodeAdded(make_node("n1", cpu=1)))
    alone(host, "other", 1, "y", priority=6)
    host.pods(labelled("high", "y", priority=9))
    assert (host.evicted, host.kept) == (["low"], ["high"])


def test_members_that_wait_on_permit_count_for_no_budget() -> None:
    host = Host(1, 1)
    alone(host, "a", 0, "y")
    budget(host, "x")
    host.pods(*[labelled(f"waits-{n}", "x", group="waits", min_available=2) for n in range(2)])
    assert host.where == {"a": "n0"}
    host.pods(labelled("high", "y", priority=5))
    assert host.evicted == []
    assert host.where == {"a": "n0", "high": "n1"}
