"""What ``why`` says about roles that consist of copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    PodDeleted,
    Role,
    Topology,
    gang,
    presets,
)
from gangsched.events import Bound
from gangsched.explain import NotEnoughMembers, PartlyRunning, Running
from gangsched.gangs import Gang

RACK = Topology("rack")


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
        "runs in part: 15 of 13 members hold nodes, 2 of 3 decode, 2 of 3 decode/1/worker,"
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
