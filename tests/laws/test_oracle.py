"""The oracle notices: each law, broken on purpose by effects made by hand."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    BindFailed,
    Bound,
    Effect,
    Event,
    GroupBound,
    GroupKey,
    GroupRejected,
    GroupScheduled,
    InMemoryCluster,
    MatchPolicy,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    NodeUpdated,
    Nominated,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodRejected,
    PodScheduled,
    PodUID,
    PodUnschedulable,
    PodUpdated,
    PodWaiting,
    Release,
    Topology,
)
from support.oracle import LawOracle

pytestmark = pytest.mark.once("makes no scheduler")


G = GroupKey("default/g")
N = NodeName("n")
A, B, C = PodUID("a"), PodUID("b"), PodUID("c")


def oracle(*, cpu: int = 3, minimum: int = 2) -> LawOracle:
    """Return an oracle that knows one node, one group, and three members of it."""
    watching = LawOracle()
    watching.event(NodeAdded(Node(name=N, allocatable={"cpu": cpu})), 0.0)
    watching.event(PodGroupAdded(PodGroup(name="g", min_available=minimum)), 0.0)
    for uid in (A, B, C):
        pod = Pod(name=f"pod-{uid}", uid=uid, requests={"cpu": 1}, pod_group="g")
        watching.event(PodAdded(pod), 0.0)
    watching.effects((), 0.0)
    return watching


def waiting(uid: PodUID, *, node: NodeName = N, deadline: float = 10.0) -> PodWaiting:
    """Return the notice that a pod waits."""
    return PodWaiting(uid, node, deadline, 1)


GIVEN_UP = "the bind of pod pod-b failed"
LET_GO: tuple[Effect, ...] = (
    GroupScheduled(G, 1, 2, 0.0),
    Release(G, (A, B)),
    Bind(A, N, 1),
    Bind(B, N, 1),
)


def test_lawful_course_is_passed() -> None:
    """Wait, release, bind; a rejection; a failed bind and another; a member after the start."""
    watching = oracle()
    watching.effects((waiting(A),), 0.0)
    watching.effects((PodRejected(A, N, "no"), GroupRejected(G, 1, "no", 1.0)), 5.0)
    watching.effects((waiting(A, deadline=16.0),), 6.0)
    watching.effects(LET_GO, 6.0)
    watching.event(Bound(A, N, 1), 7.0)
    watching.effects((PodScheduled(A, N),), 7.0)
    watching.event(BindFailed(B, 1, "no"), 7.0)
    watching.effects((PodUnschedulable(B, "no"),), 7.0)
    watching.effects((Release(G, (B,)), Bind(B, N, 2), Release(G, (C,)), Bind(C, N, 1)), 8.0)


@pytest.mark.parametrize(
    ("law", "first", "then", "now"),
    [
        pytest.param(1, (), (Bind(A, N, 1),), 0.0, id="a bind without a release"),
        pytest.param(1, (), (Release(G, (A,)), Bind(A, N, 1)), 0.0, id="one of two"),
        pytest.param(1, (waiting(A),), (Release(G, (A,)), Bind(A, N, 1)), 0.0, id="one again"),
        pytest.param(1, (waiting(A),), (*LET_GO[:2], Bind(A, N, 1)), 0.0, id="a bind is missing"),
        pytest.param(1, LET_GO, (GroupRejected(G, 2, GIVEN_UP, 1.0),), 0.0, id="not its attempt"),
        pytest.param(1, LET_GO, (GroupBound(G, 2, 2),), 0.0, id="bound by another attempt"),
        pytest.param(2, (waiting(A),), (GroupRejected(G, 1, "", 1.0),), 0.0, id="A waits on"),
        pytest.param(6, (), (waiting(A, deadline=11.0),), 0.0, id="a deadline too late"),
        pytest.param(6, (waiting(A),), (waiting(B, deadline=14.0),), 4.0, id="each its own"),
        pytest.param(6, (waiting(A),), (), 10.0, id="a deadline passes"),
        pytest.param(8, (waiting(A),), (waiting(A),), 0.0, id="waits twice"),
        pytest.param(8, LET_GO, (Release(G, (A,)), Bind(A, N, 2)), 0.0, id="bound twice"),
        pytest.param(8, (), (*LET_GO, GroupRejected(G, 1, GIVEN_UP, 1.0)), 0.0, id="and given up"),
        pytest.param(8, LET_GO, (PodRejected(A, N, ""),), 0.0, id="falls while it is bound"),
        pytest.param(8, (), (PodRejected(A, N, ""),), 0.0, id="gives back what it has not"),
        pytest.param(8, LET_GO, (PodScheduled(A, N),), 0.0, id="scheduled before it is bound"),
        pytest.param(8, (), (waiting(A, node=NodeName("m")),), 0.0, id="no such node"),
        pytest.param(8, (), (waiting(PodUID("d")),), 0.0, id="no such pod"),
    ],
)
def test_broken_law_is_detected(
    law: int, first: tuple[Effect, ...], then: tuple[Effect, ...], now: float
) -> None:
    """The message names the law."""
    watching = oracle()
    watching.effects(first, 0.0)
    with pytest.raises(AssertionError, match=f"^law {law}: "):
        watching.effects(then, now)


@pytest.mark.parametrize("is_given_up", [True, False])
def test_member_whose_bind_is_under_way_leaves_with_its_gang(is_given_up: bool) -> None:
    """P3: a nomination may count on its node, since it is evicted when its bind has ended."""
    watching, urgent = oracle(cpu=2), PodUID("urgent")
    watching.effects(LET_GO, 0.0)
    watching.event(BindFailed(B, 1, "no"), 1.0)
    reason = GIVEN_UP if is_given_up else "Insufficient cpu"
    rejected = GroupRejected(G, 1 if is_given_up else 2, reason, 2.0)
    watching.effects((PodUnschedulable(B, "no"), rejected), 1.0)
    pod = Pod(name="urgent", uid=urgent, requests={"cpu": 2}, priority=1)
    watching.event(PodAdded(pod), 1.0)
    nominated = Nominated(None, 1, ((urgent, N),), (), 60.0)
    with nullcontext() if is_given_up else pytest.raises(AssertionError, match="P3: "):
        watching.effects((nominated,), 1.0)


def test_member_that_is_bound_after_its_gang_was_given_up_is_evicted() -> None:
    watching = oracle()
    watching.effects(LET_GO, 0.0)
    watching.event(BindFailed(B, 1, "no"), 1.0)
    watching.effects((GroupRejected(G, 1, GIVEN_UP, 2.0), PodUnschedulable(B, "no")), 1.0)
    watching.event(Bound(A, N, 1), 2.0)
    with pytest.raises(AssertionError, match="P6: a is bound, and its gang was evicted"):
        watching.effects((PodScheduled(A, N),), 2.0)


def test_node_with_too_little_left_is_noticed() -> None:
    """Law 8: exact, in whole numbers, with those that only wait."""
    watching = oracle(cpu=1)
    watching.effects((waiting(A),), 0.0)
    with pytest.raises(AssertionError, match="law 8: b is given n, which has too little"):
        watching.effects((waiting(B),), 0.0)


def test_pod_that_is_gone_and_holds_a_node_is_noticed() -> None:
    """Law 8: one state, and a pod that does not exist has none."""
    watching = oracle()
    watching.effects((waiting(A),), 0.0)
    watching.event(PodDeleted(A), 0.0)
    with pytest.raises(AssertionError, match="law 8: a holds n, though facts say"):
        watching.effects((), 0.0)


def test_bind_to_another_node_than_the_assumed_one_is_detected() -> None:
    """Law 8."""
    watching = oracle(minimum=1)
    watching.event(NodeAdded(Node(name=NodeName("m"), allocatable={"cpu": 1})), 0.0)
    watching.effects((waiting(A),), 0.0)
    with pytest.raises(AssertionError, match="law 8: a holds n, and is bound to m"):
        watching.effects((Release(G, (A,)), Bind(A, NodeName("m"), 1)), 0.0)


def test_number_of_a_bind_that_was_used_before_is_noticed() -> None:
    """Law 2: otherwise a late report of the first could be taken for one of the second (F14)."""
    watching = oracle()
    watching.effects((waiting(A), *LET_GO), 0.0)
    watching.event(BindFailed(A, 1, "no"), 0.0)
    watching.effects((PodUnschedulable(A, "no"),), 0.0)
    with pytest.raises(AssertionError, match="law 8: a: a second bind says attempt 1"):
        watching.effects((Release(G, (A,)), Bind(A, N, 1)), 0.0)


def test_deleted_node_takes_no_pod() -> None:
    """Law 8."""
    watching = oracle()
    watching.event(NodeDeleted(N), 0.0)
    with pytest.raises(AssertionError, match="law 8: a is given n, which does not exist"):
        watching.effects((waiting(A),), 0.0)


M = NodeName("m")
APART: tuple[Effect, ...] = (*LET_GO[:3], Bind(B, M, 1))


def in_racks(rack: str | None, other: str | None, cluster: InMemoryCluster) -> LawOracle:
    """Return an oracle of a group within one rack, and of two nodes, with late events."""
    watching = LawOracle(cluster=cluster)
    facts: list[Event] = [
        NodeAdded(racked(N, rack)),
        NodeAdded(racked(M, other)),
        PodGroupAdded(PodGroup(name="g", min_available=2, topology=Topology("rack"))),
        *(
            PodAdded(Pod(name=f"pod-{uid}", uid=uid, requests={"cpu": 1}, pod_group="g"))
            for uid in (A, B, C)
        ),
    ]
    for fact in facts:
        watching.event(cluster.apply(fact), 0.0)
    watching.effects((), 0.0)
    return watching


def racked(name: NodeName, rack: str | None) -> Node:
    return Node(name=name, allocatable={"cpu": 3}, labels={} if rack is None else {"rack": rack})


@pytest.mark.parametrize(("rack", "other"), [("1", "2"), ("1", None), (None, "1"), (None, None)])
def test_gang_outside_one_value_of_its_label_is_detected(
    rack: str | None, other: str | None
) -> None:
    watching = in_racks(rack, other, InMemoryCluster())
    with pytest.raises(AssertionError, match=r"^law 1: default/g is let go to .*within one rack"):
        watching.effects(APART, 0.0)


@pytest.mark.parametrize(("rack", "lawful"), [("1", True), ("2", False), (None, True)])
def test_gang_is_placed_in_the_domain_of_its_running_member(rack: str | None, lawful: bool) -> None:
    """A pod on a node without the label states nothing."""
    cluster = InMemoryCluster()
    watching = in_racks("1", "1", cluster)
    node = racked(NodeName("o"), rack)
    runs = Pod(name="pod-c", uid=C, requests={"cpu": 1}, pod_group="g", node_name=node.name)
    watching.event(cluster.apply(NodeAdded(node)), 0.0)
    watching.event(cluster.apply(PodUpdated(runs)), 0.0)
    watching.effects((), 0.0)
    with nullcontext() if lawful else pytest.raises(AssertionError, match=r"^law 1: "):
        watching.effects(APART, 0.0)


@pytest.mark.parametrize("looked", [True, False])
def test_node_shows_its_last_event_or_the_state_when_a_pod_left(
    looked: bool,
) -> None:
    """The fact that it has another label is late."""
    cluster = InMemoryCluster()
    watching = in_racks("1", "2", cluster)
    runs = Pod(name="other", node_name=M)
    watching.event(cluster.apply(PodAdded(runs)), 0.0)
    cluster.apply(NodeUpdated(racked(M, "1")))
    if looked:
        watching.event(cluster.apply(PodDeleted(runs.uid)), 0.0)
    watching.effects((), 0.0)
    with nullcontext() if looked else pytest.raises(AssertionError, match=r"^law 1: "):
        watching.effects(APART, 0.0)


@pytest.mark.parametrize("says", ["another group", "another role"])
@pytest.mark.parametrize("reported", [False, True])
def test_binding_member_counts_as_released_until_its_report(says: str, reported: bool) -> None:
    """The role that the group needs is that of a member that says otherwise by now."""
    cluster = InMemoryCluster()
    watching = LawOracle(cluster=cluster, match=MatchPolicy.WAITING_AND_RUNNING)
    group = PodGroup(name="g", min_available=1, roles={"ps": 1})
    role = "pod-group.scheduling.sigs.k8s.io/role"
    lead = Pod(name="a", uid=A, pod_group="g", labels={role: "ps"})
    other = Pod(name="b", uid=B, pod_group="g", labels={role: "worker"})
    facts: list[Event] = [NodeAdded(Node(name=N, allocatable={"cpu": 3})), PodGroupAdded(group)]
    for fact in (*facts, PodAdded(lead), PodAdded(other)):
        watching.event(cluster.apply(fact), 0.0)
    watching.effects((GroupScheduled(G, 1, 1, 0.0), Release(G, (A,)), Bind(A, N, 1)), 0.0)
    new = {"pod_group": "h"} if says == "another group" else {"labels": {role: "worker"}}
    watching.event(cluster.apply(PodUpdated(evolve(lead, **new))), 0.0)
    if reported:
        watching.event(BindFailed(A, 1, "no answer"), 0.0)
        watching.effects((PodUnschedulable(A, "no answer"),), 0.0)
    with pytest.raises(AssertionError, match=r"^law 1: ") if reported else nullcontext():
        watching.effects((Release(G, (B,)), Bind(B, N, 1)), 0.0)
