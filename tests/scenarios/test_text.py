"""The scenarios of ``tests/testdata``: each file is the transcript of its own run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from support.text_scenarios import ScenarioError, difference, rewritten

FOLDER: Final = Path(__file__).parents[1] / "testdata"
REWRITES: Final = os.environ.get("GANGSCHED_REWRITE", "0") not in ("", "0")


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.txt")))
def test_text_scenario_is_answered_as_it_says(name: str) -> None:
    path = FOLDER / name
    text = path.read_text(encoding="utf-8")
    try:
        answered = rewritten(text, f"tests/testdata/{name}")
    except ScenarioError as error:
        pytest.fail(str(error), pytrace=False)
    if REWRITES:
        path.write_text(answered, encoding="utf-8")
    elif answered != text:
        pytest.fail(difference(text, answered, f"tests/testdata/{name}"), pytrace=False)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("node a\n----\n", "x:1: the first line must be a comment that says what is shown"),
        ("# x\nfoo a\n----\n", "x:2: foo a: 'foo a': no such command, see tests/README.md"),
        ("# x\n\nnode a pcu=4\n----\n", "x:3: node a pcu=4: 'pcu=4': expected one of cpu=… gpu="),
        ("# x\nnode a cordoned=1\n----\n", "x:2: node a cordoned=1: 'cordoned=1': expected one"),
        ("# x\ngang g 2 gpu=two\n----\n", "x:2: gang g 2 gpu=two: 'gpu=two': invalid literal"),
        ("# x\npreset gnag\n----\n", "x:2: preset gnag: 'gnag': expected gang or coscheduling"),
        ("# x\npreset gang order=any\n----\n", "x:2: preset gang order=any: 'order=any': "),
        (
            "# x\ndecide\n----\n\npreset gang\n----\n",
            "x:5: preset gang: 'preset gang': expected pre",
        ),
        ("# x\ngang g\n----\n", "x:2: gang g: 'gang g': expected gang G SIZE"),
        ("# x\ndelete p\n----\n", "x:2: delete p: 'p': there is no such pod"),
        ("# x\nbound p\n----\n", "x:2: bound p: 'p': its bind is not under way"),
        ("# x\nadvance soon\n----\n", "x:2: advance soon: could not convert"),
        ("# x\nadvance -1\n----\n", "x:2: advance -1: '-1': expected a number of seconds >= 0"),
        ("# x\nwhy g\n----\n", "x:2: why g: "),
        ("# x\ngroup g min=0\n----\n", "x:2: group g min=0: default/g: min_available"),
        ('# x\nwhy "g\n----\n', 'x:2: why "g: No closing quotation'),
        ("# x\ndecide\n", "x:2: 'decide': no line ---- follows"),
    ],
)
def test_malformed_text_is_refused_with_file_line_and_word(text: str, error: str) -> None:
    with pytest.raises(ScenarioError) as found:
        rewritten(text, "x")
    assert str(found.value).startswith(error)


def test_difference_says_where_it_begins_and_can_be_pasted() -> None:
    text = "# x\nnode a cpu=1\ngang g 1\ndecide\n----\nbind g-0 b\n"
    shown = difference(text, rewritten(text, "x"), "x").splitlines()
    assert shown[0] == "x:6: another answer than expected"
    assert "-bind g-0 b" in shown
    assert "+bind g-0 a" in shown
