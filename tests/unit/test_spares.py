"""Room for members that a gang may lose: kept, lent, used and given back."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Evict,
    GroupKey,
    InvalidPodGroupError,
    NodeAdded,
    NodeDeleted,
    NodeName,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupUpdated,
    PodUID,
    Preemption,
    Quota,
    Topology,
    gang,
    presets,
)
from gangsched.testing import make_node, make_pod
from support.immediate_host import ImmediateHost

X = GroupKey("default/x")


class Host(ImmediateHost):
    """Two racks of two nodes of 2 CPUs."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = {"levels": ["rack"], **options}
        self.scheduler = presets.gang(self.cluster, **self.options)
        for number in range(4):
            self.tell(NodeAdded(make_node(f"n{number}", cpu=2, labels={"rack": f"r{number // 2}"})))

    def add(
        self,
        name: str,
        pods: int,
        *,
        priority: int = 0,
        spares: int = 0,
        rack: bool = False,
        namespace: str = "default",
    ) -> list[str]:
        """Add a gang of pods of one CPU, and decide; return the released pods."""
        topology = Topology("rack") if rack else None
        more: dict[str, Any] = {"spares": spares, "topology": topology, "namespace": namespace}
        made = gang(name, workers=pods, cpu=1, priority=priority, **more)
        self.tell(*made.events())
        return self.decide()

    def lose(self, name: str) -> None:
        """Let a pod fail; its controller makes another one with another UID."""
        (pod,) = (pod for pod in self.cluster.pods() if pod.name == name)
        self.tell(PodDeleted(pod.uid))
        uid = PodUID(f"{pod.uid}#{len(self.effects)}")
        self.tell(PodAdded(evolve(pod, uid=uid, node_name=None, phase="Pending")))
        self.decide()

    def restore(self) -> None:
        """Go on with a scheduler that is restored from the snapshot of this one."""
        snapshot = self.scheduler.snapshot()
        self.scheduler = presets.gang(self.cluster, **self.options)
        self.scheduler.restore(snapshot)
        self.scheduler._check()
        assert self.scheduler.snapshot() == snapshot

    def node_of(self, name: str) -> str | None:
        """Return the node of a pod."""
        return next(pod.node_name for pod in self.cluster.pods() if pod.name == name)

    def why(self, name: str) -> str:
        """Return why a gang waits."""
        return str(self.scheduler.why(f"default/{name}"))


def test_room_is_kept_from_others_in_the_rack_of_the_gang() -> None:
    host = Host()
    assert host.add("x", 2, spares=2, rack=True) == ["x-0", "x-1"]
    rack = {"n0", "n1"} if host.node_of("x-0") in ("n0", "n1") else {"n2", "n3"}
    assert host.add("y", 4) == ["y-0", "y-1", "y-2", "y-3"]
    assert not rack & {host.node_of(f"y-{n}") for n in range(4)}
    assert host.add("z", 1) == []
    assert host.why("z").endswith("free capacity is reserved for pod group default/x.")


def test_pod_of_a_lost_node_takes_the_room() -> None:
    host = Host()
    host.add("x", 1, spares=1, rack=True)
    lost = host.node_of("x-0")
    assert host.add("y", 6) == [f"y-{n}" for n in range(6)]
    assert host.add("z", 1) == []
    host.restore()
    on = [pod.name for pod in host.cluster.pods() if pod.node_name == lost and pod.name != "x-0"]
    host.tell(NodeDeleted(NodeName(str(lost))))
    host.end(*on)
    host.lose("x-0")
    assert {lost, host.node_of("x-0")} in ({"n0", "n1"}, {"n2", "n3"})
    assert host.node_of("z-0") is None, "no room is left, and none was in the other rack"


def test_room_is_looked_for_again_when_there_is_some() -> None:
    host = Host()
    assert host.add("y", 6) != []
    assert host.add("x", 2, spares=1) == ["x-0", "x-1"]
    host.end("y-0")
    host.decide()
    assert host.add("a", 1) == ["a-0"], "the gang was not settled since"
    host.end("a-0")
    host.lose("x-1")  # it is settled now, and its new member is placed
    assert host.node_of("x-1") is not None
    assert host.add("b", 1) == []
    host.restore()
    host.end("x-0", "y-1")
    host.decide()
    assert host.node_of("b-0") is not None


def test_room_of_a_gang_that_ends_is_given_back() -> None:
    host = Host()
    host.add("x", 2, spares=6)
    assert host.add("y", 4) == []
    host.tell(PodGroupUpdated(PodGroup(name="x", min_available=2, spares=4)))
    host.decide()
    assert host.why("y").startswith("pod default/y-2 does not fit: at most 2 of 4 members fit")
    host.tell(PodGroupUpdated(PodGroup(name="x", min_available=2, spares=2)))
    assert host.decide() == ["y-0", "y-1", "y-2", "y-3"]
    for _n in range(2):
        host.lose("x-0")
    assert host.add("z", 1) == []
    host.end(*[pod.uid.partition("/")[2] for pod in host.cluster.pods() if pod.name < "y"])
    assert host.node_of("z-0") is None
    host.decide()
    assert host.node_of("z-0") is not None


def test_room_is_lent_to_lower_priorities_that_give_it_back() -> None:
    host = Host(preemption=Preemption())
    host.add("x", 2, priority=5, spares=2, rack=True)
    host.add("y", 4, priority=5)
    assert host.add("same", 1, priority=5) == []
    assert "reserved for pod group default/x" in host.why("same")
    assert host.add("low", 2, priority=1) == ["low-0", "low-1"]
    assert host.node_of("x-0") == host.node_of("low-0") or host.node_of("low-0") is not None
    lost = str(host.node_of("x-0"))
    host.restore()
    on = {pod.name for pod in host.cluster.pods() if pod.node_name == lost}
    host.tell(NodeDeleted(NodeName(lost)))
    for name in on - {"x-0"}:
        host.end(name)
    host.lose("x-0")
    evicted = [effect.uid for effect in host.effects if isinstance(effect, Evict)]
    if host.node_of("x-0") is None:
        assert evicted
        assert all(uid.startswith("default/low") for uid in evicted)
        host.end(*[uid.partition("/")[2] for uid in evicted])
        host.decide()
    assert host.node_of("x-0") is not None


def test_higher_priority_sees_the_room_as_free() -> None:
    host = Host(preemption=Preemption())
    host.add("x", 2, priority=5, spares=2, rack=True)
    host.add("y", 4, priority=5)
    assert host.add("high", 2, priority=9) == ["high-0", "high-1"]
    assert not [effect for effect in host.effects if isinstance(effect, Evict)]


def test_room_is_charged_to_the_quota() -> None:
    quota = Quota(name="q", namespaces=["default"], hard={"cpu": 3})
    host = Host(quotas=[quota])
    assert host.add("x", 2, spares=2) == ["x-0", "x-1"]
    assert host.add("z", 5, namespace="other") == [f"z-{n}" for n in range(5)]
    assert host.add("y", 1) == []
    assert "quota" in host.why("y")
    host.restore()
    host.end("x-0", "x-1")
    assert host.decide() == ["y-0"]


def test_gang_prefers_a_rack_with_room_for_its_spares() -> None:
    host = Host()
    host.tell(PodAdded(evolve(make_pod("o", cpu=1), node_name=NodeName("n0"))))
    host.add("x", 3, spares=1, rack=True)
    assert {host.node_of(f"x-{n}") for n in range(3)} == {"n2", "n3"}
    other = Host()
    other.tell(PodAdded(evolve(make_pod("o", cpu=1), node_name=NodeName("n0"))))
    other.add("x", 3, rack=True)
    assert {other.node_of(f"x-{n}") for n in range(3)} == {"n0", "n1"}


@pytest.mark.parametrize("spares", [-1, 1.5, "2", None])
def test_number_that_is_none_is_refused(spares: Any) -> None:
    with pytest.raises(InvalidPodGroupError, match=r"spares"):
        PodGroup(name="x", min_available=1, spares=spares)


def test_group_of_groups_has_no_spares() -> None:
    with pytest.raises(InvalidPodGroupError, match="spares"):
        PodGroup(name="x", min_groups=1, spares=1)


def test_fresh_scheduler_keeps_room_for_what_runs() -> None:
    host = Host()
    host.add("x", 2, spares=2, rack=True)
    host.add("y", 4)
    host.scheduler = presets.gang(host.cluster, **host.options)
    host.scheduler.rebuild(now=1.0)
    host.scheduler._check()
    host.now = 1.0
    assert host.add("z", 1) == []
