"""The violations that the kit finds in the wrong schedulers, searched for once a process."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import pytest
from hypothesis import settings

from gangsched.testing import LawViolation, SchedulerSpec, check_scheduler
from kit.feature_scheduler import WRONG_FEATURES, FeatureScheduler
from kit.simple_scheduler import SimpleScheduler
from kit.wrong_schedulers import WRONG
from support.examples import FINDS

__all__ = ["ALL", "NO_WAITING", "correct_version_of", "spec_of", "violation_of"]

ALL: Final[dict[str, type[Any]]] = {
    **{wrong.__name__: wrong for wrong in WRONG},
    **{wrong.__name__: wrong for wrong in WRONG_FEATURES},
}
NO_WAITING: Final = SchedulerSpec(permit_timeout=0.0)
# more, because few test cases use the feature that is wrong, or mix the members of two gangs
_MANY_CASES: Final = settings(FINDS, max_examples=1_000)


def spec_of(name: str) -> SchedulerSpec:
    """Return the spec of a wrong scheduler."""
    return NO_WAITING if ALL[name] in WRONG_FEATURES else SchedulerSpec()


def correct_version_of(name: str) -> type[Any]:
    """Return the correct scheduler that a wrong one is derived from."""
    return FeatureScheduler if ALL[name] in WRONG_FEATURES else SimpleScheduler


@cache
def violation_of(name: str) -> LawViolation:
    """Return the violation that the kit finds in a wrong scheduler."""
    wrong = ALL[name]
    with pytest.raises(LawViolation) as found:
        check_scheduler(wrong, settings=_MANY_CASES, spec=spec_of(name))
    return found.value
