"""The figures of the benchmark on Kubernetes: parts that are measured apart are put together."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PATH = Path(__file__).resolve().parents[2] / "benchmarks" / "kubernetes_table.py"
BOTH = ("in-tree", "gangsched")


@pytest.fixture
def figures() -> ModuleType:
    if not PATH.exists():
        pytest.skip("the benchmarks are not part of an installed distribution")
    spec = importlib.util.spec_from_file_location("kubernetes_table", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def round_of(pods_per_s: float) -> dict[str, Any]:
    each = {"cpu_ms": 1.0, "spread_ms": 0.0, "partial": 0, "resident_mb": 1.0, "events": 1}
    return {
        "in-tree": {"pods_per_s": 100.0, **each},
        "gangsched": {"pods_per_s": pods_per_s, **each},
    }


def test_parts_that_were_measured_apart_are_in_one_table(
    figures: ModuleType, tmp_path: Path
) -> None:
    file = tmp_path / "figures.json"
    for section, shape in (("even", "plain"), ("even", "2x500"), ("uneven", "plain")):
        document = figures.read(file)
        figures.described(document, section)
        found = document["measured"].setdefault(section, {})
        figures.begin(found, shape, BOTH, resume=False)
        figures.add_round(found, shape, round_of(250.0))
        figures.write(file, document)
    table = figures.table(figures.read(file))
    even, _title, uneven = table.partition("Nodes that differ")
    assert [line[:9] for line in even.splitlines() if "2.5/2.5/2.5" in line] == [
        "| 2x500 |",
        "| plain |",
    ]
    assert "| plain | 100/100/100 | 250/250/250 | 2.5/2.5/2.5 | - | - |" in uneven


def test_binds_of_the_bare_client_are_compared_with_those_of_the_same_round(
    figures: ModuleType,
) -> None:
    document = figures.read(None)
    figures.described(document, "even")
    found: dict[str, Any] = {}
    document["measured"]["even"] = found
    for bare in (300.0, 500.0):
        figures.add_round(found, "2x500", {**round_of(250.0), "bare": {"pods_per_s": bare}})
    table = figures.table(document)
    assert "| 2.5/2.5/2.5 | 300/400/500 | 3.0/4.0/5.0 |" in table


def test_processor_time_until_leadership_is_in_the_table(figures: ModuleType) -> None:
    document = figures.read(None)
    figures.described(document, "start-up")
    document["measured"]["start-up"] = {
        "in-tree": [0.3],
        "gangsched": [1.5],
        "cpu_s": {"in-tree": [0.1], "gangsched": [0.9]},
    }
    table = figures.table(document)
    assert "| start-up to leader, s | 0.300/0.300/0.300 | 1.500/1.500/1.500 |" in table
    assert "| processor time until then, s | 0.10/0.10/0.10 | 0.90/0.90/0.90 |" in table
