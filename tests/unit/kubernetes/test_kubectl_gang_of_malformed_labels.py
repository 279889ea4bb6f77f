"""``kubectl gang`` and the pages of the scheduler show groups whose labels are malformed."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from gangsched.cli import _kubectl
from gangsched.kubernetes import _client
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.control_plane.processes import free_ports
from support.memory_api import MemoryApi
from support.patience import HANG
from support.running import on_a_loop, running

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

PREFIX = "pod-group.scheduling.sigs.k8s.io"
NAME, MINIMUM = f"{PREFIX}/name", f"{PREFIX}/min-available"
SENTENCE = f"refused: pod default/zero-0: {MINIMUM} must be an int >= 1, got '0'"


class Server(MemoryApi):
    """An API server whose clients have a namespace."""

    namespace = "default"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()

    async def connect_client(**_named: Any) -> Server:
        return found

    monkeypatch.setattr(_client, "connect_client", connect_client)
    found.put(NODES, node_json("a"))
    return found


def gang(api: MemoryApi, name: str, minimum: str, count: int = 2, first: int = 0) -> None:
    for n in range(first, first + count):
        pod = pod_json(f"{name}-{n}")
        pod["metadata"]["labels"] = {NAME: name, MINIMUM: minimum}
        api.put(PODS, pod)


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert _kubectl.main([*arguments, "--request-timeout", "5s"]) == 0
    return capsys.readouterr().out


def test_group_with_a_malformed_minimum_has_a_row(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    gang(api, "zero", "0")
    _header, row = listed(capsys, "get").splitlines()
    assert row.split()[:5] == ["default", "zero", "Refused", "-", "2"]
    assert f"{SENTENCE}; and 1 more" in row


def test_pods_of_a_group_with_a_malformed_minimum_are_listed(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    gang(api, "zero", "0")
    gang(api, "train", "2")
    _header, *rows = listed(capsys, "pods").splitlines()
    names = [row.split()[1:3] for row in rows]
    assert names == [[g, f"{g}-{n}"] for g in ("train", "zero") for n in range(2)]


def test_why_of_a_malformed_minimum_names_label_and_value(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    gang(api, "zero", "0")
    text = listed(capsys, "why", "zero")
    assert "pod group default/zero: Refused: 2 members are there; the minimum is unknown" in text
    assert f"why: {SENTENCE}" in text
    assert f"what would help: pods whose {MINIMUM} is an int >= 1\n" in text


def test_group_with_one_malformed_pod_says_so_beside_its_reason(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    gang(api, "zero", "0", count=1)
    gang(api, "zero", "2", count=1, first=1)
    text = listed(capsys, "why", "zero")
    assert "pod group default/zero: Pending: 2 of 2 members are there" in text
    assert f"1 more member: 1 of 2 exist; {SENTENCE}" in text


def test_malformed_pod_beside_a_podgroup_keeps_the_reason_of_the_group(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    api.put(GROUPS, group_json("zero", 2))
    gang(api, "zero", "0")
    text = listed(capsys, "why", "zero")
    assert "Refused" in text
    assert f"0 of 2 exist; {SENTENCE}" in text


def test_unknown_group_is_answered_with_up_to_twenty_names(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    for n in range(21):
        gang(api, f"g{n:02}", "1", count=1)
    assert _kubectl.main(["why", "absent", "--request-timeout", "5s"]) == 2
    error = capsys.readouterr().err
    assert "default/g00, default/g01" in error
    assert "default/g19, ..." in error
    assert "default/g20" not in error


# The pages of the running scheduler ---------------------------------------------------------------


def fetch(port: int, target: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{target}", timeout=HANG) as page:
            return page.status, json.load(page)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, {}
    except urllib.error.URLError:  # it does not listen yet
        return 0, {}


async def answer(port: int, target: str, true: Callable[[int, Any], bool]) -> dict[str, Any]:
    async with asyncio.timeout(HANG):
        while True:
            status, document = await asyncio.to_thread(fetch, port, target)
            if true(status, document):
                return document
            await asyncio.sleep(0.02)


@on_a_loop
async def test_pages_of_the_scheduler_show_a_group_with_a_malformed_minimum() -> None:
    api = MemoryApi()
    (port,) = free_ports(1)
    api.put(NODES, node_json("a"))
    gang(api, "zero", "0")
    async with running(api, serve=("127.0.0.1", port)):
        gangs = await answer(port, "/gangs", lambda status, _found: status == 200)
        (item,) = gangs["items"]
        assert (item["phase"], item["have"], item["needed"]) == ("Refused", 2, None)
        assert SENTENCE in item["reason"]
        why = await answer(port, "/why?group=default/zero", lambda status, _found: status == 200)
        assert SENTENCE in why["items"][0]["why"]
        assert why["items"][0]["helps"] == f"pods whose {MINIMUM} is an int >= 1"
        elsewhere = await answer(port, "/gangs?namespace=x", lambda status, _found: status == 200)
        assert elsewhere["items"] == []


@on_a_loop
async def test_group_whose_malformed_pods_are_corrected_or_gone_is_not_refused() -> None:
    api = MemoryApi()
    (port,) = free_ports(1)
    api.put(NODES, node_json("a"))
    gang(api, "zero", "0")
    gang(api, "gone", "0", count=1)
    async with running(api, serve=("127.0.0.1", port)):
        await answer(port, "/gangs", lambda _status, found: len(found.get("items", ())) == 2)
        api.remove(PODS, "default/gone-0")
        for n in range(2):
            pod = api.get(PODS, f"default/zero-{n}")
            assert pod is not None
            pod["metadata"]["labels"][MINIMUM] = "2"
            api.put(PODS, pod)

        def is_running(_status: int, found: dict[str, Any]) -> bool:
            items = found.get("items", ())
            return [(each["name"], each["held"]) for each in items] == [("zero", 2)]

        gangs = await answer(port, "/gangs", is_running)
        assert gangs["items"][0]["reason"] == ""
        await answer(port, "/why?group=default/gone", lambda status, _found: status == 404)
