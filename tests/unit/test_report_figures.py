"""Figures of the report as text: faults, memory over time and small shares."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gangsched.simulation.render import area_text, share_text
from support.documents import run_command

pytest.importorskip("rich")


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0.0%"),
        (0.799, "79.9%"),
        (1.0, "100.0%"),
        (0.0123, "1.2%"),
        (0.00234, "0.23%"),
        (0.0000257, "0.0026%"),
        (0.00996, "1.0%"),
        (1e-9, "0.00000010%"),
    ],
)
def test_small_share_has_two_significant_digits(share: float, text: str) -> None:
    assert share_text(share) == text


def test_memory_over_time_is_in_gi_hours() -> None:
    assert area_text("memory", 3600.0 * 2**30 * 5.842) == "5.84 Gi-hours of memory"
    assert area_text("memory", 3600.0 * 2**30 * 0.00123) == "0.0012 Gi-hours of memory"
    assert area_text("nvidia.com/gpu", 840.0) == "840 GPU-seconds"


def test_faults_are_counted_by_kind_in_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("job,submit_s,workers,gpus_per_worker,duration_s\nx,0,1,4,9\n")
    words = ("simulate", "--trace", "t.csv", "--nodes", "1x4", "--fault-seed", "3")
    code, text = run_command(*words, "--detail", "summary")
    assert code == 0
    (line,) = [line for line in text.splitlines() if line.startswith("policy=")]
    assert "{" not in line
    _code, data = run_command(*words, "--output", "json")
    plan = json.loads(data)["settings"]["faults"]["faults"]
    assert f"faults={len(plan)} (" in line
    for kind in {each["kind"] for each in plan}:
        assert f"{sum(each['kind'] == kind for each in plan)} {kind}" in line
