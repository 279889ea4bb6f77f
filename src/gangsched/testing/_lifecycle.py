"""Laws of restarts and quotas, as observers of a run.

A law is an observer of a ``Simulator``. It sees what the scheduler is told and what it decides, and
compares that with the cluster. So it holds for any plugins and any configuration.

Laws of restarts:
  R1  no member is bound while a pod is on a node that was there when its group was restarted. A pod
      that has been terminating for as long as the longest backoff of the policy is left out. Of a
      copy that is restarted alone, R1 to R4 are about its own members;
  R2  no member is bound before the backoff of the restart is over;
  R3  restarts are counted one by one, up to the limit of the policy and not beyond;
  R4  the members that are left are evicted.

Laws of quotas, which are about ``hard``. A regular pod is like a group of one. A quota counts what
is in its namespaces, what names it as its queue, and what the quotas below it count:
  Q1  the groups that have started never have more than a quota allows. Of each its
      ``min_resources`` count, or else the least that its minimum of members requests;
  Q2  no group waits for a quota that has enough left. What is left is underestimated: all groups
      that are not refused count with the most that they requested, whether they are charged or not.
      A group in a queue with ``nominal`` is left out: its queue may lack what it could borrow;
  Q3  no pod is bound that makes pods hold more than a quota allows. All of them count that are on
      nodes or being bound, elastic and terminating ones included.

R4 and Q1 to Q3 depend on what the scheduler knows: it cannot count a pod whose bind it does not
know of. So they hold where no event and no answer is lost or late.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias, final

from gangsched.errors import InvalidValueError
from gangsched.events import (
    Bind,
    BindFailed,
    Effect,
    Event,
    Evict,
    GroupBound,
    GroupRemoved,
    GroupRestarted,
    GroupScheduled,
    PodGroupDeleted,
)
from gangsched.explain import NotAdmitted, Why
from gangsched.membership import membership
from gangsched.model import GroupKey, Pod, PodUID, Resources, RestartPolicy
from gangsched.options.quota import EXCEEDED, Quota
from gangsched.primitives.gang_tree import group_tree
from gangsched.protocols import ClusterState
from gangsched.resources import NOTHING
from gangsched.values.seconds import format_instant

__all__ = ["QuotaLaw", "RestartLaw"]

_Part: TypeAlias = tuple[GroupKey, str]
"""A group, and the path of a copy in it; ``""`` for the group itself."""
_Owner: TypeAlias = str
"""What a quota counts: the key of a group, or ``pod:`` and the UID of a regular pod."""
_REGULAR = "pod:"

_WATCHED = "a run; call watch before it begins"


class _Asked(Protocol):
    def why(self, subject: str, *, budget: int) -> Why: ...


class _Run(Protocol):
    """A run that can be watched, such as a ``Simulator``."""

    @property
    def cluster(self) -> ClusterState: ...
    @property
    def scheduler(self) -> _Asked: ...


@final
class RestartLaw:
    """Checks the laws of restarts while a workload is run.

    Pass it to the simulator as an observer, and call ``watch`` before the run.

    Args:
        with_faults: Whether events or answers may be lost or late; then R4 is not checked.
    """

    def __init__(self, *, with_faults: bool = False) -> None:
        self._with_faults = with_faults
        self._run: _Run | None = None
        self._old: dict[_Part, set[PodUID]] = {}
        self._last: dict[_Part, GroupRestarted] = {}
        self._evicted: set[PodUID] = set()

    def watch(self, run: _Run) -> None:
        """Compare what is decided with the cluster of a run."""
        self._run = run

    def event(self, event: Event, now: float) -> None:
        """Forget the restarts of a group that is deleted."""
        if isinstance(event, PodGroupDeleted):
            self._forget(event.key)

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        """Check the effects of one call.

        Raises:
            AssertionError: They break R1, R2 or R3.
        """
        for effect in effects:
            match effect:
                case GroupRestarted():
                    self._restarted(effect)
                case Bind(uid):
                    self._bind(uid, now)
                case Evict(uid):
                    self._evicted.add(uid)
                case _:
                    pass

    def settled(self, now: float) -> None:
        """Check that what is left of restarted groups was evicted.

        Raises:
            AssertionError: R4 is broken.
        """
        if self._with_faults:
            return
        for part, old in self._old.items():
            left = sorted((old & _on_nodes(self._cluster, *part)) - self._evicted)
            if left:
                raise AssertionError(f"{_named(part)} is restarted, and {left[0]} is not evicted")

    @property
    def _cluster(self) -> ClusterState:
        if self._run is None:
            raise InvalidValueError("run", None, _WATCHED)
        return self._run.cluster

    def _forget(self, key: GroupKey) -> None:
        for part in [part for part in self._last if part[0] == key]:
            del self._last[part], self._old[part]

    def _restarted(self, notice: GroupRestarted) -> None:
        part = notice.group, notice.path
        last = self._last.get(part)
        if last is not None and notice.restarts != last.restarts + 1:
            raise AssertionError(
                f"restart {notice.restarts} of {_named(part)} follows restart {last.restarts}"
            )
        if not 1 <= notice.restarts <= notice.limit:
            raise AssertionError(
                f"restart {notice.restarts} of {_named(part)} is not between 1 and its limit of"
                f" {notice.limit}"
            )
        if not notice.path:
            self._forget(notice.group)  # its copies begin anew
        self._last[part] = notice
        self._old[part] = _on_nodes(self._cluster, *part)

    def _bind(self, uid: PodUID, now: float) -> None:
        pod = self._cluster.pod(uid)
        for part in () if pod is None else _parts(pod):
            if part in self._last:
                self._check_bind(uid, part, now)

    def _check_bind(self, uid: PodUID, part: _Part, now: float) -> None:
        until = self._last[part].until
        if now < until:
            raise AssertionError(
                f"{uid} is bound at {format_instant(now)}, and {_named(part)} backs off until"
                f" {format_instant(until)}"
            )
        left = sorted(
            each
            for each in self._old[part] & _on_nodes(self._cluster, *part)
            if not self._is_stuck(part, each, until, now)
        )
        if left:
            raise AssertionError(
                f"{uid} is bound beside {left[0]}, which was there before {_named(part)} was"
                " restarted"
            )

    def _is_stuck(self, part: _Part, uid: PodUID, until: float, now: float) -> bool:
        """Return whether an old pod has been terminating for so long that it is given up."""
        key, path = part
        pod, group = self._cluster.pod(uid), self._cluster.pod_group(key)
        found = None if group is None else group_tree(key, group, None).restarted.get(path)
        policy = found or (None if group is None else group.restart) or RestartPolicy()
        deleted_at = None if pod is None else pod.deleted_at
        since = until if deleted_at is None else deleted_at
        is_ending = deleted_at is not None or uid in self._evicted
        return is_ending and now >= since + policy.longest_backoff


@final
class QuotaLaw:
    """Checks the laws of quotas, which are about ``hard``, while a workload is run.

    Pass it to the simulator as an observer, and call ``watch`` before the run. No event and no
    answer may be lost or late. The requests of the members of a group must not change between its
    admission and its start. If the scheduler is replaced meanwhile, groups state ``min_resources``.

    Args:
        quotas: The quotas of the scheduler.
    """

    def __init__(self, quotas: Iterable[Quota]) -> None:
        self._quotas = tuple(quotas)
        self._run: _Run | None = None
        self._started: dict[GroupKey, Resources] = {}
        self._most: dict[_Owner, Resources] = {}
        self._counted: dict[_Owner, frozenset[str]] = {}
        self._restarting: set[GroupKey] = set()
        self._binding: dict[PodUID, None] = {}

    def watch(self, run: _Run) -> None:
        """Compare what is decided with the cluster of a run."""
        self._run = run

    def event(self, event: Event, now: float) -> None:
        """Note that a bind has failed; the cluster shows everything else."""
        if isinstance(event, BindFailed):
            self._binding.pop(event.uid, None)

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        """Note which groups start, and which are restarted; check the binds.

        Runtime complexity: O(pods) for each quota.

        Raises:
            AssertionError: Q3 is broken.
        """
        binds = [effect.uid for effect in effects if isinstance(effect, Bind)]
        if binds:
            self._check_binds(binds)
        for effect in effects:
            match effect:
                case GroupScheduled():
                    self._started[effect.group] = self._least(effect.group)
                case GroupRestarted():
                    if not effect.path:
                        self._restarting.add(effect.group)
                case GroupBound():
                    self._restarting.discard(effect.group)
                case GroupRemoved():
                    self._forget(effect.group)
                case _:
                    pass

    def settled(self, now: float) -> None:
        """Check every quota.

        Raises:
            AssertionError: Q1 or Q2 is broken.
        """
        self._binding.clear()  # no answer is late
        owners: dict[_Owner, list[Pod]] = {}
        for pod in self._cluster.pods():
            if not pod.is_finished:
                owners.setdefault(_owner_of(pod), []).append(pod)
        for key, pods in owners.items():
            self._most[key] = _larger(self._most.get(key, NOTHING), self._needed(key, pods))
            self._count(key, pods)
        for quota in self._quotas:
            shared = {key: pods for key, pods in owners.items() if self._shares(quota, key)}
            self._check_started(quota, shared)
        self._check_waits(owners, now)

    # Inside ---------------------------------------------------------------------------------

    def _check_started(self, quota: Quota, owners: Mapping[_Owner, Sequence[Pod]]) -> None:
        """Check Q1."""
        running = [
            key
            for key, pods in owners.items()
            if key in self._started and any(pod.node_name is not None for pod in pods)
        ]
        over = _exceeded(quota, [self._started[GroupKey(key)] for key in running])
        if over:
            raise AssertionError(
                f"quota {quota.name} is exceeded: {', '.join(running)} have {over}"
            )

    def _check_binds(self, binds: Sequence[PodUID]) -> None:
        """Check Q3."""
        self._binding.update(dict.fromkeys(binds))
        held: dict[_Owner, list[Resources]] = {}
        bound: set[_Owner] = set()
        for pod in self._cluster.pods():
            key = _owner_of(pod)
            is_held = pod.node_name is not None or pod.uid in self._binding
            if pod.is_finished or not is_held:
                continue
            self._count(key, [pod])
            held.setdefault(key, []).append(pod.requests)
            if pod.uid in binds:
                bound.add(key)
        for quota in self._quotas:
            if not any(self._shares(quota, key) for key in bound):
                continue
            shared = [e for key, some in held.items() if self._shares(quota, key) for e in some]
            over = _exceeded(quota, shared)
            if over:
                raise AssertionError(
                    f"quota {quota.name} is exceeded by the bind of {', '.join(binds)}: {over}"
                )

    def _check_waits(self, owners: Mapping[_Owner, Sequence[Pod]], now: float) -> None:
        """Check Q2."""
        waiting = [key for key in owners if self._is_refused(key)]
        charged = {*owners, *self._restarting} - {*waiting}
        for key in waiting:
            spec = self._cluster.pod_group(GroupKey(key))
            quotas = [quota for quota in self._quotas if self._shares(quota, key)]
            if (spec is not None and spec.bundle) or any(q.nominal is not None for q in quotas):
                continue  # it is charged together with others, or may borrow
            for quota in quotas:
                others = [self._most.get(e, NOTHING) for e in charged if self._shares(quota, e)]
                if _exceeded(quota, [self._needed(key, owners[key]), *others]):
                    break
            else:
                named = key if key.startswith(_REGULAR) else f"group {key}"
                raise AssertionError(
                    f"{named} waits at {format_instant(now)} for a quota that has enough left"
                )

    def _is_refused(self, key: _Owner) -> bool:
        assert self._run is not None
        target = PodUID(key.removeprefix(_REGULAR)) if key.startswith(_REGULAR) else GroupKey(key)
        why = self._run.scheduler.why(target, budget=0)
        return isinstance(why, NotAdmitted) and why.reason.startswith(EXCEEDED)

    def _shares(self, quota: Quota, key: _Owner) -> bool:
        """Return whether a quota counts an owner; of one without pods, whether it did. O(1)."""
        return quota.name in self._counted.get(key, ())

    def _count(self, key: _Owner, pods: Sequence[Pod]) -> None:
        """Note which quotas count an owner with these pods."""
        by_name = {quota.name: quota for quota in self._quotas}
        namespace, queue = pods[0].namespace, self._queue_of(key, pods)
        names = [queue] if queue in by_name else list[str]()
        for quota in self._quotas:
            if namespace in quota.namespaces and not (quota.is_queue and queue is not None):
                names.append(quota.name)
        for name in names:  # which grows
            parent = by_name[name].parent
            if parent is not None and parent not in names:
                names.append(parent)
        self._counted[key] = frozenset(names)

    def _queue_of(self, key: _Owner, pods: Sequence[Pod]) -> str | None:
        """Return the queue that the root of a group names, else the group, else a member."""
        queue = min((pod.queue for pod in pods if pod.queue is not None), default=None)
        spec = self._cluster.pod_group(GroupKey(key))
        while spec is not None:
            queue = queue if spec.queue is None else spec.queue
            spec = None if spec.parent is None else self._cluster.pod_group(spec.parent)
        return queue

    def _least(self, key: GroupKey) -> Resources:
        """Return what a group is charged at least."""
        spec = self._cluster.pod_group(key)
        if spec is not None and spec.min_resources:
            return spec.min_resources
        pods = [pod for pod in self._cluster.pods() if _group_of(pod) == key]
        claim = membership(pods[0]) if pods else None
        claimed = None if claim is None else claim.min_available
        minimum = (claimed or 0) if spec is None else spec.min_available
        names = {name for pod in pods for name in pod.requests}
        least = {n: sorted(pod.requests.get(n, 0) for pod in pods)[:minimum] for n in names}
        return Resources.from_milli({name: sum(each) for name, each in least.items()})

    def _needed(self, key: _Owner, pods: Iterable[Pod]) -> Resources:
        """Return what a group with these pods is charged at most."""
        spec = self._cluster.pod_group(GroupKey(key))
        if spec is not None and spec.min_resources:
            return spec.min_resources
        return sum((pod.requests for pod in pods), NOTHING)

    def _forget(self, key: GroupKey) -> None:
        self._started.pop(key, None)
        self._most.pop(key, None)
        self._counted.pop(key, None)
        self._restarting.discard(key)

    @property
    def _cluster(self) -> ClusterState:
        if self._run is None:
            raise InvalidValueError("run", None, _WATCHED)
        return self._run.cluster


def _exceeded(quota: Quota, given: Sequence[Resources]) -> str:
    """Return which limit of a quota amounts exceed together; an empty string if none."""
    for name, limit in quota.hard.items():
        total = sum(amounts.get(name, 0) for amounts in given)
        if total > limit:
            found = Resources.from_milli({name: total}).quantity(name)
            return f"{name}={found} of {quota.hard.quantity(name)}"
    return ""


def _larger(one: Resources, other: Resources) -> Resources:
    names = {*one, *other}
    return Resources.from_milli({n: max(one.get(n, 0), other.get(n, 0)) for n in names})


def _group_of(pod: Pod) -> GroupKey | None:
    claim = membership(pod)
    return None if claim is None else claim.group


def _owner_of(pod: Pod) -> _Owner:
    return _group_of(pod) or f"{_REGULAR}{pod.uid}"


def _on_nodes(cluster: ClusterState, key: GroupKey, path: str = "") -> set[PodUID]:
    """Return the members of a group, or of a copy of it, that hold a node."""
    return {
        pod.uid
        for pod in cluster.pods()
        if pod.node_name is not None and not pod.is_finished and (key, path) in _parts(pod)
    }


def _parts(pod: Pod) -> list[_Part]:
    """Return the group of a pod, and all that the pod is a part of in it."""
    claim = membership(pod)
    if claim is None:
        return []
    names = [] if claim.role is None else claim.role.split("/")
    return [(claim.group, "/".join(names[:number])) for number in range(len(names) + 1)]


def _named(part: _Part) -> str:
    key, path = part
    return f"{path} of group {key}" if path else f"group {key}"
