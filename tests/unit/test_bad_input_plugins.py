"""A plugin that raises or returns a wrong value, at every point, in a busy scheduler.

In a scheduling cycle the error changes nothing, which is compared by fingerprint. In an event the
scheduler goes on with the safe answer, which is compared with a twin whose plugin gives it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bound,
    Effect,
    GroupKey,
    InMemoryCluster,
    NodeName,
    PodAdded,
    PodDeleted,
    PodUID,
    Profile,
    RejectGroup,
    Scheduler,
    Success,
    Unschedulable,
    Wait,
)
from gangsched.errors import GangschedError, InvalidValueError, PluginError
from gangsched.plugins import DefaultBinder
from gangsched.profile import POINTS
from gangsched.testing import make_pod
from support.busy import NOW, busy_scheduler, tell
from support.faulty_plugin import FaultyPlugin, bind_of_another, problem_with
from support.fingerprint import fingerprint, without
from support.refusals import check_refusal

OOPS = ZeroDivisionError("oops")
GROUP = RejectGroup(GroupKey("default/w"), "why")
SUBJECT = "default/active-1"

STOPPING: dict[str, list[Any]] = {
    "pre_filter": [OOPS, None, "no", True, Wait(1.0), GROUP],
    "filter": [OOPS, None, "no", True, Wait(1.0), GROUP],
    "post_filter": [OOPS, None, "no", Wait(1.0)],
    "pre_score": [OOPS, None, "no", Wait(1.0)],
    "score": [OOPS, None, "best", 1.5, float("nan"), True, -1, 101, 10**100],
    "reserve": [OOPS, None, "no", Wait(1.0), GROUP],
    "permit": [OOPS, None, "no", 5.0, GROUP],
    "pre_bind": [OOPS, None, "no", Wait(1.0), GROUP],
    "bind": [OOPS, None, "done", Success(), bind_of_another],
    "headroom": [OOPS, None, "much", 1.5, True, -1],
}
"""The points of the cycle of one pod, and wrong answers there."""


def host(*points: str) -> tuple[InMemoryCluster, Scheduler, FaultyPlugin]:
    """Return a busy scheduler with a faulty plugin that has *points*, and what they need."""
    needed = {"headroom": ("filter",), "post_filter": ("filter",), "unreserve": ("reserve",)}
    every = {*points, *(other for point in points for other in needed.get(point, ()))}
    if "reserve" in every:
        every.add("unreserve")
    if every & {"filter", "score"} and not every & {"pre_score", "post_filter"}:
        every.add("pod_signature")
    faulty = FaultyPlugin(*sorted(every))
    cluster, scheduler = busy_scheduler(faulty)
    while scheduler.queue.head() is None or len(scheduler.queue.active) > 1:
        assert (
            scheduler.schedule_one(now=NOW) is not None
        )  # the group that yields is rejected by now
    return cluster, scheduler, faulty


STOPS = pytest.mark.parametrize(
    ("point", "answer"),
    [
        pytest.param(point, answer, id=f"{point}-{n}")
        for point, answers in STOPPING.items()
        for n, answer in enumerate(answers)
    ],
)
CLOCKS = (r"\]\._state\.attempts\.step$", r"\]\._state\.nodes\.(version|classes)")
"""What only ascends, and means nothing by itself."""
KEPT = (
    r"\]\._state\.pod_classes\.by_signature\[\d+\]\.judgements\.(_judged|_seen|_epoch|_nodes|_by_max_pods)",
    r"\]\._state\.pod_classes\.by_signature\[\d+\]\.(_order|_ordered|_reasons|headroom)",
)
"""Cached answers about nodes."""
TURNS = (r"\.(round|tried)_step$", r"\]\._state\.attempts\.tried")
"""Which entity was tried last."""


ANOTHER = bind_of_another(make_pod("active-1"), NodeName("n1"), 1, now=NOW)


def interrupt(
    host: tuple[InMemoryCluster, Scheduler, FaultyPlugin], point: str, answer: Any
) -> PluginError:
    """Let the plugin fail in the next cycle."""
    _cluster, scheduler, faulty = host
    if point == "post_filter":
        faulty.answers["filter"] = Unschedulable("full")
    faulty.answers[point] = answer
    with pytest.raises(PluginError) as caught:
        scheduler.schedule_one(now=NOW)
    scheduler._check()
    return caught.value


@STOPS
def test_error_in_a_cycle_changes_nothing_but_the_cycle_order(point: str, answer: Any) -> None:
    cluster, scheduler, faulty = every = host(point)
    before = without(fingerprint(cluster, scheduler), *CLOCKS, *KEPT, *TURNS)
    for _turn in range(2):
        error = interrupt(every, point, answer)
        assert (error.plugin, error.point, error.subject) == ("FaultyPlugin", point, SUBJECT)
        assert error.problem == problem_with(
            point, ANOTHER if answer is bind_of_another else answer
        )
        assert error.__cause__ is (answer if isinstance(answer, Exception) else None)
        assert without(fingerprint(cluster, scheduler), *CLOCKS, *KEPT, *TURNS) == before
    faulty.answers.clear()
    told = scheduler.schedule_one(now=NOW)
    assert told
    assert getattr(told[-1], "uid", None) == SUBJECT


@STOPS
def test_error_in_a_cycle_keeps_the_cycle_order(point: str, answer: Any) -> None:
    cluster, scheduler, _odd = every = host(point)
    before = without(fingerprint(cluster, scheduler), *CLOCKS, *KEPT)
    interrupt(every, point, answer)
    assert without(fingerprint(cluster, scheduler), *CLOCKS, *KEPT) == before


@pytest.mark.parametrize("answer", [OOPS, [], {}, ([],)], ids=repr)
def test_malformed_signature_is_refused_and_the_pod_stays_unknown(answer: Any) -> None:
    cluster, scheduler, faulty = host("filter")
    arrival = cluster.apply(PodAdded(make_pod("q")))
    before = fingerprint(cluster, scheduler)
    faulty.answers["pod_signature"] = answer
    expected: dict[str, object] = {
        "plugin": "FaultyPlugin",
        "point": "pod_signature",
        "subject": "default/q",
        "problem": problem_with("pod_signature", answer),
    }
    for _turn in range(2):
        check_refusal(lambda: scheduler.handle(arrival, now=NOW), PluginError, expected)
        assert fingerprint(cluster, scheduler) == before
    faulty.answers.clear()
    scheduler.handle(arrival, now=NOW)
    assert len(scheduler.queue.active) == 2


# Where the scheduler goes on --------------------------------------------------------------------

Happens = Callable[[InMemoryCluster, Scheduler], object]


def a_pod_comes(cluster: InMemoryCluster, scheduler: Scheduler) -> None:
    tell(cluster, scheduler, PodAdded(make_pod("q", priority=3)), now=NOW)


def a_holder_goes(cluster: InMemoryCluster, scheduler: Scheduler) -> None:
    tell(cluster, scheduler, PodDeleted(PodUID("default/held")), now=NOW)


def a_bind_is_done(cluster: InMemoryCluster, scheduler: Scheduler) -> None:
    tell(cluster, scheduler, Bound(PodUID("default/binding"), NodeName("n2"), 1), now=NOW)


def holding(cluster: InMemoryCluster, scheduler: Scheduler, faulty: FaultyPlugin) -> None:
    """Make one pod wait on permit."""
    faulty.answers["permit"] = Wait(9.0)
    tell(cluster, scheduler, PodAdded(make_pod("held", priority=9)), now=NOW)
    assert scheduler.schedule_one(now=NOW)
    del faulty.answers["permit"]


GOING_ON: dict[str, tuple[list[Any], Happens, Callable[[GangschedError], object]]] = {
    "pre_enqueue": (
        [OOPS, None, "no", Wait(1.0)],
        a_pod_comes,
        lambda error: Unschedulable(str(error)),
    ),
    "unreserve": ([OOPS, "no", Success()], a_holder_goes, lambda _error: None),
    "post_bind": ([OOPS, "no", Success()], a_bind_is_done, lambda _error: None),
}
GOES_ON = [
    pytest.param(point, answer, id=f"{point}-{n}")
    for point, (answers, _happens, _no) in GOING_ON.items()
    for n, answer in enumerate(answers)
]


@pytest.mark.parametrize(("point", "answer"), GOES_ON)
def test_error_in_an_event_counts_as_the_safe_answer(point: str, answer: Any) -> None:
    _answers, happens, no = GOING_ON[point]
    subject = {"pre_enqueue": "q", "unreserve": "held", "post_bind": "binding"}[point]
    points = {point, "permit", "reserve"} if point == "unreserve" else {point}
    twins = [host(*points), host(*points)]
    for cluster, scheduler, faulty in twins:
        if point == "unreserve":
            holding(cluster, scheduler, faulty)
    cluster, scheduler, faulty = twins[0]
    faulty.answers[point] = answer
    with pytest.raises(PluginError) as caught:
        happens(cluster, scheduler)
    assert (caught.value.plugin, caught.value.point) == ("FaultyPlugin", point)
    assert (caught.value.subject, caught.value.problem) == (
        f"default/{subject}",
        problem_with(point, answer),
    )
    told: list[tuple[Effect, ...]] = [scheduler.advance(now=NOW)]
    scheduler._check()

    cluster, scheduler, faulty = twins[1]
    faulty.answers[point] = no(caught.value)
    happens(cluster, scheduler)
    told.append(scheduler.advance(now=NOW))
    assert fingerprint(*twins[0][:2]) == fingerprint(*twins[1][:2])
    assert told[1] == ()


NO_RANKS: list[Any] = [OOPS, None, 5, "first"]
NOT_COMPARED = [(), (b"first",), ([1],), (None, 0.0), (float("nan"), 0.0), (1, (float("nan"),))]


@pytest.mark.parametrize(
    "answer",
    [pytest.param(x, id=repr(x)) for x in [*NO_RANKS, *NOT_COMPARED]],
)
def test_entity_without_a_sort_key_is_last(answer: Any) -> None:
    faulty, cluster = FaultyPlugin("queue_sort"), InMemoryCluster()
    scheduler = Scheduler(cluster, Profile(faulty, DefaultBinder()))
    tell(cluster, scheduler, PodAdded(make_pod("early")), now=NOW)
    faulty.answers["queue_sort"] = answer
    with pytest.raises(PluginError) as caught:
        tell(cluster, scheduler, PodAdded(make_pod("odd", priority=9)), now=NOW)
    assert (caught.value.plugin, caught.value.point) == ("FaultyPlugin", "queue_sort")
    assert (caught.value.subject, caught.value.problem) == (
        "default/odd",
        problem_with("queue_sort", answer),
    )
    faulty.answers.clear()
    tell(cluster, scheduler, PodAdded(make_pod("late", priority=-9)), now=NOW)
    scheduler._check()
    names = [entity.pod.name for entity in scheduler.queue.active]
    assert names == ["early", "late", "odd"]


# Which plugin is named -----------------------------------------------------------------------


def wait_for_less_than_nothing(*_args: Any, **_kwargs: Any) -> Wait:
    return Wait(-1)


def test_plugin_whose_outcome_is_malformed_is_named() -> None:
    _cluster, scheduler, faulty = host("permit")
    faulty.answers["permit"] = wait_for_less_than_nothing
    with pytest.raises(GangschedError) as caught:
        scheduler.schedule_one(now=NOW)
    assert isinstance(caught.value, PluginError)
    assert isinstance(caught.value.__cause__, InvalidValueError)


def test_every_point_is_in_a_list_above() -> None:
    assert {*STOPPING, *GOING_ON, "queue_sort"} - {"headroom"} == set(POINTS)


def test_pod_update_that_raises_changes_nothing() -> None:
    """A signature is asked for before anything is forgotten."""
    cluster, scheduler, faulty = host("filter")
    before = next(pod for pod in cluster.pods() if pod.uid == SUBJECT)
    event = cluster.apply(PodAdded(evolve(before, labels={"a": "b"})))
    was = fingerprint(scheduler, cluster)
    faulty.answers["pod_signature"] = OOPS
    with pytest.raises(PluginError):
        scheduler.handle(event, now=NOW)
    assert fingerprint(scheduler, cluster) == was
