"""``LabelledRole``: members that have a role by their labels.

Rules:
  R1  controllers of other projects name no path of a copy. They label their pods, and the group
      says which labels are which role;
  R2  the first one that selects a member counts. It overrides what the member says of its role;
  R3  a label may number the copies of a role. Then the role has as many copies as its members
      number, since such a group does not say how many there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, final

from attrs import Attribute, evolve, field, frozen
from attrs.validators import optional

from gangsched.constraints import LabelSelector
from gangsched.errors import InvalidValueError
from gangsched.model._role import Role
from gangsched.resources import FrozenMap
from gangsched.values.fields import check_optional, check_text
from gangsched.values.reprs import pretty_repr, short_repr

__all__ = ["MOST_COPIES", "LabelledRole", "role_by_labels", "with_copies"]

MOST_COPIES: Final = 1000
"""The most copies that labels may number."""

_NUMBER: Final = "*"


def _check_path(_owner: object, attribute: Attribute[Any], value: object) -> None:
    if not isinstance(value, str) or not all(value.split("/")):
        raise InvalidValueError(attribute.name, value, "a path such as worker, or decode/0/worker")


@final
@frozen
class LabelledRole:
    """The role of the members with some labels.

    ::

        LabelledRole("decode/0/leader", LabelSelector({"part": "leader-0"}))
        LabelledRole("decode/*/worker", LabelSelector({"part": "decode"}), number="replica")

    Attributes:
        role: The role, or its path in a copy. With *number*, ``*`` stands for the number of the
            copy. None to refuse these members.
        selector: The labels of the members. One without conditions selects every member.
        number: The label whose value is the number of the copy, less than 1,000. It selects only
            members with this label. None for no such label.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.
    """

    role: str | None = field(validator=optional(_check_path))
    selector: LabelSelector = field(
        factory=LabelSelector, validator=check_optional(LabelSelector, "a LabelSelector")
    )
    number: str | None = field(default=None, validator=optional(check_text), kw_only=True)

    def __attrs_post_init__(self) -> None:
        steps = [] if self.role is None else self.role.split("/")
        starred = [index for index, step in enumerate(steps) if step == _NUMBER]
        if starred != ([] if self.number is None else [1]):
            expected = "with a number, and only then, a path such as decode/*/worker"
            raise InvalidValueError("role", self.role, expected)

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether it is about members with these labels."""
        is_numbered = self.number is None or bool(labels.get(self.number))
        return is_numbered and self.selector.matches(labels)

    def path(self, labels: Mapping[str, str]) -> str | None:
        """Return the role of a selected member; None if such members are refused.

        The number of a copy is as it is written: ``problem`` tells whether it is one.
        """
        if self.role is None or self.number is None:
            return self.role
        return self.role.replace(_NUMBER, labels[self.number])

    def problem(self, labels: Mapping[str, str]) -> tuple[str, object, str] | None:
        """Return what is wrong with the labels of a selected member: name, value, expected."""
        if self.role is None:
            return "labels", dict(labels), "those of a role of its group"
        if self.number is not None and _number(labels[self.number]) is None:
            expected = f"the number of a copy, from 0 to {MOST_COPIES - 1}"
            return f"labels[{self.number!r}]", labels[self.number], expected
        return None

    @property
    def numbered(self) -> str | None:
        """The path of the role of which a label numbers the copies; None for none."""
        return None if self.role is None or self.number is None else self.role.partition("/")[0]

    def __repr__(self) -> str:
        return short_repr(self)

    _repr_pretty_ = pretty_repr


def role_by_labels(
    labelled: Iterable[LabelledRole], labels: Mapping[str, str]
) -> LabelledRole | None:
    """Return what says the role of a member with these labels; None for none. O(labelled roles)."""
    return next((each for each in labelled if each.selects(labels)), None)


def with_copies(
    roles: FrozenMap[int | Role], labelled: Iterable[LabelledRole], paths: Iterable[str | None]
) -> FrozenMap[int | Role]:
    """Return roles with the copies that members number; themselves if they have these already.

    Args:
        roles: The roles of a group.
        labelled: What numbers copies of some of them.
        paths: The roles of its members.
    """
    numbered = {each.numbered for each in labelled} - {None}
    if not numbered:
        return roles
    counts: dict[str, int] = {}
    for path in paths:
        name, slash, rest = (path or "").partition("/")
        number = _number(rest.partition("/")[0]) if slash and name in numbered else None
        if number is not None:
            counts[name] = max(counts.get(name, 0), number + 1)
    grown: dict[str, int | Role] = {}
    for name, count in counts.items():
        role = roles.get(name)
        if isinstance(role, Role) and count > role.count:
            grown[name] = evolve(role, count=count, minimum=role.needed)
    return FrozenMap({**roles, **grown}) if grown else roles


def _number(text: str) -> int | None:
    """Return the number of a copy; None if the text is none as a path has it."""
    is_number = text.isascii() and text.isdigit() and (text == "0" or text[0] != "0")
    return int(text) if is_number and len(text) <= 9 and int(text) < MOST_COPIES else None
