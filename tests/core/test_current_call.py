"""What a call has gathered before it raised is dealt with by the next one."""

from __future__ import annotations

import pytest
from attrs import evolve

from gangsched import (
    ClusterStateError,
    Effect,
    GroupRejected,
    InMemoryCluster,
    NodeAdded,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodRejected,
    PodUpdated,
)
from gangsched.core.scheduler import Scheduler
from gangsched.presets import coscheduling_profile
from gangsched.testing import make_node, make_pod

OTHER = make_pod("other")


class Mixed(InMemoryCluster):
    """A cluster that shows another pod in place of one, and another group while it is wrong."""

    is_wrong: bool = False

    def pod(self, uid: str) -> Pod | None:
        return OTHER if uid == "mixed" else super().pod(uid)

    def pod_group(self, key: str) -> PodGroup | None:
        return PodGroup(name="other", min_available=1) if self.is_wrong else super().pod_group(key)


def scheduler_with_waiting_member() -> tuple[Scheduler, float]:
    """Return a scheduler of whose gang one member waits and one fits nowhere, and the deadline."""
    cluster = Mixed()
    scheduler = Scheduler(cluster, coscheduling_profile())
    scheduler.handle(cluster.apply(NodeAdded(make_node("n", cpu=2))), now=0.0)
    for number in range(2):
        pod = make_pod(f"m{number}", group="g", min_available=2, cpu=2)
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    while scheduler.schedule_one(now=0.0) is not None:
        pass
    deadline = scheduler.next_deadline()
    assert deadline is not None
    return scheduler, deadline


def raised_at_deadline() -> tuple[Scheduler, float]:
    """Return a scheduler of which a call raised after it had ended the wait."""
    scheduler, deadline = scheduler_with_waiting_member()
    with pytest.raises(ClusterStateError, match="is shown by the cluster state as"):
        scheduler.handle(PodAdded(make_pod("mixed", uid="mixed")), now=deadline)
    return scheduler, deadline


def effects_at_deadline() -> tuple[Effect, ...]:
    """Return the effects of a call that does not raise."""
    scheduler, deadline = scheduler_with_waiting_member()
    effects = scheduler.advance(now=deadline)
    assert {PodRejected, GroupRejected} <= {type(effect) for effect in effects}
    return effects


def test_next_call_settles_what_a_call_that_raised_has_left() -> None:
    scheduler, deadline = raised_at_deadline()
    scheduler._state.call._check()
    assert scheduler.advance(now=deadline) == effects_at_deadline()
    scheduler._check()


def test_question_answers_with_what_a_call_that_raised_has_left() -> None:
    scheduler, deadline = raised_at_deadline()
    expected = effects_at_deadline()
    assert scheduler.what_if(now=deadline).effects[: len(expected)] == expected


def test_pod_is_read_anew_after_a_listing_that_raised() -> None:
    cluster = Mixed()
    scheduler = Scheduler(cluster, coscheduling_profile())
    pod = make_pod("a")
    for event in (
        NodeAdded(make_node("n", cpu=2)),
        PodGroupAdded(PodGroup(name="g", min_available=1)),
        PodAdded(pod),
    ):
        scheduler.handle(cluster.apply(event), now=0.0)
    cluster.is_wrong = True
    with pytest.raises(ClusterStateError):
        scheduler.rebuild(now=0.0)
    cluster.is_wrong = False
    bound = cluster.apply(PodUpdated(evolve(pod, node_name="n")))
    scheduler.handle(bound, now=0.0)
    assert scheduler.schedule_one(now=0.0) is None
