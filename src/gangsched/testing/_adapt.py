"""``adapt``: a scheduler of gangsched as one under test, with its faults.

Rules:
  R1  a fact is true in the cluster state before it is told; while facts are told late, long before;
  R2  a bind is under way until it is reported; to the kit its pod is placed all the while;
  R3  who is evicted is made anew, as its controller would: under another UID, in its old place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import final

from attrs import evolve

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
)
from gangsched.framework import Scheduler
from gangsched.memory import InMemoryCluster
from gangsched.model import Node, NodeName, Pod, PodUID, Taint
from gangsched.protocols import ClusterState
from gangsched.resources import EMPTY
from gangsched.testing._nouns import pod_of, spec_of
from gangsched.testing._plain import FEATURES, PlainPod

__all__ = ["Adapted", "adapt"]

_TOO_MANY = 100_000


def adapt(
    make: Callable[[ClusterState], Scheduler], *, twice: bool = False
) -> Callable[[], Adapted]:
    """Return what makes a scheduler under test of one that *make* makes.

    For whoever changes a profile, or writes plugins of their own::

        check_scheduler(adapt(presets.coscheduling))

    Args:
        make: Makes a scheduler over a cluster state.
        twice: Whether each fact is told twice.
    """
    return lambda: Adapted(make, twice=twice)


@final
class Adapted:
    """A scheduler of gangsched behind the adapter, with every optional method and feature."""

    features = FEATURES

    def __init__(self, make: Callable[[ClusterState], Scheduler], *, twice: bool = False) -> None:
        self.now: float = 0.0
        self.cluster: InMemoryCluster = InMemoryCluster()
        self.scheduler: Scheduler = make(self.cluster)
        self._make = make
        self._times = 2 if twice else 1
        self._binds: dict[PodUID, Bind] = {}
        self._as: dict[str, PodUID] = {}
        self._from: dict[PodUID, str] = {}
        self._untold: deque[Event] | None = None
        self._decisions = 0
        self._made = 0

    # The contract ---------------------------------------------------------------------------

    def add_node(
        self,
        name: str,
        capacity: Mapping[str, int],
        *,
        labels: Mapping[str, str] = EMPTY,
        taints: Collection[str] = (),
    ) -> None:
        """Take in a node."""
        node = Node(
            name=NodeName(name),
            allocatable=dict(capacity),
            labels=dict(labels),
            taints=tuple(Taint(taint) for taint in taints),
        )
        self._tell(NodeAdded(node))

    def remove_node(self, name: str) -> None:
        """Take in that a node is gone."""
        self._tell(NodeDeleted(NodeName(name)))

    def submit(self, pod: PlainPod) -> None:
        """Take in a pod."""
        spec = spec_of(pod)
        if spec is not None and self.cluster.pod_group(spec.key) is None:
            self._tell(PodGroupAdded(spec))
        self._add(pod.uid, pod_of(pod, created_at=self.now))

    def cancel(self, uid: str) -> None:
        """Take in that a pod is gone."""
        real = self._as.pop(uid)
        self._binds.pop(real, None)
        self._tell(PodDeleted(real))

    def tick(self, seconds: float) -> None:
        """Let time pass, and decide all that is due."""
        end = self.now + seconds
        while True:
            self._decide()
            due = self.scheduler.next_deadline()
            if due is None or due > end:
                break
            self._advance(max(due, self.now))
        self._advance(end)
        self._decide()

    def decide_once(self) -> None:
        """Make one decision."""
        effects = self.scheduler.schedule_one(now=self.now)
        if effects is not None:
            self._decisions += 1
            self._perform(effects)

    def placements(self) -> Mapping[str, str]:
        """Return who is bound, or being bound."""
        placed: dict[str, str] = {}
        for uid, real in self._as.items():
            pod, bind = self.cluster.pod(real), self._binds.get(real)
            if bind is not None:
                placed[uid] = bind.node
            elif pod is not None and pod.node_name is not None:
                placed[uid] = pod.node_name
        return placed

    def held(self) -> Mapping[str, tuple[str, int]]:
        """Return who waits on permit."""
        return {self._from[w.uid]: (w.node, w.attempt) for w in self.scheduler.waiting}

    def bind_succeeded(self, uid: str) -> None:
        """Report a bind as done."""
        bind = self._binds.pop(self._as[uid])
        self._tell(Bound(bind.uid, bind.node, bind.attempt))

    def bind_failed(self, uid: str) -> None:
        """Report a bind as failed."""
        bind = self._binds.pop(self._as[uid])
        self._tell(BindFailed(bind.uid, bind.attempt, "the kit says so"))

    def restart(self) -> None:
        """Let another scheduler take over, that knows what the cluster state shows."""
        for bind in self._binds.values():
            self.cluster.apply(Bound(bind.uid, bind.node, bind.attempt))
        self._binds.clear()
        self._untold = None
        self.scheduler = self._make(self.cluster)
        self._advance(self.now)

    def lag(self, late: bool) -> None:
        """Tell facts late from now on, or all that were kept back."""
        if late:
            self._untold = deque() if self._untold is None else self._untold
            return
        untold, self._untold = self._untold or (), None
        for event in untold:
            self._hand_on(event)

    def work(self) -> int:
        """Return how many decisions were made."""
        return self._decisions

    # Inside ---------------------------------------------------------------------------------

    def _add(self, uid: str, pod: Pod) -> None:
        self._as[uid] = pod.uid
        self._from[pod.uid] = uid
        self._tell(PodAdded(pod))

    def _tell(self, event: Event) -> None:
        self.cluster.apply(event)
        if self._untold is None:
            self._hand_on(event)
        else:
            self._untold.append(event)

    def _hand_on(self, event: Event) -> None:
        for _ in range(self._times):
            self._perform(self.scheduler.handle(event, now=self.now))

    def _advance(self, now: float) -> None:
        self.now = now
        self._perform(self.scheduler.advance(now=now))

    def _decide(self) -> None:
        for _ in range(_TOO_MANY):
            effects = self.scheduler.schedule_one(now=self.now)
            if effects is None:
                return
            self._decisions += 1
            self._perform(effects)
        raise RuntimeError(f"still deciding at {self.now:g}, after {_TOO_MANY} decisions")

    def _perform(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Bind):
                if self.cluster.pod(effect.uid) is None:
                    gone = BindFailed(effect.uid, effect.attempt, "the pod is gone")
                    self._hand_on(gone)
                else:
                    self._binds[effect.uid] = effect
            elif isinstance(effect, Evict):
                self._make_anew(effect.uid)

    def _make_anew(self, real: PodUID) -> None:
        pod = self.cluster.pod(real)
        if pod is None:
            return
        self._made += 1
        uid = self._from[real]
        self._binds.pop(real, None)
        self._tell(PodDeleted(real))
        fresh = PodUID(f"{uid}+{self._made}")
        self._add(uid, evolve(pod, uid=fresh, node_name=None, created_at=self.now))
