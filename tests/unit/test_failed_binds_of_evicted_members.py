"""A bind that fails after the eviction of its group is no further failure of the group."""

from __future__ import annotations

from gangsched import (
    Bind,
    BindFailed,
    EvictGroup,
    GroupKey,
    InMemoryCluster,
    NodeAdded,
    PodAdded,
    Preemption,
    presets,
)
from gangsched.framework.lifecycle import transition
from gangsched.testing import make_node, make_pod

G = GroupKey("default/g")


def test_failed_binds_of_an_evicted_group_lengthen_no_backoff() -> None:
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(make_node("n", cpu=4)))
    for n in range(2):
        cluster.apply(PodAdded(make_pod(f"g{n}", group="g", min_available=2, cpu=1)))
    scheduler = presets.gang(cluster, preemption=Preemption())
    scheduler.rebuild(now=0.0)
    binds = [e for e in scheduler.schedule_one(now=0.0) or () if isinstance(e, Bind)]
    state = scheduler._state
    transition.apply_verdict(state, EvictGroup(G, "why"), now=0.5)
    entity = state.pods.entities[G]
    assert state.pods.evicted == {bind.uid for bind in binds}
    before = (entity.failures, entity.backoff_until)
    for bind in binds:
        scheduler.handle(BindFailed(bind.uid, bind.attempt, "refused"), now=1.0)
        assert (entity.failures, entity.backoff_until) == before
    assert not state.pods.evicted
    scheduler._check()
