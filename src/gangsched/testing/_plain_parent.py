"""Groups of groups as plain data.

Rules:
  R1  a parent names no child: its children name it, and may be submitted before it;
  R2  a parent that is put again replaces the one with its name.
"""

from __future__ import annotations

from typing import final

from attrs import field, frozen
from attrs.validators import optional

from gangsched.errors import InvalidValueError
from gangsched.values.fields import check_positive, check_text

__all__ = ["PlainParent"]


@final
@frozen(kw_only=True, repr=False)
class PlainParent:
    """A group of groups, as the kit passes it to an adapter.

    Attributes:
        name: The name, which no gang has.
        min_groups: How many of its children have to start, at least 1: gangs whose pods name it as
            their ``parent``, and other parents that do.
        parent: The name of its own parent, or None.
    """

    name: str = field(validator=check_text)
    min_groups: int = field(default=1, validator=check_positive)
    parent: str | None = field(default=None, validator=optional(check_text))

    def __attrs_post_init__(self) -> None:
        if self.parent == self.name:
            raise InvalidValueError("parent", self.parent, "another parent, or None")

    def __repr__(self) -> str:
        parent = "" if self.parent is None else f", parent={self.parent!r}"
        return f"PlainParent(name={self.name!r}, min_groups={self.min_groups}{parent})"
