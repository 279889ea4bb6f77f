"""Backfill among every constraint, against an oracle that tries every placement.

Pods have required affinity and anti-affinity within and across namespaces, spread constraints,
host ports, node affinity, and claims for volumes. Run times are exact. See
``support.reserved_worlds``.
"""

from __future__ import annotations

import pytest
from hypothesis import event as note_event
from hypothesis import given

from gangsched import NodeName, PodUID
from gangsched.explain import SearchBudgetExhausted
from support.reserved_worlds import Job, Placed, Player, World, worlds
from support.shown import shown

pytestmark = pytest.mark.once("capacity is reserved with the unit group only")


@pytest.mark.core_lacks("two members that use one volume alone are placed")
@given(worlds())
def test_reserved_gang_starts_at_its_first_expected_start_or_before(world: World) -> None:
    player = Player(world)
    player.play()
    note_event(f"promises: {len(player.promised)}")
    note_event(f"pods bound beside a reservation: {min(player.backfilled, 3)}")
    for group, promised in player.promised.items():
        assert group in player.started, f"{group} was promised {promised} and never started"
        assert player.started[group] <= promised, f"{group} was promised {promised}"


@pytest.mark.core_lacks("two members that use one volume alone are placed")
@given(worlds())
def test_expected_start_is_the_earliest_when_capacity_is_reserved(world: World) -> None:
    Player(world, reserved=expects_the_earliest).play()


def expects_the_earliest(player: Player) -> None:
    """Later an admitted pod may help: as the companion of a member, or in another domain."""
    held = player.scheduler.reservation
    assert held is not None
    job = next(job for job in player.waiting if job.group == held.group)
    assert held.starts_at == player.earliest(job)


@pytest.mark.core_lacks("two members that use one volume alone are placed")
@given(worlds())
def test_reserved_gang_can_start_when_it_is_expected_to(world: World) -> None:
    Player(world, settled=expects_no_start_in_vain).play()


def expects_no_start_in_vain(player: Player) -> None:
    held = player.scheduler.reservation
    if held is not None and held.starts_at is not None:
        job = next(job for job in player.waiting if job.group == held.group)
        assert player.can_start(job.pods, player.on_nodes(held.starts_at))


@pytest.mark.core_lacks("two members that use one volume alone are placed")
@given(worlds())
def test_no_job_waits_that_could_start_without_delaying_the_reserved_gang(world: World) -> None:
    Player(world, settled=leaves_none_waiting).play()


def leaves_none_waiting(player: Player) -> None:
    held, seen = player.scheduler.reservation, shown(player.scheduler)
    backing_off = {pod.uid for each in player.scheduler.queue.backoff for pod in each.pending}
    for job in player.waiting:
        if job.pods[0].uid in backing_off:
            continue
        now, at = player.on_nodes(), seen.reserved_from
        is_own = held is not None and job.group == held.group
        if at is None or is_own or player.now + job.seconds <= at:
            could = player.can_start(job.pods, now)
        else:
            plan = dict(seen.planned)

            def holds(mine: Placed, plan: dict[PodUID, NodeName] = plan, at: float = at) -> bool:
                return player.plan_holds(plan, at, mine)

            could = player.can_start(job.pods, now, holds)
        if could:
            assert _is_undecided(player, job), f"{job.pods} could start at {player.now}"


@pytest.mark.core_lacks("two members that use one volume alone are placed")
@given(worlds())
def test_restored_scheduler_reserves_and_backfills_alike(world: World) -> None:
    restored_decides_alike(world)


def restored_decides_alike(world: World) -> None:
    one, other = Player(world), Player(world, restores=True)
    one.play()
    other.play()
    assert (other.log, other.promised) == (one.log, one.promised)


def _is_undecided(player: Player, job: Job) -> bool:
    found = player.scheduler.why(job.group or job.pods[0].uid)
    proof = getattr(getattr(found, "unschedulable_member", None), "proof", None)
    return isinstance(proof, SearchBudgetExhausted)
