"""Pictures of runs: what they show, their formats, the pages around them, and what is refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from attrs import evolve

from gangsched import presets
from gangsched.events import NodeAdded
from gangsched.model import GroupKey, NodeName
from gangsched.simulation import Arrival, Simulator, Workload, load_nodes, load_trace, report
from gangsched.simulation import pictures as drawing
from gangsched.simulation.pictures import DrawnRun, picture
from gangsched.simulation.timeline import Timeline, queue_lengths, steps
from support.documents import printed_by, refuses, run_command
from support.patience import HANG

pytest.importorskip("matplotlib")

COLUMNS = "job,submit_s,workers,gpus_per_worker,duration_s,cpu_per_worker\n"
ROWS = ["a,0,4,1,100,1\n", "b,10,8,1,60,1\n", "c,20,1,1,30,1\n", "d,20,9,1,30,1\n"]
NODES = ["node,cpu,gpus,count\n", "n,64,4,2\n"]
AT_ONCE = "a,0,1,1,10,1\n"


def drawn(preset: str = "gang", *rows: str) -> DrawnRun:
    timeline = Timeline()
    fleet = Workload([Arrival(0.0, NodeAdded(node)) for node in load_nodes(NODES, file="n.csv")])
    workload = fleet + load_trace([COLUMNS, *(rows or ROWS)], file="t.csv")
    simulator = Simulator(workload, getattr(presets, preset), observers=(timeline,))
    timeline.watch(simulator)
    simulator.run()
    return DrawnRun(preset, report(simulator), timeline)


def texts(*runs: DrawnRun, caption: str = "") -> list[str]:
    root = ElementTree.fromstring(picture(runs, ending=".svg", caption=caption))
    found = root.iter("{http://www.w3.org/2000/svg}text")
    return ["".join(each.itertext()).strip() for each in found]


def figure_of(*runs: DrawnRun) -> Any:
    """Return the figure of a picture, after it was drawn."""
    from matplotlib.figure import Figure

    found: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda figure, *_given, **_named: found.append(figure))
        picture(runs, ending=".svg")
    found[0].draw_without_rendering()
    return found[0]


# Data -------------------------------------------------------------------------------------------


def test_timeline_has_the_shares_that_running_and_other_jobs_hold() -> None:
    points = drawn().timeline.points
    shares = {each.at: (each.used_share[0], each.wasted_share[0]) for each in points}
    expected = {0.0: (0.5, 0.0), 20.0: (0.625, 0.0), 100.0: (1.0, 0.0), 160.0: (0.0, 0.0)}
    assert {at: shares[at] for at in expected} == expected
    wasted = {each.at: each.wasted_share[0] for each in drawn("pod_by_pod").timeline.points}
    assert wasted[10.0] == 0.5


def test_queue_length_counts_complete_jobs_that_have_not_started() -> None:
    jobs = drawn().result.jobs
    assert queue_lengths(jobs) == [(0.0, 0), (10.0, 1), (20.0, 2), (100.0, 1)]


@pytest.mark.parametrize(
    ("values", "of", "expected"),
    [
        ([3.0, 1.0], None, [(1.0, 0.5), (3.0, 1.0)]),
        ([3.0, 1.0], 4, [(1.0, 0.25), (3.0, 0.5)]),
        ([], None, []),
    ],
)
def test_distribution_ends_with_the_share_of_its_values(
    values: list[float], of: int | None, expected: list[tuple[float, float]]
) -> None:
    assert steps(values, of=of) == expected


# Charts -----------------------------------------------------------------------------------------


def test_titles_name_the_run_and_the_resource_of_the_shares() -> None:
    shown = texts(drawn("pod_by_pod"), caption="t.csv on 2 nodes")
    for title in (
        "pod_by_pod: t.csv on 2 nodes",
        "Jobs on nodes",
        "nvidia.com/gpu used by running jobs",
        "nvidia.com/gpu held by gangs that cannot run",
    ):
        assert title in shown
    assert any("of jobs that wait" in text for text in shown)
    both = texts(drawn("gang", AT_ONCE), drawn("pod_by_pod", AT_ONCE), caption="t.csv on 2 nodes")
    assert "t.csv on 2 nodes" in both
    assert "Jobs on nodes" not in both  # of several runs, only what can be compared


def test_title_names_each_resource_that_is_the_scarcest_at_some_instant() -> None:
    run = drawn("gang", AT_ONCE, "b,20,1,0,10,32\n")
    used_of = [point.used_share[1] for point in run.timeline.points]
    assert used_of == ["nvidia.com/gpu", "", "cpu", ""]
    shown = texts(run)
    assert "Largest share, of cpu or nvidia.com/gpu," in shown
    assert "Share held by gangs that cannot run" in shown


def test_title_says_which_nodes_and_bars_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "_MOST_NODES", 1)
    monkeypatch.setattr(drawing, "_MOST_BARS", 1)
    shown = texts(drawn())
    assert "Jobs on nodes: 1 of the 2 nodes that were used" in shown
    assert "only the first 1 bars, one for each job on each of its nodes" in shown


def test_line_of_a_policy_ends_at_the_share_of_jobs_that_it_started() -> None:
    # pod by pod, parts of b and c hold all GPUs; d fits on no empty cluster
    rows = ["a,0,7,1,10,1\n", "b,1,4,2,10,1\n", "c,2,5,1,10,1\n", "d,3,9,1,10,1\n"]
    figure = figure_of(drawn("pod_by_pod", *rows), drawn("gang", *rows))
    axis = figure.axes[-1]
    ends = {line.get_label(): float(line.get_ydata()[-1]) for line in axis.get_lines()}
    assert ends == {"pod_by_pod, 3 did not start": 0.25, "gang, 1 did not start": 0.75}
    # each line goes on to the longest wait
    assert {float(line.get_xdata()[-1]) for line in axis.get_lines()} == {axis.get_xlim()[1]}


def test_chart_of_waits_is_drawn_where_no_job_waited_with_legends_below() -> None:
    figure = figure_of(drawn("gang", AT_ONCE))
    axis = figure.axes[-1]
    assert axis.get_xlim() == (0.0, 1.0)
    assert [tuple(line.get_ydata())[-1] for line in axis.get_lines()] == [1.0]
    legends = [axis for axis in figure.axes if axis.get_legend() is not None]
    assert len(legends) == 1
    for axis in legends:
        assert axis.get_legend().get_window_extent().y1 <= axis.get_window_extent().y0


def test_waits_of_hours_are_on_a_scale_of_decades() -> None:
    decades = ["1 s", "10 s", "1 min", "10 min", "1 h"]
    long = texts(drawn("gang", "a,0,8,1,5000,1\n", "b,0,8,1,9,1\n"))
    assert [each for each in long if each in {"0", *decades}][-5:] == decades


def test_picture_does_not_depend_on_the_instant_of_the_first_pod() -> None:
    def parts(begin: float) -> tuple[list[str], list[str]]:
        rows = [f"{name},{begin + at:.0f},8,1,300,1\n" for name, at in (("a", 0), ("b", 60))]
        root = ElementTree.fromstring(picture([drawn("gang", *rows)], ending=".svg"))
        svg = "{http://www.w3.org/2000/svg}"
        # a run of another clock has a point at the instant of its nodes, before its first pod
        lines = [path.attrib["d"].rpartition("M")[2][-60:] for path in root.iter(f"{svg}path")]
        shown = ["".join(each.itertext()).strip() for each in root.iter(f"{svg}text")]
        assert shown.count("minutes since the first pod") == (4 if begin == 1.5e7 else 0)
        assert not any(each.startswith("15000") for each in shown)
        assert "10 s" not in shown, "the waits are on a linear scale"
        return lines, shown

    assert parts(1.5e9)[0] == parts(1.5e7)[0] == parts(0)[0]


# Formats and pages ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "begins"), [(".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml")]
)
def test_run_without_jobs_is_drawn_in_every_format(ending: str, begins: bytes) -> None:
    timeline = Timeline()
    simulator = Simulator(Workload(), presets.gang, observers=(timeline,))
    run = DrawnRun("gang", report(simulator), timeline)
    first = picture([run], ending=ending)
    assert first.startswith(begins)
    if ending == ".svg":
        assert picture([run], ending=ending) == first


def page_of(*names: str, summary: str = "", table: Sequence[Any] = ()) -> str:
    runs = [evolve(drawn("gang", AT_ONCE), name=name) for name in names]
    return picture(runs, ending=".html", summary=summary, table=table).decode()


def test_html_fits_a_phone_has_the_figures_and_escapes_names() -> None:
    page = page_of("<b>&", "gang", summary="a < b\nwasted  nothing")
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page
    assert "<title>gangsched: &lt;b&gt;&amp;, gang</title>" in page
    assert "<b>" not in page
    assert "<pre>a &lt; b\nwasted  nothing</pre>" in page
    assert page.index("<pre>") < page.index("<svg")


def test_page_of_a_comparison_has_a_table_with_the_names_of_its_rows() -> None:
    """A table of text is cut on a phone; the first column of this one stays in sight."""
    rows = [("", "gang", "a<b"), ("gangs started", "1 of 2", "2 of 2"), ("  partial", "0", "1")]
    page = page_of("gang", table=rows)
    assert "<h1>gangsched: gang</h1>" in page
    assert '<th scope="col">gang</th><th scope="col">a&lt;b</th>' in page
    assert '<tr><th scope="row">gangs started</th><td>1 of 2</td><td>2 of 2</td></tr>' in page
    assert '<th scope="row">  partial</th>' in page
    assert page.index("</table>") < page.index("<svg")
    plain = page_of("gang")
    assert re.search("<table|<pre>", plain) is None


# The command ------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(COLUMNS + AT_ONCE)
    Path("n.csv").write_text("".join(NODES))
    return tmp_path


WORKLOAD = ("--trace", "t.csv", "--nodes", "n.csv")


@pytest.mark.parametrize("command", ["simulate", "compare"])
@pytest.mark.usefixtures("folder")
def test_one_run_is_drawn_to_several_files(command: str) -> None:
    printed_by(command, *WORKLOAD, "--picture", "a.svg", "--picture", "a.html")
    svg, page = Path("a.svg").read_text(), Path("a.html").read_text()
    assert svg.startswith("<?xml")
    assert ("gang,backfill" if command == "compare" else "gang: t.csv on 2 nodes") in svg
    assert "nvidia.com/gpu used" in page[: page.index("<svg")]


@pytest.mark.usefixtures("folder")
def test_picture_that_cannot_be_drawn_is_refused_before_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = refuses("simulate", *WORKLOAD, "--picture", "a.svg", "--picture", "run.gif")
    assert "a name that ends with .svg, .html, .png, .pdf, got 'run.gif'" in said
    monkeypatch.setattr("gangsched.cli._picture.find_spec", lambda name: None)
    said = refuses("compare", *WORKLOAD, "--picture", "run.svg")
    assert "pip install 'gangsched[pictures]'" in said


@pytest.mark.parametrize("command", ["simulate", "compare"])
@pytest.mark.usefixtures("folder")
def test_picture_that_cannot_be_written_does_not_hide_the_report(command: str) -> None:
    code, text = run_command(command, *WORKLOAD, "--picture", "no/a.svg")
    assert code == 2
    assert "no/a.svg: No such file" in text
    assert "deadlock" in text


@pytest.mark.skipif(os.name != "posix", reason="a pipe that its reader closes")
def test_picture_is_drawn_although_the_reader_of_the_report_is_gone(folder: Path) -> None:
    words = [sys.executable, "-m", "gangsched", "simulate", *WORKLOAD, "--picture", "a.svg"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.close()
        assert running.wait(HANG) == 0
    assert (folder / "a.svg").exists()


@pytest.mark.usefixtures("folder")
def test_no_command_loads_matplotlib_without_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    printed_by("simulate", *WORKLOAD)


# Groups below one group -------------------------------------------------------------------------


def family(count: int) -> DrawnRun:
    """Return a run of jobs on one node, of which the first ones are below one group."""
    run = drawn("gang", *(f"{name},0,1,1,100,1\n" for name in "abcd"[: count + 1]))
    above = (GroupKey("default/serve"), GroupKey("default/decode"))
    jobs = [evolve(job, above=above, nodes=(NodeName("n-0"),)) for job in run.result.jobs[:count]]
    return evolve(run, result=evolve(run.result, jobs=(*jobs, *run.result.jobs[count:])))


def test_groups_below_one_group_are_drawn_beside_each_other_with_their_paths() -> None:
    run = family(2)
    bars = figure_of(run).axes[0].patches
    places = [(round(bar.get_y(), 3), round(bar.get_height(), 3)) for bar in bars]
    assert places[:2] == [(-0.4, 0.4), (0.0, 0.4)]
    assert places[2][1] == 0.8
    assert len({bar.get_facecolor() for bar in bars}) == 2
    assert {"serve/decode/a", "serve/decode/b"} <= set(texts(run))
    assert "serve/decode/c" not in texts(run)


def test_groups_too_many_for_a_node_have_no_labels() -> None:
    assert not [text for text in texts(family(4)) if text.startswith("serve/")]
