"""Pictures of runs: titles, legends, waits of jobs that did not start, pages, several files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from attrs import evolve

from gangsched import presets
from gangsched.cli import main
from gangsched.events import NodeAdded
from gangsched.simulation import Arrival, Simulator, Workload, load_nodes, load_trace, report
from gangsched.simulation import pictures as drawing
from gangsched.simulation.pictures import DrawnRun, picture
from gangsched.simulation.timeline import Timeline

COLUMNS = "job,submit_s,workers,gpus_per_worker,duration_s,cpu_per_worker\n"
ROWS = ["a,0,4,1,100,1\n", "b,10,8,1,60,1\n", "c,20,1,1,30,1\n", "d,20,9,1,30,1\n"]
NODES = ["node,cpu,gpus,count\n", "n,64,4,2\n"]
SVG = "{http://www.w3.org/2000/svg}"


def drawn(preset: str = "gang", *rows: str, nodes: list[str] = NODES) -> DrawnRun:
    timeline = Timeline()
    fleet = Workload([Arrival(0.0, NodeAdded(node)) for node in load_nodes(nodes, file="n.csv")])
    workload = fleet + load_trace([COLUMNS, *(rows or ROWS)], file="t.csv")
    simulator = Simulator(workload, getattr(presets, preset), observers=(timeline,))
    timeline.watch(simulator)
    simulator.run()
    return DrawnRun(preset, report(simulator), timeline)


def texts(*runs: DrawnRun) -> list[str]:
    root = ElementTree.fromstring(picture(runs, ending=".svg"))
    return ["".join(each.itertext()).strip() for each in root.iter(f"{SVG}text")]


def test_titles_name_the_resource_of_the_shares() -> None:
    shown = texts(drawn("pod_by_pod"))
    assert "nvidia.com/gpu used by running jobs" in shown
    assert "nvidia.com/gpu held by gangs that cannot run" in shown


def test_title_names_each_resource_that_is_the_scarcest_at_some_instant() -> None:
    run = drawn("gang", "a,0,1,1,10,1\n", "b,20,1,0,10,32\n")
    assert [point.used_of for point in run.timeline.points] == [
        "nvidia.com/gpu",
        "",
        "cpu",
        "",
    ]
    shown = texts(run)
    assert "Largest share, of cpu or nvidia.com/gpu," in shown
    assert "used by running jobs" in shown
    assert "Share held by gangs that cannot run" in shown


def test_title_says_which_nodes_and_bars_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Jobs on nodes" in texts(drawn())
    monkeypatch.setattr(drawing, "_MOST_NODES", 1)
    monkeypatch.setattr(drawing, "_MOST_BARS", 1)
    shown = texts(drawn())
    assert "Jobs on nodes: 1 of the 2 nodes that were used" in shown
    assert "only the first 1 bars, one for each job on each of its nodes" in shown


def test_line_of_a_policy_ends_at_the_share_of_jobs_that_it_started() -> None:
    figure = _figure(drawn("pod_by_pod"), drawn("gang"))
    lines = {line.get_label(): line.get_ydata() for line in figure.axes[-1].get_lines()}
    ends = {label: float(ys[-1]) for label, ys in lines.items()}
    assert ends == {"pod_by_pod, 2 did not start": 0.5, "gang, 1 did not start": 0.75}


def test_each_line_of_the_waits_goes_on_to_the_longest_wait() -> None:
    at_once = evolve(drawn("gang", "a,0,1,1,10,1\n"), name="at once")
    axis = _figure(at_once, drawn()).axes[-1]
    lasts = [float(line.get_xdata()[-1]) for line in axis.get_lines()]
    assert lasts == [axis.get_xlim()[1]] * 2


def test_chart_of_waits_is_drawn_where_no_job_waited() -> None:
    axis = _figure(drawn("gang", "a,0,1,1,10,1\n")).axes[-1]
    assert axis.get_xlim() == (0.0, 1.0)
    assert [tuple(line.get_ydata())[-1] for line in axis.get_lines()] == [1.0]


def test_legends_are_below_their_charts() -> None:
    for runs in ((drawn(),), (drawn(), evolve(drawn(), name="other"))):
        figure = _figure(*runs)
        legends = [axis for axis in figure.axes if axis.get_legend() is not None]
        assert len(legends) == len(runs)
        for axis in legends:
            assert axis.get_legend().get_window_extent().y1 <= axis.get_window_extent().y0


def test_page_has_a_heading_and_the_figures() -> None:
    page = picture([drawn()], ending=".html", summary="a < b\nwasted  nothing").decode()
    assert "<h1>gangsched: gang</h1>" in page
    assert "<pre>a &lt; b\nwasted  nothing</pre>" in page
    assert page.index("<pre>") < page.index("<svg")
    assert "<pre>" not in picture([drawn()], ending=".html").decode()


def test_page_of_a_comparison_has_a_table_with_the_names_of_its_rows() -> None:
    """A table of text is cut on a phone; the first column of this one stays in sight."""
    rows = [("", "gang", "a<b"), ("gangs started", "1 of 2", "2 of 2"), ("  partial", "0", "1")]
    page = picture([drawn()], ending=".html", table=rows).decode()
    assert '<th scope="col">gang</th><th scope="col">a&lt;b</th>' in page
    assert '<tr><th scope="row">gangs started</th><td>1 of 2</td><td>2 of 2</td></tr>' in page
    assert '<th scope="row">  partial</th>' in page
    assert page.index("</table>") < page.index("<svg")
    assert "<table" not in picture([drawn()], ending=".html").decode()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(COLUMNS + "".join(ROWS))
    (tmp_path / "n.csv").write_text("".join(NODES))
    return tmp_path


WORKLOAD = ("--trace", "t.csv", "--nodes", "n.csv")


def test_one_run_is_drawn_to_several_files(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("simulate", "compare"):
        words = ("--picture", "a.svg", "--picture", "a.html")
        assert main([command, *WORKLOAD, *words]) == 0
        assert (folder / "a.svg").read_bytes().startswith(b"<?xml")
        page = (folder / "a.html").read_text()
        assert "nvidia.com/gpu used" in page[: page.index("<svg")]
        assert main([command, *WORKLOAD, *words, "--picture", "a.gif"]) == 2
    capsys.readouterr()


def test_picture_that_cannot_be_written_does_not_hide_the_report(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("simulate", "compare"):
        assert main([command, *WORKLOAD, "--picture", "no/a.svg"]) == 2
        captured = capsys.readouterr()
        assert "no/a.svg: No such file" in captured.err
        assert "deadlock" in captured.out


@pytest.mark.skipif(os.name != "posix", reason="a pipe that its reader closes")
@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_picture_is_drawn_although_the_reader_of_the_report_is_gone(
    folder: Path, command: str
) -> None:
    words = [sys.executable, "-m", "gangsched", command, *WORKLOAD, "--picture", "a.svg"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.close()
        assert running.wait(60) == 0
    assert (folder / "a.svg").exists()


def _figure(*runs: DrawnRun) -> Any:
    """Return the figure of a picture, after it was drawn."""
    from matplotlib.figure import Figure

    found: list[Any] = []

    def keep(figure: Any, *_arguments: Any, **_named: Any) -> None:
        found.append(figure)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", keep)
        picture(runs, ending=".svg")
    found[0].draw_without_rendering()
    return found[0]


def test_title_of_a_picture_names_the_policy_and_what_was_run() -> None:
    shown = picture([drawn()], ending=".svg", caption="t.csv on 2 nodes").decode()
    assert "gang: t.csv on 2 nodes" in shown
    both = picture([drawn(), drawn("pod_by_pod")], ending=".svg", caption="t.csv on 2 nodes")
    assert ">t.csv on 2 nodes<" in both.decode()


def test_waits_of_hours_are_on_a_scale_of_decades() -> None:
    short = texts(drawn("gang", "a,0,8,1,300,1\n", "b,0,8,1,9,1\n"))
    long = texts(drawn("gang", "a,0,8,1,5000,1\n", "b,0,8,1,9,1\n"))
    assert "10 s" not in short
    assert [each for each in long if each in {"0", "1 s", "10 s", "1 min", "10 min", "1 h"}][
        -5:
    ] == [*("1 s", "10 s", "1 min", "10 min", "1 h")]


def test_time_of_a_run_of_another_clock_begins_with_its_first_pod() -> None:
    begun = [f"a,{1.5e7:.0f},8,1,300,1\n", f"b,{1.5e7 + 60:.0f},8,1,300,1\n"]
    shown = texts(drawn("gang", *begun))
    assert shown.count("minutes since the first pod") == 4
    assert not any(each.startswith("15000") for each in shown)


def test_command_names_the_trace_and_the_nodes_in_the_picture(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(COLUMNS + "a,0,1,1,9,0\n")
    out = tmp_path / "run.svg"
    words = ["simulate", "--trace", str(tmp_path / "t.csv"), "--nodes", "3x4"]
    assert main([*words, "--picture", str(out)]) == 0
    assert "gang: t.csv on 3 nodes" in out.read_text()


def test_lines_of_a_run_do_not_depend_on_the_instant_of_its_first_pod() -> None:
    def lines(begin: float) -> list[str]:
        rows = [f"{name},{begin + at:.0f},8,1,300,1\n" for name, at in (("a", 0), ("b", 60))]
        root = ElementTree.fromstring(picture([drawn("gang", *rows)], ending=".svg"))
        # a run of another clock has a point at the instant of its nodes, before its first pod
        return [path.attrib["d"].rpartition("M")[2][-60:] for path in root.iter(f"{SVG}path")]

    assert lines(1.5e9) == lines(0)
