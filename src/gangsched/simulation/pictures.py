"""Pictures of a run and of a comparison: nodes over time, the queue, the use, the waits.

Rules:
  R1  matplotlib is imported when something is drawn, not before; it is the extra ``pictures``;
  R2  the same run gives the same bytes;
  R3  a picture is one column that is as wide as a phone; on wide screens it does not grow;
  R4  a colour never stands alone: lines differ in their dashes, too;
  R5  a title says what is drawn: of which resource a share is, and what is left out;
  R6  a legend is below its chart, because lines may be anywhere in it;
  R7  the groups below one group are drawn next to each other in one colour, with their paths;
  R8  time begins with the first pod. Waits of hours are drawn on a scale of decades, since most
      jobs wait for seconds.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import Any, Final, final

from attrs import frozen

from gangsched.errors import InvalidValueError
from gangsched.model import NodeName
from gangsched.simulation._picture_page import page_of
from gangsched.simulation.jobs import JobRow
from gangsched.simulation.report import Report
from gangsched.simulation.timeline import Timeline, queue_lengths, steps
from gangsched.values.text import printable

__all__ = ["FORMATS", "DrawnRun", "check_picture", "picture"]

FORMATS: Final = (".svg", ".html", ".png", ".pdf")
"""The endings of the files that can be drawn."""

_MOST_NODES: Final = 48
_MOST_POINTS: Final = 2_000
_MOST_BARS: Final = 4_000
_BAR: Final = 0.8
"""The height of a bar, of which groups below one group each have a part."""
_LABELLED: Final = 0.2
"""Which part of the time a bar must have to be labelled."""
_LABELS_OF: Final = 3
"""How many groups below one group have labels on a node."""
_WIDTH: Final = 6.0
_HEIGHT: Final = 2.2
_TITLE: Final = 11
_LABELS: Final = 0.45
"""The height of the labels of an axis, in inches."""
_SIZES: Final = 3
_STYLES: Final = ("-", "--", "-.", ":")
_UNITS: Final = ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
_SETTINGS: Final[dict[str, Any]] = {
    "svg.hashsalt": "gangsched",
    "svg.fonttype": "none",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_DECADES_FROM: Final = 600.0
"""From which longest wait on the axis of waits has decades, in seconds."""
_TICKS: Final = (
    *((0.0, "0"), (1.0, "1 s"), (10.0, "10 s"), (60.0, "1 min"), (600.0, "10 min")),
    *((3600.0, "1 h"), (36_000.0, "10 h"), (86_400.0 * 4, "4 d"), (86_400.0 * 40, "40 d")),
)
_LINE: Final = 0.22
"""The height of a line of a legend or a title, in inches."""
_Series = Sequence[tuple[float, float]]


@final
@frozen
class DrawnRun:
    """A run that is drawn.

    Attributes:
        name: What it is called in the legend.
        result: Its report.
        timeline: What was used over its time.
    """

    name: str
    result: Report
    timeline: Timeline


def check_picture(file: str) -> str:
    """Return the ending of the name of a picture.

    Raises:
        InvalidValueError: It is not one of ``FORMATS``.
    """
    ending = PurePath(file).suffix.lower()
    if ending not in FORMATS:
        raise InvalidValueError("picture", file, f"a name that ends with {', '.join(FORMATS)}")
    return ending


def picture(
    runs: Sequence[DrawnRun],
    *,
    ending: str,
    summary: str = "",
    table: Sequence[Sequence[str]] = (),
    caption: str = "",
) -> bytes:
    """Draw one run, or several in one picture.

    One run has a chart of the nodes over time, too: a bar for each job on each of its nodes.

    Runtime complexity: O(jobs log jobs), and O(points).

    Args:
        runs: The runs.
        ending: One of ``FORMATS``.
        summary: The figures of the runs as text, which an HTML page shows above the charts.
        table: The figures of several runs as rows of cells, which an HTML page shows there. The
            first row is the headings, and the first cell of each row its name.
        caption: What was run, such as the trace and the number of nodes. It is the title, beside
            the name of a single run.

    Raises:
        InvalidValueError: *runs* is empty, or *ending* is not one of ``FORMATS``.
        ModuleNotFoundError: matplotlib is not installed.
    """
    check_picture(f"picture{ending}")
    if not runs:
        raise InvalidValueError("runs", runs, "at least one run")
    import matplotlib as mpl
    from matplotlib.figure import Figure

    panels = _panels(runs)
    untyped: Any = mpl
    with untyped.rc_context(_SETTINGS):
        heights = [height for height, _draw in panels]
        title = _title(runs, caption)
        height = sum(heights) + 2 * _LINE * bool(title)
        figure: Any = Figure(figsize=(_WIDTH, height), layout="constrained")
        if title:
            figure.suptitle(title, x=0.02, ha="left", fontsize=_TITLE, fontweight="bold", wrap=True)
        axes = figure.subplots(len(panels), 1, gridspec_kw={"height_ratios": heights})
        for axis, (_height, draw) in zip(axes, panels, strict=True):
            draw(axis)
        out = io.BytesIO()
        kind = "svg" if ending == ".html" else ending[1:]
        # without a date, which would differ from run to run
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
        figure.savefig(out, format=kind, metadata=metadata, dpi=150)
    if ending != ".html":
        return out.getvalue()
    text = out.getvalue().decode("utf-8")
    title = "gangsched: " + ", ".join(printable(run.name) for run in runs)
    svg = text[text.index("<svg") :]
    return page_of(title, svg, summary=summary, table=table).encode("utf-8")


def _title(runs: Sequence[DrawnRun], caption: str) -> str:
    """Return the title of a picture; the runs of a comparison are in its legend."""
    names = [runs[0].name] if len(runs) == 1 else []
    return ": ".join(printable(part) for part in (*names, caption) if part)


def _panels(runs: Sequence[DrawnRun]) -> list[tuple[float, Callable[[Any], None]]]:
    """Return the height of each panel, and what draws it."""
    end = max(run.result.summary.end for run in runs)
    begin = min(run.result.summary.begin for run in runs)
    scale, unit = _unit(end - begin)
    since = f"{unit} since the first pod" if begin else unit
    names = [printable(run.name) for run in runs]

    def over_time(title: str, series: list[_Series], *, percent: bool) -> Callable[[Any], None]:
        def draw(axis: Any) -> None:
            for number, (name, points) in enumerate(zip(names, series, strict=True)):
                style = _STYLES[number % len(_STYLES)]
                # what a run ends with is shown to its end
                last = runs[number].result.summary.end
                thin = _thinned([*points, (last, points[-1][1])] if points else points)
                xs = [max(at - begin, 0.0) / scale for at, _y in thin]
                ys = [y for _at, y in thin]
                axis.step(xs, ys, where="post", label=name, linestyle=style, linewidth=1.2)
            axis.set_title(title, loc="left", fontsize=_TITLE)
            axis.set_xlabel(since)
            axis.set_xlim(0, max((end - begin) / scale, 1e-9))
            axis.set_ylim(0, 1.05 if percent else None)
            axis.yaxis.get_major_locator().set_params(integer=not percent)
            if percent:
                axis.yaxis.set_major_formatter("{x:.0%}")
            elif len(names) > 1:
                _legend(axis)  # once: the lines are the same below

        return draw

    def waits(axis: Any) -> None:
        _waits(axis, runs)

    points = [run.timeline.points for run in runs]
    used: list[_Series] = [[(p.at, p.used_share[0]) for p in each] for each in points]
    wasted: list[_Series] = [[(p.at, p.wasted_share[0]) for p in each] for each in points]
    queues: list[_Series] = [queue_lengths(run.result.jobs) for run in runs]
    of_used = _share_of(p.used_share[1] for each in points for p in each)
    of_wasted = _share_of(p.wasted_share[1] for each in points for p in each)
    legend = _LINE * len(runs) if len(runs) > 1 else 0.0
    below = _LINE * (len(runs) if len(runs) > 1 else _SIZES)
    panels = [
        (_HEIGHT + legend, over_time("Number of jobs that wait", queues, percent=False)),
        (_HEIGHT, over_time(f"{of_used}used by running jobs", used, percent=True)),
        (_HEIGHT, over_time(f"{of_wasted}held by gangs that cannot run", wasted, percent=True)),
        (_HEIGHT + below, waits),
    ]
    if len(runs) == 1:
        jobs = runs[0].result.jobs
        nodes = sorted({str(node) for job in jobs for node in job.nodes})
        height = 1.0 + 2 * _LINE + 0.12 * min(len(nodes), _MOST_NODES)
        panels.insert(
            0, (height, lambda axis: _gantt(axis, jobs, nodes, (begin, end), scale, since))
        )
    return panels


def _share_of(names: Iterable[str]) -> str:
    """Return the beginning of a title: of which resource, or resources, the shares are."""
    known = sorted({name for name in names if name})
    if len(known) > 1:
        return f"Largest share, of {', '.join(known[:-1])} or {known[-1]},\n"
    return f"{known[0]} " if known else "Share "


def _legend(axis: Any) -> None:
    """Put the legend below a chart and the labels of its axis."""
    from matplotlib.transforms import ScaledTranslation

    below: Any = ScaledTranslation(0, -_LABELS, axis.figure.dpi_scale_trans)
    axis.legend(
        frameon=False,
        loc="upper left",
        bbox_to_anchor=(0, 0),
        bbox_transform=axis.transAxes + below,
        borderaxespad=0,
        labelspacing=0.2,
    )


def _gantt(
    axis: Any,
    jobs: Sequence[JobRow],
    nodes: list[str],
    span: tuple[float, float],
    scale: float,
    unit: str,
) -> None:
    """Draw a bar for each job on each of its nodes; jobs beside each other share a row."""
    begin, end = span
    shown = nodes[:_MOST_NODES]
    rows = {name: row for row, name in enumerate(shown)}
    colours: dict[str, int] = {}
    beside = _beside(jobs)
    bars = 0
    for job in jobs:
        colour = colours.setdefault(_root(job), len(colours))
        if job.started_at is None or bars >= _MOST_BARS:
            continue
        length = (end if job.finished_at is None else job.finished_at) - job.started_at
        left = (job.started_at - begin) / scale
        for node in job.nodes:
            row = rows.get(str(node))
            if row is not None:
                bars += 1
                family = beside.get((_root(job), node), [job.key])
                height = _BAR / len(family)
                middle = row + _BAR * ((family.index(job.key) + 0.5) / len(family) - 0.5)
                axis.barh(
                    middle,
                    length / scale,
                    left=left,
                    height=height,
                    color=f"C{colour % 10}",
                    alpha=0.6,
                    edgecolor="black",
                    linewidth=0.3,
                )
                if job.above and length >= _LABELLED * (end - begin) and len(family) <= _LABELS_OF:
                    label = "/".join(key.partition("/")[2] for key in (*job.above, job.key))
                    size = 6 / len(family)
                    axis.text(left, middle, f" {printable(label)}", va="center", fontsize=size)
    more = f": {len(shown)} of the {len(nodes)} nodes that were used" * (len(nodes) > len(shown))
    cut = f"\nonly the first {bars} bars, one for each job on each of its nodes"
    cut *= bars >= _MOST_BARS
    axis.set_title(f"Jobs on nodes{more}{cut}", loc="left", fontsize=_TITLE)
    axis.set_yticks(range(len(shown)), [printable(name) for name in shown], fontsize=6)
    axis.invert_yaxis()
    axis.set_xlim(0, max((end - begin) / scale, 1e-9))
    axis.set_xlabel(unit)


def _root(job: JobRow) -> str:
    """Return the root above a job, or the job."""
    return job.above[0] if job.above else job.key


def _beside(jobs: Iterable[JobRow]) -> dict[tuple[str, NodeName], list[str]]:
    """Return the groups below a root that were on a node, in the order of their paths."""
    found: dict[tuple[str, NodeName], list[str]] = {}
    for job in sorted((job for job in jobs if job.above), key=lambda job: (job.above, job.key)):
        for node in job.nodes:
            found.setdefault((_root(job), node), []).append(job.key)
    return found


def _waits(axis: Any, runs: Sequence[DrawnRun]) -> None:
    """Draw the distribution of waits: by the size of a job, or by policy if there are several."""
    series: list[tuple[str, list[float], int]] = []
    if len(runs) > 1:
        for run in runs:
            waits = [job.wait for job in run.result.jobs if job.wait is not None]
            left = len(run.result.jobs) - len(waits)
            more = f", {left} did not start" if left else ""
            series.append((f"{printable(run.name)}{more}", waits, len(run.result.jobs)))
    else:
        for name, least, most in (("1 pod", 1, 1), ("2 to 8", 2, 8), ("9 and more", 9, 10**9)):
            jobs = [job for job in runs[0].result.jobs if least <= job.size <= most]
            waits = [job.wait for job in jobs if job.wait is not None]
            if jobs:
                started = f"{name}: {len(waits)} of {len(jobs)} started"
                series.append((started, waits, len(jobs)))
    longest = max((max(waits, default=0.0) for _name, waits, _of in series), default=0.0) or 1.0
    has_decades = longest >= _DECADES_FROM
    scale, unit = (1.0, "") if has_decades else _unit(longest)
    for number, (name, waits, of) in enumerate(series):
        points = [(0.0, 0.0), *_thinned(steps(waits, of=of))]
        points.append((longest, points[-1][1]))
        xs, ys = [x / scale for x, _y in points], [y for _x, y in points]
        style = _STYLES[number % len(_STYLES)]
        axis.step(xs, ys, where="post", label=name, linestyle=style, linewidth=1.2)
    title = "Share of all jobs that started after waiting at most so long"
    axis.set_title(title, loc="left", fontsize=_TITLE)
    axis.set_xlabel(unit)
    if has_decades:
        axis.set_xscale("symlog", linthresh=1.0)
        ticks = [(at, text) for at, text in _TICKS if at <= longest]
        axis.set_xticks([at for at, _text in ticks], [text for _at, text in ticks])
        axis.minorticks_off()
    axis.set_xlim(0, longest / scale)
    axis.set_ylim(0, 1.05)
    axis.yaxis.set_major_formatter("{x:.0%}")
    if series:
        _legend(axis)


def _thinned(points: _Series) -> _Series:
    """Return at most so many points: the first, the last, and every n-th between them."""
    if len(points) <= _MOST_POINTS:
        return points
    every = -(-len(points) // _MOST_POINTS)
    return [*points[::every], points[-1]]


def _unit(longest: float) -> tuple[float, str]:
    """Return the unit of an axis: the largest of which it has two."""
    return next((each for each in _UNITS if longest >= 2 * each[0]), _UNITS[-1])
