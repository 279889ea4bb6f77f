"""Which pending jobs could not start on the empty cluster either.

Each is tried alone by a scheduler of whole gangs, on the nodes, volumes and other objects of the
simulated cluster: with its bundle, if it is in one.

Rules:
  R1  a job never fits only if that is certain. If it is incomplete, refused or held, or a search
      has ended without a proof, it may fit;
  R2  equal jobs are tried once. Claims and groups are compared by their names;
  R3  what pods of other jobs can satisfy is left out of the trial: required pod affinity, and
      topology spread. Other pods never help against the rest, such as pod anti-affinity;
  R4  so is what the scheduler of the run does not heed: without gangs, the topology and the bundle
      of a group.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, final

from attrs import astuple, evolve, fields

from gangsched import presets
from gangsched.cluster_objects import KINDS
from gangsched.errors import InvalidPodGroupError
from gangsched.events import (
    Bind,
    Event,
    NodeAdded,
    ObjectChanged,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodRefused,
)
from gangsched.explain import NoNodeFits, SearchBudgetExhausted
from gangsched.membership import membership
from gangsched.memory import InMemoryCluster
from gangsched.model import GroupKey, Pod, PodGroup, PodPhase
from gangsched.scheduler import Scheduler
from gangsched.simulation.jobs import Job

__all__ = ["is_scheduled_as_group", "never_fit"]

_OWN: Final = frozenset(
    (
        *("name", "uid", "labels", "annotations", "owners", "controller"),
        *("pod_group", "min_available", "role"),
    )
)
"""What may differ between equal jobs; groups, roles and selected labels are compared apart."""
_COMPARED: Final = tuple(each.name for each in fields(Pod) if each.name not in _OWN)


def never_fit(
    jobs: Iterable[Job], cluster: InMemoryCluster, scheduler: Scheduler
) -> dict[str, None]:
    """Return the keys of the pending, complete jobs that cannot start on the empty cluster.

    Runtime complexity: O(pods of these jobs), one trial for each class of equal jobs, and O(nodes).
    """
    groups = {job.key: job for job in jobs if job.kind == "group"}
    known: dict[Hashable, bool] = {}
    never: dict[str, None] = {}
    trial: _Trial | None = None
    for job in jobs:
        if job.started_at is not None or not _is_complete(job):
            continue
        together = [job]
        as_group = is_scheduled_as_group(job, scheduler)
        if as_group and job.spec is not None and job.spec.bundle:
            found = [groups.get(name) for name in job.spec.bundle if name != job.key]
            partners = [each for each in found if each is not None and _is_complete(each)]
            if len(partners) < len(found):
                continue
            together += partners
        kind = (as_group, *map(_equivalence_class, together))
        if kind not in known:
            trial = trial or _Trial(cluster)
            known[kind] = trial.certainly_fails(together, as_group=as_group)
        if known[kind]:
            never[job.key] = None
    return never


def _is_complete(job: Job) -> bool:
    return job.submitted_at is not None and bool(job.members)


def is_scheduled_as_group(job: Job, scheduler: Scheduler) -> bool:
    """Return whether a scheduler has the pods of a job as members of a group.

    A scheduler without gangs knows the groups that have been added, and no member of them.
    """
    info = scheduler.registry.get(GroupKey(job.key)) if job.kind == "group" else None
    return info is not None and bool(info.members)


def _equivalence_class(job: Job) -> Hashable:
    """Return a key that is equal for jobs that start alone under the same conditions."""
    counts: dict[Hashable, int] = {}
    for pod in map(_fresh, job.members.values()):
        try:
            claim = membership(pod)
            minimum = None if claim is None else claim.min_available
        except InvalidPodGroupError:
            minimum = -1
        needs = tuple(getattr(pod, name) for name in _COMPARED)
        labels = pod.labels if pod.pod_anti_affinity else None
        kind = (needs, labels, minimum, job.roles.get(pod.uid))
        counts[kind] = counts.get(kind, 0) + 1
    spec = None
    if job.spec is not None:
        spec = astuple(evolve(job.spec, name="-", created_at=0.0), recurse=False)
    return (job.kind, job.quorum, spec, frozenset(counts.items()))


@final
class _Trial:
    """An empty cluster, and a scheduler that tries one job after the other there."""

    def __init__(self, of: InMemoryCluster) -> None:
        self._cluster = InMemoryCluster()
        self._scheduler = presets.gang(self._cluster)
        self._tell(NodeAdded(node) for node in of.nodes())
        for kind in KINDS.values():
            self._tell(ObjectChanged(each) for each in of.objects.all(kind))

    def certainly_fails(self, jobs: list[Job], *, as_group: bool) -> bool:
        """Return whether some jobs, which start together, cannot start on the empty cluster."""
        groups = [_group(job, as_group=as_group) for job in jobs]
        pods = [_in(job, pod) for job in jobs for pod in job.members.values()]
        self._tell(PodGroupAdded(group) for group in groups if group is not None)
        self._tell(PodAdded(pod) for pod in pods)
        try:
            return self._fails(jobs[0], pods, groups[0])
        finally:
            self._tell(PodDeleted(pod.uid) for pod in pods)
            self._tell(PodGroupDeleted(group.key) for group in groups if group is not None)

    def _fails(self, job: Job, pods: list[Pod], group: PodGroup | None) -> bool:
        scheduler = self._scheduler
        while (effects := scheduler.schedule_one(now=0.0)) is not None:
            if any(isinstance(effect, Bind | PodRefused) for effect in effects):
                return False  # one with a refused pod may fit once its user has corrected that
        subject = GroupKey(job.key) if group is None else group.key
        is_group = subject in scheduler.registry
        why = scheduler.why(subject if is_group else pods[0], budget=0)
        if not isinstance(why, NoNodeFits):
            return False
        member = why.unschedulable_member
        if member is None or member.diagnosis is None:
            return True  # it requests more in total than there is
        if member.proof is None:
            return bool(member.diagnosis.reasons or member.diagnosis.refusal)
        return not isinstance(member.proof, SearchBudgetExhausted)

    def _tell(self, events: Iterable[Event]) -> None:
        for event in events:
            self._scheduler.handle(self._cluster.apply(event), now=0.0)


def _group(job: Job, *, as_group: bool) -> PodGroup | None:
    """Return the group of a job; for the pods of a controller, one that starts them together."""
    if job.spec is not None:
        fresh = evolve(job.spec, restarts=0, restarting_until=None, copy_restarts={})
        return fresh if as_group else evolve(fresh, topology=None, bundle=())
    if job.kind != "job":
        return None
    return PodGroup(name="job", namespace=job.namespace, min_available=job.quorum or 1)


def _in(job: Job, pod: Pod) -> Pod:
    """Return a pod as it was created, in the group that its job has in the trial."""
    return evolve(_fresh(pod), pod_group="job") if job.kind == "job" else _fresh(pod)


def _fresh(pod: Pod) -> Pod:
    """Return a pod as it was created, without what pods of other jobs can satisfy (R3)."""
    return evolve(
        pod,
        node_name=None,
        phase=PodPhase.PENDING,
        created_at=0.0,
        deleted_at=None,
        scheduling_gates=(),
        pod_affinity=(),
        topology_spread_constraints=(),
    )
