"""An int of any size never reaches a float: it is refused by name, or computed with as an int."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, Final

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    InMemoryCluster,
    InvalidValueError,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    SchedulingUnit,
    presets,
)
from gangsched.constraints import ContainerImage, TopologySpreadConstraint, WhenUnsatisfiable
from gangsched.quantity import Thousandths
from gangsched.resources import Resources
from gangsched.testing import make_pod

HUGE: Final = 10**400
LARGEST: Final = 2**127
UNITS: Final = tuple(SchedulingUnit)
PRESETS: Final = (presets.coscheduling, presets.kube_default)


def decide(unit: SchedulingUnit, preset: Any, *shown: Node | Pod | PodGroup) -> None:
    """Take in objects and decide about all of them; nothing may raise."""
    cluster = InMemoryCluster()
    for each in shown:
        if isinstance(each, Node):
            cluster.apply(NodeAdded(each))
        elif isinstance(each, Pod):
            cluster.apply(PodAdded(each))
        else:
            cluster.apply(PodGroupAdded(each))
    scheduler = preset(cluster, unit=unit)
    scheduler.rebuild(now=0.0)
    while scheduler.schedule_one(now=0.0) is not None:
        scheduler._check()


REFUSED: Final[dict[str, tuple[str, Callable[[int], object]]]] = {
    "requests in units": ("cpu", lambda n: make_pod("p", requests={"cpu": n})),
    "requests in thousandths": ("cpu", lambda n: make_pod("p", requests={"cpu": Thousandths(n)})),
    "allocatable": ("memory", lambda n: Node(name="n", allocatable={"memory": Thousandths(n)})),
    "min_resources": (
        "gpu",
        lambda n: PodGroup(name="g", min_available=1, min_resources={"gpu": Thousandths(n)}),
    ),
    "computed": ("cpu", lambda n: Resources.from_milli({"cpu": n})),
    "image": ("size_bytes", lambda n: ContainerImage(size_bytes=n)),
    "skew": ("max_skew", lambda n: TopologySpreadConstraint(max_skew=n, topology_key="zone")),
    "domains": (
        "min_domains",
        lambda n: TopologySpreadConstraint(max_skew=1, topology_key="zone", min_domains=n),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_amount_that_is_no_float_is_refused_by_name(name: str) -> None:
    field, made = REFUSED[name]
    with pytest.raises(InvalidValueError) as caught:
        made(HUGE)
    assert (caught.value.field, caught.value.value) == (field, HUGE)


@given(st.integers(-LARGEST, LARGEST))
def test_computed_amount_within_the_bound_is_kept(amount: int) -> None:
    made = Resources.from_milli({"cpu": amount})
    assert made.amount("cpu") == amount
    assert pickle.loads(pickle.dumps(made)) == made


def largest_amounts() -> list[Node | Pod | PodGroup]:
    nodes = [
        Node(name=NodeName(f"n{k}"), allocatable=Resources.from_milli({"cpu": cpu, "memory": cpu}))
        for k, cpu in enumerate((1, LARGEST, 5))
    ]
    members = [
        evolve(
            make_pod(f"g-{k}", group="g", min_available=3),
            requests=Resources.from_milli({"cpu": amount, "memory": amount // 2}),
        )
        for k, amount in enumerate((LARGEST, LARGEST - 1, 1, 2))
    ]
    return [*nodes, *members]


def largest_scores() -> list[Node | Pod | PodGroup]:
    anyway = WhenUnsatisfiable.SCHEDULE_ANYWAY
    spread = TopologySpreadConstraint(
        max_skew=2**31 - 1, topology_key="zone", when_unsatisfiable=anyway
    )
    image = ContainerImage(names=("i:1",), size_bytes=2**63 - 1)
    nodes = [
        Node(name=f"n{k}", allocatable={"cpu": 4}, labels={"zone": f"z{k}"}, images=(image,))
        for k in range(2)
    ]
    pod = evolve(make_pod("p", cpu=1), topology_spread_constraints=(spread,), images=("i:1",))
    return [*nodes, pod, evolve(pod, name="q", uid="q")]


def largest_priorities() -> list[Node | Pod | PodGroup]:
    return [
        Node(name="n", allocatable={"cpu": 4}),
        PodGroup(name="g", min_available=HUGE, priority=-HUGE),
        PodGroup(name="h", min_available=1, priority=HUGE),
        make_pod("g-0", group="g", cpu=1),
        make_pod("h-0", group="h", cpu=1),
        make_pod("p", cpu=1, priority=HUGE),
        make_pod("q", cpu=1, priority=-HUGE),
    ]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("scene", [largest_amounts, largest_scores, largest_priorities])
def test_values_of_any_size_are_decided(preset: Any, unit: SchedulingUnit, scene: Any) -> None:
    decide(unit, preset, *scene())
