"""Levels, as readers and other searches broke them: each test was red with what is told here."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Evict,
    GroupKey,
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
    PodGroupUpdated,
    PodUID,
    PodUpdated,
    Preemption,
    Profile,
    Quota,
    Role,
    Scheduler,
    Topology,
    gang,
    presets,
)
from gangsched.coscheduling import Coscheduling
from gangsched.plugins import DefaultBinder, NodeResources, NodeUnschedulable
from gangsched.testing import make_node, make_pod
from support.immediate_host import ImmediateHost

APART = Topology(apart="rack")


class Host(ImmediateHost):
    """Nodes, each as its CPUs and its place: ``1 b0/r0``."""

    def __init__(self, *nodes: str, **options: Any) -> None:
        super().__init__()
        self.options = {"levels": ["block", "rack"], **options}
        self.scheduler = self.fresh()
        for number, text in enumerate(nodes):
            self.tell(NodeAdded(self.node(number, text)))

    def fresh(self) -> Any:
        """Return a scheduler that knows nothing yet."""
        return presets.gang(self.cluster, **self.options)

    def node(self, number: int, text: str) -> Node:
        """Return a node."""
        cpu, place = text.split()
        labels = dict(zip(("block", "rack"), place.split("/"), strict=True))
        return make_node(f"n{number}", cpu=int(cpu), labels=labels)

    def add(self, name: str, pods: int, **more: Any) -> list[str]:
        """Add a gang of pods of one CPU, and decide; return the released pods."""
        self.tell(*gang(name, workers=pods, **{"cpu": 1, **more}).events())
        return self.decide()

    def pod(self, name: str, **more: Any) -> list[str]:
        """Add a pod of one CPU, and decide."""
        self.tell(PodAdded(evolve(make_pod(name, **{"cpu": 1, **more}))))
        return self.decide()

    def of(self, name: str) -> Pod:
        """Return a pod."""
        return next(pod for pod in self.cluster.pods() if pod.name == name)

    def again(self, name: str, like: str) -> list[str]:
        """Add a pod like another one, and decide."""
        uid = PodUID(f"default/{name}")
        new = evolve(self.of(like), name=name, uid=uid, node_name=None, phase="Pending")
        self.tell(PodAdded(evolve(new, deleted_at=None)))
        return self.decide()

    def restore(self) -> None:
        """Go on with a scheduler that is restored from the snapshot of this one."""
        snapshot, fresh = self.scheduler.snapshot(), self.fresh()
        fresh.restore(snapshot)
        fresh._check()
        assert fresh.snapshot() == snapshot
        self.scheduler = fresh

    def on(self, name: str) -> str | None:
        """Return the node of a pod."""
        return self.of(name).node_name

    def why(self, name: str) -> str:
        """Return why a gang waits."""
        return str(self.scheduler.why(f"default/{name}"))


# Apart --------------------------------------------------------------------------------------------


def test_gangs_that_are_in_different_racks_do_not_fail_alike() -> None:
    host = Host("1 b/r0", "1 b/r1", "1 b/r0")
    host.add("a", 1, topology=APART)
    host.add("b", 1, topology=APART)
    in_r0 = "a" if host.on("a-0") in ("n0", "n2") else "b"
    other = "b" if in_r0 == "a" else "a"
    assert host.again(f"{in_r0}-1", f"{in_r0}-0") == []
    assert host.again(f"{other}-1", f"{other}-0") == [f"{other}-1"]


def test_member_that_is_apart_comes_back_though_the_tightest_node_is_in_no_rack() -> None:
    levels = ["block", "rack", "kubernetes.io/hostname"]
    host = Host("1 b/r0", "1 b/r0", "2 b/r0", levels=levels)
    host.tell(NodeAdded(make_node("bare", cpu=1, labels={"block": "b"})))
    apart = Role(1, topology=Topology("block", prefer="kubernetes.io/hostname", apart="rack"))
    host.tell(*gang("a", roles={"w": 1, "x": apart}, cpu=1).events())
    assert len(host.decide()) == 2
    lost = host.of("a-x-0")
    host.tell(NodeDeleted(NodeName(str(lost.node_name))), PodDeleted(lost.uid))
    host.tell(PodAdded(evolve(lost, uid=PodUID("default/again"), node_name=None)))
    assert host.decide() == ["again"]


@pytest.mark.parametrize("change", ["relabel", "delete", "terminate"])
def test_member_goes_to_a_rack_once_the_other_one_has_left_it(change: str) -> None:
    host = Host("1 b/r0", "1 b/r0")
    host.add("a", 1, topology=APART)
    assert host.again("a-1", "a-0") == []
    name = str(host.on("a-0"))
    number = int(name[1:])
    if change == "relabel":
        host.tell(NodeUpdated(host.node(number, "1 b/r9")))
    elif change == "delete":
        host.tell(NodeDeleted(NodeName(name)))
    else:
        host.tell(PodUpdated(evolve(host.of("a-0"), deleted_at=1.0)))
    assert host.decide() == ["a-1"]


@pytest.mark.parametrize(
    ("apart", "child"),
    [
        ("rack", Topology("block", required=False)),
        ("rack", Topology("block", prefer="rack", required=False)),
        ("kubernetes.io/hostname", Topology("rack", required=False)),
        ("rack", Topology("zone", required=False)),
    ],
)
def test_child_may_prefer_a_coarser_level_than_that_of_which_each_has_one(
    apart: str, child: Topology
) -> None:
    host = Host("1 b/r0", "1 b/r1", levels=[["block", "rack", "kubernetes.io/hostname"], ["zone"]])
    root = PodGroup(name="f", min_groups=2, topology=Topology(apart=apart))
    host.tell(PodGroupAdded(root))
    for name in "xy":
        spec = PodGroup(name=name, min_available=1, parent=root.key, topology=child)
        host.tell(PodGroupAdded(spec), PodAdded(make_pod(f"{name}-0", group=name, cpu=1)))
    host.decide()
    assert {host.on("x-0"), host.on("y-0")} == {"n0", "n1"}


@pytest.mark.parametrize(
    ("topology", "reason"),
    [
        (
            Topology("block"),
            "block is no rack nor a finer level, by which default/f keeps it apart",
        ),
        (Topology("zone"), "zone is no rack nor a finer level"),
        (Topology("rack"), ""),
        (Topology("kubernetes.io/hostname"), ""),
    ],
)
def test_child_that_may_span_racks_is_not_kept_apart_by_them(
    topology: Topology, reason: str
) -> None:
    levels = [["block", "rack", "kubernetes.io/hostname"], ["zone"]]
    host = Host("1 b/r0", "3 b/r1", levels=levels)
    root = PodGroup(name="f", min_groups=2, topology=APART)
    host.tell(PodGroupAdded(root))
    for name, own in (("x", topology), ("y", None)):
        spec = PodGroup(name=name, min_available=1, parent=root.key, topology=own)
        host.tell(PodGroupAdded(spec), PodAdded(make_pod(f"{name}-0", group=name, cpu=1)))
    host.decide()
    assert (host.on("x-0") is None) == bool(reason)
    assert reason in host.why("x")


# Domains of their own -----------------------------------------------------------------------------


def test_many_levels_let_no_node_take_more_than_it_has() -> None:
    host = Host("4 b/r0", levels=(), placement="pack")
    labels = {f"l{number}": "v" for number in range(20)}
    host.tell(NodeAdded(make_node("m", cpu=4, labels=labels)))
    for number in range(17):
        host.add(f"x{number}", 1, topology=Topology(exclusive=f"l{number}"))
    host.tell(NodeDeleted(NodeName("m")))
    host.end(*[pod.name for pod in host.cluster.pods()])
    host.tell(NodeAdded(make_node("m", cpu=4, labels=labels)))
    host.tell(NodeDeleted(NodeName("n0")))
    assert len(host.add("four", 4)) == 4
    host.end(*[f"four-{number}" for number in range(4)])
    assert host.add("five", 5) == []


def test_many_levels_of_one_topology_let_no_node_take_more_than_it_has() -> None:
    keys = [f"l{number}" for number in range(20)]
    host = Host(levels=keys, placement="pack")
    host.tell(NodeAdded(make_node("m", cpu=4, labels=dict.fromkeys(keys, "v"))))
    assert host.add("five", 5) == []
    assert len(host.add("four", 4)) == 4


def test_pod_that_a_daemon_set_adopts_leaves_its_rack_empty() -> None:
    host = Host("2 b/r0")
    host.pod("a")
    assert host.add("x", 1, topology=Topology(exclusive="rack")) == []
    adopted = evolve(host.of("a"), controller="apps/v1/DaemonSet/logs")
    host.tell(PodUpdated(adopted))
    host.restore()
    assert host.decide() == ["x-0"]
    host.tell(PodUpdated(evolve(adopted, controller="")))
    host.restore()


def test_level_of_a_gang_that_is_gone_tells_no_nodes_apart() -> None:
    found: list[str | None] = []
    for is_restored in (False, True):
        host = Host("4 b/r0", "4 b/r1", "4 b/r1", levels=(), placement="pack")
        host.add("x", 1, topology=Topology(exclusive="rack"))
        host.end("x-0")
        host.decide()
        host.tell(PodAdded(evolve(make_pod("b", cpu=4), node_name=NodeName("n2"))))
        if is_restored:
            host.restore()
        host.pod("c")
        found.append(host.on("c"))
    assert found[0] == found[1]


def test_preemptor_waits_until_a_rack_that_others_had_for_themselves_is_left() -> None:
    for first, last in (("g-0", "g-1"), ("g-1", "g-0")):
        host = Host("2 b/r0", "2 b/r0", "3 b/r0", preemption=Preemption())
        own = PodGroup(name="g", min_available=1, topology=Topology("rack", exclusive="rack"))
        host.tell(PodGroupAdded(own))
        host.tell(*[PodAdded(make_pod(f"g-{n}", group="g", cpu=2)) for n in range(2)])
        host.decide()
        assert host.add("p", 1, cpu=3, priority=10) == []
        assert "waiting for 2 pods to terminate" in host.why("p")
        host.end(first)
        assert host.decide() == []
        host.end(last)
        assert host.decide() == ["p-0"]
        assert len([each for each in host.effects if isinstance(each, Nominated)]) == 1


def test_preemptor_takes_all_of_a_rack_for_itself() -> None:
    host = Host("2 b/r0", "2 b/r0", "2 b/r1", "2 b/r1", preemption=Preemption())
    for number in range(3):
        host.pod(f"o{number}")
    far = evolve(make_pod("top", cpu=1, priority=99), node_selector={"rack": "r0"})
    host.tell(PodAdded(far))
    host.decide()
    assert host.add("x", 1, topology=Topology("rack", exclusive="rack"), priority=5) == []
    evicted = [each.uid.partition("/")[2] for each in host.effects if isinstance(each, Evict)]
    assert evicted == [name for name in ("o0", "o1", "o2") if host.on(name) in ("n2", "n3")]
    host.pod("late")
    assert host.on("late") in ("n0", "n1"), "the rack is kept for the gang"
    host.end(*evicted)
    assert host.decide() == ["x-0"]


def test_preemptor_within_a_rack_takes_the_block_around_it_from_its_owner() -> None:
    host = Host("4 b/r0", "2 b/r1", preemption=Preemption())
    host.add("g", 1, cpu=2, topology=Topology("block", exclusive="block"))
    host.restore()
    only = [name for name in ("n0", "n1") if name != host.on("g-0")]
    size = 4 if only == ["n0"] else 2
    assert host.add("p", 1, cpu=size, topology=Topology("rack"), priority=10) == []
    assert [each.uid for each in host.effects if isinstance(each, Evict)] == ["default/g-0"]


def test_preemptor_is_woken_by_another_node_of_a_rack_that_others_have() -> None:
    plugins = (Coscheduling(), NodeUnschedulable(), NodeResources(), DefaultBinder())
    host = Host("1 b/r0", preemption=Preemption())
    host.scheduler = Scheduler(
        host.cluster, Profile(*plugins), levels=["block", "rack"], preemption=Preemption()
    )
    host.scheduler.rebuild(now=0.0)
    host.add("g", 1, topology=Topology("rack", exclusive="rack"))
    assert host.on("g-0") == "n0"
    assert host.add("p", 1, cpu=2, priority=10) == []
    host.tell(NodeAdded(host.node(1, "2 b/r0")))
    host.decide()
    assert [each.uid for each in host.effects if isinstance(each, Evict)] == ["default/g-0"]


@pytest.mark.parametrize(
    "topology", [APART, Topology(slices={"rack": 1}, apart="rack"), Topology(exclusive="rack")]
)
def test_members_that_wait_where_they_may_not_any_more_give_their_nodes_back(
    topology: Topology,
) -> None:
    host = Host("2 b/r0", "2 b/r1")
    host.scheduler = presets.coscheduling(
        host.cluster, levels=["block", "rack"], permit_timeout=1000.0
    )
    host.scheduler.rebuild(now=0.0)
    host.tell(PodAdded(evolve(make_pod("full", cpu=2), node_name=NodeName("n1"))))
    if topology.exclusive:
        host.tell(PodAdded(evolve(make_pod("o", cpu=0), node_name=NodeName("n0"))))
    host.tell(PodGroupAdded(PodGroup(name="a", min_available=3)))
    for number, cpu in enumerate((1, 1, 2)):
        host.pod(f"a-{number}", group="a", cpu=cpu)
    assert len(host.scheduler.waiting) == 2
    host.tell(PodGroupUpdated(PodGroup(name="a", min_available=3, topology=topology)))
    assert len(host.scheduler.waiting) == 0


# Room for pods that are lost ----------------------------------------------------------------------


def test_room_is_paid_for_when_its_pod_comes() -> None:
    quota = Quota(name="q", namespaces=["default"], hard={"cpu": 3})
    host = Host("2 b/r0", "2 b/r0", "2 b/r0", quotas=[quota])
    host.add("x", 2, spares=1)
    host.tell(PodUpdated(evolve(host.of("x-0"), deleted_at=1.0)))
    host.restore()
    assert host.again("x-0b", "x-0") == ["x-0b"]
    host.restore()


def test_room_is_that_of_the_role_with_the_most_pods() -> None:
    host = Host("4 b/r0", "4 b/r0", "4 b/r0")
    roles = {"a": 2, "b": 1}
    host.tell(PodGroupAdded(PodGroup(name="x", min_available=3, roles=roles, spares=1)))
    for number, (role, cpu) in enumerate((("b", 3), ("a", 1), ("a", 1))):
        host.tell(PodAdded(make_pod(f"x-{number}", group="x", role=role, cpu=cpu)))
    host.decide()
    host.restore()
    assert host.add("y", 6) != [], "of 12 CPUs 5 are used, and 1 is kept"
    assert host.add("z", 1) == []
    host.end("y-0", "y-1", "y-2", "y-3", "y-4", "y-5")
    host.tell(PodUpdated(evolve(host.of("x-2"), phase="Succeeded")))
    host.decide()
    host.restore()


def test_room_is_where_a_pod_that_is_apart_may_go() -> None:
    host = Host(*[f"1 b/r{number}" for number in (0, 0, 1, 1, 2)], placement="pack")
    for number in (1, 3, 4):
        host.tell(PodAdded(evolve(make_pod(f"o{number}", cpu=1), node_name=f"n{number}")))
    host.add("x", 2, topology=APART)
    host.end("o1", "o3", "o4")
    group = PodGroup(name="x", min_available=2, topology=APART, spares=1)
    host.tell(PodGroupUpdated(group))
    host.decide()
    assert [len(host.add(name, 1)) for name in "yzw"] == [1, 1, 0]
    assert {host.on("y-0"), host.on("z-0")} == {"n1", "n3"}, "r2 is kept"


def test_room_in_an_empty_rack_keeps_others_out_of_it() -> None:
    host = Host("2 b/r0", "2 b/r0", "2 b/r1", "2 b/r1", placement="pack")
    own = Topology("block", exclusive="rack")
    assert len(host.add("x", 4, topology=own, spares=1)) == 4
    assert host.add("y", 1) == []
    host.restore()
    lost = str(host.on("x-0"))
    host.tell(NodeDeleted(NodeName(lost)))
    assert host.again("x-0b", "x-0") == ["x-0b"]


@pytest.mark.parametrize(("priority", "starts"), [(4, True), (5, False), (6, True)])
def test_room_of_a_gang_whose_priority_changes_is_kept_from_others(
    priority: int, starts: bool
) -> None:
    host = Host("1 b/r0", "1 b/r0", preemption=Preemption())
    host.add("x", 1, priority=5, spares=1)
    assert host.add("y", 1, priority=5) == []
    spec = PodGroup(name="x", min_available=1, spares=1, priority=priority)
    host.tell(PodGroupUpdated(spec))
    assert bool(host.decide()) == starts


def test_room_of_copies_is_with_those_that_run() -> None:
    host = Host("2 b/r0", "2 b/r1", "2 b/r2")
    copy = Role(2, minimum=1, roles={"w": 1}, topology=Topology("rack"))
    host.tell(PodGroupAdded(PodGroup(name="c", min_available=1, roles={"d": copy}, spares=1)))
    host.tell(PodAdded(make_pod("c-0", group="c", role="d/1/w", cpu=1)))
    host.decide()
    assert len(host.add("y", 4)) == 4
    assert host.add("z", 1) == []
    assert {pod.node_name for pod in host.cluster.pods() if pod.name[0] == "y"}.isdisjoint(
        {host.on("c-0")}
    )


def test_family_keeps_a_rack_for_all_of_its_groups() -> None:
    host = Host("2 b/r0", "2 b/r1")
    root = PodGroup(name="f", min_groups=2, topology=Topology("rack", exclusive="rack"))
    host.tell(PodGroupAdded(root))
    for name in "xy":
        host.tell(PodGroupAdded(PodGroup(name=name, min_available=1, parent=GroupKey("default/f"))))
        host.tell(PodAdded(make_pod(f"{name}-0", group=name, cpu=1)))
    host.decide()
    assert host.on("x-0") == host.on("y-0") is not None
    host.end("x-0")
    host.pod("o")
    host.pod("p")
    assert {host.on("o"), host.on("p")} == {"n0", "n1"} - {host.on("y-0")}


def test_gang_that_needs_its_room_and_one_node_more_is_woken() -> None:
    host = Host(*["1 b/r0"] * 5)
    copies = Role(2, roles={"w": 2})
    host.tell(PodGroupAdded(PodGroup(name="x", min_available=4, roles={"d": copies}, spares=1)))
    for copy in range(2):
        for n in range(2):
            name = f"x-{copy}-{n}"
            host.tell(PodAdded(make_pod(name, group="x", role=f"d/{copy}/w", cpu=1)))
    host.decide()
    lost = [host.of(f"x-0-{n}") for n in range(2)]
    host.tell(*[NodeDeleted(NodeName(str(pod.node_name))) for pod in lost])
    host.end(*[pod.name for pod in lost])
    for pod in lost:
        new = evolve(pod, name=f"{pod.name}b", uid=PodUID(f"{pod.uid}b"), node_name=None)
        host.tell(PodAdded(evolve(new, phase="Pending")))
    assert host.decide() == []
    host.tell(NodeAdded(host.node(9, "1 b/r0")))
    assert sorted(host.decide()) == ["x-0-0b", "x-0-1b"]


def test_room_of_a_group_without_a_gang_is_given_back() -> None:
    host = Host("4 b/r0")
    host.add("x", 2, spares=2)
    for pod in list(host.cluster.pods()):
        host.cluster.apply(PodDeleted(pod.uid))
    bundle = PodGroup(name="x", min_available=2, bundle=[GroupKey("default/y")], spares=2)
    host.cluster.apply(PodGroupUpdated(bundle))
    host.scheduler.rebuild(now=host.now)
    host.scheduler._check()
    assert len(host.add("z", 4)) == 4


def test_room_that_another_scheduler_has_given_to_a_member_is_used_up() -> None:
    host = Host("1 b/r0", "1 b/r0", "1 b/r0")
    host.add("x", 1, spares=1)
    assert host.pod("o", cpu=1) == ["o"]
    room = ({"n0", "n1", "n2"} - {host.on("x-0"), host.on("o")}).pop()
    host.end("o")
    new = evolve(host.of("x-0"), name="x-1", uid=PodUID("default/x-1"), node_name=room)
    host.tell(PodAdded(new))
    assert host.add("z", 1) == [], "there is room again, where the other pod was"


def test_reason_of_a_role_that_is_apart_within_a_block() -> None:
    host = Host(*[f"2 b{number // 2}/r{number % 2}" for number in range(4)])
    role = Role(3, topology=APART)
    group = PodGroup(name="x", min_available=3, roles={"w": role}, topology=Topology("block"))
    host.tell(PodGroupAdded(group))
    host.tell(*[PodAdded(make_pod(f"x-{n}", group="x", role="w", cpu=1)) for n in range(3)])
    host.decide()
    reason = "at most 2 of 3 members of role w fit within block=b0, no two in one rack"
    assert reason in host.why("x")


# Who is in a domain, and what is matched ---------------------------------------------------------


@pytest.mark.parametrize("name", list("abcdefgh"))
def test_member_stays_out_of_its_rack_once_another_scheduler_put_a_pod_there(name: str) -> None:
    """Whichever of the two comes first in a set of names."""
    host = Host("4 b0/r0")
    host.add(name, 1, topology=Topology(exclusive="rack"))
    host.tell(PodAdded(evolve(make_pod("stranger", cpu=1), node_name=NodeName("n0"))))
    assert host.again(f"{name}-1", f"{name}-0") == []
    assert "1 node(s) within a rack with pods of others" in host.why(f"{name}-1")


def test_daemons_go_to_a_rack_that_a_gang_has_for_itself() -> None:
    host = Host("4 b0/r0")
    host.add("x", 1, topology=Topology(exclusive="rack"))
    host.tell(PodAdded(evolve(make_pod("d", cpu=1), controller="apps/v1/DaemonSet/logs")))
    assert host.decide() == ["d"]
    assert host.again("x-1", "x-0") == ["x-1"]


def test_rack_that_two_gangs_have_for_themselves_after_a_move_takes_nobody_else() -> None:
    host = Host("4 b0/r0", "4 b0/r1")
    for name in "xy":
        host.add(name, 1, topology=Topology(exclusive="rack"))
    host.tell(NodeUpdated(host.node(1, "4 b0/r0")))
    assert host.pod("other") == []
    assert "2 node(s) within a rack that another gang has for itself" in host.why("other")


def test_unlike_members_that_are_apart_are_counted_as_they_fit_best() -> None:
    """The pod with a choice between two nodes leaves the small one to those that need it."""
    host = Host()
    for number, (cpu, kinds) in enumerate([(1, "ab"), (2, "a"), (2, "a"), (2, "b")]):
        node = host.node(number, f"{cpu} b0/r{number}")
        labels = {**node.labels, **dict.fromkeys(kinds, "yes")}
        host.tell(NodeAdded(evolve(node, labels=labels)))
    host.tell(PodGroupAdded(PodGroup(name="x", min_available=5, topology=APART)))
    for number, kind in enumerate("baaaa"):
        pod = make_pod(f"x-{number}", group="x", cpu=1)
        host.tell(PodAdded(evolve(pod, node_selector={kind: "yes"})))
    host.decide()
    assert "at most 4 of 5 members fit, no two in one rack" in host.why("x")


def test_member_that_is_apart_takes_the_rack_with_the_least_room() -> None:
    host = Host("3 b0/r0", "1 b0/r1", "2 b0/r2")
    host.add("x", 2, topology=APART)
    assert {host.on(f"x-{n}") for n in range(2)} == {"n1", "n2"}
