"""Bundles: a plugin that raises, says no or waits amid a bundle's cycle leaves nothing behind."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    BindFailed,
    Bound,
    Coscheduling,
    Evict,
    EvictGroup,
    GroupRejected,
    GroupScheduled,
    HoldGroup,
    InMemoryCluster,
    PluginError,
    Pod,
    PodAdded,
    PodUnschedulable,
    PodUpdated,
    PodWaiting,
    Profile,
    RejectGroup,
    Success,
    Unschedulable,
    Wait,
)
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.testing import make_pod
from support.bundles import AB, key, pods, specs
from support.busy import NOW, tell
from support.cores import make_scheduler
from support.faulty_gang import NEEDED, Host, memory, nothing_is_kept, only
from support.faulty_plugin import OOPS, FaultyPlugin, interrupt
from support.gangs import node
from support.shown import shown
from support.units import current

ALWAYS = ["pre_filter", "filter", "score", "reserve", "permit", "pre_bind", "post_filter"]
LATER = ["pre_filter", "reserve", "permit", "pre_bind"]
TWO = {"two/b-0", "two/b-1"}
MEMBERS = ["a-0", "a-1", "b-0", "b-1"]
Answer = Any


def host(*points: str, cpu: int = 4, wide: str = "") -> Host:
    """Return a bundle that is next, and a faulty plugin that is asked before all others."""
    cluster = InMemoryCluster()
    needed = {*points, *(other for p in points for other in NEEDED.get(p, ()))}
    faulty = FaultyPlugin(*sorted(needed), group_wide=wide.split())
    profile = Profile(faulty, Coscheduling(permit_timeout=50.0), NodeResources(), DefaultBinder())
    scheduler = make_scheduler(cluster, profile, unit=current())
    tell(cluster, scheduler, node("n", cpu), now=NOW)
    for fact in (*specs(*AB), *(PodAdded(p) for group in AB for p in pods(group))):
        tell(cluster, scheduler, fact, now=NOW)
    return cluster, scheduler, faulty


def bound(effects: Any) -> list[str]:
    return [effect.uid for effect in effects or () if isinstance(effect, Bind)]


# Raising --------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", [*ALWAYS, "pre_score", "bind"])
def test_bundle_is_unchanged_after_its_cycle_raised(point: str) -> None:
    broken = host(point)
    before = memory(broken)
    for _again in range(2):
        error = interrupt(*broken[1:], point)
        assert (error.point, error.subject) == (point, "one/a-0")
        assert memory(broken) == before
        nothing_is_kept(broken[1])


@pytest.mark.parametrize("name", MEMBERS[1:])
@pytest.mark.parametrize("point", LATER)
def test_bundle_starts_as_usual_after_the_cycle_of_a_later_member_raised(
    point: str, name: str
) -> None:
    broken = host(point)
    before = memory(broken)
    error = interrupt(*broken[1:], point, only(name, Success(), OOPS))
    assert error.subject.partition("/")[2] == name
    assert memory(broken) == before
    nothing_is_kept(broken[1])


@pytest.mark.parametrize("point", ALWAYS)
def test_bundle_starts_as_usual_after_a_cycle_raised(point: str) -> None:
    broken, whole = host(point), host(point)
    interrupt(*broken[1:], point, only("b-1", Success(), OOPS) if point in LATER else OOPS)
    effects = broken[1].schedule_one(now=NOW)
    assert effects == whole[1].schedule_one(now=NOW)
    assert memory(broken) == memory(whole)
    assert len(bound(effects)) == 4
    starts = [e for e in effects or () if isinstance(e, GroupScheduled)]
    assert [(start.group, start.attempt) for start in starts] == [(group, 1) for group in AB]


def test_unreserve_runs_once_per_plugin_in_reverse_order() -> None:
    broken, given_back = host("reserve", "permit"), list[str]()

    def unreserve(_state: object, pod: Pod, _node: object, *, cause: str, now: float) -> None:
        given_back.append(f"{pod.name} {cause}")

    broken[2].answers = {"unreserve": unreserve, "permit": only("b-1", Success(), OOPS)}
    with pytest.raises(PluginError):
        broken[1].schedule_one(now=NOW)
    assert given_back == ["b-1 refused", "b-0 refused", "a-1 refused", "a-0 refused"]


def test_plugin_that_raises_in_pre_enqueue_keeps_the_bundle_out_of_the_queue() -> None:
    broken = host("pre_enqueue")
    ask = only("b-0", Success(), OOPS)
    broken[2].answers["pre_enqueue"] = lambda pod, group, *, now: ask(group, pod, now=now)
    changed = [evolve(pods("two/b")[0], labels={**pods("two/b")[0].labels, "x": x}) for x in "12"]
    with pytest.raises(PluginError):
        tell(*broken[:2], PodUpdated(changed[0]), now=NOW)
    assert bound(broken[1].schedule_one(now=NOW)) == []
    assert broken[1].schedule_one(now=NOW) is None
    broken[2].answers.clear()
    tell(*broken[:2], PodUpdated(changed[1]), now=NOW)
    assert len(bound(broken[1].schedule_one(now=NOW))) == 4


# Turning down ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("point", LATER)
def test_refusal_of_one_member_refuses_the_bundle(point: str, name: str) -> None:
    """F19: for any of the groups, there is one reason and one backoff."""
    refused = host(point)
    refused[2].answers[point] = only(name, Success(), Unschedulable("not this one"))
    effects = refused[1].schedule_one(now=NOW) or ()
    blamed, *_others = (e for e in effects if isinstance(e, PodUnschedulable))
    fall, *others = (e for e in effects if isinstance(e, GroupRejected))
    assert len(effects) == 1 + 4 + len(others), "each member is told once, and the gang"
    assert {e.reason for e in others} <= {fall.reason}
    assert "not this one" in blamed.reason
    assert (fall.group, fall.retry_after) == ("one/a", NOW + 1.0)
    nothing_is_kept(refused[1])
    assert [info.attempts for info in refused[1].registry] == [1, len(others)]
    refused[2].answers.clear()
    assert refused[1].schedule_one(now=NOW) is None
    refused[1].advance(now=NOW + 1.0)
    assert len(bound(refused[1].schedule_one(now=NOW + 1.0))) == 4


@pytest.mark.parametrize("name", ["a-0", "b-1"])
@pytest.mark.parametrize("point", ["pre_filter", "pre_bind"])
def test_refused_elastic_member_delays_no_other(point: str, name: str) -> None:
    refused = host(point)
    for fact in specs(*AB, minimum=1):
        tell(*refused[:2], fact, now=NOW)
    refused[2].answers[point] = only(name, Success(), Unschedulable("not this one"))
    effects = refused[1].schedule_one(now=NOW)
    gone = [uid.partition("/")[2] for uid in bound(effects)]
    assert gone == [other for other in MEMBERS if other != name]
    refused[1]._check()


@pytest.mark.parametrize("group", AB)
def test_plugin_that_answers_for_a_group_is_asked_for_each_of_the_bundle(group: str) -> None:
    refused, asked = host(*LATER, wide=" ".join(["pre_filter", "reserve", "permit"])), list[str]()

    def permit(_state: object, pod: Pod, _node: object, *, now: float) -> object:
        asked.append(pod.namespace)
        return Unschedulable("no") if f"{pod.namespace}/{pod.name[0]}" == group else Success()

    refused[2].answers["permit"] = permit
    assert bound(refused[1].schedule_one(now=NOW)) == []
    assert asked == ["one", "two"][: AB.index(group) + 1]
    nothing_is_kept(refused[1])


# Waiting --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MEMBERS)
def test_bundle_does_not_wait_on_permit_and_is_rejected_with_a_reason(name: str) -> None:
    waiting = host("permit")
    waiting[2].answers["permit"] = only(name, Success(), Wait(5.0))
    effects = waiting[1].schedule_one(now=NOW) or ()
    assert "one/a" in {e.group for e in effects if isinstance(e, GroupRejected)} <= set(AB)
    blamed, *_others = (e for e in effects if isinstance(e, PodUnschedulable))
    assert blamed.reason == "the groups of a bundle do not wait on permit"
    assert blamed.reason in str(waiting[1].why(key("one/a")))
    nothing_is_kept(waiting[1])
    waiting[2].answers.clear()
    waiting[1].advance(now=NOW + 1.0)
    assert len(bound(waiting[1].schedule_one(now=NOW + 1.0))) == 4


# Verdicts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", [RejectGroup, HoldGroup])
@pytest.mark.parametrize("group", [*AB, "one/none"])
def test_verdict_on_any_group_rejects_the_leader_of_the_bundle(verdict: Any, group: str) -> None:
    refused = host("post_filter")
    refused[2].answers["filter"] = Unschedulable("full")
    refused[2].answers["post_filter"] = verdict(key(group), "so it is")
    effects = refused[1].schedule_one(now=NOW) or ()
    fall, *others = (e for e in effects if isinstance(e, GroupRejected))
    assert fall.group == "one/a"
    assert {e.reason for e in others} <= {fall.reason}
    assert (fall.reason == "so it is") is (group in AB)
    nothing_is_kept(refused[1])
    assert refused[1].schedule_one(now=NOW) is None


@pytest.mark.parametrize("group", AB)
def test_verdict_that_evicts_any_of_them_leaves_nothing_held(group: str) -> None:
    refused = host("post_filter")
    refused[2].answers["filter"] = Unschedulable("full")
    refused[2].answers["post_filter"] = EvictGroup(key(group), "so it is")
    effects = refused[1].schedule_one(now=NOW) or ()
    assert {e.group for e in effects if isinstance(e, GroupRejected)} >= {"one/a", group}
    nothing_is_kept(refused[1])
    refused[2].answers.clear()
    refused[1].advance(now=NOW + 1.0)
    tell(*refused[:2], node("n", 5), now=NOW + 1.0)
    again = refused[1].schedule_one(now=NOW + 1.0)
    assert len(bound(again)) == 4


def test_group_evicted_before_its_cycle_is_waited_for_again() -> None:
    """Only the leader was queued: none of its binds succeeded, and the other group ran."""
    _cluster, scheduler, _odd = hosted = host("post_filter")
    bind_only_two(hosted, scheduler.schedule_one(now=NOW))
    evict_two(hosted, now=NOW)
    scheduler.advance(now=NOW + 60)
    while scheduler.schedule_one(now=NOW + 60) is not None:
        nothing_is_kept_but(hosted, TWO)
    assert "its bundle" in str(scheduler.why(key("one/a")))


def test_equal_entity_is_tried_when_a_group_is_not_admitted_in_its_cycle() -> None:
    """Law 4: it stood behind the lead, and is tried in the call that finds the lead held."""
    cluster, scheduler, _odd = hosted = host("post_filter", "pod_signature")
    effects = scheduler.schedule_one(now=NOW)
    for pod in pods("one/h", min_available=2):
        tell(cluster, scheduler, PodAdded(pod), now=NOW)
    assert not bound(scheduler.schedule_one(now=NOW))
    bind_only_two(hosted, effects)
    scheduler.advance(now=NOW + 60)
    evict_two(hosted, now=NOW + 60)
    queued = scheduler.queue
    # an equal entity may stand behind the first in the same queue
    assert queued.active[0].group is not None
    effects = scheduler.schedule_one(now=NOW + 60)
    while effects is not None and len(bound(effects)) < 2:
        assert any(isinstance(effect, PodWaiting) for effect in effects)
        effects = scheduler.schedule_one(now=NOW + 60)
    assert bound(effects) == ["one/h-0", "one/h-1"]


def bind_only_two(hosted: Host, effects: Any) -> None:
    """Report the binds of one group as done, and those of the other as failed."""
    for effect in effects or ():
        if isinstance(effect, Bind):
            done = Bound(effect.uid, effect.node, effect.attempt)
            failed = BindFailed(effect.uid, effect.attempt, "no answer")
            tell(*hosted[:2], done if effect.uid in TWO else failed, now=NOW)


def evict_two(hosted: Host, *, now: float) -> None:
    """Let a pod come first that makes the plugin evict the group that runs."""
    cluster, scheduler, faulty = hosted
    faulty.answers["post_filter"] = EvictGroup(key("two/b"), "so it is")
    tell(cluster, scheduler, PodAdded(make_pod("large", cpu=99, priority=9)), now=now)
    assert sum(isinstance(e, Evict) for e in scheduler.schedule_one(now=now) or ()) == 2
    faulty.answers.clear()


def nothing_is_kept_but(hosted: Host, uids: set[str]) -> None:
    bound = {pod.uid for pod in hosted[0].pods() if pod.node_name is not None}
    assert bound | shown(hosted[1]).assumed.keys() <= uids
    hosted[1]._check()
