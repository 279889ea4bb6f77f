"""A run of the simulator, as the GPUs of each node that each job held over time.

Rules:
  R1  a pod holds its node from the call that assigned it until it has finished or released it;
  R2  a job works from when its quorum is bound: what its pods held before that was wasted;
  R3  the library does not assign single GPUs: a pod is drawn on the first free ones of its node;
  R4  pods of one copy of a role, and groups below one group, are drawn next to each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from attrs import define, evolve, field, frozen

from gangsched import (
    Bind,
    ClusterState,
    Effect,
    Event,
    NodeAdded,
    Pod,
    PodRejected,
    PodUID,
    PodWaiting,
    Scheduler,
)
from gangsched.simulation import (
    Arrival,
    Report,
    Simulator,
    Workload,
    load_trace,
    parse_nodes_shape,
    report,
)

__all__ = ["GPU", "Held", "Run", "file_of"]

GPU = "nvidia.com/gpu"
_FILE = re.compile(r"^<!-- file: (?P<name>\S+) -->\n+```[^\n]*\n(?P<text>.*?)^```$", re.M | re.S)


def file_of(page: Path, name: str) -> str:
    """Return a file in a page."""
    for found in _FILE.finditer(page.read_text(encoding="utf-8")):
        if found["name"] == name:
            return found["text"]
    raise ValueError(f"{page} has no {name}")


@frozen
class Held:
    """Some GPUs of a node, held by one pod.

    Attributes:
        job: The job of the pod.
        node: The node.
        lanes: The numbers of the GPUs on the node, from 0.
        since: The instant from which it held them.
        until: The instant until which it held them; at most the end of the run.
        part: The path of the copy of a role that the pod belongs to, such as ``decode/0``; empty
            for a job without copies.
    """

    job: str
    node: str
    lanes: tuple[int, ...]
    since: float
    until: float
    part: str = ""


@define(eq=False)
class Run:
    """One workload under one scheduler.

    Attributes:
        nodes: The nodes, each with its number of GPUs.
        held: What was held, in order.
        works: The instant from which each job worked; only jobs that did.
        ended: The instant at which each job ended; only jobs that did.
        until: The end of the run.
        report: The report of the simulator.
    """

    nodes: dict[str, int] = field(factory=dict)
    held: list[Held] = field(factory=list)
    works: dict[str, float] = field(factory=dict)
    ended: dict[str, float] = field(factory=dict)
    until: float = 0.0
    report: Report | None = None

    @classmethod
    def of(
        cls, trace: str, shape: str, make: Callable[[ClusterState], Scheduler], *, until: float
    ) -> Run:
        """Run a trace on nodes of a shape, such as ``4x4``."""
        nodes = parse_nodes_shape(shape)
        start = Workload(tuple(Arrival(0.0, NodeAdded(node)) for node in nodes))
        return cls.of_workload(start + load_trace(trace.splitlines(), file="trace"), make, until)

    @classmethod
    def of_workload(
        cls, work: Workload, make: Callable[[ClusterState], Scheduler], until: float
    ) -> Run:
        """Run a workload, in which nodes come before the pods that they take."""
        nodes = [each.event.node for each in work.arrivals if isinstance(each.event, NodeAdded)]
        run = cls({node.name: node.allocatable[GPU] // 1000 for node in nodes}, until=until)
        recorder = _Recorder(run)
        simulator = Simulator(work, make, observers=(recorder,))
        recorder.simulator = simulator
        simulator.run(until=until)
        run.report = report(simulator)
        recorder.close()
        return run

    def wasted(self) -> float:
        """Return how many GPU-seconds were held by jobs that did not work."""
        return sum(
            len(one.lanes) * (min(one.until, self.works.get(one.job, one.until)) - one.since)
            for one in self.held
            if one.since < self.works.get(one.job, one.until)
        )


@define(eq=False)
class _Recorder:
    """Records which pod is assigned to a node, and until when it holds the node."""

    run: Run
    simulator: Simulator | None = None
    open: dict[PodUID, Held] = field(factory=dict)

    def event(self, event: Event, now: float) -> None:
        """Record the pods that have finished, so that their GPUs are free for others."""
        self._close_what_ended(now)

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        """Record the pods that are assigned to a node."""
        self._close_what_ended(now)
        for effect in sorted(effects, key=self._part_of):
            match effect:
                case PodWaiting(uid, node) | Bind(uid, node):
                    if uid not in self.open:
                        self._assign(uid, node, now)
                case PodRejected(uid) if uid in self.open:
                    self._close(uid, now)
                case _:
                    pass

    def _part_of(self, effect: Effect) -> str:
        """Return the part of the pod of an effect; effects of others keep their order."""
        assert self.simulator is not None
        uid = getattr(effect, "uid", None)
        return "" if uid is None else _part(self.simulator.cluster.pod(uid))

    def settled(self, now: float) -> None:
        """Record the jobs that work, and those that have ended."""
        assert self.simulator is not None
        self._close_what_ended(now)
        for job in self.simulator.jobs:
            if job.started_at is not None:
                self.run.works.setdefault(job.key, job.started_at)
            if job.is_finished:
                self.run.ended.setdefault(job.key, now)

    def close(self) -> None:
        """Record the end of everything that is still held."""
        for uid in list(self.open):
            self._close(uid, self.run.until)
        self.run.held.sort(key=lambda one: (one.since, one.node, one.lanes))

    def _assign(self, uid: PodUID, node: str, now: float) -> None:
        assert self.simulator is not None
        pod = self.simulator.cluster.pod(uid)
        job = self.simulator.jobs.of(uid)
        assert pod is not None
        assert job is not None
        taken = {lane for one in self.open.values() if one.node == node for lane in one.lanes}
        free = (lane for lane in range(self.run.nodes[node]) if lane not in taken)
        lanes = tuple(lane for lane, _ in zip(free, range(pod.requests[GPU] // 1000), strict=False))
        self.open[uid] = Held(job.key, node, lanes, now, now, _part(pod))

    def _close_what_ended(self, now: float) -> None:
        assert self.simulator is not None
        for uid in list(self.open):
            pod = self.simulator.cluster.pod(uid)
            if pod is None or pod.is_finished:
                self._close(uid, now)

    def _close(self, uid: PodUID, now: float) -> None:
        one = self.open.pop(uid)
        if now > one.since:
            self.run.held.append(evolve(one, until=now))


def _part(pod: Pod | None) -> str:
    """Return the copy of a role that a pod belongs to, by its path; empty for none."""
    return "" if pod is None or pod.role is None else pod.role.rpartition("/")[0]


def spans(held: Held) -> Iterator[tuple[int, int]]:
    """Yield the lanes of one pod as ranges: the first lane, and how many."""
    first = previous = held.lanes[0]
    for lane in (*held.lanes[1:], -1):
        if lane != previous + 1:
            yield first, previous - first + 1
            first = lane
        previous = lane
