"""What the API server answered to a bind that is repeated is known until the bind ends."""

from __future__ import annotations

import json

from gangsched import Bind, Node, NodeAdded, NodeName
from gangsched.kubernetes._bind import Binder
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._decode import PodDecoder
from gangsched.kubernetes._reflector import Delta
from gangsched.kubernetes._requests import Requests
from support.cluster_objects import PODS, pod_json
from support.memory_api import MemoryApi, refused
from support.running import on_a_loop


@on_a_loop
async def test_problem_of_a_bind_is_known_between_its_tries_and_forgotten_at_its_end() -> None:
    api, cache, decode = MemoryApi(), Cache(["gangsched"]), PodDecoder()
    cache.cluster.apply(NodeAdded(Node(name="n")))
    facts = decode(json.dumps(api.put(PODS, pod_json("p"))).encode())
    assert facts is not None
    cache.pod(Delta("added", facts.identity, facts))
    faults = [refused(403, "not yours")]
    api.fault = lambda _method, _path: faults.pop() if faults else None
    seen: list[dict[str, str]] = []

    async def pause(_seconds: float) -> None:
        seen.append({str(uid): problem for uid, problem in cache.bind_problems.items()})

    binder = Binder(Requests(api, sleep=pause), cache, decode, lambda _event: None)
    await binder(Bind(facts.pod.uid, NodeName("n"), 1))
    assert [list(each) for each in seen] == [[facts.pod.uid]]
    assert "not yours" in seen[0][facts.pod.uid]
    assert cache.bind_problems == {}
