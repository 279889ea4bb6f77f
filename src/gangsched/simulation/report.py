"""The report of a simulation: tables, events, summary, as data.

Rules:
  R1  everything is computed from what the simulation kept; nothing is estimated;
  R2  ``to_dict`` is JSON-able, and its shape is documented and versioned: ``SCHEMA``;
  R3  whether a gang could ever start is asked of the scheduler itself, on the empty cluster.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any, Final, final

from attrs import asdict, evolve, field, frozen

from gangsched import presets
from gangsched.errors import InvalidPodGroupError
from gangsched.events import Bind, Event, NodeAdded, PodAdded, PodGroupAdded, PodRefused
from gangsched.membership import membership
from gangsched.memory import InMemoryCluster
from gangsched.model import GroupKey, Node, Pod, PodPhase, Resources
from gangsched.simulation.describe import LogEntry, PodRow, pod_rows
from gangsched.simulation.jobs import Job
from gangsched.simulation.metrics import Distribution
from gangsched.simulation.simulator import Simulator

__all__ = [
    "SCHEMA",
    "Counts",
    "Deadlock",
    "Pending",
    "Report",
    "Snapshot",
    "Snapshots",
    "Summary",
    "report",
]

SCHEMA: Final = "gangsched.simulate/1"
"""The name and version of the shape of ``Report.to_dict``."""


@final
@frozen
class Snapshot:
    """The table of pods at an instant."""

    at: float
    pods: tuple[PodRow, ...]


@final
class Snapshots:
    """Observes a simulation, and keeps the table whenever it has changed."""

    def __init__(self) -> None:
        self.taken: list[Snapshot] = []
        self._simulator: Simulator | None = None

    def watch(self, simulator: Simulator) -> None:
        """Say whose pods to look at."""
        self._simulator = simulator

    def event(self, event: Event, now: float) -> None:
        """Keep nothing."""

    def effects(self, effects: object, now: float) -> None:
        """Keep nothing."""

    def settled(self, now: float) -> None:
        """Keep the table when it has changed."""
        if self._simulator is None:
            return
        rows = pod_rows(self._simulator.cluster.pods(), now=now)
        if not self.taken or _without_age(rows) != _without_age(self.taken[-1].pods):
            self.taken.append(Snapshot(now, rows))


def _without_age(rows: Iterable[PodRow]) -> list[tuple[str, str, str | None]]:
    return [(row.name, row.status, row.node) for row in rows]


@final
@frozen(kw_only=True)
class Counts:
    """How jobs of one kind ended.

    Attributes:
        submitted: All of them.
        started_whole: Those whose quorum was bound at one time, so that their work began.
        partial: Those that hold nodes without their quorum at the end.
        never_fit: Those pending that could not start on the empty cluster either.
        pending: Those pending otherwise, complete or not.
        waiting: Seconds from completeness to start, of those that started.
    """

    submitted: int
    started_whole: int
    partial: int
    never_fit: int
    pending: int
    waiting: Distribution


@final
@frozen
class Deadlock:
    """Jobs that hold nodes, cannot run, and wait for nothing that will come.

    Attributes:
        since: The last instant at which anything happened.
        jobs: Which.
        held: What they hold.
    """

    since: float
    jobs: tuple[str, ...]
    held: Resources


@final
@frozen(kw_only=True)
class Summary:
    """A run in figures.

    Attributes:
        end: The last instant, in seconds.
        decisions: How many decisions were made.
        gangs: Jobs that are groups.
        singles: Jobs that are regular pods.
        utilisation: Of each resource, the share of what was offered over time that was held by
            jobs that ran.
        wasted: Of each resource, units times seconds held by gangs that could not run.
        never_fit: The jobs that could not start on the empty cluster either.
        deadlock: None when there is none.
        preempted: How many pods were evicted to make room for others.
    """

    end: float
    decisions: int
    gangs: Counts
    singles: Counts
    utilisation: dict[str, float]
    wasted: dict[str, float]
    never_fit: tuple[str, ...]
    deadlock: Deadlock | None
    preempted: int = 0


@final
@frozen
class Pending:
    """A job that has not started, and why.

    Attributes:
        job: Its key.
        state: The name of the answer, see ``gangsched.explain``.
        why: The answer, as a sentence.
    """

    job: str
    state: str
    why: str


@final
@frozen(kw_only=True)
class Report:
    """All that a run has to say.

    Attributes:
        settings: What the run was asked for, by name.
        skipped: Sentences about input that was not taken over.
        snapshots: The table of pods whenever it changed, and at the end.
        events: What happened.
        jobs: Of each job its key, when it was complete, and when it started.
        pending: Who has not started, and why, in the scheduler's words.
        summary: The run in figures.
    """

    settings: dict[str, Any]
    skipped: tuple[str, ...]
    snapshots: tuple[Snapshot, ...] = field(repr=False)
    events: tuple[LogEntry, ...] = field(repr=False)
    jobs: tuple[dict[str, Any], ...] = field(repr=False)
    pending: tuple[Pending, ...] = field(repr=False)
    summary: Summary

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data, ready for JSON."""

        def plain(_owner: object, _attribute: object, value: object) -> object:
            if isinstance(value, Resources):
                return {name: value.quantity(name) for name in value}
            return value

        return {"schema": SCHEMA, **asdict(self, value_serializer=plain)}


def report(
    simulator: Simulator,
    *,
    settings: dict[str, Any] | None = None,
    skipped: tuple[str, ...] = (),
    snapshots: Iterable[Snapshot] = (),
    events: Iterable[LogEntry] = (),
) -> Report:
    """Sum up a simulation as it stands now.

    Runtime complexity: O(jobs log jobs), and one trial on the empty cluster for each shape of
    job that is still pending.
    """
    now = simulator.now
    taken = list(snapshots)
    rows = pod_rows(simulator.cluster.pods(), now=now) if taken else ()
    if taken and taken[-1].at != now:
        taken.append(Snapshot(now, rows))
    never = _never_fit(simulator)
    capacity = simulator.capacity.areas(now=now)
    used = simulator.jobs.used.areas(now=now)
    summary = Summary(
        end=now,
        decisions=simulator.decisions,
        gangs=_counts([job for job in simulator.jobs if job.is_gang], never),
        singles=_counts([job for job in simulator.jobs if not job.is_gang], never),
        utilisation={n: used.get(n, 0.0) / area for n, area in capacity.items() if n != "pods"},
        wasted=simulator.jobs.idle.areas(now=now),
        never_fit=tuple(never),
        deadlock=_deadlock(simulator),
        preempted=simulator.jobs.preempted,
    )
    return Report(
        settings=settings or {},
        skipped=skipped,
        snapshots=tuple(taken),
        events=tuple(events),
        jobs=tuple(_job(job) for job in simulator.jobs),
        pending=tuple(_pending(simulator)),
        summary=summary,
    )


def _job(job: Job) -> dict[str, Any]:
    return {
        "key": job.key,
        "is_gang": job.is_gang,
        "members": len(job.members),
        "quorum": job.quorum,
        "submitted_at": job.submitted_at,
        "started_at": job.started_at,
        "is_finished": job.is_finished,
    }


def _pending(simulator: Simulator) -> Iterator[Pending]:
    for job in simulator.jobs:
        if job.started_at is not None or not job.members:
            continue
        shown = (simulator.cluster.pod(uid) for uid in job.members)
        asleep = [pod for pod in shown if pod is not None and pod.node_name is None]
        group = GroupKey(job.key)
        if job.is_gang and group in simulator.scheduler.registry:
            why = simulator.scheduler.why(group)
        elif asleep:
            why = simulator.scheduler.why(asleep[0])
        else:
            continue
        yield Pending(job.key, type(why).__name__, str(why))


def _counts(jobs: list[Job], never: dict[str, None]) -> Counts:
    started = [job for job in jobs if job.started_at is not None]
    waits = [
        job.started_at - job.submitted_at
        for job in started
        if job.started_at is not None and job.submitted_at is not None
    ]
    partial = sum(job.is_partial for job in jobs)
    never_fit = sum(job.key in never and not job.is_partial for job in jobs)
    return Counts(
        submitted=len(jobs),
        started_whole=len(started),
        partial=partial,
        never_fit=never_fit,
        pending=len(jobs) - len(started) - partial - never_fit,
        waiting=Distribution.of(waits),
    )


def _deadlock(simulator: Simulator) -> Deadlock | None:
    if not simulator.is_quiescent:
        return None
    partial = [job for job in simulator.jobs if job.is_partial]
    if not partial:
        return None
    held = Resources()
    for job in partial:
        for uid in job.holding:
            held += job.members[uid].requests
    return Deadlock(simulator.last_event_at, tuple(job.key for job in partial), held)


def _never_fit(simulator: Simulator) -> dict[str, None]:
    """Return the jobs that are pending, complete, and cannot start on the empty cluster."""
    nodes = list(simulator.cluster.nodes())
    known: dict[Hashable, bool] = {}
    never: dict[str, None] = {}
    for job in simulator.jobs:
        if job.started_at is not None or job.submitted_at is None or not job.members:
            continue
        shape = _shape(job)
        if shape not in known:
            known[shape] = _starts_alone(job, nodes)
        if not known[shape]:
            never[job.key] = None
    return never


def _shape(job: Job) -> Hashable:
    counts: dict[Hashable, int] = {}
    for pod in job.members.values():
        try:
            claim = membership(pod)
            said = None if claim is None else claim.min_available
        except InvalidPodGroupError:
            said = -1
        asked = (pod.requests, pod.node_selector, pod.affinity, pod.tolerations, pod.priority, said)
        kind = (asked, job.roles.get(pod.uid))
        counts[kind] = counts.get(kind, 0) + 1
    roles = None if job.spec is None else job.spec.roles
    return (job.is_gang, job.quorum, roles, frozenset(counts.items()))


def _starts_alone(job: Job, nodes: list[Node]) -> bool:
    cluster = InMemoryCluster()
    scheduler = presets.coscheduling(cluster)
    for node in nodes:
        cluster.apply(NodeAdded(node))
    if job.spec is not None:
        cluster.apply(PodGroupAdded(job.spec))
    for pod in job.members.values():
        cluster.apply(PodAdded(_fresh(pod)))
    refused = False
    while (effects := scheduler.schedule_one(now=0.0)) is not None:
        if any(isinstance(effect, Bind) for effect in effects):
            return True
        refused = refused or any(isinstance(effect, PodRefused) for effect in effects)
    # a job of which a pod is refused is incomplete: whether it fits is another question
    return refused


def _fresh(pod: Pod) -> Pod:
    return evolve(
        pod,
        node_name=None,
        phase=PodPhase.PENDING,
        created_at=0.0,
        deleted_at=None,
        scheduling_gates=(),
    )
