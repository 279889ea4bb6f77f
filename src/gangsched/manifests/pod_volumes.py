"""Volumes, host ports and images, from a specification of a pod.

Rules:
  R1  a kind of volume that is neither known to restrict nodes nor known not to is not modelled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gangsched.constraints import Disk, HostPort, VolumeClaim
from gangsched.manifests.fields import Field

__all__ = [
    "FREE_VOLUMES",
    "read_claims",
    "read_disks",
    "read_host_ports",
    "read_image_volumes",
    "read_images",
    "read_required_features",
    "unknown_volumes",
]

FREE_VOLUMES: Final = frozenset(
    {
        *("configMap", "secret", "emptyDir", "hostPath", "nfs", "projected", "downwardAPI", "csi"),
        *("cephfs", "fc", "flexVolume", "flocker", "gitRepo", "glusterfs", "quobyte", "scaleIO"),
        *("storageos", "photonPersistentDisk", "image"),
    }
)
"""Kinds of volumes that restrict no node for kube-scheduler."""

_CLAIM: Final = "persistentVolumeClaim"
_EPHEMERAL: Final = "ephemeral"
_IDENTITIES: Final[dict[str, tuple[str, ...]]] = {
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "iscsi": ("iqn",),
    "rbd": ("pool", "image"),
    "azureDisk": ("diskURI",),
    "azureFile": ("secretName", "shareName"),
    "cinder": ("volumeID",),
    "portworxVolume": ("volumeID",),
    "vsphereVolume": ("volumePath",),
}
_DEFAULTS: Final = {("rbd", "pool"): "rbd"}
_PROTOCOLS: Final = HostPort.PROTOCOLS
_RESTARTS_ALL: Final = "RestartAllContainers"


def read_claims(volumes: Field) -> Iterator[VolumeClaim]:
    """Yield the claims that the volumes of a pod name.

    Raises:
        ManifestError: A volume is malformed.
    """
    for volume in volumes.elements():
        if volume[_CLAIM].given:
            yield VolumeClaim(volume[_CLAIM]["claimName"].name())
        elif volume[_EPHEMERAL].given:
            yield VolumeClaim(volume["name"].name(), ephemeral=True)


def read_disks(volumes: Field) -> Iterator[Disk]:
    """Yield the disks that the volumes of a pod name without a claim.

    Raises:
        ManifestError: A volume is malformed.
    """
    for volume in volumes.elements():
        for kind, names in _IDENTITIES.items():
            disk = volume[kind]
            if disk.given:
                yield Disk(
                    kind,
                    "/".join(disk[name].text(_DEFAULTS.get((kind, name), "")) for name in names),
                    disk["readOnly"].flag(),
                    tuple(each.text() for each in disk["monitors"].elements()),
                )


def unknown_volumes(volumes: Field) -> Iterator[Field]:
    """Yield the volumes of a kind that is not known."""
    for volume in volumes.elements():
        for kind, source in volume.entries():
            known = kind == "name" or kind in FREE_VOLUMES or kind in _IDENTITIES
            if source.given and not known and kind not in (_CLAIM, _EPHEMERAL):
                yield source


def read_host_ports(spec: Field) -> Iterator[HostPort]:
    """Yield the ports of the node that a pod takes.

    These are the host ports of its containers and of its init containers that restart always. With
    ``hostNetwork``, each port of a container is one.

    Raises:
        ManifestError: A port is malformed.
    """
    on_host = spec["hostNetwork"].flag()
    for container in _running(spec):
        for port in container["ports"].elements():
            number = port["hostPort"].whole(0, least=0, most=65535)
            if not number and on_host:
                number = port["containerPort"].whole(0, least=0, most=65535)
            if number:
                protocol = port["protocol"].word(_PROTOCOLS, "TCP")
                yield HostPort(number, protocol, port["hostIP"].text())


def _running(spec: Field) -> Iterator[Field]:
    yield from spec["containers"].elements()
    for container in spec["initContainers"].elements():
        if container["restartPolicy"].text() == "Always":
            yield container


def read_images(spec: Field) -> Iterator[str]:
    """Yield the images of all containers that name one."""
    for container in (*spec["initContainers"].elements(), *spec["containers"].elements()):
        image = container["image"].text()
        if image:
            yield image


def read_image_volumes(volumes: Field) -> Iterator[str]:
    """Yield the images that are mounted as volumes."""
    for volume in volumes.elements():
        image = volume["image"]["reference"].text()
        if image:
            yield image


def read_required_features(spec: Field) -> Iterator[str]:
    """Yield the features that a node must declare for a pod.

    Source: ``InferForScheduling`` of k8s.io/component-helpers/nodedeclaredfeatures in 1.37.
    """
    containers = (*spec["containers"].elements(), *spec["initContainers"].elements())
    rules = (rule for each in containers for rule in each["restartPolicyRules"].elements())
    if any(rule["action"].text() == _RESTARTS_ALL for rule in rules):
        yield "RestartAllContainersOnContainerExits"
    users = spec["hostUsers"]
    if spec["hostNetwork"].flag() and users.given and not users.flag():
        yield "UserNamespacesHostNetworkSupport"
    # ephemeral containers are added to pods that run
    mounts = (mount for each in containers for mount in each["volumeMounts"].elements())
    if any(mount["bindMountOptions"].value for mount in mounts):
        yield "VolumeBindMountOptions"
