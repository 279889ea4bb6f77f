"""Pods of one class that differ in labels: the constraints of other pods tell them apart.

What plugins read of a pod without constraints leaves out its labels, so such pods are of one class.
Whether a sibling has affinity to one of them, or a carried term is about it, depends on the labels
and on the namespace.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from gangsched import (
    Coscheduling,
    LabelSelector,
    Node,
    NodeAdded,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodUID,
    Preemption,
    Scheduler,
    SchedulingUnit,
    TopologySpreadConstraint,
    presets,
)
from gangsched.cluster_objects import Namespace
from gangsched.events import Bind, Evict, ObjectChanged
from support.immediate_host import ImmediateHost

pytestmark = pytest.mark.once("says itself which unit it is about")

EACH_UNIT = pytest.mark.parametrize("unit", list(SchedulingUnit), ids=lambda unit: unit.value)
_HOST = "kubernetes.io/hostname"
_X = LabelSelector({"app": "x"})


def _term(**more: Any) -> PodAffinityTerm:
    return PodAffinityTerm(topology_key=_HOST, label_selector=_X, **more)


class _Host(ImmediateHost):
    """A host with one node for each of some numbers of pods."""

    def __init__(self, unit: SchedulingUnit, *sizes: int, **options: Any) -> None:
        super().__init__()
        if unit is SchedulingUnit.GROUP:
            self.scheduler: Scheduler = presets.gang(self.cluster, **options)
        else:
            self.scheduler = presets.coscheduling(self.cluster, **options)
        for n, size in enumerate(sizes):
            labels = {_HOST: f"n{n}", "zone": f"z{n}"}
            self.tell(NodeAdded(Node(name=f"n{n}", allocatable={"pods": size}, labels=labels)))

    def add(self, name: str, app: str = "", **more: Any) -> None:
        self.tell(PodAdded(Pod(name=name, labels={"app": app} if app else {}, **more)))

    @property
    def bound(self) -> dict[str, str]:
        return {e.uid.split("/")[1]: e.node for e in self.effects if isinstance(e, Bind)}

    def later(self) -> None:
        """Let every backoff end."""
        for _ in range(6):
            self.at(self.now + 100.0)


# Members of one gang ------------------------------------------------------------------------------

_SPREAD = TopologySpreadConstraint(
    max_skew=1, topology_key="zone", label_selector=_X, node_affinity_policy="Ignore"
)
_AFFINE: dict[str, Any] = {"pod_affinity": [_term()]}
_EVEN: dict[str, Any] = {"topology_spread_constraints": [_SPREAD], "node_selector": {_HOST: "n0"}}


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("sizes", [(1, 2), (2, 1)])
def test_members_are_not_interchangeable_where_a_sibling_has_affinity_to_one(
    sizes: tuple[int, ...], order: tuple[int, ...]
) -> None:
    host = _Host(SchedulingUnit.GROUP, *sizes)
    each: dict[str, Any] = {"pod_group": "g", "min_available": 3}
    members: list[tuple[str, str, dict[str, Any]]] = [
        ("other", "y", {}),
        ("friend", "x", {}),
        ("affine", "z", _AFFINE),
    ]
    for n in order:
        name, app, more = members[n]
        host.add(name, app, **each, **more)
    host.decide()
    assert len(host.bound) == 3
    assert host.bound["affine"] == host.bound["friend"]


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("nodes", [("z0", "z1", "z0"), ("z0", "z0", "z1")])
def test_members_are_not_interchangeable_where_a_sibling_is_spread_among_some(
    nodes: tuple[str, ...], order: tuple[int, ...]
) -> None:
    """The spread member fits beside a running pod only if the counted one is in the other zone."""
    host = _Host(SchedulingUnit.GROUP)
    for n, zone in enumerate(nodes):
        labels = {_HOST: f"n{n}", "zone": zone}
        allocatable = {"pods": 1 if n else 2}
        host.tell(NodeAdded(Node(name=f"n{n}", allocatable=allocatable, labels=labels)))
    host.add("running", "x", node_name="n0")
    each: dict[str, Any] = {"pod_group": "g", "min_available": 3}
    members: list[tuple[str, str, dict[str, Any]]] = [
        ("other", "y", {}),
        ("counted", "x", {}),
        ("even", "x", _EVEN),
    ]
    for n in order:
        name, app, more = members[n]
        host.add(name, app, **each, **more)
    host.decide()
    assert host.bound["even"] == "n0"
    assert nodes[int(host.bound["counted"][1])] == "z1"


# Entities of one equivalence class ----------------------------------------------------------------


@EACH_UNIT
def test_gang_is_tried_although_like_gang_fails_that_no_affinity_is_about(
    unit: SchedulingUnit,
) -> None:
    host = _Host(unit, 2)
    for name in ("p", "q"):
        host.add(name, node_name="n0")
    for group, app in (("g1", "y"), ("g2", "x")):
        each: dict[str, Any] = {"pod_group": group, "min_available": 2}
        host.add(f"{group}-a", app, **each)
        host.add(f"{group}-b", "z", pod_affinity=[_term()], **each)
        host.decide()
    host.end("p", "q")
    host.decide()
    host.later()
    assert host.bound == {"g2-a": "n0", "g2-b": "n0"}


@EACH_UNIT
def test_pod_is_tried_although_like_pod_of_another_namespace_is_kept_away(
    unit: SchedulingUnit,
) -> None:
    host = _Host(unit, 3)
    for name, team in (("one", "a"), ("two", "b")):
        host.tell(ObjectChanged(Namespace(name=name, labels={"team": team})))
    apart = _term(namespace_selector=LabelSelector({"team": "b"}))
    host.add("carrier", pod_anti_affinity=[apart], node_name="n0")
    for name in ("p", "q"):
        host.add(name, node_name="n0")
    for namespace in ("two", "one"):
        host.add(f"of-{namespace}", "x", namespace=namespace)
        host.decide()
    host.end("p", "q")
    host.decide()
    host.later()
    assert host.bound == {"of-one": "n0"}


@EACH_UNIT
def test_pod_is_tried_when_carried_term_is_not_about_its_namespace_any_more(
    unit: SchedulingUnit,
) -> None:
    host = _Host(unit, 3)
    host.tell(ObjectChanged(Namespace(name="two", labels={"team": "b"})))
    apart = _term(namespace_selector=LabelSelector({"team": "b"}))
    host.add("carrier", pod_anti_affinity=[apart], node_name="n0")
    host.add("p", "x", namespace="two")
    host.decide()
    host.later()
    assert host.bound == {}
    host.tell(ObjectChanged(Namespace(name="two", labels={"team": "a"})))
    host.decide()
    host.later()
    assert host.bound == {"p": "n0"}


# Late members -------------------------------------------------------------------------------------


@EACH_UNIT
def test_late_member_is_tried_although_carried_term_keeps_like_one_away(
    unit: SchedulingUnit,
) -> None:
    host = _Host(unit, 9)
    host.add("carrier", pod_anti_affinity=[_term()], node_name="n0")
    each: dict[str, Any] = {"pod_group": "g", "min_available": 1}
    host.add("first", "z", **each)
    host.decide()
    host.add("kept-away", "x", **each)
    host.add("late", "y", **each)
    host.decide()
    assert host.bound == {"first": "n0", "late": "n0"}


@EACH_UNIT
def test_late_member_preempts_although_eviction_helps_no_like_one(unit: SchedulingUnit) -> None:
    host = _Host(unit, 3, preemption=Preemption(elastic_members=True))
    host.add("carrier", pod_anti_affinity=[_term()], node_name="n0", priority=9)
    host.add("low", node_name="n0")
    each: dict[str, Any] = {"pod_group": "g", "min_available": 1, "priority": 5}
    host.add("first", "z", **each)
    host.decide()
    host.add("kept-away", "x", **each)
    host.add("late", "y", **each)
    host.decide()
    assert [e.uid for e in host.effects if isinstance(e, Evict)] == [PodUID("default/low")]
    host.end("low")
    host.decide()
    assert host.bound == {"first": "n0", "late": "n0"}


def test_unsigned_profile_tells_such_members_apart() -> None:
    host = _Host(SchedulingUnit.GROUP, 1, 2)
    host.scheduler = presets.kube_default(
        host.cluster, policy=Coscheduling(), unit=SchedulingUnit.GROUP
    )
    host.scheduler.rebuild(now=0.0)
    each: dict[str, Any] = {"pod_group": "g", "min_available": 3}
    for name, app, more in (("friend", "x", {}), ("other", "y", {}), ("affine", "z", _AFFINE)):
        host.add(name, app, **each, **more)
    host.decide()
    assert len(host.bound) == 3
