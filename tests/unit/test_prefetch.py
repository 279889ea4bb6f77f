"""What is looked at before a fact changes anything: all that it may touch, and no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bound,
    Event,
    GroupKey,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    NodeUpdated,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodUpdated,
    Scheduler,
    presets,
)
from gangsched.errors import PluginError
from gangsched.framework.events import dispatch, prefetch
from gangsched.framework.state.scheduler_state import State
from gangsched.testing import make_pod
from support.busy import NOW, tell

N1, N2 = NodeName("n1"), NodeName("n2")
A, B = (make_pod(name, group="g", min_available=2) for name in "ab")
CONTRADICTS = make_pod("c", group="g", min_available=1)


def a_state(*pods: Pod, membership: Any = None) -> tuple[InMemoryCluster, State]:
    """Return a cluster and the scheduler's memory of it, with some pods reported."""
    cluster = InMemoryCluster()
    given = {} if membership is None else {"membership": membership}
    scheduler = Scheduler(cluster, presets.coscheduling_profile(), **given)
    for name in (N1, N2):
        tell(cluster, scheduler, NodeAdded(Node(name=name)), now=NOW)
    for pod in pods:
        tell(cluster, scheduler, PodAdded(pod), now=NOW)
    return cluster, scheduler._state


def on(pod: Pod, node: NodeName) -> Pod:
    return evolve(pod, node_name=node)


def looks(state: State) -> tuple[set[str], set[str]]:
    """Return which pods and which nodes were looked at."""
    return set(state.call.seen), set(state.nodes._looked)


@pytest.mark.parametrize(
    "survey",
    [
        lambda state: prefetch.pod(state, A.uid),
        lambda state: prefetch.group(state, GroupKey("default/g")),
    ],
    ids=["the-pod", "its-group"],
)
def test_both_nodes_of_a_moved_pod_are_refreshed(survey: Callable[[State], None]) -> None:
    cluster, state = a_state(on(A, N1))
    cluster.apply(PodAdded(on(A, N2)))
    survey(state)
    assert looks(state) == ({A.uid}, {N1, N2})
    prefetch.close(state.nodes, state.call)
    assert looks(state) == (set(), set())


def test_listing_looks_at_what_is_shown_and_at_what_is_known() -> None:
    cluster, state = a_state(on(A, N1))
    cluster.apply(PodDeleted(A.uid))
    cluster.apply(PodAdded(B))
    prefetch.everything(state)
    assert looks(state) == ({A.uid, B.uid}, {N1, N2})
    assert state.call.seen[A.uid] is None


@pytest.mark.parametrize(
    ("others", "change", "all_are_looked_at"),
    [
        ([B], PodAdded(evolve(A, labels={**A.labels, "new": "yes"})), False),
        ([B], PodDeleted(A.uid), False),
        ([B, CONTRADICTS], None, False),
        ([B, CONTRADICTS], PodAdded(evolve(A, labels={**A.labels, "new": "yes"})), False),
        ([B, CONTRADICTS], PodDeleted(A.uid), False),
        ([CONTRADICTS], PodAdded(evolve(A, labels={**A.labels, "new": "yes"})), True),
        ([CONTRADICTS], PodAdded(evolve(A, priority=1)), True),
        ([CONTRADICTS], PodDeleted(A.uid), True),
    ],
    ids=[
        "changes",
        "goes",
        "stays-beside-a-refused",
        "changes-beside-another-with-its-claim",
        "goes-beside-another-with-its-claim",
        "changes-alone-with-its-claim",
        "changes-its-claim",
        "goes-with-its-claim",
    ],
)
def test_other_members_are_reread_when_a_refused_one_may_join(
    others: list[Pod], change: PodAdded | PodDeleted | None, all_are_looked_at: bool
) -> None:
    cluster, state = a_state(A, *others)
    if change is not None:
        cluster.apply(change)
    prefetch.pod(state, A.uid)
    expected = {A.uid, *(pod.uid for pod in others)} if all_are_looked_at else {A.uid}
    assert looks(state) == (expected, set())


def test_claim_that_is_well_formed_has_no_problem() -> None:
    _cluster, state = a_state(A)
    seen = prefetch.look(state.settings, state.pod_classes, state.call, A.uid)
    assert seen is not None
    assert (seen.pod, seen.problem) == (A, None)


def raising(_pod: Pod) -> None:
    raise ZeroDivisionError("oops")


@pytest.mark.parametrize(
    ("membership", "problem"),
    [(raising, "raised ZeroDivisionError('oops')"), (lambda _pod: 5, "returned 5")],
    ids=["raises", "returns-something-else"],
)
def test_membership_that_misbehaves_is_named_with_what_it_did(
    membership: Any, problem: str
) -> None:
    with pytest.raises(PluginError) as caught:
        a_state(A, membership=membership)
    error = caught.value
    assert (error.plugin, error.point, error.subject) == ("membership", "membership", A.key)
    assert error.problem == problem


MEMBERS = {A.uid, B.uid}
SPEC = PodGroup(name="g", min_available=2)


@pytest.mark.parametrize(
    ("event", "pods", "nodes"),
    [
        (PodUpdated(A), {A.uid}, set[str]()),
        (PodDeleted(A.uid), {A.uid}, set[str]()),
        (Bound(A.uid, N1, 1), {A.uid}, set[str]()),
        (NodeUpdated(Node(name=N1)), set[str](), {N1}),
        (NodeDeleted(N1), set[str](), {N1}),
        (PodGroupAdded(SPEC), MEMBERS, set[str]()),
        (PodGroupDeleted(SPEC.key), MEMBERS, set[str]()),
    ],
    ids=lambda given: type(given).__name__,
)
def test_subject_of_each_event_is_read(event: Event, pods: set[str], nodes: set[str]) -> None:
    cluster = InMemoryCluster()
    scheduler = Scheduler(cluster, presets.coscheduling_profile())
    for fact in (NodeAdded(Node(name=N1)), PodAdded(A), PodAdded(B)):
        tell(cluster, scheduler, fact, now=NOW)
    dispatch.survey(scheduler._state, event)
    assert looks(scheduler._state) == (pods, nodes)
