"""What a report says of its run: inputs, settings, titles; its jobs and its timeline as data."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from gangsched import __version__
from gangsched.cli import main
from gangsched.cli._options import title_of
from support.documents import printed_by

pytest.importorskip("rich")

TRACE = """job,submit_s,workers,gpus_per_worker,duration_s,cpu_per_worker,time_limit_s,tenant
a,0,4,1,100,500m,,red
b,10,8,1,60,1,200,red
c,20,1,1,30,,,"bl""ue, 1"
d,20,9,1,30,,,red
"""
NODES = "node,cpu,gpus,count\nn,8,4,2\n"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, resources: {requests: {cpu: 250m, memory: 1Ki}}}]}
"""
UNKNOWN = "is of an unknown kind and was skipped"
WORKLOAD = ("--trace", "t.csv.gz", "--nodes", "n.csv")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("t.csv.gz").write_bytes(gzip.compress(TRACE.encode()))
    Path("n.csv").write_text(NODES)
    Path("pod.yaml").write_text(POD)
    Path("c.yaml").write_text("profiles: [{schedulerName: gangsched}]\n")
    return tmp_path


def data(*words: str, command: str = "simulate") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(printed_by(command, *words, "--output", "json"))
    return found


def rows(*words: str, command: str = "simulate") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(printed_by(command, *words, "--output", "csv"))))


def sha256(name: str) -> str:
    return hashlib.sha256(Path(name).read_bytes()).hexdigest()


# Inputs, settings, titles -----------------------------------------------------------------------


def test_report_names_its_inputs_with_their_hashes_and_the_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(POD))
    found = data(*WORKLOAD, "--at", "60", "-", "--config", "c.yaml")
    assert found["version"] == __version__
    assert [tuple(each.values()) for each in found["inputs"]] == [
        ("trace", "t.csv.gz", None, sha256("t.csv.gz")),
        ("manifest", "-", 60.0, sha256("pod.yaml")),
        ("nodes", "n.csv", None, sha256("n.csv")),
        ("config", "c.yaml", None, sha256("c.yaml")),
    ]
    words = ("--trace", "t.csv.gz", "--nodes", "2x4", "--policy", "gang", "--config", "c.yaml")
    compared = data(*words, command="compare")
    assert compared["version"] == __version__
    assert [each["use"] for each in compared["inputs"]] == ["trace", "nodes", "config"]
    assert compared["inputs"][1] == {"use": "nodes", "name": "2x4", "at": None, "sha256": None}


@pytest.mark.parametrize(
    ("words", "estimates", "title"),
    [
        ("", None, "gang"),
        ("--order last_failure --placement auto", None, "gang"),
        ("--backfill", "run_time", "gang,backfill"),
        ("--backfill 1.5 --preempt", "run_time", "gang,preempt,backfill=1.5"),
        ("--backfill --estimates run_time", "run_time", "gang,backfill"),
        ("--backfill --estimates time_limit", "time_limit", "gang,backfill,estimates=time_limit"),
        ("--order creation --placement pack", None, "gang,order=creation,placement=pack"),
        ("--policy sjf --preempt", "run_time", "sjf,preempt"),
        ("--policy fifo --placement spread", None, "fifo,placement=spread"),
        ("--policy pod_by_pod --preempt", None, "pod_by_pod,preempt"),
        (
            "--policy coscheduling --permit-timeout 30 --when-blocked at_once",
            *(None, "coscheduling,when_blocked=at_once,permit_timeout=30"),
        ),
        ("--policy gangsched.presets:gang", None, "gangsched.presets:gang"),
        ("--config c.yaml", None, "c.yaml"),
    ],
)
def test_settings_have_the_estimates_and_give_a_title_that_compare_runs(
    words: str, estimates: str | None, title: str
) -> None:
    settings = data(*WORKLOAD, *words.split())["settings"]
    assert settings["estimates"] == estimates
    assert title_of(settings) == title
    given = ("--config" if settings["config"] else "--policy", title)
    assert data(*WORKLOAD, *given, command="compare")["runs"][0]["settings"] == settings


def test_picture_has_the_whole_policy_in_its_title() -> None:
    pytest.importorskip("matplotlib")
    printed_by("simulate", *WORKLOAD, "--backfill", "--preempt", "--picture", "run.html")
    assert "<h1>gangsched: gang,preempt,backfill</h1>" in Path("run.html").read_text()


# Jobs and timeline ------------------------------------------------------------------------------


def test_jobs_have_their_requests_run_times_and_limits() -> None:
    jobs = data(*WORKLOAD, "pod.yaml")["jobs"]
    found = {
        job["key"]: [job[n] for n in ("requests", "run_seconds", "time_limit")] for job in jobs
    }
    assert found == {
        "red/a": [{"cpu": 2.0, "nvidia.com/gpu": 4.0}, 100.0, None],
        "red/b": [{"cpu": 8.0, "nvidia.com/gpu": 8.0}, 60.0, 200.0],
        'bl"ue, 1/c': [{"nvidia.com/gpu": 1.0}, 30.0, None],
        "red/d": [{"nvidia.com/gpu": 9.0}, 30.0, None],
        "default/p": [{"cpu": 0.25, "memory": 1024.0}, None, None],
    }


def test_csv_has_a_row_for_each_job_with_the_fields_of_the_json() -> None:
    jobs, found = data(*WORKLOAD)["jobs"], rows(*WORKLOAD)
    assert [row["key"] for row in found] == [job["key"] for job in jobs]
    _a, b, c, d = found
    assert (c["namespace"], c["is_gang"], c["requests.cpu"]) == ('bl"ue, 1', "false", "")
    assert (b["nodes"], b["pods_per_node"], b["requests.cpu"]) == ("n-000|n-001", "4|4", "8.0")
    assert (b["wait"], b["completion_time"], b["slowdown"]) == ("90.0", "150.0", "2.5")
    assert (d["started_at"], d["wait"], d["nodes"]) == ("", "", "")
    plain = {name: value for name, value in b.items() if not name.startswith("requests.")}
    for name, value in plain.items():
        if name in jobs[1] and isinstance(jobs[1][name], int | float):
            assert json.loads(value) == jobs[1][name]
    Path("none.csv").write_text(TRACE.splitlines()[0])
    assert printed_by("simulate", "--trace", "none.csv", "--nodes", "1x1", "--output", "csv") == (
        f"{','.join(plain).replace(',run_seconds', ',requests,run_seconds')}\n"
    )


def test_csv_of_a_comparison_has_a_row_for_each_policy() -> None:
    words = ("--policy", "gang", "--policy", "gang,backfill=2,preempt")
    found = rows(*WORKLOAD, *words, command="compare")
    runs = data(*WORKLOAD, *words, command="compare")["runs"]
    assert [row["policy"] for row in found] == ["gang", "gang,backfill=2,preempt"]
    for row, run in zip(found, runs, strict=True):
        assert float(row["jobs.waiting.mean"]) == run["summary"]["jobs"]["waiting"]["mean"]
        assert row["never_fit"] == "red/d"
        assert row["deadlock"] == ""


def test_skipped_input_is_named_beside_an_output_without_a_place_for_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("x.yaml").write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}")
    as_csv, skipped = (
        ("--output", "csv"),
        f"skipped: x.yaml: document 1: ConfigMap x (v1) {UNKNOWN}\n",
    )
    for words in (
        ("simulate", *WORKLOAD, "x.yaml", *as_csv),
        ("compare", *WORKLOAD, "x.yaml", *as_csv),
        ("explain", "red/a", "x.yaml", *WORKLOAD),
        ("explain", "red/a", *WORKLOAD, "--apply", "x.yaml"),
    ):
        assert main(words) == 0
        out, err = capsys.readouterr()
        assert "skipped" not in out
        assert skipped in err


def test_all_jobs_are_counted_together_where_there_are_gangs_and_single_pods() -> None:
    summary = data(*WORKLOAD)["summary"]
    assert [summary[kind]["submitted"] for kind in ("gangs", "singles", "jobs")] == [3, 1, 4]
    waits = summary["jobs"]["waiting"]
    assert waits == {"count": 3, "mean": 30.0, "median": 0.0, "p95": 90.0, "p99": 90.0, "max": 90.0}
    assert "\nall jobs              4 submitted" in printed_by("simulate", *WORKLOAD)
    assert "\nall jobs started " in printed_by("compare", *WORKLOAD)
    Path("one.csv").write_text("\n".join(TRACE.splitlines()[:3]))
    for command in ("simulate", "compare"):
        assert "all jobs" not in printed_by(command, "--trace", "one.csv", "--nodes", "n.csv")


def test_timeline_has_what_was_used_and_how_many_jobs_waited() -> None:
    offered = {"cpu": 16.0, "nvidia.com/gpu": 8.0}
    found = data(*WORKLOAD, "--policy", "pod_by_pod", "--until", "70")["timeline"]
    assert [(each["at"], each["waiting"]) for each in found] == [(0.0, 0), (10.0, 1), (20.0, 3)]
    assert [each["capacity"] for each in found] == [offered] * 3
    running = {"cpu": 2.0, "nvidia.com/gpu": 4.0}
    assert [each["used"] for each in found] == [running] * 3
    assert [each["wasted"].get("nvidia.com/gpu") for each in found] == [None, 4.0, 4.0]
    assert data(*WORKLOAD)["timeline"][-1]["used"] == {}
