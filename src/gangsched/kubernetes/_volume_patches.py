"""The choice of a volume as merge patches: what kube-scheduler writes before it binds a pod.

Rules:
  R1  pure: values in, bodies of requests out;
  R2  a patch names the version that was looked at, so that it never overwrites another choice.

Source: ``GetBindVolumeToClaim`` and ``AssumePodVolumes`` of kube-scheduler 1.36.
"""

from __future__ import annotations

from typing import Any, Final

from gangsched.cluster_objects import PersistentVolume, PersistentVolumeClaim
from gangsched.errors import InvalidValueError
from gangsched.events import VolumeChoice

__all__ = ["node_selection", "volume_binding"]

_BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"


def volume_binding(
    volume: PersistentVolume,
    claim: PersistentVolumeClaim,
    *,
    version: str = "",
    claim_version: str = "",
) -> dict[str, Any]:
    """Return the merge patch of a ``PersistentVolume`` that binds it to a claim.

    A volume that its owner has reserved for the claim is not marked as bound by a controller, so
    that it stays reserved when the claim is deleted.

    Args:
        volume: The volume, as ``VolumeChoice.volume`` names it.
        claim: The claim; its UID must be known.
        version: The ``resourceVersion`` of the volume; the patch is refused if it has changed.
            Empty to patch any version.
        claim_version: The ``resourceVersion`` of the claim; empty if it is unknown.

    Raises:
        InvalidValueError: An argument has a wrong type, or the volume is of another claim.
    """
    _check("volume", volume, PersistentVolume)
    _check("claim", claim, PersistentVolumeClaim)
    if volume.claim and not volume.is_for(claim):
        expected = f"a volume that is free or reserved for claim {claim.key}"
        raise InvalidValueError("volume", volume, expected)
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
    }
    if claim_version:
        reference["resourceVersion"] = claim_version
    metadata: dict[str, Any] = {"resourceVersion": version} if version else {}
    if not volume.claim:
        metadata["annotations"] = {_BOUND_BY_CONTROLLER: "yes"}
    return {"metadata": metadata, "spec": {"claimRef": reference}}


def node_selection(choice: VolumeChoice, *, version: str = "") -> dict[str, Any]:
    """Return the merge patch of a ``PersistentVolumeClaim`` for which a volume is provisioned.

    Args:
        choice: The choice, without a volume.
        version: The ``resourceVersion`` of the claim; the patch is refused if it has changed.
            Empty to patch any version.

    Raises:
        InvalidValueError: *choice* has a wrong type, or names a volume.
    """
    _check("choice", choice, VolumeChoice)
    if choice.volume:
        raise InvalidValueError("choice", choice, "a VolumeChoice without a volume")
    metadata: dict[str, Any] = {"resourceVersion": version} if version else {}
    metadata["annotations"] = {_SELECTED_NODE: choice.node}
    return {"metadata": metadata}


def _check(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise InvalidValueError(name, value, f"a {kind.__name__}")
