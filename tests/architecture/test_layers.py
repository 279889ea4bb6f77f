"""Imports point down, never sideways; what is pure stays pure."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gangsched
from support.documents import ROOT
from support.layers import FACADE, HOUSE, IMPURE, Violation, sources, violations

PACKAGE = Path(gangsched.__file__).parent
MODULES = sources(PACKAGE)
SHELLS = ("simulation", "drivers", "kubernetes", "cli", "strategies", "testing")
FORBIDDEN = ("hypothesis", "asyncio", "yaml", "rich", "kubernetes", "logging")


def with_line(module: str, line: str) -> dict[str, str]:
    """Return all sources, with one more line at the end of one of them."""
    return {**MODULES, module: f"{MODULES.get(module, '')}\n{line}\n"}


def test_every_import_points_down() -> None:
    assert violations(MODULES) == ()


def test_every_module_is_read() -> None:
    """The test above would pass on nothing."""
    assert {"gangsched", "gangsched.primitives.heap._py", "gangsched.core"} < MODULES.keys()
    assert len(MODULES) == len(list(PACKAGE.rglob("*.py")))


def test_every_state_and_place_is_reached() -> None:
    """A package of the table without modules was forgotten when its modules moved."""
    still_to_come = {"kubernetes"}
    for room in (room for rooms in HOUSE for room in rooms):
        names = [name.rstrip(".*") for floor in room.floors for name in floor]
        tenants = [m for m in MODULES if room.floor(m[len("gangsched.") :]) is not None]
        assert tenants or still_to_come.intersection(names), names


def test_page_on_the_architecture_names_every_layer() -> None:
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    layers, _, _ = page.partition("## Layers")[2].partition("A plugin is any object")
    named = set(re.findall(r"`(\w+)`", layers))
    floors = [floor for rooms in HOUSE for room in rooms for floor in room.floors]
    there = {name.partition(".")[0] for floor in floors for name in floor}
    assert there - {FACADE} - named == set()


def test_core_is_reached_by_one_module() -> None:
    """All else knows the four calls and the views, which ``gangsched.scheduler`` exports."""
    importers = {
        module
        for module, source in MODULES.items()
        if not module.startswith("gangsched.core")
        and re.search(r"^ *(from|import) gangsched\.core\b", source, re.MULTILINE)
    }
    assert importers == {"gangsched.scheduler"}


PLANTED: list[tuple[str, str, str, str]] = [
    ("upwards", "gangsched.errors", "from gangsched.model import Pod", "gangsched.model, upwards"),
    (
        "upwards-by-way-of-the-facade",
        "gangsched.model",
        "from gangsched import Scheduler",
        "gangsched, upwards",
    ),
    (
        "upwards-within-the-core",
        "gangsched.primitives.heap",
        "from gangsched.primitives.registry import PodGroupRegistry",
        "gangsched.primitives.registry, upwards",
    ),
    (
        "upwards-between-packages-of-the-core",
        "gangsched.core.records",
        "from gangsched.core import settle",
        "gangsched.core.settle, upwards",
    ),
    (
        "upwards-from-the-core",
        "gangsched.core.records",
        "from gangsched.presets import gang",
        "gangsched.presets, upwards",
    ),
    (
        "presets-know-no-shell",
        "gangsched.presets",
        "import gangsched.simulation",
        "gangsched.simulation, upwards",
    ),
    (
        "sideways-between-rooms",
        "gangsched.coscheduling",
        "from gangsched.core.records import Records",
        "gangsched.core.records, sideways",
    ),
    (
        "sideways-between-plugins",
        "gangsched.plugins.taints",
        "from gangsched.plugins.qos_sort import QOSSort",
        "gangsched.plugins.qos_sort, sideways",
    ),
    (
        "sideways-between-shells",
        "gangsched.drivers.aio",
        "from gangsched.simulation import Simulator",
        "gangsched.simulation, sideways",
    ),
    (
        "nobody-knows-the-edge",
        "gangsched.cli",
        "def f():\n    import gangsched.testing",
        "gangsched.testing, upwards",
    ),
    ("a-clock-in-the-core", "gangsched.core.queue", "import time", "time, and is pure"),
    (
        "a-clock-by-name",
        "gangsched.primitives.waiting",
        "from time import monotonic",
        "time, and is pure",
    ),
    (
        "hidden-in-a-function",
        "gangsched.core.cycle",
        "def f():\n    import logging",
        "logging, and is pure",
    ),
    (
        "hidden-in-a-method",
        "gangsched.memory",
        "class C:\n    async def f(self):\n        from gangsched.cli import main",
        "gangsched.cli, upwards",
    ),
    (
        "under-type-checking",
        "gangsched.model",
        "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from gangsched.events import Bind",
        "gangsched.events, upwards",
    ),
    (
        "by-a-call",
        "gangsched.outcomes",
        "clock = __import__('time')",
        "importlib, and is pure",
    ),
    ("the-environment", "gangsched.primitives.ordering", "import os.path", "os, and is pure"),
    (
        "a-library-of-another-room",
        "gangsched.coscheduling",
        "from sortedcontainers import SortedList",
        "sortedcontainers, which forking, primitives, core, simulation own",
    ),
    (
        "hypothesis-in-the-library",
        "gangsched.presets",
        "import hypothesis",
        "hypothesis, which _hypothesis, strategies, testing own",
    ),
    ("a-library-of-nobody", "gangsched.cli", "import requests", "requests, which nobody owns"),
    (
        "yaml-at-the-top",
        "gangsched.simulation.workload",
        "import yaml",
        "yaml outside of a function",
    ),
    (
        "rich-in-a-branch",
        "gangsched.cli",
        "if True:\n    from rich.table import Table",
        "rich outside of a function",
    ),
]


@pytest.mark.parametrize(
    ("module", "line", "problem"), [pytest.param(*case[1:], id=case[0]) for case in PLANTED]
)
def test_import_that_breaks_a_rule_is_reported(module: str, line: str, problem: str) -> None:
    (found,) = violations(with_line(module, line))
    assert (found.module, found.problem) == (module, f"imports {problem}")
    assert found.line > MODULES[module].count("\n")


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("gangsched.primitives.counters", "from gangsched.primitives import registry"),
        ("gangsched.core.records.gang", "from gangsched.core import records"),
    ],
)
def test_import_circle_within_one_package_is_reported(module: str, line: str) -> None:
    found = violations(with_line(module, line))
    assert module in {each.module for each in found}
    assert {each.problem for each in found} == {"imports itself by way of others"}


@pytest.mark.parametrize("name", sorted(IMPURE))
def test_no_pure_module_knows_of_clocks_threads_or_chance(name: str) -> None:
    for module in (
        "gangsched.resources",
        "gangsched.primitives.counters",
        "gangsched.core.nodes.node_table",
    ):
        assert len(violations(with_line(module, f"import {name}"))) == 1
    assert violations(with_line("gangsched.drivers.blocking", f"import {name}")) == ()


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("gangsched.primitives.heap", "import os"),
        ("gangsched.primitives.heap", "from gangsched.primitives.heap._c import PriorityHeap"),
        ("gangsched.cli", "def f():\n    import yaml"),
        ("gangsched.kubernetes.watch", "import kubernetes.client"),
        ("gangsched.testing", "import hypothesis"),
        ("gangsched.plugins", "from gangsched.plugins import taints"),
        ("gangsched.simulation.workload", "from sortedcontainers import SortedList"),
    ],
)
def test_what_is_allowed_is_not_reported(module: str, line: str) -> None:
    assert violations(with_line(module, line)) == ()


def test_module_without_a_layer_is_reported() -> None:
    lost = Violation("gangsched.helpers", 0, "has no layer")
    assert violations({**MODULES, "gangsched.helpers": ""}) == (lost,)


def test_import_of_a_module_without_a_layer_is_reported() -> None:
    (found,) = violations(with_line("gangsched.cli", "import gangsched.helpers"))
    assert found.problem == "imports gangsched.helpers, which has no layer"


def test_relative_import_is_reported() -> None:
    (found,) = violations(with_line("gangsched.presets", "from . import model"))
    assert found.problem == "imports by a relative name"


def test_circle_within_a_shell_is_reported() -> None:
    planted = with_line("gangsched.simulation.workload", "from gangsched.simulation import traces")
    found = {violation.module for violation in violations(planted)}
    assert {"gangsched.simulation.workload", "gangsched.simulation.traces"} <= found


@pytest.mark.parametrize(
    "line",
    [
        *("x = 1", "def f(): ...", "if True:\n    pass", "print()"),
        "if TYPE_CHECKING:\n    x = 1",
        "if TYPE_CHECKING:\n    from gangsched.model import Pod\nelse:\n    x = 1",
    ],
)
def test_facade_with_logic_is_reported(line: str) -> None:
    (found,) = violations(with_line("gangsched", line))
    assert (found.module, found.problem) == ("gangsched", "does more than import")


def loaded_by(statement: str) -> set[str]:
    """Return the modules that a statement loads in a fresh interpreter."""
    code = (
        f"import sys; sys.path[:0] = [{str(PACKAGE.parent)!r}]; before = set(sys.modules)\n"
        f"{statement}\n"
        "import json; print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_importing_the_library_loads_no_shell_and_nothing_of_theirs() -> None:
    loaded = loaded_by("from gangsched import *")
    assert "gangsched.core.scheduler" in loaded
    assert not loaded.intersection(FORBIDDEN)
    assert not loaded.intersection(f"gangsched.{shell}" for shell in SHELLS)


def test_facade_loads_what_it_is_asked_for() -> None:
    assert {"gangsched", "gangsched._facade", "gangsched._version"} == {
        name for name in loaded_by("import gangsched") if name.startswith("gangsched")
    }
    loaded = loaded_by("import gangsched; gangsched.PriorityHeap")
    assert "gangsched.primitives.heap._py" in loaded
    assert "gangsched.model" not in loaded
    assert not loaded.intersection(f"gangsched.{shell}" for shell in SHELLS)


def test_fresh_interpreter_detects_an_import() -> None:
    assert "logging" in loaded_by("import gangsched, logging")


def test_importing_the_simulation_loads_neither_yaml_nor_rich() -> None:
    assert not loaded_by("import gangsched.simulation").intersection(("yaml", "rich", "asyncio"))
