"""``gangsched compare`` says which jobs have not started and why, and what preempted jobs lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.documents import run_command

pytest.importorskip("rich")

COLUMNS = "job,submit_s,workers,gpus_per_worker,duration_s,priority"
SHORT = f"{COLUMNS}\na,0,4,1,100,0\nd,20,9,1,30,0\n"
PREEMPTED = f"{COLUMNS}\na,0,4,1,100,0\nb,30,4,1,100,10\n"
MANY = COLUMNS + "".join(f"\nx{n},0,9,1,30,0" for n in range(7)) + "\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def compared(trace: str, *words: str, nodes: str = "1x4") -> str:
    Path("t.csv").write_text(trace)
    code, text = run_command("compare", "--trace", "t.csv", "--nodes", nodes, *words)
    assert code == 0
    return text


def row(text: str, title: str) -> list[str]:
    (found,) = (line for line in text.splitlines() if line.strip().startswith(f"{title}  "))
    return [cell.strip() for cell in found.strip().split("   ") if cell.strip()][1:]


def test_job_that_never_started_is_named_with_its_reason_for_each_policy() -> None:
    text = compared(SHORT, "--policy", "gang", "--policy", "pod_by_pod")
    _table, reasons = text.split("\n\n")
    header, *lines = reasons.splitlines()
    assert header.split() == ["POLICY", "NOT", "STARTED", "WHY"]
    assert [line.split()[:2] for line in lines] == [
        ["gang", "default/d"],
        ["pod_by_pod", "default/d"],
    ]
    assert "does not fit" in lines[0]
    assert row(text, "never fit") == ["1", "0"]  # pod by pod, a part of it has started


def test_table_ends_the_text_when_every_job_started() -> None:
    text = compared(PREEMPTED, "--policy", "gang")
    assert "\n\n" not in text
    assert "NOT STARTED" not in text
    assert "never fit" not in text
    assert "lost" not in text


def test_work_of_preempted_jobs_is_a_row_of_each_resource() -> None:
    text = compared(PREEMPTED, "--policy", "gang", "--policy", "gang,preempt")
    assert row(text, "pods preempted") == ["0", "4"]
    assert row(text, "nvidia.com/gpu lost") == ["nothing", "120 GPU-seconds"]


def test_further_jobs_that_did_not_start_are_counted() -> None:
    text = compared(MANY, "--policy", "gang")
    assert text.count(" default/x") == 5 + 5  # and each reason names a pod
    assert "and 2 more" in text


def test_json_has_every_job_that_did_not_start() -> None:
    found = json.loads(compared(MANY, "--policy", "gang", "--output", "json"))
    (run,) = found["runs"]
    assert [each["job"] for each in run["pending"]] == [f"default/x{n}" for n in range(7)]
