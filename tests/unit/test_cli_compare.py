"""``gangsched compare``, a scheduler of one's own, a configuration file, and completion."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gangsched.cli import main

COLUMNS = "job,submit_s,workers,gpus_per_worker,duration_s"
TRACE = f"{COLUMNS}\na,0,4,1,100\nb,10,8,1,60\nc,20,1,1,30\nd,20,9,1,30\n"
MINE = """
from gangsched import Success, Unschedulable, presets
from attrs import frozen

def make(cluster):
    return presets.gang(cluster, plugins=[Cordon("node-000")])

def wrong(cluster):
    return "a scheduler"

number = 7

@frozen
class Cordon:
    node: str
    name = "Cordon"

    def node_signature(self, node):
        return node.node.name == self.node

    def filter(self, state, pod, node):
        return Success() if node.node.name != self.node else Unschedulable("cordoned")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    (tmp_path / "t.csv").write_text(TRACE)
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


WORKLOAD = ("--trace", "t.csv", "--nodes", "2x4")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    code = main(words)
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return captured.out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    code: str | int | None
    try:
        code = main(words)
    except SystemExit as ended:
        code = ended.code
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    lines = captured.err.splitlines()
    assert lines
    assert all(line.startswith("gangsched") for line in lines)
    return captured.err


def test_compare_gives_each_policy_the_report_of_simulate(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    specs = ["pod_by_pod", "gang,backfill=2,placement=pack", "coscheduling,when_blocked=at_once"]
    words = [word for spec in specs for word in ("--policy", spec)]
    found = json.loads(
        printed(capsys, "compare", *WORKLOAD, *words, "--seed", "3", "--output", "json")
    )
    assert found["schema"] == "gangsched.compare/1"
    assert [run["policy"] for run in found["runs"]] == specs
    options = [
        ["--policy", "pod_by_pod"],
        ["--policy", "gang", "--backfill", "2", "--placement", "pack"],
        ["--policy", "coscheduling", "--when-blocked", "at_once"],
    ]
    for run, each in zip(found["runs"], options, strict=True):
        words = ["simulate", *WORKLOAD, *each, "--seed", "3", "--output", "json"]
        alone = json.loads(printed(capsys, *words))
        assert run["summary"] == alone["summary"]
        assert run["settings"] == alone["settings"]


def test_compare_prints_one_table_with_a_column_for_each_policy(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(capsys, "compare", *WORKLOAD).splitlines()
    policies = ["fifo", "sjf", "pod_by_pod", "coscheduling", "gang", "gang,backfill"]
    assert lines[0].split() == policies
    rows = {line.split("   ")[0].strip(): line.split("   ")[1:] for line in lines[1:]}
    assert [cell.strip() for cell in rows["gangs started"] if cell.strip()] == ["2 of 3"] * 6
    assert "nothing" in " ".join(rows["nvidia.com/gpu wasted"])
    assert "1 job since t=2m40s" in " ".join(rows["deadlock"])


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ("gagn", "did you mean gang?"),
        ("gang,placemnt=pack", "did you mean --placement?"),
        ("gang,permit_timeout=3", "--permit-timeout has no meaning with --policy gang"),
        ("gang,backfill=0", "expected a finite number >= 1"),
    ],
)
def test_compare_refuses_what_simulate_refuses(
    spec: str, error: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert error in refused(capsys, "compare", *WORKLOAD, "--policy", spec)


# A scheduler of one's own ---------------------------------------------------------------------


def nodes_of(text: str) -> set[str]:
    found: dict[str, Any] = json.loads(text)
    return {node for job in found["jobs"] for node in job["nodes"]}


def test_policy_may_be_a_function(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["simulate", *WORKLOAD, "--output", "json"]
    assert nodes_of(printed(capsys, *words)) == {"node-000", "node-001"}
    own = [*words, "--policy", "mine:make"]
    assert nodes_of(printed(capsys, *own)) == {"node-001"}
    assert json.loads(printed(capsys, *own))["settings"]["policy"] == "mine:make"
    table = printed(capsys, "compare", *WORKLOAD, "--policy", "gang", "--policy", "mine:make")
    assert table.splitlines()[0].split() == ["gang", "mine:make"]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("nowhere:make", "--policy: nowhere:make: ModuleNotFoundError: No module named 'nowhere'"),
        ("mine:other", "--policy: mine:other: AttributeError: module 'mine' has no"),
        ("mine:number", "--policy: expected a callable, got 'mine:number'"),
        ("mine:", "--policy: expected MODULE:NAME, got 'mine:'"),
        (
            "mine:wrong",
            "expected a function that returns a Scheduler; mine:wrong returned an object",
        ),
    ],
)
def test_function_that_makes_no_scheduler_is_refused(
    name: str, error: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert error in refused(capsys, "simulate", *WORKLOAD, "--policy", name)


def test_option_of_a_policy_is_refused_with_a_function(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for option in (("--order", "creation"), ("--preempt",)):
        error = refused(capsys, "simulate", *WORKLOAD, "--policy", "mine:make", *option)
        assert f"{option[0]} has no meaning with --policy mine:make" in error


def test_log_of_a_function_is_replayed_with_that_function(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed(capsys, "simulate", *WORKLOAD, "--policy", "mine:make", "--log", "run.log")
    error = refused(capsys, "replay", "run.log")
    assert "name it: --policy MODULE:FUNCTION, or --config FILE" in error
    again = printed(capsys, "replay", "run.log", "--policy", "mine:make")
    assert again == "run.log: no divergence\n"


# A configuration file -------------------------------------------------------------------------

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- plugins:
    multiPoint:
      enabled: [{name: "mine:Cordon"}, {name: ImageLocality, weight: 2}]
      disabled: [{name: PrioritySort}]
  pluginConfig:
  - name: mine:Cordon
    args: {node: node-001}
  - name: Backfill
    args: {afterAttempts: 2}
"""


def test_configuration_of_the_scheduler_is_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "c.yaml").write_text(CONFIG)
    words = ["simulate", *WORKLOAD, "--config", "c.yaml", "--output", "json"]
    text = printed(capsys, *words)
    assert nodes_of(text) == {"node-000"}
    settings = json.loads(text)["settings"]
    assert (settings["config"], settings["policy"]) == ("c.yaml", None)
    table = printed(capsys, "compare", *WORKLOAD, "--policy", "gang", "--config", "c.yaml")
    assert table.splitlines()[0].split() == ["gang", "c.yaml"]


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        ("args: {node: node-001}", "args: {colour: red}", "pluginConfig[mine:Cordon].args"),
        ("mine:Cordon", "Quota", ".enabled[0].name must be one of"),
        ("name: Backfill", "name: Volcano", "pluginConfig[1].name must be one of"),
        ("kind: Kube", "kind: Cube", "c.yaml: kind must be KubeSchedulerConfiguration"),
        ("profiles:", "profiles: [", "c.yaml: expected YAML"),
    ],
)
def test_malformed_configuration_is_refused(
    before: str, after: str, error: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "c.yaml").write_text(CONFIG.replace(before, after))
    assert error in refused(capsys, "simulate", *WORKLOAD, "--config", "c.yaml")


def test_option_of_a_policy_is_refused_with_a_configuration(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "c.yaml").write_text(CONFIG)
    for option in (("--policy", "gang"), ("--preempt",), ("--backfill",)):
        error = refused(capsys, "simulate", *WORKLOAD, "--config", "c.yaml", *option)
        assert f"{option[0]} has no meaning with --config" in error


# Completion -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_knows_the_commands_and_the_options(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(capsys, "completion", shell)
    assert "simulate" in text
    assert "permit-timeout" in text


def test_bash_completes_a_command_an_option_and_a_policy(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = printed(capsys, "completion", "bash")
    (folder / "completion.sh").write_text(script)
    function = next(line for line in script.splitlines() if line.startswith("complete "))
    name = function.split(" -F ")[1].split()[0]

    def complete(*words: str) -> list[str]:
        given = " ".join(f"'{word}'" for word in ("gangsched", *words))
        program = (
            f"source ./completion.sh; COMP_WORDS=({given}); COMP_CWORD={len(words)};"
            f" {name}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        )
        ran = subprocess.run(
            ["bash", "-c", program], capture_output=True, text=True, check=True, cwd=folder
        )
        return ran.stdout.split()

    assert complete("comp") == ["compare", "completion"]
    assert "--estimates" in complete("simulate", "--est")
    assert complete("simulate", "--policy", "cos") == ["coscheduling"]
