"""Filter out nodes to which no more volumes of a CSI driver can be attached.

Rules:
  R1  a volume counts once on a node, however many pods use it. A claim that is not bound yet counts
      as a volume of its own, for the provisioner of its class;
  R2  a volume of an in-tree plugin that was migrated counts for the CSI driver that replaced it;
  R3  attached volumes that no pod on the node uses count too.

Source: NodeVolumeLimits of kube-scheduler 1.36.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Final, final

from attrs import frozen

from gangsched.cluster_objects import (
    ClusterObject,
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
    VolumeSource,
)
from gangsched.cluster_objects.claims_of_pods import CLAIM_KINDS, claim_key, pod_part
from gangsched.model import Pod
from gangsched.outcomes import SUCCESS, Outcome, Unschedulable
from gangsched.protocols import CycleView, NodeView, ObjectsView

__all__ = ["NodeVolumeLimits"]

_EXCEEDED: Final = Unschedulable("node(s) exceed max volume count")
_DRIVERS: Final[Mapping[str, str]] = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
"""The CSI drivers of in-tree plugins whose migration cannot be turned off any more."""

_PLUGINS: Final[Mapping[str, str]] = {
    "awsElasticBlockStore": "kubernetes.io/aws-ebs",
    "gcePersistentDisk": "kubernetes.io/gce-pd",
    "azureDisk": "kubernetes.io/azure-disk",
    "cinder": "kubernetes.io/cinder",
    "portworxVolume": "kubernetes.io/portworx-volume",
}
"""The in-tree plugins of disks that a pod names without a claim."""

_READ: Final[tuple[type[ClusterObject], ...]] = (
    *CLAIM_KINDS,
    *(CSINode, CSIDriver, VolumeAttachment),
)


@final
@frozen
class NodeVolumeLimits:
    """Refuse nodes where a driver can attach no more of the pod's volumes."""

    @property
    def name(self) -> str:
        """``NodeVolumeLimits``."""
        return "NodeVolumeLimits"

    def pod_signature(self, pod: Pod) -> Hashable:
        """Return the claims and the disks."""
        return (pod_part(pod), pod.disks) if pod.volume_claims or pod.disks else None

    def skips(self, pod: Pod) -> bool:
        """Return whether the pod has no volumes that the plugin checks."""
        return not self.reads_pods(pod)

    @property
    def signs_node_alone(self) -> bool:
        """True: the signature is constant."""
        return True

    def node_signature(self, node: NodeView) -> Hashable:
        """Return a constant: pods with volumes are asked about single nodes."""
        return None

    def reads_pods(self, pod: Pod) -> bool:
        """Return whether the pod has volumes that may be limited."""
        return bool(pod.volume_claims) or any(disk.kind in _PLUGINS for disk in pod.disks)

    def hindered_within(self, state: CycleView, pod: Pod, other: Pod) -> Iterable[str]:
        """Return the node itself if both pods have volumes."""
        return ("",) if self.reads_pods(other) else ()

    def topology_keys(self, state: CycleView, pod: Pod) -> None:
        """Return None: labels do not tell apart which volumes a node reaches or can attach."""

    def node_group(self, state: CycleView, pod: Pod, node: NodeView) -> Hashable:
        """Return the name of the node: each node has volumes and limits of its own."""
        return node.node.name if self.reads_pods(pod) else None

    def objects_read(self, pod: Pod) -> Iterable[type[ClusterObject]]:
        """Return claims, volumes, storage classes, the drivers of nodes, and attachments."""
        return _READ if self.reads_pods(pod) else ()

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        """Refuse *node* if the pod's new volumes exceed the limit of their driver there."""
        if not self.reads_pods(pod):
            return SUCCESS
        objects = state.objects
        for each in pod.volume_claims:
            if objects.get(PersistentVolumeClaim, claim_key(pod, each)) is None:
                name = each.claim_of(pod.name)
                return Unschedulable(
                    f"looking up PVC {pod.namespace}/{name}:"
                    f' persistentvolumeclaim "{name}" not found',
                    resolvable=False,
                )
        shown = objects.get(CSINode, node.node.name)
        new = _volumes(objects, pod, shown)
        for driver in new.values():
            known = objects.get(CSIDriver, driver)
            if known is not None and known.required_on_node and not _has(shown, driver):
                return Unschedulable(f"{driver} CSI driver is not installed on the node")
        if shown is None or not shown.limits or not new:
            return SUCCESS
        used: dict[tuple[str, str], str] = {}
        for other in node.pods:
            if other.volume_claims or other.disks:
                used.update(_volumes(objects, other, shown))
        attached = Counter(used.values())
        for volume, driver in _attached(objects, node.node.name).items():
            if volume not in used:
                attached[driver] += 1
        added = Counter(driver for volume, driver in new.items() if volume not in used)
        for driver, count in added.items():
            limit = shown.limits.get(driver)
            if limit is not None and attached[driver] + count > limit:
                return _EXCEEDED
        return SUCCESS


def _has(node: CSINode | None, driver: str) -> bool:
    return node is not None and driver in node.drivers


def _volumes(objects: ObjectsView, pod: Pod, node: CSINode | None) -> dict[tuple[str, str], str]:
    """Return the drivers of a pod's volumes, by driver and identity. O(volumes)."""
    found: dict[tuple[str, str], str] = {}
    for each in pod.volume_claims:
        claim = objects.get(PersistentVolumeClaim, claim_key(pod, each))
        source = None if claim is None else _source(objects, claim)
        volume = None if source is None else _csi(source, node)
        if volume is not None:
            found[volume] = volume[0]
    for disk in pod.disks:
        plugin = _PLUGINS.get(disk.kind)
        if plugin is not None:
            volume = _csi(VolumeSource(plugin, disk.identity, in_tree=True), node)
            if volume is not None:
                found[volume] = volume[0]
    return found


def _source(objects: ObjectsView, claim: PersistentVolumeClaim) -> VolumeSource | None:
    volume = objects.get(PersistentVolume, claim.volume) if claim.volume else None
    if volume is not None:
        return volume.source
    found = objects.get(StorageClass, claim.storage_class) if claim.storage_class else None
    if found is None or not found.provisioner:
        return None
    # no volume has such a handle
    in_tree = found.provisioner in _DRIVERS
    return VolumeSource(found.provisioner, f"unbound {claim.key}", in_tree=in_tree)


def _csi(source: VolumeSource, node: CSINode | None) -> tuple[str, str] | None:
    """Return driver and handle of a volume; None if no CSI driver attaches it to the node."""
    if not source.in_tree:
        return (source.driver, source.handle) if source.handle else None
    driver = _DRIVERS.get(source.driver)
    if driver is None or node is None or not source.handle:
        return None
    return (driver, source.handle)


def _attached(objects: ObjectsView, node: str) -> dict[tuple[str, str], str]:
    """Return the drivers of the volumes that are attached to a node. O(attachments)."""
    found: dict[tuple[str, str], str] = {}
    for each in objects.all(VolumeAttachment):
        if each.node == node and each.attacher and each.volume:
            volume = objects.get(PersistentVolume, each.volume)
            source = None if volume is None else volume.source
            if source is not None and not source.in_tree:
                found[(each.attacher, source.handle)] = each.attacher
    return found
