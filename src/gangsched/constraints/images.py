"""Container images that a node has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, final

from attrs import Attribute, field, frozen

from gangsched.errors import InvalidValueError
from gangsched.values.fields import as_tuple, check_each
from gangsched.values.reprs import short_repr

__all__ = ["ContainerImage"]

_LARGEST: Final = 2**63 - 1


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return as_tuple(given)


def _check_size(_owner: object, attribute: Attribute[Any], value: object) -> None:
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise InvalidValueError(attribute.name, value, "an int from 0 to 2**63 - 1")


@final
@frozen
class ContainerImage:
    """An image that a node has, as in ``status.images``.

    Attributes:
        names: The names by which containers refer to it, with tags and digests.
        size_bytes: Its size in bytes, an int from 0 to 2**63 - 1, as in Kubernetes.
    """

    names: tuple[str, ...] = field(
        default=(), converter=_names, validator=check_each(str, "a string")
    )
    size_bytes: int = field(default=0, validator=_check_size)

    def __repr__(self) -> str:
        return short_repr(self)
