"""Preemption beside the reservation of another gang comes to an end."""

from __future__ import annotations

from functools import partial

from gangsched import Backfill, Node, NodeAdded, NodeName, Preemption, presets
from support.story import Story, Way, each_way


@each_way
def test_preemptor_starts_though_its_nodes_are_drained_for_another_gang(way: Way) -> None:
    """Once the victim is gone, nodes are drained for ``older``, the nominated one among them.

    ``preemptor`` did not start then: its victim came back, and was evicted every 20 s.
    """
    make = partial(presets.gang, preemption=Preemption(), backfill=Backfill(drain_for=20.0))
    story = Story(make, way, recreates=True)
    for number, cpu in enumerate((3, 3, 4)):
        allocatable = {"cpu": cpu, "pods": 10}
        story.tell(NodeAdded(Node(name=NodeName(f"n{number}"), allocatable=allocatable)))
    gangs = {"victim": (1, 2, 0), "other": (2, 2, 1), "older": (3, 2, 1), "preemptor": (1, 3, 1)}
    for name, (size, cpu, priority) in gangs.items():
        story.gang(name, size, cpu=cpu, priority=priority)
        story.decide()
    story.interrupt()
    story.run(until=2000.0)
    assert story.evicted == ["victim-0"]
    assert sorted(story.bound) == ["other-0", "other-1", "preemptor-0"]


@each_way
def test_pod_starts_though_nodes_were_drained_for_a_gang_that_no_end_helps(way: Way) -> None:
    """``drains`` gives its nodes up in time; ``alone`` fitted there, and was not woken."""
    make = partial(presets.gang, backfill=Backfill(drain_for=30.0))
    story = Story(make, way)
    for number in range(2):
        allocatable = {"cpu": 2, "pods": 10}
        story.tell(NodeAdded(Node(name=NodeName(f"n{number}"), allocatable=allocatable)))
    story.gang("ends", 1, cpu=1, priority=2)
    story.gang("stays", 1, cpu=1, priority=2)
    story.gang("drains", 2, cpu=2, priority=1)
    story.gang("alone", 1, cpu=1)
    story.decide()
    assert sorted(story.bound) == ["ends-0", "stays-0"]
    story.delete("ends-0")
    story.interrupt()
    story.run(until=40.0)  # once the nodes are given up, they are not drained again
    assert "alone-0" in story.bound


@each_way
def test_gang_of_higher_priority_is_tried_before_the_one_that_gets_a_reservation(way: Way) -> None:
    """``large`` could start at once, so its nodes were held, and ``small`` counted as unfit."""
    make = partial(presets.gang, backfill=Backfill(overdue_after=0.0, drain_for=5.0))
    story = Story(make, way)
    story.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 2, "pods": 10})))
    story.gang("first", 1, cpu=2, priority=9)
    story.decide()
    story.gang("large", 2, cpu=1)
    story.gang("small", 1, cpu=1, priority=1)
    story.run(until=60.0)
    story.interrupt()
    story.delete("first-0")
    story.decide()
    assert sorted(story.bound) == ["small-0"]
