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
  R5  a pod with a restart policy, that of its job or of a copy that it is part of, has failed if
      it is lost. If it were deleted, nothing would tell a lost machine from a job that is
      withdrawn. When the job or the copy is restarted, its lost pods are queued again, as its
      evicted pods are.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, final

from attrs import define, evolve, field

from gangsched.drivers._contract import E
from gangsched.errors import GangRejectedError, InvalidValueError
from gangsched.events import (
    Event,
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
from gangsched.primitives.gang_tree import tree_of
from gangsched.primitives.standing import is_quorum

__all__ = ["JobState", "Submitted", "SubmittedJobs"]


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
class Submitted(Generic[E]):
    """One job.

    Attributes:
        pods: Its pods by UID.
        group: Its group; None for a single pod.
        known: Set once the scheduler has been told of all its pods, or never will be.
        decided: Set once it has started, or can no longer start.
        places: The node of each pod that is placed.
        lost: The pods that failed, or whose machine is lost, since the last restart of the job.
        starting: The pods whose start is under way, each with the thread or the task that it is in.
        has_started: Whether its quorum has been placed.
        end: FINISHED or CANCELLED once it has been withdrawn; else None.
        start_error: The exception of its last start that failed; None if none did.
    """

    pods: dict[PodUID, Pod]
    group: PodGroup | None
    known: E
    decided: E
    places: dict[PodUID, NodeName] = field(factory=dict[PodUID, NodeName])
    lost: set[PodUID] = field(factory=set[PodUID])
    starting: dict[PodUID, Any] = field(factory=dict[PodUID, Any])
    has_started: bool = False
    end: JobState | None = None
    start_error: Exception | None = None
    _outcome: Mapping[str, NodeName] | str = ""
    _cause: BaseException | None = None
    _before: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """The key of its group, or ``namespace/name`` of its only pod."""
        return next(iter(self.pods.values())).key if self.group is None else self.group.key

    def outcome(self) -> Mapping[str, NodeName]:
        """Return where its pods were when it started, once that is decided.

        Raises:
            GangRejectedError: It can no longer start.
        """
        if isinstance(self._outcome, str):
            raise GangRejectedError(self.key, self._outcome) from self._cause
        return self._outcome

    def take_in(self, uid: PodUID) -> None:
        """Note that the scheduler has been told of a pod."""
        if uid == next(reversed(self.pods)):
            self.known.set()

    def withdraw(self, end: JobState) -> None:
        """Note that it is finished or cancelled."""
        self.end, self._before = end, frozenset(self.named_places())
        self.known.set()
        self._settle()

    def host_ended(self, reason: str, cause: BaseException | None) -> None:
        """Note that its host does nothing any more."""
        if not self.has_started:
            self.end = JobState.CANCELLED
            self._reject(reason, cause)
        self.known.set()

    def to_end(self) -> dict[str, NodeName]:
        """Return the pods that are left for the caller to end, with their nodes.

        Of a job that is finished they are those that were placed since.
        """
        left = self.named_places().items()
        is_cancelled = self.end is JobState.CANCELLED
        return {name: node for name, node in left if is_cancelled or name not in self._before}

    def _settle(self) -> None:
        """End the waits if it was withdrawn and can no longer start."""
        if self.end is JobState.FINISHED and self.starting:
            return  # these starts may still place a quorum
        if self.end is not None and not self.has_started:
            self._reject(_WITHDRAWN[self.end])

    def _reject(self, reason: str, cause: BaseException | None = None) -> None:
        if not self.decided.is_set():
            self._outcome, self._cause = reason, cause
            self.decided.set()

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

    def place(self, uid: PodUID, node: NodeName) -> None:
        """Note that a pod is placed; the job may have started with that."""
        self.places[uid] = node
        if self.has_started or self.end is JobState.CANCELLED or not self._has_quorum():
            return
        self.begin()

    def begin(self) -> None:
        """Note that it has started, with the pods that are placed."""
        self.has_started = True
        self._outcome = MappingProxyType(self.named_places())
        self.decided.set()

    def start_has_ended(self, uid: PodUID) -> None:
        """Note that the start of a pod is no longer under way."""
        del self.starting[uid]
        self._settle()

    @property
    def policies(self) -> Mapping[str, RestartPolicy]:
        """The restart policies of the job, by what they are about: ``""`` for all of it."""
        group = self.group
        if group is None:
            return {}
        own = {} if group.restart is None else {"": group.restart}
        return {**own, **tree_of(group.min_available, group.roles).restarted}

    def is_restarted(self, uid: PodUID) -> bool:
        """Return whether a pod starts again with others if it is lost."""
        return any(self._is_within(uid, path) for path in self.policies)

    def _is_within(self, uid: PodUID, path: str) -> bool:
        role = self._role(uid)
        return not path or f"{role or ''}/".startswith(f"{path}/")

    def failed(self, uid: PodUID) -> PodUpdated:
        """Return that a placed pod has failed."""
        pod, node = self.pods[uid], self.places[uid]
        return PodUpdated(evolve(pod, node_name=node, phase=PodPhase.FAILED))

    def lose(self, uid: PodUID) -> None:
        """Note that a pod has failed."""
        self.lost.add(uid)
        self.places.pop(uid, None)

    def requeue_lost(self, path: str) -> list[Event]:
        """Return the events that queue lost pods again, and forget that they are lost.

        Args:
            path: The copy that is restarted; ``""`` if all of the job is.
        """
        lost = [uid for uid in self.pods if uid in self.lost and self._is_within(uid, path)]
        self.lost.difference_update(lost)
        return [event for uid in lost for event in (PodDeleted(uid), PodAdded(self.pods[uid]))]

    def _has_quorum(self) -> bool:
        if self.group is None:
            return len(self.places) == len(self.pods)
        roles = [self._role(uid) for uid in self.places]
        group = self.group.with_copies_of(roles)
        return is_quorum(tree_of(group.min_available, group.roles, None, group.topology), roles)

    def _role(self, uid: PodUID) -> str | None:
        """Return the role of a pod in the group."""
        claim, group = membership(self.pods[uid]), self.group
        if claim is None or group is None:
            return None
        return group.path_of(claim.role, self.pods[uid].labels, self.pods[uid].name)


@final
class SubmittedJobs(Generic[E]):
    """The jobs that a host knows, by key."""

    def __init__(self) -> None:
        self._jobs: dict[str, Submitted[E]] = {}
        self._of: dict[PodUID, Submitted[E]] = {}

    def __iter__(self) -> Iterator[Submitted[E]]:
        """Iterate over the jobs, in the order of their submission."""
        return iter(self._jobs.values())

    def add(
        self, job: Gang | Pod, *, now: float, can_evict: bool, event: Callable[[], E]
    ) -> Submitted[E]:
        """Add a job.

        Raises:
            InvalidValueError: It is neither a Gang nor a Pod, or its key or the UID of a pod is
                taken, or it has a restart policy and the host cannot evict.
        """
        if isinstance(job, Gang):
            group, given = evolve(job.group, created_at=now), job.pods
        elif isinstance(job, Pod):
            group, given = None, (job,)
        else:
            raise InvalidValueError("job", job, "a Gang or a Pod")
        pods = {pod.uid: evolve(pod, created_at=now) for pod in given}
        return self.put(Submitted(pods, group, event(), event()), can_evict=can_evict)

    def put(self, made: Submitted[E], *, can_evict: bool) -> Submitted[E]:
        """Add a job that was made elsewhere; see ``add``."""
        if made.policies and not can_evict:
            expected = "None, or a host with evict: a restart evicts the pods that are left"
            raise InvalidValueError("restart", next(iter(made.policies.values())), expected)
        if made.key in self._jobs:
            raise InvalidValueError("key", made.key, "unused: finish or cancel that job first")
        for uid in made.pods:
            if uid in self._of:
                raise InvalidValueError("uid", uid, "unused by the pods of other jobs")
        self._jobs[made.key] = made
        self._of.update(dict.fromkeys(made.pods, made))
        return made

    def remove(self, job: Submitted[E]) -> None:
        """Forget a job."""
        del self._jobs[job.key]
        for uid in job.pods:
            del self._of[uid]

    def job(self, key: str) -> Submitted[E] | None:
        """Return a job by its key; None if it is not known."""
        return self._jobs.get(key)

    def told(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield what events mean for the scheduler: what happens to lost pods is rule R5.

        Runtime complexity: O(1) for each event, O(placed pods) for a machine that is lost.
        """
        for event in events:
            if isinstance(event, PodDeleted):
                job = self._of.get(event.uid)
                is_lost = (
                    job is not None and event.uid in job.places and job.is_restarted(event.uid)
                )
                yield job.failed(event.uid) if job is not None and is_lost else event
                continue
            yield event
            if isinstance(event, NodeDeleted):
                for job in self._jobs.values():
                    for uid, node in job.places.items() if job.policies else ():
                        if node == event.name and job.is_restarted(uid):
                            yield job.failed(uid)

    def job_of(self, uid: PodUID) -> Submitted[E] | None:
        """Return the job of a pod; None if it is not known."""
        return self._of.get(uid)
