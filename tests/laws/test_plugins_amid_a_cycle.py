"""A plugin that raises, says no or waits amid a cycle of a gang or bundle leaves nothing behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve, frozen

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
    NodeDeleted,
    NodeName,
    PluginError,
    Pod,
    PodAdded,
    PodDeleted,
    PodRejected,
    PodUID,
    PodUnschedulable,
    PodUpdated,
    PodWaiting,
    Profile,
    RejectGroup,
    Release,
    Scheduler,
    SchedulingUnit,
    Skip,
    Success,
    Unschedulable,
    Wait,
)
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.testing import make_pod
from support import faulty_gang
from support.bundles import AB, key, pods, specs
from support.busy import NOW, tell
from support.faulty_gang import NEEDED, Host, host, memory, nothing_is_kept, only
from support.faulty_plugin import OOPS, FaultyPlugin, interrupt
from support.gangs import node
from support.shown import shown

pytestmark = pytest.mark.once("says itself which unit it is about")

ALWAYS = ["pre_filter", "filter", "score", "reserve", "permit", "pre_bind", "post_filter"]
LATER = ["pre_filter", "reserve", "permit", "pre_bind"]
TWO = {"two/b-0", "two/b-1"}
MEMBERS = ["a-0", "a-1", "b-0", "b-1"]


def bundle_host(
    *points: str, unit: SchedulingUnit = SchedulingUnit.GROUP, cpu: int = 4, wide: str = ""
) -> Host:
    """Return a bundle that is next, and a faulty plugin that is asked before all others."""
    cluster = InMemoryCluster()
    needed = {*points, *(other for p in points for other in NEEDED.get(p, ()))}
    faulty = FaultyPlugin(*sorted(needed), group_wide=wide.split())
    profile = Profile(faulty, Coscheduling(permit_timeout=50.0), NodeResources(), DefaultBinder())
    scheduler = Scheduler(cluster, profile, unit=unit)
    tell(cluster, scheduler, node("n", cpu), now=NOW)
    for fact in (*specs(*AB), *(PodAdded(p) for group in AB for p in pods(group))):
        tell(cluster, scheduler, fact, now=NOW)
    return cluster, scheduler, faulty


def bundle_pod_by_pod(*points: str, wide: str = "") -> Host:
    """Return a bundle of a scheduler that decides about other gangs pod by pod."""
    return bundle_host(*points, unit=SchedulingUnit.POD, wide=wide)


@frozen
class Subject:
    """What is tried in one cycle: its host, its members, and its groups."""

    host: Callable[..., Host]
    members: list[str]
    first: str
    groups: tuple[str, ...]


SUBJECTS = {
    "gang": Subject(faulty_gang.host, ["w-0", "w-1", "w-2"], "default/w-0", ("default/w",)),
    "bundle": Subject(bundle_host, MEMBERS, "one/a-0", AB),
    "bundle-pod-by-pod": Subject(bundle_pod_by_pod, MEMBERS, "one/a-0", AB),
}
EACH = pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)


def bound(effects: Any) -> list[str]:
    return [effect.uid for effect in effects or () if isinstance(effect, Bind)]


# Raising --------------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("point", [*ALWAYS, "pre_score", "bind"])
def test_cycle_that_raises_changes_nothing(subject: Subject, point: str) -> None:
    broken = subject.host(point)
    before = memory(broken)
    for _again in range(2):
        error = interrupt(*broken[1:], point)
        assert (error.plugin, error.point, error.subject) == ("FaultyPlugin", point, subject.first)
        assert error.__cause__ is OOPS
        assert memory(broken) == before
        nothing_is_kept(broken[1])


@EACH
@pytest.mark.parametrize("point", [*LATER, "bind"])
def test_cycle_that_raises_for_a_later_member_changes_nothing(subject: Subject, point: str) -> None:
    for name in subject.members[1:]:
        broken = subject.host(point)
        before = memory(broken)
        sound = Skip() if point == "bind" else Success()
        error = interrupt(*broken[1:], point, only(name, sound, OOPS))
        assert error.subject.partition("/")[2] == name
        assert memory(broken) == before
        nothing_is_kept(broken[1])


@EACH
@pytest.mark.parametrize("point", ALWAYS)
def test_gang_starts_as_usual_after_a_cycle_raised(subject: Subject, point: str) -> None:
    broken, whole = subject.host(point), subject.host(point)
    last = subject.members[-1]
    interrupt(*broken[1:], point, only(last, Success(), OOPS) if point in LATER else OOPS)
    effects = broken[1].schedule_one(now=NOW)
    assert effects == whole[1].schedule_one(now=NOW)
    assert memory(broken) == memory(whole)
    assert len(bound(effects)) == len(subject.members)
    starts = [e for e in effects or () if isinstance(e, GroupScheduled)]
    assert [(start.group, start.attempt) for start in starts] == [(g, 1) for g in subject.groups]


@EACH
def test_unreserve_runs_once_per_member_in_reverse_order(subject: Subject) -> None:
    broken, given_back = subject.host("reserve", "permit"), list[str]()

    def unreserve(_state: object, pod: Pod, _node: object, *, cause: str, now: float) -> None:
        given_back.append(f"{pod.name} {cause}")

    refuse = only(subject.members[-1], Success(), OOPS)
    broken[2].answers = {"unreserve": unreserve, "permit": refuse}
    with pytest.raises(PluginError):
        broken[1].schedule_one(now=NOW)
    assert given_back == [f"{name} refused" for name in reversed(subject.members)]


def test_plugin_that_raises_in_pre_enqueue_keeps_the_bundle_out_of_the_queue() -> None:
    broken = bundle_host("pre_enqueue")
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


@EACH
@pytest.mark.parametrize("point", LATER)
def test_refusal_of_one_member_refuses_all(subject: Subject, point: str) -> None:
    """F19: a member that has taken a node has released it before the call ends."""
    for name in subject.members:
        refused = subject.host(point)
        refused[2].answers[point] = only(name, Success(), Unschedulable("not this one"))
        effects = refused[1].schedule_one(now=NOW) or ()
        blamed, *_others = (e for e in effects if isinstance(e, PodUnschedulable))
        fall, *others = (e for e in effects if isinstance(e, GroupRejected))
        assert len(effects) == 1 + len(subject.members) + len(others), "each member is told once"
        assert {e.reason for e in others} <= {fall.reason}
        assert "not this one" in blamed.reason
        assert (fall.group, fall.retry_after) == (subject.groups[0], NOW + 1.0)
        nothing_is_kept(refused[1])
        refused[2].answers.clear()
        assert refused[1].schedule_one(now=NOW) is None
        refused[1].advance(now=NOW + 1.0)
        assert len(bound(refused[1].schedule_one(now=NOW + 1.0))) == len(subject.members)


@pytest.mark.parametrize("point", ["pre_filter", "pre_bind"])
def test_extra_member_that_is_refused_does_not_stop_the_gang(point: str) -> None:
    refused = faulty_gang.host(point, minimum=2)
    refused[2].answers[point] = only("w-1", Success(), Unschedulable("not this one"))
    assert bound(refused[1].schedule_one(now=NOW)) == ["default/w-0", "default/w-2"]
    assert len(shown(refused[1]).assumed) == 2
    refused[1]._check()
    assert bound(refused[1].schedule_one(now=NOW)) == []
    assert refused[1].schedule_one(now=NOW) is None, "it backs off"


@pytest.mark.parametrize("point", ["pre_filter", "reserve"])
def test_group_wide_refusal_refuses_the_whole_gang(point: str) -> None:
    """It is asked about the first member only, which is the reported one."""
    refused, asked = faulty_gang.host(point, wide=point), list[str]()

    def turn_down(_cycle: object, pod: Pod, *_args: object, now: float) -> Unschedulable:
        asked.append(pod.name)
        return Unschedulable("not this gang")

    refused[2].answers[point] = turn_down
    effects = refused[1].schedule_one(now=NOW) or ()
    blamed, *_others = (e for e in effects if isinstance(e, PodUnschedulable))
    assert (blamed.uid, blamed.reason) == ("default/w-0", "not this gang")
    assert asked == ["w-0"]
    nothing_is_kept(refused[1])


@pytest.mark.parametrize("name", ["a-0", "b-1"])
@pytest.mark.parametrize("point", ["pre_filter", "pre_bind"])
def test_refused_elastic_member_delays_no_other(point: str, name: str) -> None:
    refused = bundle_host(point)
    for fact in specs(*AB, minimum=1):
        tell(*refused[:2], fact, now=NOW)
    refused[2].answers[point] = only(name, Success(), Unschedulable("not this one"))
    effects = refused[1].schedule_one(now=NOW)
    gone = [uid.partition("/")[2] for uid in bound(effects)]
    assert gone == [other for other in MEMBERS if other != name]
    refused[1]._check()


@pytest.mark.parametrize("group", AB)
def test_plugin_that_answers_for_a_group_is_asked_for_each_of_the_bundle(group: str) -> None:
    refused, asked = (
        bundle_host(*LATER, wide=" ".join(["pre_filter", "reserve", "permit"])),
        list[str](),
    )

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
    waiting = bundle_host("permit")
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
    refused = bundle_host("post_filter")
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
    refused = bundle_host("post_filter")
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
    _cluster, scheduler, _odd = hosted = bundle_host("post_filter")
    bind_only_two(hosted, scheduler.schedule_one(now=NOW))
    evict_two(hosted, now=NOW)
    scheduler.advance(now=NOW + 60)
    while scheduler.schedule_one(now=NOW + 60) is not None:
        nothing_is_kept_but(hosted, TWO)
    assert "its bundle" in str(scheduler.why(key("one/a")))


def test_equal_entity_is_tried_when_a_group_is_not_admitted_in_its_cycle() -> None:
    """Law 4: it stood behind the lead, and is tried in the call that finds the lead held."""
    cluster, scheduler, _odd = hosted = bundle_host("post_filter", "pod_signature")
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
