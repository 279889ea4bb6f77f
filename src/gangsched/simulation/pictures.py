"""Pictures of a run and of a comparison: nodes over time, use, racks, shares of queues, waits.

Rules:
  R1  matplotlib is imported when something is drawn, not before; it is the extra ``pictures``;
  R2  the same run gives the same bytes;
  R3  a picture is one column that is as wide as a phone; on wide screens it does not grow;
  R4  a colour never stands alone: lines differ in their dashes, too;
  R5  a title says what is drawn: of which resource a share is, and what is left out;
  R6  a legend is below its chart, because lines may be anywhere in it;
  R7  time begins with the first pod. Waits of hours are drawn on a scale of decades, since most
      jobs wait for seconds.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import PurePath
from typing import Any, Final, final

from attrs import frozen

from gangsched.errors import InvalidValueError
from gangsched.simulation._picture_lines import (
    STYLES,
    Line,
    TimeAxis,
    legend,
    level_charts,
    queue_chart,
    thinned,
)
from gangsched.simulation._picture_nodes import NodeChart
from gangsched.simulation._picture_page import page_of
from gangsched.simulation.queue_usage import leaves_of
from gangsched.simulation.render import scarcest
from gangsched.simulation.report import Report
from gangsched.simulation.timeline import Timeline, queue_lengths, steps
from gangsched.values.text import printable

__all__ = ["FORMATS", "DrawnRun", "check_picture", "picture"]

FORMATS: Final = (".svg", ".html", ".png", ".pdf")
"""The endings of the files that can be drawn."""

_WIDTH: Final = 6.0
_HEIGHT: Final = 2.2
_TITLE: Final = 11
_SIZES: Final = 3
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

    One run has a chart of the nodes over time, too: a bar for each job on each of its nodes. With
    levels, nodes are ordered by block and rack, and there are charts of what is free in these. With
    queues, it has a chart of their shares.

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
    time = TimeAxis(begin, end, scale, f"{unit} since the first pod" if begin else unit)
    is_single = len(runs) == 1

    def over_time(title: str, series: list[_Series], *, percent: bool) -> Callable[[Any], None]:
        lines = [
            Line(printable(run.name), points, run.result.summary.end)
            for run, points in zip(runs, series, strict=True)
        ]
        # once: the lines are the same below
        has_legend = not percent and not is_single
        more: dict[str, Any] = {"percent": percent, "has_legend": has_legend}
        return partial(time.draw, title=title, lines=lines, title_size=_TITLE, **more)

    points = [run.timeline.points for run in runs]
    used: list[_Series] = [[(p.at, p.used_share[0]) for p in each] for each in points]
    wasted: list[_Series] = [[(p.at, p.wasted_share[0]) for p in each] for each in points]
    lengths: list[_Series] = [queue_lengths(run.result.jobs) for run in runs]
    of_used = _share_of(p.used_share[1] for each in points for p in each)
    of_wasted = _share_of(p.wasted_share[1] for each in points for p in each)
    panels: list[tuple[float, Callable[[Any], None]]] = [
        (
            _HEIGHT + (0.0 if is_single else _LINE * len(runs)),
            over_time("Number of jobs that wait", lengths, percent=False),
        ),
        (_HEIGHT, over_time(f"{of_used}used by running jobs", used, percent=True)),
        (_HEIGHT, over_time(f"{of_wasted}held by gangs that cannot run", wasted, percent=True)),
    ]
    resource = scarcest([run.result.summary for run in runs])
    timed = [(run.name, run.timeline, run.result.summary.end) for run in runs]
    for lines, draw in level_charts(time, timed, resource, _TITLE):
        panels.append((_HEIGHT + _LINE * lines, draw))
    queues = runs[0].result.summary.queues
    leaves = {name: queues[name].share for name in leaves_of(queues)}
    if is_single and leaves:
        lines, draw = queue_chart(time, runs[0].timeline, end, leaves, _TITLE)
        panels.append((_HEIGHT + _LINE * lines, draw))
    panels.append((_HEIGHT + _LINE * (_SIZES if is_single else len(runs)), partial(_waits, runs)))
    if is_single:
        chart = NodeChart(runs[0].result.jobs, runs[0].timeline, time)
        panels.insert(0, (1.0 + 2 * _LINE + chart.height, partial(chart.draw, title_size=_TITLE)))
    return panels


def _share_of(names: Iterable[str]) -> str:
    """Return the beginning of a title: of which resource, or resources, the shares are."""
    known = sorted({name for name in names if name})
    if len(known) > 1:
        return f"Largest share, of {', '.join(known[:-1])} or {known[-1]},\n"
    return f"{known[0]} " if known else "Share "


def _waits(runs: Sequence[DrawnRun], axis: Any) -> None:
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
        points = [(0.0, 0.0), *thinned(steps(waits, of=of))]
        points.append((longest, points[-1][1]))
        xs, ys = [x / scale for x, _y in points], [y for _x, y in points]
        style = STYLES[number % len(STYLES)]
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
        legend(axis)


def _unit(longest: float) -> tuple[float, str]:
    """Return the unit of an axis: the largest of which it has two."""
    return next((each for each in _UNITS if longest >= 2 * each[0]), _UNITS[-1])
