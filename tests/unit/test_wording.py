"""What a refusal says, to the letter: the whole sentence that a user reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gangsched import (
    Backfill,
    Backoff,
    Coscheduling,
    GroupKey,
    InMemoryCluster,
    MatchPolicy,
    Node,
    NodeName,
    Order,
    PlacementStrategy,
    PodGroupCounters,
    PodGroupRegistry,
    Preemption,
    Scheduler,
    SchedulingUnit,
    WaitingMap,
    WhenBindFails,
    WhenBlocked,
    presets,
)
from gangsched._core._heap import PriorityHeap
from gangsched.errors import GangschedError
from support.refusals import INF, NAN

Call = Callable[[], object]

# of no type, as what is given is of the wrong one
NO_PROFILE: Any = "x"
NO_CLUSTER: Any = "x"
BACKOFF: Any = Backoff()
BACKFILL = Backfill()
REGISTRY: Any = PodGroupRegistry()
COUNTERS: Any = PodGroupCounters()
HEAP: Any = PriorityHeap()
OTHER_HEAP: Any = PriorityHeap()
WAITS: Any = WaitingMap()
WAITS.wait("u", node="n", timeout=1, now=0)


def waits(**given: Any) -> Call:
    every = {"uid": "v", "node": "n", "timeout": 1, "now": 0, "group": None}
    return lambda: WAITS.wait(**{**every, **given})


LATER = Scheduler(InMemoryCluster(), presets.coscheduling_profile())
LATER.advance(now=2.5)


def scheduler(**given: Any) -> Call:
    return lambda: Scheduler(InMemoryCluster(), presets.coscheduling_profile(), **given)


def smallest(**given: Any) -> Call:
    every = {"group": GroupKey("ns/g"), "shape": Node(name=NodeName("n")), "most": 1}
    return lambda: LATER.smallest_change(**{**every, **given})


SECONDS = "seconds, finite and not negative"
AT_LEAST_ONE = "a whole number of at least 1"
COMPARABLE = "a key that can be compared with those that are in the heap, and with itself"
SENTENCES: list[tuple[Call, str]] = [
    # policies
    (lambda: Backfill(NO_PROFILE), "run_times: expected RunTimes or None, got 'x'"),
    (lambda: Backfill(after_attempts=0), f"after_attempts: expected {AT_LEAST_ONE}, got 0"),
    (lambda: Backfill(least_members=0), f"least_members: expected {AT_LEAST_ONE}, got 0"),
    (lambda: Backfill(after_seconds=-0.5), f"after_seconds: expected {SECONDS}, got -0.5"),
    (lambda: Backfill(overdue_after=INF), f"overdue_after: expected {SECONDS}, got inf"),
    (lambda: Backfill(drain_for=0), "drain_for: expected a finite number of seconds > 0, got 0"),
    (lambda: Preemption(grace=-2), f"grace: expected {SECONDS}, got -2"),
    (
        lambda: Preemption(search_budget=-2),
        "search_budget: expected a whole number, not negative, got -2",
    ),
    (
        lambda: Preemption(search_budget=BACKOFF),
        f"search_budget: expected a whole number, not negative, got {BACKOFF!r}",
    ),
    (lambda: Backoff(0), "initial: expected seconds, finite and more than 0, got 0"),
    (lambda: Backoff(2.5, 1), "maximum: expected seconds, finite and at least 2.5, got 1"),
    (lambda: BACKOFF.delay("x"), "failures: expected a whole number, got 'x'"),
    (lambda: Order("x"), "order: expected one of last_failure, creation, got 'x'"),
    (
        lambda: Scheduler(InMemoryCluster(), NO_PROFILE),
        "profile: expected a Profile, got 'x'",
    ),
    (
        lambda: Scheduler(NO_CLUSTER, presets.coscheduling_profile()),
        "cluster: expected a ClusterState, which has the methods nodes, node, pods, pod, pods_on,"
        " pod_groups, pod_group, got 'x'",
    ),
    (scheduler(membership=5), "membership: expected a function of a pod, got 5"),
    (scheduler(backoff=5), "backoff: expected a Backoff or None, got 5"),
    (scheduler(group_grace=-1), f"group_grace: expected {SECONDS}, got -1"),
    (
        scheduler(search_budget=-1),
        "search_budget: expected a whole number, not negative, got -1",
    ),
    (scheduler(preemption=5), "preemption: expected a Preemption or None, got 5"),
    (scheduler(backfill=5), "backfill: expected a Backfill or None, got 5"),
    (
        scheduler(backfill=BACKFILL, unit=SchedulingUnit.POD),
        f"backfill: expected None, with the unit pod, got {BACKFILL!r}",
    ),
    (smallest(group=5), "group: expected the key of a group, or a PodGroup, got 5"),
    (smallest(shape=5), "shape: expected a Node, got 5"),
    (smallest(most=-1), "most: expected a whole number, not negative, got -1"),
    (lambda: LATER.advance(now=NAN), "now: expected a finite number of seconds, got nan"),
    (lambda: LATER.advance(now=1), "now: expected an instant not before 2.5, got 1"),
    (lambda: SchedulingUnit("x"), "unit: expected one of pod, group, got 'x'"),
    (
        lambda: PlacementStrategy("x"),
        "placement: expected one of auto, pack, spread, score, got 'x'",
    ),
    (
        lambda: MatchPolicy("x"),
        "match_policy: expected one of once_satisfied, waiting_and_running, only_waiting, got 'x'",
    ),
    (
        lambda: WhenBlocked("x"),
        "when_blocked: expected one of until_others_turn, until_timeout, at_once, got 'x'",
    ),
    (
        lambda: WhenBindFails("x"),
        "when_bind_fails: expected one of retry_member, release_group, got 'x'",
    ),
    (
        lambda: Coscheduling(reject_percentage=101),
        "reject_percentage: expected a whole number between 0 and 100, got 101",
    ),
    (lambda: Coscheduling(permit_timeout=-1), f"permit_timeout: expected {SECONDS}, got -1"),
    # machines
    (lambda: PodGroupRegistry(grace=-1), f"grace: expected {SECONDS}, got -1"),
    (
        lambda: REGISTRY.leave("ns/g", "u", now="x"),
        "now: expected a finite number of seconds, got 'x'",
    ),
    (lambda: REGISTRY.declare(5), "group: expected a PodGroup, got 5"),
    (lambda: COUNTERS.set("u", None), "state: expected a MemberState, got None"),
    (lambda: COUNTERS.count("x"), "state: expected a MemberState, got 'x'"),
    (lambda: COUNTERS.give_role("u", "ps"), "uid: expected a member, got 'u'"),
    (waits(uid=5), "uid: expected a text, got 5"),
    (waits(uid="u"), "uid: expected a pod that does not wait already, got 'u'"),
    (waits(node=5), "node: expected a text, got 5"),
    (waits(group=5), "group: expected a text, got 5"),
    (waits(attempt=-1), "attempt: expected a whole number, not negative, got -1"),
    (lambda: WAITS.put(5), "pod: expected a WaitingPod, got 5"),
    (waits(timeout=-1), f"timeout: expected {SECONDS}, got -1"),
    (
        waits(timeout=1e308, now=1.7e308),
        "timeout: expected seconds that can be added to 1.7e+308, got 1e+308",
    ),
    (waits(now=None), "now: expected a finite number of seconds, got None"),
    (lambda: WAITS.expire(now=INF), "now: expected a finite number of seconds, got inf"),
    # the heap
    (lambda: HEAP.push(NAN, "nan"), f"key: expected {COMPARABLE}, got nan"),
    (HEAP.pop, "pop from an empty heap"),
    (HEAP.peek, "peek at an empty heap"),
    (
        lambda: HEAP.remove(OTHER_HEAP.push(0, "")),
        "handle: expected a handle of an item in this heap, got 1",
    ),
    (lambda: HEAP.remove("x"), "handle: expected a handle of an item in this heap, got 'x'"),
]


@pytest.mark.parametrize(("call", "says"), SENTENCES, ids=[says for _call, says in SENTENCES])
def test_a_refusal_says_what_was_expected_and_what_was_given(call: Call, says: str) -> None:
    with pytest.raises((GangschedError, IndexError)) as caught:
        call()
    assert str(caught.value) == says


def test_what_is_not_equal_to_itself_is_said_to_be_why_a_key_is_refused() -> None:
    with pytest.raises(GangschedError) as caught:
        HEAP.push((0, NAN), "nan")
    assert str(caught.value.__cause__) == "not equal to itself"
