"""What the report of a run says about jobs that were preempted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from support.documents import run_command

pytest.importorskip("rich")

_HEADER: Final = "job,submit_s,workers,gpus_per_worker,duration_s,priority\n"
_ONE: Final = _HEADER + "a,0,1,1,100,0\nb,90,1,1,100,10\n"
_GANG: Final = _HEADER + "a,0,2,1,100,0\nb,90,2,1,100,10\n"
_CONFIG: Final = "profiles: [{pluginConfig: [{name: DefaultPreemption, args: {graceSeconds: 60}}]}]"


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.csv").write_text(_ONE)
    Path("gang.csv").write_text(_GANG)
    Path("c.yaml").write_text(_CONFIG)


def _run(trace: str, *words: str) -> str:
    nodes = "1x1" if trace == "one.csv" else "2x1"
    code, text = run_command("simulate", "--trace", trace, "--nodes", nodes, *words)
    assert code == 0
    return text


def _report(trace: str, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_run(trace, "--output", "json", *words))
    return found


@pytest.mark.parametrize("trace", ["one.csv", "gang.csv"])
@pytest.mark.parametrize("detail", ["all", "summary"])
def test_slowdown_of_a_preempted_job_is_per_time_of_its_complete_run(
    trace: str, detail: str
) -> None:
    report = _report(trace, "--preempt", "--detail", detail)
    preempted, preemptor = report["jobs"]
    assert (preempted["started_at"], preempted["last_started_at"]) == (0.0, 190.0)
    assert (preemptor["started_at"], preemptor["last_started_at"]) == (90.0, 90.0)
    kind = "singles" if trace == "one.csv" else "gangs"
    assert report["summary"][kind]["slowdown"]["max"] == pytest.approx(2.9)
    assert report["summary"][kind]["slowdown"]["median"] == 1.0


def test_run_of_a_job_goes_on_while_one_of_its_pods_runs() -> None:
    Path("gang.csv").write_text(_HEADER + "a,0,2,1,100,0\nb,90,1,1,100,10\n")
    report = _report("gang.csv", "--preempt", "--policy", "pod_by_pod")
    (job, _other) = report["jobs"]
    assert report["summary"]["preempted"] == 1
    assert job["last_started_at"] == job["started_at"] == 0.0


@pytest.mark.parametrize(
    ("trace", "lost", "pods"), [("one.csv", 90, "1 pod"), ("gang.csv", 180, "2 pods")]
)
def test_work_of_preempted_pods_is_reported_as_lost(trace: str, lost: int, pods: str) -> None:
    assert _report(trace, "--preempt")["summary"]["lost"] == {"nvidia.com/gpu": lost}
    lines = _run(trace, "--preempt", "--detail", "summary").splitlines()
    rows = dict(line.split(maxsplit=1) for line in lines if line.startswith(("lost", "preempted")))
    assert rows == {"preempted": pods, "lost": f"{lost} GPU-seconds of pods that did not finish"}


def test_run_without_preemption_reports_neither_evictions_nor_lost_work() -> None:
    assert _report("one.csv")["summary"]["lost"] == {}
    text = _run("one.csv", "--detail", "summary")
    assert "preempted" not in text
    assert "lost" not in text


@pytest.mark.parametrize("words", [("--config", "c.yaml"), ("--policy", "gangsched.presets:gang")])
def test_preemption_is_not_stated_for_a_scheduler_that_says_it_itself(
    words: tuple[str, str],
) -> None:
    assert "preempt=" not in _run("one.csv", "--detail", "summary", *words)
    assert _report("one.csv", *words)["settings"]["preempt"] is None
    assert _report("one.csv")["settings"]["preempt"] is False
    assert _report("one.csv", "--preempt")["settings"]["preempt"] is True


def test_one_decision_and_one_column_are_singular() -> None:
    Path("one.csv").write_text(
        "job,submit_s,workers,gpus_per_worker,duration_s,color\na,0,1,1,9,red\n"
    )
    text = _run("one.csv", "--detail", "summary")
    assert "in 1 decision\n" in text
    assert "the column color was not taken over" in text
