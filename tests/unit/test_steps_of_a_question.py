"""The steps that a question takes: each bind and each eviction of the run ahead is counted."""

from __future__ import annotations

import pytest

from gangsched import Bind, InMemoryCluster, NodeAdded, PodAdded, SchedulingUnit, presets
from gangsched.framework.what_if import simulate
from gangsched.testing import make_node, make_pod


@pytest.mark.parametrize("number", [1, 40])
def test_bind_of_each_member_of_a_gang_is_a_step_of_the_question(number: int) -> None:
    cluster = InMemoryCluster()
    scheduler = presets.coscheduling(cluster, unit=SchedulingUnit.GROUP)
    for n in range(number):
        cluster.apply(PodAdded(make_pod(f"g{n}", group="g", min_available=number, cpu=1)))
    scheduler.rebuild(now=0.0)
    while scheduler.schedule_one(now=0.0) is not None:
        pass
    spending = simulate.Spending(1_000_000)
    ahead = simulate.look(scheduler, scheduler._state, 100.0, spending)
    ahead.tell(NodeAdded(make_node("n", cpu=number)))
    before = spending.left
    ahead.run(100.0)
    binds = sum(isinstance(effect, Bind) for _instant, effect in ahead.timed)
    assert binds == number
    decisions = simulate._DECISION + ahead.state.attempts.search_steps
    assert before - spending.left >= binds * simulate._EVENT
    assert before - spending.left == binds * simulate._EVENT + decisions
