"""The ten laws hold at every step of any history, faults and restarts included.

A state machine draws histories step by step, and one law draws them whole. At each step the oracle
in ``support.oracle`` inspects every effect and keeps its own account (laws 1, 2, 6 and 8), the
scheduler's own ``_check`` inspects its memory, ``support.levels`` counts and sorts again (laws 3,
4, 6 and 8), and the driver counts decisions (law 5). What needs an end is checked by
``support.final_checks`` (laws 2, 4, 7, 9 and 10).
"""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from gangsched import WhenBindFails
from support import histories as h
from support.driver import Fate
from support.examples import PROFILE, one_in
from support.final_checks import ends_lawfully
from support.history_steps import (
    ChangePod,
    Decide,
    HistoryStep,
    Pass,
    PutGroup,
    PutNode,
    PutPods,
    Report,
)
from support.levels import every_entity_is_in_place
from support.shown import shown
from support.world import World

STEPS = {"fast": 1_500, "ci": 3_000, "deep": 1_000_000}
"""The number of steps that the machine takes, by profile."""
STEPS_A_LIFE = 60
LIVES_AT_ONCE = 500
"""What hypothesis remembers of lives grows with them: so it is asked to forget now and then."""


@st.composite
def gangs_of_roles(draw: st.DrawFn) -> tuple[PutPods, PutPods]:
    """Return steps that add a gang of two roles, in either order of arrival.

    One role requests CPUs, the other accelerators or a zone. So whichever is placed first may
    take the capacity that the other needs.
    """
    group = draw(st.integers(1, 3))
    servers, workers = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    said = draw(st.sampled_from([servers + workers, servers + workers, workers, 1 + workers]))
    gpu = draw(st.integers(0, 1))
    zone = None if gpu else "a"
    rank = group % 2
    serving = PutPods(group, servers, said, cpu=2, priority=rank, role="ps")
    working = PutPods(group, workers, said, gpu=gpu, zone=zone, priority=rank, role="worker")
    return (serving, working) if draw(st.booleans()) else (working, serving)


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
        self.world.driver.check_each = 1

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
        ends_lawfully(self.world, self.policy, self.lived)


@pytest.mark.once("draws the policy, and the unit with it")
def test_no_life_of_the_machine_breaks_a_law_at_any_step() -> None:
    """As many lives as it takes: in the profile ``deep`` a million steps."""
    wanted = STEPS[PROFILE]
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


BUNDLES = h.histories(st.one_of(h.bundle_deeds, h.pod_deeds, h.pod_deeds, h.steps, h.decisions))


@one_in(2)
@given(h.all_policies, st.one_of(h.histories(), BUNDLES))
@example(
    policy=h.Policy(),
    steps=[
        *[PutNode(0, cpu=1), PutPods(count=1), Decide(fate=Fate.FAILED)],
        *[Pass(5), Decide(fate=Fate.PENDING)],
    ],
)  # while its second bind is under way, the failure of the first is reported again
def test_no_history_breaks_a_law_at_any_step(policy: h.Policy, steps: list[HistoryStep]) -> None:
    """F2, F14, F31, F38, KAI#1217: and at its end nothing is parked, forgotten or left over."""
    world = policy.world()
    for step in steps:
        world.do(step)
        if not (world.late or world.driver.untold):
            every_entity_is_in_place(world)
    ends_lawfully(world, policy, steps)


def test_bind_that_lands_late_keeps_its_pod_though_its_gang_is_evicted() -> None:
    """As if another scheduler had bound it: what replaces the other member joins it."""
    world = h.Policy(when_bind_fails=WhenBindFails.RELEASE_GROUP).world()
    world.live(PutNode(0, cpu=2), PutPods(0, 2, 2), Decide(fate=Fate.PENDING))
    world.live(Report(0, Fate.LATE), Report(0, landing=True), Report(0))
    assert world.driver.dying == ["u2"]
    every_entity_is_in_place(world.live(PutPods(0, 1, 2), Pass(60), Decide()))
    pods = world.driver.cluster.pods()
    assert {pod.uid: pod.node_name for pod in pods} == {"u1": "n0", "u3": "n0"}


@pytest.mark.parametrize("step", [Report(0, Fate.FAILED), ChangePod(0, "relabel", 2)])
def test_evicted_binding_pod_is_counted_until_its_report(step: HistoryStep) -> None:
    """One of two could not be bound, so the end of the other was asked for."""
    world = h.Policy(when_bind_fails=WhenBindFails.RELEASE_GROUP).world()
    world.live(PutNode(0, cpu=2), PutGroup(0, 1, roles=(("ps", 1),)))
    world.live(PutPods(0, 1, role="ps"), PutPods(0, 1, role="worker"))
    world.live(Decide(fate=Fate.PENDING), Report(0, Fate.FAILED))
    assert len(shown(world.driver.scheduler).evicted) == 1
    assert world.driver.dying == [], "it is evicted when its bind has ended"
    every_entity_is_in_place(world.live(step))
