"""The state of a host as plain data: ``gangsched.host/1``. Pure: no threads, no tasks.

Rules:
  R1  it has the cluster state with all that was handed in, also what was not taken in yet;
  R2  the pods of a job are where the job says, also if the scheduler was not told of that yet. A
      pod whose *start* has returned is not started again, and one that was ended holds no node;
  R3  a snapshot is read as a whole before anything is made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from attrs import evolve, frozen

from gangsched.cluster_objects import KINDS
from gangsched.drivers._contract import E
from gangsched.drivers._submitted import Submitted
from gangsched.errors import InvalidValueError
from gangsched.events import Event, NodeAdded, ObjectChanged, PodAdded, PodGroupAdded, PodUpdated
from gangsched.memory import InMemoryCluster
from gangsched.model import NodeName, PodPhase, PodUID
from gangsched.replay.recorded_reads import apply_if_possible
from gangsched.scheduler import Scheduler
from gangsched.values.form_table import EVENT
from gangsched.values.forms import BOOL, JSON, STRS_BY_NAME, Record, as_object, many

__all__ = ["HostRow", "JobRow", "job_of", "read_host", "write_host"]

_FORMAT: Final = "gangsched.host/1"


@frozen
class JobRow:
    """A job: the events that add it, the nodes of its placed pods, and whether it has started."""

    added: tuple[Event, ...]
    places: Mapping[PodUID, NodeName]
    has_started: bool


@frozen
class HostRow:
    """A host: the events that make its cluster state, its jobs, and the scheduler's snapshot."""

    cluster: tuple[Event, ...]
    jobs: tuple[JobRow, ...]
    scheduler: Any


_JOB: Final = Record(JobRow, added=many(EVENT), places=STRS_BY_NAME, has_started=BOOL)
_HOST: Final = Record(HostRow, cluster=many(EVENT), jobs=many(_JOB.form), scheduler=JSON)


def write_host(
    scheduler: Scheduler,
    cluster: InMemoryCluster,
    waiting: Iterable[Event],
    jobs: Iterable[Submitted[Any]],
    leaving: Iterable[Submitted[Any]],
) -> dict[str, Any]:
    """Return the snapshot of a host. O(its state).

    Args:
        scheduler: Its scheduler.
        cluster: Its cluster state.
        waiting: The events that were handed in and are not in the cluster state yet.
        jobs: Its jobs.
        leaving: The jobs that were removed, and whose removal may not have been handed in yet.
    """
    ahead = InMemoryCluster()
    gone = (event for job in leaving for event in job.withdrawal())
    for event in (*_listed(cluster), *waiting, *gone):
        apply_if_possible(ahead, event)
    rows: list[JobRow] = []
    for job in jobs:
        for event in () if job.known.is_set() else job.events():
            ahead.apply(event)  # the host may be about to hand it in
        for pod in filter(None, map(ahead.pod, job.pods)):
            place = job.places.get(pod.uid)
            if pod.node_name != place and pod.phase is not PodPhase.FAILED:
                ahead.apply(PodUpdated(evolve(pod, node_name=place)))
        rows.append(JobRow(tuple(job.events()), {**job.places}, job.has_started))
    host = HostRow(tuple(_listed(ahead)), tuple(rows), scheduler.snapshot())
    return {"format": _FORMAT, **_HOST.write(host)}


def read_host(data: object) -> HostRow:
    """Read a snapshot.

    Raises:
        InvalidValueError: It is no snapshot of a host, or malformed.
    """
    given = dict(as_object(data, "snapshot"))
    if (found := given.pop("format", None)) != _FORMAT:
        raise InvalidValueError("snapshot.format", found, f"{_FORMAT}, as Host.snapshot returns it")
    return _HOST.read(given, "snapshot")


def job_of(row: JobRow, cluster: InMemoryCluster, event: Callable[[], E]) -> Submitted[E]:
    """Return a job of a snapshot, in a cluster state that has its pods."""
    pods = {each.pod.uid: each.pod for each in row.added if isinstance(each, PodAdded)}
    groups = [each.group for each in row.added if isinstance(each, PodGroupAdded)]
    if not pods:
        raise InvalidValueError("snapshot.jobs", row.added, "jobs with pods")
    job = Submitted(pods, groups[0] if groups else None, event(), event())
    job.places.update((uid, row.places[uid]) for uid in pods if uid in row.places)
    shown = [pod for pod in map(cluster.pod, pods) if pod is not None]
    job.lost.update(pod.uid for pod in shown if pod.phase is PodPhase.FAILED)
    job.known.set()  # the scheduler lists the cluster before it is asked about the job
    if row.has_started:
        job.begin()
    return job


def _listed(cluster: InMemoryCluster) -> Iterator[Event]:
    yield from map(NodeAdded, cluster.nodes())
    for kind in KINDS.values():
        yield from map(ObjectChanged, cluster.objects.all(kind))
    yield from map(PodGroupAdded, cluster.pod_groups())
    yield from map(PodAdded, cluster.pods())
