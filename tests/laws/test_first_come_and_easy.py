"""First-come policies and backfill start each job when an independent event loop does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import AnnotatedRunTimes, Backfill, NodeAdded, Order, presets
from gangsched.simulation import (
    RUN_SECONDS,
    Arrival,
    Simulator,
    Workload,
    load_trace,
    parse_nodes_shape,
    report,
)
from support.event_loop import Job, Loop, Places, first_fit, strict, with_easy
from support.examples import one_in

pytestmark = pytest.mark.once("the simulator runs the unit group")

_EXACT = Backfill(AnnotatedRunTimes(RUN_SECONDS))
_COLUMNS = "job,submit_s,workers,gpus_per_worker,duration_s,priority"


@st.composite
def jobs(draw: st.DrawFn, *, priorities: int = 0, most: int = 14) -> list[Job]:
    """Return jobs in the order of their arrival, of which some may never fit."""
    drawn = st.tuples(
        *(st.integers(0, 40), st.integers(1, 6), st.integers(1, 3), st.integers(1, 60)),
        st.integers(0, priorities),
    )
    rows = sorted(draw(st.lists(drawn, max_size=most)), key=lambda row: row[0])
    return [Job(n, at, w, g, d, p) for n, (at, w, g, d, p) in enumerate(rows)]


def starts_of(given: Sequence[Job], nodes: str, **named: Any) -> tuple[dict[int, float], Any]:
    """Return when each job starts in a simulation, and on which nodes."""
    is_strict = named.pop("strict_order", False)
    rows = [f"{j.number},{j.at},{j.pods},{j.gpus},{j.seconds},{j.priority}" for j in given]
    fleet = parse_nodes_shape(nodes)
    run = Simulator(
        Workload([Arrival(0.0, NodeAdded(node)) for node in fleet])
        + load_trace([_COLUMNS, *rows], file="t.csv"),
        lambda cluster: presets.gang(cluster, order=Order.CREATION, **named),
        strict_order=is_strict,
    )
    run.run()
    names = {node.name: n for n, node in enumerate(fleet)}
    found: dict[int, float] = {}
    places: dict[int, Places] = {}
    for row in report(run).jobs:
        if row.started_at is not None:
            number = int(row.key.removeprefix("default/"))
            found[number] = row.started_at
            each = zip(row.nodes, row.pods_per_node, strict=True)
            places[number] = {names[node]: count for node, count in each}
    return found, lambda job, _free: places.get(job.number, {})


@one_in(6)
@given(jobs(priorities=1))
@pytest.mark.parametrize(
    ("is_strict", "decide"), [(True, strict), (False, first_fit)], ids=["fifo", "first_fit"]
)
def test_first_come_policies_start_jobs_when_an_event_loop_does(
    is_strict: bool, decide: Callable[[Loop], None], given: list[Job]
) -> None:
    found, places = starts_of(given, "3x4", strict_order=is_strict)
    assert Loop([4, 4, 4], places).run(given, decide) == found


@one_in(6)
@given(jobs())
def test_backfill_on_one_node_starts_jobs_when_easy_does(given: list[Job]) -> None:
    found, places = starts_of(given, "1x8", backfill=_EXACT)
    assert Loop([8], places).run(given, with_easy) == found


def test_job_that_a_new_reservation_exempts_starts_before_a_younger_one() -> None:
    """When *b* starts, *c* is reserved for until 32: *d* ends by then, and *e* came later."""
    rows = [(4, 2, 2, 21), (9, 1, 2, 23), (10, 4, 2, 29), (21, 2, 2, 7), (25, 3, 2, 6)]
    found, _places = starts_of([Job(n, *row) for n, row in enumerate(rows)], "1x8", backfill=_EXACT)
    assert found == {0: 4.0, 1: 9.0, 2: 32.0, 3: 25.0, 4: 61.0}


def test_first_come_passes_over_no_job_that_a_higher_priority_took_the_nodes_from() -> None:
    rows = [(0, 3, 3, 19, 0), (12, 4, 2, 24, 0), (18, 2, 3, 10, 1), (23, 1, 2, 9, 0)]
    rows += [(24, 1, 2, 24, 1), (26, 1, 2, 39, 1)]
    given = [Job(n, *row) for n, row in enumerate(rows)]
    found, places = starts_of(given, "3x4", strict_order=True)
    assert found == Loop([4, 4, 4], places).run(given, strict)
    assert found[3] >= found[1]
