"""Quotas as rows of ``kubectl gang quotas`` and of the scheduler's page ``/quotas``.

Rules:
  R1  a row is plain data that any JSON parser reads: amounts are quantities, and an infinite share
      is null;
  R2  rows are read back as untrusted input; a number that a table cannot show is refused.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from gangsched.errors import InvalidValueError
from gangsched.listings import Listing, QuotaRow
from gangsched.resources import Resources, with_zeros

__all__ = ["quota_item", "read_quota_rows"]

_LARGEST: Final = sys.float_info.max


def quota_item(row: QuotaRow) -> dict[str, Any]:
    """Return a quota as plain data."""
    return {
        "name": row.name,
        "parent": row.parent,
        "used": _quantities(row.used),
        "nominal": None if row.nominal is None else _quantities(row.nominal),
        "hard": _quantities(row.hard),
        "weight": row.weight,
        "share": _finite(row.share),
        "pastShare": _finite(row.past),
        "pending": row.pending,
    }


def read_quota_rows(items: Sequence[Mapping[str, Any]]) -> Listing[QuotaRow]:
    """Return quotas that were read as plain data, in the same order.

    A quota is as deep as its parent is among those before it, plus one; without one it is a root.

    Raises:
        InvalidValueError: A row is malformed. The error names the field.
    """
    rows: dict[str, QuotaRow] = {}
    for item in items:
        name, parent = _text(item, "name"), item.get("parent")
        above = None if parent is None else rows.get(_text(item, "parent"))
        rows[name] = _quota_row(item, name, parent, 0 if above is None else above.depth + 1)
    return Listing(rows.values())


def _quota_row(item: Mapping[str, Any], name: str, parent: str | None, depth: int) -> QuotaRow:
    pending = item.get("pending")
    if not isinstance(pending, int):
        raise InvalidValueError("pending", pending, "an int")
    return QuotaRow(
        name=name,
        parent=parent,
        depth=depth,
        used=_amounts(item, "used"),
        nominal=None if item.get("nominal") is None else _amounts(item, "nominal"),
        hard=_amounts(item, "hard"),
        weight=_number(item, "weight"),
        share=_share(item, "share"),
        past=_share(item, "pastShare"),
        pending=pending,
    )


def _quantities(given: Resources) -> dict[str, str]:
    return {name: given.quantity(name) for name in given}


def _finite(share: float) -> float | None:
    return share if math.isfinite(share) else None


def _text(item: Mapping[str, Any], name: str) -> str:
    value = item.get(name)
    if not isinstance(value, str):
        raise InvalidValueError(name, value, "a string")
    return value


def _amounts(item: Mapping[str, Any], name: str) -> Resources:
    value = item.get(name)
    if not isinstance(value, dict):
        raise InvalidValueError(name, value, "an object of quantities")
    given = cast("dict[str, Any]", value)
    return with_zeros(Resources(given), given)


def _share(item: Mapping[str, Any], name: str) -> float:
    is_infinite = name in item and item[name] is None
    return math.inf if is_infinite else _number(item, name)


def _number(item: Mapping[str, Any], name: str) -> float:
    value = item.get(name)
    if not (isinstance(value, int | float) and 0 <= value <= _LARGEST):
        raise InvalidValueError(name, value, "a finite number >= 0")
    return float(value)
