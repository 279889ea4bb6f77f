"""The exact message of each error that a user sees."""

from __future__ import annotations

import asyncio
import json
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
    Success,
    WaitingMap,
    WhenBindFails,
    WhenBlocked,
    presets,
)
from gangsched.cycle_state import CycleState
from gangsched.errors import GangschedError
from gangsched.events import VolumeChoice
from gangsched.kubernetes import read_notification
from gangsched.kubernetes._api import ConnectionLost, Response
from gangsched.kubernetes._volume_writer import VolumeRefusedError, VolumeWriter
from gangsched.plugins import NodeResourcesFit
from gangsched.plugins.node_resources import ScoringStrategy
from gangsched.primitives.heap import PriorityHeap
from gangsched.replay import Recipe, read_log
from gangsched.simulation.documents import read_documents
from support.cluster_objects import claim_json
from support.refusals import INF, NAN
from support.views import node_view

Call = Callable[[], object]

# Any, because the values have wrong types
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


def deep(opening: str) -> Call:
    return lambda: list(read_documents(opening * 300, file="f.yaml"))


def recipe(arguments: dict[str, object]) -> Call:
    written = {"preset": "pod_by_pod", "arguments": arguments}
    return lambda: Recipe.from_json(written, path="scheduler")


class QuotaWithState:
    name = "Quota"

    def __init__(self) -> None:
        self.left = 2

    def filter(self, _state: object, _pod: object, _node: object) -> Success:
        return Success()


LATER_WITH_STATE = presets.gang(InMemoryCluster(), plugins=[QuotaWithState()])
RATIO = ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO
POINTS = ((0, 0), (100, 10))
LINES: Any = '{"format":"x"}\n' * 100
SECONDS = "a finite number of seconds >= 0"
AT_LEAST_ONE = "an int >= 1"
COMPARABLE = "comparable with the keys in the heap and equal to itself"
SENTENCES: list[tuple[Call, str]] = [
    # policies
    (lambda: Backfill(NO_PROFILE), "run_times must be a RunTimes or None, got 'x'"),
    (lambda: Backfill(after_attempts=0), f"after_attempts must be {AT_LEAST_ONE}, got 0"),
    (lambda: Backfill(least_members=0), f"least_members must be {AT_LEAST_ONE}, got 0"),
    (lambda: Backfill(after_seconds=-0.5), f"after_seconds must be {SECONDS}, got -0.5"),
    (lambda: Backfill(overdue_after=INF), f"overdue_after must be {SECONDS}, got inf"),
    (lambda: Backfill(drain_for=0), "drain_for must be a finite number of seconds > 0, got 0"),
    (lambda: Preemption(grace=-2), f"grace must be {SECONDS}, got -2"),
    (
        lambda: Preemption(search_budget=-2),
        "search_budget must be an int >= 0, got -2",
    ),
    (
        lambda: Preemption(search_budget=BACKOFF),
        f"search_budget must be an int >= 0, got {BACKOFF!r}",
    ),
    (lambda: Backoff(0), "initial must be a finite number of seconds > 0, got 0"),
    (lambda: Backoff(2.5, 1), "maximum must be a finite number of seconds >= 2.5, got 1"),
    (lambda: BACKOFF.delay("x"), "failures must be an int, got 'x'"),
    (lambda: Order("x"), "order must be one of last_failure, creation, got 'x'"),
    (
        lambda: Scheduler(InMemoryCluster(), NO_PROFILE),
        "profile must be a Profile, got 'x'",
    ),
    (
        lambda: Scheduler(NO_CLUSTER, presets.coscheduling_profile()),
        "cluster must be a ClusterState with the methods nodes, node, pods, pod, pods_on,"
        " pod_groups, pod_group, got 'x'",
    ),
    (
        scheduler(membership=5),
        "membership must be a function from a Pod to a Membership or None, got 5",
    ),
    (scheduler(backoff=5), "backoff must be a Backoff or None, got 5"),
    (scheduler(group_grace=-1), f"group_grace must be {SECONDS}, got -1"),
    (
        scheduler(search_budget=-1),
        "search_budget must be an int >= 0, got -1",
    ),
    (scheduler(preemption=5), "preemption must be a Preemption or None, got 5"),
    (scheduler(backfill=5), "backfill must be a Backfill or None, got 5"),
    (
        scheduler(backfill=BACKFILL, unit=SchedulingUnit.POD),
        f"backfill must be None if unit is 'pod', got {BACKFILL!r}",
    ),
    (smallest(group=5), "group must be a PodGroup or the key of one, got 5"),
    (smallest(shape=5), "shape must be a Node, got 5"),
    (smallest(most=-1), "most must be an int >= 0, got -1"),
    (lambda: LATER.advance(now=NAN), "now must be a finite number of seconds, got nan"),
    (lambda: LATER.advance(now=1), "now must be a number >= 2.5, as in the last call, got 1"),
    (lambda: LATER.what_if(now=2), "now must be a number >= 2.5, as in the last call, got 2"),
    (lambda: SchedulingUnit("x"), "unit must be one of pod, group, got 'x'"),
    (
        lambda: PlacementStrategy("x"),
        "placement must be one of auto, pack, spread, score, got 'x'",
    ),
    (
        lambda: MatchPolicy("x"),
        "match_policy must be one of once_satisfied, waiting_and_running, only_waiting, got 'x'",
    ),
    (
        lambda: WhenBlocked("x"),
        "when_blocked must be one of until_others_turn, until_timeout, at_once, got 'x'",
    ),
    (
        lambda: WhenBindFails("x"),
        "when_bind_fails must be one of release_after_retries, retry_member, release_group,"
        " got 'x'",
    ),
    (
        lambda: Coscheduling(reject_percentage=101),
        "reject_percentage must be an int from 0 to 100, got 101",
    ),
    (lambda: Coscheduling(permit_timeout=-1), f"permit_timeout must be {SECONDS}, got -1"),
    # machines
    (lambda: PodGroupRegistry(grace=-1), f"grace must be {SECONDS}, got -1"),
    (
        lambda: REGISTRY.leave("ns/g", "u", now="x"),
        "now must be a finite number of seconds, got 'x'",
    ),
    (lambda: REGISTRY.set_spec(5), "group must be a PodGroup, got 5"),
    (lambda: COUNTERS.set("u", None), "state must be a MemberState, got None"),
    (lambda: COUNTERS.count("x"), "state must be a MemberState, got 'x'"),
    (lambda: COUNTERS.give_role("u", "ps"), "uid must be the UID of a member, got 'u'"),
    (waits(uid=5), "uid must be a string, got 5"),
    (waits(uid="u"), "uid must be the UID of a pod that is not waiting, got 'u'"),
    (waits(node=5), "node must be a string, got 5"),
    (waits(group=5), "group must be a string, got 5"),
    (waits(attempt=-1), "attempt must be an int >= 0, got -1"),
    (lambda: WAITS.put(5), "pod must be a WaitingPod, got 5"),
    (waits(timeout=-1), f"timeout must be {SECONDS}, got -1"),
    (
        waits(timeout=1e308, now=1.7e308),
        "timeout must be a number of seconds whose sum with now=1.7e+308 is finite, got 1e+308",
    ),
    (waits(now=None), "now must be a finite number of seconds, got None"),
    (lambda: WAITS.expire(now=INF), "now must be a finite number of seconds, got inf"),
    # plugins, readers and recipes
    (
        lambda: NodeResourcesFit(shape=POINTS),
        "shape must be empty unless scoring_strategy is RequestedToCapacityRatio,"
        " got ((0, 0), (100, 10))",
    ),
    (
        lambda: NodeResourcesFit(scoring_strategy=RATIO),
        "shape must be given if scoring_strategy is RequestedToCapacityRatio, got ()",
    ),
    (
        lambda: NodeResourcesFit(scoring_strategy=RATIO, shape=((0, 11),)),
        "shape must be points of two ints, with ascending percentages and scores from 0 to 10,"
        " got (0, 11)",
    ),
    (
        lambda: read_log(LINES),
        "lines must be an iterable of lines, such as an open file or text.splitlines(),"
        " got " + repr(LINES[:80]),
    ),
    (
        deep("{a: "),
        "f.yaml: document 1: a.a.a.a.a.a.a.a.a.a…: nested deeper than 200 levels",
    ),
    (
        deep("- "),
        "f.yaml: document 1: [0][0][0][0][0][0][0][0][0][0]…: nested deeper than 200 levels",
    ),
    (lambda: LATER.why("default/a"), "no pod or pod group 'default/a' is known"),
    (
        recipe({"unit": "pod"}),
        "scheduler.arguments must be among those of presets.pod_by_pod: backoff, preemption,"
        " got 'unit'",
    ),
    (
        recipe({"foo": 3}),
        "scheduler.arguments must be among those of the presets, got 'foo'",
    ),
    (
        lambda: LATER_WITH_STATE.what_if(now=0.0),
        "what_if: plugin 'Quota' has state and no fork method; add fork(), see"
        " gangsched.protocols.StateExtensions",
    ),
    (
        lambda: read_notification({"type": "GONE", "object": {}}),
        "watch: document 1: type: expected ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, got 'GONE'",
    ),
    # the heap
    (lambda: HEAP.push(NAN, "nan"), f"key must be {COMPARABLE}, got nan"),
    (HEAP.pop, "pop from an empty heap"),
    (HEAP.peek, "peek at an empty heap"),
    (
        lambda: HEAP.remove(OTHER_HEAP.push(0, "")),
        "handle must be a handle of an item in this heap, got 1",
    ),
    (lambda: HEAP.remove("x"), "handle must be a handle of an item in this heap, got 'x'"),
]


@pytest.mark.parametrize(("call", "says"), SENTENCES, ids=[says for _call, says in SENTENCES])
def test_message_has_field_expectation_and_value(call: Call, says: str) -> None:
    with pytest.raises((GangschedError, IndexError)) as caught:
        call()
    assert str(caught.value) == says


def test_refused_nan_key_names_its_cause() -> None:
    with pytest.raises(GangschedError) as caught:
        HEAP.push((0, NAN), "nan")
    assert str(caught.value.__cause__) == "not equal to itself"


def test_cycle_without_counts_names_the_argument_that_is_missing() -> None:
    name = NodeName("n")
    state = CycleState(None, {name: node_view(Node(name=name))})
    with pytest.raises(LookupError, match=r"^state\.counts needs the argument counts of .*'n'"):
        _ = state.counts


@pytest.mark.parametrize(
    ("method", "sent", "end"),
    [
        ("GET", True, ""),
        ("GET", False, "; it was not sent"),
        ("PATCH", True, "; it may have been carried out"),
    ],
)
def test_lost_request_says_whether_it_may_have_been_carried_out(
    method: str, sent: bool, end: str
) -> None:
    error = ConnectionLost(method, "/p", "cut off", sent=sent)
    assert str(error) == f"{method} /p: no answer: cut off{end}"


def test_volume_writer_that_gives_up_says_so() -> None:
    class Conflicting:
        async def send(self, method: str, path: str, **_more: Any) -> Response:
            if method == "PATCH":
                return Response(409)
            return Response(200, body=json.dumps(claim_json("c", namespace="team")).encode())

    requests: Any = Conflicting()
    writer = VolumeWriter(requests, lambda _bind, _reason: None)
    with pytest.raises(VolumeRefusedError, match="gave up on claim team/c: it or its volume chan"):
        asyncio.run(writer._write(VolumeChoice("team/c", NodeName("n"))))
