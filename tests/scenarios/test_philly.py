"""The Philly trace: 15,264 jobs, 42,192 pods, 125 days, on 40 nodes of 8 GPUs.

The laws are checked at every step of the run by an oracle that keeps its own account. One
scheduler goes through the whole trace; the others do in the profile ``deep``, and otherwise through
the jobs of its first days.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path

import pytest

from gangsched import (
    Backoff,
    NodeAdded,
    Order,
    PodAdded,
    Scheduler,
    SchedulingUnit,
    membership,
    presets,
)
from gangsched.cli import main
from gangsched.protocols import ClusterState
from gangsched.simulation import (
    Arrival,
    Report,
    Simulator,
    Workload,
    load_trace,
    parse_nodes_shape,
    report,
)
from support.calls import calls_for
from support.examples import IS_DEEP
from support.oracle import LawOracle

DAY = 86_400.0
SOME_DAYS, UNTIL_DAY = (126, 40) if IS_DEEP else (18, 18)


@pytest.fixture(scope="module")
def philly(traces: Path) -> Workload:
    nodes = Workload(tuple(Arrival(0.0, NodeAdded(n)) for n in parse_nodes_shape("40x8")))
    with (traces / "philly_gangs.csv").open(encoding="utf-8") as lines:
        return nodes + load_trace(lines, file="philly_gangs.csv")


class Watcher(LawOracle):
    """The oracle, as an observer of a simulation."""

    def settled(self, now: float) -> None:
        """Nothing is left to look at."""


def run(
    workload: Workload, make: Callable[[ClusterState], Scheduler], watcher: Watcher
) -> tuple[Simulator, Report]:
    simulator = Simulator(workload, make, observers=(watcher,))
    simulator.run()
    simulator.scheduler._check()
    simulator.jobs._check()
    return simulator, report(simulator)


def first(days: int, workload: Workload) -> Workload:
    """Return the jobs that come within so many days, and all nodes."""
    return Workload(tuple(each for each in workload.arrivals if each.at <= days * DAY))


def how_many(workload: Workload) -> tuple[int, int]:
    """Return how many jobs come, and how many pods."""
    pods = [each.event.pod for each in workload.arrivals if isinstance(each.event, PodAdded)]
    claims = [(pod.key, membership(pod)) for pod in pods]
    return len({claim.group if claim else key for key, claim in claims}), len(pods)


def of_several_sizes(trace: Path, jobs: int, nodes: str) -> Workload:
    """Return the first jobs of up to 32 GPUs: in turn, their pods ask for 1, 2, 4 and 8 GPUs."""
    found = ["job,submit_s,workers,gpus_per_worker,duration_s"]
    with trace.open(encoding="utf-8", newline="") as lines:
        for number, row in enumerate(islice(csv.DictReader(lines), jobs)):
            gpus, size = int(row["workers"]), (1, 2, 4, 8)[number % 4]
            while size > 1 and (gpus % size or gpus == size):
                size //= 2
            if gpus <= 32:
                found.append(
                    f"{row['job']},{row['submit_s']},{gpus // size},{size},{row['duration_s']}"
                )
    fleet = Workload(tuple(Arrival(0.0, NodeAdded(n)) for n in parse_nodes_shape(nodes)))
    return fleet + load_trace(found, file=trace.name)


def test_whole_trace_is_there(philly: Workload) -> None:
    assert how_many(philly) == how_many(first(126, philly)) == (15_264, 42_192)


@pytest.mark.parametrize(
    ("unit", "order", "days"),
    [
        (SchedulingUnit.POD, Order.LAST_FAILURE, 126),
        (SchedulingUnit.POD, Order.CREATION, SOME_DAYS),
        (SchedulingUnit.GROUP, Order.LAST_FAILURE, SOME_DAYS),
    ],
)
def test_every_gang_runs_whole_and_no_law_is_broken_at_any_step(
    philly: Workload, unit: SchedulingUnit, order: Order, days: int
) -> None:
    some = first(days, philly)
    jobs, pods = how_many(some)
    simulator, result = run(
        some, lambda cluster: presets.coscheduling(cluster, order=order, unit=unit), Watcher()
    )

    assert jobs > 1_500
    assert (len(simulator.jobs), len(list(simulator.cluster.pods()))) == (jobs, pods)
    assert all(job.is_finished for job in simulator.jobs)
    assert result.summary.gangs.partial == result.summary.gangs.never_fit == 0
    assert result.summary.deadlock is None
    # nothing polls: there are fewer decisions than three for each pod that has to be placed
    assert simulator.decisions < 3 * pods
    assert simulator.scheduler.next_deadline() is None
    if unit is SchedulingUnit.GROUP:
        assert not result.summary.wasted.get("nvidia.com/gpu"), "nobody waits on a node"


def test_one_decision_a_gang_never_lengthens_the_wait(philly: Workload) -> None:
    """Where no backoff delays a job that fits, each job starts when it did."""
    started: list[dict[str, float | None]] = []
    for unit in SchedulingUnit:
        make = partial(
            presets.coscheduling, order=Order.CREATION, unit=unit, backoff=Backoff(0.001, 0.001)
        )
        simulator = Simulator(philly, make)
        simulator.run(until=UNTIL_DAY * DAY)
        started.append({job.key: job.started_at for job in simulator.jobs})
    by_pod, by_group = started
    later = {key: (when, by_group[key]) for key, when in by_pod.items() if by_group[key] != when}
    assert len(by_pod) > 1_500
    assert not later


def test_no_gpu_is_free_while_a_single_gpu_pod_waits(philly: Workload) -> None:
    """Law 5: no job that fits is left waiting, at any instant of the run."""
    simulator = Simulator(philly, presets.coscheduling)
    checked = 0
    while simulator.step(until=1.5 * UNTIL_DAY * DAY) is not None:
        table = simulator.scheduler._state.table
        gpu = table.resources["nvidia.com/gpu"]
        if any(table.state_of[slot].free[gpu] >= 1000 for slot in table.slots.values()):
            waiting = [e for e in simulator.scheduler.queue.unschedulable if e.group is None]
            assert not waiting, f"t={simulator.now}: {waiting[0].pod.key} would fit"
            checked += 1
    assert checked > 1000


def test_jobs_with_pods_of_one_size_waste_gpus_without_gangs_and_do_not_deadlock(
    philly: Workload,
) -> None:
    """The pods of the trace ask for one GPU each, and are tried in the order of arrival."""
    watcher = Watcher(group_of=lambda _pod: None)
    simulator, result = run(first(SOME_DAYS, philly), presets.pod_by_pod, watcher)

    assert all(job.is_finished for job in simulator.jobs)
    assert result.summary.gangs.partial == result.summary.gangs.never_fit == 0
    assert result.summary.deadlock is None
    assert result.summary.wasted["nvidia.com/gpu"] > 0


def test_cluster_deadlocks_without_gangs_and_the_report_states_it(traces: Path) -> None:
    workload = of_several_sizes(traces / "philly_gangs.csv", jobs=3_000, nodes="6x8")
    _simulator, result = run(workload, presets.pod_by_pod, Watcher(group_of=lambda _pod: None))

    assert result.summary.gangs.partial > 0
    deadlock = result.summary.deadlock
    assert deadlock is not None
    assert deadlock.held.quantity("nvidia.com/gpu") == "48"
    assert len(deadlock.jobs) == result.summary.gangs.partial
    assert result.summary.wasted["nvidia.com/gpu"] > 0

    simulator, with_gangs = run(workload, presets.gang, Watcher())

    assert all(job.is_finished for job in simulator.jobs)
    assert with_gangs.summary.deadlock is None
    assert not with_gangs.summary.wasted.get("nvidia.com/gpu")


def test_first_come_costs_at_most_twice_as_much_as_gangs_while_the_queue_grows(
    philly: Workload,
) -> None:
    """The jobs of the trace on a few nodes, so that nearly all of them queue."""
    nodes = [Arrival(0.0, NodeAdded(node)) for node in parse_nodes_shape("2x8")]
    jobs = [each for each in philly.arrivals if isinstance(each.event, PodAdded)][:200]
    of_order = {
        order: Simulator(
            Workload([*nodes, *jobs]),
            partial(presets.gang, order=order),
            strict_order=order is Order.CREATION,
        )
        for order in Order
    }
    calls = {order: calls_for(simulator.run) for order, simulator in of_order.items()}
    assert calls[Order.CREATION] <= 2 * calls[Order.LAST_FAILURE]
    assert any(job.wait for job in report(of_order[Order.CREATION]).jobs)


def test_gang_that_never_fits_is_reported_and_blocks_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "jobs.csv"
    rows = ["huge,0,9,1,10", *(f"small-{n},{n},4,1,10" for n in range(20))]
    trace.write_text("job,submit_s,workers,gpus_per_worker,duration_s\n" + "\n".join(rows))

    assert main(["simulate", "--trace", str(trace), "--nodes", "1x8", "--output", "json"]) == 0
    summary = json.loads(capsys.readouterr().out)["summary"]
    assert summary["never_fit"] == ["default/huge"]
    assert summary["gangs"]["started_whole"] == 20
