"""What do equivalence queues save over requeueing every pod at every event?

A full cluster with a backlog; pods end one by one. With equivalence queues, an event costs one try
per equivalence class. Without them (one plugin has no signature), every pod of the backlog is tried
again, as in schedulers that move all unschedulable pods. The ratio should grow with the backlog. We
would act below 2 at a backlog of 200: equivalence queues would not be worth their code.
"""

from __future__ import annotations

import argparse
import gc
from statistics import median
from time import thread_time_ns

from attrs import evolve

from gangsched import Node, NodeAdded, NodeName, PodAdded, Profile, Scheduler
from gangsched.coscheduling import Coscheduling
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.protocols import ClusterState, CycleView, NodeView
from gangsched.simulation import RUN_SECONDS, Arrival, Simulator, Workload
from gangsched.testing import make_pod


class Unsigned:
    """A score plugin that says nothing, and not what it depends on."""

    name = "Unsigned"

    def score(self, state: CycleView, pod: object, node: NodeView) -> int:
        """Find all nodes alike."""
        return 0


def workload(backlog: int, nodes: int = 8) -> Workload:
    """Return gangs of 1 to 4 pods of one GPU, all there at once, of unlike lengths."""
    arrivals = [
        Arrival(0.0, NodeAdded(Node(name=NodeName(f"n{n}"), allocatable={"nvidia.com/gpu": 4})))
        for n in range(nodes)
    ]
    for job in range(backlog):
        size = 1 + job % 4
        for n in range(size):
            pod = make_pod(f"j{job}-{n}", group=f"j{job}", min_available=size, gpu=1)
            length = {RUN_SECONDS: str(100 + 7 * (job % 50))}
            arrivals.append(Arrival(0.0, PodAdded(evolve(pod, annotations=length))))
    return Workload(tuple(arrivals))


def run(given: Workload, *, signed: bool) -> tuple[float, int]:
    """Return nanoseconds and decisions of one run to the end."""

    def make(cluster: ClusterState) -> Scheduler:
        extra = () if signed else (Unsigned(),)
        profile = Profile(Coscheduling(), NodeResources(), DefaultBinder(), *extra)
        return Scheduler(cluster, profile)

    simulator = Simulator(given, make)
    gc.collect()
    begun = thread_time_ns()
    simulator.run()
    taken = thread_time_ns() - begun
    assert all(job.is_finished for job in simulator.jobs)
    return taken, simulator.decisions


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--backlogs", type=int, nargs="+", default=[50, 100, 200])
    options = parser.parse_args()
    print(f"{'backlog':>8} {'decisions':>21} {'us a pod':>15} {'ratio':>6}  spread")
    for backlog in options.backlogs:
        given = workload(backlog)
        pods = len(given.arrivals) - 8
        with_lines, without = [], []
        for _turn in range(options.rounds):
            with_lines.append(run(given, signed=True))
            without.append(run(given, signed=False))
        ratios = sorted(
            slow / fast for (slow, _), (fast, _) in zip(without, with_lines, strict=True)
        )
        quick, naive = (median(t for t, _ in rows) / pods / 1e3 for rows in (with_lines, without))
        print(
            f"{backlog:>8} {with_lines[0][1]:>10} {without[0][1]:>10}"
            f" {quick:>7.0f} {naive:>7.0f} {median(ratios):>6.1f}"
            f"  {ratios[0]:.1f} to {ratios[-1]:.1f}"
        )


if __name__ == "__main__":
    main()
