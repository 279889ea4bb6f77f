"""A plugin that reads pods may name the only nodes that it can accept: no other node is asked."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from attrs import field, frozen

from gangsched import (
    Bind,
    InMemoryCluster,
    NodeAdded,
    NodeName,
    Outcome,
    Pod,
    PodAdded,
    PodUnschedulable,
    Scheduler,
    SchedulingUnit,
    Unschedulable,
    presets,
)
from gangsched.outcomes import SUCCESS
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import make_node, make_pod


@frozen
class Naming:
    """Accepts at most one pod on a node, and only nodes that it names for the pod."""

    named: tuple[str, ...] | None
    name: str = "Naming"
    asked: list[str] = field(factory=list[str])

    def pod_signature(self, pod: Pod) -> str:
        return ""

    def reads_pods(self, pod: Pod) -> bool:
        return True

    def nodes_named(self, pod: Pod) -> Iterable[NodeName] | None:
        return None if self.named is None else [NodeName(name) for name in self.named]

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        self.asked.append(node.node.name)
        return Unschedulable("node has a pod") if any(True for _pod in node.pods) else SUCCESS


def decided(
    pods: list[Pod], *plugins: Naming, unit: SchedulingUnit, cpu: int = 4
) -> tuple[dict[str, str], str, Scheduler]:
    """Return the node of each pod that is bound, the last reason, and the scheduler."""
    cluster = InMemoryCluster()
    for name in ("a", "b", "c", "d"):
        cluster.apply(NodeAdded(make_node(name, cpu=1 if name == "d" else cpu)))
    for pod in pods:
        cluster.apply(PodAdded(pod))
    scheduler = presets.coscheduling(cluster, unit=unit, plugins=plugins)
    scheduler.rebuild(now=0.0)
    bound, reason = dict[str, str](), ""
    while (effects := scheduler.schedule_one(now=0.0)) is not None:
        for effect in effects:
            if isinstance(effect, Bind):
                bound[effect.uid.partition("/")[2]] = effect.node
            elif isinstance(effect, PodUnschedulable):
                reason = effect.reason
    return bound, reason, scheduler


UNITS = pytest.mark.parametrize("unit", list(SchedulingUnit))


@UNITS
def test_only_named_nodes_are_asked_and_taken(unit: SchedulingUnit) -> None:
    plugin = Naming(("gone", "d", "c"))
    bound, _reason, _scheduler = decided([make_pod("p", cpu=2)], plugin, unit=unit)
    assert bound == {"p": "c"}
    assert set(plugin.asked) == {"c"}


@UNITS
def test_named_nodes_of_two_plugins_are_those_that_both_name(unit: SchedulingUnit) -> None:
    plugins = (Naming(("a", "b")), Naming(("b", "c"), "Other"), Naming(None, "Any"))
    bound, _reason, _scheduler = decided([make_pod("p", cpu=1)], *plugins, unit=unit)
    assert bound == {"p": "b"}


@UNITS
def test_pod_that_fits_on_no_named_node_says_of_how_many_nodes_which_is_true(
    unit: SchedulingUnit,
) -> None:
    bound, reason, _scheduler = decided([make_pod("p", cpu=2)], Naming(("d",)), unit=unit)
    assert bound == {}
    assert reason.startswith("0/4 nodes are available: ")
    assert "3 node(s) didn't satisfy plugin(s) [NodeAffinity]" in reason


@UNITS
@pytest.mark.parametrize("count", [2, 3])
def test_gang_is_placed_on_named_nodes_or_not_at_all(unit: SchedulingUnit, count: int) -> None:
    gang = [make_pod(f"g{n}", group="g", min_available=count, cpu=1) for n in range(count)]
    bound, _reason, scheduler = decided(gang, Naming(("b", "d")), unit=unit)
    assert set(bound.values()) == ({"b", "d"} if count == 2 else set())
    scheduler._check()
