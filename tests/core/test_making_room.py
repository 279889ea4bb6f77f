"""Preemption and reservations on the core, against oracles that share no code with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import Backfill, presets
from gangsched.core.scheduler import Scheduler as Core
from gangsched.simulation import Simulator, Workload
from support.checked_scheduler import run_to_end
from support.examples import one_in
from support.preempting_gangs import PRESETS, Case, cases, play
from support.reservation_oracle import EXACT, ReservationOracle, judged, workloads


@contextmanager
def the_core() -> Iterator[None]:
    """Let the presets make schedulers of the core."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(presets, "Scheduler", Core)
        yield


@given(cases(), st.sampled_from(sorted(PRESETS)))
def test_gang_evicts_victims_that_are_allowed_and_needed_and_starts(
    case: Case, preset: str
) -> None:
    with the_core():
        found = play(case, preset)
    assert found.nominations <= 1, "it preempted again"
    assert found.evicted in set(case.allowed())
    assert not found.evicted or found.bound, "pods were evicted, and the gang did not start"
    if found.bound:
        assert case.holds(found.evicted, found.bound)
    for each in case.running if not found.is_exhausted else ():
        if found.evicted & each.uids:
            assert not case.fits(found.evicted - each.uids), f"{each.uids} can be spared"


@given(cases(), st.sampled_from(sorted(PRESETS)))
def test_gang_starts_if_any_allowed_set_of_victims_helps(case: Case, preset: str) -> None:
    """Affinity is left out: as in kube-scheduler, a companion may be among the lower pods."""
    if any(pod.pod_affinity for pod in case.gang):
        return
    with the_core():
        found = play(case, preset)
    helps = any(case.fits(gone) for gone in case.allowed())
    assert bool(found.bound) == helps or found.is_exhausted


@one_in(2)
@given(workloads())
def test_admitted_pods_delay_no_reserved_gang(workload: Workload) -> None:
    reservations = ReservationOracle()
    with the_core():
        simulator = run_to_end(Simulator(workload, judged(reservations, Backfill(EXACT))))
    assert all(job.is_finished for job in simulator.jobs)
    for group, promised in reservations.promised.items():
        assert reservations.started[group] <= promised, f"{group} was promised {promised:g}"
