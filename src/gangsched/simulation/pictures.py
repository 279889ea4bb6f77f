"""Pictures of a run and of a comparison: nodes over time, the queue, the use, the waits.

Rules:
  R1  matplotlib is imported when something is drawn, not before; it is the extra ``pictures``;
  R2  the same run gives the same bytes;
  R3  a picture is one column that is as wide as a phone; on wide screens it does not grow;
  R4  a colour never stands alone: lines differ in their dashes, too;
  R5  a title says what is drawn: of which resource a share is, and what is left out;
  R6  a legend is below its chart, because lines may be anywhere in it.
"""

from __future__ import annotations

import html
import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import Any, Final, final

from attrs import frozen

from gangsched._text import printable
from gangsched.errors import InvalidValueError
from gangsched.simulation.jobs import JobRow
from gangsched.simulation.report import Report
from gangsched.simulation.timeline import Timeline, queue_lengths, steps

__all__ = ["FORMATS", "DrawnRun", "check_picture", "picture"]

FORMATS: Final = (".svg", ".html", ".png", ".pdf")
"""The endings of the files that can be drawn."""

_MOST_NODES: Final = 48
_MOST_POINTS: Final = 2_000
_MOST_BARS: Final = 4_000
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
_LINE: Final = 0.22
"""The height of a line of a legend or a title, in inches."""
_PAGE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>body {{ margin: 0 auto; max-width: 44rem; background: #fff; font-family: sans-serif }}
h1 {{ font-size: 1.2rem }}
pre {{ overflow-x: auto }}
svg {{ width: 100%; height: auto }}</style>
<h1>{title}</h1>
{summary}{svg}
</html>
"""

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


def picture(runs: Sequence[DrawnRun], *, ending: str, summary: str = "") -> bytes:
    """Draw one run, or several in one picture.

    One run has a chart of the nodes over time, too: a bar for each job on each of its nodes.

    Runtime complexity: O(jobs log jobs), and O(points).

    Args:
        runs: The runs.
        ending: One of ``FORMATS``.
        summary: The figures of the runs as text, which an HTML page shows above the charts.

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
        figure: Any = Figure(figsize=(_WIDTH, sum(heights)), layout="constrained")
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
    title = html.escape("gangsched: " + ", ".join(printable(run.name) for run in runs))
    shown = f"<pre>{html.escape(summary)}</pre>\n" if summary else ""
    svg = text[text.index("<svg") :]
    return _PAGE.format(title=title, summary=shown, svg=svg).encode("utf-8")


def _panels(runs: Sequence[DrawnRun]) -> list[tuple[float, Callable[[Any], None]]]:
    """Return the height of each panel, and what draws it."""
    end = max(run.result.summary.end for run in runs)
    scale, unit = _unit(end)
    names = [printable(run.name) for run in runs]

    def over_time(title: str, series: list[_Series], *, percent: bool) -> Callable[[Any], None]:
        def draw(axis: Any) -> None:
            for number, (name, points) in enumerate(zip(names, series, strict=True)):
                style = _STYLES[number % len(_STYLES)]
                # what a run ends with is shown to its end
                last = runs[number].result.summary.end
                thin = _thinned([*points, (last, points[-1][1])] if points else points)
                xs, ys = [at / scale for at, _y in thin], [y for _at, y in thin]
                axis.step(xs, ys, where="post", label=name, linestyle=style, linewidth=1.2)
            axis.set_title(title, loc="left", fontsize=_TITLE)
            axis.set_xlabel(unit)
            axis.set_xlim(0, max(end / scale, 1e-9))
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
    used: list[_Series] = [[(p.at, p.used) for p in each] for each in points]
    wasted: list[_Series] = [[(p.at, p.wasted) for p in each] for each in points]
    queues: list[_Series] = [queue_lengths(run.result.jobs) for run in runs]
    of_used = _share_of(p.used_of for each in points for p in each)
    of_wasted = _share_of(p.wasted_of for each in points for p in each)
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
        panels.insert(0, (height, lambda axis: _gantt(axis, jobs, nodes, end, scale, unit)))
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
    axis: Any, jobs: Sequence[JobRow], nodes: list[str], end: float, scale: float, unit: str
) -> None:
    """Draw a bar for each job on each of its nodes; jobs beside each other share a row."""
    shown = nodes[:_MOST_NODES]
    rows = {name: row for row, name in enumerate(shown)}
    bars = 0
    for number, job in enumerate(jobs):
        if job.started_at is None or bars >= _MOST_BARS:
            continue
        length = (end if job.finished_at is None else job.finished_at) - job.started_at
        for node in job.nodes:
            row = rows.get(str(node))
            if row is not None:
                bars += 1
                axis.barh(
                    row,
                    length / scale,
                    left=job.started_at / scale,
                    height=0.8,
                    color=f"C{number % 10}",
                    alpha=0.6,
                    edgecolor="black",
                    linewidth=0.3,
                )
    more = f": {len(shown)} of the {len(nodes)} nodes that were used" * (len(nodes) > len(shown))
    cut = f"\nonly the first {bars} bars, one for each job on each of its nodes"
    cut *= bars >= _MOST_BARS
    axis.set_title(f"Jobs on nodes{more}{cut}", loc="left", fontsize=_TITLE)
    axis.set_yticks(range(len(shown)), [printable(name) for name in shown], fontsize=6)
    axis.invert_yaxis()
    axis.set_xlim(0, max(end / scale, 1e-9))
    axis.set_xlabel(unit)


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
    scale, unit = _unit(longest)
    for number, (name, waits, of) in enumerate(series):
        points = [(0.0, 0.0), *_thinned(steps(waits, of=of))]
        points.append((longest, points[-1][1]))
        xs, ys = [x / scale for x, _y in points], [y for _x, y in points]
        style = _STYLES[number % len(_STYLES)]
        axis.step(xs, ys, where="post", label=name, linestyle=style, linewidth=1.2)
    title = "Share of all jobs that started after waiting at most so long"
    axis.set_title(title, loc="left", fontsize=_TITLE)
    axis.set_xlabel(unit)
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
