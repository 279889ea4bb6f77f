"""Evictions, and the 409 that does not say which: another object, or a change of this one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gangsched import Evict, Node, NodeAdded, NodeName, PodUID
from gangsched.kubernetes._api import STRATEGIC_MERGE_PATCH
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._decode import PodDecoder
from gangsched.kubernetes._evict import Evictor
from gangsched.kubernetes._reflector import Delta
from gangsched.kubernetes._requests import RequestError, Requests
from support.cluster_objects import PODS, pod_json
from support.memory_api import Fault, MemoryApi, refused
from support.running import on_a_loop

CHANGED = "the object has been modified; please apply your changes"


async def at_once(_seconds: float) -> None:
    return None


class Cluster:
    """A bound pod, and an evictor."""

    def __init__(self, *, respect_budgets: bool = False) -> None:
        self.api, cache = MemoryApi(), Cache(["gangsched"])
        cache.cluster.apply(NodeAdded(Node(name="n")))
        facts = PodDecoder()(json.dumps(self.api.put(PODS, pod_json("p", nodeName="n"))).encode())
        assert facts is not None
        cache.pod(Delta("added", facts.identity, facts))
        self.uid = facts.pod.uid
        self.evicted: list[PodUID] = []
        self.evictor = Evictor(
            Requests(self.api, sleep=at_once),
            cache,
            lambda _uid: False,
            lambda pod, _evict: self.evicted.append(pod.uid),
            respect_budgets=respect_budgets,
        )

    async def evict(self) -> None:
        await self.evictor(Evict(self.uid, NodeName("n"), "its gang has failed"))


@pytest.mark.parametrize(("respect_budgets", "method"), [(False, "DELETE"), (True, "POST")])
@on_a_loop
async def test_eviction_that_meets_a_change_of_the_pod_is_not_done(
    respect_budgets: bool, method: str
) -> None:
    cluster, left = Cluster(respect_budgets=respect_budgets), [refused(409, CHANGED)]
    cluster.api.fault = lambda used, path: (
        left.pop() if left and used == method and not path.endswith("/status") else None
    )
    with pytest.raises(RequestError, match="409: the object has been modified"):
        await cluster.evict()
    assert cluster.evicted == []
    assert cluster.api.get(PODS, "default/p") is not None
    await cluster.evict()  # as a driver repeats it
    assert cluster.evicted == [cluster.uid]
    assert cluster.api.get(PODS, "default/p") is None


@pytest.mark.parametrize("is_created_again", [True, False])
@on_a_loop
async def test_pod_that_is_gone_or_another_one_counts_as_evicted(is_created_again: bool) -> None:
    cluster = Cluster()

    def fault(method: str, _path: str) -> Fault | None:
        if method != "DELETE":
            return None
        cluster.api.remove(PODS, "default/p")
        if is_created_again:
            cluster.api.put(PODS, pod_json("p"))
            return None
        return refused(409, CHANGED)

    cluster.api.fault = fault
    await cluster.evict()
    assert cluster.evicted == [cluster.uid]
    assert (cluster.api.get(PODS, "default/p") is not None) is is_created_again


@pytest.mark.parametrize(("conflicts", "written"), [(2, True), (5, False)])
@on_a_loop
async def test_patch_that_meets_a_change_is_repeated_a_few_times(
    conflicts: int, written: bool
) -> None:
    api, left = MemoryApi(), [refused(409, CHANGED)] * conflicts
    api.put(PODS, pod_json("p"))
    api.fault = lambda _method, _path: left.pop() if left else None
    body: dict[str, Any] = {"status": {"nominatedNodeName": "n"}}
    await Requests(api, sleep=at_once).patch(
        "/api/v1/namespaces/default/pods/p/status",
        body=json.dumps(body).encode(),
        content_type=STRATEGIC_MERGE_PATCH,
        lane="status",
        patience=1.0,
    )
    assert ("nominatedNodeName" in api.objects[PODS]["default/p"]["status"]) is written
    assert len(api.requests) == 3
