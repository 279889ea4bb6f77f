"""The kinds of objects that constraints refer to: where they are watched, and how they are read.

Rules:
  R1  a cluster may not serve a kind, or may forbid to read it. Then pods that need the kind are
      held. So a role that is too small costs some pods, and not the scheduler;
  R2  decoding costs a tenth of reading, so an object is decoded as a whole. Only the value is kept.

Runtime classes are not watched: the API server has put what they say into the pods.
"""

from __future__ import annotations

from typing import Final, final

from attrs import frozen

from gangsched.cluster_objects import KINDS
from gangsched.kubernetes._facts import ObjectFacts
from gangsched.kubernetes._read import identity_in, read_document, read_object_slowly
from gangsched.model import Pod
from gangsched.plugins import NodeVolumeLimits, VolumeBinding, VolumeRestrictions, VolumeZone

__all__ = ["WATCHED", "ObjectDecoder", "Watched", "objects_needed"]

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
    """

    kind: str
    path: str
    optional: bool = True


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
)
"""The kinds beside pods, nodes, groups and priority classes."""


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
