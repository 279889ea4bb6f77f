"""The schedulers of gangsched pass the kit, with all faults and features.

The plain variant of each scheduling unit gets the full number of examples of the loaded profile.
The others get a third, because most of their code is that of the plain variant.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

import gangsched
from gangsched import PlacementStrategy, Preemption, SchedulingUnit, WhenBindFails, presets
from gangsched.testing import (
    AddNode,
    BindSucceeds,
    LawViolation,
    PlainPod,
    RemoveNode,
    SchedulerSpec,
    Settle,
    Start,
    Stop,
    SubmitPods,
    Tick,
    adapt,
    check_scheduler,
    check_steps,
)
from kit.variants import VARIANTS
from support.examples import one_in, surely

PLAIN = ("pod", "group")
OTHER = [variant for variant in VARIANTS if variant not in PLAIN]


@pytest.fixture(autouse=True)
def heap(record_property: Callable[[str, object], None]) -> str:
    """Record in the test report which build of the heap is tested."""
    record_property("heap", gangsched.heap_implementation)
    return gangsched.heap_implementation


@pytest.mark.parametrize("variant", PLAIN)
def test_gangsched_keeps_the_laws_with_all_faults_and_features(variant: str, heap: str) -> None:
    print(f"{variant}: on the heap in {heap}")
    check_scheduler(adapt(VARIANTS[variant].make), spec=VARIANTS[variant].spec)


@pytest.mark.parametrize("variant", OTHER)
def test_gangsched_keeps_the_laws_in_each_variant(variant: str) -> None:
    check_scheduler(adapt(VARIANTS[variant].make), spec=VARIANTS[variant].spec, settings=one_in(3))


@pytest.mark.parametrize("unit", SchedulingUnit, ids=lambda unit: unit.value)
def test_gangsched_keeps_the_laws_with_duplicate_events(unit: SchedulingUnit) -> None:
    make = partial(presets.coscheduling, unit=unit)
    check_scheduler(adapt(make, duplicate_events=True), settings=one_in(3))


@pytest.mark.parametrize(
    "placement", [each for each in PlacementStrategy if each is not PlacementStrategy.AUTO]
)
def test_gangsched_keeps_the_laws_with_each_placement_strategy(
    placement: PlacementStrategy,
) -> None:
    """``AUTO`` is left out: it is the default, which the plain variant covers."""
    check_scheduler(adapt(partial(presets.gang, placement=placement)), settings=one_in(3))


@pytest.mark.parametrize("unit", SchedulingUnit, ids=lambda unit: unit.value)
def test_gangsched_keeps_the_laws_when_failed_binds_evict_the_gang(unit: SchedulingUnit) -> None:
    make = partial(presets.coscheduling, unit=unit, when_bind_fails=WhenBindFails.RELEASE_GROUP)
    check_scheduler(adapt(make), settings=one_in(3))


@pytest.mark.parametrize("elastic", [False, True])
def test_gangsched_keeps_the_laws_when_it_preempts(elastic: bool) -> None:
    make = partial(presets.gang, preemption=Preemption(elastic_members=elastic))
    check_scheduler(adapt(make), settings=one_in(3))


def test_spec_says_whether_a_scheduler_may_evict_and_else_its_adapter() -> None:
    make = adapt(partial(presets.gang, preemption=Preemption()))
    low, high = (
        PlainPod(uid=uid, requests={"gpu": 1}, priority=priority)
        for priority, uid in enumerate(("u1", "u2"))
    )
    steps = (
        AddNode("n1", {"gpu": 1}),
        *(SubmitPods((low,)), Tick(), BindSucceeds("u1"), SubmitPods((high,)), Tick()),
    )
    check_steps(make, *steps)
    check_steps(make, *steps, spec=SchedulerSpec(may_evict=True))
    with pytest.raises(LawViolation, match="u1 was placed on n1, and is on no node"):
        check_steps(make, *steps, spec=SchedulerSpec(may_evict=False))


@pytest.mark.parametrize("variant", PLAIN)
def test_bundle_starts_when_one_gang_fits_only_one_node(
    variant: str,
) -> None:
    """A regression found by the kit: no pod started."""
    first = PlainPod(
        uid="u4",
        group="g0",
        requests={"gpu": 1},
        topology_key="zone",
        bundle=("g2",),
        tolerates=("dedicated",),
    )
    second = PlainPod(uid="u3", group="g2", requests={"gpu": 2}, bundle=("g0",))
    check_steps(
        adapt(VARIANTS[variant].make),
        AddNode("n1", {"gpu": 2}, {"zone": "b"}),
        AddNode("n2", {"gpu": 3}, {"zone": "a"}, ("dedicated",)),
        SubmitPods((first, second)),
        Settle(),
        spec=VARIANTS[variant].spec,
    )


@pytest.mark.parametrize("variant", PLAIN)
def test_restored_member_does_not_wait_on_a_node_that_went_meanwhile(variant: str) -> None:
    """A regression found by the kit: it waited there until its permit timeout."""
    pods = [PlainPod(uid=u, group="g1", min_available=2, requests={"gpu": 1}) for u in "ab"]
    check_steps(
        adapt(VARIANTS[variant].make),
        AddNode("n1", {"gpu": 1}),
        *(SubmitPods(tuple(pods)), Tick(), Stop(), RemoveNode("n1"), Start()),
        *(AddNode("n2", {"gpu": 2}), Settle()),
        spec=VARIANTS[variant].spec,
    )


def test_pod_by_pod_scheduler_breaks_law_1() -> None:
    with pytest.raises(AssertionError, match="law 1: gang g1 "):
        check_scheduler(adapt(presets.pod_by_pod), settings=surely())
