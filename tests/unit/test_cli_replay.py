"""``gangsched replay``: a log of ``simulate`` is run again."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from gangsched import Preemption
from gangsched.replay import Header, Recipe
from support.documents import printed_by, refuses, run_command

pytest.importorskip("yaml")

NODE = "{apiVersion: v1, kind: Node, metadata: {name: node-0}, status: {allocatable: {cpu: 4}}}"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {LABELS}, annotations: {simulation.gangsched.io/run-seconds: "30"}}
spec: {containers: [{name: c, resources: {requests: {cpu: 500m}}}]}
"""
SIMULATE = ("simulate", "node.yaml", "pod.yaml", "--log", "run.log")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("node.yaml").write_text(NODE)
    Path("pod.yaml").write_text(POD.replace("LABELS", ""))


@pytest.mark.parametrize("policy", ["coscheduling", "gang", "pod_by_pod"])
def test_replay_runs_the_log_of_simulate_again(policy: str) -> None:
    printed_by(*SIMULATE, "--policy", policy, "--fault-seed", "1")
    assert printed_by("replay", "run.log") == "run.log: no divergence\n"


def test_replay_that_diverges_says_where_and_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    printed_by(*SIMULATE)
    text = Path("run.log").read_text()
    before, after = '"node":"node-0","attempt":1', '"node":"x","attempt":1'
    Path("run.log").write_text(text.replace(before, after, 1))
    code, printed = run_command("replay", "run.log")
    assert code == 1
    assert printed.startswith("run.log: line ")
    assert "log:  Bind(uid='default/p', node='x', attempt=1)" in printed
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert printed_by("replay", "-") == "-: no divergence\n"


def test_log_can_be_replayed_with_another_policy() -> None:
    Path("pod.yaml").write_text(POD.replace("LABELS", "scheduling.x-k8s.io/pod-group: g"))
    printed_by(*SIMULATE)
    printed_by("replay", "run.log", "--policy", "coscheduling", "--order", "creation")
    code, printed = run_command("replay", "run.log", "--policy", "pod_by_pod")
    assert code == 1
    assert "GroupIncomplete" in printed
    for option in (["--order", "creation"], ["--permit-timeout", "3"]):
        assert f"{option[0]} requires --policy" in refuses("replay", "run.log", *option)


HEADER = Header(recipe=Recipe("gang")).to_line()


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (None, "run.log: No such file"),
        (Header().to_line(), "the log's header has no recipe"),
        (HEADER + '{"call":"fly"}\n', "run.log: line 2: call: expected one of handle"),
        (b"caf\xe9", "run.log: line 1: expected UTF-8 text, byte 3"),
        (POD, "run.log: line 1: expected a header"),
        (HEADER.replace('"gang"', "[]"), "scheduler.preset: expected one of"),
    ],
)
def test_malformed_log_is_one_sentence_and_exit_code_2(log: str | bytes | None, said: str) -> None:
    if log is not None:
        Path("run.log").write_bytes(log.encode() if isinstance(log, str) else log)
    assert said in refuses("replay", "run.log")


@pytest.mark.parametrize("path", [("search_budget",), ("preemption", "search_budget")])
def test_log_cannot_demand_a_search_without_end(path: tuple[str, ...]) -> None:
    header = json.loads(Header(recipe=Recipe("gang", preemption=Preemption())).to_line())
    inner = header["scheduler"]["arguments"]
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = 10**12
    Path("run.log").write_text(json.dumps(header))
    where = ".".join(("scheduler", "arguments", *path))
    assert f"{where}: expected an int from 0 to 1000000" in refuses("replay", "run.log")
