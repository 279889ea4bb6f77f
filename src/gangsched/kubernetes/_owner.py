"""The task that owns the scheduler: a driver of ``gangsched.drivers.aio``, told by the watches.

Everything flows one way, and only this task calls the scheduler::

    watches -> cache -> events -> driver -> scheduler -> effects -> binds, evictions -> API server
                                    ^                       |
                                    +---- Bound, BindFailed +-----> conditions, events

The cache is changed when a delta comes, the scheduler is told when the driver takes the event. In
between the cluster state is ahead of the scheduler, which the scheduler allows: an event says where
to look, and what it finds is read from the cluster state.

Rules:
  R1  before ``begin`` deltas only fill the cache; the first call of the scheduler lists it. So the
      scheduler starts with all of the cluster, in one pass;
  R2  the pods and groups of namespaces are handed to the driver in turn, a few ahead of it. So a
      namespace that is flooded with pods delays the decisions about others by one turn. What an
      event is about is read from the cluster state, so events of two objects may pass each other;
  R3  an object that cannot be read is logged and reported, and counts as gone: a pod that is not
      understood is not placed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, Protocol, final

from gangsched.drivers._contract import DrivenScheduler
from gangsched.drivers.aio import Driver
from gangsched.events import (
    Bind,
    Effect,
    Event,
    Evict,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodUpdated,
)
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._effects import Effects
from gangsched.kubernetes._facts import (
    Dialect,
    GroupFacts,
    NodeFacts,
    ObjectFacts,
    PodFacts,
    PriorityClassFacts,
)
from gangsched.kubernetes._reflector import Delta
from gangsched.kubernetes._transport import BATCH_SECONDS
from gangsched.kubernetes._turns import Turns
from gangsched.kubernetes._unreadable import UnreadableObjects

__all__ = ["Binds", "Owner"]

_AHEAD: Final = 16
"""How many events are handed to the driver at once: a turn of all namespaces together."""

_log = logging.getLogger("gangsched.kubernetes")


class Binds(Protocol):
    """Performs binds, and knows how many are under way."""

    async def __call__(self, bind: Bind, /) -> None:
        """Bind a pod; return when it is on the node, or raise."""
        ...

    def __len__(self) -> int:
        """Return how many requests are under way."""
        ...


@final
class Owner:
    """Owns the scheduler and the cluster state.

    Args:
        cache: The cluster state.
        clock: Seconds since 1970 that never go back.
        unreadable: Told which objects cannot be read; None to log them only.

    Attributes:
        driver: The driver, once the scheduler has begun; None before.
    """

    def __init__(
        self,
        cache: Cache,
        clock: Callable[[], float],
        unreadable: UnreadableObjects | None = None,
    ) -> None:
        self.cache: Final = cache
        self._clock = clock
        self._unreadable = unreadable
        self.driver: Driver | None = None
        self._binder: Binds | None = None
        self._turns: Turns[tuple[type[Event], str], Event] = Turns()
        self._is_due = False

    def begin(
        self,
        driven: DrivenScheduler,
        *,
        bind: Binds,
        evict: Callable[[Evict], Awaitable[None]],
        effects: Effects,
        max_binds: int,
        observers: Sequence[Any] = (),
    ) -> Driver:
        """Begin to schedule; return the driver, which is to be run."""
        self._binder = bind
        self.driver = Driver(
            driven,
            apply=self.cache.apply,
            bind=bind,
            evict=evict,
            observers=(effects, _Taken(self._hand_on_soon), *observers),
            on_error=self._failed,
            max_binds=max_binds,
            gather=BATCH_SECONDS,
            clock=self._clock,
        )
        self.driver.rebuild()  # lists the cache, also if no event ever comes
        return self.driver

    def tell(self, event: Event | None) -> None:
        """Hand an event to the scheduler, once it has begun."""
        if event is not None and self.driver is not None:
            self.driver.tell(event)

    def _tell_in_turn(self, event: Event | None, namespace: str) -> None:
        """Hand an event to the scheduler when it is the turn of its namespace.

        A later event of the same type about the same object replaces one that waits.
        """
        if event is not None and self.driver is not None:
            self._turns.put(namespace, (type(event), _subject(event)), event)
            self._hand_on()

    def _hand_on_soon(self) -> None:
        """Hand on the next events when the driver lets others run: after a turn of decisions."""
        if self._turns and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._hand_on)

    def _hand_on(self) -> None:
        self._is_due = False
        driver = self.driver
        while driver is not None and self._turns and driver.events_waiting < _AHEAD:
            driver.tell(self._turns.take())

    def binds(self) -> int:
        """Return how many binds wait for a connection or are under way."""
        waiting = 0 if self.driver is None else self.driver.binds_waiting
        return waiting + (0 if self._binder is None else len(self._binder))

    # What the reflectors call ---------------------------------------------------------------

    def pods(self, deltas: Iterable[Delta[PodFacts]]) -> None:
        """Take in changes of pods."""
        for delta in deltas:
            if self._is_object("Pod", delta):
                event, namespace = self.cache.pod(delta), _namespace(delta)
                for restated in self.cache.take_restated():
                    self._tell_in_turn(restated, namespace)
                self._tell_in_turn(event, namespace)

    def nodes(self, deltas: Iterable[Delta[NodeFacts]]) -> None:
        """Take in changes of nodes."""
        for delta in deltas:
            if self._is_object("Node", delta):
                self.tell(self.cache.node(delta))

    def groups(self, dialect: Dialect) -> Callable[[Iterable[Delta[GroupFacts]]], None]:
        """Return what takes in changes of the groups of one API."""
        source = dialect.source

        def take_in(deltas: Iterable[Delta[GroupFacts]]) -> None:
            for delta in deltas:
                if self._is_object(dialect.kind, delta, source):
                    for event in self.cache.group(delta, source):
                        self._tell_in_turn(event, _namespace(delta))

        return take_in

    def priority_classes(self, deltas: Iterable[Delta[PriorityClassFacts]]) -> None:
        """Take in changes of priority classes."""
        for delta in deltas:
            if self._is_object("PriorityClass", delta):
                for event in self.cache.priority_class(delta):
                    self.tell(event)

    def objects(self, kind: str) -> Callable[[Iterable[Delta[ObjectFacts]]], None]:
        """Return what takes in changes of the objects of a kind that constraints refer to."""

        def take_in(deltas: Iterable[Delta[ObjectFacts]]) -> None:
            for delta in deltas:
                if self._is_object(kind, delta):
                    self.tell(self.cache.object(kind, delta))

        return take_in

    def unreadable(self, kind: str, why: str) -> None:
        """Record that a kind is unreadable, or readable if *why* is empty."""
        for event in self.cache.unreadable(kind, why):
            self.tell(event)

    def _is_object(self, kind: str, delta: Delta[Any], source: str = "") -> bool:
        if delta.kind == "refused":
            name = "" if delta.identity is None else delta.identity.key
            _log.warning("%s %s cannot be read and is ignored: %s", kind, name, delta.problem)
        if self._unreadable is not None:
            self._unreadable.note(kind, delta, source)
        return delta.kind != "synced"

    @staticmethod
    def _failed(what: Event | Evict, error: Exception) -> None:
        """The driver has logged it, and repeats what is to be repeated."""


@final
class _Taken:
    """An observer that has the next events handed to the driver when it has taken some."""

    def __init__(self, taken: Callable[[], object]) -> None:
        self._taken = taken

    def event(self, event: Event, now: float) -> None:
        """Have the next events handed on."""
        self._taken()

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        """Do nothing: what is decided takes no events."""

    def settled(self, now: float) -> None:
        """Have the next events handed on; an event that was refused is not observed."""
        self._taken()


def _namespace(delta: Delta[Any]) -> str:
    """Return the namespace of an object that has one."""
    assert delta.identity is not None
    return delta.identity.key.partition("/")[0]


def _subject(event: Event) -> str:
    """Return what an event about a pod or a group is about."""
    match event:
        case PodAdded(pod) | PodUpdated(pod):
            return pod.uid
        case PodGroupAdded(group) | PodGroupUpdated(group):
            return group.key
        case PodDeleted(name) | PodGroupDeleted(name):
            return name
        case _:
            return ""  # nothing else comes from pods and groups
