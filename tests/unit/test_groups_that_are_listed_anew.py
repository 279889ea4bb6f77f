"""A group whose members are all gone with a listing has not fallen below its minimum."""

from __future__ import annotations

from typing import Any

from gangsched import (
    Bind,
    Bound,
    Effect,
    GroupBelowMinimum,
    GroupKey,
    GroupRestarted,
    InMemoryCluster,
    NodeAdded,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodUID,
    RestartPolicy,
    presets,
)
from gangsched.testing import make_node, make_pod

_KEY = GroupKey("default/g")


def test_first_member_of_a_group_that_was_deleted_and_made_anew_restarts_nothing() -> None:
    cluster, told = InMemoryCluster(), list[Effect]()
    scheduler = presets.gang(cluster)
    scheduler.allow_evictions()

    def tell(event: Any) -> None:
        told.extend(scheduler.handle(cluster.apply(event), now=0.0))

    tell(NodeAdded(make_node("n", cpu=4)))
    tell(PodGroupAdded(PodGroup(name="g", min_available=2, restart=RestartPolicy())))
    for name in ("old-0", "old-1"):
        tell(PodAdded(make_pod(name, group="g", cpu=1)))
    while (effects := scheduler.schedule_one(now=0.0)) is not None:
        for bind in effects:
            if isinstance(bind, Bind):
                tell(Bound(bind.uid, bind.node, bind.attempt))
    restarts = scheduler._state.pods.restarts
    assert restarts.runs(_KEY)
    for name in ("old-0", "old-1"):
        cluster.apply(PodDeleted(PodUID(f"default/{name}")))
    told.extend(scheduler.rebuild(now=1.0))
    assert not restarts.runs(_KEY)
    told.extend(scheduler.handle(cluster.apply(PodAdded(make_pod("new", group="g"))), now=1.0))
    scheduler._check()
    assert not [e for e in told if isinstance(e, GroupBelowMinimum | GroupRestarted)]
