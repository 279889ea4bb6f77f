"""The topology constraint of a gang: its nodes have one value of a label in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast, final

from attrs import Attribute, field, frozen

from gangsched.errors import InvalidValueError
from gangsched.values.fields import check_flag
from gangsched.values.reprs import short_repr

__all__ = ["Topology"]


def _check_level(_owner: object, attribute: Attribute[Any], value: Any) -> None:
    if value is not None and (not isinstance(value, str) or not value):
        raise InvalidValueError(attribute.name, value, "a non-empty string, or None")


def _check_prefer(owner: Topology, _attribute: object, value: Any) -> None:
    if value is not None and (not isinstance(value, str) or value in ("", owner.key)):
        raise InvalidValueError("prefer", value, f"a finer level than {owner.key}, or None")


def _as_slices(given: Mapping[str, int] | Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    value = cast("Any", given.items() if isinstance(given, Mapping) else given)
    try:
        return tuple([(level, size) for level, size in value])
    except (TypeError, ValueError):
        return cast("tuple[tuple[str, int], ...]", given)


def _check_slices(owner: Topology, _attribute: object, given: object) -> None:
    whole, levels = 0, {owner.key}
    value = cast("tuple[tuple[Any, Any], ...]", given)
    for level, size in value if isinstance(given, tuple) else ((None, None),):
        if not isinstance(level, str) or not level or type(size) is not int or size < 1:
            raise InvalidValueError("slices", value, "a mapping of labels to sizes >= 1")
        if level in levels:
            raise InvalidValueError("slices", level, "a label that is not named twice")
        if whole % size:
            expected = f"a size that divides {whole}, that of the slices around it"
            raise InvalidValueError(f"slices[{level!r}]", size, expected)
        whole, levels = size, {*levels, level}


@final
@frozen
class Topology:
    """A topology constraint of a gang: its nodes have one value of a label in common.

    Source: the topology constraints of KEP-5732; the preferred level of KAI Scheduler; the slices
    and the balanced placement of Kueue; ``--spread-segments`` and ``--exclusive=topo`` of Slurm.

    Attributes:
        key: The key of the label: of a rack, a zone, a network. None for no matter, with *slices*,
            *apart* or *exclusive*.
        required: Whether the constraint is hard. If it is, the gang waits until it fits into one
            value. If not, a gang that fits into no single value goes to one of the next coarser
            level, if the scheduler knows ``levels``; at last to the fewest values.
        prefer: A finer level that the gang shares if it fits into one of its values, else one of
            the next coarser level, up to *key*; at last it has the fewest values of this level
            within *key*. None for no matter. It needs ``levels``.
        slices: Of pods by their numbers, how many in a row share a value of a finer label:
            ``{"rack": 16, "kubernetes.io/hostname": 4}``. Outermost first; each size divides the
            one before it, and a last slice may be short. They hold for the minimum; pods beyond it
            are in no slice. More than one label needs ``levels``.
        apart: A label of which no two slices share a value; without slices, no two pods. Of a role
            with copies no two copies, and of a group of groups no two children: each of them is
            within one value.
        exclusive: A label: while it runs, nobody else's pods are on nodes with the values that its
            nodes have. Pods of DaemonSets and mirror pods are no matter.
        balanced: Whether the fewest values that suffice, at each level below *key*, take as equal
            numbers of pods as they can.
    """

    key: str | None = field(default=None, validator=_check_level)
    required: bool = field(default=True, validator=check_flag)
    prefer: str | None = field(default=None, validator=_check_prefer, kw_only=True)
    slices: tuple[tuple[str, int], ...] = field(
        default=(), converter=_as_slices, validator=_check_slices, kw_only=True
    )
    apart: str | None = field(default=None, validator=_check_level, kw_only=True)
    exclusive: str | None = field(default=None, validator=_check_level, kw_only=True)
    balanced: bool = field(default=False, validator=check_flag, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.key is None and (self.prefer is not None or self.balanced or not self.required):
            raise InvalidValueError("key", None, "a label, as it is preferred or balanced")
        if self.key is None and not (self.slices or self.apart or self.exclusive):
            raise InvalidValueError("key", None, "a label, unless slices, apart or exclusive")

    def __repr__(self) -> str:
        return short_repr(self)
