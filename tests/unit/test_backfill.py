"""Backfill: who is reserved for, the plan of the reserved gang, and which pods wait for it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Backfill,
    Bind,
    HostPort,
    LabelSelector,
    Node,
    NodeAdded,
    NodeName,
    Outcome,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    PodUID,
    PodUpdated,
    Preemption,
    Profile,
    Reservation,
    Scheduler,
    SchedulingUnit,
    Unschedulable,
    group_key,
    presets,
)
from gangsched.coscheduling import Coscheduling
from gangsched.errors import PluginError
from gangsched.outcomes import SUCCESS
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import make_pod
from support.backfill_host import BIG, EXACT, YOUNG, Host, crowded, running
from support.constrained_worlds import HOST, ZONE

# Backfill and the plan of the reserved gang: which pods wait for it, what is said, what wakes

_WEB = LabelSelector({"app": "web"})
_APART = PodAffinityTerm(topology_key=ZONE, label_selector=_WEB)
_REASON = "node(s) where the pod would delay the reserved start of pod group default/big"


def _zones(*zones: str, policy: Backfill | None = None, host: Host | None = None) -> Host:
    """Return nodes of size 2 in zones, each full until 100.

    Two pods leave each node then, so that no capacity is withheld for a gang of two.
    """
    host = Host(policy) if host is None else host
    for n, zone in enumerate(zones):
        labels = {HOST: f"n{n}", ZONE: zone}
        host.tell(NodeAdded(Node(name=f"n{n}", allocatable={"cpu": 2, "pods": 9}, labels=labels)))
        _run(host, _full(f"full-{n}", f"n{n}"), 100)
        _run(host, Pod(name=f"more-{n}", node_selector={HOST: f"n{n}"}), 100)
    return host


def _full(name: str, node: str) -> Pod:
    return Pod(name=name, requests={"cpu": 2}, node_selector={HOST: node})


def _run(host: Host, pod: Pod, seconds: float | None) -> str | None:
    """Add a pod, decide, and return its node."""
    host.tell(PodAdded(running(pod, None if seconds is None else str(seconds))))
    host.decide()
    return _node_of(host, pod.name)


def _node_of(host: Host, name: str) -> str | None:
    found = host.cluster.pod(PodUID(f"default/{name}"))
    return None if found is None else found.node_name


def _gang(host: Host, count: int = 2, **constraints: Any) -> None:
    for n in range(count):
        pod = make_pod(f"big-{n}", cpu=1, group="big", min_available=count)
        labels = {**pod.labels, "app": "web"}
        _run(host, evolve(pod, labels=labels, **constraints), 10)
    assert host.reservation.group == "default/big"


def _plain(name: str, app: str = "", **constraints: Any) -> Pod:
    """Return a pod that asks for no capacity."""
    return Pod(name=name, labels={"app": app} if app else {}, **constraints)


# what is in the way -----------------------------------------------------------------------------


def test_pod_that_matches_the_anti_affinity_of_the_gang_waits() -> None:
    host = _zones("a", "b")
    _gang(host, pod_anti_affinity=[_APART])
    assert _run(host, _plain("long", "web"), 500) is None
    assert _run(host, _plain("short", "web"), 50) is not None
    assert _run(host, _plain("other", "db"), 500) is not None


def test_first_pod_of_an_affinity_group_may_not_pin_a_gang_to_another_zone() -> None:
    """The gang may start anywhere while no pod matches its affinity; then only beside that pod."""
    host = Host()
    for n, (zone, cpu) in enumerate((("a", 2), ("b", 1))):
        labels = {HOST: f"n{n}", ZONE: zone}
        host.tell(NodeAdded(Node(name=f"n{n}", allocatable={"cpu": cpu, "pods": 9}, labels=labels)))
    _run(host, _full("full", "n0"), 100)
    _gang(host, pod_affinity=[_APART])
    assert host.reservation.nodes == ("n0",)
    assert _run(host, _plain("wrong", "web", node_selector={ZONE: "b"}), 500) is None
    assert _run(host, _plain("right", "web", node_selector={ZONE: "a"}), 500) == "n0"
    # from now on the gang has company, so one more pod is in the way of nothing
    host.at(1)
    assert _node_of(host, "wrong") == "n1"


# what is said, and what wakes -------------------------------------------------------------------


def _with_port(host: Host | None = None) -> Host:
    host = _zones("a", host=host)
    pod = make_pod("big-0", cpu=1, group="big", min_available=2)
    _run(host, evolve(pod, host_ports=[HostPort(80)]), 10)
    _run(host, make_pod("big-1", cpu=1, group="big", min_available=2), 10)
    assert _run(host, _plain("long", host_ports=[HostPort(80)]), 500) is None
    return host


def test_why_names_the_gang_with_the_reservation() -> None:
    host = _with_port()
    assert _REASON in str(host.scheduler.why(PodUID("default/long")))
    assert f"0/1 nodes are available: 1 {_REASON}" in str(
        host.scheduler.why(PodUID("default/long"))
    )


def test_pod_that_waits_is_woken_when_the_gang_has_started_and_ended() -> None:
    host = _with_port()
    host.now = 100
    host.end("full-0")
    host.at(100)
    assert _node_of(host, "big-0") == "n0"
    assert _node_of(host, "long") is None  # the port is taken now
    host.now = 110
    host.end("big-0", "big-1")
    host.at(110)
    assert _node_of(host, "long") == "n0"


def test_pod_that_waits_is_woken_when_the_reservation_moves_to_another_node() -> None:
    host = _with_port()
    labels = {HOST: "n9", ZONE: "z"}
    host.tell(NodeAdded(Node(name="n9", allocatable={"cpu": 2, "pods": 9}, labels=labels)))
    host.decide()
    assert _node_of(host, "big-0") == "n9"
    assert _node_of(host, "long") == "n0"


def test_pod_that_waits_is_not_tried_again_without_an_event() -> None:
    host = _with_port()
    known = len(host.effects)
    for now in (1, 2, 3):
        assert host.scheduler.next_deadline() is None or host.at(now) == []
    assert len(host.effects) == known


def test_restored_scheduler_holds_the_pod_and_wakes_it() -> None:
    host = _with_port()
    data = json.loads(json.dumps(host.scheduler.snapshot()))
    host.scheduler = host.make()
    host.scheduler.restore(data)
    host.scheduler._check()
    assert host.decide() == []
    assert _run(host, _plain("more", host_ports=[HostPort(80)]), 500) is None
    assert _run(host, _plain("short", host_ports=[HostPort(80)]), 50) == "n0"
    host.end("big-0", "short")
    host.decide()
    assert _node_of(host, "long") == "n0"


def test_what_if_holds_the_pod_and_changes_nothing() -> None:
    host = _with_port()
    more = running(_plain("more", host_ports=[HostPort(80)]), "500")
    assert not [e for e in host.scheduler.what_if(PodAdded(more)).effects if isinstance(e, Bind)]
    gone = host.scheduler.what_if(PodDeleted(PodUID("default/big-0")), until=1)
    assert [e.uid for e in gone.effects if isinstance(e, Bind)] == ["default/long"]
    assert host.decide() == []


def test_pod_of_a_higher_priority_takes_the_port_and_moves_the_reservation() -> None:
    host = _with_port()
    port = [HostPort(80)]
    assert _run(host, _plain("urgent", host_ports=port, priority=9), 500) == "n0"
    assert host.reservation.starts_at == 500


def test_drained_nodes_are_kept_free_of_pods_in_the_way_elsewhere_in_the_zone() -> None:
    host = Host(Backfill())
    for name, cpu in (("n0", 2), ("n1", 1)):
        labels = {HOST: name, ZONE: "a"}
        host.tell(NodeAdded(Node(name=name, allocatable={"cpu": cpu, "pods": 9}, labels=labels)))
    _run(host, _full("full", "n0"), None)
    for n in range(2):
        pod = evolve(make_pod(f"big-{n}", cpu=1, group="big", min_available=2))
        term = PodAffinityTerm(topology_key=ZONE, label_selector=LabelSelector({"app": "db"}))
        _run(host, evolve(pod, pod_anti_affinity=[term]), None)
    assert host.reservation.starts_at is None
    assert _run(host, _plain("db", "db", node_selector={HOST: "n1"}), None) is None
    assert _run(host, _plain("any", "any", node_selector={HOST: "n1"}), None) == "n1"


class _Preempting(Host):
    def make(self) -> Scheduler:
        return presets.gang(self.cluster, backfill=self.policy, preemption=Preemption())


def test_preemption_evicts_no_pod_for_a_pod_that_waits_for_the_gang() -> None:
    host = _with_port(_Preempting())
    more = _plain("more", host_ports=[HostPort(80)])
    assert _run(host, more, 500) is None
    assert _node_of(host, "full-0") == "n0"
    assert host.reservation.starts_at == 100


def test_node_that_is_held_for_a_nominated_pod_is_drained_too() -> None:
    host = _Preempting(Backfill(), a=2)
    host.pod("low", cpu=2)
    host.decide()
    host.pod("urgent", cpu=2, priority=9)
    host.decide()
    host.gang("big", 2, None)
    host.decide()
    assert host.reservation.group == BIG
    assert host.reservation.nodes == ("a",)


# plugins that do not say which pods are in the way ------------------------------------------------


class _Alone:
    """Accepts a pod with the label only on a node without other pods with the label."""

    name = "Alone"

    def pod_signature(self, pod: Pod) -> str | None:
        return pod.labels.get("alone")

    def node_signature(self, node: NodeView) -> None:
        return None

    def reads_pods(self, pod: Pod) -> bool:
        return "alone" in pod.labels

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        taken = "alone" in pod.labels and any("alone" in other.labels for other in node.pods)
        return Unschedulable("taken") if taken else SUCCESS


class _Says(_Alone):
    """The same, and says where other pods are in the way."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def hindered_within(self, state: CycleView, pod: Pod, other: Pod) -> Iterable[str] | None:
        if isinstance(self.answer, Exception):
            raise self.answer
        found: Iterable[str] | None = self.answer
        return found


def _with_plugin(plugin: Any) -> Host:
    class _Host(Host):
        def make(self) -> Scheduler:
            profile = Profile(Coscheduling(), NodeResources(), plugin, DefaultBinder())
            return Scheduler(self.cluster, profile, unit=SchedulingUnit.GROUP, backfill=self.policy)

    host = _Host(n0=2)
    _run(host, make_pod("full", cpu=2), 100)
    for n in range(2):
        pod = make_pod(f"big-{n}", cpu=1, group="big", min_available=2)
        labels = {**pod.labels} if n else {**pod.labels, "alone": "yes"}
        _run(host, evolve(pod, labels=labels), 10)
    assert host.reservation.starts_at == 100
    return host


def test_any_pod_is_asked_about_if_a_plugin_does_not_say_which_are_in_the_way() -> None:
    host = _with_plugin(_Alone())
    assert _run(host, Pod(name="long", labels={"alone": "yes"}), 500) is None
    assert _run(host, Pod(name="plain"), 500) == "n0"


def test_plugin_that_says_that_no_pod_is_in_the_way_is_believed() -> None:
    host = _with_plugin(_Says(()))
    assert _run(host, Pod(name="long", labels={"alone": "yes"}), 500) == "n0"


@pytest.mark.parametrize("answer", ["zone", 7, [1], ValueError("no")])
def test_plugin_that_misbehaves_is_named_and_the_pod_is_asked_about(answer: object) -> None:
    host = _with_plugin(_Says(answer))
    with pytest.raises(PluginError, match=r"Alone.*hindered_within"):
        host.tell(PodAdded(running(Pod(name="long", labels={"alone": "yes"}), "500")))
    assert _node_of(host, "long") is None
    host.scheduler._check()


# Candidates for a reservation: gangs that still have to start, and can


def test_late_member_of_a_started_gang_respects_the_next_reservation() -> None:
    host = Host(Backfill(), a=3)
    host.pod("old", cpu=2)
    host.decide()
    for n in range(4):
        host.pod(f"big-{n}", group="big", min_available=2)
    host.gang("next", 4, None)
    host.decide()
    assert host.reservation.group == BIG
    host.end("old")
    host._take(host.scheduler.schedule_one(now=0.0) or ())
    started = [pod.name for pod in host.cluster.pods_on(NodeName("a"))]
    assert started == ["big-0", "big-1", "big-2"]
    host.tell(NodeAdded(Node(name=NodeName("b"), allocatable={"cpu": 1})))
    assert host.decide() == []
    assert host.reservation.group == group_key("default", "next")


def test_gang_without_its_last_member_preempts_nothing() -> None:
    host = Host(Backfill(EXACT, least_members=1), a=2)
    host.pod("old", 100)
    host.decide()
    host.gang("big", 1, cpu=2)
    host.decide()
    assert host.reservation.group == BIG
    host.end("big-0")
    host.pod("long")
    assert host.decide() == ["long"]
    assert host.scheduler.reservation is None


def test_reservation_ends_with_the_event_that_deletes_its_gang() -> None:
    host = crowded()
    assert host.reservation.group == BIG
    host.end("big-0", "big-1", "big-2", "big-3")
    assert host.scheduler.reservation is None


class _RefusesBig:
    """Reserves nothing for the members of one gang."""

    name = "RefusesBig"

    def reserve(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        return Unschedulable("no token") if pod.name.startswith("big") else SUCCESS

    def unreserve(
        self, state: CycleView, pod: Pod, node: NodeName, *, cause: str, now: float
    ) -> None:
        """Nothing was taken."""


class _RefusingHost(Host):
    def make(self) -> Scheduler:
        return presets.gang(self.cluster, backfill=self.policy, plugins=[_RefusesBig()])


def test_gang_that_fits_and_is_refused_loses_its_reservation() -> None:
    host = _RefusingHost(a=2)
    host.pod("old", 100, cpu=2)
    host.decide()
    host.gang("big", 2)
    host.decide()
    assert host.reservation.group == BIG
    host.end("old")
    assert host.decide() == []
    assert host.scheduler.reservation is None
    host.pod("long", 900)
    assert host.decide() == ["long"]


@pytest.mark.parametrize("group", [{}, {"group": "one", "min_available": 1}], ids=["pod", "gang"])
def test_higher_priority_goes_before_the_gang_with_the_reservation(group: dict[str, Any]) -> None:
    host = Host(a=2)
    host.pod("old", 100, cpu=2)
    host.decide()
    host.gang("big", 2)
    host.decide()
    assert host.reservation.group == BIG
    host.pod("urgent", cpu=2, priority=9, **group)
    assert host.decide() == []
    host.end("old")
    assert host.decide() == ["urgent"]


def test_gang_takes_the_reservation_after_many_that_fit_on_no_empty_cluster() -> None:
    host = Host(Backfill(EXACT, after_seconds=5), a=2)
    host.pod("old", 100, cpu=2)
    host.gang("big", 2)
    host.decide()
    host.at(5)
    assert host.reservation.group == BIG
    for n in range(20):
        host.gang(f"vast-{n}", 3, priority=9)
    host.gang("young", 2, priority=1)
    host.decide()
    host.at(10)
    assert host.reservation.group == YOUNG


def test_gang_that_fits_on_no_empty_cluster_gets_a_reservation_once_fewer_members_suffice() -> None:
    host = Host(a=2)
    host.pod("old", 100, cpu=2)
    host.decide()
    host.tell(PodGroupAdded(PodGroup(name="big", min_available=3)))
    for n in range(3):
        host.pod(f"big-{n}", 10, group="big")
    host.decide()
    assert host.scheduler.reservation is None
    host.tell(PodGroupUpdated(PodGroup(name="big", min_available=2)))
    host.decide()
    assert host.reservation.group == BIG


# A reservation on a real cluster names its start as a date

NODES = (NodeName("a"), NodeName("b"))


def test_start_of_a_reservation_is_a_date_in_utc() -> None:
    made = Reservation(BIG, 1795370000.0, 1795370060.25, NODES)
    expected = "2 nodes are reserved for pod group default/big, starts by 2026-11-22T17:54:20.25Z"
    assert made.in_utc() == expected


def test_reservation_of_drained_nodes_has_no_start_in_utc() -> None:
    made = Reservation(BIG, 1795370000.0, None, NODES[:1])
    assert made.in_utc() == str(made) == "1 node is drained for pod group default/big"


def test_pod_whose_run_time_changes_is_asked_about_it_again() -> None:
    host = Host(a=2)
    host.pod("old", 100)
    host.decide()
    host.gang("big", 2)
    host.decide()
    assert host.reservation.group == BIG
    host.pod("late", 900)
    assert host.decide() == []
    late = host.cluster.pod(PodUID("default/late"))
    assert late is not None
    host.tell(PodUpdated(running(late, "50")))
    assert host.decide() == ["late"]


# regular pods -----------------------------------------------------------------------------------


def _wide_pod(policy: Backfill | None = None) -> Host:
    """Return a node of size 4, half full until 100, and a rejected pod of 4."""
    host = Host(policy, a=4)
    host.pod("old", 100, cpu=2)
    host.decide()
    host.pod("wide", 10, cpu=4)
    host.decide()
    return host


def test_regular_pod_gets_a_reservation_and_is_not_passed_over_for_ever() -> None:
    host = _wide_pod()
    assert (host.reservation.group, host.reservation.pod) == (None, "default/wide")
    assert str(host.reservation) == "1 node is reserved for pod default/wide, starts by 100"
    host.pod("long", 200)
    host.pod("short", 60)
    host.decide()
    assert _node_of(host, "long") is None
    assert _node_of(host, "short") == "a"
    host.now = 100
    host.end("old", "short")
    host.at(100)
    assert _node_of(host, "wide") == "a"


def test_reservation_of_a_regular_pod_is_restored() -> None:
    host = _wide_pod()
    before = host.reservation
    data = json.loads(json.dumps(host.scheduler.snapshot()))
    host.scheduler = host.make()
    host.scheduler.restore(data)
    host.scheduler._check()
    assert host.reservation == before


def test_reservations_are_for_gangs_only_with_two_least_members() -> None:
    assert _wide_pod(Backfill(EXACT, least_members=2)).scheduler.reservation is None
