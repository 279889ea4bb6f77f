"""``WhatIf.starts``: whether a group would start."""

from __future__ import annotations

from gangsched import InMemoryCluster, Node, NodeAdded, gang, presets


def test_answer_says_which_groups_would_start() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    for name, workers in (("small", 2), ("large", 9)):
        for event in gang(name, workers=workers, cpu=1).events():
            scheduler.handle(cluster.apply(event), now=0.0)
    answer = scheduler.what_if(NodeAdded(Node(name="n", allocatable={"cpu": 4})), now=0.0)
    assert answer.starts("default/small")
    assert not answer.starts("default/large")
    assert not answer.starts("default/unknown")
    assert not scheduler.what_if(now=0.0).starts("default/small")
