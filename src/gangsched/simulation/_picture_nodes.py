"""The chart of the nodes over time: which job was on which node, rack by rack.

Rules:
  R1  a bar is a job on a node, from the first of its pods there to the last. It is pale until the
      work of the job begins: what it holds then is wasted;
  R2  the groups below one group, and the copies of a role, are drawn next to each other in one
      colour, with their paths; every second one is darker;
  R3  with levels, nodes are ordered by block and rack, and the name of the rack is beside its rows.
      A line is between racks, and a longer one between blocks. Of several topologies the first
      counts;
  R4  a node is grey while it is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, final

from attrs import frozen

from gangsched.model import NodeName
from gangsched.primitives.gang_tree import HOST
from gangsched.simulation._picture_lines import TimeAxis
from gangsched.simulation.fragmentation import domain_of
from gangsched.simulation.jobs import JobRow
from gangsched.simulation.timeline import Stay, Timeline
from gangsched.values.text import printable

__all__ = ["MOST_BARS", "MOST_NODES", "NodeChart"]

MOST_NODES: Final = 48
MOST_BARS: Final = 4_000

_BAR: Final = 0.8
"""The height of a bar, of which groups below one group and copies each have a part."""
_LABELLED: Final = 0.2
"""Which part of the time a bar must have to be labelled."""
_LABELS_OF: Final = 3
"""How many of these have labels on a node."""
_NAMES: Final = 6
_ROW: Final = 0.12
"""The height of a row, in inches."""
_PALE: Final = 0.15
_SHADES: Final = (0.6, 0.85)
_Path = tuple[str, ...]
_Kin = tuple[str, ...]
"""The keys of the groups above a job, its key, and the path of a copy: what orders siblings."""


@final
@frozen(eq=False)
class NodeChart:
    """The nodes of a run over its time.

    Attributes:
        jobs: The jobs.
        timeline: Who was on which node.
        time: The time of the picture.
    """

    jobs: Sequence[JobRow]
    timeline: Timeline
    time: TimeAxis

    @property
    def height(self) -> float:
        """The height of all rows, in inches; more if siblings share a row."""
        return _ROW * min(len(self.nodes), MOST_NODES) * self._crowd

    @property
    def _crowd(self) -> int:
        """How many siblings share a row at most, as far as they have labels."""
        return min(max(map(len, self._beside.values()), default=1), _LABELS_OF)

    @property
    def _beside(self) -> dict[tuple[str, NodeName], list[_Kin]]:
        return _beside(self.timeline.stays, {job.key: job for job in self.jobs})

    @property
    def nodes(self) -> list[str]:
        """The nodes that were used, by block and rack, then by name; nodes in no rack last."""
        used = {str(stay.node) for stay in self.timeline.stays}
        return sorted(used, key=lambda name: (*self._place(name), name))

    def _place(self, name: str) -> tuple[bool, _Path]:
        path = self.domain(name)
        return path is None, path or ()

    def domain(self, name: str) -> _Path | None:
        """Return the values of the levels of a node above the node itself; None without levels."""
        timeline = self.timeline
        keys = [key for keys in timeline.levels.topologies[:1] for key in keys if key != HOST]
        node = timeline.node(NodeName(name))
        if node is None or not keys:
            return None
        found = (domain_of(node, key, timeline.levels) for key in reversed(keys))
        return next((path for path in found if path is not None), None)

    def draw(self, axis: Any, *, title_size: int) -> None:
        """Draw a bar for each stay of a job on a node; siblings share the row of a node."""
        nodes = self.nodes
        shown = nodes[:MOST_NODES]
        rows = {name: row for row, name in enumerate(shown)}
        gone = self._absences(axis, rows)
        bars = self._bars(axis, rows)
        self._domains(axis, shown)
        more = f": {len(shown)} of the {len(nodes)} nodes that were used"
        more *= len(nodes) > len(shown)
        cut = f"\nonly the first {bars} bars, one for each job on each of its nodes"
        cut *= bars >= MOST_BARS
        grey = "\ngrey: the node is not there" * gone
        axis.set_title(f"Jobs on nodes{more}{cut}{grey}", loc="left", fontsize=title_size)
        axis.set_yticks(range(len(shown)), [printable(name) for name in shown], fontsize=_NAMES)
        axis.set_ylim(max(len(shown), 1) - 0.5, -0.5)
        self.time.set_limits(axis)

    def _bars(self, axis: Any, rows: Mapping[str, int]) -> int:
        """Draw the bars; return how many there are."""
        begin, end, scale = self.time.begin, self.time.end, self.time.scale
        jobs = {job.key: job for job in self.jobs}
        colours: dict[str, int] = {}
        for each in self.jobs:
            colours.setdefault(_root(each), len(colours))
        beside, crowd = self._beside, self._crowd
        bars = 0
        for stay in self.timeline.stays:
            row, job = rows.get(str(stay.node)), jobs.get(stay.job)
            until = end if stay.until is None else min(stay.until, end)
            if row is None or job is None or until <= stay.since or bars >= MOST_BARS:
                continue
            bars += 1
            kin = beside.get((_root(job), stay.node), [_kin(stay, job)])
            place = kin.index(_kin(stay, job))
            height = _BAR / len(kin)
            middle = row + _BAR * ((place + 0.5) / len(kin) - 0.5)
            works = until if job.started_at is None else job.started_at
            works = min(max(works, stay.since), until)
            for since, to, alpha in (
                (stay.since, works, _PALE),
                (works, until, _SHADES[place % len(_SHADES)] if len(kin) > 1 else _SHADES[0]),
            ):
                if to > since:
                    axis.barh(
                        middle,
                        (to - since) / scale,
                        left=(since - begin) / scale,
                        height=height,
                        color=f"C{colours[_root(job)] % 10}",
                        alpha=alpha,
                        edgecolor="black",
                        linewidth=0.3,
                    )
            is_long = until - stay.since >= _LABELLED * (end - begin)
            if (job.above or stay.part) and is_long and len(kin) <= _LABELS_OF:
                left = (stay.since - begin) / scale
                size = min(_NAMES * crowd / len(kin), _NAMES)
                text = f" {printable(_label(stay, job))}"
                axis.text(left, middle, text, va="center", fontsize=size, clip_on=True)
        return bars

    def _absences(self, axis: Any, rows: Mapping[str, int]) -> bool:
        """Draw when nodes were not there; return whether any was not."""
        begin, end, scale = self.time.begin, self.time.end, self.time.scale
        found = False
        for name, spans in self.timeline.absences.items():
            row = rows.get(str(name))
            for since, until in spans if row is not None else ():
                width = (end if until is None else min(until, end)) - since
                left, found = (since - begin) / scale, True
                axis.barh(row, width / scale, left=left, height=1.0, color="0.85", zorder=0)
        return found

    def _domains(self, axis: Any, shown: Sequence[str]) -> None:
        """Write the names of domains beside their rows, and draw lines between them."""
        beside = axis.get_yaxis_transform()
        first = 0
        before: _Path | None = None
        for path, names in groupby(shown, key=self.domain):
            count = len(list(names))
            if first:
                is_new = (path or ())[:1] != (before or ())[:1]
                reach = 1.12 if is_new else 1.0
                line = {"color": "0.4", "linewidth": 0.6, "clip_on": False}
                axis.plot([0, reach], [first - 0.5] * 2, transform=beside, **line)
            if path is not None:
                text = f" {printable('/'.join(path))}"
                middle = first + (count - 1) / 2
                axis.text(1.0, middle, text, transform=beside, va="center", fontsize=_NAMES)
            first, before = first + count, path


def _root(job: JobRow) -> str:
    """Return the root above a job, or the job."""
    return job.above[0] if job.above else job.key


def _kin(stay: Stay, job: JobRow) -> _Kin:
    return (*job.above, job.key, stay.part)


def _label(stay: Stay, job: JobRow) -> str:
    names = [key.partition("/")[2] for key in (*job.above, job.key)]
    return "/".join([*names, stay.part] if stay.part else names)


def _beside(
    stays: Iterable[Stay], jobs: Mapping[str, JobRow]
) -> dict[tuple[str, NodeName], list[_Kin]]:
    """Return the groups below a root, and the copies, that were on a node, in their order."""
    found: dict[tuple[str, NodeName], set[_Kin]] = {}
    for stay in stays:
        job = jobs.get(stay.job)
        if job is not None:
            found.setdefault((_root(job), stay.node), set()).add(_kin(stay, job))
    return {place: sorted(kin) for place, kin in found.items()}
