"""The ten laws hold at every step of any history, faults and restarts included.

At each step the oracle in ``support.oracle`` inspects every effect and keeps its own account
(laws 1, 2, 6 and 8), the scheduler's own ``_check`` inspects its memory, ``support.levels`` counts
and sorts again (laws 3, 4, 6 and 8), and the driver counts decisions (law 5). Laws that need an end
are checked at the end of each life: ``support.final_checks`` (laws 4, 7, 9 and 10).
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from support import histories as h
from support.examples import one_in
from support.final_checks import (
    listing_changes_nothing,
    no_startable_pod_is_parked,
    no_state_is_left,
    repeated_history_gives_the_same_effects,
    restart_moves_no_pod,
)
from support.history_steps import HistoryStep, PutPods
from support.levels import every_entity_is_in_place
from support.roles import gangs_of_roles
from support.world import World

STEPS = {"fast": 2_000, "ci": 4_000, "deep": 1_000_000}
"""The number of steps that the machine takes, by profile."""
STEPS_A_LIFE = 60
LIVES_AT_ONCE = 500
"""What hypothesis remembers of lives grows with them: so it is asked to forget now and then."""


class HistoryMachine(RuleBasedStateMachine):
    """Anything that may happen to a cluster, in any order."""

    steps = 0
    """Taken by all machines."""

    def __init__(self) -> None:
        super().__init__()
        self.policy: h.Policy | None = None
        self.world: World | None = None
        self.lived: list[HistoryStep] = []
        self.is_well = True

    def _do(self, *steps: HistoryStep) -> None:
        assert self.world is not None
        self.is_well = False
        for step in steps:
            self.lived.append(step)
            self.world.do(step)
            HistoryMachine.steps += 1
        self.is_well = True

    @initialize(policy=h.all_policies)
    def begin(self, policy: h.Policy) -> None:
        self.policy = policy
        self.world = policy.world()

    @rule(step=h.node_deeds)
    def nodes_change(self, step: HistoryStep) -> None:
        self._do(step)

    @rule(step=h.pod_deeds)
    def pods_come(self, step: HistoryStep) -> None:
        self._do(step)

    @rule(steps=gangs_of_roles())
    def a_gang_of_unlike_members_comes(self, steps: tuple[PutPods, PutPods]) -> None:
        self._do(*steps)

    @rule(steps=h.whole_gangs())
    def a_gang_comes_and_all_that_it_needs(self, steps: tuple[HistoryStep, ...]) -> None:
        self._do(*steps)

    @rule(steps=h.rivals())
    def somebody_comes_who_ranks_higher(self, steps: tuple[HistoryStep, ...]) -> None:
        self._do(*steps)

    @rule(step=h.pod_changes)
    def pods_change(self, step: HistoryStep) -> None:
        self._do(step)

    @rule(step=h.group_deeds)
    def specifications_change(self, step: HistoryStep) -> None:
        self._do(step)

    @rule(step=h.decisions)
    def decisions_are_made(self, step: HistoryStep) -> None:
        self._do(step)

    @rule(step=h.passes)
    def time_passes(self, step: HistoryStep) -> None:
        self._do(step)

    @rule(step=h.reports)
    def binds_are_reported(self, step: HistoryStep) -> None:
        self._do(step)

    @rule(step=h.catches)
    def facts_are_told_late_or_twice(self, step: HistoryStep) -> None:
        self._do(step)

    @rule(step=h.restarts)
    def the_scheduler_starts_anew(self, step: HistoryStep) -> None:
        self._do(step)

    @rule(ahead=st.sampled_from([0, 1, 30]))
    def somebody_asks_what_would_be(self, ahead: int) -> None:
        """The question has no consequences: the repeated life does not contain it."""
        if self.world is not None:
            self.is_well = False
            now = self.world.driver.now
            self.world.driver.scheduler.what_if(now=now, until=now + ahead)
            self.is_well = True

    @invariant()
    def everybody_is_where_he_belongs(self) -> None:
        if self.world is not None and not self.world.driver.untold:
            self.is_well = False
            every_entity_is_in_place(self.world)
            self.is_well = True

    def teardown(self) -> None:
        if self.world is None or self.policy is None or not self.is_well:
            return
        repeated_history_gives_the_same_effects(self.world, self.policy, self.lived)
        self.world.finish()
        no_startable_pod_is_parked(self.world, self.policy)
        listing_changes_nothing(self.world)
        restart_moves_no_pod(self.world)
        self.world.driver.checked = False  # a life ends once, and is looked at when it is over
        no_state_is_left(self.world.clear().driver.scheduler)


@pytest.mark.once("draws the policy, and the unit with it")
def test_no_life_of_the_machine_breaks_a_law_at_any_step() -> None:
    """As many lives as it takes: in the profile ``deep`` a million steps."""
    wanted = STEPS[settings.get_current_profile_name()]
    HistoryMachine.steps = 0
    while HistoryMachine.steps < wanted:
        lives = math.ceil((wanted - HistoryMachine.steps) / STEPS_A_LIFE)
        run_state_machine_as_test(
            HistoryMachine,
            settings=settings(
                stateful_step_count=STEPS_A_LIFE, max_examples=min(lives, LIVES_AT_ONCE)
            ),
        )
        print(f"{HistoryMachine.steps} of {wanted} steps were taken")
    assert HistoryMachine.steps >= wanted


@one_in(4)
@given(h.all_policies, h.histories())
def test_no_history_breaks_a_law_at_any_step(policy: h.Policy, steps: list[HistoryStep]) -> None:
    policy.world().live(*steps).finish()
