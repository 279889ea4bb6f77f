"""What the other benchmarks do, for two versions: preemption, questions, and the Philly trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any, Final

import preemption
import what_if
from gangsched import AnnotatedRunTimes, Backfill, GroupKey, NodeAdded, Scheduler, presets
from gangsched.protocols import ClusterState
from gangsched.simulation import RUN_SECONDS, Arrival, Simulator, open_trace, parse_nodes_shape
from large_traces import plain_jobs
from versions import Round, Row

__all__ = ["rows", "traces"]

POLICIES: Final[dict[str, tuple[Any, dict[str, Any]]]] = {
    "gang": (presets.gang, {}),
    "coscheduling": (presets.coscheduling, {}),
    "gang --backfill": (presets.gang, {"backfill": Backfill(AnnotatedRunTimes(RUN_SECONDS))}),
}


class Clocked:
    """A scheduler whose calls are timed, by a clock that costs little beside a short call.

    Args:
        scheduler: The scheduler.
        spent: Its first item is the seconds of all calls.
    """

    def __init__(self, scheduler: Scheduler, spent: list[float]) -> None:
        self._scheduler = scheduler
        for name in ("handle", "advance", "schedule_one", "rebuild", "next_deadline"):
            setattr(self, name, self._timed(getattr(scheduler, name), spent))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scheduler, name)

    @staticmethod
    def _timed(call: Callable[..., Any], spent: list[float]) -> Callable[..., Any]:
        def timed(*args: Any, **keywords: Any) -> Any:
            begun = perf_counter()
            try:
                return call(*args, **keywords)
            finally:
                spent[0] += perf_counter() - begun

        return timed


def preempting(case: preemption.Case) -> Round:
    """Return what makes the one decision in which victims are found, in a new cluster each."""
    sizes = preemption.Sizes()

    def run(number: int) -> dict[str, float]:
        scheduler = preemption.prepared(case, sizes, number)
        begun = process_time()
        scheduler.schedule_one(now=1.0)
        return {"": process_time() - begun}

    return run


def asking(question: str, nodes: int, running: int, pending: int) -> Round:
    """Return what asks one question."""
    _cluster, scheduler = what_if.busy(nodes, running, pending)

    def run(_number: int) -> dict[str, float]:
        begun = process_time()
        if question == "what_if":
            scheduler.what_if(NodeAdded(what_if.SHAPE))
        else:
            scheduler.smallest_change(GroupKey("default/p0"), what_if.SHAPE)
        return {"": process_time() - begun}

    return run


def replaying(trace: Path, shape: str, policy: str, most: int | None) -> Round:
    """Return what runs the first jobs of a trace to their end."""

    def run(_number: int) -> dict[str, float]:
        preset, settings = POLICIES[policy]
        spent = [0.0]

        def make(cluster: ClusterState) -> Scheduler:
            made: Any = Clocked(preset(cluster, **settings), spent)
            return made

        nodes = [Arrival(0.0, NodeAdded(node)) for node in parse_nodes_shape(shape)]
        arrivals = open_trace(lambda: trace.open(encoding="utf-8"), file=str(trace)).arrivals()
        some = arrivals if most is None else islice(arrivals, most)
        simulator = Simulator(chain(nodes, some), make, delete_finished=True)
        begun = process_time()
        simulator.run()
        assert all(job.started_at is not None for job in simulator.jobs)
        return {"calls of the scheduler": spent[0], "with the simulator": process_time() - begun}

    return run


def rows() -> Iterator[Row]:
    """Yield the rows of preemption and of questions."""
    for case in preemption.CASES:
        yield Row(f"preemption: {case.name}", 1.0, partial(preempting, case), warm=0)
    for nodes, running, pending in ((500, 100, 20), (5_000, 1_000, 20), (5_000, 1_000, 1_000)):
        where = f"{nodes:,} nodes, {running:,} gangs run, {pending:,} wait"
        for question in ("what_if", "smallest_change"):
            asked = partial(asking, question, nodes, running, pending)
            yield Row(f"{question}: {where}", 1.0, asked)


def traces(philly: Path | None, pods: int | None, jobs: int) -> Iterator[Row]:
    """Yield the rows of whole runs; without the Philly trace only that of jobs of one pod.

    Args:
        philly: The trace.
        pods: How many pods of it arrive; None for all.
        jobs: How many jobs of one pod arrive.
    """
    for policy in POLICIES if philly is not None else ():
        whole = "whole trace" if pods is None else f"{pods:,} pods"
        run = partial(replaying, philly, "40x8", policy, pods)
        yield Row(f"Philly, {whole}, {policy}", 0.5, run, rounds=1, warm=0)
    _FOLDERS.append(TemporaryDirectory())
    plain = Path(_FOLDERS[-1].name, "plain.csv")
    plain_jobs(plain, jobs)
    run = partial(replaying, plain, "1000x8", "gang", None)
    yield Row(f"{jobs:,} jobs of one pod", 0.5, run, rounds=3, warm=0)


_FOLDERS: Final[list[TemporaryDirectory[str]]] = []
"""They last as long as the process, which runs the rows when all of them are known."""
