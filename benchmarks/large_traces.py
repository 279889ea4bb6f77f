"""What does the command cost on a large trace, against a greedy simulator of 60 lines?

``gangsched simulate`` on the whole Philly trace with three policies, on the openb trace, and on
jobs of one pod. The greedy simulator has the same arrivals and nodes. It starts the first job in
the queue that fits, on the first nodes that have room, and knows nothing else: no priorities, no
backoff, no constraints, no events, no report. We would act if a ratio grew.

    python benchmarks/large_traces.py TRACES [--jobs COUNT] [--only NAME]

TRACES is the folder with philly_gangs.csv, openb_pods.csv and openb_nodes.csv. Each row is run in
a process of its own; times are CPU time. Prints seconds, their ratio to the greedy simulator in
the same run, and the largest memory.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import io
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from gangsched import PodAdded
from gangsched.cli import main as command
from gangsched.cli._files import opened
from gangsched.simulation import load_nodes, open_trace, parse_nodes_shape

Job = tuple[float, float, int, tuple[tuple[str, int], ...]]


# The greedy simulator: 60 lines ---------------------------------------------------------------


def jobs_of(trace: str) -> Iterator[Job]:
    """Yield arrival, run time, workers and requests of each job of a trace."""
    size, before = 0, None
    for each in open_trace(lambda: opened(trace), file=trace).arrivals():
        if not isinstance(each.event, PodAdded):
            continue
        pod = each.event.pod
        job = pod.name.rpartition("-")[0]
        if before is not None and before[0] != job:
            yield (*before[1:3], size, before[3])
            size = 0
        size += 1
        seconds = float(pod.annotations["simulation.gangsched.io/run-seconds"])
        before = (job, each.at, seconds, tuple(pod.requests.items()))
    if before is not None:
        yield (*before[1:3], size, before[3])


def greedy(trace: str, shape: str) -> int:
    """Run a trace greedily; return the number of jobs that started."""
    nodes = load_nodes(opened(shape), file=shape) if ".csv" in shape else parse_nodes_shape(shape)
    free = [dict(node.allocatable.items()) for node in nodes]
    ends: list[tuple[float, int, tuple[tuple[str, int], ...], list[int]]] = []
    queue: list[Job] = []
    arrivals = jobs_of(trace)
    next_job = next(arrivals, None)
    started = 0
    while next_job is not None or ends:
        now = min([each[0] for each in (next_job, ends[0] if ends else None) if each is not None])
        while ends and ends[0][0] <= now:
            _end, _number, requests, used = heapq.heappop(ends)
            for place in used:
                for name, amount in requests:
                    free[place][name] += amount
        while next_job is not None and next_job[0] <= now:
            queue.append(next_job)
            next_job = next(arrivals, None)
        waiting: list[Job] = []
        refused: set[tuple[int, tuple[tuple[str, int], ...]]] = set()
        for job in queue:
            _at, seconds, workers, requests = job
            used = [] if (workers, requests) in refused else place_greedily(free, workers, requests)
            if used:
                started += 1
                heapq.heappush(ends, (now + seconds, started, requests, used))
            else:
                refused.add((workers, requests))
                waiting.append(job)
        queue = waiting
    return started


def place_greedily(
    free: list[dict[str, int]], workers: int, requests: tuple[tuple[str, int], ...]
) -> list[int]:
    """Return the nodes of all workers, and take them; an empty list if they do not fit."""
    used: list[int] = []
    for place, node in enumerate(free):
        while len(used) < workers and all(node.get(name, 0) >= a for name, a in requests):
            used.append(place)
            for name, amount in requests:
                node[name] -= amount
    if len(used) == workers:
        return used
    for place in used:
        for name, amount in requests:
            free[place][name] += amount
    return []


# The runs -------------------------------------------------------------------------------------


def plain_jobs(file: Path, count: int) -> None:
    """Write a trace of jobs of one pod that keeps 1,000 nodes about three quarters busy."""
    draws, at = random.Random(1), 0.0
    with file.open("w") as out:
        out.write("job,submit_s,workers,gpus_per_worker,duration_s\n")
        for number in range(count):
            at += draws.expovariate(1.0)
            gpus, seconds = draws.choice((1, 1, 1, 2, 4, 8)), draws.randint(60, 4600)
            out.write(f"j{number},{at:.3f},1,{gpus},{seconds}\n")


def once(trace: str, shape: str, words: list[str]) -> None:
    """Run one trace in this process; print CPU seconds and memory."""
    begun = time.process_time()
    if words == ["greedy"]:
        greedy(trace, shape)
    else:
        with contextlib.redirect_stdout(io.StringIO()):
            given = ["--trace", trace, "--nodes", shape, "--detail", "summary", *words]
            assert command(["simulate", *given]) == 0
    spent = time.process_time() - begun
    print(spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def measured(trace: Path, shape: str, words: list[str]) -> tuple[float, float]:
    """Run one trace in a process of its own; return CPU seconds and mebibytes."""
    line = [sys.executable, __file__, "--once", str(trace), shape, *words]
    printed = subprocess.run(line, capture_output=True, text=True, check=True).stdout.split()
    return float(printed[0]), float(printed[1])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="CPU time of the command on large traces")
    parser.add_argument("traces", type=Path)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        plain = Path(folder, "plain.csv")
        philly, openb = options.traces / "philly_gangs.csv", options.traces / "openb_pods.csv"
        fleet = str(options.traces / "openb_nodes.csv")
        rows = [
            ("philly, gang", philly, "40x8", ["--policy", "gang"]),
            ("philly, coscheduling", philly, "40x8", ["--policy", "coscheduling"]),
            ("philly, gang --backfill", philly, "40x8", ["--policy", "gang", "--backfill"]),
            ("openb", openb, fleet, []),
            (f"{options.jobs:,} jobs of one pod", plain, "1000x8", []),
        ]
        chosen = [row for row in rows if options.only in row[0]]
        if any(trace == plain for _name, trace, _shape, _words in chosen):
            plain_jobs(plain, options.jobs)
        print(f"{'':28}{'seconds':>9}{'greedy':>9}{'ratio':>7}{'MiB':>7}")
        for name, trace, shape, words in chosen:
            base, _memory = measured(trace, shape, ["greedy"])
            spent, memory = measured(trace, shape, words)
            print(f"{name:28}{spent:9.1f}{base:9.1f}{spent / base:7.1f}{memory:7.0f}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--once"]:
        once(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        main()
