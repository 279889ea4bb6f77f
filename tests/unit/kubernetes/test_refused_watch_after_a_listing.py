"""A watch that is refused once after its kind was listed, as while an API server starts."""

from __future__ import annotations

import pytest

from support.cluster_objects import NODES, PODS, node_json, pod_json
from support.memory_api import Fault, MemoryApi, refused
from support.running import on_a_loop, running, until


class _StartsSlowly:
    """The faults of an API server that lists nodes last, and refuses one watch for a moment."""

    def __init__(self, kind: str, status: int) -> None:
        self._kind = kind
        self._status = status
        self._watches = 0
        self.nodes_are_listed = False
        self.watch_is_accepted = False

    def __call__(self, method: str, path: str) -> Fault | None:
        if path.startswith(NODES) and not self.nodes_are_listed:
            return refused(503)
        if method == "WATCH" and self._kind in path:
            self._watches += 1
            if self._watches == 1:
                return refused(400)  # no WatchList: the kind is listed in pages
            if self._watches == 2:
                return refused(self._status)
            self.watch_is_accepted = True
        return None


@pytest.mark.parametrize("status", [403, 404])
@pytest.mark.parametrize("kind", ["/csidrivers", "/poddisruptionbudgets"])
@on_a_loop
async def test_pods_are_bound_after_a_refused_watch_of_a_listed_kind(
    kind: str, status: int
) -> None:
    api = MemoryApi()
    api.put(NODES, node_json("n0"))
    api.put(PODS, pod_json("p"))
    faults = _StartsSlowly(kind, status)
    api.fault = faults
    async with running(api):
        await until(lambda: faults.watch_is_accepted)
        assert not api.pods()["default/p"]
        faults.nodes_are_listed = True
        await until(lambda: api.pods()["default/p"])
