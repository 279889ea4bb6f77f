"""Taints of nodes, and tolerations of pods."""

from __future__ import annotations

import enum
from typing import NoReturn, final

from attrs import field, frozen

from gangsched.constraints.node_selector import is_int
from gangsched.errors import InvalidValueError
from gangsched.values.fields import check_flag, check_string, check_text, refuse_choice
from gangsched.values.reprs import short_repr

__all__ = ["Comparison", "Taint", "TaintEffect", "Toleration"]


class TaintEffect(enum.Enum):
    """The effect of a taint on a pod that does not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "effect", value)


class Comparison(enum.Enum):
    """How the value of a taint compares with the value of a toleration that matches it.

    Source: the operators ``Gt`` and ``Lt`` of KEP-5471.
    """

    GT = "Gt"
    LT = "Lt"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "comparison", value)


def _comparison(given: Comparison | str | None) -> Comparison | None:
    return None if given is None else Comparison(given)


def _is_canonical(text: str) -> bool:
    """Return whether a value is an integer without leading zeros, as comparisons require."""
    return is_int(text) and str(int(text)) == text


def _effect(given: TaintEffect | str | None) -> TaintEffect | None:
    return None if given is None else TaintEffect(given)


@final
@frozen
class Taint:
    """A taint on a node: it repels pods that do not tolerate it.

    Attributes:
        key: The key, a non-empty string.
        value: The value.
        effect: The effect.
    """

    key: str = field(validator=check_text)
    value: str = field(default="", validator=check_string)
    effect: TaintEffect = field(default=TaintEffect.NO_SCHEDULE, converter=TaintEffect)

    def __repr__(self) -> str:
        return short_repr(self)


@final
# hashed several times for each pod, as a part of its equivalence class
@frozen(cache_hash=True)
class Toleration:
    """A toleration of a pod for taints.

    Attributes:
        key: The key of the taint; empty for every key, which requires *exists*.
        value: The value of the taint; ignored if *exists* is true.
        exists: Whether to tolerate every value, as the operator ``Exists`` does.
        effect: The effect to tolerate; None for all effects.
        comparison: ``Gt`` to tolerate taints with an integer value greater than *value*, ``Lt`` for
            a smaller one; None to compare for equality. *value* is an integer then.
    """

    key: str = field(default="", validator=check_string)
    value: str = field(default="", validator=check_string)
    exists: bool = field(default=False, validator=check_flag)
    effect: TaintEffect | None = field(default=None, converter=_effect)
    comparison: Comparison | None = field(default=None, converter=_comparison)

    def __attrs_post_init__(self) -> None:
        if not self.key and not self.exists:
            raise InvalidValueError("key", self.key, "a non-empty string, unless exists is true")
        if self.comparison is None:
            return
        if self.exists:
            raise InvalidValueError("comparison", self.comparison, "None if exists is true")
        if not _is_canonical(self.value):
            expected = "an integer without leading zeros, as it is compared"
            raise InvalidValueError("value", self.value, expected)

    def tolerates(self, taint: Taint) -> bool:
        """Return whether this toleration matches *taint*."""
        if self.effect is not None and self.effect is not taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.comparison is None:
            return self.exists or self.value == taint.value
        if not _is_canonical(taint.value):
            return False
        if self.comparison is Comparison.GT:
            return int(taint.value) > int(self.value)
        return int(taint.value) < int(self.value)

    def __repr__(self) -> str:
        return short_repr(self)
