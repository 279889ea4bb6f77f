"""An eviction that was put off until a bind ended is posted only for a pod that still runs."""

from __future__ import annotations

import pytest
from attrs import evolve

from gangsched import Evict, NodeName, Pod, PodPhase
from gangsched.framework.lifecycle import assume
from gangsched.framework.state.current_call import CurrentCall
from gangsched.testing import make_pod

RUNNING = evolve(make_pod("p", cpu=1), node_name=NodeName("n"))


def test_eviction_of_a_running_pod_is_posted() -> None:
    call = CurrentCall()
    assume.post_evict(call, RUNNING, "why")
    assert call.out == [Evict(RUNNING.uid, NodeName("n"), "why")]


@pytest.mark.parametrize(
    "pod",
    [
        evolve(RUNNING, node_name=None),
        evolve(RUNNING, deleted_at=1.0),
        evolve(RUNNING, phase=PodPhase.SUCCEEDED),
    ],
    ids=["not bound", "terminating", "finished"],
)
def test_pod_that_does_not_run_is_not_evicted(pod: Pod) -> None:
    call = CurrentCall()
    assume.post_evict(call, pod, "why")
    assert call.out == []
