"""Of two refusals before any node is looked at, the one of kube-scheduler's first plugin is told.

``NodeAffinity`` runs before ``VolumeRestrictions`` and ``VolumeBinding``. So a pod whose terms name
contradicting nodes is refused for that, also if one of its claims is missing.
"""

from __future__ import annotations

from typing import Final

import pytest

from gangsched import (
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAdded,
    PodUnschedulable,
    Scheduler,
    VolumeClaim,
    presets,
)

_CLAIMS: Final = {
    "ephemeral": VolumeClaim("scratch", ephemeral=True),
    "named": VolumeClaim("data"),
}


def _terms(*names: str) -> tuple[NodeSelectorTerm, ...]:
    asked = [NodeSelectorRequirement("metadata.name", "In", [name]) for name in names]
    return (NodeSelectorTerm((), match_fields=asked),)


def _reason(scheduler: Scheduler, uid: str) -> str:
    effects = scheduler.schedule_one(now=0.0) or ()
    (told,) = [each for each in effects if isinstance(each, PodUnschedulable) and each.uid == uid]
    return told.reason


@pytest.mark.parametrize("claim", _CLAIMS)
@pytest.mark.parametrize("preset", ["pod_by_pod", "gang", "kube_default"])
def test_conflicting_names_are_told_before_a_missing_claim(preset: str, claim: str) -> None:
    cluster = InMemoryCluster()
    scheduler = getattr(presets, preset)(cluster)
    pod = Pod(name="p", uid="p", affinity=_terms("a", "b"), volume_claims=(_CLAIMS[claim],))
    for event in (NodeAdded(Node(name="a", allocatable={"cpu": 1})), PodAdded(pod)):
        scheduler.handle(cluster.apply(event), now=0.0)
    assert _reason(scheduler, "p") == "0/1 nodes are available: pod affinity terms conflict."


def test_missing_claim_is_told_when_names_do_not_conflict() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.pod_by_pod(cluster)
    pod = Pod(name="p", uid="p", affinity=_terms("a"), volume_claims=(_CLAIMS["named"],))
    for event in (NodeAdded(Node(name="a", allocatable={"cpu": 1})), PodAdded(pod)):
        scheduler.handle(cluster.apply(event), now=0.0)
    assert 'persistentvolumeclaim "data" not found' in _reason(scheduler, "p")


def test_pod_with_conflicting_names_is_not_tried_again_without_an_event() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.pod_by_pod(cluster)
    pod = Pod(name="p", uid="p", affinity=_terms("a", "b"))
    for event in (NodeAdded(Node(name="a", allocatable={"cpu": 1})), PodAdded(pod)):
        scheduler.handle(cluster.apply(event), now=0.0)
    assert "pod affinity terms conflict" in _reason(scheduler, "p")
    scheduler.advance(now=1000.0)
    assert scheduler.schedule_one(now=1000.0) is None
