"""Requests that kube-scheduler never sends: each gets an answer, and nothing else is affected."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from gangsched.errors import InvalidValueError
from gangsched.kubernetes.extender import _http
from gangsched.kubernetes.extender._messages import read_binding_args
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.extender_client import Asking, extending
from support.memory_api import MemoryApi
from support.patience import HANG
from support.running import on_a_loop

NAMES = ["n0", "n1"]
DEEP = 100_000
SOLO: dict[str, Any] = {
    **pod_json("solo"),
    "metadata": {"name": "solo", "namespace": "default", "uid": "uid-of-solo"},
}


def cluster() -> MemoryApi:
    api = MemoryApi()
    for name in NAMES:
        api.put(NODES, node_json(name))
    return api


async def answer(asking: Asking, verb: str, body: bytes) -> tuple[int, str]:
    async with asking.session.post(f"{asking.url}/{verb}", data=body) as response:
        return response.status, await response.text()


def request_of(pod: object = SOLO, **more: object) -> bytes:
    return json.dumps({"Pod": pod, "NodeNames": NAMES, **more}).encode()


MALFORMED = {
    "empty": b"",
    "null": b"null",
    "a list": b"[]",
    "brackets without end": b"[" * DEEP,
    "a deep pod": b'{"NodeNames":[],"Pod":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "a deep pod of objects": b'{"NodeNames":[],"Pod":'
    + b'{"a":' * DEEP
    + b"1"
    + b"}" * DEEP
    + b"}",
    "a deep unknown field": b'{"X":' + b"[" * DEEP + b"]" * DEEP + b',"Pod":{},"NodeNames":[]}',
    "a node that is not UTF-8": request_of(NodeNames=["?"]).replace(b'["?"]', b'["\xff"]'),
    "a pod that is not UTF-8": request_of().replace(b"uid-of-solo", b"\xff"),
    "half a surrogate": request_of(NodeNames=["?"]).replace(b"?", b"\\ud800"),
    "no number": b'{"Pod":NaN,"NodeNames":[]}',
    "text behind it": request_of() + b"x",
    "nodes as null": request_of(Nodes=None, NodeNames=None),
    "no names of nodes": json.dumps({"Pod": SOLO, "Nodes": {"items": []}}).encode(),
    "a node that is a number": request_of(NodeNames=[1]),
    "names that are an object": request_of(NodeNames={}),
    "no pod": request_of(None),
    "a node as the pod": request_of(node_json("n0")),
    "an endless quantity": request_of(pod_json("solo")).replace(
        b'"cpu": "1"', b'"cpu": "1e999999999"'
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_request_is_answered_with_400_and_leaves_the_log_empty(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    @on_a_loop
    async def story() -> None:
        async with extending(cluster()) as asking:
            for verb in ("filter", "prioritize", "preempt", "bind"):
                status, text = await answer(asking, verb, MALFORMED[name])
                assert (verb, status) == (verb, 400), text
                assert len(text) < 1000
            assert await answer(asking, "filter", request_of()) == (
                200,
                '{"NodeNames":["n0","n1"],"FailedAndUnresolvableNodes":{},"FailedNodes":{},"Error":""}',
            )

    with caplog.at_level(logging.WARNING, "gangsched.kubernetes.extender"):
        story()
    assert caplog.text == ""


@on_a_loop
async def test_names_of_nodes_count_if_nodes_are_sent_as_well() -> None:
    async with extending(cluster()) as asking:
        nodes = {"items": [node_json("other")]}
        status, text = await answer(asking, "filter", request_of(Nodes=nodes))
        assert status == 200
        assert json.loads(text)["NodeNames"] == NAMES


@on_a_loop
async def test_unknown_and_repeated_nodes_are_answered_within_the_request() -> None:
    api = cluster()
    api.put(PODS, pod_json("g-0", group="g"))
    api.put(GROUPS, group_json("g", 1))
    async with extending(api) as asking:
        assert await asking.decided("g-0", [*NAMES, *NAMES, "unheard-of"]) in NAMES
        assert await asking.filter("g-0", ["unheard-of"]) == []


@pytest.mark.parametrize("field", ["PodName", "PodNamespace", "PodUID", "Node"])
@pytest.mark.parametrize("value", ["", ".", "..", "a/b", "a\nb", "x" * 300])
def test_bind_of_a_name_that_no_object_has_is_refused(field: str, value: str) -> None:
    """Such a name would be a part of the path of a request with the rights of the extender."""
    given = {"PodName": "a", "PodNamespace": "b", "PodUID": "c", "Node": "d", field: value}
    with pytest.raises(InvalidValueError, match=f"^{field} must be "):
        read_binding_args(json.dumps(given).encode())


@on_a_loop
async def test_request_that_is_too_large_is_refused_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_http, "_LARGEST", 10_000)
    async with extending(cluster()) as asking:
        status, text = await answer(asking, "filter", request_of(NodeNames=["n" * 20_000]))
        assert (status, text) == (413, "the request has more than 10000 bytes\n")
        assert (await answer(asking, "filter", request_of()))[0] == 200


@on_a_loop
async def test_request_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_http, "_READING", 0.2)
    async with extending(cluster()) as asking:
        host, _, port = asking.url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        async with asyncio.timeout(HANG):
            found = await reader.read()  # until the server closes the connection
        writer.close()
        await writer.wait_closed()
        assert found.startswith(b"HTTP/1.1 408 ")


@on_a_loop
async def test_fifty_equal_requests_of_a_member_are_answered_alike() -> None:
    api = cluster()
    for each in ("g-0", "g-1"):
        api.put(PODS, pod_json(each, group="g"))
    api.put(GROUPS, group_json("g", 2))
    async with extending(api) as asking:
        nodes = {each: await asking.decided(each, NAMES) for each in ("g-0", "g-1")}
        many = [asyncio.create_task(asking.bind("g-0", nodes["g-0"])) for _ in range(50)]
        await asyncio.sleep(0.1)
        assert not any(api.pods().values())
        assert await asking.bind("g-1", nodes["g-1"]) == ""
        assert set(await asyncio.gather(*many)) == {""}
    assert api.pods() == {f"default/{name}": node for name, node in nodes.items()}
