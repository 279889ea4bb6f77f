"""A scheduler is down while the cluster changes; then it is restored, and lists the cluster.

This is what docs/how-to/keep-state-in-a-database.md says: ``restore``, then ``rebuild``. Meanwhile
pods, groups and nodes are deleted, changed, and created again under their names, and a quota is
added or taken away. Neither call raises, the laws hold, and what is told is what a scheduler tells
that has missed the same events. At rest, a scheduler that was made anew would start nothing more.
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
from support.restored import host_goes_on, posted
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
        is_lost: Whether binds and reports under way are lost, so that the next scheduler repeats
            them; otherwise the host goes on.
        bound: Which of the binds that are lost had been done, by bits.
    """

    steps: tuple[HistoryStep, ...]
    before: int | None
    after: int | None
    is_lost: bool
    bound: int


@st.composite
def outages(draw: st.DrawFn) -> Outage:
    drawn = draw(st.lists(st.one_of(_changes.map(lambda one: (one,)), whole_gangs()), max_size=8))
    limit = st.sampled_from([None, None, None, 2, 5])
    return Outage(
        tuple(step for steps in drawn for step in steps if not isinstance(step, Decide)),
        draw(limit),
        draw(limit),
        draw(st.booleans()),
        draw(st.integers(0, 255)),
    )


def make(policy: Policy, limit: int | None, cluster: ClusterState) -> Scheduler:
    if limit is None or not policy.gangs:
        return policy.make(cluster)
    quota = Quota(name="q", namespaces=["default"], hard={"cpu": limit})
    return evolve(policy, quotas=(quota,)).make(cluster)


def resumed(policy: Policy, steps: Sequence[HistoryStep], outage: Outage) -> Driver:
    """Return a driver of a restored scheduler after an outage, which has listed the cluster."""
    driver = Driver(
        partial(make, policy, outage.before),
        grouped=policy.gangs,
        match=policy.match_policy,
        check_each=8,
        # the oracle takes a bind that is repeated for a second one
        watched=not outage.is_lost,
    )
    world = World(driver).live(*steps)
    data = posted(driver.scheduler.snapshot())
    world.late = True
    world.live(*outage.steps)
    driver.untold.clear()
    before, driver.make = driver.scheduler, partial(make, policy, outage.after)
    driver.scheduler = driver.make(driver.cluster)
    driver.scheduler.restore(data)
    if outage.is_lost:
        for number, bind in enumerate(driver.under_way):
            if outage.bound >> number % 8 & 1:
                driver._bind(bind)
        driver.under_way.clear()
    else:
        host_goes_on(driver.scheduler)
    driver.rebuild()
    driver.scheduler._check()
    posted(driver.scheduler.snapshot())
    if not outage.is_lost and outage.before == outage.after:
        expected = before.rebuild(now=driver.now)
        assert list(map(str, driver.log[-1].effects)) == list(map(str, expected))
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
    if outage.after is None:
        assert starts(driver.make(driver.cluster), driver.now) == []
