"""What the extender answers, about members and about ordinary pods, and what it keeps of them."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.events import (
    Bind,
    Event,
    GroupIncomplete,
    GroupRejected,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    PodAdded,
    PodRefused,
    PodUnschedulable,
    PodUpdated,
)
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._facts import NodeFacts, PodFacts
from gangsched.kubernetes._known import Identity
from gangsched.kubernetes._reflector import Delta
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
from support.extender_model import KubeScheduler

NAMES = ["n", "m", "o"]
G = GroupKey("default/g")
N, M = NodeName("n"), NodeName("m")


def group(pod: Pod) -> GroupKey | None:
    claim = membership(pod)
    return None if claim is None else claim.group


def ordinary(name: str, cpu: int = 1, **named: Any) -> Pod:
    return Pod(name=name, uid=PodUID(name), requests={"cpu": cpu}, **named)


def member(name: str, **named: Any) -> Pod:
    return ordinary(name, pod_group="g", **named)


A, B = member("a"), member("b")


def extender(*pods: Pod) -> Extender:
    cluster = InMemoryCluster()
    for name in NAMES:
        cluster.apply(NodeAdded(Node(name=NodeName(name), allocatable={"cpu": 2, "pods": 3})))
    for pod in pods:
        cluster.apply(PodAdded(pod))
    return Extender(cluster, group, timeout=10.0)


def bind(name: str, node: str) -> Bind:
    return Bind(PodUID(name), NodeName(node), 1)


def decided(*pods: Pod, binds: tuple[Bind, ...] = (bind("a", "m"),)) -> Extender:
    asked = extender(*pods)
    asked.observe(binds, 0.0)
    return asked


def left(asked: Extender, pod: Pod) -> list[str]:
    """Return which nodes are left for a pod."""
    return asked.filter(Asked(pod), NAMES, 0.0).names


# filter -----------------------------------------------------------------------------------------


def test_decided_node_is_the_only_one_left_for_a_member() -> None:
    found = decided(A).filter(Asked(A), NAMES, 0.0)
    assert found.names == ["m"]
    assert found.failed.keys() == {"n", "o"}
    assert (found.effects, found.is_new) == ([], False)


def test_member_without_a_decision_is_refused_on_every_node_with_the_last_reason() -> None:
    asked = extender(A)
    found = asked.filter(Asked(A), NAMES, 0.0)
    assert found.is_new
    assert found.failed == dict.fromkeys(NAMES, "pod group default/g is not decided yet")
    for said, reason in (
        (PodUnschedulable(A.uid, "no node has cpu"), "no node has cpu"),  # late, of a started gang
        (GroupIncomplete(G, 1, 2), "pod group default/g is incomplete"),
        (GroupRejected(G, 1, "cpu is short", 1.0), "pod group default/g: cpu is short"),
        (PodRefused(A.uid, "two minima"), "two minima"),
    ):
        asked.observe([said], 0.0)
        found = asked.filter(Asked(A), ["n"], 0.0)
        assert (found.failed, found.is_new) == ({"n": reason}, False)
    assert asked.observe([bind("a", "m")], 0.0) == [Nominate(A.uid, M)]


def test_member_that_was_refused_before_it_was_known_is_nominated_by_the_decision() -> None:
    """The watch of kube-scheduler was ahead; nothing but the nomination would wake the pod."""
    cluster = InMemoryCluster()
    asked = Extender(cluster, group, timeout=10.0)
    assert left(asked, A) == []
    cluster.apply(PodAdded(A))
    assert asked.observe([bind("a", "m")], 0.0) == [Nominate(A.uid, M)]


def test_decided_node_that_is_not_in_the_list_is_nominated_first() -> None:
    """kube-scheduler may have sent a sample of the feasible nodes."""
    asked = decided(A)
    found = asked.filter(Asked(A), ["n", "o"], 0.0)
    assert (found.names, found.effects) == ([], [Nominate(A.uid, M)])
    assert asked.plans.bind_of(A.uid) is not None


def test_nominated_node_that_kube_scheduler_refuses_withdraws_the_gang_and_is_paused() -> None:
    binds = (bind("a", "m"), bind("b", "n"))
    asked = decided(A, B, binds=binds)
    found = asked.filter(Asked(A, nominated="m"), ["n", "o"], 5.0)
    assert found.names == []
    withdrawn, paused = found.effects
    assert isinstance(withdrawn, Withdraw)
    assert withdrawn.binds == binds
    assert paused == PauseNode(M)
    assert asked.next_deadline() == 7.0
    assert asked.advance(7.0) == [ResumeNode(M)]
    # both are asleep in kube-scheduler now, and are woken
    assert len(asked.observe([bind("a", "o"), bind("b", "n")], 8.0)) == 2


def test_member_that_is_here_and_is_refused_by_kube_scheduler_is_woken_again() -> None:
    """kube-scheduler has given up the first request, and this process has not seen that yet."""
    asked = decided(A, B, binds=(bind("a", "m"), bind("b", "n")))
    asked.bind(A.uid, "m", 0.0)
    asked.filter(Asked(A, nominated="m"), ["n"], 1.0)
    assert Nominate(A.uid, N) in asked.observe([bind("a", "n"), bind("b", "n")], 2.0)


def test_pod_of_another_scheduler_name_is_ordinary() -> None:
    found = extender(A).filter(Asked(A, is_ours=False), NAMES, 0.0)
    assert (found.names, found.failed) == (NAMES, {})


def test_malformed_group_is_refused_with_its_error() -> None:
    wrong = Pod(name="a", labels={"pod-group/name": "g", "pod-group/min-available": "x"})
    asked = extender()
    found = asked.filter(Asked(wrong), ["n"], 0.0)
    assert found.names == []
    assert "min-available" in found.failed["n"]
    assert asked.preempt(Asked(wrong), {"n": MetaVictims()}) == {}
    assert not asked.is_ordinary(Asked(wrong))


def test_ordinary_pod_keeps_every_node_when_nothing_is_decided() -> None:
    found = extender().filter(Asked(ordinary("p", 50)), NAMES, 0.0)
    assert (found.names, found.failed, found.effects) == (NAMES, {}, [])


@pytest.mark.parametrize(
    ("running", "cpu", "is_left"),
    [
        ([ordinary("there", node_name="m")], 1, False),
        ([], 1, True),
        ([], 2, False),
        ([ordinary("done", node_name="m", phase="Succeeded")], 1, True),
        ([Pod(name=f"p{n}", node_name="m") for n in range(2)], 0, False),  # the number of pods
    ],
)
def test_ordinary_pod_may_use_what_is_left_of_a_reserved_node(
    running: list[Pod], cpu: int, is_left: bool
) -> None:
    asked, pod = decided(A, *running), Asked(ordinary("p", cpu))
    found = asked.filter(pod, NAMES, 0.0)
    assert ("m" in found.names) is is_left
    assert found.failed == ({} if is_left else {"m": "the capacity is reserved for a pod group"})
    asked.plans.arrive(A.uid, "m", 0.0)
    # kube-scheduler has assumed it by now, and counts it itself
    assert asked.filter(pod, NAMES, 0.0).names == NAMES


def test_ordinary_pod_does_not_take_the_capacity_of_a_member_that_was_given_up() -> None:
    world = KubeScheduler()
    world.add_node("n", 2)
    world.add_gang("a", 2, 2)
    world.attempt(PodUID("a-0"))
    world.leave(PodUID("a-0"))
    world.place_ordinary("x")
    world.attempt(PodUID("a-1"))
    world.place_ordinary("y")  # kube-scheduler has not seen yet that a-0 is on the node
    world.check()
    assert (world.released, world.on_nodes("a")) == (1, 2)


# prioritize, preempt, bind ----------------------------------------------------------------------


def test_decided_node_scores_highest() -> None:
    asked = decided(A)
    assert asked.prioritize(Asked(A), ["n", "m"]) == [HostPriority("n", 0), HostPriority("m", 10)]
    scores = asked.prioritize(Asked(ordinary("p")), ["n", "m"])
    assert scores == [HostPriority("n", 10), HostPriority("m", 0)]


def test_victims_that_break_no_gang_are_preferred_and_a_member_has_none() -> None:
    asked = extender(member("a", node_name="n"), ordinary("p", node_name="m"))
    breaks, other = MetaVictims([MetaPod("a")]), MetaVictims([MetaPod("p")])
    pod = Asked(ordinary("high", priority=9))
    assert asked.preempt(pod, {"n": breaks, "m": other}) == {"m": other}
    assert asked.preempt(pod, {"n": breaks}) == {"n": breaks}
    assert asked.preempt(Asked(B), {"m": other}) == {}


def test_node_without_a_victim_is_left_out_of_the_answer() -> None:
    """kube-scheduler takes it for an error of the extender, and tries no other node either."""
    one = MetaVictims([MetaPod("x")], 0)
    given = {"n": MetaVictims(None, 0), "m": MetaVictims([], 0), "o": one}
    assert extender().preempt(Asked(ordinary("high")), given) == {"o": one}


def test_member_is_held_until_the_other_arrives() -> None:
    binds = (bind("a", "m"), bind("b", "n"))
    asked = decided(A, B, binds=binds)
    assert asked.bind(A.uid, "m", 0.0) == (HowToBind.HELD, [])
    assert asked.bind(B.uid, "n", 0.0) == (HowToBind.HELD, [Release(binds)])


def test_member_is_done_on_its_node_and_not_bound_elsewhere_or_undecided() -> None:
    asked = extender(member("a", node_name="n"), B)
    assert asked.bind(A.uid, "n", 0.0) == (HowToBind.DONE, [])
    with pytest.raises(NotDecided, match="is on node n"):
        asked.bind(A.uid, "m", 0.0)
    with pytest.raises(NotDecided):
        asked.bind(B.uid, "n", 0.0)


def test_ordinary_pod_is_bound_at_once_after_its_filter() -> None:
    asked = extender()
    left(asked, ordinary("p"))
    assert asked.bind(PodUID("p"), "n", 0.0) == (HowToBind.AT_ONCE, [])
    assert asked.bind(PodUID("p"), "n", 0.0) == (HowToBind.UNKNOWN, [])


# What is kept -----------------------------------------------------------------------------------


def test_what_is_remembered_of_pods_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod of which the deletion was seen before its last request is never deleted again."""
    monkeypatch.setattr("gangsched.kubernetes.extender._answers._MOST_ORDINARY", 2)
    asked = extender()
    for name in "pqr":
        left(asked, ordinary(name))
        left(asked, member(f"early-{name}"))
    asked._check()
    assert asked.bind(PodUID("p"), "n", 0.0)[0] is HowToBind.UNKNOWN
    assert asked.bind(PodUID("r"), "n", 0.0)[0] is HowToBind.AT_ONCE
    early = asked.observe([bind(f"early-{name}", "m") for name in "pqr"], 0.0)
    assert early == [Nominate(PodUID(f"early-{name}"), M) for name in "qr"]


def test_what_is_remembered_of_reasons_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gangsched.kubernetes.extender._reasons._MOST", 2)
    reasons = Reasons()
    for name in "pqr":
        reasons.observe(PodRefused(PodUID(name), name))
    assert len(reasons) == 2
    assert [reasons.of(PodUID(name), G) for name in "pqr"] == [None, "q", "r"]


def test_deleted_pod_leaves_nothing_behind() -> None:
    asked = extender(A)
    for pod in (A, B):
        left(asked, pod)
        asked.observe([PodRefused(pod.uid, "wrong")], 0.0)
        asked.pod_is_gone(pod.uid)
    asked._check()
    assert asked.observe([bind("a", "m"), bind("b", "m")], 0.0) == []  # nothing to be woken


def test_pauses_of_a_node_double_until_a_member_is_bound_there() -> None:
    pauses, lengths = NodePauses(), []
    for _ in range(7):
        pauses.refused(N, 0.0)
        lengths.append(pauses.next_deadline())
        assert N in pauses
        assert pauses.ended(60.0) == [N]
    assert lengths == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    pauses.accepted(N)
    pauses.refused(N, 0.0)
    assert pauses.next_deadline() == 2.0
    pauses.forget(N)
    assert pauses.next_deadline() is None


def test_bound_member_ends_the_doubling_of_pauses_and_a_deleted_node_has_none() -> None:
    asked = extender(A)

    def paused_until(now: float) -> float | None:
        asked.observe([bind("a", "m")], now)
        asked.filter(Asked(A, nominated="m"), ["n"], now)
        return asked.next_deadline()

    assert paused_until(0.0) == 2.0
    asked.advance(2.0)
    assert paused_until(2.0) == 6.0
    asked.advance(6.0)
    asked.ended(bind("a", "m"), 0.0, is_bound=True)
    assert paused_until(6.0) == 8.0
    asked.node_is_gone(M)
    assert asked.next_deadline() is None


# The cluster state of the extender: pods of groups, bound pods, and nodes that are paused


def cache() -> Cache:
    return Cache(["ours"], gangs_only=True)


def tell(state: Cache, **named: Any) -> Event | None:
    pod = Pod(name="p", **named)
    identity = Identity(pod.key, pod.uid, "1")
    facts = PodFacts(pod=pod, identity=identity, scheduler_name="ours")
    return state.pod(Delta("modified", identity, facts))


def test_pod_without_a_group_is_hidden_until_it_is_bound_or_joins_one() -> None:
    state = cache()
    assert tell(state) is None
    assert state.cluster.pod("default/p") is None
    assert isinstance(tell(state, node_name="n"), PodAdded)
    bound = state.cluster.pod("default/p")
    assert bound is not None
    assert state.membership(bound) is None
    state = cache()
    tell(state)
    assert isinstance(tell(state, pod_group="g"), PodAdded)
    assert isinstance(tell(state, pod_group="g", labels={"a": "b"}), PodUpdated)
    pod = state.cluster.pod("default/p")
    assert pod is not None
    assert state.membership(pod) is not None


def test_pod_with_a_malformed_group_is_shown_so_that_the_scheduler_says_why() -> None:
    labels = {"pod-group/name": "g", "pod-group/min-available": "x"}
    assert isinstance(tell(cache(), labels=labels), PodAdded)


def test_paused_node_takes_no_pod_and_follows_the_watch_until_it_is_deleted() -> None:
    state = cache()

    def show(cpu: int) -> Event | None:
        node, identity = Node(name=N, allocatable={"cpu": cpu}), Identity("n", "uid-n", "1")
        return state.node(Delta("modified", identity, NodeFacts(node=node, identity=identity)))

    def shown() -> tuple[str, bool]:
        node = state.cluster.node(N)
        assert node is not None
        return node.allocatable.quantity("cpu"), node.unschedulable

    show(1)
    assert isinstance(state.pause_node(N), NodeUpdated)
    assert shown() == ("1", True)
    assert state.pause_node(N) is None
    assert isinstance(show(2), NodeUpdated)
    assert shown() == ("2", True)
    assert isinstance(state.resume_node(N), NodeUpdated)
    assert shown() == ("2", False)
    assert state.resume_node(N) is None
    state.pause_node(N)
    assert isinstance(state.node(Delta("deleted", Identity("n", "uid-n", "2"))), NodeDeleted)
    assert state.resume_node(N) is None
    show(1)
    assert shown() == ("1", False)
    assert state.pause_node(NodeName("absent")) is None
