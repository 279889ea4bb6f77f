"""``smallest_change`` is about groups: for the key of a pod it says that this is a pod."""

from __future__ import annotations

import pytest

from gangsched import InMemoryCluster, InvalidValueError, Node, Pod, PodAdded, gang, presets
from gangsched.errors import UnknownPodError

SHAPE = Node(name="n", allocatable={"cpu": 4})


def test_key_of_a_pod_is_refused_as_the_key_of_a_pod() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    events = (PodAdded(Pod(name="solo")), *gang("train", workers=2, cpu=1).events())
    for event in events:
        scheduler.handle(cluster.apply(event), now=0.0)
    with pytest.raises(InvalidValueError, match="this is a pod, which has no group: ask what_if"):
        scheduler.smallest_change("default/solo", SHAPE)
    with pytest.raises(InvalidValueError, match="this is a pod, of pod group default/train"):
        scheduler.smallest_change("default/train-0", SHAPE)
    with pytest.raises(UnknownPodError):
        scheduler.smallest_change("default/other", SHAPE)
