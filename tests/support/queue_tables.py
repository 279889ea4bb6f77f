"""Whole tables of other schedulers' tests of queues, from ``testdata/judges/queues/tables``.

A file is the tables of one published file: its cases in the neutral format, and those that are not
translated, each with a word of ``WITHOUT_COUNTERPART``. Cases of one test may share an entry, with
their ``count``.

Rules:
  R1  a case holds if the victims are those of its own scheduler. Jobs of one queue with the same
      priority and the same requests stand for each other: which of them goes is no rule;
  R2  if its own scheduler finds victims, the job has to run after them, too. If it finds none, the
      table does not say whether the job fits as it is. If it refuses some victims, others may go;
  R3  a share holds if it is the same in thousandths, rounded up as there;
  R4  of a division, all jobs of all queues come at once, each of one unit of one resource, and
      what runs in the end is compared. A job that is evicted is pending again.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TypeAlias

from attrs import frozen

from support.judges import Case
from support.queue_cases import QueueHost, as_job, as_oracle
from support.queue_oracle import Job

__all__ = ["TABLES", "WITHOUT_COUNTERPART", "Table", "Victims", "holds", "play"]

_FOLDER: Final = Path(__file__).parents[1] / "testdata" / "judges" / "queues" / "tables"
_TINY: Final = 1e-12
"""Relative error of floating point."""

Victims: TypeAlias = frozenset[str]

WITHOUT_COUNTERPART: Final = {
    "flavors": "a resource has flavors, each with a quota of its own",
    "evicting": "a victim whose eviction has begun is preferred; the format has no such job",
    "fits": "the job fits as it is; the test calls what looks for victims all the same",
    "tier": "a queue has a priority",
    "spared": "a job cannot be preempted, and counts apart; no job is exempt here",
    "inner": "a part of the program is tested: its log, its order of candidates, its objects",
}
"""By the word that tables use: why a case is not translated."""


@frozen
class Table:
    """A table of the tests of another scheduler.

    Attributes:
        suite: What it is called on the page.
        source: The repository and the path.
        cases: The translated cases.
        without: By the word for the reason: how many cases are not translated.
    """

    suite: str
    source: Mapping[str, str]
    cases: tuple[Case, ...]
    without: Mapping[str, int]


def _table(path: Path) -> Table:
    raw: dict[str, Any] = json.loads(path.read_text())
    without = Counter[str]()
    for each in raw["without"]:
        without[each["reason"]] += each.get("count", 1)
    return Table(raw["suite"], raw["source"], tuple(raw["cases"]), without)


TABLES: Final = {path.stem: _table(path) for path in sorted(_FOLDER.glob("*.json"))}


def play(case: Case) -> tuple[bool, Victims]:
    """Submit the job of a case; return whether it runs, and who was evicted."""
    places = {each["name"]: each["node"] for each in case["running"] if "node" in each}
    nodes = {
        name: {resource: _milli(amount) for resource, amount in amounts.items()}
        for name, amounts in case.get("nodes", {}).items()
    }
    host = QueueHost(as_oracle(case), nodes=nodes, places=places)
    job = as_job(case["incoming"])
    host.submit(job)
    assert len(set(host.evicted)) == len(host.evicted)
    return job.name in host.running, frozenset(host.evicted)


def _shares(case: Case) -> dict[str, int | str]:
    """Return the shares that the scheduler lists; R3."""
    rows = QueueHost(as_oracle(case)).scheduler.quotas()
    return {row.name: _rounded(row.share) for row in rows if row.name in case["peer"]["share"]}


def _rounded(share: float) -> int | str:
    return "infinite" if math.isinf(share) else math.ceil(share * 1000 * (1 - _TINY))


def _division(case: Case) -> dict[str, dict[str, int]]:
    """Return what runs of each queue in the end, in thousandths; R4."""
    world = as_oracle(case)
    jobs = _demanded(case, world.running.values())
    host = QueueHost(world, recreates=True)
    host.submit(*jobs)
    by_name = {job.name: job for job in (*world.running.values(), *jobs)}
    running = [by_name[name] for name in host.running]
    return {
        queue: {name: _used(running, queue, name) for name in amounts}
        for queue, amounts in case["peer"]["division"].items()
    }


def _demanded(case: Case, running: Iterable[Job]) -> list[Job]:
    """Return the jobs that come: one of each queue in turn."""
    known, found = list(running), list[tuple[int, Job]]()
    for queue, amounts in case["demand"].items():
        for name, amount in amounts.items():
            most = min(amount, case["capacity"][name])  # the others could not run in any case
            left, unit = _milli(most) - _used(known, queue, name), _milli(case["unit"][name])
            for turn, begin in enumerate(range(0, left, unit)):
                requests = {name: min(unit, left - begin)}
                found.append((turn, Job(f"{queue}-{name}-{turn}", queue, requests)))
    return [job for _turn, job in sorted(found, key=itemgetter(0))]


def _used(jobs: Iterable[Job], queue: str, name: str) -> int:
    return sum(job.requests.get(name, 0) for job in jobs if job.queue == queue)


def _milli(amount: float) -> int:
    return round(amount * 1000)


def _alike(case: Case, names: Iterable[str]) -> Counter[tuple[object, ...]]:
    """Return jobs as R1 compares them."""
    running = {each["name"]: as_job(each) for each in case["running"]}
    jobs = [running[name] for name in names]
    return Counter((job.queue, job.priority, tuple(sorted(job.requests.items()))) for job in jobs)


def holds(case: Case) -> bool:
    """Return whether the scheduler does what the case's own scheduler does; R1 to R3."""
    if "share" in case["peer"]:
        expected_shares: dict[str, int | str] = case["peer"]["share"]
        return _shares(case) == expected_shares
    if "division" in case["peer"]:
        return _division(case) == {
            queue: {name: _milli(amount) for name, amount in amounts.items()}
            for queue, amounts in case["peer"]["division"].items()
        }
    runs, evicted = play(case)
    if "refused" in case["peer"]:
        return _alike(case, evicted) != _alike(case, case["peer"]["refused"])
    expected = [case["peer"]["evicted"], *case["peer"].get("or", ())]
    found = _alike(case, evicted)
    return any(found == _alike(case, each) and (runs or not each) for each in expected)
