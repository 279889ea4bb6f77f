"""F59: ``Scheduler.why`` names the reason for every pending pod and group, as of now."""

from __future__ import annotations

import math
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    GroupKey,
    InvalidValueError,
    Node,
    NodeAdded,
    NodeName,
    PluginError,
    Pod,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodPhase,
    PodUID,
    PodUpdated,
    Profile,
    Scheduler,
    Taint,
    UnknownPodError,
    Unschedulable,
    Wait,
    Why,
    explain,
    presets,
)
from gangsched.explain import (
    BackingOff,
    Finished,
    NoNodeFits,
    NotAdmitted,
    NotEnoughMembers,
    PartlyRunning,
    Running,
    in_utc,
)
from gangsched.testing import make_pod
from support.busy import NOW
from support.driver import Driver, Fate
from support.faulty_gang import host
from support.fingerprint import fingerprint
from support.story import Story, Way

# F59: ``Scheduler.why`` names the reason for every pending pod and group


def node(name: str, cpu: int = 2, **more: Any) -> NodeAdded:
    return NodeAdded(Node(name=NodeName(name), allocatable={"cpu": cpu}, **more))


def gang(size: int, minimum: int | None = None, **asks: Any) -> list[Pod]:
    names = [f"g-{n}" for n in range(size)]
    return [
        make_pod(n, group="g", min_available=minimum or size, **(asks or {"cpu": 1})) for n in names
    ]


def ask(driver: Driver, subject: Any = "default/g") -> Why:
    """Ask, and see that the question changed nothing."""
    before = fingerprint(driver.scheduler)
    answer = driver.scheduler.why(subject)
    assert fingerprint(driver.scheduler) == before
    return answer


def at_rest(*pods: Pod, nodes: int = 1, **policy: Any) -> Driver:
    driver = Driver(lambda cluster: presets.coscheduling(cluster, **policy))
    driver.tell(*(node(f"n{n}") for n in range(nodes)))
    driver.add(*pods)
    driver.drain()
    return driver


def test_why_counts_missing_members_and_those_that_do_not_count() -> None:
    gated = evolve(make_pod("g-9", group="g", min_available=4), scheduling_gates=("quota",))
    other = make_pod("g-8", group="g", min_available=7)
    driver = at_rest(*gang(2, 4), gated, other)
    refused = ask(driver, other.uid)
    assert isinstance(refused, explain.Refused)
    assert refused.uid == other.uid
    assert "min_available must be 4" in str(refused)
    assert str(refused).startswith("refused: ")
    why = ask(driver)
    assert why == explain.NotEnoughMembers(
        GroupKey("default/g"), 2, 4, (("gated", 1),), (), (refused,)
    )
    assert isinstance(why, explain.NotEnoughMembers)
    assert why.missing == 2
    expected = f"waiting for 2 more members: 2 of 4 exist, 1 more gated; {refused}"
    assert str(why) == expected
    assert ask(driver, "default/g-0") == why
    assert str(ask(driver, gated)) == "not admitted: has scheduling gates: quota"


def test_why_names_refused_members_and_the_field() -> None:
    faulty = make_pod("odd", uid="u-7", group="g", min_available=2, priority=5)
    driver = at_rest(*gang(1, 2), faulty, strict_priorities=True)
    reason = "pod default/odd: priority must be 0, the priority of default/g, got 5"
    why = ask(driver)
    assert isinstance(why, explain.NotEnoughMembers)
    assert why.refused == (explain.Refused(PodUID("u-7"), reason),)
    assert str(why) == f"waiting for 1 more member: 1 of 2 exist; refused: {reason}"
    driver.tell(PodDeleted(PodUID("u-7")))
    assert str(ask(driver)) == "waiting for 1 more member: 1 of 2 exist"


@pytest.mark.parametrize(("count", "rest"), [(2, ""), (3, "; and 1 more"), (5, "; and 3 more")])
def test_why_names_the_first_two_of_many_refused_members(count: int, rest: str) -> None:
    faulty = [
        make_pod(f"odd-{n}", group="g", min_available=n) for n in reversed(range(3, count + 3))
    ]
    driver = at_rest(*gang(1, 2), *faulty)
    why = ask(driver)
    assert isinstance(why, explain.NotEnoughMembers)
    assert [one.uid for one in why.refused] == [pod.uid for pod in faulty]
    reasons = "; ".join(one.reason for one in why.refused[:2])
    assert str(why) == f"waiting for 1 more member: 1 of 2 exist; refused: {reasons}{rest}"


def test_why_states_that_the_minimum_is_unknown() -> None:
    driver = at_rest(make_pod("g-0", group="g"))
    why = ask(driver)
    assert isinstance(why, explain.NotEnoughMembers)
    assert (why.missing, why.present) == (None, 1)
    assert str(why) == "waiting for pod group default/g: its minimum is unknown"


def test_why_of_waiting_members_states_since_missing_and_deadline() -> None:
    driver = at_rest(*gang(3))
    why = ask(driver, "default/g-1")
    assert isinstance(why, explain.OnPermit)
    assert (why.members, why.since, why.needed, why.deadline) == (
        ("default/g-0", "default/g-1"),
        0.0,
        1,
        10.0,
    )
    assert why.unschedulable_member is not None
    assert why.unschedulable_member.uid == "default/g-2"
    assert str(why) == (
        "waiting on permit since 0, needs 1 more, until 10; last attempt: pod default/g-2"
        " does not fit: 0/1 nodes are available: 1 Insufficient cpu."
    )
    assert ask(driver, "default/g-2") == why == ask(driver)


def test_why_counts_the_nodes_that_refused_a_member_by_reason() -> None:
    driver = Driver()
    taints = (Taint("reserved"),)
    driver.tell(node("a"), node("b"), node("c"), node("d", taints=taints), node("e", taints=taints))
    driver.add(*gang(1, 2), make_pod("g-1", group="g", min_available=2, cpu=1, gpu=1))
    driver.settle()
    assert str(ask(driver)) == (
        "pod default/g-1 does not fit: 0/5 nodes are available:"
        " 3 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint(s)."
    )


def test_why_of_a_group_in_backoff_states_until_when_and_attempts() -> None:
    """No node helps where a bind has failed."""
    driver = Driver()
    driver.fate = Fate.FAILED
    driver.tell(node("n"))
    driver.add(*gang(1))
    driver.drain()
    driver.tell(node("more"))  # an event during its backoff
    why = ask(driver)
    assert isinstance(why, explain.BackingOff)
    assert (why.until, why.attempts) == (1.0, 1)
    text = "backing off until 1 after 1 attempt: binding rejected: no answer"
    assert str(why) == text
    assert ask(driver, "default/g-0") == why


def test_why_of_an_unschedulable_group_names_the_member() -> None:
    driver = at_rest(*gang(3))
    driver.settle()
    why = ask(driver)
    assert isinstance(why, explain.NoNodeFits)
    assert why.attempts == 1
    assert why.unschedulable_member is not None
    assert why.unschedulable_member.diagnosis == explain.Diagnosis(1, (("Insufficient cpu", 1),))
    assert why.reason == "at most 2 of 3 members fit: cpu is short"
    assert str(why) == "pod default/g-2 does not fit: at most 2 of 3 members fit: cpu is short"


def test_why_of_a_queued_pod_counts_the_entities_ahead() -> None:
    driver = Driver()
    driver.add(make_pod("first", cpu=1), make_pod("second", cpu=1), make_pod("third", cpu=1))
    assert [str(ask(driver, f"default/{n}")) for n in ("first", "second", "third")] == [
        "queued, 0 ahead",
        "queued, 1 ahead",
        "queued, 2 ahead",
    ]


def test_why_of_a_parked_pod_names_the_leader_of_its_class() -> None:
    driver = Driver()
    driver.tell(node("n", 1))
    driver.add(*(make_pod(f"p{n}", cpu=2) for n in range(3)))
    driver.settle()
    driver.advance(60.0)
    driver.tell(node("wide", 2))
    behind = ask(driver, "default/p1")
    assert isinstance(behind, explain.Queued)
    assert (behind.ahead, behind.behind) == (1, "pod default/p0")
    assert str(behind) == (
        "queued, 1 ahead, behind pod default/p0, which requests the same;"
        " last attempt: pod default/p1 does not fit: 0/1 nodes are available: 1 Insufficient cpu."
    )


def test_why_of_pods_that_are_not_pending() -> None:
    driver = Driver(fate=Fate.PENDING)
    driver.tell(node("n", 9))
    driver.add(*gang(2), make_pod("single", cpu=1))
    driver.drain()
    assert str(ask(driver, "default/single")) == "being bound to n"
    assert ask(driver, "default/g-0") == explain.Binding(NodeName("n"), attempt=1)
    assert ask(driver) == explain.Running(None, 2, binding=2)
    assert str(ask(driver)) == "2 members hold nodes, 2 are being bound"
    while driver.under_way:
        driver.report(driver.under_way[0], Fate.DONE)
    assert str(ask(driver, "default/single")) == "on n"
    assert str(ask(driver)) == "2 members hold nodes"
    pod = driver.cluster.pod(PodUID("default/g-0"))
    assert pod is not None
    driver.tell(PodUpdated(evolve(pod, deleted_at=1.0)))
    assert str(ask(driver, pod)) == "terminating"
    driver.tell(PodUpdated(evolve(pod, phase=PodPhase.FAILED)))
    assert ask(driver, pod) == explain.Finished(PodPhase.FAILED)
    assert str(ask(driver, pod)) == "finished: Failed"


def test_why_of_an_evicted_pod_states_the_reason() -> None:
    spelled: Any = "release_group"
    driver = Driver(
        lambda cluster: presets.coscheduling(cluster, when_bind_fails=spelled),
        fate=Fate.PENDING,
    )
    driver.tell(node("n", 9))
    driver.add(*gang(2))
    driver.drain()
    driver.report(driver.under_way[0], Fate.FAILED)
    assert str(ask(driver, "default/g-1")) == "terminating: the bind of pod g-0 failed"
    assert isinstance(ask(driver, "default/g-0"), explain.NotEnoughMembers)


def test_why_of_a_pod_without_group_that_waits_on_permit() -> None:
    driver = Driver(make_with(Waiter()))
    driver.tell(node("n"))
    driver.add(make_pod("p", cpu=1))
    driver.drain()
    waits = explain.OnPermit((PodUID("default/p"),), 0.0, 0, 5.0, plugins=("Waiter",))
    assert ask(driver, "default/p") == waits
    assert str(waits).endswith("until 5, not allowed yet by Waiter")


def test_why_of_a_pod_refused_by_pre_enqueue_has_its_reason() -> None:
    driver = Driver(make_with(Holder()))
    driver.add(make_pod("p", cpu=1))
    assert ask(driver, "default/p") == explain.NotAdmitted("not on a Sunday")
    driver.add(*gang(1))
    assert str(ask(driver)) == "not admitted: not on a Sunday"


def test_why_of_an_unknown_subject_raises_its_name() -> None:
    driver = Driver()
    driver.add(make_pod("g", cpu=1))
    strange = make_pod("strange")
    for subject in ("default/x", strange, PodGroup(name="g", min_available=1)):
        with pytest.raises(UnknownPodError) as caught:
            ask(driver, subject)
        assert caught.value.subject in ("default/x", "default/strange", "default/g")


def test_why_prefers_the_pod_if_a_string_is_also_a_group_key() -> None:
    driver = Driver()
    driver.tell(PodGroupAdded(group := PodGroup(name="g", min_available=2)))
    driver.add(make_pod("g", cpu=1))
    assert isinstance(ask(driver, "default/g"), explain.Queued)
    assert isinstance(ask(driver, group), explain.NotEnoughMembers)
    driver.tell(PodDeleted(PodUID("default/g")))
    assert isinstance(ask(driver, "default/g"), explain.NotEnoughMembers)


def test_why_raises_the_error_of_a_plugin_once() -> None:
    plugin = Puzzled()
    driver = Driver(make_with(plugin))
    driver.tell(node("n"))
    driver.add(*gang(2))
    plugin.raises = True
    with pytest.raises(PluginError, match="members_needed"):
        ask(driver)
    plugin.raises = False
    assert driver.step()


class Waiter:
    name = "Waiter"

    def permit(self, state: object, pod: Pod, node: NodeName, *, now: float) -> Any:
        return Wait(5)


class Holder:
    name = "Holder"

    def pre_enqueue(self, pod: Pod, group: object, *, now: float) -> Unschedulable:
        return Unschedulable("not on a Sunday")


class Puzzled:
    name = "Puzzled"
    raises = False

    def members_needed(self, group: Any) -> int:
        if self.raises:
            raise ValueError("what is a member?")
        return 2 - int(group.scheduled)

    def permit(self, state: object, pod: Pod, node: NodeName, *, now: float) -> Any:
        return Wait(5)


def make_with(plugin: object) -> Any:
    def make(cluster: Any) -> Scheduler:
        mine = presets.default_profile().plugins
        return Scheduler(cluster, Profile(*mine, plugin))

    return make


# ``Scheduler.why`` for a gang that waits with a full quorum


def test_why_of_a_gang_held_by_another_plugin_has_no_missing_member() -> None:
    _cluster, scheduler, faulty = host("permit")
    faulty.answers["permit"] = Wait(9.0)
    scheduler.schedule_one(now=NOW)
    uids = tuple(PodUID(f"default/w-{number}") for number in range(3))
    expected = explain.OnPermit(uids, NOW, 0, NOW + 9.0, plugins=("FaultyPlugin",))
    assert scheduler.why(GroupKey("default/w")) == scheduler.why(uids[0]) == expected


# ``Scheduler.why`` has the reason of now; with a budget of 0, that of the last attempt


@pytest.fixture
def half_free() -> Driver:
    """Two nodes that were full when a gang of two was tried, one of which is free now."""
    driver = Driver(presets.gang)
    driver.tell(node("n0", 4), node("n1", 4))
    driver.add(make_pod("a", cpu=4), make_pod("b", cpu=4))
    driver.settle()
    driver.add(*gang(2, cpu=4))
    driver.settle()
    driver.advance(driver.now + 100)
    driver.settle()
    driver.tell(PodDeleted(PodUID("default/a")))
    driver.settle()
    return driver


def parked(answer: explain.Why) -> explain.NoNodeFits:
    assert isinstance(answer, explain.NoNodeFits)
    return answer


def test_why_counts_what_is_free_now(half_free: Driver) -> None:
    old = parked(half_free.scheduler.why("default/g", budget=0))
    new = parked(half_free.scheduler.why("default/g"))
    assert str(old).endswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert str(new).endswith("at most 1 of 2 members fit: cpu is short")


def test_why_says_when_it_tried(half_free: Driver) -> None:
    scheduler, now = half_free.scheduler, half_free.now
    assert (parked(scheduler.why("default/g", budget=0)).tried_at or 0) < now
    assert parked(scheduler.why("default/g")).tried_at == now
    assert parked(scheduler.why("default/g", now=now + 5)).tried_at == now + 5


def test_why_counts_nodes_that_came_since_and_cannot_help() -> None:
    driver = Driver(presets.gang)
    driver.tell(node("n0", 1))
    driver.add(make_pod("p", cpu=4))
    driver.settle()
    driver.tell(node("n1", 2))
    driver.settle()
    assert "0/1 nodes are available" in str(driver.scheduler.why("default/p", budget=0))
    assert "0/2 nodes are available" in str(driver.scheduler.why("default/p"))


def test_gang_in_backoff_that_would_start_now_is_answered_as_backing_off() -> None:
    driver = Driver(presets.gang, fate=Fate.FAILED)
    driver.tell(node("n0", 4), node("n1", 4))
    driver.add(*gang(2, cpu=4))
    driver.drain()
    answer = driver.scheduler.why("default/g")
    assert isinstance(answer, explain.BackingOff)
    assert driver.scheduler.why("default/g", budget=0) == answer


def test_why_of_an_attempt_beyond_its_budget_has_the_last_reason(half_free: Driver) -> None:
    answer = parked(half_free.scheduler.why("default/g", budget=1))
    assert answer == half_free.scheduler.why("default/g", budget=0)
    assert str(answer).startswith(f"as of {answer.tried_at:g}: pod default/g-")


@pytest.mark.parametrize("now", [math.nan, -1.0])
def test_instant_before_the_last_call_is_refused(half_free: Driver, now: float) -> None:
    with pytest.raises(InvalidValueError, match="now"):
        half_free.scheduler.why("default/g", now=now)


@pytest.mark.parametrize("budget", [-1, 1.5, None])
def test_budget_that_is_no_number_of_steps_is_refused(half_free: Driver, budget: Any) -> None:
    with pytest.raises(InvalidValueError, match="budget"):
        half_free.scheduler.why("default/g", budget=budget)


# ``why`` of a gang whose minimum is met while further members are pending says that it runs

G = GroupKey("default/g")


@pytest.fixture
def elastic() -> Story:
    """Return a story in which the minimum of a gang runs on a node with capacity for four."""
    story = Story(presets.gang)
    story.tell(node("a", 4))
    story.gang("g", 2)
    story.decide()
    assert story.scheduler.why(G) == Running(None, 2)
    return story


def add(story: Story, *names: str, cpu: int = 1, **more: Any) -> None:
    pods = (make_pod(name, group="g", min_available=2, cpu=cpu) for name in names)
    story.add(*(evolve(pod, **more) for pod in pods))
    story.decide()


def test_why_of_a_running_gang_says_how_many_members_run_and_why_others_wait(
    elastic: Story,
) -> None:
    add(elastic, "w2", "w3", "w4", "w5")
    why = elastic.scheduler.why(G)
    assert isinstance(why, PartlyRunning)
    assert (why.members, why.pending, why.min_available) == (4, 2, 2)
    assert not why.is_below_minimum
    said = (
        "runs: 4 of 6 members hold nodes, and its minimum of 2 is met; 2 wait: pod default/w4 does"
        " not fit: 0/1 nodes are available: 1 Insufficient cpu."
    )
    assert str(why) == in_utc(why) == said
    assert elastic.scheduler.why("default/w5") == why, "a member has the answer of its group"


def test_listings_have_the_answer_of_a_running_gang(elastic: Story) -> None:
    add(elastic, "big", cpu=9)
    (pending,) = elastic.scheduler.pending()
    (group,) = elastic.scheduler.groups()
    assert pending.why == group.why == elastic.scheduler.why(G)
    assert pending.needed == 0
    assert "; 1 waits: pod default/big does not fit: " in str(group.why)


def test_gate_of_a_further_member_is_the_reason_why_it_waits(elastic: Story) -> None:
    add(elastic, "w2", "w3", scheduling_gates=("example.com/quota",))
    why = elastic.scheduler.why(G)
    assert isinstance(why, PartlyRunning)
    assert isinstance(why.rest, NotAdmitted)
    assert str(why).startswith("runs: 2 of 4 members hold nodes")
    assert "example.com/quota" in str(why)


def test_why_of_a_running_gang_names_the_roles_that_lack_members() -> None:
    story = Story(presets.gang)
    group = PodGroup(name="g", roles={"ps": 1, "worker": 2})
    story.tell(node("a", 4), PodGroupAdded(group))
    names = {"ps-0": "ps", "w-0": "worker", "w-1": "worker"}
    story.add(*(make_pod(name, group="g", role=role, cpu=1) for name, role in names.items()))
    story.decide()
    story.delete("w-0")
    why = story.scheduler.why(G)
    assert isinstance(why, PartlyRunning)
    assert why.roles == (("worker", 2, 1),)
    assert "2 of 3 members hold nodes, 1 of 2 worker" in str(why)


# ``why`` and ``groups`` tell a group that has finished from one that runs

SUCCEEDED, FAILED = PodPhase.SUCCEEDED, PodPhase.FAILED


@pytest.mark.parametrize(
    ("least", "phases", "answer"),
    [
        (1, [SUCCEEDED, SUCCEEDED], Finished(SUCCEEDED, 2)),
        (2, [SUCCEEDED, SUCCEEDED], Finished(SUCCEEDED, 2)),
        (1, [SUCCEEDED, FAILED], Finished(FAILED, 2)),
        (2, [SUCCEEDED, FAILED], NotEnoughMembers),
        (2, [FAILED, FAILED], NotEnoughMembers),
    ],
)
def test_group_of_which_every_member_has_ended_is_finished_if_enough_succeeded(
    least: int, phases: list[PodPhase], answer: Any
) -> None:
    story = Story(presets.gang)
    story.tell(node("n", 4))
    story.gang("g", 2, min_available=least)
    story.decide()
    for number, phase in enumerate(phases):
        assert not isinstance(story.scheduler.why(G), Finished)
        story.update(f"g-{number}", phase=phase)
    why = story.scheduler.why(G)
    assert why == story.scheduler.groups()[0].why
    assert why == answer if isinstance(answer, Finished) else isinstance(why, answer)
    story.add(make_pod("c", cpu=1, group="g", min_available=least))
    assert not isinstance(story.scheduler.why(G), Finished | Running), "it is pending again"


def test_answers_that_differ_in_the_instant_alone_are_equal() -> None:
    assert NoNodeFits(1, "no node", None, 3.0) == NoNodeFits(1, "no node", None, 9.0)
    assert BackingOff(8.0, 1, "no node", None, 3.0) == BackingOff(8.0, 1, "no node")


@pytest.mark.parametrize("way", [Way.LIVE, Way.RESTORED])
def test_pod_that_was_gated_after_an_attempt_has_the_reason_of_the_attempt(way: Way) -> None:
    story = Story(presets.gang, way)
    story.tell(node("a"))
    story.add(make_pod("big", cpu=9))
    story.decide()
    assert "Insufficient cpu" in str(story.scheduler.why("default/big"))
    story.update("big", scheduling_gates=("quota",))
    assert isinstance(story.scheduler.why("default/big"), NotAdmitted)
    story.interrupt()
    assert "quota" in str(story.scheduler.why("default/big"))
    story.update("big", scheduling_gates=())
    assert "Insufficient cpu" in str(story.scheduler.why("default/big"))


# What an incomplete gang waits for: what holds it, and members without a role


def member(name: str, **more: Any) -> Pod:
    return Pod(name=name, pod_group="g", **more)


@pytest.mark.parametrize(
    ("spec", "pods", "held", "without_role", "said"),
    [
        (
            {"min_available": 2, "unmodelled": ("spec.queue",)},
            [member("a"), member("b")],
            ("spec.queue",),
            0,
            "waiting for 2 more members: 0 of 2 exist, 2 more held; not modelled: spec.queue",
        ),
        (
            {"min_available": 2},
            [member("a"), member("b", unmodelled=("spec.resourceClaims",))],
            ("spec.resourceClaims",),
            0,
            "waiting for 1 more member: 1 of 2 exist, 1 more held; not modelled:"
            " spec.resourceClaims",
        ),
        (
            {"min_available": 1},
            [member("a", scheduling_gates=("wait",))],
            (),
            0,
            "1 of 1 members is gated: wait",
        ),
        (
            {"min_available": 3, "roles": {"ps": 1}},
            [member("a"), member("b"), member("c", role="worker")],
            (),
            2,
            "waiting for 1 more ps: 0 of 1 exist, 2 members have no role",
        ),
        (
            {"min_available": 3, "roles": {"ps": 1}, "priority": 0},
            [member("a"), member("b", role="worker"), member("odd", priority=5)],
            (),
            1,
            "waiting for 1 more member: 2 of 3 exist; 1 more ps: 0 of 1 exist, 1 member has no"
            " role; refused: pod default/odd: priority must be 0, the priority of default/g, got 5",
        ),
    ],
    ids=["held group", "held member", "gate", "no role", "refused without role"],
)
def test_why_of_an_incomplete_gang_names_what_holds_it_and_members_without_a_role(
    spec: dict[str, Any], pods: list[Pod], held: tuple[str, ...], without_role: int, said: str
) -> None:
    story = Story(lambda cluster: presets.gang(cluster, strict_priorities=True))
    story.tell(PodGroupAdded(PodGroup(name="g", **spec)))
    story.add(*pods)
    found = story.scheduler.why(G)
    assert isinstance(found, NotEnoughMembers)
    assert (found.held, found.without_role, str(found)) == (held, without_role, said)
