"""Binds that wait until the volumes of their gang are bound.

Theory of operation. A ``Bind`` may come with volumes that were chosen for the claims of its pod.
They are written to the API server, and then the volume controller, or a provisioner, binds the
claims. That takes seconds or minutes. A bind is posted only after that, and the binds of a gang
only after that for all of them. So a gang whose storage cannot be had is never partly on nodes.

This wrapper stands between the driver and the scheduler. It takes such binds out of the effects,
and returns them with the effects of the call after which they need not wait any longer. So a bind
that waits takes up no worker, and others pass it. A bind that cannot be made is reported to the
scheduler as failed, with all binds of its gang: nothing of the gang was posted yet.

Rules:
  R1  nothing here waits or writes: *write* queues the choices of a bind for a worker. A choice
      that could not be written comes back as ``BindFailed``, announced by ``refused``;
  R2  a bind need not wait any longer when its claims are bound and its node reaches their volumes;
  R3  a gang fails as one, if a claim, a volume, a pod or a node is gone, or after *timeout*
      seconds. It also fails if a choice that was seen has been taken back: a provisioner takes the
      selected node back to say that it has failed;
  R4  a member that is decided while its gang waits, waits with it.

Source: ``BindPodVolumes`` and ``checkBindings`` of kube-scheduler 1.36, which does this pod by pod.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from attrs import define, field

from gangsched.cluster_objects import PersistentVolume, PersistentVolumeClaim
from gangsched.drivers._contract import DrivenScheduler
from gangsched.events import (
    Bind,
    BindFailed,
    Effect,
    Event,
    NodeDeleted,
    ObjectChanged,
    ObjectDeleted,
    PodDeleted,
    VolumeChoice,
)
from gangsched.kubernetes._forwarded import ForwardedCalls
from gangsched.memory import InMemoryCluster
from gangsched.model import GroupKey, Pod, PodUID
from gangsched.values.seconds import format_duration

__all__ = ["WaitsForVolumes"]


class _Failed(Exception):
    """The volumes of a gang cannot be bound; the text says why."""


@define(eq=False)
class _Gang:
    """The binds that wait for each other: those of a gang, or that of a pod without a group.

    Attributes:
        until: When they fail.
        binds: By pod, the binds.
        pending: The choices that were not seen to be bound.
        seen: The claims whose choice the cluster has shown.
    """

    until: float
    binds: dict[PodUID, Bind] = field(factory=dict[PodUID, Bind])
    pending: set[VolumeChoice] = field(factory=set[VolumeChoice])
    seen: set[str] = field(factory=set[str])

    def add(self, bind: Bind) -> None:
        """Let a bind wait with the others."""
        self.binds[bind.uid] = bind
        self.pending.update(bind.volumes)

    def concerned(self, claim: str, volume: str) -> list[VolumeChoice]:
        """Return the pending choices that are about a claim or a volume. O(pending)."""
        return [each for each in self.pending if each.claim == claim or each.volume == volume]


@final
class WaitsForVolumes(ForwardedCalls):
    """The calls of a scheduler, with binds that come when their volumes are bound.

    Args:
        driven: The scheduler, or a wrapper of it.
        cluster: The cluster state that it reads.
        group: Returns the group of a pod; None for a pod without one.
        write: Called with a bind whose choices are to be written.
        timeout: For how many seconds a bind waits for its volumes.
    """

    __slots__ = ("_cluster", "_gangs", "_group", "_refused", "_timeout", "_write")

    def __init__(
        self,
        driven: DrivenScheduler,
        cluster: InMemoryCluster,
        group: Callable[[Pod], GroupKey | None],
        write: Callable[[Bind], object],
        *,
        timeout: float,
    ) -> None:
        super().__init__(driven)
        self._cluster = cluster
        self._group = group
        self._write = write
        self._timeout = timeout
        self._gangs: dict[GroupKey | PodUID, _Gang] = {}
        self._refused: set[tuple[PodUID, int]] = set()

    def __len__(self) -> int:
        """Return how many binds wait."""
        return sum(len(gang.binds) for gang in self._gangs.values())

    def refused(self, bind: Bind, reason: str) -> BindFailed:
        """Return the event that says that the choices of a bind could not be written."""
        self._refused.add((bind.uid, bind.attempt))
        return BindFailed(bind.uid, bind.attempt, reason)

    # The calls ------------------------------------------------------------------------------

    def handle(self, *events: Event, now: float) -> tuple[Effect, ...]:
        """See ``Scheduler.handle``."""
        effects: tuple[Effect, ...] = ()
        told = events
        if self._refused:
            of_claims = [e for e in events if isinstance(e, BindFailed) and self._was_refused(e)]
            told = tuple([event for event in events if event not in of_claims])
            for refused in of_claims:
                effects += self._refused_again(refused, now)
        if told:
            effects += self._taken(self._driven.handle(*told, now=now), now)
        for event in told if self._gangs else ():
            effects += self._followed(event, now)
        return effects

    def _refused_again(self, event: BindFailed, now: float) -> tuple[Effect, ...]:
        """Return what follows from choices that could not be written."""
        key = self._waiting(event.uid)
        if key is None or self._gangs[key].binds[event.uid].attempt != event.attempt:
            return ()  # its claims were bound all the same, or its gang failed before
        return self._fail(key, event.reason, now)

    def _followed(self, event: Event, now: float) -> tuple[Effect, ...]:
        """Return what follows from an event for the binds that wait."""
        effects: tuple[Effect, ...] = ()
        match event:
            case PodDeleted(uid):
                key = self._waiting(uid)
                if key is not None:
                    del self._gangs[key].binds[uid]
                    effects += self._fail(key, f"pod {uid} of its gang was deleted", now)
            case NodeDeleted(name):
                for key, gang in list(self._gangs.items()):
                    if any(bind.node == name for bind in gang.binds.values()):
                        effects += self._fail(key, f"node {name} is gone", now)
            case ObjectChanged(PersistentVolumeClaim() as claim):
                effects += self._look(claim.key, "", now)
            case ObjectChanged(PersistentVolume() as volume):
                effects += self._look(volume.claim, volume.name, now)
            case ObjectDeleted("PersistentVolumeClaim", gone):
                effects += self._look(gone, "", now)
            case ObjectDeleted("PersistentVolume", gone):
                effects += self._look("", gone, now)
            case _:
                pass
        return effects

    def advance(self, *, now: float) -> tuple[Effect, ...]:
        """See ``Scheduler.advance``."""
        effects = self._taken(self._driven.advance(now=now), now)
        for key in [key for key, gang in self._gangs.items() if gang.until <= now]:
            seconds = format_duration(self._timeout)
            effects += self._fail(key, f"the volumes were not bound within {seconds} s", now)
        return effects

    def schedule_one(self, *, now: float) -> tuple[Effect, ...] | None:
        """See ``Scheduler.schedule_one``."""
        effects = self._driven.schedule_one(now=now)
        return None if effects is None else self._taken(effects, now)

    def rebuild(self, *, now: float) -> tuple[Effect, ...]:
        """See ``Scheduler.rebuild``."""
        return self._taken(self._driven.rebuild(now=now), now)

    def next_deadline(self) -> float | None:
        """See ``Scheduler.next_deadline``."""
        deadlines = [gang.until for gang in self._gangs.values()]
        other = self._driven.next_deadline()
        return min(deadlines if other is None else [*deadlines, other], default=None)

    # Waiting --------------------------------------------------------------------------------

    def _taken(self, effects: tuple[Effect, ...], now: float) -> tuple[Effect, ...]:
        """Return effects without the binds that have to wait. O(1) if none has volumes."""
        if not self._gangs:
            for effect in effects:
                if type(effect) is Bind and effect.volumes:
                    break
            else:
                return effects
        binds = [effect for effect in effects if isinstance(effect, Bind)]
        gangs: dict[GroupKey | PodUID, list[Bind]] = {}
        for bind in binds:
            gangs.setdefault(self._key(bind), []).append(bind)
        waiting: set[Bind] = set()
        for key, members in gangs.items():
            if key in self._gangs or any(bind.volumes for bind in members):
                gang = self._gangs.setdefault(key, _Gang(now + self._timeout))
                for bind in members:
                    waiting.add(bind)
                    gang.add(bind)
                    if bind.volumes:
                        self._write(bind)
        return tuple(e for e in effects if not (isinstance(e, Bind) and e in waiting))

    def _key(self, bind: Bind) -> GroupKey | PodUID:
        pod = self._cluster.pod(bind.uid)
        return bind.uid if pod is None else self._group(pod) or bind.uid

    def _was_refused(self, event: BindFailed) -> bool:
        """Return whether a report comes from ``refused``; it does so once."""
        bind = (event.uid, event.attempt)
        found = bind in self._refused
        self._refused.discard(bind)
        return found

    def _waiting(self, uid: PodUID) -> GroupKey | PodUID | None:
        return next((key for key, gang in self._gangs.items() if uid in gang.binds), None)

    def _look(self, claim: str, volume: str, now: float) -> tuple[Effect, ...]:
        """Return the binds that need not wait any longer, and what follows from those that fail."""
        effects: tuple[Effect, ...] = ()
        for key, gang in list(self._gangs.items()):
            concerned = gang.concerned(claim, volume)
            try:
                for choice in concerned:
                    if self._is_bound(choice, gang.seen):
                        gang.pending.discard(choice)
                if concerned and not gang.pending and self._is_ready(gang):
                    del self._gangs[key]
                    effects += tuple(gang.binds.values())
            except _Failed as failed:
                effects += self._fail(key, str(failed), now)
        return effects

    def _is_ready(self, gang: _Gang) -> bool:
        """Return whether the binds of a gang can be posted; look at everything once more.

        Raises:
            _Failed: They cannot.
        """
        for bind in gang.binds.values():
            pod = self._cluster.pod(bind.uid)
            if pod is None or pod.deleted_at is not None:
                raise _Failed(f"pod {bind.uid} of its gang is being deleted")
            if self._cluster.node(bind.node) is None:
                raise _Failed(f"node {bind.node} is gone")
            for choice in bind.volumes:
                if not self._is_bound(choice, gang.seen):
                    gang.pending.add(choice)
        return not gang.pending

    def _is_bound(self, choice: VolumeChoice, seen: set[str]) -> bool:
        objects = self._cluster.objects
        claim = objects.get(PersistentVolumeClaim, choice.claim)
        if claim is None:
            raise _Failed(f"claim {choice.claim} is gone")
        name = choice.volume or claim.volume
        volume = objects.get(PersistentVolume, name)
        if choice.volume and volume is None:
            raise _Failed(f"volume {choice.volume} is gone")
        if claim.is_fully_bound:
            volume = objects.get(PersistentVolume, claim.volume)
            node = self._cluster.node(choice.node)
            if volume is None or node is None:
                return False  # the watch of volumes is behind
            if not volume.is_reached_from(node.labels):
                raise _Failed(f"volume {volume.name} is not reached from node {choice.node}")
            return True
        is_shown = (
            volume is not None and volume.is_for(claim)
            if choice.volume
            else claim.selected_node == choice.node
        )
        if is_shown:
            seen.add(choice.claim)
        elif choice.claim in seen:
            what = f"volume {choice.volume}" if choice.volume else f"claim {choice.claim}"
            raise _Failed(f"the choice of {what} was taken back: binding it has failed")
        return False

    def _fail(self, key: GroupKey | PodUID, reason: str, now: float) -> tuple[Effect, ...]:
        """Report every bind of a gang as failed, and return what follows."""
        gang = self._gangs.pop(key)
        effects: tuple[Effect, ...] = ()
        for bind in gang.binds.values():
            report = BindFailed(bind.uid, bind.attempt, reason)
            effects += self._taken(self._driven.handle(report, now=now), now)
        return effects
