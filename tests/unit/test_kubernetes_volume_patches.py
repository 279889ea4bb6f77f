"""The choice of a volume as bodies of requests."""

from __future__ import annotations

from typing import Any, cast

import pytest
from attrs import evolve

from gangsched import InvalidValueError, NodeName, VolumeChoice
from gangsched.cluster_objects import PersistentVolume, PersistentVolumeClaim
from gangsched.kubernetes import node_selection, volume_binding

ON_N1 = VolumeChoice("team/c", NodeName("n1"))
CLAIM = PersistentVolumeClaim(name="c", namespace="team", uid="u-1")


def test_free_volume_is_bound_and_marked_as_bound_by_a_controller() -> None:
    patch = volume_binding(PersistentVolume(name="v"), CLAIM, version="7", claim_version="5")
    assert patch == {
        "metadata": {
            "resourceVersion": "7",
            "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"},
        },
        "spec": {
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": "team",
                "name": "c",
                "uid": "u-1",
                "resourceVersion": "5",
            }
        },
    }


def test_volume_that_its_owner_reserved_is_not_marked() -> None:
    reserved = PersistentVolume(name="v", claim="team/c")
    patch = volume_binding(reserved, CLAIM)
    assert patch["metadata"] == {}
    assert patch["spec"]["claimRef"]["uid"] == "u-1"


@pytest.mark.parametrize(
    "volume",
    [
        PersistentVolume(name="v", claim="team/other"),
        PersistentVolume(name="v", claim="team/c", claim_uid="u-0"),
    ],
    ids=["of another claim", "of an older claim of the name"],
)
def test_volume_of_another_claim_is_refused(volume: PersistentVolume) -> None:
    with pytest.raises(InvalidValueError, match="volume"):
        volume_binding(volume, CLAIM)


def test_claim_is_annotated_with_the_node_it_is_provisioned_for() -> None:
    patch = node_selection(ON_N1, version="3")
    annotations = {"volume.kubernetes.io/selected-node": "n1"}
    assert patch == {"metadata": {"resourceVersion": "3", "annotations": annotations}}


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: volume_binding(cast("Any", "v"), CLAIM), "volume"),
        (lambda: volume_binding(PersistentVolume(name="v"), cast("Any", "c")), "claim"),
        (lambda: node_selection(cast("Any", "c")), "choice"),
        (lambda: node_selection(evolve(ON_N1, volume="v")), "choice"),
    ],
    ids=["volume", "claim", "choice", "choice with a volume"],
)
def test_wrong_argument_is_named(call: Any, name: str) -> None:
    with pytest.raises(InvalidValueError, match=f"^{name} must be"):
        call()
