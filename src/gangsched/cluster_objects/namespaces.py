"""``Namespace``: the labels by which affinity selects namespaces."""

from __future__ import annotations

from typing import final

from attrs import field, frozen

from gangsched.resources import EMPTY, FrozenMap
from gangsched.values.fields import as_texts, check_namespace, check_texts
from gangsched.values.reprs import short_repr

__all__ = ["Namespace"]


@final
@frozen(kw_only=True)
class Namespace:
    """A namespace.

    Attributes:
        name: The name, a non-empty string without a slash.
        labels: The labels. The API server adds ``kubernetes.io/metadata.name``.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.
    """

    name: str = field(validator=check_namespace)
    labels: FrozenMap[str] = field(default=EMPTY, converter=as_texts, validator=check_texts)

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    def __repr__(self) -> str:
        return short_repr(self)
