"""The kit finds eight wrong schedulers, tells why in a few steps, and passes the right one."""

from __future__ import annotations

import pytest
from hypothesis import settings

from gangsched.testing import LawViolation, Rest, check_scheduler, check_story
from kit.toy import Toy
from kit.wrong import WRONG

LONGEST = 12
_CI = settings.get_profile("ci")


_told: dict[str, LawViolation] = {}


def told_of(wrong: type[Toy]) -> LawViolation:
    """Return what the kit has to say of a scheduler."""
    if wrong.__name__ not in _told:
        _told[wrong.__name__] = _find(wrong)
    return _told[wrong.__name__]


def _find(wrong: type[Toy]) -> LawViolation:
    with pytest.raises(LawViolation) as found:
        check_scheduler(wrong, settings=_CI)
    return found.value


def test_a_correct_scheduler_that_knows_nothing_of_ours_passes() -> None:
    check_scheduler(Toy)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_a_wrong_scheduler_is_found_and_its_story_is_short(wrong: type[Toy]) -> None:
    found = told_of(wrong)

    assert found.law == WRONG[wrong]
    assert len(found.steps) <= LONGEST


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_the_story_that_is_told_breaks_the_law_again_and_no_right_scheduler(
    wrong: type[Toy],
) -> None:
    told = told_of(wrong)

    with pytest.raises(LawViolation) as again:
        check_story(wrong, *told.steps)
    assert (again.value.law, again.value.sentence) == (told.law, told.sentence)
    check_story(Toy, *told.steps, Rest())


def test_the_toys_share_no_code_with_the_library() -> None:
    for toy in (Toy, *WRONG):
        names = {value.__module__.partition(".")[0] for value in toy.__mro__}
        assert names <= {"kit", "builtins"}
