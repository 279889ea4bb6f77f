"""Laws 1, 8 and 10 where the cluster state is ahead of the events, or cannot be read once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    BindFailed,
    Bound,
    ClusterState,
    Effect,
    Event,
    Evict,
    InMemoryCluster,
    NodeAdded,
    NodeName,
    NodeUpdated,
    Pod,
    PodAdded,
    PodDeleted,
    PodPhase,
    PodUID,
    PodUpdated,
    Release,
    Scheduler,
    WhenBindFails,
    presets,
)
from gangsched.options import SchedulingUnit
from gangsched.testing import make_node, make_pod

UNITS: Final = pytest.mark.parametrize("unit", list(SchedulingUnit))

pytestmark = pytest.mark.once("names the unit of each scheduler itself")


class Host:
    """A scheduler and its cluster; events may be applied and handled apart."""

    def __init__(self, *, unit: SchedulingUnit, **policy: Any) -> None:
        self.cluster = InMemoryCluster()
        self.scheduler = presets.coscheduling(self.cluster, unit=unit, **policy)
        self.now = 0.0
        self.effects: list[Effect] = []

    def tell(self, *events: Event) -> None:
        """Apply each event, and handle it."""
        for event in events:
            self.effects += self.scheduler.handle(self.cluster.apply(event), now=self.now)

    def handle(self, event: Event) -> None:
        """Handle an event that was applied before, or of which the cluster state knows."""
        self.effects += self.scheduler.handle(event, now=self.now)

    def decide(self) -> list[Bind]:
        """Decide until the active queue is empty; return the binds."""
        done: list[Effect] = []
        while (found := self.scheduler.schedule_one(now=self.now)) is not None:
            done += found
        self.effects += done
        self.scheduler._check()
        return [effect for effect in done if isinstance(effect, Bind)]

    def bind(self, binds: Iterable[Bind]) -> None:
        """Perform binds, and report them."""
        for each in binds:
            self.tell(Bound(each.uid, each.node, each.attempt))

    def update(self, pod: Pod, **changes: Any) -> None:
        """Apply and handle a change of a pod, on the node that it has."""
        shown = self.cluster.pod(pod.uid)
        assert shown is not None
        self.tell(PodUpdated(evolve(shown, **changes)))

    def released(self) -> list[tuple[str, ...]]:
        """Return the members of each release so far."""
        return [e.members for e in self.effects if isinstance(e, Release)]


def workers(count: int, minimum: int, **amounts: Any) -> list[Pod]:
    """Return the members of one gang."""
    return [
        make_pod(f"w{n}", group="train", min_available=minimum, **(amounts or {"cpu": 1}))
        for n in range(count)
    ]


@UNITS
def test_member_bound_elsewhere_is_counted_once_when_its_event_is_late(
    unit: SchedulingUnit,
) -> None:
    host = Host(unit=unit)
    host.tell(NodeAdded(make_node("n0", cpu=4)))
    first, second = workers(2, 2)
    host.tell(PodAdded(first), PodAdded(second))
    host.cluster.apply(PodUpdated(evolve(first, node_name=NodeName("n0"))))
    host.handle(NodeUpdated(make_node("n0", cpu=4)))
    host.bind(host.decide())
    host.handle(PodUpdated(first))
    host.scheduler._check()
    third = make_pod("third", cpu=2)
    host.tell(PodAdded(third))
    assert [bind.uid for bind in host.decide()] == [third.uid]


@UNITS
def test_evicted_member_that_reports_failed_has_not_started_its_group(
    unit: SchedulingUnit,
) -> None:
    host = Host(unit=unit, when_bind_fails=WhenBindFails.RELEASE_GROUP)
    pods = workers(3, 2)
    host.tell(*(NodeAdded(make_node(f"n{n}", cpu=1)) for n in range(3)))
    host.tell(*map(PodAdded, pods))
    first, second, failing = host.decide()
    host.bind([first, second])
    before = host.released()
    host.update(pods[0], phase=PodPhase.FAILED)
    host.tell(BindFailed(failing.uid, failing.attempt, "no"))
    assert [e.uid for e in host.effects if isinstance(e, Evict)] == [second.uid]
    host.update(pods[1], deleted_at=1.0)
    host.update(pods[1], deleted_at=1.0, phase=PodPhase.FAILED)
    host.now = 100.0
    host.effects += host.scheduler.advance(now=host.now)
    assert host.decide() == []
    host.tell(PodDeleted(second.uid))
    assert host.decide() == []
    assert host.released() == before


@UNITS
@pytest.mark.parametrize(
    "change",
    [{"requests": {"cpu": 2}}, {"node_selector": {"zone": "a"}}, {"priority": 0}],
    ids=["resized", "selector", "nothing"],
)
def test_change_of_a_running_member_leaves_its_group_started(
    unit: SchedulingUnit, change: dict[str, Any]
) -> None:
    host = Host(unit=unit)
    host.tell(NodeAdded(make_node("n0", cpu=8)))
    first, second, third, late = workers(4, 3)
    host.tell(*map(PodAdded, (first, second, third)))
    host.bind(host.decide())
    assert len(host.released()) == 1
    host.tell(PodDeleted(second.uid), PodDeleted(third.uid))
    host.update(first, **change)
    host.tell(PodAdded(late))
    assert [bind.uid for bind in host.decide()] == [late.uid]


@UNITS
def test_capacity_of_a_resized_running_pod_is_what_it_requests_now(unit: SchedulingUnit) -> None:
    host = Host(unit=unit)
    host.tell(NodeAdded(make_node("n0", cpu=4)))
    (only,) = workers(1, 1)
    host.tell(PodAdded(only))
    host.bind(host.decide())
    host.update(only, requests={"cpu": 3})
    host.tell(PodAdded(make_pod("big", cpu=2)), PodAdded(make_pod("small", cpu=1)))
    assert [bind.uid for bind in host.decide()] == ["default/small"]


def test_rebuild_releases_no_group_with_a_member_that_is_gone() -> None:
    host = Host(unit=SchedulingUnit.POD)
    host.tell(NodeAdded(make_node("n0", cpu=1)), NodeAdded(make_node("n1", cpu=1)))
    pods = workers(3, 3)
    host.tell(*map(PodAdded, pods))
    host.decide()
    gone = next(iter(host.scheduler.waiting)).uid
    host.cluster.apply(PodDeleted(gone))
    host.cluster.apply(NodeAdded(make_node("n2", cpu=2)))
    (pending,) = [pod for pod in pods if pod.uid not in host.scheduler.waiting]
    host.cluster.apply(PodUpdated(evolve(pending, node_name=NodeName("n2"))))
    host.effects += host.scheduler.rebuild(now=0.0)
    assert host.released() == []
    host.scheduler._check()


# A cluster state that cannot be read ----------------------------------------------------------


class Unreadable:
    """A cluster state whose n-th read from now on fails, once."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self.fails_at = -1
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._cluster, name)

        def read(*args: Any) -> Any:
            self.reads += 1
            if self.reads == self.fails_at:
                raise TimeoutError("resyncing")
            return method(*args)

        return read


def test_node_that_could_not_be_read_is_read_again_before_the_next_decision() -> None:
    """Another scheduler binds a waiting member, and the node is given back unread."""
    twin = Twin(SchedulingUnit.POD)
    pods = workers(2, 2)
    events: list[Event] = [NodeAdded(make_node("n0", cpu=1)), *map(PodAdded, pods)]
    for event in events:
        twin.call("handle", twin.cluster.apply(event))
    twin.call("schedule_one")
    (waiting,) = twin.scheduler.waiting
    shown = twin.cluster.pod(waiting.uid)
    assert shown is not None
    twin.cluster.apply(PodUpdated(evolve(shown, node_name=NodeName("n0"))))
    twin.now = 100.0
    twin.port.reads, twin.port.fails_at = 0, 1
    assert twin.scheduler.advance(now=twin.now), "the attempt is rejected all the same"
    twin.port.fails_at = -1
    twin.call("handle", twin.cluster.apply(PodAdded(make_pod("other", cpu=1, priority=9))))
    twin.call("schedule_one")
    assert twin.binds == []


STEP = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 5)),
    st.tuples(st.just("delete"), st.integers(0, 5)),
    st.tuples(st.just("resize"), st.integers(0, 5)),
    st.tuples(st.just("node"), st.integers(0, 2)),
    st.tuples(st.just("decide"), st.just(0)),
    st.tuples(st.just("report"), st.integers(0, 3)),
    st.tuples(st.just("pass"), st.sampled_from([1, 30, 90])),
    st.tuples(st.just("rebuild"), st.just(0)),
)


class Twin:
    """One of two equal hosts; its cluster state may fail."""

    def __init__(self, unit: SchedulingUnit) -> None:
        self.cluster = InMemoryCluster()
        self.port = Unreadable(self.cluster)
        self.scheduler: Scheduler = presets.coscheduling(self.port, unit=unit, permit_timeout=60.0)
        self.now = 0.0
        self.effects: list[Effect] = []
        self.binds: list[Bind] = []

    def call(self, name: str, *args: Any) -> None:
        """Make one call; make it again if the cluster state failed."""
        try:
            found = getattr(self.scheduler, name)(*args, now=self.now)
        except TimeoutError:
            self.port.fails_at = -1
            self.scheduler._check()
            found = getattr(self.scheduler, name)(*args, now=self.now)
        self.effects += found or ()
        self.binds += [effect for effect in found or () if isinstance(effect, Bind)]
        self.scheduler._check()

    def step(self, what: str, number: int) -> None:
        """Make one step of a history."""
        known = self.cluster.pod(PodUID(f"default/p{number}"))
        if what == "add" and known is None:
            minimum = 2 + number % 2
            pod = make_pod(f"p{number}", group=f"g{number % 2}", min_available=minimum, cpu=1)
            self.call("handle", self.cluster.apply(PodAdded(pod)))
        elif what == "delete" and known is not None:
            self.call("handle", self.cluster.apply(PodDeleted(known.uid)))
        elif what == "resize" and known is not None:
            changed = evolve(known, requests={"cpu": 2})
            self.call("handle", self.cluster.apply(PodUpdated(changed)))
        elif what == "node":
            node = make_node(f"n{number}", cpu=1 + number)
            event = NodeAdded if self.cluster.node(node.name) is None else NodeUpdated
            self.call("handle", self.cluster.apply(event(node)))
        elif what == "decide":
            self.call("schedule_one")
        elif what == "report" and self.binds:
            bind = self.binds.pop(number % len(self.binds))
            shown = self.cluster.pod(bind.uid)
            if shown is not None and shown.node_name is None and number:
                self.call("handle", self.cluster.apply(Bound(bind.uid, bind.node, bind.attempt)))
            else:
                self.call("handle", BindFailed(bind.uid, bind.attempt, "no"))
        elif what == "pass":
            self.now += number
            self.call("advance")
        elif what == "rebuild":
            self.call("rebuild")


@UNITS
@given(history=st.lists(STEP, max_size=30), data=st.data())
def test_cluster_state_that_fails_once_in_a_call_corrupts_nothing(
    unit: SchedulingUnit, history: list[tuple[str, int]], data: st.DataObject
) -> None:
    whole, torn = Twin(unit), Twin(unit)
    for twin in (whole, torn):
        twin.call("handle", twin.cluster.apply(NodeAdded(make_node("n0", cpu=2))))
        for number in (1, 3, 5):
            twin.step("add", number)
    for what, number in history:
        before = whole.port.reads
        whole.step(what, number)
        reads = whole.port.reads - before
        torn.port.reads = 0
        torn.port.fails_at = data.draw(st.integers(1, reads)) if reads else -1
        torn.step(what, number)
        torn.port.fails_at = -1
    for twin in (whole, torn):
        twin.call("rebuild")
        while twin.scheduler.schedule_one(now=twin.now) is not None:
            twin.scheduler._check()
    assert {p.uid for p in torn.scheduler.waiting} == {p.uid for p in whole.scheduler.waiting}
