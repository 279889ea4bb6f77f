"""Pictures of runs: their data, their formats, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from attrs import evolve

from gangsched import presets
from gangsched.cli import main
from gangsched.events import NodeAdded
from gangsched.simulation import (
    Arrival,
    Simulator,
    Workload,
    load_trace,
    parse_nodes_shape,
    report,
)
from gangsched.simulation.pictures import DrawnRun, picture
from gangsched.simulation.timeline import Timeline, queue_lengths, steps

COLUMNS = "job,submit_s,workers,gpus_per_worker,duration_s\n"
ROWS = ["a,0,4,1,100\n", "b,10,8,1,60\n", "c,20,1,1,30\n", "d,20,9,1,30\n"]


def drawn(preset: str = "gang") -> DrawnRun:
    timeline = Timeline()
    nodes = Workload([Arrival(0.0, NodeAdded(node)) for node in parse_nodes_shape("2x4")])
    workload = nodes + load_trace([COLUMNS, *ROWS], file="t.csv")
    simulator = Simulator(workload, getattr(presets, preset), observers=(timeline,))
    timeline.watch(simulator)
    simulator.run()
    return DrawnRun(preset, report(simulator), timeline)


def test_timeline_has_the_shares_that_running_and_other_jobs_hold() -> None:
    shares = {point.at: (point.used, point.wasted) for point in drawn().timeline.points}
    assert shares[0.0] == (0.5, 0.0)
    assert shares[20.0] == (0.625, 0.0)
    assert shares[100.0] == (1.0, 0.0)
    assert shares[160.0] == (0.0, 0.0)
    wasted = {point.at: point.wasted for point in drawn("pod_by_pod").timeline.points}
    assert wasted[10.0] == 0.5


def test_queue_length_counts_complete_jobs_that_have_not_started() -> None:
    jobs = drawn().result.jobs
    assert queue_lengths(jobs) == [(0.0, 0), (10.0, 1), (20.0, 2), (100.0, 1)]


def test_distribution_ends_with_the_whole() -> None:
    assert steps([3.0, 1.0]) == [(1.0, 0.5), (3.0, 1.0)]
    assert steps([]) == []


def test_distribution_of_fewer_values_than_members_does_not_reach_the_whole() -> None:
    assert steps([3.0, 1.0], of=4) == [(1.0, 0.25), (3.0, 0.5)]


def test_svg_is_well_formed_and_the_same_each_time() -> None:
    first = picture([drawn()], ending=".svg")
    assert picture([drawn()], ending=".svg") == first
    texts = {"".join(each.itertext()) for each in ElementTree.fromstring(first).iter()}
    for title in ("Jobs on nodes", "of jobs that wait", "used by running jobs", "node-001"):
        assert any(title in text for text in texts)


def test_html_fits_a_phone_and_escapes_names() -> None:
    run = evolve(drawn(), name="<b>&")
    page = picture([run, drawn()], ending=".html").decode()
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page
    assert "<title>gangsched: &lt;b&gt;&amp;, gang</title>" in page
    assert "<b>" not in page
    assert "Jobs on nodes" not in page  # of several runs, only what can be compared


@pytest.mark.parametrize(("ending", "begins"), [(".png", b"\x89PNG"), (".pdf", b"%PDF")])
def test_other_formats_are_drawn(ending: str, begins: bytes) -> None:
    assert picture([drawn()], ending=ending).startswith(begins)


def test_run_without_jobs_is_drawn() -> None:
    timeline = Timeline()
    simulator = Simulator(Workload(), presets.gang, observers=(timeline,))
    assert b"<svg" in picture([DrawnRun("gang", report(simulator), timeline)], ending=".svg")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(COLUMNS + "".join(ROWS))
    return tmp_path


WORKLOAD = ("--trace", "t.csv", "--nodes", "2x4")


def test_simulate_and_compare_draw(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *WORKLOAD, "--picture", "run.svg"]) == 0
    assert main(["compare", *WORKLOAD, "--picture", "all.html"]) == 0
    assert "Jobs on nodes" in (folder / "run.svg").read_text()
    assert "gang,backfill" in (folder / "all.html").read_text()
    capsys.readouterr()


def test_picture_that_cannot_be_drawn_is_refused_before_the_run(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["simulate", *WORKLOAD, "--picture", "run.gif"]) == 2
    captured = capsys.readouterr()
    assert "a name that ends with .svg, .html, .png, .pdf, got 'run.gif'" in captured.err
    assert captured.out == ""
    assert main(["simulate", *WORKLOAD, "--picture", "no/run.svg"]) == 2
    assert "no/run.svg: No such file" in capsys.readouterr().err
    monkeypatch.setattr("gangsched.cli._picture.find_spec", lambda name: None)
    assert main(["compare", *WORKLOAD, "--picture", "run.svg"]) == 2
    assert "pip install 'gangsched[pictures]'" in capsys.readouterr().err


def test_no_command_loads_matplotlib_without_a_picture(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["simulate", *WORKLOAD]) == 0
    capsys.readouterr()
