"""The kinds of objects that constraints refer to: where they are watched, and how they are read.

Rules:
  R1  a cluster may not serve a kind, or may forbid to read it. Then pods that need the kind are
      held. So a role that is too small costs some pods, and not the scheduler;
  R2  a kind that only scores depend on is watched only if a plugin of the profile names it. If it
      cannot be read, no pod is held: its pods are scored as if there were no such object;
  R3  decoding costs a tenth of reading, so an object is decoded as a whole. Only the value is kept.

Runtime classes are not watched: the API server has put what they say into the pods.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from attrs import frozen

from gangsched.cluster_objects import KINDS, ClusterObject
from gangsched.kubernetes._facts import ObjectFacts
from gangsched.kubernetes._read import identity_in, read_document, read_object_slowly
from gangsched.model import Pod
from gangsched.plugins import NodeVolumeLimits, VolumeBinding, VolumeRestrictions, VolumeZone

__all__ = ["WATCHED", "ObjectDecoder", "Watched", "objects_needed", "watched_for"]

_APPS: Final = "/apis/apps/v1"
_STORAGE: Final = "/apis/storage.k8s.io/v1"
_NAMES: Final = {kind: name for name, kind in KINDS.items()}
_READERS: Final = (VolumeBinding(), VolumeZone(), VolumeRestrictions(), NodeVolumeLimits())


@final
@frozen
class Watched:
    """A kind that is watched.

    Attributes:
        kind: The kind.
        path: The path of all its objects.
        optional: Whether the scheduler works without it, and holds the pods that need it.
        scored: Whether only scores depend on it, so that it is watched for some profiles only.
    """

    kind: str
    path: str
    optional: bool = True
    scored: bool = False


WATCHED: Final = (
    Watched("Namespace", "/api/v1/namespaces", optional=False),
    Watched("PersistentVolume", "/api/v1/persistentvolumes"),
    Watched("PersistentVolumeClaim", "/api/v1/persistentvolumeclaims"),
    Watched("StorageClass", f"{_STORAGE}/storageclasses"),
    Watched("CSINode", f"{_STORAGE}/csinodes"),
    Watched("CSIDriver", f"{_STORAGE}/csidrivers"),
    Watched("CSIStorageCapacity", f"{_STORAGE}/csistoragecapacities"),
    Watched("VolumeAttachment", f"{_STORAGE}/volumeattachments"),
    Watched("PodDisruptionBudget", "/apis/policy/v1/poddisruptionbudgets"),
    Watched("Service", "/api/v1/services", scored=True),
    Watched("ReplicationController", "/api/v1/replicationcontrollers", scored=True),
    Watched("ReplicaSet", f"{_APPS}/replicasets", scored=True),
    Watched("StatefulSet", f"{_APPS}/statefulsets", scored=True),
)
"""The kinds beside pods, nodes, groups and priority classes."""


def watched_for(scored: Iterable[type[ClusterObject]]) -> tuple[Watched, ...]:
    """Return the kinds to watch for a profile.

    Args:
        scored: The classes of objects that only scores of the profile depend on.
    """
    names = {_NAMES[kind] for kind in scored}
    return tuple(each for each in WATCHED if not each.scored or each.kind in names)


def objects_needed(pod: Pod) -> frozenset[str]:
    """Return the kinds of objects without which a pod cannot be placed. O(claims)."""
    return frozenset(_NAMES[kind] for reader in _READERS for kind in reader.objects_read(pod))


@final
@frozen
class ObjectDecoder:
    """Reads objects of one kind.

    Args:
        watched: The kind.
    """

    watched: Watched

    def __call__(self, raw: bytes | memoryview) -> ObjectFacts:
        """Return one object.

        Raises:
            ManifestError: It is malformed.
        """
        document = read_document(raw, self.watched.kind)
        # an object of a list has no version of its own
        document.setdefault("apiVersion", _version(self.watched.path))
        return ObjectFacts(value=read_object_slowly(document), identity=identity_in(document))


def _version(path: str) -> str:
    """Return the API version of a path: ``storage.k8s.io/v1``, or ``v1``."""
    return path.removeprefix("/apis/").removeprefix("/api/").rpartition("/")[0]
