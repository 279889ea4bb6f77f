"""What the extender answers, about members and about ordinary pods."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.errors import InvalidPodGroupError
from gangsched.events import (
    Bind,
    GroupIncomplete,
    GroupRejected,
    NodeAdded,
    PodAdded,
    PodRefused,
    PodUnschedulable,
)
from gangsched.kubernetes.extender._answers import (
    Asked,
    Extender,
    HowToBind,
    PauseNode,
    ResumeNode,
)
from gangsched.kubernetes.extender._messages import HostPriority, MetaPod, MetaVictims
from gangsched.kubernetes.extender._node_pauses import NodePauses
from gangsched.kubernetes.extender._plans import Nominate, NotDecided, Release, Withdraw
from gangsched.kubernetes.extender._reasons import Reasons
from gangsched.membership import membership
from gangsched.memory import InMemoryCluster
from gangsched.model import GroupKey, Node, NodeName, Pod, PodUID

NAMES = ["n", "m", "o"]
G = GroupKey("default/g")


def group(pod: Pod) -> GroupKey | None:
    claim = membership(pod)
    return None if claim is None else claim.group


def member(name: str, **named: Any) -> Pod:
    given: dict[str, Any] = {"requests": {"cpu": 1}, "pod_group": "g", **named}
    return Pod(name=name, uid=PodUID(name), **given)


def ordinary(name: str, cpu: int = 1, **named: Any) -> Pod:
    return Pod(name=name, uid=PodUID(name), requests={"cpu": cpu}, **named)


def extender(*pods: Pod, cpu: int = 2) -> Extender:
    cluster = InMemoryCluster()
    for name in NAMES:
        cluster.apply(NodeAdded(Node(name=NodeName(name), allocatable={"cpu": cpu, "pods": 3})))
    for pod in pods:
        cluster.apply(PodAdded(pod))
    return Extender(cluster, group, timeout=10.0)


def bind(name: str, node: str) -> Bind:
    return Bind(PodUID(name), NodeName(node), 1)


# filter -----------------------------------------------------------------------------------------


def test_decided_node_is_the_only_one_left_for_a_member() -> None:
    a = member("a")
    asked = extender(a)
    asked.observe([bind("a", "m")], 0.0)
    found = asked.filter(Asked(a), NAMES, 0.0)
    assert found.names == ["m"]
    assert found.failed.keys() == {"n", "o"}
    assert (found.effects, found.is_new) == ([], False)


def test_member_without_a_decision_is_refused_on_every_node_with_the_reason() -> None:
    a = member("a")
    asked = extender(a)
    found = asked.filter(Asked(a), NAMES, 0.0)
    assert found.is_new
    assert found.failed == dict.fromkeys(NAMES, "pod group default/g is not decided yet")
    asked.observe([GroupIncomplete(G, 1, 2)], 0.0)
    found = asked.filter(Asked(a), ["n"], 0.0)
    assert found.failed == {"n": "pod group default/g is incomplete"}
    assert not found.is_new
    asked.observe([GroupRejected(G, 1, "cpu is short", 1.0)], 0.0)
    assert asked.filter(Asked(a), ["n"], 0.0).failed == {"n": "pod group default/g: cpu is short"}
    asked.observe([PodRefused(PodUID("a"), "two minima")], 0.0)
    assert asked.filter(Asked(a), ["n"], 0.0).failed == {"n": "two minima"}


def test_late_member_of_a_started_gang_is_refused_with_its_own_reason() -> None:
    a = member("a")
    asked = extender(a)
    asked.observe([PodUnschedulable(PodUID("a"), "no node has cpu")], 0.0)
    found = asked.filter(Asked(a), ["n"], 0.0)
    assert found.failed == {"n": "no node has cpu"}
    assert not found.is_new
    asked.observe([GroupIncomplete(G, 1, 2)], 0.0)
    assert asked.filter(Asked(a), ["n"], 0.0).failed == {"n": "pod group default/g is incomplete"}
    asked.observe([bind("a", "m")], 0.0)
    assert len(asked._reasons) == 0


def test_refused_member_is_nominated_by_the_decision() -> None:
    a = member("a")
    asked = extender(a)
    asked.filter(Asked(a), NAMES, 0.0)
    assert asked.observe([bind("a", "m")], 0.0) == [Nominate(PodUID("a"), NodeName("m"))]


def test_decided_node_that_is_not_in_the_list_is_nominated_first() -> None:
    """kube-scheduler may have sent a sample of the feasible nodes."""
    a = member("a")
    asked = extender(a)
    asked.observe([bind("a", "m")], 0.0)
    found = asked.filter(Asked(a), ["n", "o"], 0.0)
    assert found.names == []
    assert found.effects == [Nominate(PodUID("a"), NodeName("m"))]
    assert asked.plans.bind_of(PodUID("a")) is not None


def test_nominated_node_that_kube_scheduler_refuses_withdraws_the_gang_and_is_paused() -> None:
    a, b = member("a"), member("b")
    asked = extender(a, b)
    binds = [bind("a", "m"), bind("b", "n")]
    asked.observe(binds, 0.0)
    found = asked.filter(Asked(a, nominated="m"), ["n", "o"], 5.0)
    assert found.names == []
    withdrawn, paused = found.effects
    assert isinstance(withdrawn, Withdraw)
    assert withdrawn.binds == tuple(binds)
    assert paused == PauseNode(NodeName("m"))
    assert asked.next_deadline() == 7.0
    assert asked.advance(7.0) == [ResumeNode(NodeName("m"))]
    # both are asleep in kube-scheduler now, and are woken
    again = asked.observe([bind("a", "o"), bind("b", "n")], 8.0)
    assert len(again) == 2


def test_bound_member_ends_the_doubling_of_pauses_and_a_deleted_node_has_none() -> None:
    a, node = member("a"), NodeName("m")
    asked = extender(a)

    def paused_until(now: float) -> float | None:
        asked.observe([bind("a", "m")], now)
        asked.filter(Asked(a, nominated="m"), ["n"], now)
        return asked.next_deadline()

    assert paused_until(0.0) == 2.0
    asked.advance(2.0)
    assert paused_until(2.0) == 6.0
    asked.advance(6.0)
    asked.ended(bind("a", "m"), 0.0, is_bound=True)
    assert paused_until(6.0) == 8.0
    asked.node_is_gone(node)
    assert asked.next_deadline() is None


def test_member_that_is_here_and_is_refused_by_kube_scheduler_is_woken_again() -> None:
    """kube-scheduler has given up the first request, and this process has not seen that yet."""
    a, b = member("a"), member("b")
    asked = extender(a, b)
    asked.observe([bind("a", "m"), bind("b", "n")], 0.0)
    asked.bind(PodUID("a"), "m", 0.0)
    asked.filter(Asked(a, nominated="m"), ["n"], 1.0)
    woken = asked.observe([bind("a", "n"), bind("b", "n")], 2.0)
    assert Nominate(PodUID("a"), NodeName("n")) in woken


def test_pod_of_another_scheduler_name_is_ordinary() -> None:
    a = member("a")
    found = extender(a).filter(Asked(a, is_ours=False), NAMES, 0.0)
    assert (found.names, found.failed) == (NAMES, {})


def test_malformed_group_is_refused_with_its_error() -> None:
    wrong = Pod(name="a", labels={"pod-group/name": "g", "pod-group/min-available": "x"})
    with pytest.raises(InvalidPodGroupError):
        group(wrong)
    asked = extender()
    found = asked.filter(Asked(wrong), ["n"], 0.0)
    assert found.names == []
    assert "min-available" in found.failed["n"]
    assert asked.preempt(Asked(wrong), {"n": MetaVictims()}) == {}
    assert not asked.is_ordinary(Asked(wrong))


def test_ordinary_pod_keeps_every_node_when_nothing_is_decided() -> None:
    found = extender().filter(Asked(ordinary("p", 50)), NAMES, 0.0)
    assert (found.names, found.failed, found.effects) == (NAMES, {}, [])


def test_ordinary_pod_is_kept_off_capacity_that_is_reserved() -> None:
    a = member("a")
    asked = extender(a, ordinary("there", node_name="m"))
    asked.observe([bind("a", "m")], 0.0)
    found = asked.filter(Asked(ordinary("p")), NAMES, 0.0)
    assert found.names == ["n", "o"]
    assert found.failed == {"m": "the capacity is reserved for a pod group"}
    asked.plans.arrive(PodUID("a"), "m", 0.0)
    assert asked.plans.bind_of(PodUID("a")) is not None
    # kube-scheduler has assumed it by now, and counts it itself
    assert asked.filter(Asked(ordinary("p")), NAMES, 0.0).names == NAMES


def test_ordinary_pod_may_use_what_is_left_of_a_reserved_node() -> None:
    a = member("a")
    asked = extender(a)
    asked.observe([bind("a", "m")], 0.0)
    assert asked.filter(Asked(ordinary("p", 1)), NAMES, 0.0).names == NAMES
    assert asked.filter(Asked(ordinary("p", 2)), NAMES, 0.0).names == ["n", "o"]


def test_finished_pod_takes_nothing_of_a_reserved_node() -> None:
    a = member("a")
    asked = extender(a, ordinary("done", node_name="m", phase="Succeeded"))
    asked.observe([bind("a", "m")], 0.0)
    assert asked.filter(Asked(ordinary("p")), NAMES, 0.0).names == NAMES


def test_ordinary_pod_counts_against_the_number_of_pods_of_a_reserved_node() -> None:
    pods = [Pod(name=f"p{n}", node_name="m") for n in range(2)]
    a = member("a")
    asked = extender(a, *pods)
    asked.observe([bind("a", "m")], 0.0)
    assert asked.filter(Asked(ordinary("p", 0)), NAMES, 0.0).names == ["n", "o"]


# prioritize and preempt ---------------------------------------------------------------------------


def test_decided_node_scores_highest() -> None:
    a = member("a")
    asked = extender(a)
    asked.observe([bind("a", "m")], 0.0)
    assert asked.prioritize(Asked(a), ["n", "m"]) == [HostPriority("n", 0), HostPriority("m", 10)]
    scores = asked.prioritize(Asked(ordinary("p")), ["n", "m"])
    assert scores == [HostPriority("n", 10), HostPriority("m", 0)]


def test_nothing_is_preempted_for_a_single_member() -> None:
    asked = extender()
    assert asked.preempt(Asked(member("a")), {"n": MetaVictims([MetaPod("x")])}) == {}


def test_victims_that_break_no_gang_are_preferred() -> None:
    asked = extender(member("a", node_name="n"), ordinary("p", node_name="m"))
    breaks, other = MetaVictims([MetaPod("a")]), MetaVictims([MetaPod("p")])
    pod = Asked(ordinary("high", priority=9))
    assert asked.preempt(pod, {"n": breaks, "m": other}) == {"m": other}
    assert asked.preempt(pod, {"n": breaks}) == {"n": breaks}


# bind ---------------------------------------------------------------------------------------------


def test_member_is_held_until_the_other_arrives() -> None:
    asked = extender(member("a"), member("b"))
    binds = [bind("a", "m"), bind("b", "n")]
    asked.observe(binds, 0.0)
    assert asked.bind(PodUID("a"), "m", 0.0) == (HowToBind.HELD, [])
    how, effects = asked.bind(PodUID("b"), "n", 0.0)
    assert (how, effects) == (HowToBind.HELD, [Release(tuple(binds))])


def test_member_that_is_on_the_node_already_is_done() -> None:
    asked = extender(member("a", node_name="n"))
    assert asked.bind(PodUID("a"), "n", 0.0) == (HowToBind.DONE, [])
    with pytest.raises(NotDecided, match="is on node n"):
        asked.bind(PodUID("a"), "m", 0.0)


def test_undecided_member_is_not_bound() -> None:
    with pytest.raises(NotDecided):
        extender(member("a")).bind(PodUID("a"), "n", 0.0)


def test_ordinary_pod_is_bound_at_once_after_its_filter() -> None:
    asked = extender()
    asked.filter(Asked(ordinary("p")), NAMES, 0.0)
    assert asked.bind(PodUID("p"), "n", 0.0) == (HowToBind.AT_ONCE, [])
    assert asked.bind(PodUID("p"), "n", 0.0) == (HowToBind.UNKNOWN, [])


def test_pod_that_filter_has_not_seen_is_unknown() -> None:
    assert extender().bind(PodUID("x"), "n", 0.0) == (HowToBind.UNKNOWN, [])


def test_deleted_pod_leaves_nothing_behind() -> None:
    a = member("a")
    asked = extender(a)
    asked.filter(Asked(a), NAMES, 0.0)
    asked.observe([PodRefused(PodUID("a"), "wrong")], 0.0)
    asked.pod_is_gone(PodUID("a"))
    assert len(asked._reasons) == 0
    assert not asked.plans._refused
    asked._check()


def test_what_is_remembered_of_reasons_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gangsched.kubernetes.extender._reasons._MOST", 2)
    reasons = Reasons()
    for name in "pqr":
        reasons.observe(PodRefused(PodUID(name), name))
    assert len(reasons) == 2
    assert [reasons.of(PodUID(name), G) for name in "pqr"] == [None, "q", "r"]


def test_what_is_remembered_of_ordinary_pods_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gangsched.kubernetes.extender._answers._MOST_ORDINARY", 2)
    asked = extender()
    for name in "pqr":
        asked.filter(Asked(ordinary(name)), NAMES, 0.0)
    asked._check()
    assert asked.bind(PodUID("p"), "n", 0.0)[0] is HowToBind.UNKNOWN
    assert asked.bind(PodUID("r"), "n", 0.0)[0] is HowToBind.AT_ONCE


# pauses of nodes ----------------------------------------------------------------------------------


def test_pauses_of_a_node_double_until_a_member_is_bound_there() -> None:
    pauses, node = NodePauses(), NodeName("n")
    lengths = []
    for _ in range(8):
        pauses.refused(node, 0.0)
        lengths.append(pauses.next_deadline())
        assert node in pauses
        assert pauses.ended(60.0) == [node]
    assert lengths == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    pauses.accepted(node)
    pauses.refused(node, 0.0)
    assert pauses.next_deadline() == 2.0
    pauses.forget(node)
    assert pauses.next_deadline() is None
