"""Volumes of a pod, as far as they restrict its nodes: claims for storage, and disks.

Rules:
  R1  the values do not depend on the name of the pod, so that all pods of one job share them. The
      name of the claim of an ephemeral volume does: ``VolumeClaim.claim_of`` returns it;
  R2  a disk that a pod names directly, without a claim, conflicts with the same disk of another
      pod on the node, as its driver says.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Final, final

from attrs import field, frozen

from gangsched.errors import InvalidValueError
from gangsched.values.fields import as_tuple, check_each, check_flag, check_string, check_text
from gangsched.values.reprs import short_repr

__all__ = ["Disk", "VolumeClaim"]

_MONITORS: Final = "rbd"
_NEVER_SHARED: Final = "awsElasticBlockStore"


@final
@frozen
class VolumeClaim:
    """A claim for storage that a pod mounts.

    Attributes:
        name: The name of the ``PersistentVolumeClaim``; of an ephemeral volume, the name of the
            volume.
        ephemeral: Whether the claim is made for this pod alone, and named after it.
    """

    name: str = field(validator=check_text)
    ephemeral: bool = field(default=False, validator=check_flag)

    def claim_of(self, pod: str) -> str:
        """Return the name of the claim that the volume of a pod uses.

        Args:
            pod: The name of the pod. A claim for one pod alone is named after it.
        """
        return f"{pod}-{self.name}" if self.ephemeral else self.name

    def __repr__(self) -> str:
        return short_repr(self)


def _monitors(given: Iterable[str]) -> tuple[str, ...]:
    return as_tuple(given)


def _check_kind(owner: Disk, _attribute: object, value: Any) -> None:
    if value not in owner.KINDS:
        raise InvalidValueError("kind", value, "one of " + ", ".join(owner.KINDS))


@final
@frozen
class Disk:
    """A disk that a pod mounts without a claim.

    Attributes:
        kind: The kind of volume, one of ``KINDS``, as in ``spec.volumes``.
        identity: Which disk of this kind: its name, ID or IQN; of ``rbd`` ``pool/image``.
        read_only: Whether the pod mounts it only to read.
        monitors: The Ceph monitors, for ``rbd``.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.
    """

    KINDS: ClassVar[tuple[str, ...]] = (
        *("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"),
        *("azureDisk", "azureFile", "cinder", "portworxVolume", "vsphereVolume"),
    )
    """The kinds that restrict nodes. Only the first four conflict."""

    kind: str = field(validator=_check_kind)
    identity: str = field(validator=check_string)
    read_only: bool = field(default=False, validator=check_flag)
    monitors: tuple[str, ...] = field(
        default=(), converter=_monitors, validator=check_each(str, "a string")
    )

    def conflicts_with(self, other: Disk) -> bool:
        """Return whether pods with these disks cannot be on one node.

        Source: ``isVolumeConflict`` of kube-scheduler's VolumeRestrictions.
        """
        if self.kind != other.kind or self.kind not in self.KINDS[:4]:
            return False
        if self.identity != other.identity:
            return False
        if self.kind == _MONITORS and not set(self.monitors) & set(other.monitors):
            return False
        return self.kind == _NEVER_SHARED or not (self.read_only and other.read_only)

    def __repr__(self) -> str:
        return short_repr(self)
