"""A scheduler is down while the cluster changes; then it is restored, and lists the cluster.

This is what docs/how-to/keep-state-in-a-database.md says: ``restore``, then ``rebuild``. Meanwhile
pods, groups and nodes are deleted, changed, and created again under their names, and a quota is
added or taken away. Neither call raises, the laws hold, and without changes nothing is told again.
At rest, a scheduler that was made anew would start nothing more, unless it preempts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from attrs import evolve, frozen
from hypothesis import given
from hypothesis import strategies as st

from gangsched import Bind, ClusterState, Effect, Evict, Quota, Scheduler
from support.driver import Driver
from support.examples import one_in
from support.histories import (
    Policy,
    all_policies,
    bundle_deeds,
    group_deeds,
    histories,
    node_deeds,
    pod_deeds,
    whole_gangs,
)
from support.history_steps import ChangePod, Decide, HistoryStep
from support.restored import posted
from support.world import World

_HOW: Final = (
    *("delete", "delete", "delete", "terminate", "succeed", "fail", "ungate", "recreate"),
    *("relabel", "reclaim", "recast", "resize", "raise", "raise", "seize"),
)
_changes = st.one_of(
    st.builds(ChangePod, index=st.integers(0, 11), how=st.sampled_from(_HOW), to=st.integers(0, 3)),
    node_deeds,
    pod_deeds,
    group_deeds,
    bundle_deeds,
)


@frozen
class Outage:
    """What happens while no scheduler runs.

    Attributes:
        steps: What becomes of the cluster.
        before: The quota of the scheduler before, in CPUs; None for none.
        after: That of the next one.
        bound: Which of the binds under way had been done, by bits; their reports are lost.
    """

    steps: tuple[HistoryStep, ...]
    before: int | None
    after: int | None
    bound: int


@st.composite
def outages(draw: st.DrawFn) -> Outage:
    drawn = draw(st.lists(st.one_of(_changes.map(lambda one: (one,)), whole_gangs()), max_size=8))
    limit = st.sampled_from([None, None, None, 2, 5])
    return Outage(
        tuple(step for steps in drawn for step in steps if not isinstance(step, Decide)),
        draw(limit),
        draw(limit),
        draw(st.integers(0, 255)),
    )


def make(policy: Policy, limit: int | None, cluster: ClusterState) -> Scheduler:
    if limit is None or not policy.gangs:
        return policy.make(cluster)
    quota = Quota(name="q", namespaces=["default"], hard={"cpu": limit})
    return evolve(policy, quotas=(quota,)).make(cluster)


def resumed(policy: Policy, steps: Sequence[HistoryStep], outage: Outage) -> Driver:
    """Return a driver of a restored scheduler after an outage, which has listed the cluster."""
    make_before = partial(make, policy, outage.before)
    driver = Driver(make_before, grouped=policy.gangs, match=policy.match_policy, check_each=8)
    world = World(driver).live(*steps)
    data = posted(driver.scheduler.snapshot())
    repeats = bool(driver.under_way or driver.dying)
    if not repeats and not driver.untold:  # it tells nothing again
        again = make_before(driver.cluster)
        again.restore(data)
        told = list(map(str, again.rebuild(now=driver.now)))
        assert told == list(map(str, driver.scheduler.rebuild(now=driver.now)))
    world.late = True
    world.live(*outage.steps)
    driver.untold.clear()
    driver.make = partial(make, policy, outage.after)
    driver.scheduler = driver.make(driver.cluster)
    driver.scheduler.restore(data)
    for number, bind in enumerate(driver.under_way):
        if outage.bound >> number % 8 & 1:
            driver._bind(bind)
    driver.watched = not repeats  # the oracle takes a bind that is repeated for a second one
    driver.under_way.clear()
    driver.rebuild()
    driver.scheduler._check()
    posted(driver.scheduler.snapshot())
    return driver


def starts(scheduler: Scheduler, now: float) -> list[Effect]:
    """Return what a new scheduler starts and evicts at an instant."""
    found = [*scheduler.rebuild(now=now)]
    while (effects := scheduler.schedule_one(now=now)) is not None:
        found += effects
    return [effect for effect in found if isinstance(effect, Bind | Evict)]


@one_in(2)
@given(all_policies, histories(chapters=3), outages())
def test_restored_scheduler_goes_on_after_any_changes(
    policy: Policy, steps: list[HistoryStep], outage: Outage
) -> None:
    driver = resumed(policy, steps, outage)
    World(driver).finish()
    driver.advance(driver.now + 400.0)
    driver.settle()
    driver.scheduler._check()
    if outage.after is None and policy.preemption is None:
        assert starts(driver.make(driver.cluster), driver.now) == []
