"""409 does not say which: another object has the name, or this one was changed at the same time."""

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
STATUS = f"{PODS.rpartition('/')[0]}/namespaces/default/pods/p/status"


class Cluster:
    """A bound pod, and an evictor."""

    def __init__(self, *, respect_budgets: bool) -> None:
        self.api, self.cache = MemoryApi(), Cache(["gangsched"])
        self.cache.cluster.apply(NodeAdded(Node(name="n")))
        pod = pod_json("p")
        pod["spec"]["nodeName"] = "n"
        facts = PodDecoder()(json.dumps(self.api.put(PODS, pod)).encode())
        assert facts is not None
        self.cache.pod(Delta("added", facts.identity, facts))
        self.uid = facts.pod.uid
        self.evicted: list[PodUID] = []
        self._evictor = Evictor(
            Requests(self.api, sleep=_at_once),
            self.cache,
            lambda _uid: False,
            lambda pod, _evict: self.evicted.append(pod.uid),
            respect_budgets=respect_budgets,
        )

    async def evict(self) -> None:
        await self._evictor(Evict(self.uid, NodeName("n"), "its gang has failed"))

    def refuse_once(self, *methods: str) -> None:
        left = list(methods)

        def fault(method: str, path: str) -> Fault | None:
            if left and method == left[0] and not path.endswith("/status"):
                left.pop(0)
                return refused(409, CHANGED)
            return None

        self.api.fault = fault


async def _at_once(_seconds: float) -> None:
    return None


@pytest.mark.parametrize(("respect_budgets", "method"), [(False, "DELETE"), (True, "POST")])
@on_a_loop
async def test_eviction_that_meets_a_change_of_the_pod_is_not_done(
    respect_budgets: bool, method: str
) -> None:
    cluster = Cluster(respect_budgets=respect_budgets)
    cluster.refuse_once(method)
    with pytest.raises(RequestError, match="409: the object has been modified"):
        await cluster.evict()
    assert cluster.evicted == []
    assert cluster.api.get(PODS, "default/p") is not None
    await cluster.evict()  # as a driver repeats it
    assert cluster.evicted == [cluster.uid]
    assert cluster.api.get(PODS, "default/p") is None


@on_a_loop
async def test_pod_of_which_another_has_the_name_counts_as_evicted() -> None:
    cluster = Cluster(respect_budgets=False)
    cluster.api.remove(PODS, "default/p")
    cluster.api.put(PODS, pod_json("p"))
    await cluster.evict()
    assert cluster.evicted == [cluster.uid]
    assert cluster.api.get(PODS, "default/p") is not None


@on_a_loop
async def test_pod_that_is_gone_when_it_is_looked_at_counts_as_evicted() -> None:
    cluster = Cluster(respect_budgets=False)

    def fault(method: str, _path: str) -> Fault | None:
        if method == "DELETE":
            cluster.api.remove(PODS, "default/p")
            return refused(409, CHANGED)
        return None

    cluster.api.fault = fault
    await cluster.evict()
    assert cluster.evicted == [cluster.uid]


@pytest.mark.parametrize(("conflicts", "written", "requests"), [(2, True, 3), (5, False, 3)])
@on_a_loop
async def test_patch_that_meets_a_change_is_repeated_a_few_times(
    conflicts: int, written: bool, requests: int
) -> None:
    api, left = MemoryApi(), [refused(409, CHANGED)] * conflicts
    api.put(PODS, pod_json("p"))
    api.fault = lambda _method, _path: left.pop() if left else None
    body: dict[str, Any] = {"status": {"nominatedNodeName": "n"}}
    await Requests(api, sleep=_at_once).patch(
        STATUS,
        body=json.dumps(body).encode(),
        content_type=STRATEGIC_MERGE_PATCH,
        lane="status",
        patience=1.0,
    )
    found = api.get(PODS, "default/p")
    assert found is not None
    assert ("nominatedNodeName" in found.get("status", {})) is written
    assert len(api.requests) == requests
