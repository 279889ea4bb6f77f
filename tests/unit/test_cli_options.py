"""The options of the command: of a policy, misspelled ones, and those that are given once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from gangsched.cli import _parser as parser_of_the_command
from gangsched.cli._kubectl import main as kubectl
from gangsched.cli._parser import Parser
from support.documents import printed_by, refuses

COLUMNS = "job,submit_s,workers,gpus_per_worker,duration_s"
WORKLOAD = ("--trace", "a.csv", "--nodes", "1x1")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("a.csv").write_text(f"{COLUMNS}\na,0,1,1,1\n")


TWICE = "expected one value, but it is given twice"
NO_MEANING = "has no meaning with --policy"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        # options that a policy lacks
        ("simulate --permit-timeout 5", f"--permit-timeout {NO_MEANING} gang"),
        ("simulate --policy gang --when-blocked at_once", f"--when-blocked {NO_MEANING} gang"),
        ("explain g --policy coscheduling --placement pack", f"{NO_MEANING} coscheduling"),
        ("simulate --policy coscheduling --backfill", f"--backfill {NO_MEANING} coscheduling"),
        ("simulate --policy pod_by_pod --order creation", f"--order {NO_MEANING} pod_by_pod"),
        ("simulate --policy pod_by_pod --levels rack", f"--levels {NO_MEANING} pod_by_pod"),
        # levels
        ("simulate --levels block,,rack", "expected labels such as block,rack, got 'block,,rack'"),
        ("simulate --levels block,rack --levels rack", "each label once, not rack twice"),
        ("compare WORKLOAD --policy gang,levels=a:a", "--levels must be each label once"),
        # topologies of a trace
        ("simulate WORKLOAD --topology rack --prefer rack", "--prefer must be a finer level than"),
        ("simulate WORKLOAD --topology=", "--topology must be the label of a node, got ''"),
        ("simulate WORKLOAD --prefer=", "--prefer must be the label of a node, got ''"),
        ("simulate x.yaml --prefer rack", "--prefer have no meaning without --trace"),
        # misspelled words
        ("simulat", "did you mean simulate?"),
        ("simulate --polcy gang", "did you mean --policy?"),
        ("simulate --policy gagn", "did you mean gang?"),
        ("simulate --policy gagn", "MODULE:FUNCTION"),
        ("simulate --order creatoin", "did you mean creation?"),
        ("simulate --policy \x1b[2J", r"\x1b[2J"),
        ("simulate WORKLOAD --policy gang,backfill=2", "--policy gang --backfill=2"),
        ("simulate WORKLOAD --policy gang:backfill", "are given as --policy gang --backfill"),
        ("compare WORKLOAD --policy gang:backfill", "in compare, gang,backfill"),
        ("compare WORKLOAD --policy gang,backfil", "--backfil; did you mean --backfill?"),
        # one value
        (
            "simulate WORKLOAD --trace=b.csv",
            f"gangsched simulate: argument --trace: {TWICE}",
        ),
        ("compare WORKLOAD --trace=b.csv", f"gangsched compare: argument --trace: {TWICE}"),
        ("simulate WORKLOAD --node 2x1", f"--nodes: {TWICE}"),
        ("compare WORKLOAD --policy gang,backfill,backfill=2", "--backfill: expected one value"),
    ],
)
def test_refused_option_is_named_with_what_is_expected(line: str, said: str) -> None:
    assert said in refuses(*line.replace("WORKLOAD", " ".join(WORKLOAD)).split())


def test_unknown_word_without_a_near_one_has_no_suggestion() -> None:
    assert "did you mean" not in refuses("xyzzy")


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and those of its commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            known = cast("dict[str, argparse.ArgumentParser]", vars(action)["choices"])
            for each in known.values():
                yield from commands(each)


def test_no_option_stores_the_last_of_several_values() -> None:
    for parser in commands(parser_of_the_command()):
        for action in parser._actions:
            assert not isinstance(action, argparse._StoreAction), (parser.prog, action)


def test_plugin_of_kubectl_refuses_a_second_value(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        kubectl(["get", "-n", "a", "--namespace", "b"])
    assert TWICE in capsys.readouterr().err


def test_parser_may_be_used_again() -> None:
    parser = Parser()
    parser.add_argument_group("group").add_argument("--name")
    for _time in range(2):
        assert parser.parse_args(["--name", "x"]).name == "x"


def test_module_with_the_name_of_a_policy_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gang", raising=False)
    Path("gang.py").write_text("from gangsched import presets\nmake = presets.gang\n")
    text = printed_by("simulate", *WORKLOAD, "--policy", "gang:make")
    assert "1 submitted, 1 started whole" in text
    monkeypatch.delitem(sys.modules, "gang")
