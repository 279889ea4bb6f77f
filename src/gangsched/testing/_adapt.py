"""``adapt``: test a gangsched ``Scheduler`` with the kit, with all faults and features.

Rules:
  R1  the cluster state shows a change before the scheduler is notified; while events are
      delayed, long before;
  R2  a bind is in flight until the kit reports it. The kit sees its pod as placed meanwhile;
  R3  an evicted pod is recreated under another UID, as its controller would do. The kit keeps
      its first UID;
  R4  pods may have further labels, which are no labels of a group.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, final

from attrs import evolve

from gangsched.coscheduling import WhenBindFails
from gangsched.events import (
    Bind,
    BindFailed,
    Bound,
    Effect,
    Event,
    Evict,
    NodeAdded,
    NodeDeleted,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
)
from gangsched.memory import InMemoryCluster
from gangsched.model import Node, NodeName, Pod, PodUID, Taint
from gangsched.protocols import ClusterState
from gangsched.resources import EMPTY
from gangsched.scheduler import Scheduler
from gangsched.testing._convert import key_of, parent_of, pod_of, spec_of
from gangsched.testing._plain_parent import PlainParent
from gangsched.testing._plain_pod import FEATURES, PlainPod

__all__ = ["GangschedAdapter", "adapt"]

_MAX_DECISIONS = 100_000


def _no_labels(pod: PlainPod) -> Mapping[str, str]:
    return EMPTY


def adapt(
    make: Callable[[ClusterState], Scheduler],
    *,
    duplicate_events: bool = False,
    labels: Callable[[PlainPod], Mapping[str, str]] = _no_labels,
) -> Callable[[], GangschedAdapter]:
    """Return a factory of adapters for schedulers of gangsched, as ``check_scheduler`` takes it.

    Use it to check a changed profile, or plugins of your own::

        check_scheduler(adapt(presets.coscheduling))

    Pods request the ``resources`` of the ``SchedulerSpec``: only ``gpu``, which is not
    ``nvidia.com/gpu``, by default. So name there what your plugins read.

    Args:
        make: Returns a scheduler over a cluster state.
        duplicate_events: Whether each event is passed to the scheduler twice.
        labels: Returns the labels of a pod that your plugins read, such as a tenant. The same for
            equal pods, since test cases are repeated.
    """
    return lambda: GangschedAdapter(make, duplicate_events=duplicate_events, labels=labels)


@final
class GangschedAdapter:
    """The adapter of a gangsched scheduler, with all optional methods and features."""

    features = FEATURES

    def __init__(
        self,
        make: Callable[[ClusterState], Scheduler],
        *,
        duplicate_events: bool = False,
        labels: Callable[[PlainPod], Mapping[str, str]] = _no_labels,
    ) -> None:
        self.now: float = 0.0
        self.cluster: InMemoryCluster = InMemoryCluster()
        self.scheduler: Scheduler = make(self.cluster)
        self._make = make
        self._labels = labels
        self._times = 2 if duplicate_events else 1
        self._binds: dict[PodUID, Bind] = {}
        self._uids: dict[str, PodUID] = {}
        self._kit_uids: dict[PodUID, str] = {}
        self._undelivered: deque[Event] | None = None
        self._saved: str | None = None
        self._decisions = 0
        self._recreated = 0

    # The contract ---------------------------------------------------------------------------

    def add_node(
        self,
        name: str,
        capacity: Mapping[str, int],
        *,
        labels: Mapping[str, str] = EMPTY,
        taints: Collection[str] = (),
    ) -> None:
        """Add a node."""
        node = Node(
            name=NodeName(name),
            allocatable=dict(capacity),
            labels=dict(labels),
            taints=tuple(Taint(taint) for taint in taints),
        )
        self._apply(NodeAdded(node))

    def remove_node(self, name: str) -> None:
        """Remove a node."""
        self._apply(NodeDeleted(NodeName(name)))

    def submit(self, pod: PlainPod) -> None:
        """Add a pending pod."""
        spec = spec_of(pod)
        if spec is not None and self.cluster.pod_group(spec.key) is None:
            self._apply(PodGroupAdded(spec))
        self._add(pod.uid, pod_of(pod, created_at=self.now, labels=self._labels(pod)))

    def put_parent(self, parent: PlainParent) -> None:
        """Add a group of groups, or change it."""
        self._apply(PodGroupAdded(parent_of(parent)))

    def remove_parent(self, name: str) -> None:
        """Remove a group of groups."""
        self._apply(PodGroupDeleted(key_of(name)))

    def cancel(self, uid: str) -> None:
        """Remove a pod."""
        real = self._uids.pop(uid)
        self._binds.pop(real, None)
        self._apply(PodDeleted(real))

    def tick(self, seconds: float) -> None:
        """Let time pass, and make all decisions that are due."""
        end = self.now + seconds
        while True:
            self._decide()
            due = self.scheduler.next_deadline()
            if due is None or due > end:
                break
            self._advance(max(due, self.now))
        self._advance(end)
        self._decide()

    def schedule_one(self) -> None:
        """Make the next decision, if any."""
        effects = self.scheduler.schedule_one(now=self.now)
        if effects is not None:
            self._decisions += 1
            self._perform(effects)

    def placements(self) -> Mapping[str, str]:
        """Return the nodes of pods that are bound, or whose bind is in flight."""
        placed: dict[str, str] = {}
        for uid, real in self._uids.items():
            pod, bind = self.cluster.pod(real), self._binds.get(real)
            if bind is not None:
                placed[uid] = bind.node
            elif pod is not None and pod.node_name is not None:
                placed[uid] = pod.node_name
        return placed

    def waiting_pods(self) -> Mapping[str, tuple[str, int]]:
        """Return the pods that wait on permit."""
        return {self._kit_uids[w.uid]: (w.node, w.attempt) for w in self.scheduler.waiting}

    def bind_succeeded(self, uid: str) -> None:
        """Report that a bind succeeded."""
        bind = self._binds.pop(self._uids[uid])
        self._apply(Bound(bind.uid, bind.node, bind.attempt))

    def bind_failed(self, uid: str) -> None:
        """Report that a bind failed."""
        bind = self._binds.pop(self._uids[uid])
        self._apply(BindFailed(bind.uid, bind.attempt, "reported by the kit"))

    def restart(self) -> None:
        """Start another scheduler, which knows only what the cluster state shows."""
        for bind in self._binds.values():
            self.cluster.apply(Bound(bind.uid, bind.node, bind.attempt))
        self._binds.clear()
        self._undelivered = None
        self.scheduler = self._make(self.cluster)
        self._advance(self.now)

    def stop(self) -> None:
        """Save a snapshot of the scheduler, which sees nothing from now on."""
        self._saved = json.dumps(self.scheduler.snapshot(), allow_nan=False)
        self._undelivered = None

    def start(self, seconds: float) -> None:
        """Restore another scheduler from the snapshot, and let it read what has changed."""
        saved, self._saved = self._saved, None
        self.now += seconds
        self.scheduler = self._make(self.cluster)
        self.scheduler.restore(json.loads(saved or ""))
        self._perform(self.scheduler.rebuild(now=self.now))

    def delay_events(self, delayed: bool) -> None:
        """Hold events back from now on, or deliver all that were held back."""
        if delayed:
            self._undelivered = deque() if self._undelivered is None else self._undelivered
            return
        undelivered, self._undelivered = self._undelivered or (), None
        for event in undelivered:
            self._deliver(event)

    def decision_count(self) -> int:
        """Return the number of decisions."""
        return self._decisions

    @property
    def may_evict(self) -> bool:
        """Whether the scheduler preempts, or evicts a gang whose bind has failed."""
        scheduler: Any = self.scheduler
        plugins = scheduler._state.settings.profile.plugins
        how = [getattr(plugin, "when_bind_fails", None) for plugin in plugins]
        return scheduler.can_evict or WhenBindFails.RELEASE_GROUP in how

    # Inside ---------------------------------------------------------------------------------

    def _add(self, uid: str, pod: Pod) -> None:
        self._uids[uid] = pod.uid
        self._kit_uids[pod.uid] = uid
        self._apply(PodAdded(pod))

    def _apply(self, event: Event) -> None:
        self.cluster.apply(event)
        if self._saved is not None:
            return
        if self._undelivered is None:
            self._deliver(event)
        else:
            self._undelivered.append(event)

    def _deliver(self, event: Event) -> None:
        for _ in range(self._times):
            self._perform(self.scheduler.handle(event, now=self.now))

    def _advance(self, now: float) -> None:
        self.now = now
        self._perform(self.scheduler.advance(now=now))

    def _decide(self) -> None:
        for _ in range(_MAX_DECISIONS):
            effects = self.scheduler.schedule_one(now=self.now)
            if effects is None:
                return
            self._decisions += 1
            self._perform(effects)
        raise RuntimeError(f"{_MAX_DECISIONS} decisions at {self.now:g} s, and still more to make")

    def _perform(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Bind):
                if self.cluster.pod(effect.uid) is None:
                    gone = BindFailed(effect.uid, effect.attempt, "the pod is gone")
                    self._deliver(gone)
                else:
                    self._binds[effect.uid] = effect
            elif isinstance(effect, Evict):
                self._recreate(effect.uid)

    def _recreate(self, real: PodUID) -> None:
        pod = self.cluster.pod(real)
        if pod is None:
            return
        self._recreated += 1
        uid = self._kit_uids[real]
        self._binds.pop(real, None)
        self._apply(PodDeleted(real))
        fresh = PodUID(f"{uid}+{self._recreated}")
        self._add(uid, evolve(pod, uid=fresh, node_name=None, created_at=self.now))
