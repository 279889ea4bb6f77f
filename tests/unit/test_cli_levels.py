"""Levels on the command line, the figures of each level, and racks that die."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from support.documents import printed_by, refuses

pytest.importorskip("rich")

NODES = """\
node,gpus,count,label:block,label:rack
b1-r1,4,2,b1,r1
b1-r2,4,2,b1,r2
b2-r1,4,2,b2,r1
b2-r2,4,2,b2,r2
"""
COLUMNS = "job,submit_s,workers,gpus_per_worker,duration_s"
TRACE = f"{COLUMNS}\na,0,6,1,100\nb,10,12,1,60\nc,20,1,1,30\n"
WORKLOAD = ("--trace", "t.csv", "--nodes", "n.csv")
NEAR = (*WORKLOAD, "--prefer", "rack")
LEVELS = ("--levels", "block,rack")
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
levels: [block, rack]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("n.csv").write_text(NODES)
    Path("t.csv").write_text(TRACE)
    Path("c.yaml").write_text(CONFIG)
    Path("levelled.py").write_text(
        "from gangsched import presets\n"
        "def make(cluster):\n    return presets.gang(cluster, levels=['block', 'rack'])\n"
    )


def data(*words: str) -> Any:
    return json.loads(printed_by(*words, "--output", "json"))


def racks_of(found: Any, job: str) -> set[str]:
    """Return the blocks and racks of a job, of which the names of nodes consist."""
    nodes = next(row["nodes"] for row in found["jobs"] if row["key"] == f"default/{job}")
    return {name[:5] for name in nodes}


# Options ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "chosen",
    [
        LEVELS,
        (*LEVELS, "--policy", "coscheduling"),
        (*LEVELS, "--policy", "fifo"),
        (*LEVELS, "--policy", "sjf"),
        ("--config", "c.yaml"),
        ("--policy", "levelled:make"),
    ],
)
def test_gang_that_no_rack_takes_goes_to_one_block_if_the_scheduler_knows_levels(
    chosen: tuple[str, ...],
) -> None:
    found = data("simulate", *NEAR, *chosen)
    assert racks_of(found, "b") == {"b2-r1", "b2-r2"}
    assert list(found["summary"]["levels"]) == ["block", "rack"]


def test_without_levels_racks_of_one_name_are_one_and_there_are_no_figures() -> None:
    found = data("simulate", *NEAR)
    assert racks_of(found, "b") == {"b1-r2", "b2-r2"}
    assert found["settings"]["levels"] is None
    assert found["summary"]["levels"] == {}
    assert found["timeline"][0]["levels"] == []


def test_each_option_is_a_topology_of_its_own() -> None:
    found = data("simulate", *WORKLOAD, *LEVELS, "--levels", "zone")
    assert found["settings"]["levels"] == [["block", "rack"], ["zone"]]
    assert found["summary"]["levels"]["zone"]["domains_of_gangs"]["count"] == 0
    text = printed_by("simulate", *WORKLOAD, *LEVELS, "--levels", "zone")
    assert "levels=block:rack|zone" in text
    assert "zone per gang         none" in text


def test_explain_knows_the_levels() -> None:
    Path("t.csv").write_text(f"{COLUMNS}\na,0,17,1,100\n")
    text = printed_by("explain", "a", *WORKLOAD, "--topology", "block", "--prefer", "rack", *LEVELS)
    assert "at most 16 of 17 members fit within block=b1" in text


# Figures ----------------------------------------------------------------------------------------


def test_figures_of_levels_are_those_of_gangs_and_of_what_was_free() -> None:
    found = data("simulate", *NEAR, *LEVELS)["summary"]["levels"]
    # a has one rack, and b two of one block; c is no gang
    assert found["block"]["domains_of_gangs"] == pytest.approx(
        {"count": 2, "mean": 1, "median": 1, "p95": 1, "p99": 1, "max": 1}
    )
    assert (
        found["rack"]["domains_of_gangs"]["mean"],
        found["rack"]["domains_of_gangs"]["max"],
    ) == (
        1.5,
        2,
    )
    # 0 to 10 s: a; to 20 s: a and b; to 50 s: c, too, beside a; to 70 s: a and b; to 100 s: a
    free = 10 * 26 + 10 * 14 + 30 * 13 + 20 * 14 + 30 * 26
    assert found["rack"]["whole_share"] == pytest.approx(
        {"nvidia.com/gpu": (10 * 24 + 60 * 8 + 30 * 24) / free}
    )
    assert found["block"]["whole_share"] == pytest.approx({"nvidia.com/gpu": 40 * 16 / free})
    assert found["block"]["largest_free"] == pytest.approx(
        {"nvidia.com/gpu": (10 * 16 + 10 * 10 + 30 * 9 + 20 * 10 + 30 * 16) / 100}
    )


def test_text_has_the_domains_of_gangs_and_the_share_in_empty_ones() -> None:
    text = printed_by("simulate", *NEAR, *LEVELS, "--detail", "summary")
    assert "rack per gang         mean 1.5, median 1, p95 2, p99 2, max 2, of the 2" in text
    assert "whole               34.6% of the free nvidia.com/gpu was in empty domains" in text


def test_policies_are_compared_by_the_same_levels() -> None:
    words = ("--policy", "gang", "--policy", "gang,levels=block:rack", "--policy", "pod_by_pod")
    text = printed_by("compare", *NEAR, *words)
    rows = {line[:23].strip(): line[23:].split() for line in text.splitlines()}
    assert rows["block per gang, mean"] == ["1.50", "1.00", "2.00"]
    assert rows["rack per gang, max"] == ["2", "2", "4"]
    runs = data("compare", *NEAR, *words)["runs"]
    assert all(list(run["summary"]["levels"]) == ["block", "rack"] for run in runs)
    assert runs[1]["settings"]["levels"] == [["block", "rack"]]


def test_levels_of_a_configuration_are_those_of_the_comparison() -> None:
    text = printed_by("compare", *NEAR, "--policy", "gang", "--config", "c.yaml")
    assert "rack per gang, mean" in text
    assert "per gang" not in printed_by("compare", *NEAR, "--policy", "gang")


# Racks that die ---------------------------------------------------------------------------------


def test_nodes_with_some_labels_are_deleted_and_come_back_at_once() -> None:
    dies = ("--delete-nodes", "30", "block=b1,rack=r1", "--restore-nodes", "80", "block=b1")
    found = data("simulate", *NEAR, *LEVELS, *dies)
    capacity = {row["at"]: row["capacity"]["nvidia.com/gpu"] for row in found["timeline"]}
    assert [capacity[at] for at in (20.0, 30.0, 80.0)] == [32, 24, 32]
    assert found["summary"]["lost"] == {"nvidia.com/gpu": 190.0}
    # its pods are gone for good, unless they are created again
    jobs = {row["key"]: row for row in found["jobs"]}
    assert (jobs["default/a"]["members"], jobs["default/a"]["finished_at"]) == (0, None)


def test_gang_of_a_dead_rack_is_restarted_as_a_whole_and_runs_anew() -> None:
    found = data("simulate", *NEAR, *LEVELS, "--delete-nodes", "30", "b1-r1-000", "--restart")
    job = next(row for row in found["jobs"] if row["key"] == "default/a")
    # a second until the loss is judged, then ten of backoff
    assert job["last_started_at"] == 41.0
    assert job["finished_at"] == 141.0
    assert racks_of(found, "a") == {"b1-r1", "b1-r2"}
    assert found["settings"]["restart"] is True
    reasons = [(each["reason"], each["at"]) for each in found["events"]]
    assert ("Restarted", 31.0) in reasons


def test_single_pod_of_a_dead_node_is_created_again() -> None:
    Path("t.csv").write_text(f"{COLUMNS}\na,0,1,1,100\n")
    dies = ("--delete-nodes", "30", "b1-r1-000")
    assert data("simulate", *WORKLOAD, *dies)["jobs"][0]["finished_at"] is None
    assert data("simulate", *WORKLOAD, *dies, "--restart")["jobs"][0]["finished_at"] == 130.0


def test_pod_that_has_finished_on_a_node_is_not_created_again_when_it_dies() -> None:
    Path("t.csv").write_text(f"{COLUMNS}\na,0,1,1,10\nb,0,1,1,90\n")
    dies = ("--delete-nodes", "30", "block=b1", "--restart", "--detail", "all")
    job = next(iter(data("simulate", *WORKLOAD, *dies)["jobs"]))
    assert (job["finished_at"], job["nodes"], job["pods_per_node"]) == (10.0, ["b1-r1-000"], [1])


def test_node_may_go_and_come_back_several_times_in_any_order_of_the_options() -> None:
    node = "b1-r1-000"
    words = [f"--restore-nodes 60 {node}", f"--delete-nodes 50 {node}"]
    words += [f"--restore-nodes 40 {node}", f"--delete-nodes 30 {node}"]
    found = data("simulate", *WORKLOAD, *" ".join(words).split())
    capacity = {row["at"]: row["capacity"]["nvidia.com/gpu"] for row in found["timeline"]}
    assert [capacity[at] for at in (30.0, 40.0, 50.0, 60.0)] == [28, 32, 28, 32]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--delete-nodes", "30", "block=b1,rack=r7"),
            "--delete-nodes: expected a node that is there by t=30s: its name, or labels such as"
            " block=b1,rack=r7, got 'block=b1,rack=r7'",
        ),
        (("--delete-nodes", "30", "b1-r1"), "got 'b1-r1'"),
        (("--delete-nodes", "30", "b1-r1-000", "b1-r1-000"), "got 'b1-r1-000'"),
        (("--restore-nodes", "30", "b1-r1-000"), "expected a node that was deleted by t=30s"),
        (("--delete-nodes", "30"), "--delete-nodes 30: expected nodes after the instant"),
        (("--delete-nodes", "soon", "x"), "--delete-nodes: expected a number of seconds"),
    ],
)
def test_nodes_that_match_nothing_are_refused_before_the_run(
    words: tuple[str, ...], said: str
) -> None:
    assert said in refuses("simulate", *WORKLOAD, *words)


def test_node_that_arrives_later_can_be_deleted_from_then_on() -> None:
    node = "{apiVersion: v1, kind: Node, metadata: {name: x}, status: {allocatable: {cpu: 1}}}"
    Path("x.yaml").write_text(node)
    late = (*WORKLOAD, "--at", "50", "x.yaml")
    assert "got 'x'" in refuses("simulate", *late, "--delete-nodes", "40", "x")
    found = data("simulate", *late, "--delete-nodes", "50", "x")
    again = ("--at", "70", "x.yaml", "--restore-nodes", "80", "x")
    assert "was deleted by t=80s" in refuses("simulate", *late, "--delete-nodes", "60", "x", *again)
    assert "cpu" not in {name for row in found["timeline"] for name in row["capacity"]}
