"""The weight of a preference."""

from __future__ import annotations

from typing import Any

from attrs import Attribute

from gangsched.errors import InvalidValueError

__all__ = ["check_weight"]


def check_weight(_owner: object, attribute: Attribute[Any], value: object) -> None:
    """Require an int from 1 to 100, as the API server does."""
    if type(value) is not int or not 1 <= value <= 100:
        raise InvalidValueError(attribute.name, value, "an int from 1 to 100")
