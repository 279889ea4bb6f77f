"""What the kit says of the wrong schedulers, each looked for once for all tests of a process."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import pytest
from hypothesis import settings

from gangsched.testing import LawViolation, Terms, check_scheduler
from kit.able import UNABLE, Able
from kit.toy import Toy
from kit.wrong import WRONG

__all__ = ["ALL", "NEVER_HOLDS", "right_one_of", "terms_of", "told_of"]

ALL: Final[dict[str, type[Any]]] = {
    **{wrong.__name__: wrong for wrong in WRONG},
    **{wrong.__name__: wrong for wrong in UNABLE},
}
NEVER_HOLDS: Final = Terms(hold_timeout=0.0)
_CI: Final = settings.get_profile("ci")
_LONG: Final = settings(_CI, max_examples=1_000)  # a story is about one feature of four, if any


def terms_of(name: str) -> Terms:
    """Return what a wrong scheduler promises."""
    return NEVER_HOLDS if ALL[name] in UNABLE else Terms()


def right_one_of(name: str) -> type[Any]:
    """Return the correct scheduler that it was made of."""
    return Able if ALL[name] in UNABLE else Toy


@cache
def told_of(name: str) -> LawViolation:
    """Return what the kit has to say of a wrong scheduler."""
    wrong = ALL[name]
    with pytest.raises(LawViolation) as found:
        check_scheduler(wrong, settings=_LONG if wrong in UNABLE else _CI, terms=terms_of(name))
    return found.value
