"""Filter out nodes in another zone or region than the volumes of the pod.

Source: VolumeZone of kube-scheduler 1.36, which reads the zone and region labels of volumes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Final, final

from attrs import frozen

from gangsched.cluster_objects import (
    ClusterObject,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from gangsched.cluster_objects.claims_of_pods import CLAIM_KINDS, claim_key
from gangsched.model import Pod
from gangsched.outcomes import SKIP, SUCCESS, Outcome, Unschedulable
from gangsched.protocols import CycleView, NodeView, ObjectsView

__all__ = ["VolumeZone"]

_CONFLICT: Final = Unschedulable("node(s) had no available volume zone", resolvable=False)
_STABLE: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_KEYS: Final = (*_STABLE, *_STABLE.values())
_SEPARATOR: Final = "__"


@final
@frozen
class VolumeZone:
    """Refuse nodes whose zone or region is not among those that a volume's labels name."""

    @property
    def name(self) -> str:
        """``VolumeZone``."""
        return "VolumeZone"

    def pod_signature(self, pod: Pod) -> Hashable:
        """Return the claims that are not ephemeral, as kube-scheduler reads no others."""
        named = tuple(claim for claim in pod.volume_claims if not claim.ephemeral)
        return (pod.namespace, named) if named else None

    def skips(self, pod: Pod) -> bool:
        """Return whether the pod has no volumes that the plugin checks."""
        return not pod.volume_claims

    @property
    def signs_node_alone(self) -> bool:
        """True: the signature is constant."""
        return True

    def node_signature(self, node: NodeView) -> Hashable:
        """Return a constant: the plugin reads only labels."""
        return None

    def labels_read(self, pod: Pod) -> Iterable[str]:
        """Return the keys of zones and regions, for a pod with claims."""
        return _KEYS if pod.volume_claims else ()

    def objects_read(self, pod: Pod) -> Iterable[type[ClusterObject]]:
        """Return claims, volumes and storage classes, for a pod with claims."""
        return CLAIM_KINDS if pod.volume_claims else ()

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Outcome:
        """Refuse a pod with a claim whose volume is not known."""
        if not pod.volume_claims:
            return SKIP
        problem = _problem(state.objects, pod)
        return Unschedulable(problem, resolvable=False) if problem else SUCCESS

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        """Refuse *node* if it has labels of zones, and they do not match those of a volume."""
        labels = node.node.labels
        if not pod.volume_claims or not any(key in labels for key in _KEYS):
            return SUCCESS
        for volume in _volumes(state.objects, pod):
            for key in _KEYS:
                zones = volume.labels.get(key)
                if zones is None:
                    continue
                found = labels.get(key, labels.get(_STABLE.get(key, key)))
                if found not in zones.split(_SEPARATOR):
                    return _CONFLICT
        return SUCCESS


def _claims(objects: ObjectsView, pod: Pod) -> Iterator[tuple[str, PersistentVolumeClaim | None]]:
    for each in pod.volume_claims:
        if not each.ephemeral:
            yield each.name, objects.get(PersistentVolumeClaim, claim_key(pod, each))


def _problem(objects: ObjectsView, pod: Pod) -> str:
    for name, claim in _claims(objects, pod):
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if claim.volume:
            if objects.get(PersistentVolume, claim.volume) is None:
                return f'persistentvolume "{claim.volume}" not found'
        elif not claim.storage_class:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        else:
            found = objects.get(StorageClass, claim.storage_class)
            if found is None:
                return f'storageclass.storage.k8s.io "{claim.storage_class}" not found'
            if not found.waits:
                return "PersistentVolume had no name"
    return ""


def _volumes(objects: ObjectsView, pod: Pod) -> Iterator[PersistentVolume]:
    for _name, claim in _claims(objects, pod):
        volume = None if claim is None else objects.get(PersistentVolume, claim.volume)
        if volume is not None:
            yield volume
