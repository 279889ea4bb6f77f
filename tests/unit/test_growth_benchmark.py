"""The benchmark of growth runs: each row prints its figures and its exponent."""

from __future__ import annotations

import gc
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

PATH = Path(__file__).resolve().parents[2] / "benchmarks" / "growth.py"


@pytest.fixture(scope="module")
def growth() -> Iterator[ModuleType]:
    if not PATH.exists():
        pytest.skip("the benchmarks are not part of an installed distribution")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PATH.parent))  # its rows are modules beside it
        gc.collect()
        gc.freeze()  # each row collects, and other tests have left much
        yield _loaded()


def _loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("growth", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_growth_benchmark_prints_every_row(
    growth: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "ROWS", {name: (row, 1) for name, (row, _) in growth.ROWS.items()})
    growth.main(["--sizes", "8", "16", "--rounds", "1"])
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 1 + len(growth.ROWS)
    for name, line in zip(growth.ROWS, printed[1:], strict=True):
        assert line.startswith(name)
        assert "used up" not in line
        figures = line.removeprefix(name).replace("*", " ").split()
        assert all(part.replace(".", "").lstrip("-/").isdigit() or part == "/" for part in figures)


def test_row_that_uses_up_its_budget_says_so(
    growth: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["--sizes", "4", "80000", "--seconds", "0.1"]
    growth.main([*sizes, "--only", "groups of one", "--rounds", "1"])
    line = capsys.readouterr().out.splitlines()[1]
    assert " - " in line
    assert "used up" in line


def test_exponent_is_that_of_the_power_that_fits(growth: ModuleType) -> None:
    assert growth.exponent({10: 100.0, 20: 400.0, 40: 1600.0}) == pytest.approx(2.0)
    assert growth.exponent({10: 5.0, 20: 10.0}) == pytest.approx(1.0)
