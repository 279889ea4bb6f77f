"""The table of ``kubernetes.py`` from its figures, and the page of the documentation with it.

    python benchmarks/kubernetes_table.py FILE [--page PAGE] [--mark NAME]

With ``--page`` the text between two marks of the page is replaced. No figure is written by hand.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

__all__ = ["add_round", "begin", "described", "page_with", "read", "table", "write"]

_IN_TREE: Final = "in-tree"
_OURS: Final = "gangsched"
_BARE: Final = "bare"
_FORMAT: Final = 1
_SHAPES: Final = (
    *("100x10", "20x50", "2x500", "10x50+500", "plain"),
    *("250x4 in racks", "125x2x4 in racks of blocks"),
)
"""In which order the table has them, whatever the order in which they were measured."""
_SECTIONS: Final = {
    "even": "Equal nodes",
    "uneven": "Nodes that differ by some KiB",
    "levels": "Gangs of 4 in one of 50 racks, and two of them in one of 5 blocks",
}

Document = dict[str, Any]


def read(file: Path | None) -> Document:
    """Return the figures that a file has already; a new document if it does not exist."""
    if file is not None and file.exists():
        document: Document = json.loads(file.read_text(encoding="utf-8"))
        if document.get("format") != _FORMAT:
            raise SystemExit(f"{file}: expected figures of format {_FORMAT}")
        return document
    return {"format": _FORMAT, "machine": {}, "load_before": {}, "notes": {}, "measured": {}}


def write(file: Path | None, document: Document) -> None:
    """Write the figures."""
    if file is not None:
        file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def described(document: Document, section: str) -> None:
    """Note the machine, and how busy it was before a section."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if "model name" in line), "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    document["machine"] = {
        "processor": model or platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / (1 << 30), 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }
    document["notes"].pop(section, None)
    document["load_before"][section] = round(os.getloadavg()[0], 2)


def begin(found: Document, shape: str, contestants: Sequence[str], *, resume: bool) -> None:
    """Prepare the figures of a section for more rounds of a shape.

    Rounds of other shapes stay. Those of *shape* stay if the measurement is resumed, but only if
    all contestants have them, and the same was measured as today.
    """
    before = found.get(shape, {})
    whole = set(before) == set(contestants) and all(
        "events" in each for name in (_IN_TREE, _OURS) for each in before[name]
    )
    if not (resume and whole):
        found.pop(shape, None)


def add_round(found: Document, shape: str, pair: Mapping[str, Any]) -> None:
    """Add one round of a shape: the figures of each contestant."""
    rounds = found.setdefault(shape, {name: [] for name in sorted(pair, reverse=True)})
    for name, figures in pair.items():
        rounds[name].append(figures)


def table(document: Document) -> str:
    """Return the table as Markdown."""
    machine, measured = document["machine"], document["measured"]
    parts = [
        f"{machine['cores']} cores ({machine['processor']}), {machine['memory_gib']} GiB,"
        f" {machine['system']}, Python {machine['python']}; the API server, etcd and the load run"
        " on the same cores."
    ]
    for section, title in _SECTIONS.items():
        if measured.get(section):
            parts += [f"**{title}**", _shapes(measured[section])]
    parts += [_legend(measured[each]) for each in _SECTIONS if measured.get(each)][:1]
    if moments := _moments(measured):
        head = "| | kube-scheduler | gangsched |\n|---|---|---|"
        parts += ["**Moments**", "\n".join([head, *moments])]
    if "flood" in measured:
        parts.append(_flood(measured["flood"]))
    parts += document["notes"].values()
    if document["load_before"]:
        load = ", ".join(f"{name} {load}" for name, load in document["load_before"].items())
        parts.append(f"Load of the machine before each part: {load}.")
    return "\n\n".join(parts)


def page_with(page: str, document: Document, mark: str = "figures") -> str:
    """Return a page with the table between its marks."""
    begins, ends = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    marked = re.compile(re.escape(begins) + ".*?" + re.escape(ends), re.DOTALL)
    if not marked.search(page):
        raise SystemExit(f"expected {begins} and {ends} in the page")
    return marked.sub(lambda _found: f"{begins}\n\n{table(document)}\n\n{ends}", page)


def _shapes(measured: dict[str, Any]) -> str:
    lines = [
        "| gangs x members | kube-scheduler, pods/s | gangsched, pods/s | ratio "
        "| bare client, pods/s | its ratio | CPU ms a pod | CPU ratio | spread ms | events "
        "| partial |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for shape in sorted(measured, key=_SHAPES.index):
        rounds = measured[shape]
        theirs, ours = rounds[_IN_TREE], rounds[_OURS]
        pairs = list(zip(theirs, ours, strict=True))
        cells = [
            shape,
            _three([each["pods_per_s"] for each in theirs], 0),
            _three([each["pods_per_s"] for each in ours], 0),
            _three(_ratios(theirs, ours), 1),
            *_bare(theirs, rounds.get(_BARE, ())),
            _change(rounds, "cpu_ms", 2),
            _three([our["cpu_ms"] / their["cpu_ms"] for their, our in pairs], 2),
            _change(rounds, "spread_ms", 0),
            _change(rounds, "events", 0) if "events" in ours[0] else "-",
            f"{sum(each['partial'] for each in theirs)} → {sum(each['partial'] for each in ours)}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _legend(measured: dict[str, Any]) -> str:
    first = next(iter(measured.values()))[_OURS][0]
    end = "includes the events" if "events" in first else "ends with the last bind"
    return (
        "Minimum/median/maximum of the rounds; a ratio is that of the two runs of a round. `a → b`"
        f" are medians of kube-scheduler and of gangsched. Processor time {end}."
    )


def _bare(theirs: Sequence[Any], bare: Sequence[Any]) -> tuple[str, str]:
    """Return the pods a second of the bare client, and their ratio; "-" where it took no part."""
    if not bare:
        return "-", "-"
    return _three([each["pods_per_s"] for each in bare], 0), _three(_ratios(theirs, bare), 1)


def _ratios(theirs: Sequence[Any], others: Sequence[Any]) -> list[float]:
    pairs = zip(theirs, others, strict=True)
    return [other["pods_per_s"] / their["pods_per_s"] for their, other in pairs]


def _moments(measured: dict[str, Any]) -> list[str]:
    rows: list[tuple[str, str, str]] = []
    for section, what in (
        ("wake-up", "wake-up, nodes 0.3 s after the failed attempt, s"),
        ("wake-up-late", "wake-up, nodes 2.5 s after it, s"),
        ("start-up", "start-up to leader, s"),
    ):
        if section in measured:
            found = measured[section]
            rows.append((what, _three(found[_IN_TREE], 3), _three(found[_OURS], 3)))
            for key, part in (
                ("first_s", "of it, until the first bind, s"),
                ("bare_s", "five binds of a bare client right after it, s"),
            ):
                if each := found.get(key):
                    rows.append((part, _three(each[_IN_TREE], 3), _three(each[_OURS], 3)))
    if cpu := measured.get("start-up", {}).get("cpu_s"):
        what = "processor time until then, s"
        rows.append((what, _three(cpu[_IN_TREE], 2), _three(cpu[_OURS], 2)))
    if "listing" in measured:
        theirs, ours = measured["listing"][_IN_TREE], measured["listing"][_OURS]
        for key, what, digits in (
            ("first_s", "first gang bound on a large cluster, s", 1),
            ("first_mb", "memory then, MB", 0),
            ("later_mb", "memory 10 s later, MB", 0),
        ):
            rows.append((what, f"{theirs[key]:.{digits}f}", f"{ours[key]:.{digits}f}"))
    if "churn" in measured:
        found = measured["churn"]
        minutes, rate = found["seconds"] / 60, found["pods_per_s"]
        rows += [
            (
                f"churn, {rate:.0f} pods/s for {minutes:.0f} min: a gang waits, median/99 %/max, s",
                "",
                f"{found['median_s']:.3f}/{found['p99_s']:.3f}/{found['longest_s']:.3f}",
            ),
            ("churn: gangs, partial, never whole", "", _counts(found)),
            _memory(found),
        ]
    return [f"| {' | '.join(row)} |" for row in rows]


def _flood(measured: dict[str, Any]) -> str:
    """Return the table of the floods; a ratio is that to the 99 % of the gangs without a flood."""
    lines = [
        "| unlike | alone, s | gangs | up to, s | beside, s | KB a pod | CPU ms a pod | MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind, found in measured.items():
        phases = found["phases"]
        alone = phases["alone"]["p99_s"]
        used = (f"{found['kb_a_pod']:.0f}", f"{found['cpu_ms_a_pod']:.1f}")
        sizes = [name.removeprefix("up to ") for name in phases if name.startswith("up to ")]
        for size in sizes:
            cells = [
                *((kind, _waits(phases["alone"])) if size == sizes[0] else ("", "")),
                size,
                *(_waits(phases[f"{when} {size}"], alone) for when in ("up to", "beside")),
                *((*used, f"{found['memory_mb']:.0f}") if size == sizes[-1] else ("", "", "")),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _waits(found: dict[str, Any], alone: float | None = None) -> str:
    waits = f"{found['median_s']:.3f}/{found['p99_s']:.3f}/{found['longest_s']:.3f}"
    return waits if alone is None else f"{waits} ({found['p99_s'] / alone:.1f})"


def _counts(found: dict[str, Any]) -> str:
    return f"{found['gangs']}, {found['partial']}, {found['waiting']}"


def _memory(found: dict[str, Any]) -> tuple[str, str, str]:
    if "minutes_mb" in found:
        minutes = ", ".join(f"{each:.0f}" for each in found["minutes_mb"])
        return ("churn: memory by minute, MB", "", minutes)
    early_and_late = f"{found['early_mb']:.0f}, {found['late_mb']:.0f}"  # as older files have it
    return ("churn: memory early and late, MB", "", early_and_late)


def _three(values: Sequence[float], digits: int) -> str:
    return "/".join(f"{value:.{digits}f}" for value in (min(values), median(values), max(values)))


def _change(rounds: dict[str, Any], key: str, digits: int) -> str:
    theirs, ours = (median(each[key] for each in rounds[name]) for name in (_IN_TREE, _OURS))
    return f"{theirs:.{digits}f} → {ours:.{digits}f}"


def main() -> None:
    """Print the table, or put it into a page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--mark", default="figures", help="the name of the marks in the page")
    options = parser.parse_args()
    document = read(options.file)
    if options.page is None:
        print(table(document))
    else:
        page = options.page.read_text(encoding="utf-8")
        options.page.write_text(page_with(page, document, options.mark), encoding="utf-8")


if __name__ == "__main__":
    main()
