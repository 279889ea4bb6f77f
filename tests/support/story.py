"""A story: events in, decisions, and what runs afterwards, told through public calls only.

A story that is marked with ``each_way`` is run three times. Where it calls ``interrupt``, the
scheduler stays (*live*), is replaced by one that reads the cluster (*rebuilt*), or by one that is
restored from a snapshot that was written as JSON (*restored*). The expected outcome is the same.

Rules:
  R1  only public names of ``gangsched`` are used, so a story outlives the inside of the scheduler;
  R2  the host performs effects at once, unless the story holds binds or evictions back;
  R3  time passes from deadline to deadline, and a scheduler that does not come to rest at one
      instant fails the story.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

import pytest
from attrs import define, evolve, field

from gangsched import (
    Bind,
    BindFailed,
    Bound,
    ClusterState,
    CopyBound,
    Effect,
    Event,
    Evict,
    GroupBound,
    GroupKey,
    GroupRestarted,
    InMemoryCluster,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupUpdated,
    PodUID,
    PodUpdated,
    Quota,
    Scheduler,
)
from gangsched.testing import make_pod

__all__ = ["Story", "Way", "each_way"]

T = TypeVar("T")

_MANY: Final = 1_000
"""More calls at one instant, or deadlines without an event, than any story needs."""


class Way(enum.Enum):
    """What ``interrupt`` does."""

    LIVE = "live"
    REBUILT = "rebuilt"
    RESTORED = "restored"


each_way = pytest.mark.parametrize("way", list(Way), ids=[way.value for way in Way])


@define(eq=False)
class Story:
    """A cluster, its scheduler, and a host.

    Attributes:
        make: Creates a scheduler for the cluster.
        way: What ``interrupt`` does.
        holds_binds: Whether binds stay under way until ``finish_binds`` or ``fail_bind``.
        holds_evictions: Whether an evicted pod stays until the story deletes it; it is marked as
            terminating at once.
        recreates: Whether an evicted pod that is gone is created again, as by a Job.
        binds: The binds under way.
        effects: All effects, in order.
    """

    make: Callable[[ClusterState], Scheduler]
    way: Way = Way.LIVE
    holds_binds: bool = False
    holds_evictions: bool = False
    recreates: bool = False
    now: float = 0.0
    cluster: InMemoryCluster = field(factory=InMemoryCluster)
    binds: list[Bind] = field(factory=list)
    effects: list[Effect] = field(factory=list)
    scheduler: Scheduler = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.scheduler = self.make(self.cluster)

    # Events ---------------------------------------------------------------------------------

    def tell(self, *events: Event) -> None:
        """Apply events to the cluster, and handle each."""
        for event in events:
            self._perform(self.scheduler.handle(self.cluster.apply(event), now=self.now))

    def perform(self, *events: Event) -> None:
        """Handle events that the cluster shows already, in one call."""
        self._perform(self.scheduler.handle(*events, now=self.now))

    def set_quotas(self, *quotas: Quota) -> None:
        """Replace the quotas of the scheduler."""
        self._perform(self.scheduler.set_quotas(quotas, now=self.now))

    def add(self, *pods: Pod) -> None:
        """Add pods."""
        self.tell(*map(PodAdded, pods))

    def gang(self, name: str, size: int, **spec: Any) -> None:
        """Add the pods ``name-0`` to ``name-<size - 1>`` of a gang of that minimum, 1 CPU each."""
        given = {"group": name, "min_available": size, "cpu": 1, "created_at": self.now, **spec}
        self.add(*(make_pod(f"{name}-{number}", **given) for number in range(size)))

    def update(self, name: str, **changes: Any) -> None:
        """Change fields of a pod."""
        self.tell(PodUpdated(evolve(self.pod(name), **changes)))

    def delete(self, *names: str) -> None:
        """Delete pods at once."""
        self.tell(*(PodDeleted(self.pod(name).uid) for name in names))

    # Time and decisions -----------------------------------------------------------------------

    def cycle(self) -> None:
        """Run one scheduling cycle, if an entity is active."""
        self._perform(self.scheduler.schedule_one(now=self.now) or ())

    def decide(self) -> None:
        """Make all decisions at this instant."""
        for _ in range(_MANY):
            effects = self.scheduler.schedule_one(now=self.now)
            if effects is None:
                return
            self._perform(effects)
        raise AssertionError(f"schedule_one does not come to rest at {self.now:g}")

    def run(self, until: float) -> None:
        """Decide, and let time pass to an instant, from deadline to deadline."""
        for _ in range(_MANY):
            self.decide()
            due = self.scheduler.next_deadline()
            if due is None or due > until:
                break
            self.now = max(self.now, due)
            self._perform(self.scheduler.advance(now=self.now))
        else:
            raise AssertionError(f"{_MANY} deadlines without an event, up to {self.now:g}")
        self.now = max(self.now, until)
        self._perform(self.scheduler.advance(now=self.now))
        self.decide()

    def interrupt(self, *, lists: bool = False) -> None:
        """Replace the scheduler, or not, as ``way`` says.

        A rebuilt scheduler does not know of binds under way: they are lost with the one before.

        Args:
            lists: Whether ``rebuild`` is called then, since the cluster has changed meanwhile. The
                scheduler that stays has missed the events, too.
        """
        if self.way is Way.REBUILT:
            self.binds.clear()
        if self.way is not Way.LIVE:
            before, self.scheduler = self.scheduler, self.make(self.cluster)
            if self.way is Way.RESTORED:
                self.scheduler.restore(json.loads(json.dumps(before.snapshot())))
        if lists:
            self._perform(self.scheduler.rebuild(now=self.now))
        elif self.way is not Way.LIVE:
            self._perform(self.scheduler.advance(now=self.now))

    # The host -------------------------------------------------------------------------------

    def finish_binds(self) -> None:
        """Let all binds under way succeed."""
        while self.binds:
            self.finish_bind(self.binds[0])

    def finish_bind(self, bind: Bind) -> None:
        """Let one bind under way succeed."""
        self.binds.remove(bind)
        self._bind(bind)

    def fail_bind(self, name: str, reason: str = "disk full") -> None:
        """Let the bind of a pod fail."""
        (bind,) = (each for each in self.binds if each.uid == self.uid(name))
        self.binds.remove(bind)
        self.tell(BindFailed(bind.uid, bind.attempt, reason))

    def _perform(self, effects: tuple[Effect, ...]) -> None:
        self.effects += effects
        for effect in effects:
            if isinstance(effect, Bind):
                if effect not in self.binds:  # repeated after a restore, it is still one bind
                    self.binds.append(effect)
            elif isinstance(effect, Evict):
                self._evict(effect)
            elif isinstance(effect, GroupRestarted | CopyBound):
                self._keep(effect.group, effect.noted_in)
            elif isinstance(effect, GroupBound):
                self._keep(effect.group, partial(evolve, restarting_until=None))
        if not self.holds_binds:
            self.finish_binds()

    def _bind(self, bind: Bind) -> None:
        pod = self.cluster.pod(bind.uid)
        if pod is None or pod.node_name or pod.is_finished or pod.deleted_at is not None:
            self.tell(BindFailed(bind.uid, bind.attempt, "the pod cannot be bound"))
        else:
            self.tell(Bound(bind.uid, bind.node, bind.attempt))

    def _evict(self, evict: Evict) -> None:
        pod = self.cluster.pod(evict.uid)
        if pod is None:
            return
        if not self.holds_evictions:
            self.tell(PodDeleted(pod.uid))
            if self.recreates:
                uid = PodUID(f"{pod.uid}'")
                self.add(evolve(pod, uid=uid, node_name=None, created_at=self.now))
        elif pod.deleted_at is None:
            self.tell(PodUpdated(evolve(pod, deleted_at=self.now)))

    def _keep(self, key: GroupKey, noted_in: Callable[[PodGroup], PodGroup]) -> None:
        """Write the restarts of a group where a rebuilt scheduler finds them."""
        group = self.cluster.pod_group(key)
        changed = None if group is None else noted_in(group)
        if changed is not None and changed != group:
            self.tell(PodGroupUpdated(changed))

    # What is there --------------------------------------------------------------------------

    def uid(self, name: str) -> PodUID:
        """Return the UID of a pod of the default namespace, as ``make_pod`` makes it."""
        return PodUID(f"default/{name}")

    def pod(self, name: str) -> Pod:
        """Return a pod as the cluster shows it."""
        pod = self.cluster.pod(self.uid(name))
        assert pod is not None, f"there is no pod {name}"
        return pod

    @property
    def bound(self) -> dict[str, str]:
        """The node of each bound pod, by the pod's name."""
        return {pod.name: pod.node_name for pod in self.cluster.pods() if pod.node_name}

    def of(self, kind: type[T]) -> list[T]:
        """Return the effects of a class, in order."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    @property
    def evicted(self) -> list[str]:
        """The names of the evicted pods, in order."""
        return [evict.uid.partition("/")[2] for evict in self.of(Evict)]
