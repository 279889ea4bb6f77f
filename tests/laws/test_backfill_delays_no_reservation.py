"""Backfill: an admitted pod never delays the gang with the reservation, which starts in time.

With exact run times, at every decision: the reserved instant of a gang is the earliest at which it
fits, by an independent computation, before and after each admission. So no admitted pod moves the
reservation, and the gang starts at the instant that was reserved first.
"""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import AnnotatedRunTimes, Backfill, presets
from gangsched.simulation import RUN_SECONDS, Simulator, Workload
from support.checked_scheduler import checked_by, run_to_end, watched
from support.examples import one_in
from support.reservation_oracle import EXACT, ReservationOracle, holder, judged, workloads

pytestmark = pytest.mark.once("room is reserved with the unit group only")

_SLOPPY = AnnotatedRunTimes(RUN_SECONDS, wrong_by=8.0)


@one_in(2)
@given(workloads(), st.integers(1, 3), st.sampled_from([0.0, 3.0]), st.integers(1, 6))
def test_admitted_pods_with_exact_run_times_delay_no_reserved_gang(
    workload: Workload, attempts: int, seconds: float, least: int
) -> None:
    reservations = ReservationOracle()
    policy = Backfill(EXACT, after_attempts=attempts, after_seconds=seconds, least_members=least)
    simulator = run_to_end(Simulator(workload, judged(reservations, policy)))
    assert all(job.is_finished for job in simulator.jobs)
    for key, promised in reservations.promised.items():
        assert reservations.started[key] <= promised, f"{key} was promised {promised:g}"


@one_in(2)
@given(workloads())
def test_gang_without_run_times_starts_when_the_drained_nodes_are_free(
    workload: Workload,
) -> None:
    """No pod is placed there meanwhile: pods that run on a drained node are waited for."""
    reservations = ReservationOracle()
    bounds: dict[str, float] = {}

    class Watch:
        def settled(self, now: float) -> None:
            reservation = checked_by(simulator).reservation
            if reservation is None or holder(reservation) in bounds:
                return
            assert reservation.starts_at is None
            on_them = [p for n in reservation.nodes for p in simulator.cluster.pods_on(n)]
            bounds[holder(reservation)] = max([now, *map(reservations.end, on_them)])

        def event(self, *_: object) -> None: ...
        def effects(self, *_: object) -> None: ...

    simulator = Simulator(workload, judged(reservations, Backfill()), observers=(Watch(),))
    run_to_end(simulator)
    assert all(job.is_finished for job in simulator.jobs)
    for key, bound in bounds.items():
        assert reservations.started[key] <= bound, f"{key} was to start by {bound:g}"


@one_in(2)
@given(workloads(priorities=True), st.integers(0, 3))
def test_wrong_estimates_break_no_law_and_every_gang_starts(workload: Workload, seed: int) -> None:
    policy = Backfill(evolve(_SLOPPY, seed=seed), overdue_after=1.0, drain_for=30.0)
    make = watched(lambda cluster: presets.gang(cluster, backfill=policy))
    simulator = run_to_end(Simulator(workload, make))
    assert all(job.is_finished for job in simulator.jobs)
