"""Laws 1, 2, 6 and 8 hold at every step of any history, faults and restarts included.

The oracle in ``support.oracle`` looks at every effect and keeps its own account; the scheduler's
own ``_check`` looks at its memory after every call.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from support import histories as h
from support.deeds import Deed
from support.world import World


class HistoryMachine(RuleBasedStateMachine):
    """Anything that may happen to a cluster, in any order."""

    world: World

    @initialize(policy=h.policies)
    def begin(self, policy: h.Policy) -> None:
        self.world = policy.world()

    @rule(deed=h.node_deeds)
    def nodes_change(self, deed: Deed) -> None:
        self.world.do(deed)

    @rule(deed=h.pod_deeds)
    def pods_come(self, deed: Deed) -> None:
        self.world.do(deed)

    @rule(deed=h.pod_changes)
    def pods_change(self, deed: Deed) -> None:
        self.world.do(deed)

    @rule(deed=h.group_deeds)
    def specifications_change(self, deed: Deed) -> None:
        self.world.do(deed)

    @rule(deed=h.decisions)
    def decisions_are_made(self, deed: Deed) -> None:
        self.world.do(deed)

    @rule(deed=h.passes)
    def time_passes(self, deed: Deed) -> None:
        self.world.do(deed)

    @rule(deed=h.reports)
    def binds_are_reported(self, deed: Deed) -> None:
        self.world.do(deed)

    @rule(deed=h.catches)
    def facts_are_told_late_or_twice(self, deed: Deed) -> None:
        self.world.do(deed)

    @rule(deed=h.restarts)
    def the_scheduler_starts_anew(self, deed: Deed) -> None:
        self.world.do(deed)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.finish()


TestHistories = HistoryMachine.TestCase
TestHistories.settings = settings(stateful_step_count=40)


@given(h.policies, h.histories())
def test_no_history_breaks_a_law_at_any_step(policy: h.Policy, deeds: list[Deed]) -> None:
    policy.world().live(*deeds).finish()
