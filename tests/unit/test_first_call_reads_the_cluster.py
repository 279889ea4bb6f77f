"""The first call of a scheduler lists the cluster state, whichever call it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gangsched import InMemoryCluster, Node, NodeAdded, NodeName, Scheduler, presets
from gangsched.errors import ClusterStateError
from gangsched.testing import make_node


class Contradicting(InMemoryCluster):
    """A cluster state that shows another node under each name."""

    def node(self, name: str) -> Node | None:
        return make_node("other") if super().node(name) else None


CALLS: list[Callable[[Scheduler], object]] = [
    lambda scheduler: scheduler.advance(now=0.0),
    lambda scheduler: scheduler.schedule_one(now=0.0),
    lambda scheduler: scheduler.rebuild(now=0.0),
]


@pytest.mark.parametrize("call", CALLS, ids=["advance", "schedule_one", "rebuild"])
def test_first_call_raises_if_the_cluster_state_contradicts_itself(
    call: Callable[[Scheduler], object],
) -> None:
    cluster = Contradicting()
    cluster.apply(NodeAdded(make_node("n")))
    with pytest.raises(ClusterStateError, match="is shown by the cluster state as the node other"):
        call(presets.gang(cluster))


def test_first_call_reads_what_no_event_has_said() -> None:
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(make_node("n")))
    scheduler = presets.gang(cluster)
    assert not scheduler._state.nodes.infos
    scheduler.advance(now=0.0)
    assert list(scheduler._state.nodes.infos) == [NodeName("n")]
