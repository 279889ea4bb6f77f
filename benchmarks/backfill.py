"""How long do gangs of each size wait under each policy, and how much of the cluster is used?

The Philly trace (15,264 jobs, 42,192 pods) on 40 nodes of 8 GPUs under four policies: pod by pod
without gangs (`none`), gangs with a permit (`coscheduling`), gangs in one decision (`gang`), and
that with reservations for gangs that keep failing (`gang` + backfill), with exact run times and
with estimates that are wrong by a factor of up to 4. We would act if backfill did not shorten the
wait of the largest 5 % of the gangs.

    python benchmarks/backfill.py TRACE.csv [FOLDER]

Prints the tables of docs/explanation/backfill.md; draws ``backfill-waits.svg`` and
``backfill-use.svg`` into the folder. Takes some minutes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import mean
from typing import Any, Final, NamedTuple

from gangsched import AnnotatedRunTimes, Backfill, Effect, Event, Scheduler, presets
from gangsched.protocols import ClusterState
from gangsched.simulation import RUN_SECONDS, Simulator, Workload
from waits import load

_DAY: Final = 86_400.0
_GPU: Final = "nvidia.com/gpu"
_GPUS: Final = 320
_WIDTH: Final = 720

Maker = Callable[[ClusterState], Scheduler]


def _backfill(wrong_by: float = 1.0) -> Maker:
    policy = Backfill(AnnotatedRunTimes(RUN_SECONDS, wrong_by=wrong_by))
    return lambda cluster: presets.gang(cluster, backfill=policy)


POLICIES: Final[Mapping[str, tuple[Maker, str]]] = {
    "none": (presets.pod_by_pod, "#999999"),
    "coscheduling": (presets.coscheduling, "#8da0cb"),
    "gang": (presets.gang, "#fc8d62"),
    "gang + backfill": (_backfill(), "#1b9e77"),
    "… off by up to 4": (_backfill(4.0), "#a6d854"),
}
DRAWN: Final = tuple(POLICIES)[:4]


class Use:
    """How many GPUs are held by jobs that run, day by day."""

    def __init__(self) -> None:
        self.days: list[float] = []
        self._since, self._used = 0.0, 0.0

    def note(self, used: float, now: float) -> None:
        """Take note of how many are held from *now* on."""
        while self._since < now:
            day = int(self._since // _DAY)
            until = min((day + 1) * _DAY, now)
            self.days += [0.0] * (day + 1 - len(self.days))
            self.days[day] += self._used * (until - self._since) / _DAY
            self._since = until
        self._used = used


class Result(NamedTuple):
    """What became of the trace.

    Attributes:
        waits: How many seconds each job waited that started, by how many pods it has.
        never: How many jobs never started, though the run went on until nothing happened.
        largest: How many each of the largest 5 % of the gangs waited; of equals the first.
        use: How many GPUs were held by jobs that ran, by day.
        end: When the last job ended, in seconds.
        decisions: How many decisions were made.
    """

    waits: dict[int, list[float]]
    never: dict[int, int]
    largest: list[float]
    use: list[float]
    end: float
    decisions: int


def run(workload: Workload, make: Maker) -> Result:
    """Run the trace under a policy."""
    use = Use()

    class Watch:
        """Reads the accounts whenever an instant is over."""

        def event(self, event: Event, now: float) -> None:
            """Nothing to see."""

        def effects(self, effects: tuple[Effect, ...], now: float) -> None:
            """Nothing to see."""

        def settled(self, now: float) -> None:
            """Take note of what is held."""
            use.note(simulator.jobs.used.amounts().amount(_GPU) / 1000, now)

    simulator = Simulator(workload, make, observers=(Watch(),))
    end = simulator.run()
    waits: dict[int, list[float]] = {}
    never: dict[int, int] = {}
    gangs: list[tuple[int, float, float]] = []
    for job in simulator.jobs:
        assert job.submitted_at is not None
        size, wait = len(job.members), math.inf
        waits.setdefault(size, [])
        if job.started_at is None:
            never[size] = never.get(size, 0) + 1
        else:
            wait = job.started_at - job.submitted_at
            waits[size].append(wait)
        if size > 1:
            gangs.append((-size, job.submitted_at, wait))
    largest = [wait for _size, _at, wait in sorted(gangs)[: math.ceil(len(gangs) / 20)]]
    return Result(dict(sorted(waits.items())), never, largest, use.days, end, simulator.decisions)


def _mean(waits: list[float]) -> float:
    return mean(waits) if waits else math.inf


def _days(seconds: float) -> str:
    return f"{seconds / _DAY:.2f}" if seconds < math.inf else "never"


def tables(results: Mapping[str, Result]) -> str:
    """Return the tables, as Markdown."""
    first = results["gang"]
    head = " | ".join(results)
    lines = [f"| mean wait in days, by pods | jobs | {head} |"]
    lines.append("|---:|---:|" + "---:|" * len(results))

    def row(name: str, count: int, values: list[float]) -> None:
        cells = " | ".join(_days(value) for value in values)
        lines.append(f"| {name} | {count:,} | {cells} |")

    for size, jobs in first.waits.items():
        row(str(size), len(jobs), [_mean(result.waits[size]) for result in results.values()])
    all_waits = [[w for each in r.waits.values() for w in each] for r in results.values()]
    row("all", sum(len(each) for each in first.waits.values()), [mean(each) for each in all_waits])
    row("largest 5 % of the gangs", len(first.largest), [mean(r.largest) for r in results.values()])
    row("the longest of these", 1, [max(r.largest) for r in results.values()])
    lines += ["", f"| | {head} |", "|---|" + "---:|" * len(results)]
    last = max(len(result.use) for result in results.values())

    def facts(name: str, value: Callable[[Result], Any]) -> None:
        lines.append(f"| {name} | {' | '.join(value(each) for each in results.values())} |")

    facts("days until the last job has ended", lambda r: f"{r.end / _DAY:.1f}")
    facts("GPUs used, of 320, on days 11 to 100", lambda r: f"{mean(r.use[10:100]):.1f}")
    facts(f"GPUs used, of 320, over {last} days", lambda r: f"{sum(r.use) / last:.1f}")
    facts("jobs that never started", lambda r: f"{sum(r.never.values()):,}")
    facts("decisions", lambda r: f"{r.decisions:,}")
    return "\n".join(lines)


def _legend(names: tuple[str, ...]) -> list[str]:
    parts: list[str] = []
    for number, name in enumerate(names):
        x = 10 + number * 150
        parts.append(f'<rect x="{x}" y="34" width="14" height="14" fill="{POLICIES[name][1]}"/>')
        parts.append(f'<text x="{x + 20}" y="46">{name}</text>')
    return parts


def _drawing(title: str, height: float, parts: list[str]) -> str:
    begin = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" '
        'font-family="sans-serif" font-size="13">'
    )
    heading = f'<text x="10" y="22" font-size="16">{title}</text>'
    return "\n".join([begin, heading, *parts, "</svg>", ""])


def draw_waits(results: Mapping[str, Result]) -> str:
    """Return a drawing of the mean waits by size, in days, as SVG."""
    first, left, top, row = results["gang"], 150, 64, 62
    means = [_mean(each) for name in DRAWN for each in results[name].waits.values()]
    most = max(each for each in means if each < math.inf)
    scale = (_WIDTH - left - 70) / most
    parts = _legend(DRAWN)
    for number, (size, jobs) in enumerate(first.waits.items()):
        y = top + number * row
        label = f"{size} pod{'s' * (size > 1)} ({len(jobs):,})"
        parts.append(f'<text x="{left - 10}" y="{y + 32}" text-anchor="end">{label}</text>')
        for offset, name in enumerate(DRAWN):
            wait = _mean(results[name].waits[size])
            said = f"{wait / _DAY:.1f}" if wait < math.inf else "none started"
            never = results[name].never.get(size, 0)
            said += f", {never} never" if never and wait < math.inf else ""
            wait = wait if wait < math.inf else 0.0
            parts.append(
                f'<rect x="{left}" y="{y + 3 + offset * 13}" width="{wait * scale:.1f}" '
                f'height="12" fill="{POLICIES[name][1]}"/>'
            )
            parts.append(
                f'<text x="{left + wait * scale + 6:.1f}" y="{y + 13 + offset * 13}" '
                f'font-size="11">{said}</text>'
            )
    return _drawing(
        "Mean wait by size of the job, in days", top + row * len(first.waits) + 12, parts
    )


def draw_use(results: Mapping[str, Result]) -> str:
    """Return a drawing of the GPUs used by day, as SVG: a strip for each policy."""
    last = max(len(results[name].use) for name in DRAWN)
    left, top, strip = 46, 64, 96
    across = (_WIDTH - left - 20) / last
    parts = _legend(DRAWN)
    for number, name in enumerate(DRAWN):
        base = top + (number + 1) * strip - 14
        height = strip - 24
        points = "".join(
            f"L{left + day * across:.1f},{base - used / _GPUS * height:.1f}"
            f"L{left + (day + 1) * across:.1f},{base - used / _GPUS * height:.1f}"
            for day, used in enumerate(results[name].use)
        )
        end = left + len(results[name].use) * across
        parts.append(
            f'<path d="M{left},{base}{points}L{end:.1f},{base}Z" fill="{POLICIES[name][1]}"/>'
        )
        for amount in (0, _GPUS):
            y = base - amount / _GPUS * height
            parts.append(
                f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end" font-size="11">'
                f"{amount}</text>"
            )
            parts.append(
                f'<path d="M{left},{y:.1f}H{_WIDTH - 20}" stroke="#ccc" stroke-width="1"/>'
            )
    foot = top + len(DRAWN) * strip
    parts += [
        f'<text x="{left + day * across:.1f}" y="{foot + 4}" font-size="11">{day}</text>'
        for day in range(0, last, 20)
    ]
    return _drawing("GPUs held by jobs that run, of 320, by day", foot + 14, parts)


def main(arguments: list[str]) -> int:
    """Run the trace under each policy; print and draw what became of it."""
    if not arguments:
        print(__doc__)
        return 2
    workload = load(arguments[0])
    results: dict[str, Result] = {}
    for name, (make, _colour) in POLICIES.items():
        results[name] = run(workload, make)
        print(f"{name} is done", file=sys.stderr, flush=True)
    print(tables(results))
    if len(arguments) > 1:
        folder = Path(arguments[1])
        (folder / "backfill-waits.svg").write_text(draw_waits(results), encoding="utf-8")
        (folder / "backfill-use.svg").write_text(draw_use(results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
