"""Bad input to a scheduler in the middle of everything: refused, and nothing has changed.

What is compared is what the cluster and the scheduler show, before and after. A plugin that raises
or returns a wrong value in a cycle changes nothing either; in an event, and for a rule of a whole
group, the scheduler continues with the safe answer, as a twin whose plugin gives that answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    BindFailed,
    Bound,
    Coscheduling,
    Effect,
    Event,
    GroupIncomplete,
    GroupKey,
    InMemoryCluster,
    MatchPolicy,
    Membership,
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
    PodUID,
    PodUpdated,
    Profile,
    RejectGroup,
    Resources,
    Scheduler,
    Success,
    Unschedulable,
    Wait,
    group_key,
    membership,
    presets,
)
from gangsched.errors import (
    ClusterStateError,
    GangschedError,
    InvalidValueError,
    PluginError,
    UnknownPodError,
)
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.primitives.quorum import members_needed
from gangsched.profile import POINTS
from gangsched.testing import make_pod
from support.busy import NOW, busy_scheduler, tell
from support.faulty_plugin import FaultyPlugin, bind_of_another, problem_with
from support.fingerprint import fingerprint
from support.refusals import NAN, NO_SECONDS, check_refusal, check_rows, each, row
from support.shown import known, memory, situation

BINDING, N1, N2 = PodUID("default/binding"), NodeName("n1"), NodeName("n2")
OOPS = ZeroDivisionError("oops")


def check_continues(cluster: InMemoryCluster, scheduler: Scheduler) -> None:
    """Check that a scheduler works as if nothing had happened."""
    pod = make_pod("afterwards", cpu="1m", priority=99)
    scheduler.handle(cluster.apply(PodAdded(pod)), now=NOW)
    scheduler._check()
    assert any(entity.pod == pod for entity in scheduler.queue.active)


TIMED: dict[str, Callable[[Any, Scheduler], object]] = {
    "handle": lambda now, s: s.handle(PodAdded(make_pod("p")), now=now),
    "advance": lambda now, s: s.advance(now=now),
    "schedule_one": lambda now, s: s.schedule_one(now=now),
    "rebuild": lambda now, s: s.rebuild(now=now),
}
NO_SUBJECTS: list[Any] = [None, 5, [], {}, (1, 2), Pod]
UNKNOWN: list[tuple[Any, str]] = [
    *((uid, uid) for uid in ("nobody", "default/nobody", "", "w-0")),  # a name is no UID
    (Pod(name="nobody"), "default/nobody"),
    (PodGroup(name="nobody", min_available=1), "default/nobody"),
    (Pod(name="w", uid=PodUID("default/w")), "default/w"),  # the key of a group is no pod
    *((x, str(x)) for x in NO_SUBJECTS),
]
REFUSED = [
    *[case for call in TIMED.values() for case in each(call, "now", NOW - 0.1, -1, *NO_SECONDS)],
    row(
        "a bind that the cluster does not show",
        lambda s: s.handle(Bound(BINDING, N2, 1), now=NOW),
        ClusterStateError,
        subject="default/binding",
        problem="was bound, and the cluster state does not show it",
    ),
    *each(lambda x, s: s.handle(x, now=NOW), "event", None, 5, "PodAdded", Pod(name="p"), PodAdded),
    *each(lambda x, s: s.handle(PodAdded(x), now=NOW), "pod", None),
    *[
        row(f"why {who!r}", partial(Scheduler.why, subject=who), UnknownPodError, subject=shown)
        for who, shown in UNKNOWN
    ],
]


def test_call_that_is_refused_has_changed_nothing() -> None:
    cluster, scheduler = busy_scheduler()
    before = known(cluster, scheduler)
    check_rows(REFUSED, scheduler)
    assert known(cluster, scheduler) == before
    check_continues(cluster, scheduler)


@pytest.mark.parametrize("name", TIMED)
def test_first_call_that_is_refused_has_not_taken_anything_in(name: str) -> None:
    cluster = InMemoryCluster()
    cluster.apply(PodAdded(make_pod("p")))
    scheduler = presets.coscheduling(cluster)
    before = known(cluster, scheduler)
    check_rows(each(TIMED[name], "now", *NO_SECONDS), scheduler)
    assert known(cluster, scheduler) == before
    scheduler.advance(now=-5.0)
    assert len(scheduler.queue) == 1


def test_scheduler_that_is_refused_has_not_touched_its_cluster() -> None:
    class Untouchable:
        def __getattr__(self, name: str) -> object:
            raise AssertionError(f"{name} was asked for")

    cluster: Any = Untouchable()
    with pytest.raises(InvalidValueError):
        Scheduler(cluster, presets.default_profile(), group_grace=-1)


STRANGER = PodUID("default/stranger")
NO_NEWS: list[Event] = [
    PodAdded(make_pod("stranger")),  # which the cluster does not show
    PodUpdated(make_pod("stranger")),
    PodDeleted(STRANGER),
    NodeDeleted(NodeName("nowhere")),
    NodeUpdated(Node(name=NodeName("nowhere"))),
    PodGroupDeleted(GroupKey("default/nobody")),
    Bound(STRANGER, N1, 1),
    BindFailed(STRANGER, 1, "why"),
    BindFailed(BINDING, 0, "of an attempt that never was"),
    BindFailed(BINDING, 2, "of an attempt that is to come"),
    Bound(BINDING, N2, 7),
    BindFailed(PodUID("default/w-0"), 1, "it only waits"),
    BindFailed(PodUID("default/bound"), 1, "it is bound"),
    Bound(PodUID("default/bound"), N1, 1),
]


def test_event_about_an_unknown_pod_or_an_old_attempt_changes_nothing() -> None:
    """F14: an event says what to look at; what is there is read from the cluster state."""
    cluster, scheduler = busy_scheduler()
    before = known(cluster, scheduler)
    for event in NO_NEWS:
        assert scheduler.handle(event, now=NOW) == (), event
        assert known(cluster, scheduler) == before, event
    check_continues(cluster, scheduler)


def test_why_of_all_pods_changes_nothing() -> None:
    """F41."""
    cluster, scheduler = busy_scheduler()
    before = known(cluster, scheduler)
    for pod in cluster.pods():
        assert scheduler.why(pod) == scheduler.why(pod.uid)
    for group in scheduler.registry:
        scheduler.why(group.key)
    assert known(cluster, scheduler) == before


# Errors midway: an event about a group reads each member, a listing reads everything --------------


class Host:
    """A cluster that can show the pods of ``n1`` on ``n2`` too, and a membership that can raise."""

    def __init__(self, *events: Event) -> None:
        self.shown = InMemoryCluster()
        self.raises_for: str | None = None
        self.lies = False
        state: Any = self
        self.scheduler = Scheduler(state, presets.coscheduling_profile(), membership=self.claim)
        for name in (N1, N2):
            self.tell(NodeAdded(Node(name=name, allocatable={"cpu": 4})))
        for event in events:
            self.tell(event)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.shown, name)

    def pods_on(self, node: NodeName) -> Iterable[Pod]:
        return self.shown.pods_on(N1 if self.lies and node == N2 else node)

    def claim(self, pod: Pod) -> Membership | None:
        if pod.name == self.raises_for:
            raise ZeroDivisionError("oops")
        return membership(pod)

    def tell(self, event: Event) -> tuple[object, ...]:
        return self.scheduler.handle(self.shown.apply(event), now=0.0)

    def fail(self, call: Callable[[], object], *, raises_for: str | None = None) -> GangschedError:
        """Make a call while something fails; nothing may change."""
        before = memory(self.scheduler), situation(self.scheduler)
        self.raises_for, self.lies = raises_for, raises_for is None
        with pytest.raises(GangschedError) as caught:
            call()
        self.raises_for, self.lies = None, False
        self.scheduler._check()
        assert (memory(self.scheduler), situation(self.scheduler)) == before
        return caught.value


def on(pod: Pod, node: NodeName) -> Pod:
    return evolve(pod, node_name=node)


A, B = (make_pod(name, group="g", min_available=2, cpu=1) for name in "ab")
THERE = PodAdded(on(make_pod("x", cpu=1), N1))
SPEC = PodGroup(name="g", min_available=3)
LARGER = NodeUpdated(Node(name=N2, allocatable={"cpu": 8}))
"""The event about a node with which its pods are read, before the events about them."""


def test_specification_that_is_refused_midway_is_taken_in_the_next_time() -> None:
    host = Host(PodAdded(A), PodAdded(B))
    host.fail(lambda: host.tell(PodGroupAdded(SPEC)), raises_for="b")
    assert host.tell(PodGroupAdded(SPEC))[0] == GroupIncomplete(group_key("default", "g"), 2, 3)
    host.fail(lambda: host.tell(PodGroupDeleted(SPEC.key)), raises_for="b")


def test_deletion_that_is_refused_midway_readmits_the_refused_member_the_next_time() -> None:
    host = Host(PodAdded(evolve(A, labels=make_pod("a", group="g", min_available=1).labels)))
    host.tell(PodAdded(B))
    host.fail(lambda: host.tell(PodDeleted(A.uid)), raises_for="b")
    host.tell(PodDeleted(A.uid))
    host.scheduler._check()
    assert host.scheduler.schedule_one(now=0.0) is None


@pytest.mark.parametrize("known_before", [False, True])
def test_arrival_that_completes_a_group_wakes_it_though_first_refused(known_before: bool) -> None:
    """F8, F24: no wake-up is lost, however the event came to be repeated."""
    host = Host(THERE, PodAdded(A))
    if known_before:
        host.tell(PodAdded(B))
    host.shown.apply(PodUpdated(on(B, N2)))
    error = host.fail(lambda: host.tell(LARGER))
    assert isinstance(error, ClusterStateError)
    assert (error.subject, error.problem) == ("default/x", "is shown on n2, is on n1")
    host.tell(LARGER)
    host.scheduler._check()
    assert host.scheduler.schedule_one(now=0.0)


def test_listing_refused_midway_is_taken_in_whole_the_next_time() -> None:
    host = Host(THERE)
    host.shown.apply(NodeUpdated(Node(name=N1, allocatable={"cpu": 8})))
    host.shown.apply(PodAdded(make_pod("late", cpu=7)))
    host.fail(lambda: host.scheduler.rebuild(now=0.0))
    host.scheduler.rebuild(now=0.0)
    host.scheduler._check()
    assert PodUID("default/late") in {entity.pod.uid for entity in host.scheduler.queue.active}
    assert host.scheduler.schedule_one(now=0.0)


@pytest.mark.parametrize("answer", ["g", 5, True, OOPS], ids=repr)
def test_membership_that_misbehaves_is_named_and_nothing_has_changed(answer: Any) -> None:
    def claim(pod: Pod) -> Any:
        if not faulty:
            return None
        if isinstance(answer, Exception):
            raise answer
        return answer

    cluster, faulty = InMemoryCluster(), False
    scheduler = Scheduler(cluster, presets.coscheduling_profile(), membership=claim)
    scheduler.handle(cluster.apply(PodAdded(make_pod("p"))), now=NOW)
    faulty, event = True, cluster.apply(PodAdded(make_pod("q")))
    before = known(cluster, scheduler)
    fields = {"plugin": "membership", "point": "membership", "subject": "default/q"}
    check_refusal(lambda: scheduler.handle(event, now=NOW), PluginError, fields)
    assert known(cluster, scheduler) == before
    faulty = False
    scheduler.handle(event, now=NOW)
    assert len(scheduler.queue) == 2


# Plugins that raise or return a wrong value -------------------------------------------------------

GROUP = RejectGroup(GroupKey("default/w"), "why")
SUBJECT = "default/active-1"
STOPPING: dict[str, list[Any]] = {
    "pre_filter": [OOPS, None, "no", True, Wait(1.0), GROUP],
    "filter": [OOPS, None, "no", True, Wait(1.0), GROUP],
    "post_filter": [OOPS, None, "no", Wait(1.0)],
    "pre_score": [OOPS, None, "no", Wait(1.0)],
    "score": [OOPS, None, "best", 1.5, NAN, True, -1, 101, 10**100],
    "reserve": [OOPS, None, "no", Wait(1.0), GROUP],
    "permit": [OOPS, None, "no", 5.0, GROUP],
    "pre_bind": [OOPS, None, "no", Wait(1.0), GROUP],
    "bind": [OOPS, None, "done", Success(), bind_of_another],
}
"""The points of the cycle of one pod, and wrong answers there."""


def faulty_host(*points: str) -> tuple[InMemoryCluster, Scheduler, FaultyPlugin]:
    """Return a busy scheduler with a faulty plugin that has these points, and what they need."""
    needed = {"post_filter": ("filter",), "unreserve": ("reserve",)}
    every = {*points, *(other for point in points for other in needed.get(point, ()))}
    if "reserve" in every:
        every.add("unreserve")
    if every & {"filter", "score"} and not every & {"pre_score", "post_filter"}:
        every.add("pod_signature")
    faulty = FaultyPlugin(*sorted(every))
    cluster, scheduler = busy_scheduler(faulty)
    while (head := scheduler.queue.head()) is None or head.pod.key != SUBJECT:
        assert scheduler.schedule_one(now=NOW) is not None
    return cluster, scheduler, faulty


@pytest.mark.parametrize("point", STOPPING)
def test_error_in_a_cycle_names_the_plugin_and_changes_nothing(point: str) -> None:
    cluster, scheduler, faulty = faulty_host(point)
    another = bind_of_another(make_pod("active-1"), N1, 1, now=NOW)
    before = known(cluster, scheduler)
    for answer in STOPPING[point]:
        if point == "post_filter":
            faulty.answers["filter"] = Unschedulable("full")
        faulty.answers[point] = answer
        with pytest.raises(PluginError) as caught:
            scheduler.schedule_one(now=NOW)
        error = caught.value
        assert (error.plugin, error.point, error.subject) == ("FaultyPlugin", point, SUBJECT)
        shown = another if answer is bind_of_another else answer
        assert error.problem == problem_with(point, shown)
        assert error.__cause__ is (answer if isinstance(answer, Exception) else None)
        scheduler._check()
        assert known(cluster, scheduler) == before
    faulty.answers.clear()
    effects = scheduler.schedule_one(now=NOW)
    assert effects
    assert getattr(effects[-1], "uid", None) == SUBJECT


def test_plugin_whose_outcome_is_malformed_is_named() -> None:
    _cluster, scheduler, faulty = faulty_host("permit")
    faulty.answers["permit"] = lambda *_args, **_kwargs: Wait(-1)
    with pytest.raises(PluginError) as caught:
        scheduler.schedule_one(now=NOW)
    assert isinstance(caught.value.__cause__, InvalidValueError)


NO_SIGNATURES: list[Any] = [OOPS, [], {}, ([],)]


def test_malformed_signature_is_refused_and_the_pod_stays_as_it_was() -> None:
    cluster, scheduler, faulty = faulty_host("filter")
    before = known(cluster, scheduler)
    old = next(pod for pod in cluster.pods() if pod.uid == SUBJECT)
    for pod in (make_pod("q"), evolve(old, labels={"a": "b"})):
        event = cluster.apply(PodAdded(pod))
        before = known(cluster, scheduler)
        for answer in NO_SIGNATURES:
            faulty.answers["pod_signature"] = answer
            expected: dict[str, object] = {
                "plugin": "FaultyPlugin",
                "point": "pod_signature",
                "subject": pod.uid,
                "problem": problem_with("pod_signature", answer),
            }
            check_refusal(partial(scheduler.handle, event, now=NOW), PluginError, expected)
            faulty.answers.clear()
            assert known(cluster, scheduler) == before
        scheduler.handle(event, now=NOW)
    assert "q" in [entity.pod.name for entity in scheduler.queue.active]


GOING_ON: dict[str, tuple[list[Any], Event]] = {
    "pre_enqueue": ([OOPS, None, "no", Wait(1.0)], PodAdded(make_pod("q", priority=3))),
    "unreserve": ([OOPS, "no", Success()], PodDeleted(PodUID("default/held"))),
    "post_bind": ([OOPS, "no", Success()], Bound(BINDING, N2, 1)),
}


@pytest.mark.parametrize(
    ("point", "number"),
    [(point, n) for point, (answers, _event) in GOING_ON.items() for n in range(len(answers))],
)
def test_error_in_an_event_counts_as_the_safe_answer(point: str, number: int) -> None:
    answers, event = GOING_ON[point]
    twins = []
    for _twin in range(2):
        points = {point, "permit", "reserve"} if point == "unreserve" else {point}
        cluster, scheduler, faulty = faulty_host(*points)
        if point == "unreserve":  # one pod waits on permit
            faulty.answers["permit"] = Wait(9.0)
            tell(cluster, scheduler, PodAdded(make_pod("held", priority=9)), now=NOW)
            assert scheduler.schedule_one(now=NOW)
            del faulty.answers["permit"]
        twins.append((cluster, scheduler, faulty))
    cluster, scheduler, faulty = twins[0]
    faulty.answers[point] = answers[number]
    with pytest.raises(PluginError) as caught:
        tell(cluster, scheduler, event, now=NOW)
    error = caught.value
    subject = {"pre_enqueue": "default/q", "unreserve": "default/held"}.get(point, BINDING)
    assert (error.plugin, error.point, error.subject) == ("FaultyPlugin", point, subject)
    assert error.problem == problem_with(point, answers[number])
    scheduler.advance(now=NOW)
    scheduler._check()

    cluster, scheduler, faulty = twins[1]
    faulty.answers[point] = Unschedulable(str(error)) if point == "pre_enqueue" else None
    tell(cluster, scheduler, event, now=NOW)
    assert scheduler.advance(now=NOW) == ()
    assert known(*twins[0][:2]) == known(*twins[1][:2])


NO_RANKS: list[Any] = [OOPS, None, 5, "first"]
NOT_COMPARED = [(), (b"first",), ([1],), (None, 0.0), (NAN, 0.0), (1, (NAN,))]


@pytest.mark.parametrize("answer", [*NO_RANKS, *NOT_COMPARED], ids=repr)
def test_entity_without_a_sort_key_is_last(answer: Any) -> None:
    faulty, cluster = FaultyPlugin("queue_sort"), InMemoryCluster()
    scheduler = Scheduler(cluster, Profile(faulty, DefaultBinder()))
    tell(cluster, scheduler, PodAdded(make_pod("early")), now=NOW)
    faulty.answers["queue_sort"] = answer
    with pytest.raises(PluginError) as caught:
        tell(cluster, scheduler, PodAdded(make_pod("odd", priority=9)), now=NOW)
    error = caught.value
    assert (error.plugin, error.point, error.subject) == (
        "FaultyPlugin",
        "queue_sort",
        "default/odd",
    )
    assert error.problem == problem_with("queue_sort", answer)
    faulty.answers.clear()
    tell(cluster, scheduler, PodAdded(make_pod("late", priority=-9)), now=NOW)
    scheduler._check()
    assert [entity.pod.name for entity in scheduler.queue.active] == ["early", "late", "odd"]


def test_every_point_is_in_a_list_above() -> None:
    assert {*STOPPING, *GOING_ON, "queue_sort"} == set(POINTS)


@pytest.mark.parametrize("subject", ["default/i-0", "default/incomplete", "default/w-2"])
def test_plugin_that_raises_when_it_is_asked_why_leaves_nothing_behind(subject: str) -> None:
    """Its error is raised to the asker, not to the next caller."""
    cluster, faulty = InMemoryCluster(), FaultyPlugin("pre_enqueue", "queue_sort")
    faulty.answers["queue_sort"] = Coscheduling().queue_sort
    scheduler = Scheduler(cluster, Profile(faulty, NodeResources(), DefaultBinder()))
    for n in range(3):
        tell(cluster, scheduler, PodAdded(make_pod(f"w-{n}", group="w", min_available=3)), now=NOW)
    member = make_pod("i-0", group="incomplete", min_available=4)
    tell(cluster, scheduler, PodAdded(member), now=NOW)
    before = known(cluster, scheduler)
    faulty.answers["pre_enqueue"] = faulty.answers["queue_sort"] = OOPS
    with contextlib.suppress(PluginError):
        scheduler.why(PodUID(subject))
    faulty.answers["queue_sort"] = Coscheduling().queue_sort
    del faulty.answers["pre_enqueue"]
    assert known(cluster, scheduler) == before
    assert scheduler.advance(now=NOW) == ()


SOUND: dict[str, Any] = {
    "members_needed": lambda group: members_needed(group, MatchPolicy.ONCE_SATISFIED),
    "group_requests": lambda _group: Resources(),
}
BROKEN: dict[str, list[Any]] = {
    "members_needed": [OOPS, "many", 1.5, NAN, [2], True, False],
    "group_requests": [OOPS, None, 5, "cpu", {"cpu": 1}],
}


def gang_host(point: str, answer: Any) -> tuple[InMemoryCluster, Scheduler, FaultyPlugin]:
    """Return a scheduler with a gang that fits nowhere, and a rule of a whole group."""
    cluster, faulty = InMemoryCluster(), FaultyPlugin("permit", point)
    faulty.answers[point] = SOUND[point]
    profile = Profile(faulty, Coscheduling(), NodeResources(), DefaultBinder())
    scheduler = Scheduler(cluster, profile)
    tell(cluster, scheduler, NodeAdded(Node(name=N1, allocatable={"cpu": 3})), now=NOW)
    for n in range(2):
        pod = make_pod(f"w-{n}", group="w", min_available=2, cpu=2)
        tell(cluster, scheduler, PodAdded(pod), now=NOW)
    faulty.answers[point] = answer
    return cluster, scheduler, faulty


def decide(scheduler: Scheduler) -> tuple[list[Effect], set[tuple[str, str]]]:
    """Decide until the scheduler is idle; return the effects and the reported errors."""
    effects: list[Effect] = []
    named: set[tuple[str, str]] = set()
    for _turn in range(20):
        try:
            found = scheduler.schedule_one(now=NOW)
        except PluginError as error:
            named.add((error.plugin, error.subject))
            continue
        if found is None:
            return effects, named
        effects += found
    raise AssertionError("law 5: still deciding")


@pytest.mark.parametrize("point", BROKEN)
def test_rule_of_a_group_that_fails_is_reported_and_the_default_rule_applies(point: str) -> None:
    for answer in BROKEN[point]:
        cluster, scheduler, faulty = gang_host(point, answer)
        sound = gang_host(point, SOUND[point])
        effects, named = decide(scheduler)
        assert named == {("FaultyPlugin", "default/w")}, answer
        assert (effects, set()) == decide(sound[1]), answer
        assert fingerprint(cluster, scheduler) == fingerprint(*sound[:2]), answer
        faulty.answers[point] = SOUND[point]
        tell(cluster, scheduler, NodeAdded(Node(name=N1, allocatable={"cpu": 4})), now=NOW)
        effects, named = decide(scheduler)
        assert not named
        assert len([effect for effect in effects if isinstance(effect, Bind)]) == 2, answer
        scheduler._check()
