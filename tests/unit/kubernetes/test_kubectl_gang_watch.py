"""``kubectl gang get --watch``: all gangs first, then those that change, until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gangsched.cli import _gang_get, _kubectl
from gangsched.kubernetes import _client
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.memory_api import MemoryApi

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")


class Server(MemoryApi):
    """An API server whose clients have a namespace."""

    namespace = "default"


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Let SIGINT interrupt the test: the workers that run tests at once ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def watched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., list[str]]:
    """Return a function that prints the gangs, makes one change after the other, and interrupts."""

    def run(api: Server, *changes: Callable[[], None]) -> list[str]:
        looks, printed, tasks = 0, list[str](), list[asyncio.Task[None]]()
        rows: Any = _gang_get.gangs_named

        def counted(*arguments: Any) -> Any:
            nonlocal looks
            looks += 1
            return rows(*arguments)

        async def script() -> None:
            try:
                for change in (*changes, None):
                    seen = looks
                    while looks < seen + 3:  # the last of them began after the change before
                        await asyncio.sleep(0.005)
                    printed.append(capsys.readouterr().out)
                    if change is not None:
                        change()
            finally:
                signal.raise_signal(signal.SIGINT)

        async def connect_client(**_named: Any) -> Server:
            tasks.append(asyncio.create_task(script()))
            return api

        monkeypatch.setattr(_gang_get, "gangs_named", counted)
        monkeypatch.setattr(_gang_get, "_LOOK", 0.02)
        monkeypatch.setattr(_client, "connect_client", connect_client)
        assert _kubectl.main(["get", "-w", "--request-timeout", "5s"]) == 130
        return printed

    return run


def test_watch_prints_what_has_changed_until_it_is_interrupted(
    watched: Callable[..., list[str]],
) -> None:
    api = Server()
    api.put(NODES, node_json("a"))
    for name in ("g", "h"):
        api.put(GROUPS, group_json(name, 1))
        api.put(PODS, pod_json(f"{name}-0", group=name))

    def bind() -> None:
        api.put(PODS, pod_json("g-0", group="g", nodeName="a"))

    def remove() -> None:
        api.remove(PODS, "default/h-0")
        api.remove(GROUPS, "default/h")

    first, second, third = watched(api, bind, remove)
    assert [line.split()[:2] for line in first.splitlines()] == [
        ["NAMESPACE", "NAME"],
        ["default", "g"],
        ["default", "h"],
    ]
    assert [line.split()[1] for line in second.splitlines()] == ["g"], "only what has changed"
    assert third == "default/h is gone\n"


def test_watch_prints_nothing_while_nothing_changes(watched: Callable[..., list[str]]) -> None:
    api = Server()
    api.put(NODES, node_json("a"))
    api.put(PODS, pod_json("g-0", group="g"))
    first, *later = watched(api, lambda: None, lambda: None)
    assert "g" in first
    assert later == ["", ""]
