"""An option with one value is given once, in every command; one that takes several keeps all."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from gangsched.cli import _parser as parser_of_the_command
from gangsched.cli import main
from gangsched.cli._kubectl import main as kubectl
from gangsched.cli._parser import Parser

COLUMNS = "job,submit_s,workers,gpus_per_worker,duration_s"


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and those of its commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            known = cast("dict[str, argparse.ArgumentParser]", vars(action)["choices"])
            for each in known.values():
                yield from commands(each)


def single_options() -> list[Any]:
    """Return each option of each command that keeps one value."""
    return [
        pytest.param(parser, action, id=f"{parser.prog} {action.option_strings[0]}")
        for parser in commands(parser_of_the_command())
        for action in parser._actions
        if action.option_strings and type(action).__name__ == "_StoreOnce"
    ]


def value(action: argparse.Action) -> str:
    """Return a value that an option takes."""
    if action.choices is not None:
        return str(next(iter(action.choices)))
    return "1"


@pytest.mark.parametrize(("parser", "action"), single_options())
def test_option_with_one_value_is_refused_a_second_time(
    parser: Parser, action: argparse.Action, capsys: pytest.CaptureFixture[str]
) -> None:
    option = action.option_strings[-1]
    with pytest.raises(SystemExit) as left:
        parser.parse_args([option, value(action), option, value(action)])
    error = capsys.readouterr().err
    assert (left.value.code, error.count("\n")) == (2, 1)
    assert f"argument {'/'.join(action.option_strings)}: expected one value" in error


def test_no_option_stores_the_last_of_several_values() -> None:
    for parser in commands(parser_of_the_command()):
        for action in parser._actions:
            assert not isinstance(action, argparse._StoreAction), (parser.prog, action)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text(f"{COLUMNS}\n{name},0,1,1,1\n")
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as left:
        main(words)
    captured = capsys.readouterr()
    assert (left.value.code, captured.out, captured.err.count("\n")) == (2, "", 1)
    return captured.err


def test_second_trace_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("simulate", "compare"):
        words = (command, "--trace", "a.csv", "--nodes", "1x1", "--trace=b.csv")
        assert refused(capsys, *words).startswith(
            f"gangsched {command}: argument --trace: expected one value, but it is given twice"
        )


def test_option_is_refused_twice_under_an_abbreviation(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("simulate", "--trace", "a.csv", "--nodes", "1x1", "--node", "2x1")
    assert "--nodes: expected one value, but it is given twice" in refused(capsys, *words)


def test_option_of_a_policy_is_refused_twice_in_its_word(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("compare", "--trace", "a.csv", "--nodes", "1x1", "--policy")
    assert "--backfill: expected one value" in refused(capsys, *words, "gang,backfill,backfill=2")


def test_options_that_take_several_values_keep_all(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("compare", "--trace", "a.csv", "--nodes", "1x1", "--policy", "gang")
    assert main((*words, "--policy", "pod_by_pod")) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["gang", "pod_by_pod"]


def test_parser_may_be_used_again() -> None:
    parser = Parser()
    parser.add_argument_group("group").add_argument("--name")
    for _time in range(2):
        assert parser.parse_args(["--name", "x"]).name == "x"


def test_plugin_of_kubectl_refuses_a_second_value(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        kubectl(["get", "-n", "a", "--namespace", "b"])
    assert "expected one value, but it is given twice" in capsys.readouterr().err


def test_policy_with_a_colon_for_a_comma_says_how_options_are_given(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--trace", "a.csv", "--nodes", "1x1", "--policy", "gang:backfill")
    for command in ("simulate", "compare"):
        assert main((command, *words)) == 2
        error = capsys.readouterr().err
        assert "options of a policy are given as --policy gang --backfill" in error
        assert "in compare, gang,backfill" in error


def test_module_with_the_name_of_a_policy_is_found(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "gang", raising=False)
    (folder / "gang.py").write_text("from gangsched import presets\nmake = presets.gang\n")
    words = ("simulate", "--trace", "a.csv", "--nodes", "1x1", "--policy", "gang:make")
    assert main(words) == 0
    assert "1 submitted, 1 started whole" in capsys.readouterr().out
    monkeypatch.delitem(sys.modules, "gang")
