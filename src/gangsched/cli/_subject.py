"""What ``gangsched explain`` is asked about: a pod group, a pod or a job of the run.

Rules:
  R1  a name is ``NAMESPACE/NAME``; without a namespace it is first taken as one in ``default``;
  R2  a pod group comes before a job, and a job before a pod of the same name;
  R3  a job that has no pod group is asked about by its first pod that has no node;
  R4  a job that is over is found too, also after its pods were deleted;
  R5  of a job that arrives after the question, the error has the instant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from difflib import get_close_matches
from typing import Final, final

from attrs import frozen

from gangsched.cli._files import BadInputError
from gangsched.errors import InvalidPodGroupError, InvalidValueError, UnknownPodError
from gangsched.events import PodAdded, PodGroupAdded
from gangsched.membership import membership
from gangsched.model import GroupKey, Pod
from gangsched.simulation import Arrival, Job, JobRow, Simulator, Workload
from gangsched.simulation.workload import job_of
from gangsched.values.seconds import format_span

__all__ = ["Subject", "find"]

_NAMED: Final = 5


@final
@frozen
class Subject:
    """A pod group, a pod or a job of a run.

    Attributes:
        name: What it is, with its key: ``pod group default/train``.
        group: The key of the group, or of the group of the pod; None if there is none.
        pod: The pod; None if the question is about a group, or the pods are deleted.
        job: What the report says about the job; None if it has none.
    """

    name: str
    group: GroupKey | None
    pod: Pod | None
    job: JobRow | None

    @classmethod
    def of_group(cls, key: GroupKey, job: JobRow | None = None) -> Subject:
        """Return a pod group."""
        return cls(f"pod group {key}", key, None, job)

    @property
    def is_finished(self) -> bool:
        """Whether its job has finished."""
        return self.job is not None and self.job.is_finished

    @property
    def span(self) -> tuple[float | None, float | None]:
        """When its job started and when it finished; None for what has not happened."""
        return (None, None) if self.job is None else (self.job.started_at, self.job.finished_at)


def find(
    simulator: Simulator, text: str, arrivals: Callable[[], Workload | Iterable[Arrival]]
) -> Subject:
    """Return what a name stands for.

    Runtime complexity: O(1) for a group or a job, O(pods + jobs) otherwise; O(arrivals) for an
    unknown name.

    Args:
        simulator: The simulator, at the instant of the question.
        text: The name.
        arrivals: Returns what arrives in the run.

    Raises:
        BadInputError: Nothing of that name is known.
    """
    names = (text,) if "/" in text else (f"default/{text}", text)
    for name in names:
        found = _of_job(simulator, name) or _of_pod(simulator, name) or _past(simulator, name)
        if found is not None:
            return found
    for name in (*names, f"/{text}"):
        later = _arrival(arrivals(), name, after=simulator.now)
        if later is not None:
            now = format_span(simulator.now)
            raise BadInputError(f"NAME: {later}, and the question is asked at t={now}")
    raise BadInputError(f"NAME: {UnknownPodError(names[0])}; {_known(simulator, names[0])}")


def _of_job(simulator: Simulator, name: str) -> Subject | None:
    job = simulator.jobs.named(name)
    known = simulator.scheduler.registry.get(GroupKey(name))
    if known is not None:
        row = job.row() if job is not None and job.kind == "group" else None
        return Subject.of_group(GroupKey(name), row)
    if job is None or not job.members or job.kind == "group":
        return None
    uids = [uid for uid in job.members if uid not in job.holding and uid not in job.finished]
    return _pod(job.members[next(iter(uids or job.members))], job)


def _of_pod(simulator: Simulator, name: str) -> Subject | None:
    for pod in simulator.cluster.pods():
        if name in (pod.key, pod.uid):
            return _pod(pod, simulator.jobs.of(pod.uid))
    return None


def _pod(pod: Pod, job: Job | None) -> Subject:
    try:
        claim = membership(pod)
    except InvalidPodGroupError:
        claim = None
    row = None if job is None else job.row()
    of = "" if job is None or job.key in (pod.key, pod.uid) else f" of {_kind(job)} {job.key}"
    return Subject(f"pod {pod.key}{of}", None if claim is None else claim.group, pod, row)


def _kind(job: Job) -> str:
    return "pod group" if job.kind == "group" else "job"


def _past(simulator: Simulator, name: str) -> Subject | None:
    """Return a job that is over and has no pods any more."""
    row = next((row for row in simulator.jobs.rows() if row.key == name and row.is_finished), None)
    return None if row is None else Subject(f"job {name}", None, None, row)


def _arrival(arrivals: Workload | Iterable[Arrival], name: str, *, after: float) -> str | None:
    """Return when a group, a pod or a job arrives: ``red/train arrives at t=5s``.

    A name that begins with a slash is that of any namespace. None if nothing of the name arrives.
    """
    given = arrivals.arrivals if isinstance(arrivals, Workload) else arrivals
    for each in given:
        if each.at > after:
            for known in _names(each):
                if known == name or (name.startswith("/") and known.endswith(name)):
                    return f"{known} arrives at t={format_span(each.at)}"
    return None


def _names(arrival: Arrival) -> set[str]:
    """Return the names by which what arrives is known."""
    event = arrival.event
    if isinstance(event, PodGroupAdded):
        return {event.group.key}
    if not isinstance(event, PodAdded):
        return set()
    pod = event.pod
    names = {pod.key, str(pod.uid)}
    with suppress(InvalidPodGroupError):
        claim = membership(pod)
        names |= set() if claim is None else {str(claim.group)}
    with suppress(InvalidValueError):
        job = job_of(pod)
        names |= set() if job is None else {job[0]}
    return names


def _known(simulator: Simulator, name: str) -> str:
    """Return the known names that are nearest to a name, or else the first ones."""
    groups = [str(info.key) for info in simulator.scheduler.registry]
    jobs = [row.key for row in simulator.jobs.rows()]
    by_name = {key.rpartition("/")[2]: key for key in reversed(jobs)}
    same = by_name.get(name.rpartition("/")[2])
    near = [same] if same is not None else get_close_matches(name, jobs, n=1)
    hint = f"; did you mean {near[0]}?" if near and len(jobs) > _NAMED else ""
    kind, keys = ("groups", groups) if groups else ("jobs", jobs)
    if not keys:
        return "there is no group and no pod"
    more = ", ..." if len(keys) > _NAMED else ""
    return f"known {kind}: {', '.join(keys[:_NAMED])}{more}{hint}"
