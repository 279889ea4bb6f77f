"""How long is the walk of one call: how many calls and files, and how often back to a file?

What a reader has to follow who wants to know what one call does. Two calls are walked:
the event by which a waiting member of a gang is gone, and the decision of a gang of 4.

Rules:
  R1  only functions of the package count, generators and comprehensions too. What attrs makes
      counts by the file of the class, plugins as everything else;
  R2  a walk comes back to a file if a call enters it from another one, and it was entered before;
  R3  the same call was made before, so nothing is done for the first time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

from attrs import frozen

import gangsched
from gangsched import (
    Bind,
    Bound,
    Effect,
    InMemoryCluster,
    NodeAdded,
    Pod,
    PodAdded,
    PodDeleted,
    Scheduler,
    presets,
)
from gangsched.testing import make_node, make_pod

__all__ = ["lines", "walks"]

_PACKAGE: Final = str(Path(gangsched.__file__).parent)


@frozen
class Walk:
    """What a call has entered.

    Attributes:
        calls: How many functions were called.
        files: How many files they are in.
        back: How often the walk came back to a file.
    """

    calls: int
    files: int
    back: int


def walked(call: Callable[[], tuple[Effect, ...] | None]) -> tuple[Walk, tuple[Effect, ...]]:
    """Make a call; return what it enters, and its effects."""
    entered: list[tuple[str, str]] = []

    def note(frame: FrameType, what: str, _arg: Any) -> None:
        if what == "call":
            caller = frame.f_back
            where = frame.f_code.co_filename
            if where.startswith(_PACKAGE):
                entered.append((where, "" if caller is None else caller.f_code.co_filename))

    sys.setprofile(note)
    try:
        effects = call()
    finally:
        sys.setprofile(None)
    met, back = set[str](), 0
    for where, caller in entered:
        back += where in met and where != caller
        met.add(where)
    return Walk(len(entered), len(met), back), effects or ()


def _nodes(cpu: int) -> InMemoryCluster:
    """Return a cluster of three nodes."""
    cluster = InMemoryCluster()
    for n in range(3):
        cluster.apply(NodeAdded(make_node(f"n{n}", allocatable={"cpu": cpu, "pods": 10})))
    return cluster


def _arrive(cluster: InMemoryCluster, scheduler: Scheduler, turn: int) -> list[Pod]:
    """Add a gang of 4, and return its pods."""
    named: dict[str, Any] = {"group": f"g{turn}", "min_available": 4, "cpu": 1}
    pods = [make_pod(f"g{turn}-{m}", **named) for m in range(4)]
    for pod in pods:
        scheduler.handle(cluster.apply(PodAdded(pod)), now=100.0 * turn)
    return pods


def deleted_waiting_member() -> Walk:
    """Return the walk of the event by which one of three waiting members of four is gone."""
    cluster = _nodes(cpu=1)
    scheduler = presets.coscheduling(cluster)
    scheduler.rebuild(now=0.0)
    walk = Walk(0, 0, 0)
    for turn in range(3):
        now, pods = 100.0 * turn, _arrive(cluster, scheduler, turn)
        for _member in range(3):
            scheduler.schedule_one(now=now)
        gone = cluster.apply(PodDeleted(pods[1].uid))
        walk, _effects = walked(partial(scheduler.handle, gone, now=now))
        for pod in (pods[0], *pods[2:]):
            scheduler.handle(cluster.apply(PodDeleted(pod.uid)), now=now)
    return walk


def decision_of_four() -> Walk:
    """Return the walk of the decision that places and releases a gang of 4."""
    cluster = _nodes(cpu=8)
    scheduler = presets.gang(cluster)
    scheduler.rebuild(now=0.0)
    walk = Walk(0, 0, 0)
    for turn in range(3):
        now, pods = 100.0 * turn, _arrive(cluster, scheduler, turn)
        walk, effects = walked(partial(scheduler.schedule_one, now=now))
        binds = [effect for effect in effects if isinstance(effect, Bind)]
        assert len(binds) == 4, effects
        for bind in binds:
            event = cluster.apply(Bound(bind.uid, bind.node, bind.attempt))
            scheduler.handle(event, now=now)
        for pod in pods:
            scheduler.handle(cluster.apply(PodDeleted(pod.uid)), now=now)
    return walk


WALKS: Final = {
    "one deleted waiting member": (deleted_waiting_member, Walk(150, 15, 60)),
    "one whole-gang decision of 4 members": (decision_of_four, Walk(180, 15, 60)),
}
"""The walks, each with what it should not exceed."""


def walks() -> dict[str, tuple[int, int, int]]:
    """Return the walks by name, as calls, files, and returns to a file."""
    found = {name: walk() for name, (walk, _gate) in WALKS.items()}
    return {name: (walk.calls, walk.files, walk.back) for name, walk in found.items()}


def lines(this: Mapping[str, Sequence[int]], other: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """Yield the lines of a table of the walks in this version, and in another one if given."""
    yield "| walk: calls / files / back to a file | this | other | gate | |"
    yield "|---|---:|---:|---:|---|"
    for name, (_walk, gate) in WALKS.items():
        new, most = this[name], (gate.calls, gate.files, gate.back)
        missed = any(one > limit for one, limit in zip(new, most, strict=True))
        shown = [" / ".join(map(str, each)) for each in (new, other.get(name, ()), most)]
        yield f"| {name} | {' | '.join(shown)} | {'missed' * missed} |"
