"""What waited for a node, or for the end of its backoff, starts in queue order (F4, F9)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import NodeAdded, Outcome, Pod, PodAdded, Success, Unschedulable, presets
from gangsched.testing import make_node, make_pod
from support.immediate_host import ImmediateHost

pytestmark = pytest.mark.once("says itself which unit it is about")

_PRIORITIES = st.lists(st.integers(0, 3), min_size=1, max_size=6)


class _Closed:
    """Refuses every pod until it is opened."""

    name = "Closed"

    def __init__(self) -> None:
        self.is_open = False

    def pre_filter(self, state: object, pod: Pod, *, now: float) -> Outcome:
        return Success() if self.is_open else Unschedulable("closed")


def _waiting(host: ImmediateHost, priorities: list[int]) -> list[str]:
    """Add pods that cannot start; return their names in queue order."""
    for n, priority in enumerate(priorities):
        host.tell(PodAdded(make_pod(f"p{n}", priority=priority, cpu=1)))
        assert host.decide() == []
    return [f"p{n}" for n in sorted(range(len(priorities)), key=lambda n: (-priorities[n], n))]


@given(_PRIORITIES, st.integers(1, 6))
def test_pods_that_wait_for_nodes_start_in_queue_order(priorities: list[int], cpus: int) -> None:
    """F9: capacity that becomes free goes to the first that it fits."""
    host = ImmediateHost()
    host.scheduler = presets.gang(host.cluster)
    expected = _waiting(host, priorities)
    host.tell(NodeAdded(make_node("n", cpu=cpus)))
    assert host.decide() == expected[:cpus]


@given(_PRIORITIES)
def test_pods_return_from_backoff_to_their_places(priorities: list[int]) -> None:
    """F9: when several backoffs are found to be over at once, the order is that of the queue."""
    host, plugin = ImmediateHost(), _Closed()
    host.scheduler = presets.gang(host.cluster, plugins=[plugin])
    host.tell(NodeAdded(make_node("n", cpu=9)))
    expected = _waiting(host, priorities)
    plugin.is_open = True
    host.now = 100.0
    host.scheduler.advance(now=host.now)
    assert host.decide() == expected
