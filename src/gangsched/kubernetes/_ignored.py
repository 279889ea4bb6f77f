"""The constraints that a configuration ignores: fields that are modelled are not among them.

Rules:
  R1  a field that is honoured, or that restricts no node, is refused: to ignore it would have no
      effect, and one would think that it has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gangsched.errors import InvalidValueError
from gangsched.objects.pod_fields import POD_FIELDS, Treatment

__all__ = ["check_ignored_constraints"]

_WHY: Final = {
    Treatment.HONOURED: "this field is honoured, and cannot be ignored",
    Treatment.FREE: "this field restricts no node",
}


def check_ignored_constraints(paths: Iterable[str]) -> None:
    """Check that each of the paths may be one of a constraint that is not modelled.

    Args:
        paths: ``Settings.ignored``.

    Raises:
        InvalidValueError: A path is that of a field that is modelled.
    """
    for path in paths:
        treatment = POD_FIELDS.get(path.removeprefix("spec."), Treatment.HELD)
        if treatment in _WHY:
            expected = f"a constraint that is not modelled: {_WHY[treatment]}"
            raise InvalidValueError("ignoredConstraints", path, expected)
