"""What the page about the demonstrations shows was printed by them: the logs are beside."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from support.on_a_cluster import DEMONSTRATIONS as RUNNABLE
from support.root import ROOT

pytestmark = pytest.mark.once("reads files")

CAPTURED: Final = ROOT / "examples" / "on-a-cluster" / "captured"
PAGE: Final = (ROOT / "docs" / "how-to" / "demonstrate-on-kubernetes.md").read_text("utf-8")
BLOCKS: Final = [found[1] for found in re.finditer(r"```text\n(.*?)```", PAGE, re.DOTALL)]
OF_BLOCKS: Final = ("tfjob", "stock", "extender")
ROWS: Final = re.findall(r"^\| `(\w+)` \|.*\| (\d+) \| ([\d.]+) \|$", PAGE, re.MULTILINE)
DEMONSTRATIONS: Final = {
    *("tfjob", "pytorchjob", "mpijob", "job", "volcano", "extender"),
    *("stock", "stock-pytorchjob", "stock-mpijob", "stock-job", "stock-volcano"),
}
_LEFT_OUT: Final = re.compile(r"|\s+(NOMINATED NODE\s+READINESS GATES|<none>\s+<none>)")


def log(name: str) -> list[str]:
    return (CAPTURED / f"{name}.txt").read_text(encoding="utf-8").splitlines()


def missing(shown: list[str], printed: list[str]) -> list[str]:
    """Return the lines that were not printed in this order; two columns may be left out."""
    lines, lacking = iter(printed), list[str]()
    for line in filter(None, shown):
        if not any(_is_of(line, each) for each in lines):
            lacking.append(line)
            lines = iter(printed)
    return lacking


def _is_of(shown: str, printed: str) -> bool:
    begins = printed.startswith(shown)
    return begins and _LEFT_OUT.fullmatch(printed.removeprefix(shown)) is not None


def test_every_demonstration_has_a_log_and_no_other_has_one() -> None:
    assert {file.stem for file in CAPTURED.iterdir()} == DEMONSTRATIONS


@pytest.mark.parametrize(("name", "block"), [*zip(OF_BLOCKS, BLOCKS, strict=True)])
def test_block_of_the_page_was_printed(name: str, block: str) -> None:
    assert missing(block.splitlines(), log(name)) == []


def test_whole_log_of_the_first_demonstration_is_shown() -> None:
    shown = [line for line in BLOCKS[0].splitlines() if line]
    assert len(shown) == len([line for line in log("tfjob") if line])


def test_table_has_the_figures_of_the_runs() -> None:
    assert [name for name, _pods, _seconds in ROWS] == [
        *("tfjob", "pytorchjob", "mpijob", "job", "volcano")
    ]
    for name, pods, seconds in ROWS:
        said = f"all {pods} run, {seconds} s after the nodes were added"
        assert any(line.endswith(said) for line in log(name)), name


def test_figure_of_the_text_is_that_of_the_run() -> None:
    found = re.search(r"all five run ([\d.]+) s later", PAGE)
    assert found is not None
    assert f"all 5 run, {found[1]} s after" in "\n".join(log("tfjob"))


@pytest.mark.parametrize("name", sorted(each for each in DEMONSTRATIONS if "stock" in each))
def test_stock_scheduler_has_started_a_part_of_each_job(name: str) -> None:
    text = "\n".join(log(name))
    assert text.count(" Pending ") == 2
    assert " Running " in text


def test_line_that_was_not_printed_is_found() -> None:
    printed = ["a  b   <none>           <none>", "c"]
    assert missing(["a  b", "c"], printed) == []
    assert missing(["c", "a  b"], printed) == ["a  b"]
    assert missing(["a"], printed) == ["a"]


def test_logs_name_no_folder_of_the_machine() -> None:
    for file in CAPTURED.iterdir():
        assert str(Path.home()) not in file.read_text(encoding="utf-8")
        assert "/tmp" not in file.read_text(encoding="utf-8")


def test_readme_names_each_demonstration() -> None:
    readme = (CAPTURED.parent / "README.md").read_text(encoding="utf-8")
    assert [name for name in RUNNABLE if f"`{name}`" not in readme] == []
