"""The kit finds twelve wrong schedulers, tells why in a few steps, and passes the right ones.

A change that makes stories shrink less turns this red. The sizes are of what is told; less is
always welcome.
"""

from __future__ import annotations

import re

import pytest

from gangsched.testing import AddNode, Arrive, LawViolation, Rest, check_scheduler, check_story
from kit.able import UNABLE, Able
from kit.found import ALL, NEVER_HOLDS, right_one_of, terms_of, told_of
from kit.toy import Toy
from kit.wrong import WRONG

LONGEST = 12

# how many steps, pods and nodes, and how many units the nodes offer together
LEAST: dict[str, tuple[int, int, int, int]] = {
    "Interleaving": (3, 4, 1, 2),
    "RunningOnly": (3, 3, 1, 3),
    "DoubleCount": (3, 2, 1, 1),
    "SiblingsNotReleased": (3, 3, 1, 2),
    "LostWakeUp": (5, 4, 1, 2),
    "ActivationStorm": (3, 5, 1, 5),
    "ByName": (6, 4, 2, 3),
    "GivesBackTwice": (5, 2, 1, 1),
    "AnyRole": (3, 1, 1, 1),
    "AnyZone": (4, 2, 2, 2),
    "EachAlone": (3, 1, 1, 1),
    "Intruder": (3, 1, 1, 1),
}

SLACK = 5
"""Which of several small stories is told depends on where the search began."""


def test_a_correct_scheduler_that_knows_nothing_of_ours_passes() -> None:
    check_scheduler(Toy)


def test_a_scheduler_that_knows_of_all_of_it_passes() -> None:
    check_scheduler(Able, terms=NEVER_HOLDS)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_a_wrong_scheduler_is_found_and_its_story_is_short(wrong: type[Toy]) -> None:
    found = told_of(wrong.__name__)

    assert found.law == WRONG[wrong]
    assert len(found.steps) <= LONGEST


@pytest.mark.parametrize("wrong", UNABLE, ids=lambda wrong: wrong.__name__)
def test_a_scheduler_that_gets_one_feature_wrong_is_found(wrong: type[Able]) -> None:
    law, said = UNABLE[wrong]
    found = told_of(wrong.__name__)

    assert found.law == law
    assert re.search(said, found.sentence)


@pytest.mark.parametrize("wrong", ALL)
def test_the_story_that_is_told_breaks_the_law_again_and_no_right_scheduler(wrong: str) -> None:
    told = told_of(wrong)
    terms = terms_of(wrong)

    with pytest.raises(LawViolation) as again:
        check_story(ALL[wrong], *told.steps, terms=terms)
    assert (again.value.law, again.value.sentence) == (told.law, told.sentence)
    check_story(right_one_of(wrong), *told.steps, Rest(), terms=terms)


@pytest.mark.parametrize("wrong", ALL)
def test_the_story_of_a_wrong_scheduler_is_no_longer_than_it_has_to_be(wrong: str) -> None:
    steps = told_of(wrong).steps
    arrived = [pod for step in steps if isinstance(step, Arrive) for pod in step.pods]
    offered = [step.capacity for step in steps if isinstance(step, AddNode)]
    units = sum(sum(capacity.values()) for capacity in offered)
    size = (len(steps), len(arrived), len(offered), units)
    assert len(steps) <= LONGEST
    assert sum(size) <= sum(LEAST[wrong]) + SLACK, size


@pytest.mark.parametrize("wrong", ALL)
def test_the_story_of_a_wrong_scheduler_can_be_read_at_a_glance(wrong: str) -> None:
    text = str(told_of(wrong)).partition("to see it again:")[0].splitlines()
    assert text[0].startswith("law ")
    assert len(text) <= 22
    assert max(map(len, text)) <= 130


def test_a_story_says_nothing_of_what_it_is_not_about() -> None:
    told = str(told_of("DoubleCount"))
    for word in ("zone", "kept", "ps", "priority", "named", "together with"):
        assert word not in told.partition("the story:")[2]


def test_the_toys_share_no_code_with_the_library() -> None:
    toys: list[type[object]] = [Toy, Able, *ALL.values()]
    for toy in toys:
        names = {value.__module__.partition(".")[0] for value in toy.__mro__}
        assert names <= {"kit", "builtins"}
