"""``gangsched simulate --config`` with quotas and restarts, and with owners that are deleted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gangsched.cli import main
from support.documents import fails

pytest.importorskip("yaml")
pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: gangsched
quotas:
- {name: research, namespaces: [research], hard: {cpu: 4}}
"""
NODE = """
---
apiVersion: v1
kind: Node
metadata: {name: NAME}
status: {allocatable: {cpu: "4"}}
"""
GANG = """
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: NAME, namespace: research, annotations: {NOTES}}
spec: {minMember: 2, minResources: {cpu: 3}}
---
apiVersion: v1
kind: List
items: [PODS]
"""
POD = """{apiVersion: v1, kind: Pod, metadata: {name: NAME, namespace: research,
  labels: {scheduling.x-k8s.io/pod-group: GROUP}, annotations: {NOTES}},
  spec: {schedulerName: gangsched, containers: [{name: c, resources: {requests: {cpu: 1500m}}}]}}"""
RUN = 'simulation.gangsched.io/run-seconds: "300"'
FAIL = 'simulation.gangsched.io/fail-after-seconds: "100"'
POLICY = (
    'gangsched.io/restart-policy: BelowMinimum, gangsched.io/restart-backoff-seconds: "20", '
    'gangsched.io/max-restarts: "2"'
)


def gang(name: str, *, notes: str = "", fails_after: bool = False) -> str:
    pods = [
        POD.replace("NAME", f"{name}-{n}")
        .replace("GROUP", name)
        .replace("NOTES", f"{RUN}, {FAIL}" if fails_after and n == 0 else RUN)
        for n in range(2)
    ]
    return GANG.replace("NAME", name).replace("NOTES", notes).replace("PODS", ", ".join(pods))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "nodes.yaml").write_text(NODE.replace("NAME", "a") + NODE.replace("NAME", "b"))
    (tmp_path / "first.yaml").write_text(gang("first"))
    (tmp_path / "second.yaml").write_text(gang("second"))
    (tmp_path / "failing.yaml").write_text(gang("failing", notes=POLICY, fails_after=True))
    (tmp_path / "jobs.csv").write_text(
        "job,submit_s,workers,gpus_per_worker,duration_s\na,0,2,1,100\nb,5,2,1,100\n"
    )
    return tmp_path


def simulate(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """Run ``gangsched simulate``; return its report."""
    assert main(["simulate", *words, "--output", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def waited(report: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = report["summary"]["gangs"]["waiting"]
    return found


def events(report: dict[str, Any], reason: str) -> list[tuple[float, str]]:
    return [(e["at"], e["object"]) for e in report["events"] if e["reason"] == reason]


CONFIGURED = ("--config", "config.yaml", "nodes.yaml")


def test_quota_of_the_configuration_holds_a_gang_until_another_ends(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = simulate(capsys, *CONFIGURED, "first.yaml", "second.yaml")
    assert waited(report)["max"] == 300.0
    without = simulate(capsys, "nodes.yaml", "first.yaml", "second.yaml")
    assert waited(without)["max"] == 0.0, "the nodes take both"


def test_deleted_owner_returns_the_quota(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (*CONFIGURED, "first.yaml", "second.yaml", "--delete", "60", "research/first")
    report = simulate(capsys, *words)
    assert waited(report)["max"] == 60.0
    assert report["summary"]["end"] == 360.0


def test_failing_job_of_a_manifest_is_restarted_up_to_its_limit(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pod fails after 100 s of each run. A second later this is a loss; the backoffs follow."""
    report = simulate(capsys, *CONFIGURED, "failing.yaml")
    group = "podgroup/research/failing"
    assert events(report, "Restarted") == [(101.0, group), (222.0, group)]
    assert events(report, "RestartLimitReached") == [(363.0, group)]
    assert [at for at, _group in events(report, "BelowMinimum")] == [101.0, 222.0, 363.0]


def test_restarted_job_keeps_its_quota_until_its_owner_is_deleted(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (*CONFIGURED, "failing.yaml", "--at", "50", "second.yaml")
    held = simulate(capsys, *words, "--until", "399")
    assert held["summary"]["gangs"]["pending"] == 1
    freed = simulate(capsys, *words, "--delete", "110", "research/failing", "--until", "399")
    assert freed["summary"]["gangs"]["pending"] == 0
    assert waited(freed)["max"] == 60.0
    assert len(events(freed, "Restarted")) == 1


def test_job_of_a_trace_is_deleted(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--trace", "jobs.csv", "--nodes", "1x2")
    report = simulate(capsys, *words, "--delete", "40", "default/a")
    assert waited(report)["max"] == 35.0
    several = simulate(capsys, *words, "--delete", "40", "default/a", "default/b")
    assert several["summary"]["end"] == 40.0
    twice = ("--delete", "40", "default/a", "--delete", "50", "default/b")
    assert simulate(capsys, *words, *twice)["summary"]["end"] == 50.0


def test_wrong_deletion_is_one_sentence_and_exit_code_2(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("simulate", *CONFIGURED, "first.yaml", "--delete")
    assert "--delete 60: expected a job" in fails(capsys, *words, "60")
    assert "--delete: expected a number of seconds" in fails(capsys, *words, "soon", "research/x")
    assert "job must be a job that has arrived by t=60, got 'research/x'" in fails(
        capsys, *words, "60", "research/x"
    )
