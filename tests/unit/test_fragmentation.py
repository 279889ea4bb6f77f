"""How the free capacity lies in domains: each definition, and that it follows what happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from gangsched import NodeAdded, NodeDeleted, PodAdded, Resources, presets
from gangsched.events import Event, PodUpdated
from gangsched.model import Node, PodUID
from gangsched.options.levels import as_levels
from gangsched.protocols import ClusterState
from gangsched.scheduler import Scheduler
from gangsched.simulation import (
    Arrival,
    BindFails,
    FaultPlan,
    OwnerDeleted,
    Simulator,
    Workload,
    load_trace,
    report,
)
from gangsched.simulation.fragmentation import Fragmentation, domain_of
from gangsched.simulation.places import Places
from gangsched.simulation.timeline import Timeline
from gangsched.testing import make_node, make_pod

LEVELS = ("block", "rack", "kubernetes.io/hostname")
COLUMNS = "job,submit_s,workers,gpus_per_worker,duration_s\n"


def node(name: str, place: str, *, cpu: int = 4, **more: Any) -> Node:
    keys: tuple[str, ...] = ("block", "rack") if place else ()
    labels = dict(zip(keys, place.split("/"), strict=False))
    return make_node(name, cpu=cpu, labels=labels, **more)


FLEET = (node("a", "b0/r0"), node("b", "b0/r1"), node("c", "b1/r0"), node("d", "b1/r0"))


def run(*timed: tuple[float, Event | OwnerDeleted], **options: Any) -> Timeline:
    """Run events on the fleet; return what was seen of it."""
    timeline = Timeline()
    fleet = [Arrival(0.0, NodeAdded(each)) for each in FLEET]
    work = Workload([*fleet, *(Arrival(at, event) for at, event in timed)])
    simulator = Simulator(
        work, lambda cluster: presets.gang(cluster, levels=LEVELS), observers=(timeline,), **options
    )
    timeline.watch(simulator)
    simulator.run()
    return timeline


def last(timeline: Timeline, level: str) -> Fragmentation:
    return next(row for row in timeline.points[-1].levels if row.level == level)


def pod(name: str, on: str | None, cpu: int) -> PodAdded:
    return PodAdded(evolve(make_pod(name, cpu=cpu), node_name=on))


# Definitions ------------------------------------------------------------------------------------


def test_empty_cluster_is_whole_and_each_node_is_a_domain_of_the_level_of_nodes() -> None:
    timeline = run()
    cpu = Resources({"cpu": 16})
    of = {level: last(timeline, level) for level in LEVELS}
    assert [(row.domains, row.whole) for row in of.values()] == [(2, 2), (3, 3), (4, 4)]
    assert [row.largest_free["cpu"] for row in of.values()] == [8000, 8000, 4000]
    for row in of.values():
        assert (row.free, row.free_in_whole, row.whole_share) == (cpu, cpu, {"cpu": 1.0})


def test_pod_takes_from_what_is_free_and_its_domains_are_not_whole() -> None:
    timeline = run((1.0, pod("p", "c", 3)))
    block, rack, host = (last(timeline, level) for level in LEVELS)
    assert [(row.domains, row.whole) for row in (block, rack, host)] == [(2, 1), (3, 2), (4, 3)]
    assert [row.largest_free["cpu"] for row in (block, rack, host)] == [8000, 5000, 4000]
    assert {row.free["cpu"] for row in (block, rack, host)} == {13000}
    assert [row.whole_share["cpu"] for row in (block, rack, host)] == [8 / 13, 8 / 13, 12 / 13]


def test_share_is_not_defined_where_nothing_is_free() -> None:
    timeline = run(*((1.0, pod(each.name, each.name, 4)) for each in FLEET))
    row = last(timeline, "rack")
    assert (row.domains, row.whole) == (3, 0)
    assert (row.largest_free, row.whole_share) == (Resources(), {})


@pytest.mark.parametrize(
    ("change", "domains", "largest"),
    [
        (NodeDeleted(FLEET[3].name), 3, 4000),
        (NodeDeleted(FLEET[1].name), 2, 8000),
        (NodeAdded(evolve(FLEET[3], unschedulable=True)), 3, 4000),
        (NodeAdded(evolve(FLEET[3], allocatable=Resources({"cpu": 1}))), 3, 5000),
        (NodeAdded(node("e", "b1/r0")), 3, 12000),
        (NodeAdded(node("e", "b1/r9")), 4, 8000),
        (NodeAdded(node("e", "b1")), 3, 8000),  # in a block, and in no rack
        (NodeAdded(node("e", "")), 3, 8000),
    ],
)
def test_nodes_that_come_go_and_change_are_followed(
    change: Event, domains: int, largest: int
) -> None:
    row = last(run((1.0, change)), "rack")
    assert (row.domains, row.largest_free["cpu"]) == (domains, largest)


def test_overcommitted_node_has_nothing_free_and_not_less() -> None:
    timeline = run((1.0, pod("p", "a", 3)), (1.0, pod("q", "a", 3)))
    assert last(timeline, "block").free == Resources({"cpu": 12})


@pytest.mark.parametrize(
    ("level", "of", "path"),
    [
        ("rack", "b0/r1", ("b0", "r1")),
        ("block", "b0/r1", ("b0",)),
        ("rack", "b0", None),
        ("zone", "b0/r1", None),
        ("kubernetes.io/hostname", "", ("n",)),
    ],
)
def test_domain_is_the_path_of_its_level(level: str, of: str, path: tuple[str, ...] | None) -> None:
    assert domain_of(node("n", of), level, as_levels(LEVELS)) == path


# What happens -----------------------------------------------------------------------------------


def test_what_is_free_follows_jobs_that_start_end_and_are_deleted() -> None:
    work = load_trace([COLUMNS, "j,1,4,0,10\n"], file="t.csv")
    pods = [(each.at, each.event) for each in work.arrivals if isinstance(each.event, PodAdded)]
    resized = [(at, PodAdded(evolve(e.pod, requests=Resources({"cpu": 2})))) for at, e in pods]
    timeline = run(*resized, (4.0, pod("k", None, 2)), (6.0, OwnerDeleted("default/k")))
    free = {point.at: point.levels[0].free["cpu"] for point in timeline.points}
    assert free == {0.0: 16000, 1.0: 8000, 4.0: 6000, 6.0: 8000, 11.0: 16000}


def test_pod_that_was_resized_on_its_node_takes_what_it_requests_now() -> None:
    before = evolve(make_pod("p", cpu=1), node_name="a")
    after = evolve(before, requests=Resources({"cpu": 3}))
    timeline = run((1.0, PodAdded(before)), (2.0, PodUpdated(after)))
    assert [point.levels[0].free["cpu"] for point in timeline.points] == [16000, 15000, 13000]


def test_pod_that_is_resized_while_it_is_bound_takes_what_it_requests_now() -> None:
    before = make_pod("p", cpu=1)
    after = evolve(before, requests=Resources({"cpu": 3}))
    timeline = run((1.0, PodAdded(before)), (1.1, PodUpdated(after)), bind_seconds=9.0, seed=1)
    free = {point.at: point.levels[0].free["cpu"] for point in timeline.points}
    assert (free[1.0], free[1.1]) == (15000, 13000)


class Agrees:
    """Observes that as many pods hold nodes in ``Places`` as in ``Jobs``."""

    def __init__(self) -> None:
        self.simulator: Simulator | None = None
        self.most = 0

    def event(self, event: Event, now: float) -> None:
        """Do nothing."""

    def effects(self, effects: tuple[object, ...], now: float) -> None:
        """Do nothing."""

    def settled(self, now: float) -> None:
        assert self.simulator is not None
        places, jobs = self.simulator.places, self.simulator.jobs
        held = sum(places.pods_on(name) for name in places.seen)
        assert held == sum(len(job.holding) for job in jobs), now
        self.most = max(self.most, held)


@pytest.mark.parametrize("preset", [presets.gang, presets.coscheduling])
@pytest.mark.parametrize("seed", range(25))
def test_places_and_jobs_agree_about_who_holds_a_node_under_any_faults(
    seed: int, preset: Callable[[ClusterState], Scheduler]
) -> None:
    lines = [COLUMNS, *(f"j{n},{n % 7},{1 + n % 4},1,{3 + n % 5}\n" for n in range(12))]
    fleet = [Arrival(0.0, NodeAdded(make_node(f"n{n}", gpu=3))) for n in range(3)]
    work = Workload(fleet) + load_trace(lines, file="t.csv", restarts=seed % 2 == 0)
    agrees = Agrees()
    plan = FaultPlan.drawn(seed, count=8, places=30, seconds=5.0)
    simulator = Simulator(
        work, preset, faults=plan, bind_seconds=2.0, observers=(agrees,), replace_lost=seed % 3 == 0
    )
    agrees.simulator = simulator
    simulator.run(until=200.0)
    assert agrees.most > 3


def test_what_a_bind_under_way_takes_is_not_free_and_is_given_back_if_it_fails() -> None:
    fails = FaultPlan([BindFails(1)])
    timeline = run((1.0, pod("p", None, 2)), faults=fails, bind_seconds=3.0, seed=1)
    free = [point.levels[0].free["cpu"] for point in timeline.points]
    # assigned; refused; tried again after its backoff; bound
    assert free == [16000, 14000, 16000, 14000, 14000]


def test_equal_rows_are_one_object_so_that_long_runs_stay_small() -> None:
    timeline = run((1.0, pod("p", "a", 1)), (2.0, NodeAdded(FLEET[0])), (3.0, pod("r", "a", 1)))
    one, other, third = (point.levels for point in timeline.points[1:4])
    assert one is other
    assert one is not third


def test_figures_are_means_over_time_from_the_first_pod_on() -> None:
    timeline = Timeline(as_levels(["block"]), keep=False)
    fleet = [Arrival(0.0, NodeAdded(each)) for each in FLEET]
    simulator = Simulator(
        Workload([*fleet, Arrival(90.0, pod("p", "a", 4)), Arrival(95.0, pod("q", "c", 2))]),
        presets.gang,
        observers=(timeline,),
    )
    timeline.watch(simulator)
    simulator.run(until=100.0)
    found = report(simulator, timeline=timeline).summary.levels
    assert list(found) == ["block"]
    # 5 s with block b1 whole, and 5 s with none
    assert found["block"].whole_share == {"cpu": (5 * 8) / (5 * 12 + 5 * 10)}
    assert found["block"].largest_free == {"cpu": (5 * 8 + 5 * 6) / 10}
    assert (timeline.points, timeline.stays) == ([], [])


# Places -----------------------------------------------------------------------------------------


def test_places_forget_a_pod_that_is_dropped_and_move_one_that_is_put_elsewhere() -> None:
    places, uid = Places(), PodUID("p")
    for each in FLEET[:2]:
        places.set_node(each.name, each, now=0.0)
    places.put(uid, FLEET[0].name, Resources({"cpu": 1}), now=0.0)
    places.put(uid, FLEET[1].name, Resources({"cpu": 2}), now=1.0)
    assert [places.pods_on(each.name) for each in FLEET[:2]] == [0, 1]
    assert [places.free_on(each.name)["cpu"] for each in FLEET[:2]] == [4000, 2000]
    for _time in range(2):
        places.drop(uid, now=2.0)
    assert places.free_on(FLEET[1].name)["cpu"] == 4000
    places.set_node(FLEET[1].name, None, now=3.0)
    assert (places.free_on(FLEET[1].name), FLEET[1].name in places.seen) == ({}, True)
