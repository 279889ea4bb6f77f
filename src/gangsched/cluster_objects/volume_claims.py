"""``PersistentVolumeClaim`` and ``PersistentVolume``: a claim for storage, and what meets it.

Rules:
  R1  a claim is bound once it names its volume and the volume controller has completed the
      binding. A claim that only names a volume is not bound yet;
  R2  sizes are ``Resources`` with the one name ``storage``, so in thousandths of a byte.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NoReturn, final

from attrs import field, frozen
from attrs.validators import instance_of, optional

from gangsched.constraints import LabelSelector, NodeSelectorTerm
from gangsched.resources import EMPTY, NOTHING, FrozenMap, Resources
from gangsched.values.fields import (
    as_resources,
    as_texts,
    as_tuple,
    check_amounts,
    check_each,
    check_flag,
    check_namespace,
    check_string,
    check_text,
    check_texts,
    refuse_choice,
)
from gangsched.values.reprs import short_repr

__all__ = ["AccessMode", "PersistentVolume", "PersistentVolumeClaim", "VolumeSource"]


class AccessMode(enum.Enum):
    """How a volume may be mounted."""

    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_ONLY_MANY = "ReadOnlyMany"
    READ_WRITE_MANY = "ReadWriteMany"
    READ_WRITE_ONCE_POD = "ReadWriteOncePod"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "access_modes", value)


def _modes(given: Iterable[AccessMode | str]) -> tuple[AccessMode, ...]:
    found = as_tuple(given)
    if not isinstance(found, tuple):
        refuse_choice(AccessMode, "access_modes", found)
    return tuple(AccessMode(mode) for mode in found)


def _terms_or_none(given: Iterable[NodeSelectorTerm] | None) -> tuple[NodeSelectorTerm, ...] | None:
    return None if given is None else as_tuple(given)


@final
@frozen(kw_only=True)
class PersistentVolumeClaim:
    """A claim for storage.

    Attributes:
        name: The name, a non-empty string.
        namespace: The namespace, a non-empty string without a slash.
        uid: The UID; empty if it is unknown.
        volume: The name of the volume that the claim is bound to, or shall be; empty for none.
        bound: Whether the volume controller has completed the binding.
        lost: Whether the volume of the claim is gone: its phase is ``Lost``.
        terminating: Whether its deletion was requested.
        storage_class: The name of the storage class; empty for none.
        access_modes: The access modes that the volume must have.
        requests: The size, under the name ``storage``.
        selector: The labels that the volume must have; None for no condition.
        volume_mode: ``Filesystem`` or ``Block``.
        attributes_class: The volume attributes class; empty for none.
        selected_node: The node that a scheduler selected for the volume to be provisioned for;
            empty for none.
        owner: The UID of the controller that owns the claim, as the pod owns the claim of its
            ephemeral volume; empty for none.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.
    """

    name: str = field(validator=check_text)
    namespace: str = field(default="default", validator=check_namespace)
    uid: str = field(default="", validator=check_string)
    volume: str = field(default="", validator=check_string)
    bound: bool = field(default=False, validator=check_flag)
    lost: bool = field(default=False, validator=check_flag)
    terminating: bool = field(default=False, validator=check_flag)
    storage_class: str = field(default="", validator=check_string)
    access_modes: tuple[AccessMode, ...] = field(default=(), converter=_modes)
    requests: Resources = field(default=NOTHING, converter=as_resources, validator=check_amounts)
    selector: LabelSelector | None = field(
        default=None, validator=optional(instance_of(LabelSelector))
    )
    volume_mode: str = field(default="Filesystem", validator=check_text)
    attributes_class: str = field(default="", validator=check_string)
    selected_node: str = field(default="", validator=check_string)
    owner: str = field(default="", validator=check_string)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_fully_bound(self) -> bool:
        """Whether the claim names its volume, and the binding is complete."""
        return bool(self.volume) and self.bound

    def __repr__(self) -> str:
        return short_repr(self)


@final
@frozen
class VolumeSource:
    """What a volume is on its storage system.

    Attributes:
        driver: The CSI driver, or the in-tree plugin such as ``kubernetes.io/aws-ebs``.
        handle: The identity of the volume for the driver.
        in_tree: Whether *driver* is an in-tree plugin. Its volumes count as those of a CSI driver
            on a node to which the plugin was migrated.
    """

    driver: str = field(validator=check_text)
    handle: str = field(default="", validator=check_string)
    in_tree: bool = field(default=False, validator=check_flag)

    def __repr__(self) -> str:
        return short_repr(self)


@final
@frozen(kw_only=True)
class PersistentVolume:
    """A volume, which meets one claim.

    Attributes:
        name: The name, a non-empty string.
        labels: The labels; a claim may select them, and some name a zone or a region.
        capacity: The size, under the name ``storage``.
        storage_class: The name of the storage class; empty for none.
        access_modes: The access modes.
        volume_mode: ``Filesystem`` or ``Block``.
        attributes_class: The volume attributes class; empty for none.
        node_affinity: The terms of which a node must match at least one to reach the volume; None
            if every node reaches it.
        claim: The key of the claim that the volume is bound to, or reserved for; empty for none.
        claim_uid: The UID of that claim; empty if it is unknown.
        available: Whether its phase is ``Available``: the scheduler may bind it.
        terminating: Whether its deletion was requested.
        source: What it is on its storage system; None if that does not matter to a scheduler.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.
    """

    name: str = field(validator=check_text)
    labels: FrozenMap[str] = field(default=EMPTY, converter=as_texts, validator=check_texts)
    capacity: Resources = field(default=NOTHING, converter=as_resources, validator=check_amounts)
    storage_class: str = field(default="", validator=check_string)
    access_modes: tuple[AccessMode, ...] = field(default=(), converter=_modes)
    volume_mode: str = field(default="Filesystem", validator=check_text)
    attributes_class: str = field(default="", validator=check_string)
    node_affinity: tuple[NodeSelectorTerm, ...] | None = field(
        default=None,
        converter=_terms_or_none,
        validator=optional(check_each(NodeSelectorTerm, "a NodeSelectorTerm")),
    )
    claim: str = field(default="", validator=check_string)
    claim_uid: str = field(default="", validator=check_string)
    available: bool = field(default=True, validator=check_flag)
    terminating: bool = field(default=False, validator=check_flag)
    source: VolumeSource | None = field(default=None, validator=optional(instance_of(VolumeSource)))

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    def is_for(self, claim: PersistentVolumeClaim) -> bool:
        """Return whether the volume is bound to *claim*, or reserved for it."""
        return self.claim == claim.key and self.claim_uid in ("", claim.uid)

    def is_reached_from(self, labels: FrozenMap[str]) -> bool:
        """Return whether a node with these labels reaches the volume. O(terms)."""
        terms = self.node_affinity
        return terms is None or any(term.matches(labels) for term in terms)

    def __repr__(self) -> str:
        return short_repr(self)
