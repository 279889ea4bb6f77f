"""The ten laws hold at every step of any history, faults and restarts included.

At each step the oracle in ``support.oracle`` looks at every effect and keeps its own account
(laws 1, 2, 6 and 8), the scheduler's own ``_check`` looks at its memory, ``support.levels`` counts
and sorts anew (laws 3, 4, 6 and 8), and the driver counts decisions (law 5). What needs an end is
seen at the end of each life: ``support.endings`` (laws 4, 7, 9 and 10).
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
from support.deeds import Deed, PutPods
from support.endings import (
    a_listing_tells_nothing,
    a_restart_moves_nobody,
    everything_is_forgotten,
    nobody_sleeps_who_could_start,
    told_again_it_does_the_same,
)
from support.examples import one_in
from support.levels import everybody_is_in_place
from support.roles import gangs_of_roles
from support.world import World

STEPS = {"fast": 2_000, "ci": 4_000, "deep": 1_000_000}
"""How many steps the machine takes, by profile: each is one deed."""
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
        self.lived: list[Deed] = []
        self.is_well = True

    def _do(self, *deeds: Deed) -> None:
        assert self.world is not None
        self.is_well = False
        for deed in deeds:
            self.lived.append(deed)
            self.world.do(deed)
            HistoryMachine.steps += 1
        self.is_well = True

    @initialize(policy=h.all_policies)
    def begin(self, policy: h.Policy) -> None:
        self.policy = policy
        self.world = policy.world()

    @rule(deed=h.node_deeds)
    def nodes_change(self, deed: Deed) -> None:
        self._do(deed)

    @rule(deed=h.pod_deeds)
    def pods_come(self, deed: Deed) -> None:
        self._do(deed)

    @rule(deeds=gangs_of_roles())
    def a_gang_of_unlike_members_comes(self, deeds: tuple[PutPods, PutPods]) -> None:
        self._do(*deeds)

    @rule(deeds=h.whole_gangs())
    def a_gang_comes_and_all_that_it_needs(self, deeds: tuple[Deed, ...]) -> None:
        self._do(*deeds)

    @rule(deeds=h.rivals())
    def somebody_comes_who_ranks_higher(self, deeds: tuple[Deed, ...]) -> None:
        self._do(*deeds)

    @rule(deed=h.pod_changes)
    def pods_change(self, deed: Deed) -> None:
        self._do(deed)

    @rule(deed=h.group_deeds)
    def specifications_change(self, deed: Deed) -> None:
        self._do(deed)

    @rule(deed=h.decisions)
    def decisions_are_made(self, deed: Deed) -> None:
        self._do(deed)

    @rule(deed=h.passes)
    def time_passes(self, deed: Deed) -> None:
        self._do(deed)

    @rule(deed=h.reports)
    def binds_are_reported(self, deed: Deed) -> None:
        self._do(deed)

    @rule(deed=h.catches)
    def facts_are_told_late_or_twice(self, deed: Deed) -> None:
        self._do(deed)

    @rule(deed=h.restarts)
    def the_scheduler_starts_anew(self, deed: Deed) -> None:
        self._do(deed)

    @rule(ahead=st.sampled_from([0, 1, 30]))
    def somebody_asks_what_would_be(self, ahead: int) -> None:
        """And nothing comes of it: the life that is told again is without the question."""
        if self.world is not None:
            self.is_well = False
            now = self.world.driver.now
            self.world.driver.scheduler.what_if(now=now, until=now + ahead)
            self.is_well = True

    @invariant()
    def everybody_is_where_he_belongs(self) -> None:
        if self.world is not None and not self.world.driver.untold:
            self.is_well = False
            everybody_is_in_place(self.world)
            self.is_well = True

    def teardown(self) -> None:
        if self.world is None or self.policy is None or not self.is_well:
            return
        told_again_it_does_the_same(self.world, self.policy, self.lived)
        self.world.finish()
        nobody_sleeps_who_could_start(self.world, self.policy)
        a_listing_tells_nothing(self.world)
        a_restart_moves_nobody(self.world)
        self.world.driver.checked = False  # a life ends once, and is looked at when it is over
        everything_is_forgotten(self.world.clear().driver.scheduler)


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
def test_no_history_breaks_a_law_at_any_step(policy: h.Policy, deeds: list[Deed]) -> None:
    policy.world().live(*deeds).finish()
