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
