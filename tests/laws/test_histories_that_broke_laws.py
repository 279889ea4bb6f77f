"""Histories that broke a law once, shrunk.

Each runs under the oracle and the scheduler's own check, ends idle, and leaves no entity parked
that could start.
"""

from __future__ import annotations

import pytest
from attrs import evolve

from gangsched import Backfill, Preemption, SchedulingUnit, WhenBindFails, WhenBlocked
from support.driver import Fate
from support.estimates import Estimates
from support.final_checks import no_startable_pod_is_parked
from support.histories import Policy
from support.history_steps import (
    Catch,
    ChangePod,
    Decide,
    DropGroup,
    DropNode,
    HistoryStep,
    Pass,
    PutBundle,
    PutGroup,
    PutNode,
    PutPods,
    Rebuild,
    Repeat,
    Report,
    Restart,
)

NODE = PutNode(0, cpu=3)
PENDING = Decide(fate=Fate.PENDING)

HISTORIES: dict[str, list[HistoryStep]] = {
    "a pod that asks for more while its bind is under way keeps its node": [
        *(NODE, PutPods(), PENDING, ChangePod(0, "resize", 1)),
        *(Decide(), Report(0, Fate.FAILED), Decide()),
    ],
    "a pod that changes its group while its bind is under way keeps its node": [
        *(NODE, PutPods(1, 2, 2), PENDING, ChangePod(0, "relabel", 2), Decide(), Report(0)),
    ],
    "a pod that changed while it was bound is confirmed before it is another": [
        *(NODE, PutPods(), PENDING, Catch(late=True), ChangePod(0, "resize", 1), Report(0)),
        Catch(late=False),
    ],
    "a member that is refused while its bind is under way keeps its node": [
        *(NODE, PutPods(1, 2, 2, priority=1), PENDING, PutGroup(1, 2, priority=0)),
        *(Decide(), Report(0), Report(0, Fate.FAILED), Decide()),
    ],
    "a member that is refused ends without an error": [
        *(NODE, PutPods(1, 1, 2), PutPods(1, 1, 3), ChangePod(1, "terminate")),
    ],
    "a member that is refused and bound by others is taken as bound": [
        *(NODE, PutPods(1, 1, 2), PutPods(1, 1, 3), ChangePod(1, "seize"), Restart()),
    ],
    "a member that was refused and has finished keeps nobody else out": [
        *(NODE, PutPods(1, 1, 1, gated=True), PutPods(1, 3, 2), ChangePod(1, "succeed")),
        *(ChangePod(0), Decide()),
    ],
    "a pod that is evaluated anew does not answer to the number of an old bind": [
        *(NODE, PutPods(), Decide(fate=Fate.FAILED), ChangePod(0, "resize", 0), Pass()),
        *(PENDING, Repeat(0), Repeat(1), Decide()),
    ],
    "a specification outlives members of whose end nobody has told yet": [
        *(NODE, PutPods(3, 1, 4), Catch(late=True), PutGroup(3, 1), ChangePod(0)),
        *(Catch(index=0), Catch(late=False)),
    ],
    "a pod that was bound unnoticed to the node that it is given next counts once there": [
        *(PutNode(0, cpu=4), PutPods(None, 2), PutPods(None, 1, priority=1), Catch(late=True)),
        *(ChangePod(0, "seize"), Decide(1), Decide(1), Decide()),
    ],
    "an entity whose last untried member goes has another round": [
        *(PutNode(0, cpu=1), PutPods(1, 5, 2), Decide(4), ChangePod(4), Decide()),
    ],
    "a regular pod whose siblings are being bound waits for nobody": [
        *(NODE, PutPods(1, 4, 2), PENDING, Decide(fate=Fate.LATE), Report(0, landing=True)),
        *(Report(0, Fate.LOST), Pass()),
    ],
    "a group is rejected once when its node and its specification go": [
        *(NODE, PutGroup(0, 4), PutPods(0, 4), Decide(), DropNode(0), DropGroup(0)),
        *(NODE, PutGroup(0, 3)),
    ],
    "a listing in the middle of an attempt leaves it as it is": [
        *(NODE, PutPods(3, 4, 4), Decide(2), Rebuild(), Decide(1), Rebuild(), PutNode(1, 1)),
    ],
    "a group of which a bind is under way has started, whatever its pod says by now": [
        *(NODE, PutGroup(0, 1), PutPods(0, 1), PENDING, ChangePod(0, "relabel", 1)),
        *(PutGroup(0, 1, bundle=(0, 3)), PutPods(0, 1), Decide(1), Report(0)),
    ],
    "who is being bound for another group does not say where a group belongs": [
        *(PutNode(1, zone="b"), PutGroup(3, 1), PutPods(3, 1), PENDING),
        *(ChangePod(0, "relabel", 0), PutNode(0, zone="a"), PutPods(0, 2)),
        *(PutGroup(0, 2, within_zone=True), Decide(1), Report(0)),
    ],
    "a group that all have left while its bundle was named starts with its bundle": [
        *(NODE, PutGroup(0, 1), PutPods(0, 1), PENDING, ChangePod(0, "relabel", 1)),
        *(PutGroup(0, 1, bundle=(0, 3)), Report(0), PutPods(0, 1), Decide(1)),
    ],
}


@pytest.mark.parametrize("when_blocked", list(WhenBlocked))
@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_histories_that_broke_laws_break_none_any_more(
    when_blocked: WhenBlocked, history: list[HistoryStep]
) -> None:
    """And a second life after a restart is as lawful."""
    policy = Policy(when_blocked=when_blocked)
    world = policy.world().live(*history).finish()
    no_startable_pod_is_parked(world, policy)
    world.live(Restart(), Decide()).finish()


ROLES = (("ps", 1), ("worker", 2))
WHILE_BINDS_ARE_UNDER_WAY: dict[str, list[HistoryStep]] = {
    "a role is added after its only member was chosen as elastic": [
        *(PutNode(0, cpu=6), PutGroup(3, 1, roles=(("worker", 1),)), PutPods(3, 4)),
        *(PutPods(3, role="worker"), PENDING, PutGroup(3, 1), PutPods(cpu=2, priority=1)),
        *(Decide(), PutGroup(3, 1, roles=(("worker", 1),)), Decide(fate=Fate.PENDING)),
    ],
    "another scheduler binds a member of a gang that is to be evicted": [
        *(PutNode(0), PutNode(1, cpu=4), PutGroup(2, 3, roles=ROLES, bundle=(1, 2))),
        *(PutGroup(1, 3, roles=ROLES, bundle=(1, 2)), PutPods(2, 2, role="worker")),
        *(PutPods(2, role="ps"), PutPods(1, role="ps"), PutPods(1, 2, role="worker")),
        *(PENDING, PutPods(1), PutPods(priority=1), Decide(), ChangePod(6, "seize")),
    ],
}


@pytest.mark.parametrize(
    "history", WHILE_BINDS_ARE_UNDER_WAY.values(), ids=WHILE_BINDS_ARE_UNDER_WAY
)
def test_victims_whose_binds_are_under_way_are_evicted_as_was_decided(
    history: list[HistoryStep],
) -> None:
    policy = Policy(preemption=Preemption(grace=0.0, elastic_members=True))
    world = policy.world().live(*history).finish()
    assert world.driver.oracle.keeping.nominated


def test_preemptor_counts_on_members_that_leave_when_their_binds_have_ended() -> None:
    """The other member of the gang is evicted, too, once its bind is reported."""
    policy = Policy(
        preemption=Preemption(), when_bind_fails=WhenBindFails.RELEASE_AFTER_RETRIES, bind_retries=0
    )
    history = (PutNode(0, cpu=2), PutPods(1, 2, 2), PENDING, Report(0, Fate.FAILED))
    world = policy.world().live(*history, PutPods(cpu=2, priority=1), PENDING)
    assert world.driver.oracle.keeping.nominated
    world.live(Report(0), Decide()).finish()


def test_group_that_names_a_bundle_alone_is_a_victim_of_its_own_priority() -> None:
    """The other group, of a higher priority, has left the bundle."""
    world = Policy(preemption=Preemption()).world()
    world.live(
        PutNode(0, cpu=2), PutBundle((0, 3), 1), PutPods(0), PutPods(3, priority=1), Decide()
    )
    world.live(PutGroup(3, 1), PutPods(priority=1), Decide()).finish()
    assert world.driver.oracle.keeping.nominated


GROUP = SchedulingUnit.GROUP
BOTH = Policy(
    unit=GROUP,
    preemption=Preemption(),
    backfill=Backfill(least_members=1, overdue_after=0.0, drain_for=5.0),
)
GUESSING = evolve(
    BOTH, backfill=Backfill(Estimates(), least_members=2, overdue_after=5.0, drain_for=40.0)
)
HASTY = evolve(BOTH, backfill=Backfill(after_attempts=1, after_seconds=0.0, overdue_after=0.0))
WITH_RESERVATIONS: dict[str, tuple[Policy, list[HistoryStep]]] = {
    "what a terminating pod leaves is kept for the gang, and for no equal of it": (
        BOTH,
        [
            *(PutNode(0, cpu=3), PutPods(count=1, priority=1), PutGroup(1, 3)),
            *(PutPods(1, 3, priority=1), Decide(), ChangePod(0, "terminate")),
            *(PutPods(0, 1, 1, cpu=0), PutPods(count=1, priority=1)),
        ],
    ),
    "a member that ranks below its group reaches no further when the group says nothing": (
        BOTH,
        [
            *(PutPods(1, 1, priority=2), PutNode(0, cpu=1), PutGroup(1, 1)),
            *(PutPods(1, 1, priority=1), Decide(1), PutGroup(1, 1, priority=1)),
            *(PutPods(0, 1, 1), Decide(), PutGroup(1, 1), PutNode(0, cpu=2)),
        ],
    ),
    "a hopeless gang above a reservation is not tried again": (
        GUESSING,
        [
            *(PutNode(0, cpu=2), PutPods(0, 2, 2), PutPods(count=1)),
            *(PutGroup(1, 2), PutPods(1, 2, cpu=2, priority=1)),
        ],
    ),
    "a gang that backs off, its binds having failed, is not reviewed at each instant": (
        HASTY,
        [
            *(NODE, PutNode(1, cpu=1), PutNode(2, cpu=1), PutPods(0, 2), PutPods(2, 3, 3)),
            *(PutPods(None, 2), Decide(), PutGroup(1, 2), PutPods(1, 2, priority=1)),
            *(PutPods(priority=3), Decide(fate=Fate.FAILED), PutNode(0, cpu=1)),
        ],
    ),
}


@pytest.mark.once("the unit is the policy's")
@pytest.mark.parametrize(("policy", "history"), WITH_RESERVATIONS.values(), ids=WITH_RESERVATIONS)
def test_histories_with_a_reservation_break_no_law_any_more(
    policy: Policy, history: list[HistoryStep]
) -> None:
    policy.world().live(*history).finish()
