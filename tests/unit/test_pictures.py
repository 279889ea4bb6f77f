"""Pictures of runs: what they show, their formats, the pages around them, and what is refused."""

from __future__ import annotations

import math
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
from gangsched.events import NodeAdded, NodeDeleted, PodAdded, PodGroupAdded
from gangsched.model import PodGroup
from gangsched.replay import Recipe
from gangsched.simulation import Arrival, Simulator, Workload, load_nodes, load_trace, report
from gangsched.simulation import _picture_nodes as nodes_of_picture
from gangsched.simulation.manifests import load_manifests
from gangsched.simulation.pictures import DrawnRun, picture
from gangsched.simulation.timeline import Timeline, queue_lengths, steps
from gangsched.testing import make_node, make_pod
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


def figure_of(*runs: DrawnRun, laid_out: bool = False) -> Any:
    """Return the figure of a picture; laid out, which takes a second, its parts have places."""
    from matplotlib.figure import Figure

    found: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda figure, *_given, **_named: found.append(figure))
        picture(runs, ending=".svg")
    if laid_out:
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
    monkeypatch.setattr(nodes_of_picture, "MOST_NODES", 1)
    monkeypatch.setattr(nodes_of_picture, "MOST_BARS", 1)
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
    figure = figure_of(drawn("gang", AT_ONCE), laid_out=True)
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


# Jobs on nodes ----------------------------------------------------------------------------------

SERVE = """
apiVersion: simulation.gangsched.io/v1alpha1
kind: Gang
metadata: {name: serve}
spec:
  roles: {decode: {count: COPIES, minimum: 1, roles: {leader: 1, worker: 1}}, router: 1}
  template:
    metadata: {annotations: {simulation.gangsched.io/run-seconds: "90"}}
    spec: {containers: [{resources: {limits: {nvidia.com/gpu: 1}}}]}
"""
FLEET = """\
node,gpus,label:block,label:rack
z,2,b1,r1
y,2,b1,r2
x,2,b1,r2
w,2,b2,r1
v,2,,
"""


def watched(*timed: tuple[float, Any], levels: Any = (), preset: str = "gang") -> DrawnRun:
    """Run events on two GPUs in each of five nodes, which are in racks and blocks."""
    timeline = Timeline()
    nodes = load_nodes(FLEET.splitlines(keepends=True), file="n.csv")
    work = Workload([Arrival(0.0, NodeAdded(node)) for node in nodes])
    work += Workload([Arrival(at, event) for at, event in timed])
    made = Recipe(preset, **({"levels": levels} if levels else {}))
    simulator = Simulator(work, made, observers=(timeline,))
    timeline.watch(simulator)
    simulator.run(until=100.0)
    return DrawnRun(preset, report(simulator, timeline=timeline), timeline)


def jobs(*rows: str) -> list[tuple[float, Any]]:
    columns = "job,submit_s,workers,gpus_per_worker,duration_s\n"
    return [(each.at, each.event) for each in load_trace([columns, *rows], file="t").arrivals]


def bars_of(run: DrawnRun) -> list[tuple[float, float, float, float]]:
    """Return left, right, top and height of each bar, in seconds and rows."""
    axis = figure_of(run).axes[0]
    left, right = axis.get_xlim()
    scale = 100.0 / (right - left)
    return [
        tuple(
            round(value, 3)
            for value in (
                bar.get_x() * scale,
                (bar.get_x() + bar.get_width()) * scale,
                bar.get_y(),
                bar.get_height(),
            )
        )
        for bar in axis.patches
    ]


def node_names(run: DrawnRun) -> list[str]:
    return [label.get_text() for label in figure_of(run).axes[0].get_yticklabels()]


def bound(name: str, node: str, *, group: str | None = None) -> PodAdded:
    return PodAdded(evolve(make_pod(name, gpu=1, group=group), node_name=node))


ALL: Any = [(0.0, bound(f"p{n}", n)) for n in "vwxyz"]


def test_nodes_are_by_block_and_rack_with_the_name_of_the_rack_beside_them() -> None:
    run = watched(*ALL, levels=["block", "rack", "kubernetes.io/hostname"])
    assert node_names(run) == ["z", "x", "y", "w", "v"]
    axis = figure_of(run).axes[0]
    beside = {text.get_text().strip(): text.get_position() for text in axis.texts}
    assert beside == {"b1/r1": (1.0, 0.0), "b1/r2": (1.0, 1.5), "b2/r1": (1.0, 3.0)}
    lines = [(float(line.get_ydata()[0]), float(line.get_xdata()[1])) for line in axis.lines]
    # between racks, and longer ones between blocks
    assert lines == [(0.5, 1.0), (2.5, 1.12), (3.5, 1.12)]


def test_nodes_are_by_name_without_levels() -> None:
    run = watched(*ALL)
    assert node_names(run) == ["v", "w", "x", "y", "z"]
    axis = figure_of(run).axes[0]
    assert (list(axis.texts), list(axis.lines)) == ([], [])


def test_bar_is_from_the_first_pod_of_a_job_on_a_node_to_its_last() -> None:
    run = watched((0.0, bound("p", "z")), *jobs("a,10,2,1,50\n"))
    assert bars_of(run) == [(0.0, 100.0, 0.6, 0.8), (10.0, 60.0, -0.4, 0.8)]


def test_bar_ends_where_the_node_is_deleted_and_the_row_is_grey_until_it_is_back() -> None:
    node = load_nodes(FLEET.splitlines(keepends=True)[:2], file="n.csv")[0]
    gone = [(30.0, NodeDeleted(node.name)), (70.0, NodeAdded(node))]
    pod = bound("p", "z")
    run = watched((0.0, pod), *gone)
    assert bars_of(run) == [(30.0, 70.0, -0.5, 1.0), (0.0, 30.0, -0.4, 0.8)]
    assert "grey: the node is not there" in texts(run)
    assert "grey: the node is not there" not in texts(watched((0.0, pod)))


def test_what_a_job_holds_before_it_runs_is_pale() -> None:
    rows = ("a,0,10,1,20\n", "b,10,2,1,30\n", "b2,10,9,1,30\n")
    run = watched(*jobs(*rows), preset="pod_by_pod")
    axis = figure_of(run).axes[0]
    held = {round(bar.get_alpha(), 2) for bar in axis.patches}
    assert held == {0.15, 0.6}


@pytest.mark.parametrize("copies", [2, 6])
def test_copies_of_one_gang_are_told_apart_by_place_shade_and_path(copies: int) -> None:
    parts = load_manifests(SERVE.replace("COPIES", str(copies)), file="s.yaml").arrivals
    node = make_node("big", allocatable={"nvidia.com/gpu": 99})
    cordoned = [(0.0, NodeAdded(evolve(each.event.node, unschedulable=True))) for each in fleet()]
    work = [(each.at, each.event) for each in parts]
    run = watched(*cordoned, (0.0, NodeAdded(node)), *work)
    bars = figure_of(run).axes[0].patches
    places = sorted((round(bar.get_y(), 3), round(bar.get_height(), 3)) for bar in bars)
    height = 0.8 / (copies + 1)  # and the router
    assert places == [
        (round(-0.4 + place * height, 3), round(height, 3)) for place in range(copies + 1)
    ]
    assert len({bar.get_facecolor()[:3] for bar in bars}) == 1
    assert len({bar.get_facecolor() for bar in bars}) == 2
    shown = {text for text in texts(run) if text.startswith("serve")}
    assert shown == ({"serve/decode/0", "serve/decode/1"} if copies == 2 else set())


def fleet() -> list[Any]:
    nodes = load_nodes(FLEET.splitlines(keepends=True), file="n.csv")
    return [Arrival(0.0, NodeAdded(node)) for node in nodes]


def test_groups_below_one_group_are_drawn_beside_each_other_with_their_paths() -> None:
    serve = PodGroup(name="serve", min_groups=1)
    below = [PodGroup(name=name, min_available=1, parent=serve.key) for name in "ab"]
    groups = [(0.0, PodGroupAdded(group)) for group in (serve, *below)]
    pods = [(0.0, bound(n, "z", group=n)) for n in "ab"]
    run = watched(*groups, *pods)
    assert [bar[2:] for bar in bars_of(run)] == [(-0.4, 0.4), (0.0, 0.4)]
    assert {"serve/a", "serve/b"} <= set(texts(run))


def test_long_run_keeps_a_bounded_number_of_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gangsched.simulation.timeline.MOST_STAYS", 3)
    run = watched(*jobs(*(f"j{n},{n},1,1,1\n" for n in range(9))))
    assert [stay.job for stay in run.timeline.stays] == [f"default/j{n}" for n in range(3)]
    assert [stay.until for stay in run.timeline.stays] == [1.0, 2.0, 3.0]


# Levels -----------------------------------------------------------------------------------------


def lines_of(axis: Any) -> dict[str, list[tuple[float, float]]]:
    return {
        line.get_label(): [(float(x), float(y)) for x, y in line.get_xydata()]
        for line in axis.get_lines()
    }


def test_one_run_has_a_line_for_each_level_of_what_is_free_in_its_domains() -> None:
    run = watched(*jobs("a,0,2,1,40\n"), levels=["block", "rack"])
    axes = {axis.get_title(loc="left"): axis for axis in figure_of(run).axes}
    largest = lines_of(axes["Largest free nvidia.com/gpu in one domain"])
    assert list(largest) == ["block", "rack"]
    scale = axes["Jobs on nodes"].get_xlim()[1] / 100
    name = str(run.timeline.stays[0].node)
    in_block = 4 if name in "xyz" else 6
    assert largest["block"][0] == (0.0, in_block)
    assert largest["block"][1][0] == pytest.approx(40 * scale)
    share = lines_of(axes["Share of the free nvidia.com/gpu in empty domains"])
    assert [y for _x, y in share["rack"]][-1] == 1.0


def test_runs_are_compared_by_what_is_free_in_empty_domains_of_each_level() -> None:
    runs = [
        evolve(watched(*jobs("a,0,2,1,40\n"), levels=["block", "rack"]), name=name)
        for name in ("one", "other")
    ]
    axes = {axis.get_title(loc="left"): axis for axis in figure_of(*runs).axes}
    for level in ("block", "rack"):
        axis = axes[f"Share of the free nvidia.com/gpu that is in an empty {level}"]
        assert list(lines_of(axis)) == ["one", "other"]


def test_share_has_a_gap_while_nothing_is_free() -> None:
    run = watched(*jobs("a,10,10,1,40\n"), levels=["rack"])
    axes = {axis.get_title(loc="left"): axis for axis in figure_of(run).axes}
    values = lines_of(axes["Share of the free nvidia.com/gpu in empty domains"])["rack"]
    assert [math.isnan(y) for _x, y in values] == [False, True, False, False]


def test_run_without_levels_has_no_charts_of_them() -> None:
    assert not [text for text in texts(watched(*jobs("a,0,2,1,40\n"))) if "domain" in text]
