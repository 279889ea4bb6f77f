"""Each command of ``kubectl gang`` in each form of output, and the stream of ``get --watch``."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from gangsched.cli import _gang_get, _kubectl
from gangsched.kubernetes import _client
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.memory_api import MemoryApi

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

COMMANDS = {
    "GangList": ["get"],
    "why": ["why", "large"],
    "WhatIfList": ["what-if", "--add-nodes", "2", "--like", "a"],
    "queue": ["queue"],
    "pods": ["pods"],
    "demand": ["demand"],
}


class Server(MemoryApi):
    """An API server whose clients have a namespace."""

    namespace = "default"


def cluster() -> Server:
    """Return a cluster with a gang that fits, and one that lacks nodes."""
    api = Server()
    api.put(NODES, node_json("a", gpu=2))
    for name, size in (("small", 2), ("large", 4)):
        api.put(GROUPS, group_json(name, size))
        for number in range(size):
            api.put(PODS, pod_json(f"{name}-{number}", group=name))
    return api


@pytest.fixture
def kubectl(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    api = cluster()

    async def connect_client(**_named: Any) -> Server:
        return api

    monkeypatch.setattr(_client, "connect_client", connect_client)

    def run(*arguments: str) -> str:
        code = _kubectl.main([*arguments, "--request-timeout", "10s"])
        said = capsys.readouterr()
        assert code == 0, said.err
        return said.out

    return run


def without_ages(value: Any) -> Any:
    match value:
        case dict():
            return {
                k: without_ages(v) for k, v in value.items() if k not in ("age", "waiting", "at")
            }
        case list():
            return [without_ages(each) for each in value]
        case _:
            return value


@pytest.mark.parametrize("command", COMMANDS.values(), ids=lambda command: command[0])
def test_json_and_yaml_are_one_document_with_the_same_items(
    command: list[str], kubectl: Callable[..., str]
) -> None:
    as_json = json.loads(kubectl(*command, "-o", "json"))
    as_yaml = yaml.safe_load(kubectl(*command, "-o", "yaml"))
    assert without_ages(as_json) == without_ages(as_yaml)
    assert as_json["apiVersion"] == "gangsched.kubectl/v1"
    assert as_json["kind"].endswith("List")
    assert as_json["items"]
    assert "large" in json.dumps(as_json)


@pytest.mark.parametrize("command", COMMANDS.values(), ids=lambda command: command[0])
def test_wide_says_at_least_what_the_table_says(
    command: list[str], kubectl: Callable[..., str]
) -> None:
    plain, wide = kubectl(*command), kubectl(*command, "-o", "wide")
    assert plain.strip()
    assert "large" in plain
    words = {word for word in plain.split() if not word[:1].isdigit()}  # ages go on
    assert words <= set(wide.split())


@pytest.mark.parametrize("command", COMMANDS.values(), ids=lambda command: command[0])
def test_unknown_form_of_output_is_refused(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        raise SystemExit(_kubectl.main([*command, "-o", "name"]))
    assert "name" in capsys.readouterr().err


# get --watch ------------------------------------------------------------------------------------


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Let SIGINT interrupt the test: the workers that run tests at once ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def read_all(text: str, output: str) -> list[Any]:
    """Return the documents of a stream."""
    if output == "yaml":
        return [each for each in yaml.safe_load_all(text) if each is not None]
    found: list[Any] = []
    while text.strip():
        document, end = json.JSONDecoder().raw_decode(text)
        found.append(document)
        text = text[end:].lstrip()
    return found


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_watch_prints_a_document_for_each_change(
    output: str,
    ctrl_c: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    api, looks, tasks = cluster(), 0, list[asyncio.Task[None]]()
    rows: Any = _gang_get.gangs_named

    def counted(*arguments: Any) -> Any:
        nonlocal looks
        looks += 1
        return rows(*arguments)

    def remove() -> None:
        for number in range(2):
            api.remove(PODS, f"default/small-{number}")
        api.remove(GROUPS, "default/small")

    async def script() -> None:
        try:
            for change in (remove, None):
                seen = looks
                while looks < seen + 3:  # the last of them began after the change before
                    await asyncio.sleep(0.005)
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
    assert _kubectl.main(["get", "-w", "-o", output, "--request-timeout", "5s"]) == 130
    first, *later = read_all(capsys.readouterr().out, output)
    assert first["kind"] == "GangList"
    assert [item["name"] for item in first["items"]] == ["large", "small"]
    assert first["gone"] == []
    assert [each["gone"] for each in later][-1] == ["default/small"]
    assert all(item["name"] != "small" or item["have"] < 2 for e in later for item in e["items"])
