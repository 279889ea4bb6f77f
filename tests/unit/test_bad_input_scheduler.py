"""Bad input to a scheduler in the middle of everything: refused, and nothing has changed.

What is compared is the fingerprint of the cluster and of the scheduler, before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    BindFailed,
    Bound,
    Event,
    GroupKey,
    InMemoryCluster,
    Node,
    NodeDeleted,
    NodeName,
    NodeUpdated,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroupDeleted,
    PodUID,
    PodUpdated,
    Scheduler,
    presets,
)
from gangsched.errors import (
    ClusterStateError,
    GangschedError,
    InvalidValueError,
    PluginError,
)
from gangsched.testing import make_pod
from support.busy import NOW, busy_scheduler
from support.fingerprint import fingerprint
from support.refusals import NO_SECONDS, check_refusal, row

Host = tuple[InMemoryCluster, Scheduler]
Call = Callable[[InMemoryCluster, Scheduler], object]

BINDING = PodUID("default/binding")


def check_unchanged(
    host: Host, call: Call, error: type[GangschedError], fields: dict[str, object]
) -> None:
    before = fingerprint(*host)
    check_refusal(lambda: call(*host), error, fields)
    assert fingerprint(*host) == before
    goes_on(*host)


def goes_on(cluster: InMemoryCluster, scheduler: Scheduler) -> None:
    """Hold a scheduler to working as if nothing had happened."""
    pod = make_pod("afterwards", cpu="1m", priority=99)
    scheduler.handle(cluster.apply(PodAdded(pod)), now=NOW)
    scheduler._check()
    assert any(entity.pod == pod for entity in scheduler.queue.active)


def handle(event: Any, **given: Any) -> Call:
    return lambda _cluster, scheduler: scheduler.handle(event, **{"now": NOW, **given})


TIMED: dict[str, Callable[[Scheduler, Any], object]] = {
    "handle": lambda s, now: s.handle(PodAdded(make_pod("p")), now=now),
    "advance": lambda s, now: s.advance(now=now),
    "schedule_one": lambda s, now: s.schedule_one(now=now),
    "rebuild": lambda s, now: s.rebuild(now=now),
}
INSTANTS = [
    row(
        f"{name} at {x!r:.8}",
        lambda _cluster, scheduler, timed=timed, x=x: timed(scheduler, x),
        InvalidValueError,
        field="now",
        value=x,
    )
    for name, timed in TIMED.items()
    for x in (NOW - 0.1, -1, *NO_SECONDS)
]

NO_POD: Any = None
NO_FACT = "ends in assert_never, or in a builtin from the middle of things"
FACTS = [
    row(
        "a bind that the cluster does not show",
        handle(Bound(BINDING, NodeName("n2"), 1)),
        ClusterStateError,
        subject="default/binding",
        problem="was bound, and the cluster state does not show it",
    ),
    *[
        row(
            f"the fact {x!r}",
            handle(x),
            InvalidValueError,
            field="event",
            value=x,
        )
        for x in (None, 5, "PodAdded", Pod(name="p"), PodAdded)
    ],
    row(
        "a pod that is none",
        handle(PodAdded(NO_POD)),
        InvalidValueError,
        field="pod",
        value=None,
    ),
]


@pytest.mark.parametrize(("call", "error", "fields"), [*INSTANTS, *FACTS])
def test_call_that_is_refused_has_changed_nothing(
    call: Call, error: type[GangschedError], fields: dict[str, object]
) -> None:
    check_unchanged(busy_scheduler(), call, error, fields)


@pytest.mark.parametrize("x", NO_SECONDS, ids=lambda x: f"{x!r:.8}")
@pytest.mark.parametrize("name", TIMED)
def test_first_call_that_is_refused_has_not_taken_anything_in(name: str, x: Any) -> None:
    cluster = InMemoryCluster()
    cluster.apply(PodAdded(make_pod("p")))
    scheduler = presets.coscheduling(cluster)
    before = fingerprint(cluster, scheduler)
    check_refusal(lambda: TIMED[name](scheduler, x), InvalidValueError, {"field": "now"})
    assert fingerprint(cluster, scheduler) == before
    scheduler.advance(now=-5.0)
    assert len(scheduler.queue) == 1


# Events that change nothing -------------------------------------------------------------------

STRANGER = PodUID("default/stranger")
NO_NEWS: list[Event] = [
    PodAdded(make_pod("stranger")),  # which the cluster does not show
    PodUpdated(make_pod("stranger")),
    PodDeleted(STRANGER),
    NodeDeleted(NodeName("nowhere")),
    NodeUpdated(Node(name=NodeName("nowhere"))),
    PodGroupDeleted(GroupKey("default/nobody")),
    Bound(STRANGER, NodeName("n1"), 1),
    BindFailed(STRANGER, 1, "why"),
    BindFailed(BINDING, 0, "of an attempt that never was"),
    BindFailed(BINDING, 2, "of an attempt that is to come"),
    Bound(BINDING, NodeName("n2"), 7),
    BindFailed(PodUID("default/w-0"), 1, "it only waits"),
    BindFailed(PodUID("default/bound"), 1, "it is bound"),
    Bound(PodUID("default/bound"), NodeName("n1"), 1),
]


NO_NEWS_IDS = [f"{type(event).__name__}-{n}" for n, event in enumerate(NO_NEWS)]


@pytest.mark.parametrize("event", NO_NEWS, ids=NO_NEWS_IDS)
def test_event_about_an_unknown_pod_or_an_old_attempt_changes_nothing(event: Event) -> None:
    """F14: a fact says what to look at; what is there is read from the cluster state."""
    cluster, scheduler = busy_scheduler()
    before = fingerprint(cluster, scheduler)
    assert scheduler.handle(event, now=NOW) == ()
    assert fingerprint(cluster, scheduler) == before
    goes_on(cluster, scheduler)


# A cluster state that contradicts itself ------------------------------------------------------


class Lying:
    """A cluster state that shows a pod of ``n1`` on ``n2`` too, once it lies."""

    def __init__(self, cluster: InMemoryCluster) -> None:
        self._cluster = cluster
        self.lies = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def pods_on(self, node: NodeName) -> Iterable[Pod]:
        return self._cluster.pods_on(NodeName("n1") if self.lies and node == "n2" else node)


def lied_to() -> tuple[InMemoryCluster, Lying, Scheduler]:
    cluster = InMemoryCluster()
    lying = Lying(cluster)
    scheduler = presets.coscheduling(lying)
    for name in ("n1", "n2"):
        node = Node(name=NodeName(name), allocatable={"cpu": 4})
        cluster.apply(NodeUpdated(node))
    cluster.apply(PodAdded(evolve(make_pod("there", cpu=1), node_name=NodeName("n1"))))
    cluster.apply(PodAdded(make_pod("new", cpu=1)))
    scheduler.advance(now=1.0)
    lying.lies = True
    return cluster, lying, scheduler


LIES: dict[str, Callable[[Scheduler], object]] = {
    "node": lambda s: s.handle(NodeUpdated(Node(name=NodeName("n2"))), now=1.0),
    "rebuild": lambda s: s.rebuild(now=1.0),
}


@pytest.mark.parametrize("how", LIES)
def test_pod_shown_on_another_node_is_reported_and_changes_nothing(how: str) -> None:
    cluster, lying, scheduler = lied_to()
    before = fingerprint(cluster, scheduler)
    expected = {"subject": "default/there", "problem": "is shown on n2, is on n1"}
    check_refusal(lambda: LIES[how](scheduler), ClusterStateError, expected)
    assert fingerprint(cluster, scheduler) == before
    lying.lies = False
    LIES[how](scheduler)
    scheduler._check()
    assert scheduler.schedule_one(now=1.0) is not None


# Membership -----------------------------------------------------------------------------------


def raising(_pod: Pod) -> Any:
    raise ZeroDivisionError("oops")


def refusing(_pod: Pod) -> Any:
    raise InvalidValueError("group", "g", "something else")


CLAIMS = [
    row("a membership that raises", raising, PluginError, plugin="membership", point="membership"),
    row(
        "a membership that refuses", refusing, PluginError, plugin="membership", subject="default/q"
    ),
    *[
        row(
            f"a membership of {x!r}",
            lambda _pod, x=x: x,
            PluginError,
            plugin="membership",
            point="membership",
            subject="default/q",
        )
        for x in ("g", 5, True)
    ],
]


@pytest.mark.parametrize(("call", "error", "fields"), CLAIMS)
def test_membership_that_misbehaves_is_named_and_nothing_has_changed(
    call: Callable[[Pod], Any], error: type[GangschedError], fields: dict[str, object]
) -> None:
    cluster, faulty = InMemoryCluster(), False
    scheduler = Scheduler(
        cluster,
        presets.coscheduling_profile(),
        membership=lambda pod: call(pod) if faulty else None,
    )
    scheduler.handle(cluster.apply(PodAdded(make_pod("p"))), now=NOW)
    faulty, event = True, cluster.apply(PodAdded(make_pod("q")))
    check = fingerprint(cluster, scheduler)
    check_refusal(lambda: scheduler.handle(event, now=NOW), error, fields)
    assert fingerprint(cluster, scheduler) == check
    faulty = False
    scheduler.handle(event, now=NOW)
    assert len(scheduler.queue) == 2
