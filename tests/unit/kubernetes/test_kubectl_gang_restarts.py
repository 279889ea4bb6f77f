"""How often a gang was restarted, as ``kubectl gang get`` shows it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gangsched.cli import _kubectl
from gangsched.kubernetes import _client
from support.cluster_objects import GROUPS, PODS, group_json, pod_json
from support.memory_api import MemoryApi

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")


class Server(MemoryApi):
    """An API server with a gang that was restarted, one that never was, and one of labels."""

    namespace = "default"

    def __init__(self) -> None:
        super().__init__()
        restarted = group_json("restarted", 1)
        restarted["metadata"]["annotations"] = {"gangsched.io/restarts": "3"}
        self.put(GROUPS, restarted)
        self.put(GROUPS, group_json("never", 1))
        labelled = pod_json("labelled-0")
        labelled["metadata"]["labels"] = {
            "pod-group.scheduling.sigs.k8s.io/name": "labelled",
            "pod-group.scheduling.sigs.k8s.io/min-available": "1",
        }
        self.put(PODS, labelled)


@pytest.fixture
def get(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    found = Server()

    async def connect_client(**_named: Any) -> Server:
        return found

    monkeypatch.setattr(_client, "connect_client", connect_client)

    def run(*arguments: str) -> str:
        assert _kubectl.main(["get", *arguments, "--request-timeout", "5s"]) == 0
        return capsys.readouterr().out

    return run


def test_wide_table_has_the_restarts_of_each_gang(get: Callable[..., str]) -> None:
    header, *lines = get("-o", "wide").splitlines()
    place = header.index("RESTARTS")
    shown = {line.split()[1]: line[place:].split()[0] for line in lines}
    assert shown == {"restarted": "3", "never": "0", "labelled": "0"}
    assert "RESTARTS" not in get()


def test_documents_have_the_restarts_of_each_gang(get: Callable[..., str]) -> None:
    items = json.loads(get("-o", "json"))["items"]
    assert {each["name"]: each["restarts"] for each in items} == {
        "restarted": 3,
        "never": 0,
        "labelled": 0,
    }
