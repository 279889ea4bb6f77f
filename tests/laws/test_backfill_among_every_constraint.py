"""Backfill among every constraint, against an oracle that tries every placement.

Pods have required affinity and anti-affinity within and across namespaces, spread constraints,
host ports, node affinity, and claims for volumes. Run times are exact. See
``support.reserved_worlds``.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import event as note_event
from hypothesis import given

from gangsched import NodeName, PodUID
from gangsched.explain import SearchBudgetExhausted
from support.examples import one_in
from support.reservation_oracle import holder
from support.reserved_worlds import Job, Placed, Player, World, worlds
from support.shown import shown

pytestmark = pytest.mark.once("capacity is reserved with the unit group only")


@given(worlds())
def test_reservation_is_kept_and_delays_nothing_without_need(world: World) -> None:
    """What is promised is the earliest start and is kept; who would not delay it does not wait."""
    player = Player(world, reserved=expects_the_earliest, settled=is_kept_and_delays_none)
    player.play()
    note_event(f"promises: {len(player.promised)}")
    note_event(f"pods bound beside a reservation: {min(player.backfilled, 3)}")
    for group, promised in player.promised.items():
        assert group in player.started, f"{group} was promised {promised} and never started"
        assert player.started[group] <= promised, f"{group} was promised {promised}"


def expects_the_earliest(player: Player) -> None:
    """Later an admitted pod may help: as the companion of a member, or in another domain."""
    held = player.scheduler.reservation
    assert held is not None
    job = next(job for job in player.waiting if holder(held) == job.key)
    # nodes are drained if the gang fits at no end that is known
    assert (math.inf if held.starts_at is None else held.starts_at) == player.earliest(job)


def is_kept_and_delays_none(player: Player) -> None:
    expects_no_start_in_vain(player)
    leaves_none_waiting(player)


def expects_no_start_in_vain(player: Player) -> None:
    held = player.scheduler.reservation
    if held is not None and held.starts_at is not None:
        job = next(job for job in player.waiting if holder(held) == job.key)
        assert player.can_start(job.pods, player.on_nodes(held.starts_at))


def leaves_none_waiting(player: Player) -> None:
    held, seen = player.scheduler.reservation, shown(player.scheduler)
    backing_off = {pod.uid for each in player.scheduler.queue.backoff for pod in each.pending}
    for job in player.waiting:
        if job.pods[0].uid in backing_off:
            continue
        now, at = player.on_nodes(), seen.reserved_from
        is_own = held is not None and holder(held) == job.key
        if at is None or is_own or player.now + job.seconds <= at:
            could = player.can_start(job.pods, now)
        else:
            plan = dict(seen.planned)

            def holds(mine: Placed, plan: dict[PodUID, NodeName] = plan, at: float = at) -> bool:
                return player.plan_holds(plan, at, mine)

            could = player.can_start(job.pods, now, holds)
        if could:
            assert _is_undecided(player, job), f"{job.pods} could start at {player.now}"


@one_in(4)
@given(worlds())
def test_restored_scheduler_reserves_and_backfills_alike(world: World) -> None:
    one, other = Player(world), Player(world, restores=True)
    one.play()
    other.play()
    assert (other.log, other.promised) == (one.log, one.promised)


def _is_undecided(player: Player, job: Job) -> bool:
    found = player.scheduler.why(job.group or job.pods[0].uid)
    proof = getattr(getattr(found, "unschedulable_member", None), "proof", None)
    return isinstance(proof, SearchBudgetExhausted)
