"""``kubectl gang get NAME …`` shows the gangs that are named, by listing and by asking."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gangsched.cli import _kubectl
from gangsched.kubernetes import _client
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.control_plane.processes import free_ports
from support.memory_api import MemoryApi
from support.running import on_a_loop, running, until

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")


class Server(MemoryApi):
    """An API server whose clients have a namespace."""

    namespace = "default"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()

    async def connect_client(**_named: Any) -> Server:
        return found

    monkeypatch.setattr(_client, "connect_client", connect_client)
    found.put(NODES, node_json("a", gpu=8))
    for namespace, name in (("default", "one"), ("default", "two"), ("ml", "one")):
        found.put(GROUPS, group_json(name, 1, namespace=namespace))
        found.put(PODS, pod_json(f"{name}-0", group=name, namespace=namespace))
    return found


def get(capsys: pytest.CaptureFixture[str], *names: str) -> tuple[int, list[str], str]:
    """Return the exit code, the keys of the gangs that are shown, and what is said beside."""
    code = _kubectl.main(["get", *names, "-o", "json", "--request-timeout", "5s"])
    printed = capsys.readouterr()
    items: list[dict[str, str]] = json.loads(printed.out)["items"] if printed.out else []
    return code, [f"{each['namespace']}/{each['name']}" for each in items], printed.err


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ((), ["default/one", "default/two"]),
        (("two",), ["default/two"]),
        (("two", "one"), ["default/one", "default/two"]),
        (("ml/one",), ["ml/one"]),
        (("one", "ml/one"), ["default/one", "ml/one"]),
        (("-n", "ml", "one"), ["ml/one"]),
        (("-A", "ml/one"), ["ml/one"]),
    ],
)
def test_gangs_that_are_named_are_listed(
    api: Server, capsys: pytest.CaptureFixture[str], names: tuple[str, ...], shown: list[str]
) -> None:
    code, keys, _beside = get(capsys, *names)
    assert (code, keys) == (0, shown)


def test_gang_that_is_not_there_is_an_error_after_the_others(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    code, keys, beside = get(capsys, "two", "three", "four")
    assert (code, keys) == (2, ["default/two"])
    assert "no pod group default/three, default/four" in beside
    code, keys, _beside = get(capsys, "three")
    assert (code, keys) == (2, [])


def test_name_without_a_namespace_is_refused_for_all_namespaces(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _keys, beside = get(capsys, "-A", "one")
    assert code == 2
    assert "one: expected NAMESPACE/NAME with --all-namespaces" in beside


def test_gangs_that_are_named_are_those_of_the_running_scheduler(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    @on_a_loop
    async def run() -> None:
        (port,) = free_ports(1)
        async with running(api, serve=("127.0.0.1", port)):
            await until(lambda: all(api.pods().values()))
            url = ("--scheduler-url", f"http://127.0.0.1:{port}")
            code, keys, beside = await asyncio.to_thread(get, capsys, "two", "ml/one", *url)
        assert (code, keys) == (0, ["default/two", "ml/one"])
        assert beside.startswith("by the scheduler at ")

    run()
