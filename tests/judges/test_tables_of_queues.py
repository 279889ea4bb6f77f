"""Whole tables of other schedulers' tests of queues, and where the results differ.

Each case that can be said here is played. Its victims are those of its own scheduler, or
``DIFFERENCES`` has the word for the reason. The page shows all of them, with their number.
"""

from __future__ import annotations

from typing import Final

import pytest

from support.judges import Case, Tree
from support.page_tables import page_text, tables_of
from support.queue_cases import as_job, as_oracle
from support.queue_oracle import cost
from support.queue_tables import TABLES, WITHOUT_COUNTERPART, holds, play

DIFFERENCES: Final = {
    "kai-division-04": "entitled",
    "kai-division-05": "weightless",
    "kai-division-06": "weightless",
    "kai-division-08": "weightless",
    "kai-division-12": "weightless",
    "kai-division-17": "weightless",
    "kai-division-18": "weightless",
    "kai-division-23": "turn",
    "kai-division-30": "entitled",
    "kai-division-31": "weightless",
    "kai-division-32": "entitled",
    "kai-division-35": "entitled",
    "kai-division-38": "entitled",
    "kai-division-40": "entitled",
    "kai-division-42": "entitled",
    "kai-division-46": "entitled",
    "kai-division-47": "weightless",
    "kai-division-48": "entitled",
    "kai-division-51": "entitled",
    "kai-division-54": "entitled",
    "kai-division-56": "entitled",
    "kai-division-58": "entitled",
    "kai-division-59": "entitled",
    "kai-division-60": "entitled",
    "kai-division-62": "entitled",
    "kai-division-64": "entitled",
    "kai-reclaimable-25": "fair",
    "kai-reclaimable-34": "dominant",
    "kueue-classical-08": "choice",
    "kueue-classical-09": "choice",
    "kueue-classical-22": "newer",
    "kueue-classical-23": "borrows",
    "kueue-classical-26": "never",
    "kueue-classical-28": "borrows",
    "kueue-classical-29": "choice",
    "kueue-fair-02": "choice",
    "kueue-fair-04": "choice",
    "kueue-fair-12": "initial",
    "kueue-fair-14": "initial",
    "kueue-fair-18": "initial",
    "kueue-fair-21": "initial",
    "kueue-fair-25": "choice",
    "kueue-fair-28": "initial",
    "kueue-fair-35": "initial",
    "kueue-hierarchical-04": "borrows",
    "kueue-hierarchical-05": "choice",
    "kueue-hierarchical-06": "borrows",
    "kueue-hierarchical-08": "borrows",
    "volcano-ancestor-05": "levels",
    "volcano-ancestor-06": "levels",
    "yunikorn-12": "whole",
    "yunikorn-13": "whole",
    "yunikorn-15": "whole",
}
"""By case: the word that the page explains."""
_TOO_MANY: Final = 12
"""The oracle tries all sets of so many jobs, and of no more. It knows no nodes."""
_PAGE: Final = "explanation/conformance-of-queues.md"
_CASES: Final = {case["id"]: case for table in TABLES.values() for case in table.cases}
_OF_JOBS: Final = [
    pytest.param(case, id=name)
    for name, case in _CASES.items()
    if case["peer"].keys() & {"evicted", "refused"}
    and len(case["running"]) <= _TOO_MANY
    and "nodes" not in case
]


@pytest.mark.parametrize("case", _CASES.values(), ids=_CASES)
def test_case_of_a_table_has_the_result_of_its_own_scheduler(case: Case) -> None:
    assert holds(case) != (case["id"] in DIFFERENCES)


@pytest.mark.parametrize("case", _OF_JOBS)
def test_job_of_a_table_is_admitted_by_one_of_the_plans(case: Case) -> None:
    plans = as_oracle(case).plans(as_job(case["incoming"]))
    runs, evicted = play(case)
    assert runs == bool(plans)
    assert evicted in (plans or [frozenset()])


@pytest.mark.parametrize("case", _OF_JOBS)
def test_case_that_differs_does_so_by_rule_or_by_choice(case: Case) -> None:
    """By choice: its victims would be a plan, which does not cost less; else no plan has them."""
    plans = as_oracle(case).plans(as_job(case["incoming"]))
    assert frozenset(case["peer"].get("refused", ["none"])) not in plans
    expected = frozenset(case["peer"].get("evicted", ()))
    match DIFFERENCES.get(case["id"]):
        case None:
            return
        case "choice":
            assert expected in plans
            _runs, evicted = play(case)
            assert _cost(case, evicted) <= _cost(case, expected)
        case "never":
            assert expected == frozenset(), "it spares what may go here"
            assert plans
        case _:
            assert expected not in plans


def _cost(case: Case, names: frozenset[str]) -> tuple[list[int], int]:
    return cost(as_oracle(case).running[name] for name in names)


def test_division_that_differs_exceeds_the_cluster_or_has_a_queue_without_weight() -> None:
    for name, case in _CASES.items():
        if name in DIFFERENCES and "division" in case["peer"]:
            exceeds = any(_entitled(case, r) > amount for r, amount in case["capacity"].items())
            assert exceeds == (DIFFERENCES[name] == "entitled")
            no_weight = any(queue.get("weight") == 0 for queue in case["queues"])
            assert exceeds or no_weight == (DIFFERENCES[name] == "weightless")


def _entitled(case: Case, name: str) -> float:
    """Return what queues want of what they have by themselves."""
    nominal = {queue["name"]: queue["nominal"].get(name, 0) for queue in case["queues"]}
    wanted: list[float] = [min(of.get(name, 0), nominal[q]) for q, of in case["demand"].items()]
    return sum(wanted)


# Defects, in short --------------------------------------------------------------------------------


def _short(*running: Tree, nominal: int, more: Tree) -> Case:
    """Return a case in which queue a has 2 CPUs and takes them back from queue b."""
    queues: list[Tree] = [
        {"name": "root"},
        {"name": "a", "parent": "root", "nominal": {"cpu": 2}},
        {"name": "b", "parent": "root", "nominal": {"cpu": nominal}},
    ]
    incoming: Tree = {"name": "in", "queue": "a", "requests": {"cpu": 2, **more}}
    return {"queues": queues, "running": running, "incoming": incoming}


def _in_b(name: str, priority: int) -> Tree:
    return {"name": name, "queue": "b", "requests": {"cpu": 1}, "priority": priority}


def test_of_ten_jobs_that_may_go_the_one_of_the_lowest_priority_goes() -> None:
    ten = [_in_b("lowest", 1), *(_in_b(f"b{n}", 2) for n in range(9))]
    _runs, evicted = play(_short(*ten, nominal=8, more={}))
    assert "lowest" in evicted


def test_job_takes_back_though_it_requests_what_no_queue_has() -> None:
    case = _short(_in_b("b1", 0), _in_b("b2", 0), nominal=0, more={"mem": 1})
    assert play(case) == (True, frozenset({"b1", "b2"}))


# The page -----------------------------------------------------------------------------------------


def test_page_counts_the_cases_of_each_table() -> None:
    rows: list[list[str]] = []
    for name, table in TABLES.items():
        differ = sum(1 for case in table.cases if case["id"] in DIFFERENCES)
        without = sum(table.without.values())
        hold = len(table.cases) - differ
        numbers = (len(table.cases) + without, hold, differ, without)
        rows.append([f"`{name}`", table.suite, *map(str, numbers)])
    (shown,) = tables_of(_PAGE, "## How many hold")
    assert sorted(shown[:-1]) == sorted(rows)
    totals = [str(sum(int(row[column]) for row in rows)) for column in range(2, 6)]
    assert shown[-1][2:] == totals


def test_page_lists_each_difference_with_its_reason() -> None:
    reasons, shown = tables_of(_PAGE, "## What differs")
    assert {word.strip("`") for word, _reason in reasons} == set(DIFFERENCES.values())
    rows = [[f"`{name}`", _CASES[name]["case"], f"`{word}`"] for name, word in DIFFERENCES.items()]
    assert shown == sorted(rows)


def test_page_groups_the_cases_without_a_counterpart_by_reason() -> None:
    (shown,) = tables_of(_PAGE, "## What has no counterpart")
    rows = [
        [f"`{word}`", f"`{name}`", str(number)]
        for word in WITHOUT_COUNTERPART
        for name, table in TABLES.items()
        if (number := table.without.get(word))
    ]
    assert [[row[0], row[2], row[3]] for row in shown] == rows
    assert all(WITHOUT_COUNTERPART[row[0].strip("`")] == row[1] for row in shown)


def test_page_names_the_source_of_each_table() -> None:
    text = page_text(_PAGE)
    assert [t.source["path"] for t in TABLES.values() if t.source["path"] not in text] == []


def test_cases_of_tables_have_names_of_their_own() -> None:
    cases = [case for table in TABLES.values() for case in table.cases]
    assert len({case["id"] for case in cases}) == len(cases)
    assert DIFFERENCES.keys() <= _CASES.keys()
