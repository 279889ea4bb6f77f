"""What ``why`` says about roles that consist of copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    GroupKey,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    Role,
    Topology,
    gang,
    presets,
)
from gangsched.events import Bound
from gangsched.explain import NotEnoughMembers, PartlyRunning, Running, SearchBudgetExhausted
from gangsched.gangs import Gang
from gangsched.testing import make_pod

GPU = "nvidia.com/gpu"
RACK = Topology("rack")
SERVE = GroupKey("default/serve")
ROOM = {"cpu": 9, "pods": 99}


def job(topology: Topology | None = None, minimum: int = 2, **fields: Any) -> Gang:
    """Return four copies of a leader and three workers, and a router."""
    decode = Role(4, minimum, roles={"leader": 1, "worker": 3}, topology=topology)
    return gang("serve", roles={"decode": decode, "router": 1}, gpu=1, **fields)


class World:
    """A scheduler whose binds succeed at once, on nodes of racks of their own."""

    def __init__(self, *gpus: int) -> None:
        self.cluster = InMemoryCluster()
        self.scheduler = presets.gang(self.cluster)
        self.now = 0.0
        for number, gpu in enumerate(gpus):
            self.tell(node(f"n{number}", gpu))

    def tell(self, *events: Any) -> None:
        """Hand in events, and decide all."""
        for event in events:
            self._perform(self.scheduler.handle(self.cluster.apply(event), now=self.now))
        while (effects := self.scheduler.schedule_one(now=self.now)) is not None:
            self._perform(effects)

    def _perform(self, effects: Sequence[Any]) -> None:
        for each in effects:
            if isinstance(each, Bind):
                self.tell(Bound(each.uid, each.node, each.attempt))

    def lose(self, *names: str) -> None:
        """Delete pods."""
        for name in names:
            self.tell(PodDeleted(next(p.uid for p in self.cluster.pods() if p.name == name)))

    @property
    def why(self) -> Any:
        """The answer about the job."""
        return self.scheduler.why("default/serve")


def node(name: str, gpu: int) -> NodeAdded:
    """Return a node in a rack of its own."""
    allocatable = {"nvidia.com/gpu": gpu, "cpu": 9, "pods": 99, "x.com/nic": 16}
    labels = {"rack": f"r-{name}"}
    return NodeAdded(Node(name=NodeName(name), labels=labels, allocatable=allocatable))


def test_copy_that_lacks_a_worker_is_named() -> None:
    world, (group, *pods) = World(), job().events()
    router = pods.pop()
    world.tell(group, *pods[:7], router)
    assert str(world.why) == (
        "waiting for 1 more member: 8 of 9 exist; 1 more decode: 1 of 2 exist whole;"
        " 1 more decode/1/worker: 2 of 3 exist"
    )
    assert isinstance(world.why, NotEnoughMembers)
    assert world.why.in_copies == (("decode/1/worker", 3, 2),)


@pytest.mark.parametrize(
    ("topology", "where"), [(None, ""), (RACK, " within one rack"), (Topology("rack", False), "")]
)
def test_too_few_copies_fit(topology: Topology | None, where: str) -> None:
    world = World(4, 3)
    world.tell(*job(topology).events())
    assert str(world.why).partition(": ")[2] == (
        f"at most 1 of 2 copies of role decode fit: each needs 4 nvidia.com/gpu{where}"
    )


def test_each_resource_of_a_copy_is_named() -> None:
    world = World(7)
    world.tell(*job(RACK, cpu="500m", requests={"x.com/nic": 2}).events())
    assert "each needs 2 cpu and 4 nvidia.com/gpu and 8 x.com/nic within one rack" in str(world.why)


def test_label_that_no_node_has_is_named() -> None:
    world = World(8, 8)
    world.tell(*job(Topology("zone")).events())
    assert str(world.why).endswith("no node that can take it has the label zone")


def test_what_a_surplus_copy_lacks_is_no_reason() -> None:
    """The fourth copy fits nowhere; what holds the job is the total."""
    world = World(8)
    only = job()
    pods = [
        evolve(pod, node_selector={"none": "x"}) if "decode-3" in pod.name else pod
        for pod in only.pods
    ]
    world.tell(*evolve(only, pods=tuple(pods)).events())
    assert str(world.why).endswith("at most 8 of 9 members fit: nvidia.com/gpu is short")


def test_surplus_copies_wait_for_capacity() -> None:
    world = World(4, 4, 3, 3)
    world.tell(*job(RACK).events())
    assert str(world.why) == (
        "runs: 9 of 17 members hold nodes, and its minimum of 9 is met; 8 wait:"
        " pod default/serve-decode-2-leader-0 does not fit: at most 2 of 4 copies of role decode"
        " fit: each needs 4 nvidia.com/gpu within one rack"
    )


def test_lost_members_of_copies_are_named() -> None:
    world = World(17)
    world.tell(*job(RACK, minimum=3).events())
    world.lose("serve-decode-1-worker-0")
    assert str(world.why) == "16 members hold nodes, 2 of 3 decode/1/worker"
    assert isinstance(world.why, Running)
    world.lose("serve-decode-2-worker-0")
    assert str(world.why) == (
        "runs in part: 15 members hold nodes, but only 2 of 3 decode, 2 of 3 decode/1/worker,"
        " 2 of 3 decode/2/worker; no other member exists"
    )
    assert isinstance(world.why, PartlyRunning)
    world.lose("serve-decode-3-leader-0")
    assert ", 2 of 3 decode/2/worker, and 1 more; no" in str(world.why)


def test_copies_of_a_bundle_start_whole() -> None:
    world, copies = World(5), {"copy": Role(2, 1, roles={"pod": 3})}
    group, *pods = gang("serve", roles=copies, gpu=1, bundle=["default/b"]).events()
    other = gang("b", workers=1, gpu=1, bundle=["default/serve"])
    world.tell(group, *other.events(), pods[-1], *pods[:3])
    bound = {pod.name for pod in world.cluster.pods() if pod.node_name}
    assert bound == {"b-0", *(f"serve-copy-0-pod-{number}" for number in range(3))}
    assert "waiting for 2 more copy/1/pod: 1 of 3 exist" in str(world.why)


# What may mislead ------------------------------------------------------------------------------


def in_block(block: str, rack: str, *gpus: int) -> list[NodeAdded]:
    """Return the nodes of a rack of a block."""
    labels = {"block": block, "rack": rack}
    return [
        NodeAdded(Node(name=NodeName(f"{rack}-{n}"), labels=labels, allocatable={**ROOM, GPU: gpu}))
        for n, gpu in enumerate(gpus)
    ]


def test_copies_are_counted_within_the_domain_of_the_gang() -> None:
    """Either block has room for some copies, both together for three, and the gang needs one."""
    world = World()
    world.tell(*in_block("b1", "r1", 4, 3), *in_block("b1", "r2", 3, 3))
    world.tell(*in_block("b2", "r3", 4, 3), *in_block("b2", "r4", 3))
    copies = {"decode": Role(4, 3, roles={"leader": 1, "worker": 3}, topology=RACK)}
    world.tell(*gang("serve", roles=copies, gpu=1, topology=Topology("block")).events())
    assert str(world.why).partition(": ")[2] == (
        "at most 2 of 3 copies of role decode fit within block=b1: each needs 4 nvidia.com/gpu"
        " within one rack"
    )


def test_surplus_copies_are_counted_where_the_gang_runs() -> None:
    world = World()
    world.tell(*in_block("b1", "r1", 9), *in_block("b2", "r2", 9))
    copies = {"decode": Role(3, 1, roles={"leader": 1, "worker": 3}, topology=RACK)}
    world.tell(*gang("serve", roles=copies, gpu=1, topology=Topology("block")).events())
    assert str(world.why).endswith(
        "at most 2 of 3 copies of role decode fit within block=b1: each needs 4 nvidia.com/gpu"
        " within one rack"
    )


def test_children_are_counted_within_the_domain_of_their_parent() -> None:
    world = World()
    world.tell(*in_block("b1", "r1", 3), *in_block("b2", "r2", 3))
    root = PodGroup(name="serve", min_groups=2, topology=Topology("block"))
    world.tell(PodGroupAdded(root), *child(0), *child(1))
    assert str(world.why) == (
        "pod default/c0-0 of pod group default/c0 does not fit: at most 1 of 2 children of pod"
        " group default/serve fit within block=b1: each needs 3 nvidia.com/gpu within one rack"
    )


def child(number: int) -> list[Any]:
    """Return a child of three members that share a rack."""
    group = PodGroup(name=f"c{number}", min_available=3, parent=SERVE, topology=RACK)
    pods = [make_pod(f"c{number}-{n}", group=group.name, requests={GPU: 1}) for n in range(3)]
    return [PodGroupAdded(group), *map(PodAdded, pods)]


def test_reason_names_the_group_of_a_member_of_another_child() -> None:
    world = World(3, 2)
    world.tell(PodGroupAdded(PodGroup(name="serve", min_groups=1)), *child(0), *child(1), *child(2))
    why: Any = world.scheduler.why("default/c2")
    assert str(why).startswith("pod default/c1-0 of pod group default/c1 does not fit: at most 1")
    assert why.unschedulable_member.group == "default/c1"
    own = world.scheduler.why("default/c1")
    assert str(own).startswith("pod default/c1-0 does not fit: at most 1")


def test_member_of_a_single_group_is_named_without_the_group() -> None:
    world = World(4, 3)
    world.tell(*job(RACK).events())
    assert world.why.unschedulable_member.group is None


RACKS = ((4,), (7, 7, 6))


def unlike(
    budget: int, racks: Sequence[Sequence[int]], leader: int, worker: int, **sizes: int
) -> World:
    """Return a world of unlike pods that fit, and that only a search places."""
    world = World()
    world.scheduler = presets.gang(world.cluster, search_budget=budget)
    for number, gpus in enumerate(racks):
        world.tell(*in_block("b", f"r{number}", *gpus))
    roles = {
        "leader": Role(1, requests={GPU: leader}),
        "worker": Role(sizes["workers"], requests={GPU: worker}),
    }
    copies = {"decode": Role(2, sizes["least"], roles=roles, topology=RACK)}
    world.tell(*gang("serve", roles=copies).events())
    return world


def test_search_that_is_given_up_is_no_reason_of_nodes() -> None:
    world = unlike(0, RACKS, 4, 3, workers=2, least=2)
    assert isinstance(world.why.unschedulable_member.proof, SearchBudgetExhausted)
    assert str(world.why).endswith(
        "the search for a placement was given up after 0 steps: 5 of 6 members fit, and more may"
    )
    assert str(unlike(1, RACKS, 4, 3, workers=2, least=2).why) == "6 members hold nodes"


def test_search_for_a_surplus_copy_that_is_given_up_is_no_reason_of_nodes() -> None:
    world = unlike(2, [[6], [4, 5, 3]], 4, 3, workers=2, least=1)
    assert str(world.why).startswith("runs: 3 of 6 members hold nodes")
    assert "the search for a placement was given up after" in str(world.why)
    assert "Insufficient" not in str(world.why)
