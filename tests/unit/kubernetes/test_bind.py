"""One bind, and whatever it takes to know how it ended; no watch tells it here."""

from __future__ import annotations

import asyncio
import json

import pytest

from gangsched import Bind, Event, Node, NodeAdded, NodeDeleted, NodeName, PodUpdated
from gangsched.kubernetes._api import Response
from gangsched.kubernetes._bind import Binder, BindRefusedError
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._decode import PodDecoder
from gangsched.kubernetes._reflector import Delta
from gangsched.kubernetes._requests import Requests
from gangsched.model import PodUID
from support.cluster_objects import PODS, pod_json
from support.memory_api import Fault, MemoryApi, lost_after, lost_before, refused
from support.running import on_a_loop

KEY = "default/p"


class Setting:
    """A pod, two nodes, and a binder."""

    def __init__(self) -> None:
        self.api = MemoryApi()
        self.cache = Cache(["gangsched"])
        self.found: list[Event] = []
        self.repeated: list[str] = []
        self.refused: list[int] = []
        self.leads = True
        for name in ("n", "other"):
            self.cache.cluster.apply(NodeAdded(Node(name=name)))
        stored = self.api.put(PODS, pod_json("p"))
        decode = PodDecoder()
        facts = decode(json.dumps(stored).encode())
        self.cache.pod(Delta("added", facts.identity, facts))
        self.bind = Bind(PodUID(facts.pod.uid), NodeName("n"), 1)

        async def at_once(_seconds: float) -> None:
            await asyncio.sleep(0)

        self.binder = Binder(
            Requests(self.api, sleep=at_once),
            self.cache,
            decode,
            self.found.append,
            lambda: self.leads,
            repeated=lambda _bind, why: self.repeated.append(why),
            refused=self.refused.append,
        )

    def faults(self, *faults: Fault) -> None:
        left = list(faults)
        self.api.fault = lambda method, _path: left.pop(0) if method == "POST" and left else None

    def node(self) -> str | None:
        return self.api.pods()[KEY]

    def placed(self, node: str) -> None:
        pod = self.api.get(PODS, KEY)
        assert pod is not None
        pod["spec"]["nodeName"] = node
        self.api.put(PODS, pod)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lost_before(), id="lost before"),
        pytest.param(lost_after(), id="lost after"),
        pytest.param(refused(500), id="500 before"),
        pytest.param(Fault(Response(500), done=True), id="500 after"),
        pytest.param(refused(429), id="429"),
        pytest.param(refused(403), id="403"),
    ],
)
@on_a_loop
async def test_bind_succeeds_whatever_becomes_of_its_first_answer(fault: Fault) -> None:
    setting = Setting()
    setting.faults(fault)
    await setting.binder(setting.bind)
    assert setting.node() == "n"


@pytest.mark.parametrize(
    ("faults", "why"),
    [
        pytest.param([refused(403, "no")], "binding rejected: no", id="403"),
        pytest.param([refused(500, "no")] * 9, "binding rejected: no", id="500"),
        pytest.param([lost_before()] * 9, "binding not answered: cut off before", id="hangs"),
        pytest.param([refused(500, "no")], None, id="500 once"),
    ],
)
@on_a_loop
async def test_bind_that_is_refused_for_long_is_told_once_and_counted_until_it_ends(
    faults: list[Fault], why: str | None
) -> None:
    setting = Setting()
    setting.faults(*faults)
    await setting.binder(setting.bind)
    assert setting.node() == "n"
    assert setting.repeated == ([] if why is None else [why])
    assert setting.refused == ([] if why is None else [1, 0])


@on_a_loop
async def test_pod_that_another_scheduler_bound_is_stored_before_the_failure() -> None:
    setting = Setting()
    setting.placed("other")
    with pytest.raises(BindRefusedError, match="bound to other by another scheduler"):
        await setting.binder(setting.bind)
    (event,) = setting.found
    assert isinstance(event, PodUpdated)
    assert event.pod.node_name == "other"
    shown = setting.cache.cluster.pod(setting.bind.uid)
    assert shown is not None
    assert shown.node_name == "other"


@on_a_loop
async def test_pod_that_is_on_the_node_already_is_bound() -> None:
    setting = Setting()
    setting.placed("n")
    await setting.binder(setting.bind)


@on_a_loop
async def test_terminating_gone_and_recreated_pods_are_refused() -> None:
    setting = Setting()
    pod = setting.api.get(PODS, KEY)
    assert pod is not None
    pod["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    setting.api.put(PODS, pod)
    with pytest.raises(BindRefusedError, match="is being deleted"):
        await setting.binder(setting.bind)
    setting.api.remove(PODS, KEY)
    with pytest.raises(BindRefusedError, match="not found"):
        await setting.binder(setting.bind)
    setting.api.put(PODS, pod_json("p"))
    with pytest.raises(BindRefusedError, match="another has its name"):
        await setting.binder(setting.bind)
    assert setting.node() is None


@on_a_loop
async def test_node_that_is_gone_takes_no_pod() -> None:
    setting = Setting()
    setting.cache.cluster.apply(NodeDeleted("n"))
    with pytest.raises(BindRefusedError, match="node n is gone"):
        await setting.binder(setting.bind)
    assert setting.api.requests == []


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lost_after(), id="lost"),
        pytest.param(Fault(Response(500), done=True), id="500"),
    ],
)
@on_a_loop
async def test_bind_that_was_done_before_its_node_went_is_a_success(fault: Fault) -> None:
    setting = Setting()

    def gone(method: str, _path: str) -> Fault | None:
        if method == "POST":
            setting.cache.cluster.apply(NodeDeleted("n"))
            return fault
        return None

    setting.api.fault = gone
    await setting.binder(setting.bind)
    assert setting.node() == "n"


@on_a_loop
async def test_nothing_is_sent_while_another_replica_may_lead() -> None:
    setting = Setting()
    setting.leads = False
    work = asyncio.create_task(setting.binder(setting.bind))
    await asyncio.sleep(0.15)
    assert setting.api.requests == []
    setting.leads = True
    await work
    assert setting.node() == "n"
