"""``PodUnschedulable`` for every pending member of a gang, and only when its reason changes."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Backoff,
    Effect,
    Event,
    GroupIncomplete,
    GroupKey,
    GroupRejected,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeDeleted,
    Outcome,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    PodUID,
    PodUnschedulable,
    PodUpdated,
    Scheduler,
    SchedulingUnit,
    Success,
    Toleration,
    Unschedulable,
    presets,
)
from gangsched.constraints import HostPort
from gangsched.explain import NoNodeFits
from gangsched.protocols import CycleView
from gangsched.testing import make_node, make_pod

LARGE = make_node("n", cpu=7)
MAKERS = pytest.mark.parametrize("make", [presets.gang, presets.coscheduling])


class Host:
    def __init__(self, make: Any = presets.gang, **how: Any) -> None:
        self.cluster, self.now = InMemoryCluster(), 0.0
        self.scheduler: Scheduler = make(self.cluster, **how)

    def tell(self, *events: Event) -> list[Effect]:
        """Apply events and decide until nothing is left; return all effects."""
        found: list[Effect] = []
        for event in events:
            found += self.scheduler.handle(self.cluster.apply(event), now=self.now)
        while (effects := self.scheduler.schedule_one(now=self.now)) is not None:
            found += effects
        self.scheduler._check()
        return found

    def wait(self) -> list[Effect]:
        due = self.scheduler.next_deadline()
        assert due is not None
        self.now = due
        return [*self.scheduler.advance(now=due), *self.tell()]


def told(effects: list[Effect]) -> dict[str, list[str]]:
    """Return the reasons that pods were told, by name."""
    found: dict[str, list[str]] = {}
    for effect in effects:
        if isinstance(effect, PodUnschedulable):
            found.setdefault(effect.uid.partition("/")[2], []).append(effect.reason)
    return found


def gang(count: int) -> list[Event]:
    names = (f"g{number}" for number in range(count))
    return [PodAdded(make_pod(name, group="g", min_available=count, cpu=1)) for name in names]


def in_pieces(make: Any) -> Host:
    """Return a host where a gang of three fails: its CPUs are free in pieces too small."""
    host = Host(make, backoff=Backoff(1.0, 1.0))
    sizes = {"g0": 6, "g1": 2, "g2": 2}
    pods = [make_pod(name, group="g", min_available=3, cpu=cpu) for name, cpu in sizes.items()]
    host.tell(*[NodeAdded(make_node(f"m{number}", cpu=1)) for number in range(3)])
    host.tell(NodeAdded(LARGE), *map(PodAdded, pods))
    return host


def anew(host: Host, node: Node) -> list[Effect]:
    """Let a node be replaced, after the backoff of the gang and its waits on permit."""
    host.now += 60.0
    effects = list(host.scheduler.advance(now=host.now))
    host.tell(NodeDeleted(node.name))
    effects += host.tell(NodeAdded(node))
    host.now += 60.0
    return [*effects, *host.scheduler.advance(now=host.now)]


@MAKERS
def test_every_pending_member_of_a_gang_that_fails_is_told(make: Any) -> None:
    host = in_pieces(make)
    effects = anew(host, LARGE)
    (rejected, *_more) = (effect for effect in effects if isinstance(effect, GroupRejected))
    rows = host.scheduler.snapshot()["pods"]
    told_last = {row["uid"].partition("/")[2]: row["told"] for row in rows}
    assert told_last.keys() == {"g0", "g1", "g2"}
    assert not any("incomplete" in reason for reason in told_last.values())
    assert rejected.reason in told_last.values(), "and the group has a notice of its own"


def test_gang_that_keeps_failing_for_one_reason_is_told_once() -> None:
    host = in_pieces(presets.gang)
    anew(host, LARGE)
    again = anew(host, LARGE) + anew(host, LARGE)
    assert sum(isinstance(effect, GroupRejected) for effect in again) == 2
    assert [len(reasons) for reasons in told(again).values()] == [2], "the member that was tried"


def test_waiting_siblings_of_a_member_that_found_no_node_are_told_when_they_lose_theirs() -> None:
    host = Host(presets.coscheduling)
    effects = host.tell(NodeAdded(make_node("n", cpu=2)), *gang(4))
    reasons = {name: said[-1] for name, said in told(effects).items()}
    assert reasons["g3"] == "pod g2 cannot be placed: " + reasons["g2"], "it was not tried"
    effects = host.wait()
    assert told(effects).keys() >= {"g0", "g1"}


def test_members_of_an_incomplete_gang_are_told_as_they_arrive() -> None:
    host = Host()
    one, two, three = gang(3)
    incomplete = "pod group default/g is incomplete"
    effects = host.tell(one)
    assert effects == [
        GroupIncomplete(GroupKey("default/g"), 1, 3),
        PodUnschedulable(PodUID("default/g0"), incomplete),
    ]
    assert told(host.tell(two)) == {"g1": [incomplete]}
    assert told(host.tell(two)) == {}, "a repeated event tells nothing"
    assert "incomplete" not in str(told(host.tell(three)))


def test_member_of_an_incomplete_gang_is_told_again_after_the_gang_failed() -> None:
    host = Host()
    host.tell(NodeAdded(make_node("n", cpu=1)), *gang(3))
    effects = host.tell(PodDeleted(PodUID("default/g2")))
    assert {name: said[-1] for name, said in told(effects).items()} == dict.fromkeys(
        ("g0", "g1"), "pod group default/g is incomplete"
    )


def test_members_of_all_groups_of_a_bundle_are_told() -> None:
    host = Host()
    names = ("a", "b")
    bundle = tuple(GroupKey(f"default/{name}") for name in names)
    specs = [PodGroup(name=name, min_available=2, bundle=bundle) for name in names]
    pods = [PodAdded(make_pod(f"{name}{n}", group=name, cpu=1)) for name in names for n in range(2)]
    host.tell(NodeAdded(make_node("n", cpu=3)), *map(PodGroupAdded, specs))
    effects = host.tell(*pods)
    assert {name: said[-1] for name, said in told(effects).items()}.keys() == {
        *("a0", "a1", "b0", "b1")
    }
    assert all("waits for another" not in said[-1] for said in told(effects).values())


def test_pod_that_changes_is_tried_and_told_again_for_the_same_reason() -> None:
    host = Host()
    host.tell(NodeAdded(LARGE))
    pod = make_pod("p", cpu=9)
    assert len(told(host.tell(PodAdded(pod)))["p"]) == 1
    assert told(host.tell(PodUpdated(evolve(pod, annotations={"a": "b"})))) == {}
    tolerating = evolve(pod, tolerations=[Toleration(key="a")])
    assert len(told(host.tell(PodUpdated(tolerating)))["p"]) == 1


def test_reason_of_a_full_node_is_that_of_the_plugin_that_kube_scheduler_asks_first() -> None:
    host = Host(presets.kube_default)
    host.tell(NodeAdded(make_node("n", allocatable={"cpu": 8, "pods": 1})))
    host.tell(NodeAdded(make_node("small", allocatable={"cpu": 1, "pods": 9})))
    port = HostPort(80)
    taking = evolve(make_pod("taking", cpu=1), host_ports=[port], node_name="n")
    host.tell(PodAdded(taking))
    pod = evolve(make_pod("p", cpu=2), host_ports=[port])
    reason = (
        "0/2 nodes are available: 1 Insufficient cpu,"
        " 1 node(s) didn't have free ports for the requested pod ports."
    )
    assert told(host.tell(PodAdded(pod))) == {"p": [reason]}


# A gang that asks for the same as one that has failed, told as an autoscaler needs it

FULL = NodeAdded(make_node("n", cpu=1))
UNITS = pytest.mark.parametrize("unit", SchedulingUnit)


def member(group: str, number: int) -> PodAdded:
    """Return the event of a member that needs more than the node has."""
    return PodAdded(make_pod(f"{group}{number}", group=group, min_available=2, cpu=2))


@UNITS
def test_pods_of_gangs_that_ask_for_the_same_are_all_told(unit: SchedulingUnit) -> None:
    host = Host(presets.coscheduling, unit=unit)
    effects = host.tell(FULL, *(member(group, n) for group in "abc" for n in range(2)))
    assert len(told(effects)) == 6
    assert all("Insufficient cpu" in said[-1] for said in told(effects).values())
    rejected = [e.group for e in effects if isinstance(e, GroupRejected)]
    assert sorted(rejected) == ["default/a", "default/b", "default/c"]
    assert all(isinstance(r.why, NoNodeFits) and str(r.why) for r in host.scheduler.pending())
    later = told(host.tell(member("b", 2)))
    assert "Insufficient cpu" in later["b2"][-1], "an elastic member that arrives later"
    assert host.tell() == []


@UNITS
def test_gang_that_was_incomplete_for_a_while_is_told_again(unit: SchedulingUnit) -> None:
    host = Host(presets.coscheduling, unit=unit)
    host.tell(FULL, *(member(group, n) for group in "ab" for n in range(2)))
    incomplete = host.tell(PodGroupAdded(PodGroup(name="b", min_available=3)))
    assert "incomplete" in told(incomplete)["b0"][-1]
    again = told(host.tell(PodGroupUpdated(PodGroup(name="b", min_available=2))))
    assert all("Insufficient cpu" in again[name][-1] for name in ("b0", "b1"))


def test_pods_are_told_once_when_a_member_is_deleted_while_another_waits() -> None:
    host = Host(presets.coscheduling)
    for event in (NodeAdded(make_node("n", cpu=3)), *gang(3)):
        host.scheduler.handle(host.cluster.apply(event), now=0.0)
    host.scheduler.schedule_one(now=0.0)
    assert [wait.uid for wait in host.scheduler.waiting] == ["default/g0"]
    gone = host.cluster.apply(PodDeleted(PodUID("default/g1")))
    effects = host.scheduler.handle(gone, now=1.0)
    assert [type(effect).__name__ for effect in effects] == [
        *("PodRejected", "GroupRejected", "GroupIncomplete", "PodUnschedulable")
    ]
    # g0 was told so before g2 came
    assert effects[-1] == PodUnschedulable(
        PodUID("default/g2"), "pod group default/g is incomplete"
    )


def test_group_is_told_anew_when_one_that_it_names_says_something_else() -> None:
    host = Host()
    host.tell(PodGroupAdded(PodGroup(name="g1", min_available=1, bundle=["default/g2"])))
    host.tell(PodAdded(make_pod("p", cpu=1, group="g1")))
    assert "g2 of its bundle: it does not exist" in str(host.scheduler.why("default/g1"))
    host.tell(PodGroupAdded(PodGroup(name="g2", min_available=1, bundle=["default/g3"])))
    assert "pod group default/g2 names another bundle" in str(host.scheduler.why("default/g1"))
    assert host.scheduler.rebuild(now=0.0) == ()


class RefusesByName:
    """Refuses pods whose names begin with ``late``, each for a reason of its own."""

    name = "RefusesByName"

    def pre_filter(self, _state: CycleView, pod: Pod, *, now: float) -> Outcome:
        return Unschedulable(f"not {pod.name}") if pod.name.startswith("late") else Success()


@MAKERS
def test_late_members_of_a_running_gang_are_each_told_why_they_are_refused(make: Any) -> None:
    host = Host(make, plugins=[RefusesByName()])
    host.tell(NodeAdded(LARGE), *gang(2))
    late = [make_pod(f"late-{n}", group="g", min_available=2, cpu=1) for n in range(3)]
    for pod in late:
        host.scheduler.handle(host.cluster.apply(PodAdded(pod)), now=host.now)
    assert told(host.tell()) == {f"late-{n}": [f"not late-{n}"] for n in range(3)}
