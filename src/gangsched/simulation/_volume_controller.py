"""The volume controller of a simulated cluster: it binds claims to volumes at once.

Rules:
  R1  a claim whose class does not wait is bound as soon as there is a volume for it. That is the
      smallest one that is large enough, or a new one if the class has a provisioner;
  R2  a claim whose class waits is bound as the scheduler has chosen, just before its pod is;
  R3  a volume that is made for a node is reached from the nodes of the same host name. One that
      is made for no node is reached from every node;
  R4  sizes, topologies and capacity are not used up: as in kube-scheduler, only volumes are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

from attrs import evolve

from gangsched.cluster_objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from gangsched.cluster_objects.claims_of_pods import may_take
from gangsched.constraints import NodeSelectorRequirement, NodeSelectorTerm
from gangsched.events import Bind, Event, ObjectChanged, VolumeChoice
from gangsched.memory import InMemoryCluster

__all__ = ["VolumeController"]

_HOST: Final = "kubernetes.io/hostname"
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


@final
class VolumeController:
    """Binds the claims of a cluster.

    Args:
        cluster: The cluster.
    """

    def __init__(self, cluster: InMemoryCluster) -> None:
        self._cluster = cluster
        self._unbound: dict[str, None] = {}

    def after(self, event: Event) -> list[ObjectChanged]:
        """Return what follows from an event: the claims that can be bound now.

        Runtime complexity: O(volumes) for a claim; for a volume, that for each unbound claim.
        """
        match event:
            case ObjectChanged(PersistentVolumeClaim() as claim):
                if claim.is_fully_bound or claim.lost:
                    self._unbound.pop(claim.key, None)
                    return []
                self._unbound[claim.key] = None
                keys = [claim.key]
            case ObjectChanged(PersistentVolume() | StorageClass()):
                keys = list(self._unbound)
            case _:
                return []
        found: list[ObjectChanged] = []
        taken: set[str] = set()
        for key in keys:
            unbound = self._cluster.objects.get(PersistentVolumeClaim, key)
            if unbound is None or self._waits(unbound):
                continue
            volume = self._volume_for(unbound, taken)
            if volume is not None:
                taken.add(volume.name)
                del self._unbound[key]
                found += _bound(unbound, volume)
        return found

    def chosen(self, bind: Bind) -> Iterator[ObjectChanged]:
        """Yield what binds the claims of a pod as the scheduler has chosen. O(claims)."""
        for choice in bind.volumes:
            claim = self._cluster.objects.get(PersistentVolumeClaim, choice.claim)
            if claim is None or claim.is_fully_bound:
                continue  # gone, or shared with a pod that was bound before
            volume = self._cluster.objects.get(PersistentVolume, choice.volume)
            yield from _bound(claim, self._provisioned(claim, choice) if volume is None else volume)

    def _waits(self, claim: PersistentVolumeClaim) -> bool:
        found = self._cluster.objects.get(StorageClass, claim.storage_class)
        return found is not None and found.waits and not claim.volume

    def _volume_for(self, claim: PersistentVolumeClaim, taken: set[str]) -> PersistentVolume | None:
        objects = self._cluster.objects
        if claim.volume:
            return objects.get(PersistentVolume, claim.volume)
        fitting = [
            each
            for each in objects.all(PersistentVolume)
            if each.name not in taken and may_take(each, claim)
        ]
        if fitting:
            return min(fitting, key=lambda each: (each.capacity.amount("storage"), each.name))
        found = objects.get(StorageClass, claim.storage_class)
        if found is None or found.provisioner in ("", _NO_PROVISIONER):
            return None
        return self._provisioned(claim, None)

    def _provisioned(
        self, claim: PersistentVolumeClaim, choice: VolumeChoice | None
    ) -> PersistentVolume:
        """Return the volume that a provisioner makes."""
        node = None if choice is None else self._cluster.node(choice.node)
        host = None if node is None else node.labels.get(_HOST)
        here = NodeSelectorTerm((NodeSelectorRequirement(_HOST, "In", (host or "",)),))
        return PersistentVolume(
            name=f"pvc-{claim.namespace}-{claim.name}",
            capacity=claim.requests,
            storage_class=claim.storage_class,
            access_modes=claim.access_modes,
            volume_mode=claim.volume_mode,
            node_affinity=None if host is None else (here,),
        )


def _bound(claim: PersistentVolumeClaim, volume: PersistentVolume) -> list[ObjectChanged]:
    made = evolve(volume, claim=claim.key, claim_uid=claim.uid, available=False)
    return [
        ObjectChanged(made),
        ObjectChanged(evolve(claim, volume=volume.name, bound=True)),
    ]
