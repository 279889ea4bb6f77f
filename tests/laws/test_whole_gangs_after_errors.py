"""Whole gangs: a plugin that raises or says no amid a gang's cycle leaves nothing behind."""

from __future__ import annotations

import pytest

from gangsched import (
    Bind,
    GroupRejected,
    Pod,
    PodUnschedulable,
    Skip,
    Success,
    Unschedulable,
)
from gangsched.errors import PluginError
from support.busy import NOW
from support.faulty_gang import host, memory, nothing_is_kept, only
from support.faulty_plugin import OOPS, interrupt
from support.shown import shown

pytestmark = pytest.mark.once("says itself which unit it is about")

# Raising --------------------------------------------------------------------------------------

POINTS = ["pre_filter", "filter", "score", "reserve", "permit", "pre_bind", "post_filter"]
LATER = ["pre_filter", "reserve", "permit", "pre_bind"]


@pytest.mark.parametrize("point", [*POINTS, "pre_score", "bind"])
def test_cycle_of_a_gang_that_raises_changes_nothing(point: str) -> None:
    broken = host(point)
    before = memory(broken)
    for _again in range(2):
        error = interrupt(*broken[1:], point)
        assert (error.plugin, error.point, error.subject) == ("FaultyPlugin", point, "default/w-0")
        assert error.__cause__ is OOPS
        assert memory(broken) == before
        nothing_is_kept(broken[1])


@pytest.mark.parametrize("name", ["w-1", "w-2"])
@pytest.mark.parametrize("point", [*LATER, "bind"])
def test_gang_starts_as_usual_after_the_cycle_of_a_later_member_raised(
    point: str, name: str
) -> None:
    broken = host(point)
    before = memory(broken)
    sound = Skip() if point == "bind" else Success()
    error = interrupt(*broken[1:], point, only(name, sound, OOPS))
    assert (error.point, error.subject) == (point, f"default/{name}")
    assert memory(broken) == before
    nothing_is_kept(broken[1])


def test_members_are_unreserved_once_when_the_cycle_raises() -> None:
    broken = host("reserve", "permit")
    given_back: list[str] = []

    def unreserve(_state: object, pod: Pod, _node: object, *, cause: str, now: float) -> None:
        given_back.append(f"{pod.name} {cause}")

    broken[2].answers = {"unreserve": unreserve, "permit": OOPS}
    with pytest.raises(PluginError):
        broken[1].schedule_one(now=NOW)
    assert given_back == ["w-2 refused", "w-1 refused", "w-0 refused"]


@pytest.mark.parametrize("point", POINTS)
def test_gang_starts_as_usual_after_a_cycle_was_broken_off(point: str) -> None:
    broken, whole = host(point), host(point)
    interrupt(*broken[1:], point)
    assert broken[1].schedule_one(now=NOW) == whole[1].schedule_one(now=NOW)
    assert memory(broken) == memory(whole)
    (info,) = broken[1].registry
    assert (info.attempts, info.scheduled) == (1, 3)


# Turning down ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["w-0", "w-1", "w-2"])
@pytest.mark.parametrize("point", LATER)
def test_refusal_of_one_member_refuses_the_gang(point: str, name: str) -> None:
    """F19: a member that has taken a node has released it before the call ends."""
    refused = host(point)
    refused[2].answers[point] = only(name, Success(), Unschedulable("not this one"))
    effects = refused[1].schedule_one(now=NOW)
    assert effects is not None
    blamed, *_others = (e for e in effects if isinstance(e, PodUnschedulable))
    (fall,) = (e for e in effects if isinstance(e, GroupRejected))
    assert len(effects) == 1 + 3, "each member is told once, and the gang"
    assert "not this one" in blamed.reason
    assert fall.retry_after == NOW + 1.0
    nothing_is_kept(refused[1])
    refused[2].answers.clear()
    assert refused[1].schedule_one(now=NOW) is None
    refused[1].advance(now=NOW + 1.0)
    again = refused[1].schedule_one(now=NOW + 1.0) or ()
    assert sum(isinstance(e, Bind) for e in again) == 3


@pytest.mark.parametrize("point", ["pre_filter", "pre_bind"])
def test_extra_member_that_is_refused_does_not_stop_the_gang(point: str) -> None:
    refused = host(point, minimum=2)
    refused[2].answers[point] = only("w-1", Success(), Unschedulable("not this one"))
    effects = refused[1].schedule_one(now=NOW) or ()
    assert [e.uid for e in effects if isinstance(e, Bind)] == ["default/w-0", "default/w-2"]
    assert len(shown(refused[1]).assumed) == 2
    refused[1]._check()
    again = refused[1].schedule_one(now=NOW)
    assert again is None or not [e for e in again if isinstance(e, Bind)]
    assert refused[1].schedule_one(now=NOW) is None, "it backs off"


@pytest.mark.parametrize("point", ["pre_filter", "reserve"])
def test_group_wide_refusal_refuses_the_whole_gang(point: str) -> None:
    """It is asked about the first member only, which is the reported one."""
    refused, asked = host(point, wide=point), list[str]()

    def turn_down(_cycle: object, pod: Pod, *_args: object, now: float) -> Unschedulable:
        asked.append(pod.name)
        return Unschedulable("not this gang")

    refused[2].answers[point] = turn_down
    effects = refused[1].schedule_one(now=NOW) or ()
    blamed, *_others = (e for e in effects if isinstance(e, PodUnschedulable))
    assert (blamed.uid, blamed.reason) == ("default/w-0", "not this gang")
    assert asked == ["w-0"]
    nothing_is_kept(refused[1])
    refused[2].answers.clear()
    refused[1].advance(now=NOW + 1.0)
    again = refused[1].schedule_one(now=NOW + 1.0) or ()
    assert sum(isinstance(e, Bind) for e in again) == 3
