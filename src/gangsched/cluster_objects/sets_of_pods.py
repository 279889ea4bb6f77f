"""Services, replication controllers, replica sets and stateful sets: which pods belong together.

kube-scheduler spreads such pods by default, see ``PodTopologySpread``. Of each object only the
selector is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from attrs import field, frozen
from attrs.validators import instance_of, optional

from gangsched.constraints import LabelSelector
from gangsched.resources import EMPTY, FrozenMap
from gangsched.values.fields import as_texts, check_namespace, check_text, check_texts
from gangsched.values.reprs import short_repr

__all__ = ["ReplicaSet", "ReplicationController", "Service", "StatefulSet"]


@final
@frozen(kw_only=True)
class Service:
    """A service.

    Attributes:
        name: The name, a non-empty string.
        namespace: The namespace, a non-empty string without a slash.
        selector: The labels of its pods. Empty for a service that selects no pod.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.
    """

    name: str = field(validator=check_text)
    namespace: str = field(default="default", validator=check_namespace)
    selector: FrozenMap[str] = field(default=EMPTY, converter=as_texts, validator=check_texts)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether pods of a namespace with these labels belong to it. O(conditions)."""
        if namespace != self.namespace or not self.selector:
            return False
        return all(labels.get(name) == value for name, value in self.selector.items())

    def __repr__(self) -> str:
        return short_repr(self)


@final
@frozen(kw_only=True)
class ReplicationController:
    """A replication controller.

    Attributes:
        name: The name, a non-empty string.
        namespace: The namespace, a non-empty string without a slash.
        selector: The labels of its pods.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.
    """

    name: str = field(validator=check_text)
    namespace: str = field(default="default", validator=check_namespace)
    selector: FrozenMap[str] = field(default=EMPTY, converter=as_texts, validator=check_texts)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    def __repr__(self) -> str:
        return short_repr(self)


@final
@frozen(kw_only=True)
class ReplicaSet:
    """A replica set.

    Attributes:
        name: The name, a non-empty string.
        namespace: The namespace, a non-empty string without a slash.
        selector: The labels of its pods; None for no pod.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.
    """

    name: str = field(validator=check_text)
    namespace: str = field(default="default", validator=check_namespace)
    selector: LabelSelector | None = field(
        default=None, validator=optional(instance_of(LabelSelector))
    )

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    def __repr__(self) -> str:
        return short_repr(self)


@final
@frozen(kw_only=True)
class StatefulSet:
    """A stateful set.

    Attributes:
        name: The name, a non-empty string.
        namespace: The namespace, a non-empty string without a slash.
        selector: The labels of its pods; None for no pod.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.
    """

    name: str = field(validator=check_text)
    namespace: str = field(default="default", validator=check_namespace)
    selector: LabelSelector | None = field(
        default=None, validator=optional(instance_of(LabelSelector))
    )

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    def __repr__(self) -> str:
        return short_repr(self)
