"""The JSON of a pod as typed structs: each field of its specification is known here, or refused.

Rules:
  R1  a field of a specification or of a container that is not listed here is refused, and the pod
      is read by the slow reader. So a field that a later version of Kubernetes adds is never
      ignored by being skipped here;
  R2  what differs between the pods of one job and says nothing about where they may run is
      skipped: names, environments, arguments and mounts of containers, host names, and names of
      volumes. Everything else of a specification goes into the *key*, as the bytes that came:
      pods with one key are read once;
  R3  a key has zero bytes between its parts, which JSON cannot contain, so that two different
      specifications never have one key.
"""

from __future__ import annotations

from typing import Final

from gangsched.kubernetes._extra import missing

try:
    import msgspec
    from msgspec import Raw, Struct
    from msgspec.structs import astuple
except ModuleNotFoundError as error:
    raise missing(error) from error

__all__ = ["ConditionJson", "PodJson", "decode_pod_json", "key_of", "quoted"]

_ABSENT: Final = Raw(b"")
_OWN_NODE: Final = b"\1"
"""What no JSON text contains."""
_RESIZE: Final = "PodResizePending"


class ConditionJson(Struct, gc=False):
    """A condition of a pod's status."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class _Metadata(Struct, gc=False):
    name: str
    namespace: str = "default"
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815
    generation: int = 0
    creationTimestamp: str | None = None  # noqa: N815
    deletionTimestamp: str | None = None  # noqa: N815
    labels: Raw = _ABSENT
    annotations: Raw = _ABSENT
    ownerReferences: Raw = _ABSENT  # noqa: N815


class _Container(Struct, gc=False, forbid_unknown_fields=True):
    # skipped
    name: Raw = _ABSENT
    command: Raw = _ABSENT
    args: Raw = _ABSENT
    workingDir: Raw = _ABSENT  # noqa: N815
    env: Raw = _ABSENT
    envFrom: Raw = _ABSENT  # noqa: N815
    volumeMounts: Raw = _ABSENT  # noqa: N815
    volumeDevices: Raw = _ABSENT  # noqa: N815
    livenessProbe: Raw = _ABSENT  # noqa: N815
    readinessProbe: Raw = _ABSENT  # noqa: N815
    startupProbe: Raw = _ABSENT  # noqa: N815
    lifecycle: Raw = _ABSENT
    terminationMessagePath: Raw = _ABSENT  # noqa: N815
    terminationMessagePolicy: Raw = _ABSENT  # noqa: N815
    imagePullPolicy: Raw = _ABSENT  # noqa: N815
    stdin: Raw = _ABSENT
    stdinOnce: Raw = _ABSENT  # noqa: N815
    tty: Raw = _ABSENT
    # in the key
    image: Raw = _ABSENT
    ports: Raw = _ABSENT
    resources: Raw = _ABSENT
    resizePolicy: Raw = _ABSENT  # noqa: N815
    restartPolicy: Raw = _ABSENT  # noqa: N815
    restartPolicyRules: Raw = _ABSENT  # noqa: N815
    securityContext: Raw = _ABSENT  # noqa: N815


class _Volume(Struct, gc=False, forbid_unknown_fields=True):
    # skipped, and first: the volume of a token has another name in each pod
    name: Raw = _ABSENT
    # in the key
    awsElasticBlockStore: Raw = _ABSENT  # noqa: N815
    azureDisk: Raw = _ABSENT  # noqa: N815
    azureFile: Raw = _ABSENT  # noqa: N815
    cephfs: Raw = _ABSENT
    cinder: Raw = _ABSENT
    configMap: Raw = _ABSENT  # noqa: N815
    csi: Raw = _ABSENT
    downwardAPI: Raw = _ABSENT  # noqa: N815
    emptyDir: Raw = _ABSENT  # noqa: N815
    ephemeral: Raw = _ABSENT
    fc: Raw = _ABSENT
    flexVolume: Raw = _ABSENT  # noqa: N815
    flocker: Raw = _ABSENT
    gcePersistentDisk: Raw = _ABSENT  # noqa: N815
    gitRepo: Raw = _ABSENT  # noqa: N815
    glusterfs: Raw = _ABSENT
    hostPath: Raw = _ABSENT  # noqa: N815
    image: Raw = _ABSENT
    iscsi: Raw = _ABSENT
    nfs: Raw = _ABSENT
    persistentVolumeClaim: Raw = _ABSENT  # noqa: N815
    photonPersistentDisk: Raw = _ABSENT  # noqa: N815
    portworxVolume: Raw = _ABSENT  # noqa: N815
    projected: Raw = _ABSENT
    quobyte: Raw = _ABSENT
    rbd: Raw = _ABSENT
    scaleIO: Raw = _ABSENT  # noqa: N815
    storageos: Raw = _ABSENT
    vsphereVolume: Raw = _ABSENT  # noqa: N815


class _SchedulingGroup(Struct, gc=False, forbid_unknown_fields=True):
    podGroupName: str | None = None  # noqa: N815


class _Spec(Struct, gc=False, forbid_unknown_fields=True):
    containers: list[_Container]
    initContainers: list[_Container] | None = None  # noqa: N815
    volumes: list[_Volume] | None = None
    nodeName: str | None = None  # noqa: N815
    schedulerName: str | None = None  # noqa: N815
    # of each pod: gangs of one job template are alike but for it
    schedulingGroup: _SchedulingGroup | None = None  # noqa: N815
    # skipped
    ephemeralContainers: Raw = _ABSENT  # noqa: N815
    evictionResponders: Raw = _ABSENT  # noqa: N815
    hostname: Raw = _ABSENT
    hostnameOverride: Raw = _ABSENT  # noqa: N815
    subdomain: Raw = _ABSENT
    hostAliases: Raw = _ABSENT  # noqa: N815
    dnsConfig: Raw = _ABSENT  # noqa: N815
    dnsPolicy: Raw = _ABSENT  # noqa: N815
    enableServiceLinks: Raw = _ABSENT  # noqa: N815
    setHostnameAsFQDN: Raw = _ABSENT  # noqa: N815
    imagePullSecrets: Raw = _ABSENT  # noqa: N815
    readinessGates: Raw = _ABSENT  # noqa: N815
    restartPolicy: Raw = _ABSENT  # noqa: N815
    serviceAccount: Raw = _ABSENT  # noqa: N815
    serviceAccountName: Raw = _ABSENT  # noqa: N815
    automountServiceAccountToken: Raw = _ABSENT  # noqa: N815
    shareProcessNamespace: Raw = _ABSENT  # noqa: N815
    terminationGracePeriodSeconds: Raw = _ABSENT  # noqa: N815
    activeDeadlineSeconds: Raw = _ABSENT  # noqa: N815
    # in the key
    affinity: Raw = _ABSENT
    hostIPC: Raw = _ABSENT  # noqa: N815
    hostNetwork: Raw = _ABSENT  # noqa: N815
    hostPID: Raw = _ABSENT  # noqa: N815
    hostUsers: Raw = _ABSENT  # noqa: N815
    nodeSelector: Raw = _ABSENT  # noqa: N815
    os: Raw = _ABSENT
    overhead: Raw = _ABSENT
    preemptionPolicy: Raw = _ABSENT  # noqa: N815
    priority: Raw = _ABSENT
    priorityClassName: Raw = _ABSENT  # noqa: N815
    resourceClaims: Raw = _ABSENT  # noqa: N815
    resources: Raw = _ABSENT
    runtimeClassName: Raw = _ABSENT  # noqa: N815
    schedulingGates: Raw = _ABSENT  # noqa: N815
    securityContext: Raw = _ABSENT  # noqa: N815
    tolerations: Raw = _ABSENT
    topologySpreadConstraints: Raw = _ABSENT  # noqa: N815
    workloadRef: Raw = _ABSENT  # noqa: N815


class _ContainerStatus(Struct, gc=False):
    # in the key, if it has resources
    name: Raw = _ABSENT
    resources: Raw = _ABSENT
    allocatedResources: Raw = _ABSENT  # noqa: N815


class _Status(Struct, gc=False):
    phase: str | None = None
    nominatedNodeName: str | None = None  # noqa: N815
    conditions: list[ConditionJson] | None = None
    containerStatuses: list[_ContainerStatus] | None = None  # noqa: N815
    initContainerStatuses: list[_ContainerStatus] | None = None  # noqa: N815
    # in the key
    resources: Raw = _ABSENT
    allocatedResources: Raw = _ABSENT  # noqa: N815


class PodJson(Struct, gc=False):
    """A pod as it came, decoded as far as all pods need it."""

    metadata: _Metadata
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)


decode_pod_json = msgspec.json.Decoder(PodJson).decode
"""Raises ``msgspec.DecodeError`` for JSON that is not a pod, or not one that is known here."""

_GANG_ANNOTATIONS: Final = (
    *(b"gang.scheduling.koordinator.sh/", b"pod-group.scheduling.sigs.k8s.io/match-policy"),
    *(b"yunikorn.apache.org/", b"gpu-fraction", b"gpu-memory"),
    *(b"kueue.x-k8s.io/podset-", b"kueue.x-k8s.io/topology-", b"kueue.x-k8s.io/pod-group-"),
    b"exclusive-topology",
)
"""Parts of the names of all annotations that may hold a pod, or give a note."""


def key_of(pod: PodJson) -> bytes:
    """Return the key of what the specification of *pod* says, apart from the node that it names."""
    spec, metadata = pod.spec, pod.metadata
    parts: list[bytes | Raw] = [
        # a bound pod is read more leniently than one that is not
        b"bound" if spec.nodeName else b"",
        metadata.namespace.encode(),
        *(spec.hostIPC, spec.hostNetwork, spec.hostPID, spec.hostUsers, spec.nodeSelector),
        *(spec.os, spec.overhead, spec.preemptionPolicy, spec.priority, spec.priorityClassName),
        *(spec.resourceClaims, spec.resources, spec.runtimeClassName, spec.schedulingGates),
        *(spec.securityContext, spec.tolerations, spec.workloadRef),
        *(_affinity_of(spec), spec.topologySpreadConstraints),
    ]
    if _names_labels(spec.affinity) or _names_labels(spec.topologySpreadConstraints):
        # what is meant depends on the labels of this pod
        parts.append(metadata.labels)
    for container in spec.containers:
        parts += _key_of_container(b"container", container)
    for container in spec.initContainers or ():
        parts += _key_of_container(b"init", container)
    if len(metadata.annotations) and _may_hold(bytes(metadata.annotations)):
        # they may hold the pod
        parts.append(metadata.annotations)
    for volume in spec.volumes or ():
        if volume.ephemeral is not _ABSENT:
            parts.append(volume.name)  # its claim is named after it
        # each kind has its place, so the absent ones are empty parts
        parts += astuple(volume)[1:]
    parts += _key_of_given(pod)
    return b"\0".join(parts)


def _may_hold(annotations: bytes) -> bool:
    return any(word in annotations for word in _GANG_ANNOTATIONS)


def _affinity_of(spec: _Spec) -> bytes | Raw:
    """Return the affinity, with a mark in place of the pod's own node.

    Each pod of a DaemonSet names its node in its affinity. Without the mark, none were alike.
    """
    if not spec.nodeName or not len(spec.affinity):
        return spec.affinity
    return bytes(spec.affinity).replace(quoted(spec.nodeName), _OWN_NODE)


def quoted(text: str) -> bytes:
    """Return a name as a JSON string; names of nodes need no escapes."""
    return b'"%s"' % text.encode()


def _names_labels(constraint: Raw) -> bool:
    return len(constraint) > 0 and b"atchLabelKeys" in bytes(constraint)  # match, and mismatch


def _key_of_given(pod: PodJson) -> list[bytes | Raw]:
    """Return what a running pod was given, with the names of the containers that it is about."""
    status = pod.status
    reports = (*(status.containerStatuses or ()), *(status.initContainerStatuses or ()))
    found: list[bytes | Raw] = []
    for each in reports:
        if len(each.resources) or len(each.allocatedResources):
            found += (each.name, each.resources, each.allocatedResources)
    if found:
        found += (one.name for one in (*pod.spec.containers, *(pod.spec.initContainers or ())))
    if len(status.resources) or len(status.allocatedResources):
        found += (b"pod", status.resources, status.allocatedResources)
    found += (each.reason.encode() for each in status.conditions or () if each.type == _RESIZE)
    return found


def _key_of_container(kind: bytes, one: _Container) -> tuple[bytes | Raw, ...]:
    return (
        kind,
        *(one.image, one.ports, one.resources, one.resizePolicy, one.restartPolicy),
        *(one.restartPolicyRules, one.securityContext),
        # the mount of a token names a volume that each pod has of its own
        one.volumeMounts if _binds(one.volumeMounts) else b"",
    )


def _binds(mounts: Raw) -> bool:
    """Return whether a mount has options that a node must support."""
    return len(mounts) > 0 and b"bindMountOptions" in bytes(mounts)
