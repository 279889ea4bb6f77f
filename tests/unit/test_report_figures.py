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


TENANTS = "job,submit_s,workers,gpus_per_worker,duration_s,tenant\n"


def test_report_has_the_figures_of_each_tenant(tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text(f"{TENANTS}a,0,1,4,100,red\nb,0,2,4,9,blue\nc,10,1,4,50,red\nd,9,9,4,5,blue\n")
    words = ("simulate", "--trace", str(trace), "--nodes", "2x4", "--detail", "summary")
    _code, text = run_command(*words)
    rows = [line.split(maxsplit=2) for line in text.splitlines() if line.startswith("tenant ")]
    assert [(row[1], row[2]) for row in rows] == [
        (
            "blue",
            "2 submitted, waited: median 100s, p95 100s, max 100s, of the 1 that started;"
            " 1 did not",
        ),
        (
            "red",
            "2 submitted, waited: median 0s, p95 0s, max 0s, of the 2 that started; none did not",
        ),
    ]
    _code, data = run_command(*words, "--output", "json")
    report = json.loads(data)
    tenants = report["summary"]["tenants"]
    assert {name: (each["submitted"], each["never_fit"]) for name, each in tenants.items()} == {
        "blue": (2, 1),
        "red": (2, 0),
    }
    assert {job["key"]: job["namespace"] for job in report["jobs"]} == {
        "red/a": "red",
        "blue/b": "blue",
        "red/c": "red",
        "blue/d": "blue",
    }


def test_tables_leave_out_the_rows_of_one_tenant_and_of_many(tmp_path: Path) -> None:
    one, many = tmp_path / "one.csv", tmp_path / "many.csv"
    one.write_text(f"{TENANTS}a,0,1,4,100,red\n")
    many.write_text(TENANTS + "".join(f"a,0,1,1,100,team-{n}\n" for n in range(9)))
    _code, text = run_command("simulate", "--trace", str(one), "--nodes", "9x4")
    assert "tenant" not in text
    words = ("--trace", str(many), "--nodes", "9x4")
    _code, text = run_command("simulate", *words, "--detail", "summary")
    assert "9; --output json has the figures of each" in text
    _code, text = run_command("compare", *words)
    assert "tenant" not in text


def test_comparison_has_the_waits_of_each_tenant(tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text(f"{TENANTS}a,0,1,4,100,red\nb,10,1,4,9,blue\n")
    words = ("--trace", str(trace), "--nodes", "1x4", "--policy", "gang", "--policy", "pod_by_pod")
    _code, text = run_command("compare", *words)
    rows = [line.split() for line in text.splitlines() if line.startswith("  tenant ")]
    assert rows == [
        ["tenant", "blue", "waited,", "median", "90s", "90s"],
        ["tenant", "blue", "waited,", "p95", "90s", "90s"],
        ["tenant", "red", "waited,", "median", "0s", "0s"],
        ["tenant", "red", "waited,", "p95", "0s", "0s"],
    ]
