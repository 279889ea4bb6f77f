"""Container images that a node has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from attrs import field, frozen

from gangsched._fields import as_tuple, check_count, check_each
from gangsched._repr import short_repr

__all__ = ["ContainerImage"]


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return as_tuple(given)


@final
@frozen
class ContainerImage:
    """An image that a node has, as in ``status.images``.

    Attributes:
        names: The names by which containers refer to it, with tags and digests.
        size_bytes: Its size in bytes, an int >= 0.
    """

    names: tuple[str, ...] = field(
        default=(), converter=_names, validator=check_each(str, "a string")
    )
    size_bytes: int = field(default=0, validator=check_count)

    def __repr__(self) -> str:
        return short_repr(self)
