"""The kit finds twelve wrong schedulers with few steps, and accepts the correct ones.

The tests fail if a change makes test cases shrink less. The sizes are upper bounds.
"""

from __future__ import annotations

import re

import pytest

from gangsched.testing import (
    AddNode,
    LawViolation,
    Settle,
    SubmitPods,
    check_scheduler,
    check_steps,
)
from kit.feature_scheduler import WRONG_FEATURES, FeatureScheduler
from kit.simple_scheduler import SimpleScheduler
from kit.violations import ALL, NO_WAITING, correct_version_of, spec_of, violation_of
from kit.wrong_schedulers import WRONG

LONGEST = 12

# the number of steps, pods and nodes, and the total capacity of the nodes
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
    "AnyMembers": (3, 2, 1, 2),
    "HalfCopies": (4, 3, 1, 3),
    "AnyChildren": (4, 1, 1, 1),
    "AnyOfInner": (6, 2, 1, 2),
    "HalfChildren": (5, 3, 1, 2),
    "NoParentNeeded": (3, 1, 1, 1),
    "NeverMore": (5, 1, 1, 1),
    "SurplusFirst": (5, 3, 1, 2),
}

SLACK = 5
"""Which of several small test cases is found depends on where the search began."""


def test_correct_scheduler_without_gangsched_passes() -> None:
    check_scheduler(SimpleScheduler)


def test_correct_scheduler_with_all_features_passes() -> None:
    check_scheduler(FeatureScheduler, spec=NO_WAITING)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_wrong_scheduler_is_found_with_few_steps(wrong: type[SimpleScheduler]) -> None:
    found = violation_of(wrong.__name__)

    assert found.law == WRONG[wrong]
    assert len(found.steps) <= LONGEST


@pytest.mark.parametrize("wrong", WRONG_FEATURES, ids=lambda wrong: wrong.__name__)
def test_scheduler_with_one_wrong_feature_is_found(wrong: type[FeatureScheduler]) -> None:
    law, said = WRONG_FEATURES[wrong]
    found = violation_of(wrong.__name__)

    assert found.law == law
    assert re.search(said, found.message)


@pytest.mark.parametrize("wrong", ALL)
def test_shrunk_steps_reproduce_the_violation_and_pass_when_fixed(wrong: str) -> None:
    found = violation_of(wrong)
    spec = spec_of(wrong)

    with pytest.raises(LawViolation) as again:
        check_steps(ALL[wrong], *found.steps, spec=spec)
    assert (again.value.law, again.value.message) == (found.law, found.message)
    check_steps(correct_version_of(wrong), *found.steps, Settle(), spec=spec)


@pytest.mark.parametrize("wrong", ALL)
def test_shrunk_steps_are_close_to_the_smallest_known(wrong: str) -> None:
    steps = violation_of(wrong).steps
    arrived = [pod for step in steps if isinstance(step, SubmitPods) for pod in step.pods]
    offered = [step.capacity for step in steps if isinstance(step, AddNode)]
    units = sum(sum(capacity.values()) for capacity in offered)
    size = (len(steps), len(arrived), len(offered), units)
    assert len(steps) <= LONGEST
    assert sum(size) <= sum(LEAST[wrong]) + SLACK, size


@pytest.mark.parametrize("wrong", ALL)
def test_message_of_a_violation_is_short(wrong: str) -> None:
    text = str(violation_of(wrong)).partition("to reproduce:")[0].splitlines()
    assert text[0].startswith("law ")
    assert len(text) <= 22
    assert max(map(len, text)) <= 130


def test_shrunk_steps_name_no_unused_feature() -> None:
    steps = str(violation_of("DoubleCount")).partition("steps:")[2]
    for word in ("zone", "dedicated", "ps", "priority", "named", "bundle"):
        assert not re.search(rf"\b{word}\b", steps)


def test_test_schedulers_share_no_code_with_gangsched() -> None:
    toys: list[type[object]] = [SimpleScheduler, FeatureScheduler, *ALL.values()]
    for toy in toys:
        names = {value.__module__.partition(".")[0] for value in toy.__mro__}
        assert names <= {"kit", "builtins"}
