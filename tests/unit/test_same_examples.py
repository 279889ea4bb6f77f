"""The README's test command gives the same answer each time: nothing in it is left to chance.

What the tests of a control plane draw, ports and tokens, decides none of them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from support.root import ROOT

NO_TESTS: Final = tuple(
    ROOT / "tests" / path for path in ("support/explore.py", "conftest.py", "kit/planted_bugs.py")
)
"""Those that draw when they are told to; the last one by seeds that a test names."""
MODULES: Final = ("random", "secrets", "uuid")
HINT: Final = re.compile(r"random|secrets|uuid|\.example\(\)|database=")


@pytest.mark.parametrize("profile", ["fast", "ci"])
def test_profiles_of_each_day_draw_the_same_examples_each_time(profile: str) -> None:
    loaded = settings.get_profile(profile)
    assert loaded.derandomize
    assert loaded.database is None
    assert loaded.deadline is None


@pytest.mark.parametrize("profile", ["explore", "deep"])
def test_profiles_that_search_draw_other_examples_each_time(profile: str) -> None:
    assert not settings.get_profile(profile).derandomize


def test_constants_of_loaded_modules_are_not_drawn() -> None:
    """Which modules are loaded depends on the tests that ran before in the same process."""
    found = providers.HypothesisProvider(None)._local_constants
    assert not any((found.integers, found.floats, found.bytes, found.strings))


def calls_by_chance(source: str) -> Iterator[str]:
    """Yield the calls of a module whose results differ from run to run."""
    if HINT.search(source) is None:
        return
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name, named = ast.unparse(node.func), {each.arg for each in node.keywords}
        module, _dot, function = name.rpartition(".")
        is_imported = re.search(rf"^import {re.escape(module)}$", source, re.MULTILINE)
        if (
            (function == "Random" and module in ("", "random") and not node.args)
            or (module in MODULES and function != "Random" and is_imported)
            or name in ("os.urandom", "SystemRandom")
            or (function == "example" and module and not node.args and not named)
            or (function == "settings" and named & {"derandomize", "database"})
        ):
            yield f"{node.lineno}: {ast.unparse(node)}"


def test_no_test_has_another_source_of_chance() -> None:
    files = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "docs").rglob("*.py")]
    found = [
        f"{path.relative_to(ROOT)}:{call}"
        for path in files
        if path not in NO_TESTS and "control_plane" not in path.parts
        for call in calls_by_chance(path.read_text(encoding="utf-8"))
    ]
    assert not found


@pytest.mark.parametrize(
    "line",
    [
        "random.random()",
        "random.shuffle([1, 2])",
        "random.Random()",
        "Random()",
        "uuid.uuid4()",
        "secrets.token_hex(16)",
        "st.integers().example()",
        "settings(derandomize=False)",
    ],
)
def test_source_of_chance_is_found(line: str) -> None:
    modules = "import random\nimport secrets\nimport uuid\n"
    assert [*calls_by_chance(modules + line)] == [f"4: {line}"]
    assert not [*calls_by_chance(modules + "random.Random(7)\n" + "draw.random()\n")]
