"""Errors in the middle of a call that reads several objects: all of it happens, or nothing.

An event about a group reads each of its members, a listing reads everything. An error midway must
leave nothing half done, and the same event, repeated, must do the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Event,
    GangschedError,
    GroupIncomplete,
    InMemoryCluster,
    Membership,
    Node,
    NodeAdded,
    NodeName,
    NodeUpdated,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodUID,
    PodUpdated,
    Scheduler,
    group_key,
    membership,
    presets,
)
from gangsched.testing import make_pod
from support.fingerprint import fingerprint, without

N1, N2 = NodeName("n1"), NodeName("n2")


class Host:
    """A cluster that can lie, and a membership that can raise."""

    def __init__(self) -> None:
        self.shown = InMemoryCluster()
        self.raises_for: str | None = None
        self.lies = False
        state: Any = self
        self.scheduler = Scheduler(state, presets.coscheduling_profile(), membership=self.claim)
        for name in (N1, N2):
            self.tell(NodeAdded(Node(name=name, allocatable={"cpu": 4})))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.shown, name)

    def pods_on(self, node: NodeName) -> Iterable[Pod]:
        return self.shown.pods_on(N1 if self.lies and node == N2 else node)

    def claim(self, pod: Pod) -> Membership | None:
        if pod.name == self.raises_for:
            raise ZeroDivisionError("oops")
        return membership(pod)

    def tell(self, event: Event) -> tuple[object, ...]:
        return self.scheduler.handle(self.shown.apply(event), now=0.0)

    def print(self) -> tuple[str, ...]:
        """Return the scheduler's fingerprint without this host's own state."""
        return without(fingerprint(self.scheduler), r"\]\._state\.(cluster|membership)", r"\.step$")


def half(*told: Event) -> Host:
    host = Host()
    for event in told:
        host.tell(event)
    return host


def on(pod: Pod, node: NodeName) -> Pod:
    return evolve(pod, node_name=node)


A, B, C = (make_pod(name, group="g", min_available=2, cpu=1) for name in "abc")
SPEC = PodGroup(name="g", min_available=3)
MIDDLES: dict[str, tuple[Callable[[], Host], str | None, Event]] = {
    "a specification comes": (lambda: half(PodAdded(A), PodAdded(B)), "b", PodGroupAdded(SPEC)),
    "a specification goes": (
        lambda: half(PodGroupAdded(SPEC), PodAdded(A), PodAdded(B)),
        "b",
        PodGroupDeleted(SPEC.key),
    ),
    "who was contradicted goes": (
        lambda: half(
            PodAdded(make_pod("a", group="g", min_available=1)),
            PodAdded(make_pod("b", group="g", min_available=2)),
        ),
        "b",
        PodDeleted(A.uid),
    ),
    "a bound member comes": (
        lambda: half(PodAdded(on(make_pod("x", cpu=1), N1)), PodAdded(A)),
        None,
        PodAdded(on(B, N2)),
    ),
    "a member turns out to be bound": (
        lambda: half(PodAdded(on(make_pod("x", cpu=1), N1)), PodAdded(A), PodAdded(B)),
        None,
        PodUpdated(on(B, N2)),
    ),
}


def go_wrong(host: Host, raises_for: str | None, event: Event) -> None:
    """Report an event while something fails."""
    host.raises_for, host.lies = raises_for, raises_for is None
    with pytest.raises(GangschedError):
        host.tell(event)
    host.raises_for, host.lies = None, False


@pytest.mark.parametrize("name", MIDDLES)
def test_event_that_is_refused_midway_changes_nothing(name: str) -> None:
    make, raises_for, event = MIDDLES[name]
    host = make()
    before = host.print()
    go_wrong(host, raises_for, event)
    host.scheduler._check()
    assert host.print() == before


def test_incomplete_group_is_not_admitted_after_its_first_event_was_refused() -> None:
    make, raises_for, event = MIDDLES["a specification comes"]
    host = make()
    go_wrong(host, raises_for, event)
    key = group_key("default", "g")
    assert host.tell(event)[0] == GroupIncomplete(key, 2, 3)


def test_refused_member_is_tried_though_the_first_event_was_refused() -> None:
    make, raises_for, event = MIDDLES["who was contradicted goes"]
    host = make()
    go_wrong(host, raises_for, event)
    host.tell(event)
    host.scheduler._check()
    assert host.scheduler.schedule_one(now=0.0) is None


@pytest.mark.parametrize(
    "name",
    [
        "a bound member comes",
        "a member turns out to be bound",
    ],
)
def test_arrival_that_completes_a_group_wakes_it_though_first_refused(name: str) -> None:
    """F8, F24: no wake-up is lost, however the event came to be repeated."""
    make, raises_for, event = MIDDLES[name]
    host = make()
    go_wrong(host, raises_for, event)
    host.tell(event)
    host.scheduler._check()
    assert host.scheduler.schedule_one(now=0.0)


def test_listing_refused_midway_changes_nothing() -> None:
    host = half(PodAdded(on(make_pod("x", cpu=1), N1)))
    host.shown.apply(NodeUpdated(Node(name=N1, allocatable={"cpu": 8})))
    host.lies = True
    before = host.print()
    with pytest.raises(GangschedError):
        host.scheduler.rebuild(now=0.0)
    assert host.print() == before


def test_listing_refused_midway_is_taken_in_whole_the_next_time() -> None:
    host = half(PodAdded(on(make_pod("x", cpu=1), N1)))
    host.shown.apply(NodeUpdated(Node(name=N1, allocatable={"cpu": 8})))
    host.shown.apply(PodAdded(make_pod("late", cpu=7)))
    host.lies = True
    with pytest.raises(GangschedError):
        host.scheduler.rebuild(now=0.0)
    host.lies = False
    host.scheduler.rebuild(now=0.0)
    host.scheduler._check()
    assert PodUID("default/late") in {e.pod.uid for e in host.scheduler.queue.active}
    assert host.scheduler.schedule_one(now=0.0)
