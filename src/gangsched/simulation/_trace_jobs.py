"""A job of a trace as a value, and its pods.

Rules:
  R1  a job of several workers is a gang of all of them; a job of one worker is a regular pod;
  R2  the key of a job is ``namespace/job``, whatever its number of workers;
  R3  the pods of a job share their values, so that a trace uses little memory;
  R4  a topology, and a restart policy, need a pod group, which arrives before the pods; other gangs
      are stated by the labels of their pods;
  R5  a job that reaches its time limit ends there, as a batch system ends it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from gangsched.constraints import NodeSelectorTerm, Topology
from gangsched.events import PodAdded, PodGroupAdded
from gangsched.model import FrozenMap, Pod, PodGroup, PodUID, RestartPolicy
from gangsched.model._pod_copy import pod_with_fields
from gangsched.resources import EMPTY, Resources
from gangsched.simulation.workload import (
    JOB,
    JOB_PODS,
    RUN_SECONDS,
    TIME_LIMIT,
    Arrival,
)

__all__ = ["TraceJob", "arrivals"]

_GROUP: Final = "pod-group.scheduling.sigs.k8s.io/name"
_MINIMUM: Final = "pod-group.scheduling.sigs.k8s.io/min-available"


class TraceJob(NamedTuple):
    """One job of a trace.

    Attributes:
        name: Its name, unique in its namespace.
        submitted_at: When it arrives, in seconds on the clock of the trace.
        workers: The number of its pods.
        requests: What each pod requests.
        seconds: Its run time in decimal seconds, as text; its pods run for *limit* if that is less.
        limit: Its time limit in decimal seconds, as text; None for none.
        priority: The priority of its pods.
        namespace: The namespace of its pods: its tenant.
        affinity: The terms of node affinity of its pods.
        topology: The topology constraint of its gang.
        restarts: Whether its gang is restarted as a whole when it loses a pod.
    """

    name: str
    submitted_at: float
    workers: int
    requests: Resources
    seconds: str
    limit: str | None = None
    priority: int = 0
    namespace: str = "default"
    affinity: tuple[NodeSelectorTerm, ...] = ()
    topology: Topology | None = None
    restarts: bool = False


def arrivals(job: TraceJob) -> Iterator[Arrival]:
    """Yield the arrivals of the pods of a job; first its group, if it needs one."""
    name, limit = job.name, job.limit
    annotations = {RUN_SECONDS: job.seconds}
    labels: FrozenMap[str] = EMPTY
    if limit is not None:
        annotations[TIME_LIMIT] = limit
        if float(limit) < float(job.seconds):
            annotations[RUN_SECONDS] = limit
    if job.workers > 1:
        labels = FrozenMap({_GROUP: name, _MINIMUM: str(job.workers)})
    else:
        annotations |= {JOB: name, JOB_PODS: "1"}
    shared = FrozenMap(annotations)
    submitted_at, prefix = job.submitted_at, f"{job.namespace}/"
    if job.workers > 1 and (job.topology is not None or job.restarts):
        group = PodGroup(
            name=name,
            namespace=job.namespace,
            min_available=job.workers,
            topology=job.topology,
            restart=RestartPolicy() if job.restarts else None,
            created_at=submitted_at,
        )
        yield Arrival(submitted_at, PodGroupAdded(group))
    first = pod_with_fields(
        _template(job.namespace, job.requests, job.priority, job.affinity),
        name=f"{name}-0",
        uid=PodUID(f"{prefix}{name}-0"),
        labels=labels,
        annotations=shared,
        created_at=submitted_at,
    )
    yield Arrival(submitted_at, PodAdded(first))
    for index in range(1, job.workers):
        pod_name = f"{name}-{index}"
        pod = pod_with_fields(first, name=pod_name, uid=PodUID(prefix + pod_name))
        yield Arrival(submitted_at, PodAdded(pod))


@lru_cache(maxsize=4096)
def _template(
    namespace: str, requests: Resources, priority: int, affinity: tuple[NodeSelectorTerm, ...]
) -> Pod:
    """Return a pod of which those of a trace are copies: the readers have checked the rest."""
    return Pod(
        name="template",
        namespace=namespace,
        requests=requests,
        priority=priority,
        affinity=affinity,
    )
