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
