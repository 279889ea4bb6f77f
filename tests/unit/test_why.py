"""F59: ``Scheduler.why`` names the reason for every pending pod and group."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    GroupKey,
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
from gangsched.testing import make_pod
from support.driver import Driver, Fate
from support.fingerprint import fingerprint


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


def test_why_names_refused_members_of_a_group_without_minimum() -> None:
    faulty = make_pod("odd", group="g", min_available=1, priority=5)
    why = ask(at_rest(make_pod("g-0", group="g"), faulty, strict_priorities=True))
    assert isinstance(why, explain.NotEnoughMembers)
    assert why.missing is None
    assert str(why) == (
        "waiting for pod group default/g: its minimum is unknown; refused: pod default/odd:"
        " priority must be 0, the priority of default/g, got 5"
    )


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


def test_why_of_waiting_members_without_an_unschedulable_member() -> None:
    driver = Driver()
    driver.tell(node("n", 9))
    driver.add(*gang(3))
    driver.step()
    why = ask(driver)
    assert isinstance(why, explain.OnPermit)
    assert why.unschedulable_member is None
    assert str(why) == "waiting on permit since 0, needs 2 more, until 10"


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
    driver = at_rest(*gang(3), when_blocked="at_once")
    driver.tell(node("more"))  # an event during its backoff
    why = ask(driver)
    assert isinstance(why, explain.BackingOff)
    assert (why.until, why.attempts) == (1.0, 1)
    assert str(why) == (
        "backing off until 1 after 1 attempt: as of 0: pod default/g-2 does not fit:"
        " 0/1 nodes are available: 1 Insufficient cpu."
    )
    assert ask(driver, "default/g-0") == why


def test_why_of_an_unschedulable_group_names_the_member() -> None:
    driver = at_rest(*gang(3))
    driver.settle()
    why = ask(driver)
    assert isinstance(why, explain.NoNodeFits)
    assert why.attempts == 1
    assert why.unschedulable_member is not None
    assert why.unschedulable_member.diagnosis == explain.Diagnosis(1, (("Insufficient cpu", 1),))
    assert why.reason == "timed out waiting on permit: 2 of 3 members held a node"
    assert str(why) == "pod default/g-2 does not fit: 0/1 nodes are available: 1 Insufficient cpu."


def test_why_of_a_group_that_timed_out_without_an_attempt() -> None:
    driver = Driver()
    driver.tell(node("n", 9))
    driver.add(*gang(2))
    driver.step()
    driver.advance(10.0)
    why = ask(driver)
    assert isinstance(why, explain.BackingOff)
    assert why.unschedulable_member is None
    text = "backing off until 11 after 1 attempt: timed out waiting on permit:"
    assert str(why) == f"{text} 1 of 2 members held a node"
    driver.advance(11.0)
    driver.step()
    driver.advance(21.0)
    assert "after 2 attempts" in str(ask(driver))


def test_why_of_a_group_larger_than_free_capacity_states_the_gap() -> None:
    driver = Driver()
    driver.tell(
        node("n"), PodGroupAdded(PodGroup(name="g", min_available=1, min_resources={"cpu": 5}))
    )
    driver.add(*gang(1, 1))
    driver.settle()
    why = ask(driver)
    assert isinstance(why, explain.NoNodeFits)
    assert (str(why), why.unschedulable_member) == ("resource gap: cpu=3", None)


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


def test_why_of_a_parked_group_names_the_leading_group() -> None:
    driver = Driver()
    pods = [make_pod(f"{g}-0", group=g, min_available=1, cpu=2) for g in "ab"]
    driver.add(*pods)
    driver.settle()
    driver.advance(60.0)
    driver.tell(node("n"))
    why = ask(driver, "default/b")
    assert isinstance(why, explain.Queued)
    assert why.behind == "pod group default/a"


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
