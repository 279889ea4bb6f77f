"""``gangsched explain`` in a trace: what is ahead, what has not arrived, nodes that cannot help."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gangsched.cli import main
from support.documents import fails, run_command

COLUMNS = "job,submit_s,workers,gpus_per_worker,cpu_per_worker,duration_s,tenant"
ROWS = (
    "run,0,1,4,1,1000,red",
    "wide,10,3,4,1,100,red",
    "pair,20,2,4,1,100,red",
    "one,30,1,4,1,100,blue",
    "last,40,2,4,1,100,blue",
    "late,900,1,1,1,10,blue",
)
WORKLOAD = ("--trace", "t.csv", "--nodes", "n.csv", "--until", "60")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("\n".join((COLUMNS, *ROWS)) + "\n")
    (tmp_path / "n.csv").write_text("node,cpu,gpus\nn,8,4\n")
    return tmp_path


def says(*words: str) -> str:
    code, printed = run_command("explain", *words)
    assert code == 0, printed
    return printed


def data(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(says(*words, "--output", "json"))
    return found


def test_groups_that_come_first_are_counted_with_their_requests() -> None:
    words = ("blue/last", *WORKLOAD, "--most", "1", "--order", "creation")
    lines = says(*words).splitlines()
    assert lines[2] == (
        "3 other pod groups and pods are tried before it; together they request cpu=6,"
        " nvidia.com/gpu=24"
    )
    requests = {"cpu": "6", "nvidia.com/gpu": "24"}
    assert data(*words)["ahead"] == {"count": 3, "requests": requests}


def test_one_group_that_comes_first_is_singular() -> None:
    text = says("red/pair", *WORKLOAD, "--most", "0", "--order", "creation")
    assert "1 other pod group or pod is tried before it; together they request cpu=3," in text


def test_first_group_has_nothing_ahead() -> None:
    words = ("red/wide", *WORKLOAD, "--most", "1", "--order", "creation")
    assert "before it" not in says(*words)
    assert data(*words)["ahead"] is None


def test_queue_is_not_counted_where_nodes_would_start_the_group() -> None:
    words = ("blue/last", *WORKLOAD, "--most", "8", "--order", "creation")
    assert "before it" not in says(*words)
    assert data(*words)["ahead"] is None


def test_group_that_lacks_members_is_not_tried_before_others(folder: Path) -> None:
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: half-0\n  labels:\n"
        "    pod-group.scheduling.sigs.k8s.io/name: half\n"
        '    pod-group.scheduling.sigs.k8s.io/min-available: "2"\n'
        'spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}\n'
    )
    (folder / "half.yaml").write_text(pod)
    words = ("red/pair", "half.yaml", *WORKLOAD, "--most", "0", "--order", "creation")
    assert data(*words)["ahead"]["count"] == 1
    assert data("half", *words[1:])["ahead"] is None


def test_members_that_have_nodes_request_nothing_more(folder: Path) -> None:
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: most-{}\n  labels:\n"
        "    pod-group.scheduling.sigs.k8s.io/name: most\n"
        '    pod-group.scheduling.sigs.k8s.io/min-available: "1"\n'
        'spec: {{containers: [{{name: c, resources: {{requests: {{cpu: "5"}}}}}}]}}\n'
    )
    (folder / "most.yaml").write_text("---\n".join(pod.format(n) for n in range(2)))
    words = ("red/pair", "most.yaml", *WORKLOAD, "--most", "0", "--order", "creation")
    # one member runs and one is pending, before `wide`, which requests 3 CPUs in all
    assert data(*words)["ahead"]["count"] == 2
    assert data(*words)["ahead"]["requests"]["cpu"] == "8"


def test_added_node_that_takes_no_member_is_named_with_the_reason() -> None:
    words = ("red/wide", *WORKLOAD, "--add", "2x4")
    assert "  a node of nvidia.com/gpu=4 takes none of its members: Insufficient cpu" in says(
        *words
    )
    found = data(*words)["what_if"]["refusals"]
    assert found == [
        {"shape": {"nvidia.com/gpu": "4"}, "labels": {}, "refusal": "Insufficient cpu"}
    ]


def test_added_node_that_takes_members_is_not_named(folder: Path) -> None:
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: big}\nstatus:\n  allocatable: "
    (folder / "big.yaml").write_text(node + '{cpu: "64", nvidia.com/gpu: "4"}\n')
    words = ("red/wide", *WORKLOAD, "--apply", "big.yaml")
    assert "takes none of its members" not in says(*words)
    assert data(*words)["what_if"]["refusals"] == []
    assert data("red/run", *WORKLOAD, "--add", "1x4")["what_if"]["refusals"] == []


def test_json_says_whether_the_budget_was_used_up() -> None:
    words = ("blue/last", *WORKLOAD, "--most", "1", "--add", "1x4")
    found = data(*words)
    assert [each["exhausted"] for each in found["smallest_changes"]] == [False]
    assert found["what_if"]["exhausted"] is False
    started = data("blue/last", *WORKLOAD, "--most", "8")
    assert [each["exhausted"] for each in started["smallest_changes"]] == [None]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("blue/late", "blue/late"),
        ("late", "blue/late"),
        ("late-0", "blue/late-0"),
        ("blue/late-0", "blue/late-0"),
    ],
)
def test_job_that_has_not_arrived_is_named_with_its_instant(
    name: str, known: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error = fails(capsys, "explain", name, *WORKLOAD)
    assert error == (
        f"gangsched: NAME: {known} arrives at t=15m, and the question is asked at t=60s\n"
    )


def test_group_of_a_manifest_that_has_not_arrived_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group = "apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: train}\n"
    (folder / "g.yaml").write_text(group + "spec: {minMember: 2}\n")
    error = fails(capsys, "explain", "train", "--at", "90", "g.yaml", *WORKLOAD)
    assert "NAME: default/train arrives at t=90s, and" in error


def test_job_that_was_deleted_before_it_started_does_not_arrive_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = fails(capsys, "explain", "blue/one", *WORKLOAD, "--delete", "50", "blue/one")
    assert "no pod or pod group 'blue/one' is known" in error


def test_name_that_never_arrives_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    error = fails(capsys, "explain", "ate", *WORKLOAD)
    assert "no pod or pod group 'default/ate' is known" in error
    assert main(["explain", "blue/last", *WORKLOAD]) == 0
    capsys.readouterr()
