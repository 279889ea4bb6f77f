"""The options of the command: durations, options that a policy lacks, and misspelled words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched._seconds import format_span, parse_duration
from gangsched.cli import main


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("90s", 90.0),
        ("1h30m", 5400.0),
        ("11d", 950400.0),
        ("1d2h3m4s5ms", 93784.005),
        ("250ms", 0.25),
        ("1.5h", 5400.0),
        ("0", 0.0),
        ("-1", -1.0),
    ],
)
def test_duration_is_a_number_or_has_units(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "h", "soon", "30m1h", "1h1h", "1 h", "1h 30m", "inf", "nan", "1e400", "-1h", "1H"]
)
def test_text_that_is_no_duration_gives_none(text: str) -> None:
    assert parse_duration(text) is None


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run the command; return its one line of error, however it ends."""
    code: str | int | None
    try:
        code = main(words)
    except SystemExit as ended:
        code = ended.code
    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.mark.parametrize(
    ("policy", "option"),
    [
        ("gang", ("--permit-timeout", "5")),
        ("gang", ("--when-blocked", "at_once")),
        ("coscheduling", ("--placement", "pack")),
        ("coscheduling", ("--backfill",)),
        ("pod_by_pod", ("--order", "creation")),
    ],
)
@pytest.mark.parametrize("command", [("simulate",), ("explain", "g")])
def test_option_without_meaning_for_the_policy_is_refused(
    command: tuple[str, ...],
    policy: str,
    option: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    if command[0] == "explain" and policy == "pod_by_pod":
        pytest.skip("explain needs a policy with groups")
    error = refused(capsys, *command, "--policy", policy, *option)
    assert f"{option[0]} has no meaning with --policy {policy}" in error


def test_policy_is_gang_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert "with --policy gang" in refused(capsys, "simulate", "--permit-timeout", "1h")


@pytest.mark.parametrize(
    ("words", "suggested"),
    [
        (("simulat",), "simulate"),
        (("simulate", "--polcy", "gang"), "--policy"),
        (("simulate", "--policy", "gagn"), "gang"),
        (("simulate", "--order", "creatoin"), "creation"),
    ],
)
def test_misspelled_word_is_refused_with_a_suggestion(
    words: tuple[str, ...], suggested: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"did you mean {suggested}?" in refused(capsys, *words)


def test_unknown_word_without_a_near_one_has_no_suggestion(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "did you mean" not in refused(capsys, "xyzzy")


def test_control_characters_of_a_bad_word_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\x1b" not in refused(capsys, "simulate", "--policy", "\x1b[2J")


def test_command_runs_as_a_module(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "gangsched", "--version"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    assert ended.stdout.startswith("gangsched ")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"),
        (0.25, "0.25s"),
        (90.0, "90s"),
        (119.9996, "2m"),
        (120.0, "2m"),
        (5400.0, "1h30m"),
        (950400.0, "11d"),
        (93784.005, "1d2h3m4.005s"),
        (86399.9999, "1d"),
        (-5400.0, "-1h30m"),
        (1795370000.25, "1795370000.25s"),
    ],
)
def test_span_has_units(seconds: float, text: str) -> None:
    assert format_span(seconds) == text


@given(st.floats(min_value=0, max_value=1e12, allow_nan=False))
def test_span_is_read_back(seconds: float) -> None:
    found = parse_duration(format_span(seconds))
    assert found is not None
    assert found == pytest.approx(seconds, rel=1e-12, abs=0.0005 if seconds >= 119 else 5e-7)
