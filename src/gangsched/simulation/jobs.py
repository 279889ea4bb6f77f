"""Jobs: the pods that work together, whatever the scheduling policy knows about them.

A job is a pod group, the pods that a controller creates for one training job, or a regular pod.
Its work begins when its quorum is bound, and not before. What a member holds until then is held
by a job that cannot run. A quorum has enough members of each role that has a minimum.

Invariants (checked by ``_check``):
  I1  a pod is in one job;
  I2  a job has begun exactly when as many members as its quorum were bound at one time;
  I3  a member holds its requests from its ``PodWaiting`` or ``Bind`` until it is bound and
      finished, rejected, failed to bind or deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import final

from attrs import define, field

from gangsched.errors import InternalError, InvalidPodGroupError, InvalidValueError
from gangsched.membership import membership
from gangsched.model import GroupKey, Pod, PodGroup, PodUID, Resources
from gangsched.simulation.metrics import Account
from gangsched.simulation.workload import job_of

__all__ = ["Job", "Jobs"]


@final
@define(eq=False)
class Job:
    """One job.

    Attributes:
        key: The key of the group, ``namespace/name`` of a controller's job, or the UID of the pod.
        is_gang: Whether several pods must run together.
        kind: ``group``, ``job`` of a controller, or ``pod``.
        claimed_min: The minimum that its pods give.
        spec: The group's specification.
        members: Its pods.
        roles: The role of each member that has one.
        holding: The members that hold a node, bound or not.
        bound: The members that are bound.
        finished: The members that have finished.
        submitted_at: When the job was complete for the first time; None before that.
        started_at: When its quorum was bound; None before that.
    """

    key: str
    is_gang: bool
    kind: str = "pod"
    claimed_min: int | None = None
    spec: PodGroup | None = None
    members: dict[PodUID, Pod] = field(factory=dict[PodUID, Pod])
    roles: dict[PodUID, str] = field(factory=dict[PodUID, str])
    holding: set[PodUID] = field(factory=set[PodUID])
    bound: set[PodUID] = field(factory=set[PodUID])
    finished: set[PodUID] = field(factory=set[PodUID])
    submitted_at: float | None = None
    started_at: float | None = None

    @property
    def quorum(self) -> int | None:
        """How many members must be bound for the work to begin; None if it is not known yet."""
        return self.claimed_min if self.spec is None else self.spec.min_available

    def has_quorum(self, of: Collection[PodUID]) -> bool:
        """Return whether some of the members are a quorum. O(members) if roles have minima."""
        if self.quorum is None or len(of) < self.quorum:
            return False
        minima: Mapping[str, int] = {} if self.spec is None else self.spec.roles
        return all(
            sum(self.roles.get(uid) == role for uid in of) >= least
            for role, least in minima.items()
        )

    @property
    def is_partial(self) -> bool:
        """Whether members are bound although the work has not begun."""
        return self.started_at is None and bool(self.bound)

    @property
    def is_finished(self) -> bool:
        """Whether the work has begun and every member has finished."""
        return self.started_at is not None and len(self.finished) >= len(self.members)


@final
class Jobs:
    """The jobs of a run, and what they hold."""

    def __init__(self) -> None:
        self._jobs: dict[tuple[str, str], Job] = {}
        self._of: dict[PodUID, Job] = {}
        self.idle: Account = Account()
        """The resources that jobs hold whose work has not begun."""
        self.used: Account = Account()
        """The resources that jobs hold whose work has begun."""
        self.preempted = 0
        """How many pods were evicted by preemption."""

    def add_pod(self, pod: Pod, *, now: float) -> None:
        """Record a pod, or a new version of it."""
        known = self._of.get(pod.uid)
        if known is not None:
            account, before = self._account(known), known.members[pod.uid]
            known.members[pod.uid] = pod
            if pod.uid in known.holding and before.requests != pod.requests:
                account.subtract(before.requests, now=now)
                account.add(pod.requests, now=now)
            return
        try:
            claim = membership(pod)
        except InvalidPodGroupError:
            claim = None
        if claim is None:
            job = self._job_without_group(pod)
        else:
            job = self._job("group", claim.group, is_gang=True)
            if job.claimed_min is None:
                job.claimed_min = claim.min_available
            if claim.role is not None:
                job.roles[pod.uid] = claim.role
        job.members[pod.uid] = pod
        self._of[pod.uid] = job
        self._note_completeness(job, now)

    def add_group(self, group: PodGroup, *, now: float) -> None:
        """Record a group's specification."""
        job = self._job("group", group.key, is_gang=True)
        job.spec = group
        self._note_completeness(job, now)

    def remove_group(self, key: GroupKey) -> None:
        """Remove a group's specification."""
        job = self._jobs.get(("group", key))
        if job is not None:
            job.spec = None
            self._forget_if_empty(job)

    def hold(self, uid: PodUID, *, now: float) -> None:
        """Record that a pod holds a node. O(resources)."""
        job = self._of.get(uid)
        if job is not None and uid not in job.holding:
            job.holding.add(uid)
            self._account(job).add(job.members[uid].requests, now=now)

    def give_back(self, uid: PodUID, *, now: float) -> None:
        """Record that a pod no longer holds a node. O(resources)."""
        job = self._of.get(uid)
        if job is not None and uid in job.holding:
            job.holding.discard(uid)
            job.bound.discard(uid)
            self._account(job).subtract(job.members[uid].requests, now=now)

    def bind(self, uid: PodUID, *, now: float) -> list[PodUID]:
        """Record that a pod is bound; return the pods whose work begins with that."""
        job = self._of[uid]
        self.hold(uid, now=now)
        if uid in job.bound:
            return []
        job.bound.add(uid)
        if job.started_at is not None:
            return [uid]
        if not job.has_quorum(job.bound):
            return []
        held = Resources()
        for member in job.holding:
            held += job.members[member].requests
        self.idle.subtract(held, now=now)
        job.started_at = now
        self.used.add(held, now=now)
        return [member for member in job.members if member in job.bound]

    def finish(self, uid: PodUID, *, now: float) -> None:
        """Record that a pod has finished."""
        self.give_back(uid, now=now)
        self._of[uid].finished.add(uid)

    def remove_pod(self, uid: PodUID, *, now: float) -> None:
        """Remove a pod that was deleted."""
        job = self._of.get(uid)
        if job is None:
            return
        self.give_back(uid, now=now)
        job.finished.discard(uid)
        job.roles.pop(uid, None)
        del self._of[uid], job.members[uid]
        self._forget_if_empty(job)

    def of(self, uid: PodUID) -> Job | None:
        """Return the job of a pod; None for an unknown pod."""
        return self._of.get(uid)

    def __iter__(self) -> Iterator[Job]:
        """Iterate over the jobs in the order in which they became known."""
        return iter(self._jobs.values())

    def __len__(self) -> int:
        return len(self._jobs)

    def _job(self, kind: str, key: str, *, is_gang: bool) -> Job:
        # The kind is part of the key: a group, a controller's job and a pod may have one name.
        job = self._jobs.get((kind, key))
        if job is None:
            job = self._jobs[kind, key] = Job(key, is_gang, kind)
        return job

    def _job_without_group(self, pod: Pod) -> Job:
        """Return the job that the annotations name, or one of this pod alone."""
        try:
            found = job_of(pod)
        except InvalidValueError:
            found = None
        key, pods = found or (str(pod.uid), 1)
        kind = "pod" if found is None else "job"
        job = self._job(kind, key, is_gang=pods > 1)
        job.claimed_min = pods
        return job

    def _forget_if_empty(self, job: Job) -> None:
        """Remove a job that was withdrawn before its work began."""
        if not job.members and job.spec is None and job.started_at is None:
            del self._jobs[job.kind, job.key]

    def _account(self, job: Job) -> Account:
        return self.idle if job.started_at is None else self.used

    @staticmethod
    def _note_completeness(job: Job, now: float) -> None:
        if job.submitted_at is None and job.has_quorum(job.members):
            job.submitted_at = now

    def _check(self) -> None:
        for job in self:
            if not job.bound <= job.holding <= job.members.keys():
                raise InternalError(f"job {job.key}: a bound member does not hold its requests")
            if job.started_at is None and job.has_quorum(job.bound):
                raise InternalError(f"job {job.key} has its quorum and has not begun")
            for uid in job.members:
                if self._of[uid] is not job:
                    raise InternalError(f"{uid} is in two jobs")
