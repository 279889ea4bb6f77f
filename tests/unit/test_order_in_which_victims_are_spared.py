"""Of units that were taken and are not needed, the one most worth sparing is spared first.

Pods that gain nothing alone are taken in batches that double, so more are taken than needed.
"""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import LabelSelector, NodeName, ObjectChanged, PodAdded, SchedulingUnit
from gangsched.cluster_objects import PodDisruptionBudget
from gangsched.testing import make_pod
from support.preemption_host import EACH_UNIT, Host


def run(host: Host, name: str, *, node: str = "n0", app: str = "", **more: Any) -> None:
    pod = make_pod(name, cpu=1, **more)
    host.tell(PodAdded(evolve(pod, node_name=NodeName(node), labels={**pod.labels, "app": app})))


def spared(host: Host, *names: str, needed: int) -> set[str]:
    """Return the pods that stay when a member that needs the capacity of most comes.

    The other member of its gang fits on the node ``n1``.
    """
    host.gang("high", 2, 5, cpu=needed)
    assert len(host.evicted) == needed
    return {*names}.difference(host.evicted)


@EACH_UNIT
@pytest.mark.parametrize("names", ["abc", "cba"])
def test_oldest_pod_is_spared(unit: SchedulingUnit, names: str) -> None:
    host = Host(3, 2, unit=unit)
    for name in names:
        run(host, name, created_at=float(ord(name)))
    assert spared(host, *names, needed=2) == {"a"}


@EACH_UNIT
def test_pod_that_arrived_first_is_spared_of_pods_of_one_age(unit: SchedulingUnit) -> None:
    host = Host(3, 2, unit=unit)
    for name in "bca":
        run(host, name)
    assert spared(host, *"bca", needed=2) == {"b"}


@EACH_UNIT
def test_pod_of_higher_priority_is_spared_before_an_older_pod(unit: SchedulingUnit) -> None:
    host = Host(5, 4, unit=unit)
    run(host, "low", created_at=0.0)
    for number, name in enumerate("wxyz"):
        run(host, name, priority=1, created_at=number + 1.0)
    assert spared(host, "low", *"wxyz", needed=4) == {"w"}


@EACH_UNIT
def test_gang_of_more_pods_is_spared_before_an_older_gang(unit: SchedulingUnit) -> None:
    host = Host(3, 3, unit=unit)
    run(host, "old-0", group="old", min_available=1, created_at=0.0)
    for number, node in enumerate(("n0", "n1")):
        more: dict[str, Any] = {"group": "large", "min_available": 2}
        run(host, f"large-{number}", node=node, created_at=9.0, **more)
    run(host, "young-0", group="young", min_available=1, created_at=5.0)
    assert spared(host, "old-0", "large-0", "young-0", needed=2) == {"large-0"}


@EACH_UNIT
def test_pod_whose_eviction_violates_a_budget_is_spared_before_an_older_pod(
    unit: SchedulingUnit,
) -> None:
    host = Host(5, 4, unit=unit)
    selector = LabelSelector({"app": "a"})
    budget = PodDisruptionBudget(name="a", selector=selector, disruptions_allowed=0)
    host.tell(ObjectChanged(budget))
    for number, name in enumerate(("p", "q", "r", "a0", "a1")):
        run(host, name, app=name[0], created_at=float(number))
    assert spared(host, "p", "q", "r", "a0", "a1", needed=4) == {"a0"}
