"""What ``gangsched explain`` can be asked about: groups, pods and jobs, also finished ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.documents import fails, run_command

HEADER = "job,submit_s,workers,gpus_per_worker,duration_s"


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = ("x,0,1,4,100", "y,5,1,4,50")
    (tmp_path / "two.csv").write_text("\n".join((HEADER, *rows, "")))
    gangs = ("g,0,2,4,100", "h,5,2,4,50", "tiny,6,1,4,1")
    (tmp_path / "gangs.csv").write_text("\n".join((HEADER, *gangs, "")))
    return tmp_path


def says(name: str, trace: str, until: int, *words: str) -> str:
    nodes = "1x4" if trace == "two.csv" else "2x4"
    end = ("--until", str(until))
    code, printed = run_command("explain", name, "--trace", trace, "--nodes", nodes, *end, *words)
    assert code == 0, printed
    return printed


def data(*words: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(says(*words, "--output", "json"))
    return found


@pytest.mark.parametrize("name", ["default/y-0", "y-0", "default/y", "y"])
def test_single_pod_is_explained_by_the_name_of_the_pod_or_of_its_job(name: str) -> None:
    first, *_rest = says(name, "two.csv", 50).splitlines()
    start, _colon, why = first.partition(": ")
    assert start == "t=50s  pod default/y-0 of job default/y"
    assert why.endswith("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")


def test_json_of_a_single_pod_names_the_pod_and_no_group() -> None:
    found = data("y", "two.csv", 50)
    assert (found["group"], found["pod"]) == (None, "default/y-0")
    assert found["why"]["answer"] in {"NoNodeFits", "BackingOff"}
    assert (found["started_at"], found["finished_at"]) == (None, None)


def test_member_of_a_gang_is_explained_with_the_nodes_that_would_start_its_group() -> None:
    found = data("default/h-1", "gangs.csv", 50)
    assert (found["group"], found["pod"]) == ("default/h", "default/h-1")
    (change,) = found["smallest_changes"]
    assert change["nodes"] == 2


def test_running_pod_is_said_to_run() -> None:
    assert says("x", "two.csv", 50).startswith("t=50s  pod default/x-0 of job default/x: on node")


@pytest.mark.parametrize(
    ("name", "trace", "sentence"),
    [
        ("g", "gangs.csv", "pod group default/g: it has finished; it ran from t=0s to t=100s"),
        ("y", "two.csv", "pod default/y-0 of job default/y: it has finished; it ran from t=100s"),
    ],
)
def test_finished_job_is_said_to_have_finished_with_its_times(
    name: str, trace: str, sentence: str
) -> None:
    text = says(name, trace, 400)
    assert sentence in text
    assert "hold nodes" not in text
    assert "would start" not in text


def test_json_of_a_finished_gang_has_its_times_and_no_change() -> None:
    found = data("g", "gangs.csv", 400)
    assert (found["started_at"], found["finished_at"]) == (0.0, 100.0)
    assert found["smallest_changes"] == []


def test_unknown_name_is_refused_with_the_known_jobs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = ("--trace", "two.csv", "--nodes", "1x4", "--until", "50")
    text = fails(capsys, "explain", "other/z", *source)
    assert text == (
        "gangsched: NAME: no pod or pod group 'other/z' is known;"
        " known jobs: default/x, default/y\n"
    )


def test_job_of_another_namespace_is_suggested_by_its_name(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"j{number},0,1,1,10,bob" for number in range(7)]
    (files / "many.csv").write_text("\n".join((f"{HEADER},tenant", *rows, "")))
    text = fails(capsys, "explain", "j6", "--trace", "many.csv", "--nodes", "1x4", "--until", "5")
    assert text.endswith("; did you mean bob/j6?\n")


def what_if(name: str, trace: str, until: int, *words: str) -> list[str]:
    lines = says(name, trace, until, *words).splitlines()
    return [line for line in lines if line.startswith("  then") or "other groups" in line]


def queue_of_gangs(files: Path) -> None:
    rows = [f"g{number},{number},2,4,100000" for number in range(8)]
    rows[0] = "g0,0,2,4,10"  # it has finished when the question is asked
    (files / "queue.csv").write_text("\n".join((HEADER, *rows, "")))


def test_what_if_prints_the_groups_that_change_and_the_asked_one_first(files: Path) -> None:
    queue_of_gangs(files)
    lines = what_if("g6", "queue.csv", 50, "--add", "4x4")
    assert lines[0].startswith("  then default/g6: as of 6: pod default/g6-0 does not fit: ")
    assert lines[1:] == [
        "  then default/g2: 2 members hold nodes",
        "  then default/g3: 2 members hold nodes",
        "  5 other groups: as before",
    ]


def test_what_if_of_a_finished_group_says_that_it_has_finished(files: Path) -> None:
    queue_of_gangs(files)
    lines = what_if("g0", "queue.csv", 50, "--add", "4x4")
    assert lines[0] == "  then default/g2: 2 members hold nodes"
    assert not any("0 members" in line for line in lines)


def test_json_of_what_if_has_every_group(files: Path) -> None:
    queue_of_gangs(files)
    found = data("g6", "queue.csv", 50, "--add", "4x4")["what_if"]
    assert len(found["why"]) == 8


def test_what_if_prints_a_group_that_loses_its_members(files: Path) -> None:
    (files / "low.csv").write_text(f"{HEADER},priority\nlow,0,2,4,1000,0\nwait,1,2,4,9,0\n")
    (files / "high.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: high}\n"
        "spec: {priority: 9, containers: [{name: c, resources: {limits: {nvidia.com/gpu: 4}}}]}\n"
    )
    lines = what_if("wait", "low.csv", 50, "--apply", "high.yaml", "--preempt")
    assert lines[0].startswith("  then default/wait: ")
    assert lines[1].startswith("  then default/low: ")


POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, {more}}}
spec: {{containers: [{{name: c, resources: {{limits: {{nvidia.com/gpu: 4}}}}}}]}}
"""


def explained(*words: str) -> list[str]:
    code, printed = run_command("explain", *words)
    assert code == 0, printed
    return printed.splitlines()


def test_job_without_a_group_is_explained_by_its_first_pod_without_a_node(files: Path) -> None:
    key = "simulation.gangsched.io/job"
    more = f'annotations: {{{key}: pair, {key}-pods: "2"}}'
    (files / "pair.yaml").write_text("---".join(POD.format(name=n, more=more) for n in ("a", "b")))
    first, *_rest = explained("pair", "pair.yaml", "--nodes", "1x4", "--until", "5")
    assert first.startswith("t=5s  pod default/b of job default/pair: ")


def test_what_if_prints_a_group_that_gets_more_members(files: Path) -> None:
    label = "pod-group.scheduling.sigs.k8s.io"
    more = f'labels: {{{label}/name: more, {label}/min-available: "2"}}'
    pods = [POD.format(name=f"more-{n}", more=more) for n in range(3)]
    late = f'labels: {{{label}/name: late, {label}/min-available: "3"}}'
    pods += [POD.format(name=f"late-{n}", more=late) for n in range(3)]
    (files / "groups.yaml").write_text("---".join(pods))
    lines = explained("late", "groups.yaml", "--nodes", "2x4", "--until", "30", "--add", "1x4")
    assert "  then default/more: 3 members hold nodes" in lines


def test_finished_job_is_said_how_to_be_asked_about_earlier() -> None:
    text = says("g", "gangs.csv", 400)
    assert "; --until asks about an earlier instant, --history for its attempts" in text
