"""The report of a simulation as data: tables, events, summary.

Rules:
  R1  every figure is computed from what the simulation recorded; nothing is estimated;
  R2  the shape of ``to_dict`` is documented and versioned: ``SCHEMA``. Amounts are numbers in it,
      but for a deadlock's, which are in Kubernetes' notation;
  R3  whether a job could ever start is tried on the empty cluster: ``_never_fit``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, final

from attrs import asdict, evolve, field, frozen

from gangsched._version import __version__
from gangsched.errors import InvalidValueError
from gangsched.events import Event
from gangsched.explain import BackingOff, NoNodeFits
from gangsched.model import GroupKey, Resources
from gangsched.quantity import MILLI
from gangsched.scheduler import Scheduler
from gangsched.simulation._never_fit import is_scheduled_as_group, never_fit
from gangsched.simulation.describe import LogEntry, PodRow, pod_rows
from gangsched.simulation.fragmentation import LevelFigures, figures_of_levels
from gangsched.simulation.jobs import JobRow
from gangsched.simulation.metrics import Distribution
from gangsched.simulation.queue_usage import QueueFigures, fairness_of
from gangsched.simulation.simulator import Simulator
from gangsched.simulation.timeline import Timeline, Usage, usages
from gangsched.simulation.workload import Input
from gangsched.trees import Tree

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
    """Observes a simulation, and collects the table of pods whenever it has changed."""

    def __init__(self) -> None:
        self.taken: list[Snapshot] = []
        self._simulator: Simulator | None = None

    def watch(self, simulator: Simulator) -> None:
        """Set the simulator whose pods the tables show."""
        self._simulator = simulator

    def event(self, event: Event, now: float) -> None:
        """Do nothing."""

    def effects(self, effects: object, now: float) -> None:
        """Do nothing."""

    def settled(self, now: float) -> None:
        """Add the table if it has changed."""
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
    """How many jobs of one kind there are, by their outcome.

    Attributes:
        submitted: All jobs.
        started_whole: Jobs whose quorum was bound at one time, so that their work began.
        partial: Jobs that hold nodes at the end without having had their quorum.
        never_fit: Pending jobs that could not start on the empty cluster either.
        pending: All other pending jobs, complete or not.
        waiting: Seconds from completeness to start, of the jobs that started.
        finished: Jobs that have finished.
        completion: Seconds from completeness to the end, of the jobs that finished.
        slowdown: Completion time per run time, of the jobs that finished; see ``JobRow.slowdown``.
    """

    submitted: int
    started_whole: int
    partial: int
    never_fit: int
    pending: int
    waiting: Distribution
    finished: int
    completion: Distribution
    slowdown: Distribution


@final
@frozen
class Deadlock:
    """Jobs that hold nodes, cannot run, and wait for nothing that will happen.

    Attributes:
        since: The last instant at which anything happened.
        jobs: The keys of the jobs.
        held: The resources that they hold.
    """

    since: float
    jobs: tuple[str, ...]
    held: Resources


@final
@frozen(kw_only=True)
class Summary:
    """The figures of a run.

    Attributes:
        begin: When the first pod arrived, in seconds; *end* if none did.
        end: The last instant, in seconds.
        decisions: How many decisions were made.
        gangs: Jobs of several pods that must run together: groups, and training jobs.
        singles: Jobs of one pod.
        jobs: All jobs together.
        utilisation: For each resource, the share of the capacity over time that running jobs held,
            from *begin* on.
        wasted: For each resource, the units times seconds that jobs held before their work began.
        never_fit: The jobs that could not start on the empty cluster either.
        deadlock: The deadlock at the end; None if there is none.
        preempted: How many pods were evicted by preemption.
        lost: For each resource, the units times seconds that pods worked which were evicted, or
            deleted, before they finished.
        tenants: The jobs of each namespace, gangs or not.
        last_arrival: The last instant at which a job was complete for the first time; *begin* if
            there is none.
        utilisation_to_last_arrival: As *utilisation*, up to *last_arrival* only: afterwards the
            cluster runs empty, however good a policy is. Empty if all jobs arrive at *begin*.
        levels: The figures of each level, by its label, from the coarsest to the finest of a
            topology. What was free is only known of a run that was watched.
        queues: The figures of each queue, parents first; only of a run that was watched.
        fairness: Jain's index of the shares of queues, see ``queue_usage``; None if none used
            anything, or if the run was not watched.
        fairness_of_tenants: Jain's index of what namespaces used beside even shares, while one of
            them waited; see ``tenant_shares``. None without a timeline, or if none had to wait.
    """

    begin: float
    end: float
    decisions: int
    gangs: Counts
    singles: Counts
    jobs: Counts
    utilisation: dict[str, float]
    wasted: dict[str, float]
    never_fit: tuple[str, ...]
    deadlock: Deadlock | None
    preempted: int = 0
    lost: dict[str, float] = field(factory=dict[str, float])
    tenants: dict[str, Counts] = field(factory=dict[str, Counts])
    last_arrival: float = 0.0
    utilisation_to_last_arrival: dict[str, float] = field(factory=dict[str, float])
    levels: dict[str, LevelFigures] = field(factory=dict[str, LevelFigures])
    queues: dict[str, QueueFigures] = field(factory=dict[str, QueueFigures])
    fairness: float | None = None
    fairness_of_tenants: float | None = None


@final
@frozen
class Pending:
    """A job that has not started, and why.

    Attributes:
        job: Its key.
        state: The name of the answer, see ``gangsched.explain``.
        why: The answer, as a sentence.
        tried_at: When its last attempt failed: the answer is of then. None if there was none.
    """

    job: str
    state: str
    why: str
    tried_at: float | None = None


@final
@frozen(kw_only=True)
class Report:
    """The report of a run.

    Attributes:
        version: The version of this library.
        settings: The settings of the run, by name.
        inputs: What was read for the run.
        skipped: Sentences about input that was not taken over.
        snapshots: The table of pods whenever it changed, and at the end.
        events: The events and effects as log entries.
        jobs: Every job, in the order in which they became known.
        pending: The jobs that have not started, and why, as the scheduler answers.
        trees: How the gangs stand that have copies of a role, and the groups of groups, if some of
            their parts lack pods.
        timeline: What was used over the time of the run; empty unless it was watched.
        summary: The figures.
    """

    version: str = __version__
    settings: dict[str, Any]
    inputs: tuple[Input, ...] = ()
    skipped: tuple[str, ...]
    snapshots: tuple[Snapshot, ...] = field(repr=False)
    events: tuple[LogEntry, ...] = field(repr=False)
    jobs: tuple[JobRow, ...] = field(repr=False)
    pending: tuple[Pending, ...] = field(repr=False)
    trees: tuple[Tree, ...] = field(default=(), repr=False)
    timeline: tuple[Usage, ...] = field(default=(), repr=False)
    summary: Summary

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data, ready for JSON."""

        def plain(owner: object, _attribute: object, value: object) -> object:
            if isinstance(value, Resources):
                in_words = isinstance(owner, Deadlock)
                return {
                    name: value.quantity(name) if in_words else value[name] / MILLI
                    for name in value
                }
            return value

        return {"schema": SCHEMA, **asdict(self, value_serializer=plain)}


def report(
    simulator: Simulator,
    *,
    settings: dict[str, Any] | None = None,
    skipped: tuple[str, ...] = (),
    snapshots: Iterable[Snapshot] = (),
    events: Iterable[LogEntry] = (),
    inputs: Iterable[Input] = (),
    timeline: Timeline | None = None,
) -> Report:
    """Return the report of a simulation as it is now.

    Args:
        simulator: The simulation.
        settings: The settings of the run, by name.
        skipped: Sentences about input that was not taken over.
        snapshots: Those of ``Snapshots``.
        events: Those of an ``EventLog``.
        inputs: What was read for the run.
        timeline: What was used over its time; None if nothing watched that. Its levels are those
            of the figures; without it, those of the scheduler are.

    Runtime complexity: O(jobs log jobs), and one trial on the empty cluster for each class of
    equal jobs that are pending.

    Raises:
        InvalidValueError: *simulator* is not a Simulator.
    """
    if not isinstance(simulator, Simulator):
        raise InvalidValueError("simulator", simulator, "a Simulator")
    now = simulator.now
    taken = list(snapshots)
    rows = pod_rows(simulator.cluster.pods(), now=now) if taken else ()
    if taken and taken[-1].at != now:
        taken.append(Snapshot(now, rows))
    never = never_fit(list(simulator.jobs), simulator.cluster, simulator.scheduler)
    rows_of_jobs = simulator.jobs.rows()
    begin = now if simulator.first_pod_at is None else simulator.first_pod_at
    last = simulator.jobs.last_submitted_at
    queues = timeline.queues.figures(now=now, begin=begin) if timeline else {}
    summary = Summary(
        begin=begin,
        end=now,
        decisions=simulator.decisions,
        gangs=_counts([row for row in rows_of_jobs if row.is_gang], never),
        singles=_counts([row for row in rows_of_jobs if not row.is_gang], never),
        jobs=_counts(rows_of_jobs, never),
        utilisation=simulator.utilisation,
        wasted=simulator.jobs.idle.areas(now=now),
        never_fit=tuple(never),
        deadlock=_deadlock(simulator),
        preempted=simulator.jobs.preempted,
        lost=dict(sorted(simulator.jobs.lost.items())),
        tenants=_tenants(rows_of_jobs, never),
        last_arrival=begin if last is None else last,
        utilisation_to_last_arrival=simulator.utilisation_to_last_arrival,
        levels=figures_of_levels(
            simulator.scheduler.levels if timeline is None else timeline.levels,
            rows_of_jobs,
            simulator.places.seen,
            timeline.areas.means(now=now, begin=begin) if timeline else {},
        ),
        queues=queues,
        fairness=fairness_of(queues),
        fairness_of_tenants=timeline.tenants.fairness(now=now) if timeline else None,
    )
    return Report(
        settings=settings or {},
        inputs=tuple(inputs),
        skipped=skipped,
        snapshots=tuple(taken),
        events=tuple(events),
        jobs=tuple(rows_of_jobs),
        pending=tuple(_pending(simulator)),
        trees=tuple(_trees(simulator.scheduler)),
        timeline=tuple(usages(timeline.points, rows_of_jobs)) if timeline else (),
        summary=summary,
    )


def _pending(simulator: Simulator) -> Iterator[Pending]:
    for job in simulator.jobs:
        if job.started_at is not None or not job.members:
            continue
        members = (simulator.cluster.pod(uid) for uid in job.members)
        unbound = [pod for pod in members if pod is not None and pod.node_name is None]
        if is_scheduled_as_group(job, simulator.scheduler):
            why = simulator.scheduler.why(GroupKey(job.key), budget=0)
        elif unbound:
            why = simulator.scheduler.why(unbound[0], budget=0)
        else:
            continue
        tried_at = None
        if isinstance(why, NoNodeFits | BackingOff):
            # the instant has a field of its own, so the text is without it
            tried_at, why = why.tried_at, evolve(why, is_of_last_attempt=False)
        yield Pending(job.key, type(why).__name__, str(why), tried_at)


def _trees(scheduler: Scheduler) -> Iterator[Tree]:
    """Yield the trees of which some part lacks pods, each family once. O(groups)."""
    for info in scheduler.registry:
        is_parent = info.spec is not None and info.spec.min_groups is not None
        is_root = scheduler.registry.root(info.key) == info.key
        if (is_parent or info.has_copies) and is_root:
            tree = scheduler.tree(info.key)
            if any(row.lacks for row in tree):
                yield tree


def _tenants(jobs: Iterable[JobRow], never: dict[str, None]) -> dict[str, Counts]:
    """Return the counts of each namespace, in the order of their names. O(jobs log jobs)."""
    of: dict[str, list[JobRow]] = {}
    for job in jobs:
        of.setdefault(job.namespace, []).append(job)
    return {name: _counts(of[name], never) for name in sorted(of)}


def _counts(jobs: list[JobRow], never: dict[str, None]) -> Counts:
    waiting = [job for job in jobs if job.started_at is None]
    partial = sum(job.is_partial for job in waiting)
    never_fit = sum(job.key in never and not job.is_partial for job in waiting)
    completion = [time for job in jobs if (time := job.completion_time) is not None]
    return Counts(
        submitted=len(jobs),
        started_whole=len(jobs) - len(waiting),
        partial=partial,
        never_fit=never_fit,
        pending=len(waiting) - partial - never_fit,
        waiting=Distribution.of([wait for job in jobs if (wait := job.wait) is not None]),
        finished=len(completion),
        completion=Distribution.of(completion),
        slowdown=Distribution.of([down for job in jobs if (down := job.slowdown) is not None]),
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
