"""What a question copies of the state counts against its budget."""

from __future__ import annotations

from attrs import evolve

from gangsched import InMemoryCluster, NodeAdded, PodAdded, Preemption, presets
from gangsched import _copying as copying
from gangsched.framework.what_if import simulate
from gangsched.testing import make_node, make_pod


def steps_of_a_question(nodes: int) -> int:
    """Return the steps of a question in which one pod looks for victims on full nodes."""
    cluster = InMemoryCluster()
    for n in range(nodes):
        cluster.apply(NodeAdded(make_node(f"n{n}", cpu=4)))
        for slot in range(4):
            pod = evolve(make_pod(f"p{n}-{slot}", cpu=1), node_name=f"n{n}")
            cluster.apply(PodAdded(pod))
    cluster.apply(PodAdded(make_pod("late", cpu=9, priority=5)))
    scheduler = presets.gang(cluster, preemption=Preemption())
    scheduler.rebuild(now=0.0)
    spending = simulate.Spending(1_000_000)
    ahead = simulate.look(scheduler, scheduler._state, 0.0, spending)
    begun = spending.left
    before = ahead.state.attempts.search_steps
    ahead.settle()
    searched = ahead.state.attempts.search_steps - before
    return begun - spending.left - searched


def test_objects_that_a_decision_copies_are_counted_beyond_the_free_ones() -> None:
    assert steps_of_a_question(20) == 10, "a decision"
    assert steps_of_a_question(1_000) > 2_000, "10,000 objects and more are copied"


def test_number_of_copies_grows_as_values_of_dicts_are_read() -> None:
    made, count = copying.fork_counted({n: [n] for n in range(50)})
    before = count()
    assert made[0] == [0]
    assert count() == before + 1
    assert made[0] is made[0]
    assert count() == before + 1
