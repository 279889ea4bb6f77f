"""The option ``--quota``: a question about a quota that states something else."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any, Final

from attrs import evolve

from gangsched.cli._files import BadInputError
from gangsched.errors import InvalidValueError
from gangsched.options.quota import Quota
from gangsched.resources import NOTHING, Resources, with_zeros

__all__ = ["add_quota_option", "amounts_of", "changed_quotas", "said_of"]

_AMOUNTS: Final = ("nominal", "borrow", "lend", "hard")
_NAMED: Final = 20
"""How many quotas an error names at most."""


def add_quota_option(parser: argparse._ActionsContainer) -> None:
    """Add the option."""
    parser.add_argument(
        "--quota",
        nargs=3,
        action="append",
        default=[],
        metavar=("NAME", "FIELD", "AMOUNT"),
        help="print what would happen if a quota had another nominal, borrow, lend or hard, as"
        " RESOURCE=AMOUNT,..., or another weight; may be repeated",
    )


def amounts_of(option: str, text: str) -> dict[str, str | int]:
    """Read amounts such as ``cpu=4,memory=8Gi``.

    Raises:
        InvalidValueError: The text is malformed, or names a resource twice.
    """
    amounts: dict[str, str | int] = {}
    for part in text.split(","):
        name, equals, amount = part.partition("=")
        if not (equals and name.strip()) or name.strip() in amounts:
            raise InvalidValueError(option, text, "NAME=AMOUNT, separated by commas")
        amounts[name.strip()] = amount.strip()
    return amounts


def changed_quotas(
    stated: Iterable[Quota], given: Sequence[Sequence[str]]
) -> tuple[Quota, ...] | None:
    """Return all quotas with the changes of the option; None without any.

    Resources that are not named keep their amounts.

    Raises:
        BadInputError: There is no such quota, or a value is malformed.
    """
    by_name = {quota.name: quota for quota in stated}
    for name, what, text in given:
        if name not in by_name:
            known = ", ".join([*by_name][:_NAMED]) + ", ..." * (len(by_name) > _NAMED)
            raise BadInputError(f"--quota: no quota {name!r}; known: {known or 'none'}")
        by_name[name] = _changed(by_name[name], what, text)
    return tuple(by_name.values()) if given else None


def said_of(given: Sequence[str]) -> tuple[str, str]:
    """Return the object and the message of a change, as the log has them."""
    name, what, text = given
    return f"quota/{name}", f"{what}: {text}"


def _changed(quota: Quota, what: str, text: str) -> Quota:
    option = f"--quota {quota.name} {what}"
    if what not in (*_AMOUNTS, "weight"):
        expected = f"{', '.join(_AMOUNTS)} or weight"
        raise BadInputError(f"--quota {quota.name}: expected {expected}, got {what!r}")
    changes: dict[str, Any] = {}
    try:
        if what == "weight":
            changes[what] = _weight(text)
        else:
            more = amounts_of(what, text)
            amounts = {**(getattr(quota, what) or NOTHING), **Resources(more)}
            changes[what] = with_zeros(Resources.from_milli(amounts), {**amounts, **more})
        return evolve(quota, **changes)
    except InvalidValueError as error:
        raise BadInputError(f"{option}: expected {error.expected}, got {error.value!r}") from error


def _weight(text: str) -> float | str:
    """Return a number; what is none is refused by the quota."""
    try:
        return float(text)
    except ValueError:
        return text
