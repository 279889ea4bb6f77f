"""What a scheduler shows of its pods and of the capacity that it keeps, by its snapshot.

Rules:
  R1  only public calls are made, so a law that is asked here does not know what a core is made of;
  R2  a step, a number or another count that only ascends is not shown.
"""

from __future__ import annotations

import gc
import types
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, Final, final

from attrs import frozen

from gangsched import (
    Bind,
    InMemoryCluster,
    MemberState,
    NodeName,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupInfo,
    PodUID,
    Scheduler,
)
from support.fingerprint import fingerprint

__all__ = [
    "Kept",
    "PodShown",
    "Shown",
    "binds",
    "known",
    "left_over",
    "memory",
    "nothing_is_assumed",
    "shown",
    "situation",
]

_PROGRAM: Final = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)
"""From these the whole program can be reached."""


@final
@frozen
class PodShown:
    """A pod that a scheduler knows.

    Attributes:
        number: Its number in the order of arrival.
        state: Its state.
        assumed: The node on which it waits on permit, or to which it is being bound.
        attempt: The attempt of its bind or wait, or the last one.
    """

    number: int
    state: MemberState
    assumed: NodeName | None
    attempt: int


@final
@frozen
class Kept:
    """A nomination: the pods that it awaits the end of, and when it ends at the latest."""

    awaited: frozenset[PodUID]
    deadline: float


@final
@frozen
class Shown:
    """What a scheduler remembers of pods, nominations and its reservation.

    Attributes:
        pods: The known pods.
        evicted: The pods whose eviction was requested.
        node_numbers: The numbers of nodes in the order of arrival, if that counts.
        nominations: The nominations.
        reserved_until: When the reservation ends at the latest; None if there is none.
        reserved_from: The expected start of its gang; None if that is unknown.
        planned: Where the members of its gang are expected to go.
    """

    pods: Mapping[PodUID, PodShown]
    evicted: frozenset[PodUID]
    node_numbers: Mapping[NodeName, int]
    nominations: tuple[Kept, ...]
    reserved_until: float | None = None
    reserved_from: float | None = None
    planned: tuple[tuple[PodUID, NodeName], ...] = ()

    @property
    def assumed(self) -> dict[PodUID, NodeName]:
        """The nodes of pods that wait on permit, or whose bind is not reported yet."""
        found = {uid: pod.assumed for uid, pod in self.pods.items()}
        return {uid: node for uid, node in found.items() if node is not None}


def shown(scheduler: Scheduler) -> Shown:
    """Return what the snapshot of a scheduler shows."""
    data = scheduler.snapshot()
    pods: dict[PodUID, PodShown] = {}
    evicted = set(data.get("evicted", ()))
    for row in data.get("members", ()):
        pods[row["pod"]["uid"]] = _pod(row, row.get("node"))
    for row in data.get("pods", ()):
        # only an assumed pod is written whole
        pods[row["uid"]] = _pod(row, row.get("node") if "pod" in row else None)
        if row.get("is_evicted"):
            evicted.add(row["uid"])
    nominations = tuple(
        Kept(frozenset(row.get("awaited", ())), row["deadline"])
        for row in data.get("nominations", ())
    )
    numbers = {NodeName(row["node"]["name"]): row["index"] for row in data.get("nodes", ())}
    made = data.get("backfill", {}).get("reservation")
    if made is None:
        return Shown(pods, frozenset(evicted), numbers, nominations)
    planned = tuple((PodUID(uid), NodeName(node)) for uid, node in made.get("planned", ()))
    until, since = made["deadline"], made.get("starts_at")
    return Shown(pods, frozenset(evicted), numbers, nominations, until, since, planned)


def _pod(row: Mapping[str, Any], node: str | None) -> PodShown:
    assumed = None if node is None else NodeName(node)
    return PodShown(row["seq"], MemberState[row["state"].upper()], assumed, row.get("attempt", 0))


def nothing_is_assumed(scheduler: Scheduler) -> bool:
    """Return whether no pod waits on permit or is being bound."""
    return not shown(scheduler).assumed


def binds(scheduler: Scheduler, pod: Pod) -> bool:
    """Return whether a scheduler would bind a pod if it were added now."""
    effects = scheduler.what_if(PodAdded(pod)).effects
    return any(isinstance(effect, Bind) and effect.uid == pod.uid for effect in effects)


def memory(scheduler: Scheduler) -> dict[str, Hashable]:
    """Return what a scheduler remembers, as values that compare."""
    queue, seen = scheduler.queue, shown(scheduler)
    return {
        "pods": tuple(seen.pods.items()),
        "evicted": seen.evicted,
        "nominations": seen.nominations,
        "pending": repr(scheduler.pending()),
        "running": repr(scheduler.running()),
        "active": tuple((e.seq, e.sort_key, _uids(e.pending)) for e in queue.active),
        "backoff": tuple((e.seq, e.sort_key, e.backoff_until) for e in queue.backoff),
        "unschedulable": tuple((e.seq, e.sort_key) for e in queue.unschedulable),
        "waiting": tuple(scheduler.waiting),
        "groups": tuple(_group(info) for info in scheduler.registry),
        "next": scheduler.next_deadline(),
    }


_TEXTS: Final = frozenset(
    {"reason", "told", "failure", "denial", "refused", "unschedulable_member"}
)
_COUNTS: Final = frozenset(
    {
        *("step", "arrivals", "node_arrivals", "group_arrivals", "attempt_floor", "attempts"),
        *("node_changes", "altered", "round_step", "refused_at", "opened_at", "helped_at"),
        *("now", "listed", "started_at", "complete_at", "waiting_since"),
    }
)
_PRESENT: Final = frozenset({"failed_step", "event_step", "tried_step"})
_STEPS: Final = frozenset({"round", "began", "blocked_at", "gained_at", "taken_at"})


def known(cluster: InMemoryCluster, scheduler: Scheduler) -> tuple[Hashable, ...]:
    """Return what a cluster holds and what a scheduler remembers of it, as values that compare."""
    return fingerprint(cluster), tuple(memory(scheduler).items()), situation(scheduler)


def situation(scheduler: Scheduler) -> str:
    """Return what the future decisions of a scheduler depend on, without what only ascends.

    Of numbers of steps only the order counts.
    """
    data = scheduler.snapshot()
    found = sorted({0, *_steps(data)})
    ranks = {step: rank for rank, step in enumerate(found)}
    queue = scheduler.queue
    places = [[e.seq for e in each] for each in (queue.active, queue.backoff, queue.unschedulable)]
    return repr((_without_counts(data, ranks), places, scheduler.next_deadline()))


def _steps(data: Any) -> Iterator[int]:
    if isinstance(data, dict):
        for name, value in data.items():
            if name in _STEPS:
                yield value
            else:
                yield from _steps(value)
    elif isinstance(data, list):
        for value in data:
            yield from _steps(value)


def _without_counts(data: Any, ranks: Mapping[int, int]) -> Any:
    if isinstance(data, dict):
        return {
            name: ranks[value]
            if name in _STEPS
            else value >= 0
            if name in _PRESENT
            else _without_counts(value, ranks)
            for name, value in data.items()
            if name not in _COUNTS and name not in _TEXTS
        }
    if isinstance(data, list):
        return [_without_counts(value, ranks) for value in data]
    return data


def _uids(pods: Iterable[Any]) -> tuple[PodUID, ...]:
    return tuple(sorted(pod.uid for pod in pods))


def _group(info: Any) -> tuple[Hashable, ...]:
    counts = (info.attempts, info.failures, info.was_scheduled, info.all)
    times = (info.attempt_started_at, info.last_failure_at)
    return (info.key, info.uid, info.spec, info.min_available, *counts, *times)


def left_over(scheduler: Scheduler) -> list[object]:
    """Return the pods and groups that can be reached from a scheduler, answers apart.

    It finds what is left in a container of any name. O(all that the scheduler remembers).
    """
    scheduler.forget_answers()
    seen: dict[int, object] = {}
    todo: list[object] = [scheduler]
    while todo:
        thing = todo.pop()
        if id(thing) not in seen and not isinstance(thing, _PROGRAM):
            seen[id(thing)] = thing
            todo += gc.get_referents(thing)
    return [thing for thing in seen.values() if isinstance(thing, Pod | PodGroup | PodGroupInfo)]
