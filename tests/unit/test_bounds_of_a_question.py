"""A question whose steps are used up ends where it is, and says what is still in the queue."""

from __future__ import annotations

from gangsched import InMemoryCluster, NodeAdded, PodAdded, Scheduler, presets
from gangsched.framework.what_if import simulate
from gangsched.testing import make_node, make_pod


def waiting(groups: int) -> tuple[Scheduler, InMemoryCluster]:
    """Return a scheduler with gangs of two that do not fit."""
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(make_node("n", cpu=1)))
    for group in range(groups):
        for n in range(2):
            name = f"g{group}"
            pod = make_pod(f"{name}-{n}", group=name, min_available=2, cpu=1 + group)
            cluster.apply(PodAdded(pod))
    scheduler = presets.gang(cluster)
    scheduler.rebuild(now=0.0)
    while scheduler.schedule_one(now=0.0) is not None:
        pass
    return scheduler, cluster


def test_deadline_after_the_last_step_is_not_reached() -> None:
    scheduler, cluster = waiting(1)
    scheduler.handle(cluster.apply(NodeAdded(make_node("m", cpu=4))), now=0.1)
    deadline = scheduler.next_deadline()  # the end of the backoff
    assert deadline is not None
    spending = simulate.Spending(1_000_000)
    ahead = simulate.look(scheduler, scheduler._state, 0.1, spending)
    spending.left = 0
    ahead.run(deadline + 1.0)
    assert (ahead.is_cut_short, ahead.now) == (True, 0.1)


def test_groups_that_are_still_queued_are_told_how_many_are_before_them() -> None:
    scheduler, _cluster = waiting(4)
    spending = simulate.Spending(1_000_000)
    ahead = simulate.look(scheduler, scheduler._state, 100.0, spending)
    ahead.tell(NodeAdded(make_node("m", cpu=100)))
    assert len(list(ahead.state.queue.active)) == 4
    why = ahead.answer().why
    found = sorted(getattr(each, "ahead", -1) for each in why.values())
    assert found == [0, 1, 2, 3]
