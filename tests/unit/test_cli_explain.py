"""``gangsched explain``: why a group does not run, and what would make it start."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from support.documents import ROOT, fails, run_command

pytest.importorskip("yaml")

NODE = """
apiVersion: v1
kind: Node
metadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}{labels}}}}}
spec: {{unschedulable: {cordoned}}}
status: {{allocatable: {{cpu: "{cpu}"}}}}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 3
  template:
    metadata:
      labels:
        pod-group.scheduling.sigs.k8s.io/name: train
        pod-group.scheduling.sigs.k8s.io/min-available: "3"
    spec: {containers: [{name: c, resources: {requests: {cpu: "2"}}}]}
"""


def node(name: str, cpu: int, labels: str = "", cordoned: bool = False) -> str:
    return NODE.format(name=name, cpu=cpu, labels=labels, cordoned=str(cordoned).lower())


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    cordoned = [node("b", 2, cordoned=True), node("c", 2, cordoned=True)]
    (tmp_path / "nodes.yaml").write_text("---".join([node("a", 4), *cordoned]))
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "one.yaml").write_text("---".join([node("a", 2), node("b", 2)]))
    return tmp_path


def says(*words: str) -> str:
    code, printed = run_command("explain", *words)
    assert code == 0, printed
    return printed


def data(*words: str) -> dict[str, Any]:
    found = json.loads(says(*words, "--output", "json"))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("policy", ["coscheduling", "gang"])
def test_two_more_nodes_would_start_the_gang_of_the_demonstration(
    policy: str,
) -> None:
    words = ("tf-smoke-gpu", "--policy", policy)
    shape = "cpu=8, memory=32Gi, nvidia.com/gpu=2, pods=110"
    first, second = says(*words).splitlines()
    assert first.startswith("t=70s  pod group default/tf-smoke-gpu: pod ") or policy == "gang"
    assert "does not fit" in first
    assert second == f"2 more nodes of {shape} would start pod group default/tf-smoke-gpu now"
    found = data(*words)
    (change,) = found["smallest_changes"]
    assert (change["nodes"], change["at"]) == (2, found["at"])
    assert change["shape"]["nvidia.com/gpu"] == "2"
    assert found["why"]["answer"] == "NoNodeFits"
    assert (found["schema"], found["group"]) == ("gangsched.explain/1", "default/tf-smoke-gpu")


def test_default_job_is_that_of_the_demonstration(capsys: pytest.CaptureFixture[str]) -> None:
    folder = resources.files("gangsched.simulation") / "examples"
    files = [str(folder / name) for name in ("cluster.yaml", "tf-smoke-gpu.yaml")]
    assert says("default/tf-smoke-gpu", *files) == says("tf-smoke-gpu")
    grown = says("tf-smoke-gpu", *files, "--at", "60", str(folder / "scale-up.yaml"))
    assert grown.splitlines() == [
        "t=2m  pod group default/tf-smoke-gpu: 5 members hold nodes",
        "pod group default/tf-smoke-gpu has started",
    ]


def test_node_classes_are_tried_by_frequency() -> None:
    text = says("train", "nodes.yaml", "job.yaml").splitlines()
    assert text[1:] == [
        "1 more node of cpu=2 would start pod group default/train now",
        "1 more node of cpu=4 would start pod group default/train now",
    ]
    found = data("train", "nodes.yaml", "job.yaml")["smallest_changes"]
    assert [(change["labels"], change["nodes"]) for change in found] == [({}, 1), ({}, 1)]


def test_cordoned_node_is_added_uncordoned(files: Path) -> None:
    cordoned = [node("a", 4, ", zone: z", cordoned=True), node("b", 1), node("c", 1)]
    (files / "kinds.yaml").write_text("---".join(cordoned))
    found = data("train", "kinds.yaml", "job.yaml", "--most", "5")["smallest_changes"]
    assert [(one["shape"], one["labels"], one["nodes"]) for one in found] == [
        ({"cpu": "4"}, {"zone": "z"}, 2),
        ({"cpu": "1"}, {}, None),
    ]
    assert found[1]["refusal"] == "Insufficient cpu"
    assert (found[1]["tried"], found[1]["why"]["answer"]) == (5, "NoNodeFits")


def test_untried_node_classes_are_counted(files: Path) -> None:
    (files / "kinds.yaml").write_text("---".join(node(f"n{n}", 1, f", k: k{n}") for n in range(6)))
    text = says("train", "kinds.yaml", "job.yaml", "--most", "1")
    assert "2 further kinds of nodes were not tried: give --shape" in text
    found = data("train", "kinds.yaml", "job.yaml", "--most", "1")
    assert (len(found["smallest_changes"]), found["untried"]) == (4, 2)


def test_shape_may_be_given() -> None:
    text = says("train", "one.yaml", "job.yaml", "--shape", "cpu=2500m,gpu=1")
    assert text.endswith(
        "1 more node of cpu=2500m, gpu=1 would start pod group default/train now\n"
    )


def test_what_if_nodes_were_added_or_files_applied(files: Path) -> None:
    text = says("train", "one.yaml", "job.yaml", "--add", "1x8")
    assert "what if:\n  t=60s  node/added-node-000  Allocatable: nvidia.com/gpu=8\n" in text
    (files / "more.yaml").write_text(node("more", 2))
    text = says("train", "one.yaml", "job.yaml", "--apply", "more.yaml")
    assert text.endswith("  then default/train: 3 members hold nodes\n")
    found = data("train", "one.yaml", "job.yaml", "--apply", "more.yaml")["what_if"]
    kinds = [effect["kind"] for effect in found["effects"]]
    assert kinds.count("Bind") == kinds.count("PodScheduled") == 3
    assert {effect["at"] for effect in found["effects"]} == {found["until"]} == {60.0}
    assert found["why"] == {"default/train": {"answer": "Running", "text": "3 members hold nodes"}}


def test_added_node_gets_an_unused_name(files: Path) -> None:
    (files / "taken.yaml").write_text(node("added-node-000", 2))
    text = says("train", "taken.yaml", "job.yaml", "--add", "1x8")
    assert "node/added-added-node-000" in text


def test_bad_input_is_one_sentence_that_names_the_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    here = ("one.yaml", "job.yaml")
    unknown = fails(capsys, "explain", "other", *here)
    assert unknown == (
        "gangsched: NAME: no pod or pod group 'default/other' is known;"
        " known groups: default/train\n"
    )
    assert "there is no group" in fails(capsys, "explain", "other", "one.yaml")
    assert "--policy: expected coscheduling" in fails(
        capsys, "explain", "train", *here, "--policy", "pod_by_pod"
    )
    for shape in ("cpu", "=2", "cpu=1,cpu=2", "cpu=1,,"):
        text = fails(capsys, "explain", "train", *here, "--shape", shape)
        assert f"--shape must be NAME=AMOUNT, separated by commas, got {shape!r}" in text
    assert "--shape: cpu must be " in fails(
        capsys, "explain", "train", *here, "--shape", "cpu=many"
    )
    assert "--most must be" in fails(capsys, "explain", "train", *here, "--most", "-1")
    assert "--add must be COUNTxGPUS" in fails(capsys, "explain", "train", *here, "--add", "8")
    assert "nowhere.yaml: No such file" in fails(
        capsys, "explain", "train", *here, "--apply", "nowhere.yaml"
    )
    assert "nowhere.yaml: No such file" in fails(capsys, "explain", "train", "nowhere.yaml")


def test_every_field_of_the_json_is_on_its_reference_page() -> None:
    found = data("train", "one.yaml", "job.yaml", "--add", "1x8", "--shape", "gpu=1", "--most", "2")
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^\| `([\w.\[\]]+)` \|", page, re.MULTILINE))
    fields = {*found}
    fields |= {f"smallest_changes[].{name}" for name in found["smallest_changes"][0]}
    fields |= {f"what_if.{name}" for name in found["what_if"]}
    assert described == fields


FREED_SINCE = (
    "job,submit_s,workers,gpus_per_worker,duration_s\na,0,1,4,100\nb,0,1,4,1000\nc,10,2,4,50\n"
)


def test_explain_counts_the_nodes_that_were_freed_since_the_last_attempt(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.csv"
    trace.write_text(FREED_SINCE)
    code, printed = run_command(
        "explain", "c", "--trace", str(trace), "--nodes", "2x4", "--until", "200"
    )
    assert code == 0
    assert "at most 1 of 2 members fit" in printed


def test_simulate_says_of_which_attempt_the_reason_of_a_pending_job_is(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.csv"
    trace.write_text(FREED_SINCE)
    words = ("simulate", "--trace", str(trace), "--nodes", "2x4", "--until", "200")
    code, printed = run_command(*words, "--detail", "summary")
    assert code == 0
    assert printed.rstrip().endswith("2 Insufficient nvidia.com/gpu. (as of its attempt at t=10s)")
    _code, printed = run_command(*words, "--output", "json")
    assert [row["tried_at"] for row in json.loads(printed)["pending"]] == [10.0]


def test_history_has_every_attempt_of_a_group(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.csv"
    trace.write_text(FREED_SINCE)
    words = ("explain", "c", "--trace", str(trace), "--nodes", "2x4", "--until", "1001")
    _code, printed = run_command(*words, "--history", "--output", "json")
    entries = json.loads(printed)["history"]
    assert [entry["message"].partition(":")[0] for entry in entries] == [
        "Has 1 member, needs 2",
        "Attempt 1",
        "Attempt 2",
        "Attempt 2",
    ]
    assert {entry["object"] for entry in entries} == {"podgroup/default/c"}
    _code, printed = run_command(*words, "--output", "json")
    assert json.loads(printed)["history"] is None


def test_history_of_a_single_pod_is_about_the_pod(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.csv"
    trace.write_text(FREED_SINCE)
    words = ("explain", "a", "--trace", str(trace), "--nodes", "2x4", "--until", "50")
    _code, printed = run_command(*words, "--history")
    assert printed.rstrip().endswith("t=0s  Successfully assigned default/a-0 to node-000")


def test_number_of_nodes_says_how_many_others_start_with_them(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.csv"
    rows = "".join(f"{name},{at},2,4,1000\n" for at, name in enumerate("abcd"))
    trace.write_text(f"job,submit_s,workers,gpus_per_worker,duration_s\n{rows}")
    words = ("explain", "d", "--trace", str(trace), "--nodes", "2x4", "--until", "10")
    _code, printed = run_command(*words)
    assert (
        "6 more nodes of nvidia.com/gpu=4 would start pod group default/d now, and 2 other"
        in printed
    )
    _code, printed = run_command(*words, "--output", "json")
    assert [each["others_started"] for each in json.loads(printed)["smallest_changes"]] == [2]


RESERVED = """job,submit_s,duration_s,workers,gpus_per_worker
first,0,100,1,3
big,1,100,2,2
small,2,500,1,1
"""


@pytest.mark.parametrize("name", ["small", "big"])
def test_capacity_that_is_reserved_for_a_gang_is_named(files: Path, name: str) -> None:
    """The reason of the small job counts the free GPU as used."""
    (files / "trace.csv").write_text(RESERVED)
    words = (name, "--trace", "trace.csv", "--nodes", "1x4", "--until", "50")
    assert "reserved:" not in says(*words)
    found = says(*words, "--backfill").splitlines()
    assert found[1] == "reserved: 1 node is reserved for pod group default/big, starts by 100"
    reservation = data(*words, "--backfill")["reservation"]
    expected = {"group": "default/big", "since": 1.0, "starts_at": 100.0, "nodes": ["node-000"]}
    assert reservation == expected


def test_job_that_runs_is_not_told_of_a_reservation(files: Path) -> None:
    (files / "trace.csv").write_text(RESERVED)
    words = ("first", "--trace", "trace.csv", "--nodes", "1x4", "--until", "50", "--backfill")
    assert "reserved" not in says(*words)
    assert data(*words)["reservation"] is None
