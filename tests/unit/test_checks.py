"""``_check`` reports a broken invariant: other tests rely on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gangsched import InMemoryCluster, NodeAdded, Pod, PodAdded, Scheduler, presets
from gangsched.core.records.gang import GangRecord, PodRecord
from gangsched.errors import InternalError
from gangsched.model import NodeName, PodUID
from gangsched.primitives.counters import MemberState, PodGroupCounters
from gangsched.primitives.heap._py import PriorityHeap
from gangsched.primitives.registry import PodGroupRegistry
from gangsched.primitives.waiting import WaitingMap
from gangsched.testing import make_node, make_pod
from support.groups import claim_of, grouped, key


def heap() -> PriorityHeap[int]:
    made: PriorityHeap[int] = PriorityHeap()
    for item in range(100):
        made.push((item,), item)
    assert made.peek() == 0
    return made


def registry() -> PodGroupRegistry:
    made = PodGroupRegistry(grace=10.0)
    for name in ("g", "h", "left"):
        pod = grouped(f"p-{name}", name)
        made.join(pod, claim_of(pod))
    made.leave(key("left"), PodUID("ns/p-left"), now=1.0)
    return made


def waiting() -> WaitingMap:
    made = WaitingMap()
    for uid in "ab":
        made.wait(PodUID(uid), node=NodeName("n"), timeout=1, now=0, group=key("g"))
    return made


def counters() -> PodGroupCounters:
    made = PodGroupCounters()
    made.set(PodUID("a"), MemberState.WAITING)
    return made


def cluster() -> InMemoryCluster:
    made = InMemoryCluster()
    made.apply(PodAdded(Pod(name="p", node_name="n")))
    return made


def scheduler() -> Scheduler:
    cluster = InMemoryCluster()
    made = presets.gang(cluster)
    made.handle(cluster.apply(NodeAdded(make_node("n", cpu=3))), now=0.0)
    for number in range(2):
        pod = make_pod(f"g-{number}", group="g", min_available=2, cpu=1)
        made.handle(cluster.apply(PodAdded(pod)), now=0.0)
    return made


LEFT: dict[str, object] = {
    "touched": {"a gang": None},
    "pods_changed": True,
    "pods_tried": True,
    "asked": "a gang",
    "lost": ["a pod"],
    "refused": {"a pod": "a reason"},
    "removed": {"a group": None},
    "seen": {"a pod": None},
}
"""By the name of a field of the current call, what is left there after the call."""

SABOTAGE: list[tuple[Callable[[], Any], Callable[[Any], object], str]] = [
    (heap, lambda made: made._run.reverse(), "is behind"),
    (heap, lambda made: setattr(made, "_dead", 1), "0 tombstones, counted 1"),
    (heap, lambda made: setattr(made, "_fast", list(made._run)), "fast path"),
    (registry, lambda made: setattr(next(iter(made)), "uid", 2), "do not ascend"),
    (registry, lambda made: made._left.clear(), "neither specification nor member"),
    (
        registry,
        lambda made: made._left.update({key("g"): 9.0}),
        "grace periods are not in the order",
    ),
    (waiting, lambda made: made._groups.clear(), "waiting pods and their groups differ"),
    (waiting, lambda made: made._deadlines.pop(), "waiting pods and deadlines differ"),
    (counters, lambda made: made._counts.__setitem__(0, 2), "member counts"),
    (cluster, lambda made: made._on.clear(), "on "),
    (
        scheduler,
        lambda made: next(iter(made._state.records.gangs.values())).pending.clear(),
        "default/g-0 unscheduled on None> pends",
    ),
    *(
        (
            scheduler,
            lambda made, field=field, left=left: setattr(made._state.call, field, left),
            f"a call is over and has left {field}",
        )
        for field, left in LEFT.items()
    ),
]


@pytest.mark.parametrize(("make", "sabotage", "sentence"), SABOTAGE)
def test_check_reports_a_broken_invariant(
    make: Callable[[], Any], sabotage: Callable[[Any], object], sentence: str
) -> None:
    machine = make()
    machine._check()
    sabotage(machine)
    with pytest.raises(InternalError, match=sentence):
        machine._check()


def test_restore_of_a_sound_snapshot_writes_no_reason_why_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sentence for each check of each pod takes a third of the time."""
    written: list[object] = []

    def note(record: object) -> str:
        written.append(type(record))
        return "a sentence"

    for kind in (GangRecord, PodRecord):
        monkeypatch.setattr(kind, "__repr__", note)
    first = scheduler()
    second = scheduler()
    second.restore(first.snapshot())
    assert written == []
