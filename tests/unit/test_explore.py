"""``support.explore``: which tests draw, which file is next, and what is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import presets
from gangsched.testing import adapt, check_scheduler
from support.explore import File, Notes, Search, draws, summary


class Rounds:
    """A clock, and rounds of two files: each of one takes ten times as long, and fails."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ran: list[tuple[str, int]] = []

    def run(self, seed: int, path: str) -> Notes:
        """Take time, and return the notes of a round with one test."""
        self.ran.append((path, seed))
        self.now += 10.0 if path == "slow.py" else 1.0
        test = f"{path}::test_it"
        failed = [{"failed": test, "why": "assert False"}] if path == "slow.py" else []
        return [{"begun": test}, {"examples": 50}, *failed, {"ended": test}]


def test_slow_file_that_fails_delays_no_other_one() -> None:
    rounds = Rounds()
    files = [File("slow.py"), File("fast.py")]
    Search(files, seed=7, end=30.0, run=rounds.run, clock=lambda: rounds.now).go_on()
    assert rounds.ran == [
        ("slow.py", 7),
        *[("fast.py", 7 + number) for number in range(10)],
        ("slow.py", 8),
    ]


def test_first_failure_of_a_test_is_told_with_the_command_that_repeats_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rounds = Rounds()
    files = [File("slow.py"), File("fast.py")]
    Search(files, seed=7, end=30.0, run=rounds.run, clock=lambda: rounds.now).go_on()
    told = capsys.readouterr().out
    assert told.count("FAILED") == 1
    assert "HYPOTHESIS_PROFILE=explore" in told
    assert "--hypothesis-seed=7 'slow.py::test_it'" in told
    assert [line.split() for line in summary(files, seed=7)][1:] == [
        ["10", "10", "500", "10", "0", "fast.py"],
        ["2", "2", "100", "20", "2", "slow.py"],
        [
            "seed",
            "7:",
            "12",
            "rounds,",
            "12",
            "tests,",
            "600",
            "examples,",
            "2",
            "failures",
            "of",
            "1",
            "tests",
        ],
        ["2", "x", "slow.py::test_it"],
    ]


def test_tests_that_draw_are_those_of_hypothesis_and_those_that_call_the_kit() -> None:
    @given(st.integers())
    def of_hypothesis(number: int) -> None: ...

    def calls_the_kit() -> None:
        check_scheduler(adapt(presets.gang))

    def draws_nothing() -> None:
        adapt(presets.gang)

    assert [draws(test) for test in (of_hypothesis, calls_the_kit, draws_nothing, None)] == [
        *(True, True, False, False),
    ]
