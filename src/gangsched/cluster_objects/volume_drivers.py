"""Where volumes can be provisioned and attached: storage classes, CSI drivers and their limits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast, final

from attrs import Attribute, field, frozen
from attrs.validators import instance_of, optional

from gangsched.constraints import LabelSelector, NodeSelectorTerm
from gangsched.errors import InvalidValueError
from gangsched.resources import EMPTY, NOTHING, FrozenMap, Resources
from gangsched.values.fields import (
    as_counts,
    as_resources,
    as_tuple,
    check_amounts,
    check_each,
    check_flag,
    check_namespace,
    check_string,
    check_text,
)
from gangsched.values.reprs import short_repr

__all__ = ["CSIDriver", "CSINode", "CSIStorageCapacity", "StorageClass", "VolumeAttachment"]


def _terms(given: Iterable[NodeSelectorTerm]) -> tuple[NodeSelectorTerm, ...]:
    return as_tuple(given)


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return as_tuple(given)


@final
@frozen(kw_only=True)
class StorageClass:
    """A storage class.

    Attributes:
        name: The name, a non-empty string.
        provisioner: The provisioner; ``kubernetes.io/no-provisioner`` for none.
        waits: Whether a claim is bound only when a pod that uses it is scheduled: its binding mode
            is ``WaitForFirstConsumer`` and not ``Immediate``.
        allowed_topologies: The terms of which a node must match at least one for a volume to be
            provisioned for it; empty for no condition.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.
    """

    name: str = field(validator=check_text)
    provisioner: str = field(validator=check_string)
    waits: bool = field(default=False, validator=check_flag)
    allowed_topologies: tuple[NodeSelectorTerm, ...] = field(
        default=(),
        converter=_terms,
        validator=check_each(NodeSelectorTerm, "a NodeSelectorTerm"),
    )

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    def __repr__(self) -> str:
        return short_repr(self)


def _items(value: Any) -> Iterable[tuple[str, Any]]:
    return cast("Iterable[tuple[str, Any]]", value.items())


def _check_limits(_owner: Any, _attribute: Attribute[Any], value: Any) -> None:
    if not isinstance(value, FrozenMap):
        raise InvalidValueError("limits", value, "a mapping of names of drivers to ints")
    for name, limit in _items(value):
        if type(limit) is not int or limit < 0:
            raise InvalidValueError(f"limits.{name}", limit, "an int >= 0")


@final
@frozen(kw_only=True)
class CSINode:
    """The CSI drivers of one node.

    Attributes:
        name: The name of the node.
        drivers: The names of the drivers that are installed on the node.
        limits: How many volumes of a driver can be attached; drivers without a limit are left out.
        migrated: The in-tree plugins whose volumes CSI drivers handle on the node.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.
    """

    name: str = field(validator=check_text)
    drivers: tuple[str, ...] = field(
        default=(), converter=_names, validator=check_each(str, "a string")
    )
    limits: FrozenMap[int] = field(default=EMPTY, converter=as_counts, validator=_check_limits)
    migrated: tuple[str, ...] = field(
        default=(), converter=_names, validator=check_each(str, "a string")
    )

    @property
    def key(self) -> str:
        """The name of the node."""
        return self.name

    def __repr__(self) -> str:
        return short_repr(self)


@final
@frozen(kw_only=True)
class CSIDriver:
    """A CSI driver.

    Attributes:
        name: The name, a non-empty string.
        tracks_capacity: Whether the driver publishes ``CSIStorageCapacity`` objects, which a
            scheduler must respect.
        required_on_node: Whether a pod with a volume of the driver must not be placed on a node
            without the driver: ``preventPodSchedulingIfMissing``.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.
    """

    name: str = field(validator=check_text)
    tracks_capacity: bool = field(default=False, validator=check_flag)
    required_on_node: bool = field(default=False, validator=check_flag)

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    def __repr__(self) -> str:
        return short_repr(self)


@final
@frozen(kw_only=True)
class CSIStorageCapacity:
    """How much storage of a class can be provisioned for some nodes.

    Attributes:
        name: The name, a non-empty string.
        namespace: The namespace, a non-empty string without a slash.
        storage_class: The name of the storage class.
        nodes: The nodes, by their labels; None for no node.
        largest_volume: The size of the largest volume that can be provisioned, under the name
            ``storage``: ``maximumVolumeSize``, or ``capacity`` without that. Empty if unknown.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.
    """

    name: str = field(validator=check_text)
    namespace: str = field(default="default", validator=check_namespace)
    storage_class: str = field(validator=check_string)
    nodes: LabelSelector | None = field(
        default=None, validator=optional(instance_of(LabelSelector))
    )
    largest_volume: Resources = field(
        default=NOTHING, converter=as_resources, validator=check_amounts
    )

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    def __repr__(self) -> str:
        return short_repr(self)


@final
@frozen(kw_only=True)
class VolumeAttachment:
    """A volume that is attached to a node, or is about to be.

    Attributes:
        name: The name, a non-empty string.
        node: The name of the node.
        attacher: The CSI driver.
        volume: The name of the ``PersistentVolume``; empty for an inline volume.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.
    """

    name: str = field(validator=check_text)
    node: str = field(validator=check_string)
    attacher: str = field(default="", validator=check_string)
    volume: str = field(default="", validator=check_string)

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    def __repr__(self) -> str:
        return short_repr(self)
