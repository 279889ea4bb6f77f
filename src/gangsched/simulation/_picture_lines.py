"""Charts with a line for each run, or for each level, over the time of a picture.

Rules:
  R1  a line is a value that holds from its instant to the next; the last one holds to the end;
  R2  a line has a gap where its value is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, final

from attrs import frozen

from gangsched.quantity import MILLI
from gangsched.simulation.fragmentation import Fragmentation, levels_of
from gangsched.simulation.timeline import Timeline
from gangsched.values.text import printable

__all__ = ["STYLES", "Line", "TimeAxis", "legend", "level_charts", "queue_chart", "thinned"]

STYLES: Final = ("-", "--", "-.", ":")
_MOST_POINTS: Final = 2_000
_LABELS: Final = 0.45
"""The height of the labels of an axis, in inches."""
_MOST_LEVELS: Final = 4
"""How many levels are drawn; the report has all."""
_MOST_QUEUES: Final = 8
"""How many queues are drawn; the report has all."""
_Series = Sequence[tuple[float, float]]
_NAN: Final = float("nan")


@final
@frozen
class Line:
    """A line of a chart.

    Attributes:
        name: What the legend calls it.
        points: Instants, each with the value from then on.
        last: The instant until which the last value holds.
    """

    name: str
    points: _Series
    last: float


@final
@frozen
class TimeAxis:
    """The time that all charts of a picture have in common.

    Attributes:
        begin: The first instant, in seconds.
        end: The last instant.
        scale: How many seconds are one unit of the axis.
        unit: The name of the unit.
    """

    begin: float
    end: float
    scale: float
    unit: str

    def draw(
        self,
        axis: Any,
        *,
        title: str,
        lines: Sequence[Line],
        title_size: int,
        percent: bool = False,
        has_legend: bool = False,
    ) -> None:
        """Draw lines."""
        for number, line in enumerate(lines):
            points = line.points
            # what a run ends with is shown to its end
            thin = thinned([*points, (line.last, points[-1][1])] if points else points)
            xs = [max(at - self.begin, 0.0) / self.scale for at, _y in thin]
            style = STYLES[number % len(STYLES)]
            ys = [y for _at, y in thin]
            axis.step(xs, ys, where="post", label=line.name, linestyle=style, linewidth=1.2)
        axis.set_title(title, loc="left", fontsize=title_size)
        self.set_limits(axis)
        axis.set_ylim(0, 1.05 if percent else None)
        axis.yaxis.get_major_locator().set_params(integer=not percent)
        if percent:
            axis.yaxis.set_major_formatter("{x:.0%}")
        if has_legend:
            legend(axis)

    def set_limits(self, axis: Any) -> None:
        """Set the limits of the axis of time, and its name."""
        axis.set_xlabel(self.unit)
        axis.set_xlim(0, max((self.end - self.begin) / self.scale, 1e-9))


def level_charts(
    axis: TimeAxis, runs: Sequence[tuple[str, Timeline, float]], resource: str, title_size: int
) -> list[tuple[int, Callable[[Any], None]]]:
    """Return the charts of what is free in the domains of levels.

    Each is returned with the number of lines of its legend, which only the first of one run has:
    the lines of several runs are those of the charts above.

    Of one run there are two, with a line for each level: the largest amount in one domain, and the
    share in domains that are whole. Of several runs there is one for each level, with their shares.

    Args:
        axis: The time.
        runs: The name, the timeline and the end of each run.
        resource: Of which resource.
        title_size: The size of a title.
    """
    levels = list(dict.fromkeys(each for _n, run, _end in runs for each in levels_of(run.levels)))
    levels = levels[:_MOST_LEVELS] if resource else []

    def line(name: str, of: int, level: str, value: Callable[[Fragmentation], float]) -> Line:
        _name, timeline, last = runs[of]
        rows = ((p.at, r) for p in timeline.points for r in p.levels if r.level == level)
        return Line(printable(name), [(at, value(row)) for at, row in rows], last)

    def largest(row: Fragmentation) -> float:
        return row.largest_free.amount(resource) / MILLI

    def share(row: Fragmentation) -> float:
        return row.whole_share.get(resource, _NAN)

    def chart(title: str, lines: list[Line], *, percent: bool) -> tuple[int, Callable[[Any], None]]:
        has_legend = len(runs) == 1 and not percent
        more: dict[str, Any] = {"percent": percent, "has_legend": has_legend}
        draw = partial(
            axis.draw, title=printable(title), lines=lines, title_size=title_size, **more
        )
        return len(lines) * has_legend, draw

    if len(runs) > 1:
        return [
            chart(
                f"Share of the free {resource} that is in an empty {level}",
                [line(name, of, level, share) for of, (name, _t, _l) in enumerate(runs)],
                percent=True,
            )
            for level in levels
        ]
    if not levels:
        return []
    return [
        chart(
            f"Largest free {resource} in one domain",
            [line(level, 0, level, largest) for level in levels],
            percent=False,
        ),
        chart(
            f"Share of the free {resource} in empty domains",
            [line(level, 0, level, share) for level in levels],
            percent=True,
        ),
    ]


def queue_chart(
    axis: TimeAxis, timeline: Timeline, end: float, queues: Mapping[str, float], title_size: int
) -> tuple[int, Callable[[Any], None]]:
    """Return the chart of the dominant share of each queue, and the lines of its legend.

    Args:
        axis: The time.
        timeline: The timeline of the run.
        end: Its end.
        queues: The queues, with their mean shares; if there are many, the largest are drawn.
        title_size: The size of a title.
    """
    drawn = [*queues]
    if len(drawn) > _MOST_QUEUES:
        drawn = sorted(drawn, key=lambda name: -queues[name])[:_MOST_QUEUES]
    points: dict[str, list[tuple[float, float]]] = {name: [] for name in drawn}
    for point in timeline.points:
        for row in point.queues:
            if row.queue in points:
                points[row.queue].append((point.at, row.share))
    more = "" if len(drawn) == len(queues) else f", the largest {len(drawn)} of {len(queues)}"
    draw = partial(
        axis.draw,
        title=f"Dominant share of each queue{more}",
        lines=[Line(printable(name), each, end) for name, each in points.items()],
        title_size=title_size,
        percent=True,
        has_legend=True,
    )
    return len(drawn), draw


def legend(axis: Any) -> None:
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


def thinned(points: _Series) -> _Series:
    """Return at most so many points: the first, the last, and every n-th between them."""
    if len(points) <= _MOST_POINTS:
        return points
    every = -(-len(points) // _MOST_POINTS)
    return [*points[::every], points[-1]]
