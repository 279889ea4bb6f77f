"""A group of a bundle stays parked for what it asked for, though its bundle asks for more now."""

from __future__ import annotations

from gangsched import Preemption
from support.driver import Fate
from support.histories import Policy
from support.history_steps import Decide, HistoryStep, PutGroup, PutNode, PutPods
from support.restored import posted, state_of

STEPS: tuple[HistoryStep, ...] = (
    PutNode(index=0, cpu=2),
    PutGroup(group=0, minimum=1),
    PutPods(group=0, count=1, cpu=1, role="worker"),
    Decide(fate=Fate.DONE),
    PutNode(index=0, cpu=2),
    PutGroup(group=0, minimum=1, bundle=(0, 3)),
    PutPods(group=0, count=1, cpu=1, role="worker"),
    PutGroup(group=3, minimum=1, bundle=(0, 3)),
    PutPods(group=3, count=1, cpu=1, priority=1, role="worker"),
    Decide(fate=Fate.FAILED),
    PutNode(index=0, cpu=1),
    PutPods(group=0, count=1, minimum=1, cpu=1),
    PutPods(group=None, count=1, cpu=1),
    Decide(fate=Fate.DONE),
    PutGroup(group=1, minimum=1),
    PutPods(group=1, count=1, cpu=1, priority=1),
    Decide(fate=Fate.PENDING),
)


def test_snapshot_is_restored_though_a_bundle_asks_for_more_than_when_it_was_parked() -> None:
    policy = Policy(bind_retries=1, preemption=Preemption(grace=60.0))
    driver = policy.world().live(*STEPS).driver
    other = driver.make(driver.cluster)
    other.restore(posted(driver.scheduler.snapshot()))
    assert state_of(other) == state_of(driver.scheduler)
