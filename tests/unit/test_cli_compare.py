"""``gangsched compare``, a scheduler of one's own, a configuration file, and completion."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.documents import printed_by, refuses

pytest.importorskip("rich")

COLUMNS = "job,submit_s,workers,gpus_per_worker,duration_s,priority"
TRACE = f"{COLUMNS}\na,0,4,1,100,0\nb,10,8,1,60,0\nc,20,1,1,30,0\nd,20,9,1,30,0\n"
SHORT = f"{COLUMNS}\na,0,4,1,100,0\nd,20,9,1,30,0\n"
PREEMPTED = f"{COLUMNS}\na,0,4,1,100,0\nb,30,4,1,100,10\n"
MANY = COLUMNS + "".join(f"\nx{n},0,9,1,30,0" for n in range(7)) + "\n"
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
WORKLOAD = ("--trace", "t.csv", "--nodes", "2x4")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    Path("t.csv").write_text(TRACE)
    Path("mine.py").write_text(MINE)
    Path("c.yaml").write_text(CONFIG)
    return tmp_path


def test_compare_gives_each_policy_the_report_of_simulate() -> None:
    options = {
        "pod_by_pod": ["--policy", "pod_by_pod"],
        "gang,backfill=2,placement=pack": ["--backfill", "2", "--placement", "pack"],
        "coscheduling,when_blocked=at_once": [
            *("--policy", "coscheduling", "--when-blocked", "at_once")
        ],
    }
    seed = ("--seed", "3", "--output", "json")
    words = [word for spec in options for word in ("--policy", spec)]
    found = json.loads(printed_by("compare", *WORKLOAD, *words, *seed))
    assert found["schema"] == "gangsched.compare/1"
    assert [run["policy"] for run in found["runs"]] == list(options)
    for run, each in zip(found["runs"], options.values(), strict=True):
        alone = json.loads(printed_by("simulate", *WORKLOAD, *each, *seed))
        assert (run["summary"], run["settings"]) == (alone["summary"], alone["settings"])


def test_compare_prints_one_table_with_a_column_for_each_policy() -> None:
    table = printed_by("compare", *WORKLOAD).split("\n\n")[0]
    policies = ["fifo", "sjf", "pod_by_pod", "coscheduling", "gang", "gang,backfill"]
    assert table.splitlines()[0].split() == policies
    assert row(table, "gangs started") == ["2 of 3"] * 6
    assert "nothing" in row(table, "nvidia.com/gpu wasted")
    assert "1 job since t=3m10s" in row(table, "deadlock")


def compared(trace: str, *words: str) -> str:
    Path("t.csv").write_text(trace)
    return printed_by("compare", "--trace", "t.csv", "--nodes", "1x4", *words)


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


def test_rows_without_a_figure_are_left_out() -> None:
    text = compared(PREEMPTED, "--policy", "gang")
    for absent in ("\n\n", "NOT STARTED", "never fit", "lost"):
        assert absent not in text


def test_work_of_preempted_jobs_is_a_row_of_each_resource() -> None:
    text = compared(PREEMPTED, "--policy", "gang", "--policy", "gang,preempt")
    assert row(text, "pods preempted") == ["0", "4"]
    assert row(text, "nvidia.com/gpu lost") == ["nothing", "120 GPU-seconds"]


def test_further_jobs_that_did_not_start_are_counted_and_all_are_in_json() -> None:
    text = compared(MANY, "--policy", "gang")
    assert text.count(" default/x") == 5 + 5  # and each reason names a pod
    assert "and 2 more" in text
    (run,) = json.loads(compared(MANY, "--policy", "gang", "--output", "json"))["runs"]
    assert [each["job"] for each in run["pending"]] == [f"default/x{n}" for n in range(7)]


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ("gagn", "did you mean gang?"),
        ("gang,placemnt=pack", "did you mean --placement?"),
        ("gang,permit_timeout=3", "--permit-timeout has no meaning with --policy gang"),
        ("gang,backfill=0", "expected a finite number >= 1"),
    ],
)
def test_compare_refuses_what_simulate_refuses(spec: str, error: str) -> None:
    assert error in refuses("compare", *WORKLOAD, "--policy", spec)


# A scheduler of one's own, and a configuration file -----------------------------------------------


def nodes_used(*words: str) -> set[str]:
    found = json.loads(printed_by("simulate", *WORKLOAD, "--output", "json", *words))
    given = dict(zip(words[::2], words[1::2], strict=True))
    assert found["settings"]["policy"] == given.get("--policy", None if given else "gang")
    assert found["settings"]["config"] == given.get("--config")
    return {node for job in found["jobs"] for node in job["nodes"]}


def test_policy_may_be_a_function_or_a_configuration_of_the_scheduler() -> None:
    assert nodes_used() == {"node-000", "node-001"}
    assert nodes_used("--policy", "mine:make") == {"node-001"}
    assert nodes_used("--config", "c.yaml") == {"node-000"}
    words = ("--policy", "gang", "--policy", "mine:make", "--config", "c.yaml")
    table = printed_by("compare", *WORKLOAD, *words)
    assert table.splitlines()[0].split() == ["gang", "mine:make", "c.yaml"]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("nowhere:make", "--policy: nowhere:make: ModuleNotFoundError: No module named 'nowhere'"),
        ("mine:other", "--policy: mine:other: AttributeError: module 'mine' has no"),
        ("mine:number", "--policy: expected a callable, got 'mine:number'"),
        ("mine:", "--policy: expected MODULE:NAME, got 'mine:'"),
        ("mine:wrong", "a function that returns a Scheduler; mine:wrong returned an object"),
    ],
)
def test_function_that_makes_no_scheduler_is_refused(name: str, error: str) -> None:
    assert error in refuses("simulate", *WORKLOAD, "--policy", name)


@pytest.mark.parametrize("given", [("--policy", "mine:make"), ("--config", "c.yaml")])
def test_options_of_a_policy_are_refused_with_a_scheduler_of_ones_own(
    given: tuple[str, str],
) -> None:
    what = " ".join(given) if given[0] == "--policy" else "--config"
    for option in (["--order", "creation"], ["--preempt"], ["--backfill"]):
        error = refuses("simulate", *WORKLOAD, *given, *option)
        assert f"{option[0]} has no meaning with {what}" in error
    if given[0] == "--config":
        error = refuses("simulate", *WORKLOAD, *given, "--policy", "gang")
        assert "--policy has no meaning with --config" in error


def test_log_of_a_function_is_replayed_with_that_function() -> None:
    printed_by("simulate", *WORKLOAD, "--policy", "mine:make", "--log", "run.log")
    error = refuses("replay", "run.log")
    assert "name it: --policy MODULE:FUNCTION, or --config FILE" in error
    again = printed_by("replay", "run.log", "--policy", "mine:make")
    assert again == "run.log: no divergence\n"


def test_malformed_argument_of_ones_own_plugin_is_refused() -> None:
    Path("c.yaml").write_text(CONFIG.replace("{node: node-001}", "{colour: red}"))
    error = refuses("simulate", *WORKLOAD, "--config", "c.yaml")
    assert "pluginConfig[mine:Cordon].args" in error


# Completion -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_completion_knows_the_commands_and_the_options(shell: str) -> None:
    text = printed_by("completion", shell)
    assert "simulate" in text
    assert "permit-timeout" in text


def test_bash_completes_a_command_an_option_and_a_policy(folder: Path) -> None:
    script = printed_by("completion", "bash")
    (folder / "completion.sh").write_text(script)
    function = next(line for line in script.splitlines() if line.startswith("complete "))
    name = function.split(" -F ")[1].split()[0]

    def complete(*words: str) -> list[str]:
        given = " ".join(f"'{word}'" for word in ("gangsched", *words))
        program = (
            f"source ./completion.sh; COMP_WORDS=({given}); COMP_CWORD={len(words)};"
            f" {name}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        )
        command = ["bash", "-c", program]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    assert complete("comp") == ["compare", "completion"]
    assert "--estimates" in complete("simulate", "--est")
    assert complete("simulate", "--policy", "cos") == ["coscheduling"]


def test_policies_that_differ_in_what_waiting_jobs_held_have_the_same_starts() -> None:
    """The wide job waits for its last worker: on nodes with ``coscheduling``, else in the queue."""
    trace = "job,submit_s,workers,gpus_per_worker,duration_s\na,0,1,1,9\nwide,1,4,1,9\n"
    named = ("coscheduling,when_blocked=until_timeout", "gang")
    text = compared(trace, *(word for name in named for word in ("--policy", name)))
    assert row(text, "nvidia.com/gpu wasted") == ["24 GPU-seconds", "nothing"]
    assert f"\n{' and '.join(named)} have the same starts: each job started" in text
