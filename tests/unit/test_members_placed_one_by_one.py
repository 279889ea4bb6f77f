"""The budget and the reasons of gangs whose members are placed one by one."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import pytest

from gangsched import (
    Bind,
    InMemoryCluster,
    NodeAdded,
    Outcome,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    Success,
    Topology,
    Unschedulable,
    presets,
)
from gangsched.explain import NoNodeFits, SearchBudgetExhausted, UnschedulableMember
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import make_node, make_pod


class Accepts:
    """A plugin that reads pods, and accepts some nodes, which it does not tell by class."""

    name = "Accepts"

    def __init__(self, accepts: Callable[[str], bool]) -> None:
        self._accepts = accepts

    def pod_signature(self, pod: Pod) -> Hashable:
        return None

    def reads_pods(self, pod: Pod) -> bool:
        return True

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return Success() if self._accepts(node.node.name) else Unschedulable("not this one")


def decide(
    accepts: Callable[[str], bool],
    count: int,
    racks: dict[str, str | None],
    *,
    budget: int = 10_000,
    within: str | None = None,
) -> tuple[int, UnschedulableMember | None]:
    """Decide about a gang; return how many members start, and which member is unschedulable."""
    cluster = InMemoryCluster()
    for name, rack in racks.items():
        labels = {} if rack is None else {"rack": rack}
        cluster.apply(NodeAdded(make_node(name, cpu=2, labels=labels)))
    topology = None if within is None else Topology(within, required=True)
    cluster.apply(PodGroupAdded(PodGroup(name="g", min_available=count, topology=topology)))
    for number in range(count):
        cluster.apply(PodAdded(make_pod(f"g-{number}", group="g", cpu=1)))
    scheduler = presets.gang(cluster, plugins=(Accepts(accepts),), search_budget=budget)
    scheduler.rebuild(now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    scheduler._check()
    started = sum(isinstance(effect, Bind) for effect in effects)
    why = scheduler.why("default/g")
    return started, why.unschedulable_member if isinstance(why, NoNodeFits) else None


@pytest.mark.parametrize(
    ("budget", "steps"), [(0, 347), (346, 347), (400, 400), (800, 800), (2_000, None)]
)
def test_nodes_that_are_asked_about_beyond_1000_are_paid_from_the_budget(
    budget: int, steps: int | None
) -> None:
    """Each member asks about 450 nodes, of which only the last two are accepted.

    The reason says how many were placed before the budget was spent, by whichever part.
    """
    nodes: dict[str, str | None] = {f"n{n:03}": None for n in range(450)}
    started, why = decide(lambda name: name in ("n448", "n449"), 4, nodes, budget=budget)
    assert started == (0 if steps else 4)
    if steps:
        assert why is not None
        assert why.proof == SearchBudgetExhausted(4, 3, steps)


@pytest.mark.parametrize(("budget", "count"), [(100, 0), (1_000, 2)])
def test_next_rack_is_tried_while_steps_are_left(budget: int, count: int) -> None:
    """The smallest rack is tried first, and refuted for at least 100 steps."""
    racks: dict[str, str | None] = {"a": "a", "b0": "b", "b1": "b"}
    started, why = decide(lambda name: name.startswith("b"), 2, racks, budget=budget, within="rack")
    assert started == count
    if not count:
        assert why is not None
        assert why.proof == SearchBudgetExhausted(2, 0, 100)


def test_label_that_no_node_has_is_the_reason() -> None:
    started, why = decide(lambda _name: True, 2, {"n": None}, within="rack")
    assert started == 0
    assert why is not None
    assert why.reason == "no node that can take it has the label rack"
