"""Whole gangs: members wait on permit together, and which plugins are called for which member."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from gangsched import (
    Bind,
    BindFailed,
    GroupRejected,
    GroupScheduled,
    NodeDeleted,
    NodeName,
    Pod,
    PodAdded,
    PodDeleted,
    PodRejected,
    PodUID,
    PodWaiting,
    Release,
    Skip,
    Success,
    Wait,
)
from gangsched.testing import make_pod
from support.busy import NOW, tell
from support.faulty_gang import Host, host, nothing_is_kept
from support.shown import shown

pytestmark = pytest.mark.once("says itself which unit it is about")

# Waiting --------------------------------------------------------------------------------------


def all_wait(host: Host, *seconds: float) -> tuple[Any, ...]:
    """Let the faulty plugin say how long each member is to wait."""
    left = iter(seconds)
    host[2].answers["permit"] = lambda *_args, now: Wait(next(left))
    effects = host[1].schedule_one(now=NOW)
    assert effects is not None
    host[1]._check()
    return effects


def test_permit_plugin_that_returns_wait_makes_all_members_wait() -> None:
    """Until the shortest deadline that it gave."""
    effects = all_wait(waiting := host("permit"), 9.0, 5.0, 7.0)
    assert all(isinstance(e, PodWaiting) for e in effects)
    assert [(e.uid, e.deadline) for e in effects] == [
        (f"default/w-{n}", NOW + 5.0) for n in range(3)
    ]
    assert waiting[1].next_deadline() == NOW + 5.0
    assert len(shown(waiting[1]).assumed) == 3


def test_members_that_wait_for_a_plugin_are_rejected_together_at_their_deadline() -> None:
    all_wait(waiting := host("permit"), 5.0, 5.0, 5.0)
    effects = waiting[1].advance(now=NOW + 5.0)
    assert sum(isinstance(e, PodRejected) for e in effects) == 3
    assert sum(isinstance(e, GroupRejected) for e in effects) == 1
    nothing_is_kept(waiting[1])


@pytest.mark.parametrize("fact", ["a member goes", "the node goes"])
def test_members_that_wait_for_a_plugin_are_released_by_an_event(fact: str) -> None:
    cluster, scheduler, faulty = waiting = host("permit")
    all_wait(waiting, 5.0, 5.0, 5.0)
    goes = {"a member goes": PodDeleted(PodUID("default/w-1"))}
    event = goes.get(fact, NodeDeleted(NodeName("n")))
    faulty.answers["permit"] = lambda *_args, now: Wait(5.0)
    tell(cluster, scheduler, event, now=NOW)
    nothing_is_kept(scheduler)


def test_members_that_wait_for_a_plugin_are_released_together_on_success() -> None:
    cluster, scheduler, faulty = waiting = host("permit", cpu=8)
    all_wait(waiting, 5.0, 5.0, 5.0)
    faulty.answers.clear()
    late = PodAdded(make_pod("w-3", group="w", min_available=3, cpu=2))
    effects = [*scheduler.handle(cluster.apply(late), now=NOW)]
    while (more := scheduler.schedule_one(now=NOW)) is not None:
        effects += more
    (release, *_late) = (e for e in effects if isinstance(e, Release))
    assert {f"default/w-{n}" for n in range(3)} <= set(release.members)
    assert sum(isinstance(e, GroupScheduled) for e in effects) == 1
    scheduler._check()


# Plugin calls ---------------------------------------------------------------------------------

ASKED = ["pre_filter", "reserve", "permit", "pre_bind", "bind"]


def asked_for(wide: str) -> Counter[tuple[str, str]]:
    watched = host(*ASKED, "filter", "score", wide=wide)
    calls: Counter[tuple[str, str]] = Counter()

    def watch(point: str, answer: Any) -> Any:
        def ask(*args: Any, **_kwargs: Any) -> Any:
            pod = next(each for each in args if isinstance(each, Pod))
            calls[point, pod.name] += 1
            return answer

        return ask

    answers: dict[str, Any] = {"score": 0, "bind": Skip()}
    for point in [*ASKED, "filter", "score"]:
        watched[2].answers[point] = watch(point, answers.get(point, Success()))
    effects = watched[1].schedule_one(now=NOW) or ()
    assert sum(isinstance(e, Bind) for e in effects) == 3
    return calls


def test_plugins_are_asked_about_each_member() -> None:
    calls = asked_for("")
    for point in ASKED:
        assert [calls[point, f"w-{n}"] for n in range(3)] == [1, 1, 1]


def test_plugins_that_answer_for_a_group_are_asked_once_at_these_points() -> None:
    wide = ["pre_filter", "reserve", "permit"]
    calls = asked_for(" ".join(wide))
    for point in ASKED:
        expected = [1, 0, 0] if point in wide else [1, 1, 1]
        assert [calls[point, f"w-{n}"] for n in range(3)] == expected


def test_failed_bind_after_the_start_brings_its_member_back_alone() -> None:
    """``bind`` was returned as decided; its report is an event like any other."""
    cluster, scheduler, _odd = host("permit")
    effects = scheduler.schedule_one(now=NOW) or ()
    first = next(e for e in effects if isinstance(e, Bind))
    tell(cluster, scheduler, BindFailed(first.uid, first.attempt, "no"), now=NOW)
    (info,) = scheduler.registry
    assert (info.scheduled, info.unscheduled) == (2, 1)
    scheduler._check()
