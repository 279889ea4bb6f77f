"""Do gangs of any size wait longer with the unit group than with the unit pod?

The Philly trace (15,264 jobs, 42,192 pods) on 40 nodes of 8 GPUs, in both units, by order of
creation. We would act if a size waited longer for a reason. With backoffs of a millisecond, which
delay no job that fits, the two must be the same.

    python benchmarks/waits.py TRACE.csv [PICTURE.svg]

Prints a table of mean waits by size of the gang, and draws it. Takes two minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Final

from gangsched import Backoff, NodeAdded, Order, Scheduler, presets
from gangsched.protocols import ClusterState
from gangsched.simulation import Arrival, Simulator, Workload, load_trace, parse_nodes_shape

_HASTY: Final = Backoff(0.001, 0.001)
_DAY: Final = 86_400.0
_WIDTH, _ROW, _LEFT, _TOP = 720, 34, 150, 64
_COLOURS: Final = {"pod": "#8da0cb", "group": "#fc8d62"}

Maker = Callable[[ClusterState], Scheduler]
Waits = dict[int, list[float]]


def load(path: str) -> Workload:
    """Return a trace, and 40 nodes of 8 GPUs to run it on."""
    nodes = Workload(tuple(Arrival(0.0, NodeAdded(n)) for n in parse_nodes_shape("40x8")))
    with Path(path).open(encoding="utf-8") as lines:
        return nodes + load_trace(lines, file=path)


def pod(rest: Backoff | None) -> Maker:
    """Return what makes a scheduler that goes pod by pod."""
    return lambda cluster: presets.coscheduling(cluster, order=Order.CREATION, backoff=rest)


def group(rest: Backoff | None) -> Maker:
    """Return what makes a scheduler that decides about gangs."""
    return lambda cluster: presets.gang(cluster, order=Order.CREATION, backoff=rest)


def waits(workload: Workload, make: Maker) -> Waits:
    """Return how many seconds each job waited, by how many pods it has."""
    simulator = Simulator(workload, make)
    simulator.run()
    found: Waits = {}
    for job in simulator.jobs:
        assert job.started_at is not None, "a job never started"
        assert job.submitted_at is not None
        found.setdefault(len(job.members), []).append(job.started_at - job.submitted_at)
    return dict(sorted(found.items()))


def table(rows: dict[str, tuple[Waits, Waits]]) -> None:
    """Print the mean waits side by side."""
    print("pods   jobs  " + "  ".join(f"{name:>36}" for name in rows))
    print("             " + "  ".join(f"{'pod':>12}{'group':>12}{'ratio':>12}" for _ in rows))
    first, _second = next(iter(rows.values()))
    for size, values in first.items():
        cells = []
        for by_pod, by_group in rows.values():
            one, other = mean(by_pod[size]), mean(by_group[size])
            cells.append(f"{one:12,.0f}{other:12,.0f}{other / one:12.4f}")
        print(f"{size:4d} {len(values):6,}  " + "  ".join(cells))


def picture(by_pod: Waits, by_group: Waits) -> str:
    """Return a drawing of the mean waits, in days, as SVG."""
    most = max(mean(values) for values in (*by_pod.values(), *by_group.values()))
    scale = (_WIDTH - _LEFT - 90) / most
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} '
        f'{_TOP + _ROW * len(by_pod) + 12}" font-family="sans-serif" font-size="13">',
        '<text x="10" y="22" font-size="16">Mean wait by size of the job, in days</text>',
    ]
    for number, (unit, colour) in enumerate(_COLOURS.items()):
        x = 10 + number * 130
        parts.append(f'<rect x="{x}" y="34" width="14" height="14" fill="{colour}"/>')
        parts.append(f'<text x="{x + 20}" y="46">unit={unit}</text>')
    for number, size in enumerate(by_pod):
        y = _TOP + number * _ROW
        jobs = f"{size} pod{'s' * (size > 1)} ({len(by_pod[size]):,})"
        parts.append(f'<text x="{_LEFT - 10}" y="{y + 18}" text-anchor="end">{jobs}</text>')
        for offset, (unit, values) in enumerate((("pod", by_pod), ("group", by_group))):
            wait = mean(values[size])
            top = y + 3 + offset * 12
            width = wait * scale
            parts.append(
                f'<rect x="{_LEFT}" y="{top}" width="{width:.1f}" height="11" '
                f'fill="{_COLOURS[unit]}"/>'
            )
            parts.append(
                f'<text x="{_LEFT + width + 6:.1f}" y="{top + 10}" font-size="11">'
                f"{wait / _DAY:.2f}</text>"
            )
    return "\n".join([*parts, "</svg>", ""])


def main(arguments: list[str]) -> int:
    """Run the trace in both units; print and draw the waits."""
    if not arguments:
        print(__doc__)
        return 2
    workload = load(arguments[0])
    rows = {
        name: (waits(workload, pod(rest)), waits(workload, group(rest)))
        for name, rest in (("rests of 1 ms", _HASTY), ("rests of 1 s to 10 s", None))
    }
    table(rows)
    if len(arguments) > 1:
        Path(arguments[1]).write_text(picture(*rows["rests of 1 ms"]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
