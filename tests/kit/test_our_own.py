"""Our own scheduler passes its own kit, in both units, with every fault that the kit knows.

In either unit it is held to as many stories as the profile says, in every other way to fewer: most
of what a story does is the same in all ways of a unit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

import gangsched
from gangsched import PlacementStrategy, SchedulingUnit, WhenBindFails, presets
from gangsched.testing import (
    AddNode,
    Arrive,
    PlainPod,
    Rest,
    Terms,
    adapt,
    check_scheduler,
    check_story,
)
from kit.ours import WAYS
from support.examples import one_in, surely

PLAIN = ("pod", "group")
OTHER = [way for way in WAYS if way not in PLAIN]


@pytest.fixture(autouse=True)
def heap(record_property: Callable[[str, object], None]) -> str:
    """Which of the two builds of the heap it runs on; the report of a run says so."""
    record_property("heap", gangsched.heap_implementation)
    return gangsched.heap_implementation


@pytest.mark.parametrize("way", PLAIN)
def test_our_scheduler_keeps_the_laws_with_faults_and_features(way: str, heap: str) -> None:
    print(f"{way}: on the heap in {heap}")
    check_scheduler(adapt(WAYS[way].make), terms=WAYS[way].terms)


@pytest.mark.parametrize("way", OTHER)
def test_it_does_in_every_other_way(way: str) -> None:
    check_scheduler(adapt(WAYS[way].make), terms=WAYS[way].terms, settings=one_in(3))


@pytest.mark.parametrize("unit", SchedulingUnit, ids=lambda unit: unit.value)
def test_it_does_when_it_is_told_twice(unit: SchedulingUnit) -> None:
    make = partial(presets.coscheduling, unit=unit)
    check_scheduler(adapt(make, twice=True), settings=one_in(3))


@pytest.mark.parametrize(
    "placement", [each for each in PlacementStrategy if each is not PlacementStrategy.AUTO]
)
def test_it_does_in_every_layout(placement: PlacementStrategy) -> None:
    """In the layout ``AUTO`` it is the plain one of the unit ``group``."""
    check_scheduler(adapt(partial(presets.gang, placement=placement)), settings=one_in(3))


@pytest.mark.parametrize("unit", SchedulingUnit, ids=lambda unit: unit.value)
def test_it_does_where_a_failed_bind_evicts_the_gang(unit: SchedulingUnit) -> None:
    make = partial(presets.coscheduling, unit=unit, when_bind_fails=WhenBindFails.RELEASE_GROUP)
    check_scheduler(adapt(make), terms=Terms(evicts=True), settings=one_in(3))


@pytest.mark.parametrize("way", PLAIN)
def test_the_first_of_a_bundle_leaves_its_node_to_the_second_that_fits_nowhere_else(
    way: str,
) -> None:
    """A story that the kit found, in which nobody started."""
    first = PlainPod(
        uid="u4",
        group="g0",
        requests={"gpu": 1},
        within="zone",
        bundle=("g2",),
        tolerates=("kept",),
    )
    second = PlainPod(uid="u3", group="g2", requests={"gpu": 2}, bundle=("g0",))
    check_story(
        adapt(WAYS[way].make),
        AddNode("n1", {"gpu": 2}, {"zone": "b"}),
        AddNode("n2", {"gpu": 3}, {"zone": "a"}, ("kept",)),
        Arrive((first, second)),
        Rest(),
        terms=WAYS[way].terms,
    )


def test_a_scheduler_without_gangs_does_not() -> None:
    with pytest.raises(AssertionError, match="law 1: gang g1 "):
        check_scheduler(adapt(presets.pod_by_pod), settings=surely())
