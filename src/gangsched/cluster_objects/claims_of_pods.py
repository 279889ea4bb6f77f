"""The claims of a pod, and the volumes that could meet them: what the volume plugins share.

Rules:
  R1  reasons are in kube-scheduler's words;
  R2  of volumes that fit equally well, the first by name is taken, so that a choice depends on
      nothing but the objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, final

from attrs import evolve, frozen

from gangsched.cluster_objects import (
    ClusterObject,
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from gangsched.constraints import VolumeClaim
from gangsched.events import VolumeChoice
from gangsched.model import Node, Pod
from gangsched.protocols import ObjectsView

__all__ = [
    "CLAIM_KINDS",
    "PodClaims",
    "claim_key",
    "claims_of",
    "matching_volume",
    "may_take",
    "may_provision",
    "pod_part",
    "problem_with",
    "volumes_by_class",
    "written",
]

CLAIM_KINDS: Final = (PersistentVolumeClaim, PersistentVolume, StorageClass)
"""The kinds that decide where a claim can be used."""

_STORAGE: Final = "storage"
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


@final
@frozen
class PodClaims:
    """The claims of a pod, by what is left to be done for them.

    Attributes:
        bound: The claims with a volume.
        delayed: The claims that are bound when a pod that uses them is scheduled.
        immediate: The claims that should have been bound before.
    """

    bound: tuple[PersistentVolumeClaim, ...]
    delayed: tuple[PersistentVolumeClaim, ...]
    immediate: tuple[PersistentVolumeClaim, ...]


def pod_part(pod: Pod) -> object:
    """Return the part of a pod that decides which claims it uses. O(claims)."""
    if not pod.volume_claims:
        return None
    own = any(claim.ephemeral for claim in pod.volume_claims)
    return (pod.namespace, pod.volume_claims, (pod.name, pod.uid) if own else None)


def claim_key(pod: Pod, claim: VolumeClaim) -> str:
    """Return the key of the ``PersistentVolumeClaim`` of a pod."""
    return f"{pod.namespace}/{claim.claim_of(pod.name)}"


def problem_with(objects: ObjectsView, pod: Pod) -> str:
    """Return why a pod cannot use one of its claims; empty if it can use all. O(claims)."""
    for each in pod.volume_claims:
        name = each.claim_of(pod.name)
        found = objects.get(PersistentVolumeClaim, claim_key(pod, each))
        if found is None and each.ephemeral:
            return (
                "waiting for ephemeral volume controller to create the"
                f' persistentvolumeclaim "{name}"'
            )
        if found is None:
            return f'persistentvolumeclaim "{name}" not found'
        if found.lost:
            return (
                f'persistentvolumeclaim "{name}" bound to non-existent'
                f' persistentvolume "{found.volume}"'
            )
        if found.terminating:
            return f'persistentvolumeclaim "{name}" is being deleted'
        if each.ephemeral and found.owner != pod.uid:
            return f"PVC {found.key} was not created for pod {pod.key} (pod is not owner)"
    return ""


def claims_of(objects: ObjectsView, pod: Pod) -> PodClaims:
    """Return the claims of a pod that exist. O(claims)."""
    bound: list[PersistentVolumeClaim] = []
    delayed: list[PersistentVolumeClaim] = []
    immediate: list[PersistentVolumeClaim] = []
    for each in pod.volume_claims:
        claim = objects.get(PersistentVolumeClaim, claim_key(pod, each))
        if claim is None:
            continue
        if claim.is_fully_bound:
            bound.append(claim)
        elif _waits(objects, claim) and not claim.volume:
            delayed.append(claim)
        else:
            immediate.append(claim)
    return PodClaims(tuple(bound), tuple(delayed), tuple(immediate))


def _waits(objects: ObjectsView, claim: PersistentVolumeClaim) -> bool:
    found = objects.get(StorageClass, claim.storage_class) if claim.storage_class else None
    return found is not None and found.waits


def matching_volume(
    volumes: Iterable[PersistentVolume],
    claim: PersistentVolumeClaim,
    node: Node,
    taken: Mapping[str, str],
    chosen: Iterable[str],
) -> PersistentVolume | None:
    """Return the volume that a claim is bound to if its pod goes to a node; None if there is none.

    That is a volume that is reserved for the claim, or the smallest that is large enough.

    Runtime complexity: O(volumes x terms of their node affinity).

    Args:
        volumes: The volumes of the class of the claim, by name.
        claim: The claim, which is not bound.
        node: The node.
        taken: By name, the claims that volumes are about to be bound to.
        chosen: The volumes that are chosen for other claims of the pod.

    Source: ``FindMatchingVolume`` of k8s.io/component-helpers.
    """
    best: PersistentVolume | None = None
    for volume in volumes:
        if volume.name in chosen or not _may_take(volume, claim, taken.get(volume.name)):
            continue
        reached = volume.is_reached_from(node.labels)
        if volume.is_for(claim) or taken.get(volume.name) == claim.key:
            return volume if reached else None
        if not reached or not _is_offered(volume, claim):
            continue
        if best is None or _size(volume.capacity) < _size(best.capacity):
            best = volume
    return best


def may_take(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a claim can be bound to a volume, wherever its pod goes. O(labels)."""
    reserved = volume.is_for(claim) or _is_offered(volume, claim)
    return reserved and _may_take(volume, claim, None)


def _is_offered(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a volume that no claim has is what a claim asks for."""
    if not volume.available or volume.storage_class != claim.storage_class:
        return False
    if claim.selector is not None and not claim.selector.matches(volume.labels):
        return False
    return set(claim.access_modes) <= set(volume.access_modes)


def _may_take(volume: PersistentVolume, claim: PersistentVolumeClaim, taken_by: str | None) -> bool:
    if volume.claim and not volume.is_for(claim):
        return False
    if taken_by is not None and taken_by != claim.key:
        return False
    if _size(volume.capacity) < _size(claim.requests) or volume.terminating:
        return False
    same_mode = volume.volume_mode == claim.volume_mode
    return same_mode and volume.attributes_class == claim.attributes_class


def _size(amounts: Mapping[str, int]) -> int:
    return amounts.get(_STORAGE, 0)


def may_provision(
    objects: ObjectsView, claim: PersistentVolumeClaim, node: Node
) -> tuple[bool, bool]:
    """Return whether a volume for a claim can be provisioned for a node, and has enough storage.

    Runtime complexity: O(terms), and O(capacities) for a driver that tracks its capacity.
    """
    found = objects.get(StorageClass, claim.storage_class)
    if found is None or found.provisioner in ("", _NO_PROVISIONER):
        return False, True
    terms = found.allowed_topologies
    if terms and not any(term.matches(node.labels) for term in terms):
        return False, True
    size = claim.requests.get(_STORAGE)
    driver = objects.get(CSIDriver, found.provisioner)
    if size is None or driver is None or not driver.tracks_capacity:
        return True, True
    for capacity in objects.all(CSIStorageCapacity):
        largest = capacity.largest_volume.get(_STORAGE)
        if (
            capacity.storage_class == found.name
            and largest is not None
            and largest >= size
            and capacity.nodes is not None
            and capacity.nodes.matches(node.labels)
        ):
            return True, True
    return True, False


def volumes_by_class(objects: ObjectsView, classes: Iterable[str]) -> Iterator[PersistentVolume]:
    """Yield the volumes of some storage classes, by name. O(volumes log volumes)."""
    wanted = frozenset(classes)
    found = [each for each in objects.all(PersistentVolume) if each.storage_class in wanted]
    yield from sorted(found, key=lambda volume: volume.name)


def written(objects: ObjectsView, choice: VolumeChoice) -> Iterator[ClusterObject]:
    """Yield the objects that a choice changes, as they are when the pod is bound. O(1).

    A claim for which a volume is to be provisioned keeps its selected node: which other nodes
    reach that volume is not known before.
    """
    claim = objects.get(PersistentVolumeClaim, choice.claim)
    if claim is None or claim.volume:
        return
    volume = objects.get(PersistentVolume, choice.volume) if choice.volume else None
    if volume is not None:
        yield evolve(volume, claim=claim.key, claim_uid=claim.uid, available=False)
        yield evolve(claim, volume=volume.name, bound=True)
    elif not choice.volume:
        yield evolve(claim, selected_node=choice.node)
