"""Jobs: the pods that work together, whatever the scheduling policy knows about them.

A job is a pod group, the pods that a controller creates for one training job, or a regular pod.
Its work begins when its quorum is bound, and not before. What a member holds until then is held
by a job that cannot run. A quorum has enough members of each role that has a minimum.

Invariants (``_check`` checks I1, and I2 and I3 as far as the present shows):
  I1  a pod is in one job; a group of groups has no pods, and is none: the groups below it are;
  I2  a job has begun exactly when as many members as its quorum were bound at one time;
  I3  a member holds its requests from its ``PodWaiting`` or ``Bind`` until it is bound and
      finished, rejected, failed to bind or deleted;
  I4  a finished job without pods is kept as a ``JobRow`` only: in a long run most jobs are over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Final, final

from attrs import define, field, frozen

from gangsched.errors import InternalError, InvalidPodGroupError, InvalidValueError
from gangsched.membership import membership
from gangsched.model import GroupKey, NodeName, Pod, PodGroup, PodPhase, PodUID
from gangsched.primitives.gang_tree import tree_of
from gangsched.primitives.standing import is_quorum
from gangsched.quantity import MILLI
from gangsched.resources import Resources
from gangsched.simulation.metrics import Account
from gangsched.simulation.workload import RUN_SECONDS, TIME_LIMIT, job_of, parse_seconds

__all__ = ["SHORTEST_RUN", "Job", "JobRow", "Jobs"]

SHORTEST_RUN: Final = 10.0
"""The bound of the bounded slowdown in seconds, as Feitelson and Rudolph chose it."""

_ONE: Final = (1,)
"""Shared by the rows of all jobs of one pod: a long run has a million of them."""


@final
@frozen(kw_only=True)
class JobRow:
    """What a report says about a job; all instants are seconds of the simulation's clock.

    Attributes:
        key: The key of the group, ``namespace/name`` of a job, or the UID of a regular pod.
        namespace: Its namespace: of a trace, its tenant.
        is_gang: Whether several pods must run together.
        size: The largest number of pods that it had at one time.
        members: The number of pods that it has at the end.
        quorum: The number of pods that must be bound for its work to begin; None if unknown.
        priority: The priority of the group, or of its first pod.
        submitted_at: When the job was complete for the first time; None before that.
        started_at: When its quorum was bound for the first time; None before that.
        finished_at: When its last pod finished; None before that.
        is_partial: Whether members are bound although its work has not begun.
        is_finished: Whether its work has begun and every member has finished.
        nodes: The nodes that its pods were bound to, each once, in the order of the binds.
        pods_per_node: How many of its pods were bound to each of *nodes*. A pod that was bound
            again, after its run was lost, counts again.
        last_started_at: When its present or last run began. That is ``started_at``, or later if
            all its running pods were lost, as by preemption: then its work began anew.
        requests: What its pods request in total, when it had the most of them.
        run_seconds: How long its pods run, as the workload says: the longest; None without an end.
        time_limit: The time limit of its pods in seconds, the longest; None without one.
        above: The keys of the groups above its group, the root first.
    """

    key: str
    namespace: str
    is_gang: bool
    size: int
    members: int
    quorum: int | None
    priority: int
    submitted_at: float | None
    started_at: float | None
    finished_at: float | None
    is_partial: bool
    is_finished: bool
    nodes: tuple[NodeName, ...]
    pods_per_node: tuple[int, ...]
    last_started_at: float | None
    requests: Resources
    run_seconds: float | None
    time_limit: float | None
    above: tuple[GroupKey, ...] = ()

    @property
    def wait(self) -> float | None:
        """Seconds from completeness to the start; None if it has not started."""
        if self.submitted_at is None or self.started_at is None:
            return None
        return self.started_at - self.submitted_at

    @property
    def completion_time(self) -> float | None:
        """Seconds from completeness to the end, the JCT; None if it has not finished."""
        if self.submitted_at is None or self.finished_at is None:
            return None
        return self.finished_at - self.submitted_at

    @property
    def slowdown(self) -> float | None:
        """The bounded slowdown: completion time per run time, at least 1; None if not finished.

        The run time counts as ``SHORTEST_RUN`` seconds at least. Without a bound, a job of one
        second that waits for a minute would outweigh all long jobs. The run is the last one, which
        was complete: runs that preemption cut short are part of the completion time only.
        """
        total = self.completion_time
        if total is None or self.finished_at is None or self.last_started_at is None:
            return None
        return max(1.0, total / max(self.finished_at - self.last_started_at, SHORTEST_RUN))


@lru_cache(maxsize=4096)
def _total(asked: tuple[tuple[Resources, int], ...]) -> Resources:
    """Return what pods request in total; most jobs of a trace share it."""
    total: Counter[str] = Counter()
    for requests, count in asked:
        total.update({name: amount * count for name, amount in requests.items()})
    return Resources.from_milli(total)


def _longest(known: float | None, pod: Pod, annotation: str) -> float | None:
    """Return the longer one of a time and that of an annotation; a malformed one is none."""
    text = pod.annotations.get(annotation)
    try:
        seconds = None if text is None else parse_seconds(text, field=annotation)
    except InvalidValueError:
        return known
    return max((each for each in (known, seconds) if each is not None), default=None)


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
        finished_at: When its last pod finished; None before that.
        number: Its place among all jobs in the order in which they became known.
        namespace: The namespace of its pods.
        size: The largest number of pods that it had at one time.
        priority: The priority of its first pod.
        nodes: The nodes that its pods were bound to, each with the number of binds.
        last_started_at: When its present or last run began; see ``JobRow``.
        is_interrupted: Whether all its running pods were lost, and none is bound again.
        working_since: When the work of each bound member began.
        asked: What its pods request, each with the number of pods, when it had the most of them.
        run_seconds: The longest run time of its pods; None without an end.
        time_limit: The longest time limit of its pods; None without one.
        parents: The parent of each group, which all jobs of a run share.
    """

    key: str
    is_gang: bool
    kind: str = "pod"
    number: int = 0
    namespace: str = ""
    claimed_min: int | None = None
    spec: PodGroup | None = None
    members: dict[PodUID, Pod] = field(factory=dict[PodUID, Pod])
    roles: dict[PodUID, str] = field(factory=dict[PodUID, str])
    holding: set[PodUID] = field(factory=set[PodUID])
    bound: set[PodUID] = field(factory=set[PodUID])
    finished: set[PodUID] = field(factory=set[PodUID])
    submitted_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    size: int = 0
    priority: int = 0
    nodes: dict[NodeName, int] = field(factory=dict[NodeName, int])
    last_started_at: float | None = None
    is_interrupted: bool = False
    working_since: dict[PodUID, float] = field(factory=dict[PodUID, float])
    asked: dict[Resources, int] = field(factory=dict[Resources, int])
    run_seconds: float | None = None
    time_limit: float | None = None
    parents: Mapping[str, GroupKey] = field(factory=dict[str, GroupKey])
    _annotations: object = None

    def grow(self, pod: Pod) -> None:
        """Record a member with which it has more pods than ever. O(1) for pods that are alike."""
        self.size = len(self.members)
        self.asked[pod.requests] = self.asked.get(pod.requests, 0) + 1
        if pod.annotations is not self._annotations:  # the pods of a trace share them
            self._annotations = pod.annotations
            self.run_seconds = _longest(self.run_seconds, pod, RUN_SECONDS)
            self.time_limit = _longest(self.time_limit, pod, TIME_LIMIT)

    def row(self) -> JobRow:
        """Return the job as it is now."""
        spec_priority = None if self.spec is None else self.spec.priority
        counts = tuple(self.nodes.values())
        return JobRow(
            key=self.key,
            namespace=self.namespace,
            is_gang=self.is_gang,
            size=self.size,
            members=len(self.members),
            quorum=self.quorum,
            priority=self.priority if spec_priority is None else spec_priority,
            submitted_at=self.submitted_at,
            started_at=self.started_at,
            finished_at=self.finished_at,
            is_partial=self.is_partial,
            is_finished=self.is_finished,
            nodes=tuple(self.nodes),
            pods_per_node=_ONE if counts == _ONE else counts,
            last_started_at=self.last_started_at,
            requests=_total(tuple(self.asked.items())),
            run_seconds=self.run_seconds,
            time_limit=self.time_limit,
            above=self._above(),
        )

    def _above(self) -> tuple[GroupKey, ...]:
        found: list[GroupKey] = []
        parent = self.parents.get(self.key) if self.kind == "group" else None
        while parent is not None and parent not in found:
            found.append(parent)
            parent = self.parents.get(parent)
        return tuple(reversed(found))

    @property
    def quorum(self) -> int | None:
        """How many members must be bound for the work to begin; None if it is not known yet."""
        return self.claimed_min if self.spec is None else self.spec.min_available

    def has_quorum(self, of: Collection[PodUID]) -> bool:
        """Return whether some of the members are a quorum. O(members) if roles have minima."""
        quorum = self.quorum
        if quorum is None or len(of) < quorum:
            return False
        spec = self.spec
        if spec is None:
            return True
        pods = [(self.roles.get(uid), self.members[uid]) for uid in of]
        roles = [spec.path_of(role, pod.labels, pod.name) for role, pod in pods]
        return is_quorum(
            tree_of(quorum, spec.with_copies_of(roles).roles, None, spec.topology), roles
        )

    @property
    def is_partial(self) -> bool:
        """Whether members are bound although the work has not begun."""
        return self.started_at is None and bool(self.bound)

    @property
    def is_finished(self) -> bool:
        """Whether the work has begun and every member has finished."""
        return self.started_at is not None and len(self.finished) >= len(self.members)

    @property
    def is_over(self) -> bool:
        """Whether every member has finished, and was deleted."""
        return self.finished_at is not None and not self.members


@final
class Jobs:
    """The jobs of a run, and what they hold."""

    def __init__(self) -> None:
        self._jobs: dict[tuple[str, str], Job] = {}
        self._of: dict[PodUID, Job] = {}
        self._past: list[tuple[int, JobRow]] = []
        self._parents: dict[str, GroupKey] = {}
        self._numbers = 0
        self.idle: Account = Account()
        """The resources that jobs hold whose work has not begun."""
        self.used: Account = Account()
        """The resources that jobs hold whose work has begun."""
        self.preempted = 0
        """How many pods were evicted by preemption."""
        self.last_submitted_at: float | None = None
        """When a job was complete for the first time, the last of all so far."""
        self.lost: dict[str, float] = {}
        """The units times seconds that pods worked which were lost before they finished."""

    def add_pod(self, pod: Pod, *, now: float) -> None:
        """Record a pod, or a new version of it."""
        known = self._of.get(pod.uid)
        if known is not None:
            before = known.members[pod.uid]
            known.members[pod.uid] = pod
            # most versions share their requests; then nothing needs to be compared
            if before.requests is pod.requests or before.requests == pod.requests:
                return
            if pod.uid in known.holding:
                account = self._account(known)
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
        if not job.size:
            job.priority, job.namespace = pod.priority, pod.namespace
        job.members[pod.uid] = pod
        if len(job.members) > job.size:
            job.grow(pod)
        job.finished_at = None
        self._of[pod.uid] = job
        self._note_completeness(job, now)

    def add_group(self, group: PodGroup, *, now: float) -> None:
        """Record a group's specification."""
        self._parents.pop(group.key, None)
        if group.parent is not None:
            self._parents[group.key] = group.parent
        if group.min_groups is not None:
            self.remove_group(group.key)
            return
        job = self._job("group", group.key, is_gang=True)
        job.spec, job.namespace = group, group.namespace
        self._note_completeness(job, now)

    def remove_group(self, key: GroupKey) -> None:
        """Remove a group's specification."""
        job = self._jobs.get(("group", key))
        if job is not None:
            job.spec = None
            self._forget_if_empty(job)

    def hold(self, uid: PodUID, *, now: float) -> bool:
        """Record that a pod holds a node; return whether it held none before. O(resources)."""
        job = self._of.get(uid)
        if job is None or uid in job.holding:
            return False
        job.holding.add(uid)
        self._account(job).add(job.members[uid].requests, now=now)
        return True

    def give_back(self, uid: PodUID, *, now: float) -> None:
        """Record that a pod no longer holds a node. O(resources)."""
        job = self._of.get(uid)
        if job is not None and uid in job.holding:
            job.holding.discard(uid)
            job.bound.discard(uid)
            job.working_since.pop(uid, None)
            self._account(job).subtract(job.members[uid].requests, now=now)

    def bind(self, uid: PodUID, *, now: float) -> list[PodUID]:
        """Record that a pod is bound; return the pods whose work begins with that."""
        job = self._of[uid]
        self.hold(uid, now=now)
        if uid in job.bound:
            return []
        job.bound.add(uid)
        node = job.members[uid].node_name
        if node is not None:
            job.nodes[node] = job.nodes.get(node, 0) + 1
        if job.started_at is not None:
            job.working_since[uid] = now
            if job.is_interrupted:
                job.is_interrupted, job.last_started_at = False, now
            return [uid]
        if not job.has_quorum(job.bound):
            return []
        job.started_at = job.last_started_at = now
        job.working_since.update(dict.fromkeys(job.bound, now))
        for member in job.holding:
            held = job.members[member].requests
            self.idle.subtract(held, now=now)
            self.used.add(held, now=now)
        return [member for member in job.members if member in job.bound]

    def finish(self, uid: PodUID, *, now: float) -> None:
        """Record that a pod has finished."""
        self.give_back(uid, now=now)
        job = self._of[uid]
        if uid not in job.finished:
            job.finished.add(uid)
            if job.is_finished:
                job.finished_at = now

    def remove_pod(self, uid: PodUID, *, now: float) -> None:
        """Remove a pod that was deleted."""
        job = self._of.get(uid)
        if job is None:
            return
        pod, since = job.members[uid], job.working_since.get(uid)
        if since is not None:
            self._note_lost(pod, now - since)
        self.give_back(uid, now=now)
        has_failed = pod.phase is PodPhase.FAILED
        if (since is not None or has_failed) and job.started_at is not None and not job.bound:
            job.is_interrupted = True
        job.finished.discard(uid)
        job.roles.pop(uid, None)
        del self._of[uid], job.members[uid]
        self._forget_if_empty(job)

    def _note_lost(self, pod: Pod, seconds: float) -> None:
        """Count the work of a pod that was lost before it finished. O(resources)."""
        for name, amount in pod.requests.items():
            if amount and seconds:
                self.lost[name] = self.lost.get(name, 0.0) + amount * seconds / MILLI

    def hold_nodes(self) -> bool:
        """Return whether any job holds a resource. O(resources)."""
        return any(any(account.amounts().values()) for account in (self.idle, self.used))

    def of(self, uid: PodUID) -> Job | None:
        """Return the job of a pod; None for an unknown pod."""
        return self._of.get(uid)

    def named(self, key: str) -> Job | None:
        """Return the job with a key: a group, else a controller's job, else a regular pod. O(1)."""
        kinds = ((kind, key) for kind in ("group", "job", "pod"))
        return next((self._jobs[each] for each in kinds if each in self._jobs), None)

    def is_past(self, key: str) -> bool:
        """Return whether a job is over and has no pods any more. O(jobs)."""
        return any(row.key == key for _number, row in self._past)

    def end(self, job: Job) -> None:
        """Record that a job without pods is over: nothing continues it. It keeps its row."""
        if self._jobs.get((job.kind, job.key)) is job and not job.members and job.spec is None:
            self._past.append((job.number, job.row()))
            del self._jobs[job.kind, job.key]

    def __iter__(self) -> Iterator[Job]:
        """Iterate over the jobs in the order in which they became known."""
        return iter(self._jobs.values())

    def __len__(self) -> int:
        return len(self._jobs)

    def rows(self) -> list[JobRow]:
        """Return every job, also those that are over, in the order in which they became known.

        Runtime complexity: O(jobs log jobs).
        """
        numbered = [*self._past, *((job.number, job.row()) for job in self)]
        return [row for _number, row in sorted(numbered, key=lambda each: each[0])]

    def _job(self, kind: str, key: str, *, is_gang: bool) -> Job:
        # The kind is part of the key: a group, a controller's job and a pod may have one name.
        job = self._jobs.get((kind, key))
        if job is None:
            job = self._jobs[kind, key] = Job(
                key, is_gang, kind, self._numbers, parents=self._parents
            )
            self._numbers += 1
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
        """Remove a job that was withdrawn before its work began, or that is over (I4)."""
        if job.members or job.spec is not None:
            return
        if job.finished_at is not None:
            self._past.append((job.number, job.row()))
        elif job.started_at is not None:
            return  # its pods were evicted: those that replace them continue the job
        del self._jobs[job.kind, job.key]

    def _account(self, job: Job) -> Account:
        return self.idle if job.started_at is None else self.used

    def _note_completeness(self, job: Job, now: float) -> None:
        if job.submitted_at is None and job.has_quorum(job.members):
            job.submitted_at = self.last_submitted_at = now

    def _check(self) -> None:
        for job in self:
            if not job.bound <= job.holding <= job.members.keys():
                raise InternalError(f"job {job.key}: a bound member does not hold its requests")
            if job.working_since.keys() != (set() if job.started_at is None else job.bound):
                raise InternalError(f"job {job.key}: not its bound members work")
            if job.started_at is None and job.has_quorum(job.bound):
                raise InternalError(f"job {job.key} has its quorum and has not begun")
            for uid in job.members:
                if self._of[uid] is not job:
                    raise InternalError(f"{uid} is in two jobs")
