"""The classic demonstration, through the command line itself.

One server and four workers with 2 GPUs each, on 2 nodes with 2 GPUs each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from support.documents import printed_by

EXAMPLES = Path(str(resources.files("gangsched.simulation"))) / "examples"
CLUSTER = str(EXAMPLES / "cluster.yaml")
JOB = str(EXAMPLES / "tf-smoke-gpu.yaml")
SCALE_UP = str(EXAMPLES / "scale-up.yaml")

Report = dict[str, Any]


def simulate(*arguments: str) -> Report:
    report: Report = json.loads(printed_by("simulate", *arguments, "--output", "json"))
    return report


def statuses(report: Report, at: float) -> list[str]:
    (table,) = [taken for taken in report["snapshots"] if taken["at"] == at]
    return [pod["status"] for pod in table["pods"]]


def test_job_that_cannot_run_holds_every_gpu_without_gangs() -> None:
    report = simulate(CLUSTER, JOB, "--policy", "pod_by_pod")
    names = [pod["name"] for pod in report["snapshots"][0]["pods"]]
    assert names == ["tf-smoke-gpu-ps-0", *(f"tf-smoke-gpu-worker-{n}" for n in range(4))]
    expected = ["Running", "Running", "Running", "Pending", "Pending"]
    assert [statuses(report, at) for at in (0.0, 60.0)] == [expected, expected]
    summary = report["summary"]
    assert summary["gangs"]["partial"] == 1
    assert summary["wasted"] == {"cpu": 60.0, "nvidia.com/gpu": 240.0}
    assert summary["deadlock"]["held"] == {"cpu": "1", "nvidia.com/gpu": "4"}
    assert summary["deadlock"]["jobs"] == ["default/tf-smoke-gpu"]


def test_text_report_has_the_wasted_gpu_seconds() -> None:
    text = printed_by("simulate", CLUSTER, JOB, "--policy", "pod_by_pod")
    assert "240 GPU-seconds held by jobs whose work had not begun" in text
    assert "nvidia.com/gpu=4 held by 1 that cannot run: default/tf-smoke-gpu" in text
    assert "0/2 nodes are available: 2 Insufficient nvidia.com/gpu." in text


def test_gangs_hold_nothing_beyond_the_permit_timeout() -> None:
    report = simulate(CLUSTER, JOB, "--policy", "coscheduling", "--until", "1h")
    assert [statuses(report, at) for at in (0.0, 3600.0)] == [["Pending"] * 5] * 2
    # 2 workers with 2 GPUs held for the 10 s of one permit timeout, and never again
    assert report["summary"]["wasted"] == {"cpu": 10.0, "nvidia.com/gpu": 40.0}
    assert report["summary"]["deadlock"] is None
    waits = [e for e in report["events"] if e["reason"] == "WaitingOnPermit"]
    assert {e["at"] for e in waits} == {0.0}


def test_gangs_start_with_all_members_when_capacity_is_added() -> None:
    report = simulate(CLUSTER, JOB, "--at", "60", SCALE_UP)
    assert statuses(report, 0.0) == ["Pending"] * 5
    assert statuses(report, 60.0) == ["Running"] * 5
    assigned = [
        e for e in report["events"] if e["reason"] == "Scheduled" and e["object"][:4] == "pod/"
    ]
    assert [e["at"] for e in assigned] == [60.0] * 5
    gangs = report["summary"]["gangs"]
    assert (gangs["started_whole"], gangs["partial"]) == (1, 0)
    assert set(gangs["waiting"].values()) == {1, 60.0}


@pytest.mark.parametrize("order", ["last_failure", "creation"])
@pytest.mark.parametrize("when", ["until_others_turn", "until_timeout", "at_once"])
def test_every_order_and_every_manner_of_waiting_starts_all_at_60(order: str, when: str) -> None:
    options = ("--policy", "coscheduling", "--order", order, "--when-blocked", when)
    report = simulate(CLUSTER, JOB, "--at", "60", SCALE_UP, *options)
    assert [job["started_at"] for job in report["jobs"]] == [60.0]
    held = 0.0 if when == "at_once" else 40.0
    assert report["summary"]["wasted"].get("nvidia.com/gpu", 0.0) == held


def test_demo_shows_both() -> None:
    without, _, with_it = printed_by("demo").partition("WITH IT")
    assert "1 submitted, 0 started whole, 1 partial" in without
    assert "240 GPU-seconds held" in without
    assert "1 submitted, 1 started whole, 0 partial" in with_it
    assert with_it.count("Running") == 10  # five pods, at t=60 and at the end


def test_one_input_and_one_seed_give_the_same_bytes() -> None:
    command = [sys.executable, "-m", "gangsched.cli", "simulate", CLUSTER, JOB]
    command += ["--at", "60", SCALE_UP, "--bind-seconds", "3"]

    def run(seed: str, hash_seed: str) -> bytes:
        done = subprocess.run(
            [*command, "--seed", seed],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        assert done.stderr == b""
        return done.stdout

    first = run("7", "1")
    assert first == run("7", "2") != run("8", "1")
