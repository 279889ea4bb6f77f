"""Binds with volumes: those of a gang come when all its claims are bound, or none comes."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    BindFailed,
    Bound,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeDeleted,
    ObjectChanged,
    ObjectDeleted,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodScheduled,
    PodUID,
    PodUpdated,
    Scheduler,
    VolumeChoice,
    VolumeClaim,
    presets,
)
from gangsched.cluster_objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from gangsched.constraints import NodeSelectorRequirement, NodeSelectorTerm
from gangsched.membership import membership
from support.examples import one_in

pytest.importorskip("msgspec", reason="the extra kubernetes is not installed")

from gangsched.kubernetes._volume_waits import WaitsForVolumes

HOST = "kubernetes.io/hostname"
GROUP = {"pod-group.scheduling.sigs.k8s.io/name": "g"}
FAST = StorageClass(name="fast", provisioner="csi.example.com", waits=True)
LOCAL = StorageClass(name="local", provisioner="kubernetes.io/no-provisioner", waits=True)


class Host:
    """Nodes a and b, and a scheduler of whole gangs whose binds wait for their volumes."""

    def __init__(self, *, timeout: float = 600.0) -> None:
        self.cluster = InMemoryCluster()
        self.scheduler: Scheduler = presets.gang(self.cluster)
        self.written: list[Bind] = []
        self.waits = WaitsForVolumes(
            self.scheduler, self.cluster, self.group, self.written.append, timeout=timeout
        )
        self.now = 0.0
        self.effects: list[Any] = []
        for name in ("a", "b"):
            node = Node(name=name, allocatable={"cpu": 8}, labels={HOST: name})
            self.tell(NodeAdded(node))
        self.tell(ObjectChanged(FAST), ObjectChanged(LOCAL))

    @staticmethod
    def group(pod: Pod) -> Any:
        claim = membership(pod)
        return None if claim is None else claim.group

    def tell(self, *events: Any) -> None:
        for event in events:
            self.take(self.waits.handle(self.cluster.apply(event), now=self.now))
        while (effects := self.waits.schedule_one(now=self.now)) is not None:
            self.take(effects)

    def take(self, effects: Any) -> None:
        self.effects += effects

    def later(self, seconds: float = 60.0) -> None:
        self.now += seconds
        self.take(self.waits.advance(now=self.now))
        self.tell()

    def gang(self, size: int, *claims: str, **named: Any) -> None:
        self.tell(PodGroupAdded(PodGroup(name="g", min_available=size)))
        for n in range(size):
            wanted = [VolumeClaim(claims[n])] if n < len(claims) else []
            pod = Pod(
                name=f"p{n}", labels=GROUP, requests={"cpu": 1}, volume_claims=wanted, **named
            )
            self.tell(PodAdded(pod))

    @classmethod
    def waiting(cls, size: int, *claims: str, timeout: float = 600.0) -> Host:
        """Return a host with a gang whose first pods use these claims."""
        host = cls(timeout=timeout)
        host.tell(*map(claim, claims))
        host.gang(size, *claims)
        return host

    @property
    def binds(self) -> dict[str, str]:
        return {each.uid: each.node for each in self.effects if isinstance(each, Bind)}

    def bound(self, claim: str, volume: str = "v", **named: Any) -> None:
        """The volume of a claim is provisioned, and the claim is bound."""
        known = self.cluster.objects.get(PersistentVolumeClaim, f"default/{claim}")
        assert known is not None
        made = PersistentVolume(name=volume, claim=known.key, claim_uid=known.uid, **named)
        self.tell(ObjectChanged(made), ObjectChanged(evolve(known, volume=volume, bound=True)))

    def select(self, claim: str, node: str) -> None:
        known = self.cluster.objects.get(PersistentVolumeClaim, f"default/{claim}")
        assert known is not None
        self.tell(ObjectChanged(evolve(known, selected_node=node)))


def claim(name: str, **named: Any) -> ObjectChanged:
    given = {"storage_class": "fast", "requests": {"storage": "1Gi"}, "uid": f"uid-{name}", **named}
    return ObjectChanged(PersistentVolumeClaim(name=name, **given))


def test_binds_of_a_gang_come_when_all_its_volumes_are_bound() -> None:
    host = Host.waiting(3, "c0", "c1")
    assert host.binds == {}
    assert len(host.waits) == 3
    assert [bind.volumes[0].claim for bind in host.written] == ["default/c0", "default/c1"]
    host.bound("c0", "v0")
    assert host.binds == {}
    host.bound("c1", "v1")
    assert sorted(host.binds) == ["default/p0", "default/p1", "default/p2"]
    assert len(host.waits) == 0


def test_bind_without_volumes_passes_a_gang_that_waits_and_its_failure_is_passed_on() -> None:
    host = Host.waiting(2, "c0")
    host.tell(PodAdded(Pod(name="plain", requests={"cpu": 1})))
    assert list(host.binds) == ["default/plain"]
    (bind,) = (each for each in host.effects if isinstance(each, Bind))
    host.tell(BindFailed(bind.uid, bind.attempt, "refused"))
    host.later()
    assert sum(isinstance(each, Bind) for each in host.effects) == 2


def test_whole_gang_fails_when_a_choice_is_not_written() -> None:
    host = Host.waiting(2, "c0")
    host.tell(host.waits.refused(host.written[0], "no such claim"))
    assert len(host.waits) == 0
    host.later()
    assert len(host.waits) == 2  # it was decided anew
    assert host.binds == {}
    assert host.written[1].attempt > host.written[0].attempt


def test_late_refusal_changes_nothing_once_the_claims_are_bound() -> None:
    host = Host.waiting(1, "c0")
    refusal = host.waits.refused(host.written[0], "conflict")
    host.bound("c0")
    host.tell(refusal)
    (bind,) = (each for each in host.effects if isinstance(each, Bind))
    host.tell(Bound(bind.uid, bind.node, bind.attempt))
    assert any(isinstance(each, PodScheduled) for each in host.effects)


def test_refusal_of_an_earlier_attempt_does_not_fail_the_next_one() -> None:
    host = Host.waiting(1, "c0", timeout=5.0)
    late = host.waits.refused(host.written[0], "conflict")
    host.later()
    host.later()
    assert len(host.waits) == 1
    assert host.written[-1].attempt > late.attempt
    host.tell(late)
    assert len(host.waits) == 1


def test_gang_fails_when_its_volumes_are_not_bound_in_time() -> None:
    host = Host.waiting(2, "c0", timeout=30.0)
    assert host.waits.next_deadline() == 30.0
    host.now = 29.0
    host.take(host.waits.advance(now=host.now))
    assert len(host.waits) == 2
    host.now = 30.0
    host.take(host.waits.advance(now=host.now))
    assert len(host.waits) == 0
    assert host.binds == {}


def test_gang_fails_when_the_provisioner_takes_the_node_back() -> None:
    host = Host.waiting(2, "c0")
    host.tell(claim("c0", attributes_class="x"))  # a write of another; the choice is not seen yet
    host.select("c0", host.written[0].node)
    assert len(host.waits) == 2
    host.select("c0", "")
    assert len(host.waits) == 0
    host.later()
    assert len(host.written) == 2


def test_static_volume_counts_when_the_claim_is_bound_and_fails_when_it_is_reset() -> None:
    host = Host()
    volume = PersistentVolume(name="v", capacity={"storage": "2Gi"}, storage_class="local")
    host.tell(ObjectChanged(volume), claim("c0", storage_class="local"))
    host.gang(1, "c0")
    assert host.written[0].volumes == (VolumeChoice("default/c0", host.written[0].node, "v"),)
    taken = evolve(volume, claim="default/c0", claim_uid="uid-c0")
    host.tell(ObjectChanged(taken))
    assert host.binds == {}
    host.tell(ObjectChanged(volume))
    assert len(host.waits) == 0
    host.later()
    assert len(host.written) == 2
    host.tell(ObjectChanged(taken))
    host.tell(claim("c0", storage_class="local", volume="v", bound=True))
    assert list(host.binds) == ["default/p0"]


def test_gang_fails_when_the_volume_is_not_reached_from_its_node() -> None:
    host = Host.waiting(1, "c0")
    elsewhere = NodeSelectorTerm((NodeSelectorRequirement(HOST, "In", ("z",)),))
    host.bound("c0", node_affinity=[elsewhere])
    assert host.binds == {}
    assert len(host.waits) == 0


@pytest.mark.parametrize("what", ["pod", "node", "claim"])
def test_gang_fails_when_what_it_needs_is_gone(what: str) -> None:
    host = Host.waiting(2, "c0")
    event: Any = {
        "pod": PodDeleted("default/p1"),
        "node": NodeDeleted(host.written[0].node),
        "claim": ObjectDeleted("PersistentVolumeClaim", "default/c0"),
    }[what]
    host.tell(event)
    assert len(host.waits) == 0
    assert host.binds == {}


def test_late_member_waits_with_its_gang() -> None:
    host = Host.waiting(2, "c0")
    late = Pod(name="late", labels=GROUP, requests={"cpu": 1})
    host.tell(PodAdded(late))
    assert host.binds == {}
    host.bound("c0")
    assert sorted(host.binds) == ["default/late", "default/p0", "default/p1"]


def test_no_bind_of_a_gang_comes_when_a_member_is_terminating() -> None:
    host = Host.waiting(2, "c0")
    other = host.cluster.pod(PodUID("default/p1"))
    assert other is not None
    host.tell(PodUpdated(evolve(other, deleted_at=1.0)))
    host.bound("c0")
    assert host.binds == {}


@one_in(4)
@given(order=st.permutations(range(4)), least=st.integers(0, 3))
def test_no_bind_of_a_gang_comes_before_its_last_claim(order: list[int], least: int) -> None:
    host = Host.waiting(4 + least, *(f"c{n}" for n in range(4)))
    for place, number in enumerate(order):
        assert host.binds == {}
        host.bound(f"c{number}", f"v{place}")
    assert len(host.binds) == 4 + least
