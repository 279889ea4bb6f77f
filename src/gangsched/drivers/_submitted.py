"""Jobs that were submitted to a host, and when each has started. Pure: no threads, no tasks.

Rules:
  R1  a job has started once as many members as its quorum, and as its roles ask for, are placed at
      one time;
  R2  a job that is withdrawn is forgotten. A start that is under way then still ends in its record,
      and never in that of a later job with the same name;
  R3  a job that is finished while its pods are being started has started once these starts have
      placed a quorum. A job that is cancelled before it started never starts;
  R4  the pods and the group of a job carry the instant of its submission, since the queue orders
      jobs by it;
  R5  a pod of a job with a restart policy that is lost has failed. If it were deleted, nothing
      would tell a lost machine from a job that is withdrawn. When the job is restarted, its lost
      pods are queued again, as its evicted pods are.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from typing import Final, final

from attrs import define, evolve, field

from gangsched._core._standing import is_quorum
from gangsched.errors import InvalidValueError
from gangsched.events import (
    Effect,
    Event,
    GroupRestarted,
    NodeDeleted,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodUpdated,
)
from gangsched.gangs import Gang
from gangsched.membership import membership
from gangsched.model import GroupKey, NodeName, Pod, PodGroup, PodPhase, PodUID, RestartPolicy

__all__ = ["CLOSED", "JobState", "Submitted", "SubmittedJobs", "Watch", "failed"]

CLOSED: Final = "the host was closed before the job started"


class JobState(enum.Enum):
    """The state of a job that was submitted to a host."""

    PENDING = "pending"
    """Fewer pods than its quorum have been started."""
    STARTED = "started"
    """Its quorum has been started, and its end has not been reported."""
    FINISHED = "finished"
    """``finish`` was called."""
    CANCELLED = "cancelled"
    """``cancel`` was called, or the host ended before the job started."""


_WITHDRAWN: Final = {
    JobState.FINISHED: "the job was finished before it started",
    JobState.CANCELLED: "the job was withdrawn before it started",
}


@define(eq=False)
class Submitted:
    """One job.

    Attributes:
        key: The key of its group, or ``namespace/name`` of its only pod.
        pods: Its pods by UID.
        group: Its group; None for a single pod.
        roles: The role of each pod that has one.
        places: The node of each pod that is placed.
        lost: The pods that failed, or whose machine is lost, since the last restart of the job.
        starting: The pods whose start is under way, each with the thread or the task that it is in.
        has_started: Whether its quorum has been placed.
        end: FINISHED or CANCELLED once it has been withdrawn; else None.
        start_error: The exception of its last start that failed; None if none did.
    """

    key: str
    pods: dict[PodUID, Pod]
    group: PodGroup | None
    roles: dict[PodUID, str]
    places: dict[PodUID, NodeName] = field(factory=dict[PodUID, NodeName])
    lost: set[PodUID] = field(factory=set[PodUID])
    starting: dict[PodUID, object] = field(factory=dict[PodUID, object])
    has_started: bool = False
    end: JobState | None = None
    start_error: Exception | None = None

    @property
    def state(self) -> JobState:
        """The state of the job."""
        if self.end is not None:
            return self.end
        return JobState.STARTED if self.has_started else JobState.PENDING

    @property
    def rejection(self) -> str | None:
        """Why it was withdrawn and can no longer start; None if it has started, or still can."""
        if self.has_started or self.end is None:
            return None
        if self.end is JobState.FINISHED and self.starting:
            return None
        return _WITHDRAWN[self.end]

    def events(self) -> Iterator[Event]:
        """Yield the events that add the job."""
        if self.group is not None:
            yield PodGroupAdded(self.group)
        for pod in self.pods.values():
            yield PodAdded(pod)

    def withdrawal(self) -> Iterator[Event]:
        """Yield the events that remove the job."""
        for uid in self.pods:
            yield PodDeleted(uid)
        if self.group is not None:
            yield PodGroupDeleted(GroupKey(self.group.key))

    def named_places(self) -> dict[str, NodeName]:
        """Return the node of each placed pod by the name of the pod, in the order of the pods."""
        placed = ((pod.name, self.places.get(uid)) for uid, pod in self.pods.items())
        return {name: node for name, node in placed if node is not None}

    def place(self, uid: PodUID, node: NodeName) -> bool:
        """Record that a pod is placed; return whether the job starts with that."""
        self.places[uid] = node
        if self.has_started or self.end is JobState.CANCELLED or not self._has_quorum():
            return False
        self.has_started = True
        return True

    @property
    def policy(self) -> RestartPolicy | None:
        """Whether the job is restarted; None for never."""
        return None if self.group is None else self.group.restart

    def failed(self, uid: PodUID) -> PodUpdated:
        """Return that a placed pod has failed."""
        pod, node = self.pods[uid], self.places[uid]
        return PodUpdated(evolve(pod, node_name=node, phase=PodPhase.FAILED))

    def lose(self, uid: PodUID) -> None:
        """Note that a pod has failed."""
        self.lost.add(uid)
        self.places.pop(uid, None)

    def requeue_lost(self) -> list[Event]:
        """Return the events that queue the lost pods again, and forget that they are lost."""
        lost = [uid for uid in self.pods if uid in self.lost]
        self.lost.clear()
        return [event for uid in lost for event in (PodDeleted(uid), PodAdded(self.pods[uid]))]

    def _has_quorum(self) -> bool:
        if self.group is None:
            return len(self.places) == len(self.pods)
        placed = map(self.roles.get, self.places)
        return is_quorum(self.group.min_available, self.group.roles, placed)


@final
class SubmittedJobs:
    """The jobs that a host knows, by key."""

    def __init__(self) -> None:
        self._jobs: dict[str, Submitted] = {}
        self._of: dict[PodUID, Submitted] = {}

    def add(self, job: Gang | Pod, *, now: float, can_evict: bool) -> Submitted:
        """Add a job.

        Raises:
            InvalidValueError: It is neither a Gang nor a Pod, or its key or the UID of a pod is
                taken, or it has a restart policy and the host cannot evict.
        """
        if isinstance(job, Gang):
            group = evolve(job.group, created_at=now)
            pods = [evolve(pod, created_at=now) for pod in job.pods]
            made = Submitted(group.key, {pod.uid: pod for pod in pods}, group, _roles(pods))
        elif isinstance(job, Pod):
            pod = evolve(job, created_at=now)
            made = Submitted(pod.key, {pod.uid: pod}, None, {})
        else:
            raise InvalidValueError("job", job, "a Gang or a Pod")
        if made.policy is not None and not can_evict:
            expected = "None, or a host with evict: a restart evicts the pods that are left"
            raise InvalidValueError("restart", made.policy, expected)
        if made.key in self._jobs:
            raise InvalidValueError("key", made.key, "unused: finish or cancel that job first")
        for uid in made.pods:
            if uid in self._of:
                raise InvalidValueError("uid", uid, "unused by the pods of other jobs")
        self._jobs[made.key] = made
        self._of.update(dict.fromkeys(made.pods, made))
        return made

    def key_of_last(self, uid: PodUID) -> str | None:
        """Return the key of the job of which a pod is the last; None for any other pod."""
        job = self._of.get(uid)
        return job.key if job is not None and next(reversed(job.pods)) == uid else None

    def remove(self, key: str) -> Submitted | None:
        """Forget a job; None if it is not known."""
        job = self._jobs.pop(key, None)
        for uid in () if job is None else job.pods:
            del self._of[uid]
        return job

    def job(self, key: str) -> Submitted | None:
        """Return a job by its key; None if it is not known."""
        return self._jobs.get(key)

    def told(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield what events mean for the scheduler: what happens to lost pods is rule R5.

        Runtime complexity: O(1) for each event, O(placed pods) for a machine that is lost.
        """
        for event in events:
            if isinstance(event, PodDeleted):
                job = self._of.get(event.uid)
                is_lost = job is not None and job.policy is not None and event.uid in job.places
                yield job.failed(event.uid) if job is not None and is_lost else event
                continue
            yield event
            if isinstance(event, NodeDeleted):
                for job in self._jobs.values():
                    for uid, node in job.places.items() if job.policy is not None else ():
                        if node == event.name:
                            yield job.failed(uid)

    def job_of(self, uid: PodUID) -> Submitted | None:
        """Return the job of a pod; None if it is not known."""
        return self._of.get(uid)


def _roles(pods: list[Pod]) -> dict[PodUID, str]:
    claims = ((pod.uid, membership(pod)) for pod in pods)
    return {uid: claim.role for uid, claim in claims if claim is not None and claim.role}


@final
class Watch:
    """Observes which pods the scheduler has been told of, and which jobs it restarts."""

    def __init__(
        self,
        taken_in: Callable[[PodUID], None],
        lost: Callable[[PodUID], None],
        restarted: Callable[[GroupKey], None],
    ) -> None:
        self._taken_in = taken_in
        self._lost = lost
        self._restarted = restarted

    def event(self, event: Event, now: float) -> None:
        """Note a pod that was added, or that has failed."""
        if isinstance(event, PodAdded):
            self._taken_in(event.pod.uid)
        elif isinstance(event, PodUpdated) and event.pod.phase is PodPhase.FAILED:
            self._lost(event.pod.uid)

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        """Note the jobs that are restarted."""
        for effect in effects:
            if isinstance(effect, GroupRestarted):
                self._restarted(effect.group)

    def settled(self, now: float) -> None:
        """Do nothing."""


def failed(error: BaseException) -> str:
    """Return why a host does nothing any more, in one phrase."""
    return f"the scheduler ended with an error: {str(error) or repr(error)}"
