"""Members of one kind share a claim that is not bound: all follow the choice of the first.

Like members are asked about as the first of them, which may have taken volumes in the plan.
"""

from __future__ import annotations

import pytest

from gangsched import (
    LabelSelector,
    Node,
    NodeAdded,
    ObjectChanged,
    Pod,
    PodAdded,
    PodAffinityTerm,
    Preemption,
    VolumeClaim,
    presets,
)
from gangsched.cluster_objects import PersistentVolumeClaim, StorageClass
from gangsched.events import Bind
from gangsched.options import PlacementStrategy
from support.immediate_host import ImmediateHost

pytestmark = pytest.mark.once("siblings are placed together with the unit group only")

_HOST = "kubernetes.io/hostname"
_FAST = StorageClass(name="fast", provisioner="csi.example.com", waits=True)
_SHARED = PersistentVolumeClaim(name="shared", storage_class="fast", requests={"storage": "1Gi"})


def _host(placement: PlacementStrategy, *sizes: int) -> ImmediateHost:
    host = ImmediateHost()
    host.scheduler = presets.gang(host.cluster, placement=placement, preemption=Preemption())
    for n, size in enumerate(sizes):
        labels = {_HOST: f"n{n}"}
        host.tell(NodeAdded(Node(name=f"n{n}", allocatable={"pods": size}, labels=labels)))
    host.tell(ObjectChanged(_FAST))
    host.tell(ObjectChanged(_SHARED))
    return host


def _bound(host: ImmediateHost) -> list[str]:
    return [effect.node for effect in host.effects if isinstance(effect, Bind)]


@pytest.mark.parametrize("placement", list(PlacementStrategy))
@pytest.mark.parametrize("sizes", [(3, 3), (2, 3), (1, 2, 3)])
def test_members_with_one_claim_start_on_the_node_that_its_volume_is_provisioned_for(
    sizes: tuple[int, ...], placement: PlacementStrategy
) -> None:
    host = _host(placement, *sizes)
    for n in range(3):
        claims = [VolumeClaim("shared")]
        pod = Pod(name=f"g-{n}", pod_group="g", min_available=3, volume_claims=claims)
        host.tell(PodAdded(pod))
    host.decide()
    assert len(_bound(host)) == 3
    assert len(set(_bound(host))) == 1


def test_members_with_one_claim_that_must_be_apart_are_refused_with_a_proof() -> None:
    host = _host(PlacementStrategy.SCORE, 3, 3)
    apart = PodAffinityTerm(topology_key=_HOST, label_selector=LabelSelector({"app": "x"}))
    for n in range(2):
        pod = Pod(
            name=f"g-{n}",
            labels={"app": "x"},
            pod_group="g",
            min_available=2,
            pod_anti_affinity=[apart],
            volume_claims=[VolumeClaim("shared")],
        )
        host.tell(PodAdded(pod))
    host.decide()
    assert _bound(host) == []
    assert "at most 1 of 2 members fit" in str(host.scheduler.why("default/g"))
