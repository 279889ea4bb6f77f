"""``kubectl gang get`` shows gangs that only the labels of their pods describe."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.cli import _kubectl
from gangsched.kubernetes import _client
from support.cluster_objects import NODES, PODS, node_json, pod_json
from support.memory_api import MemoryApi

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

LABELS = {
    "pod-group.scheduling.sigs.k8s.io/name": "train",
    "pod-group.scheduling.sigs.k8s.io/min-available": "2",
}


class Server(MemoryApi):
    """An API server whose clients have a namespace."""

    namespace = "default"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()

    async def connect_client(**_named: Any) -> Server:
        return found

    monkeypatch.setattr(_client, "connect_client", connect_client)
    found.put(NODES, node_json("a", cpu=1))
    return found


def phase(capsys: pytest.CaptureFixture[str]) -> str:
    assert _kubectl.main(["get", "--request-timeout", "5s"]) == 0
    _header, row = capsys.readouterr().out.splitlines()
    return row.split()[2]


def add(api: Server, name: str, phase: str = "Pending", **more: Any) -> None:
    pod = pod_json(name, **more)
    pod["metadata"]["labels"] = LABELS
    pod["status"] = {"phase": phase}
    api.put(PODS, pod)


def test_group_of_labels_is_pending_while_members_are_missing(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    add(api, "train-0")

    assert phase(capsys) == "Pending"


def test_group_of_labels_is_scheduling_once_it_is_complete(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    add(api, "train-0")
    add(api, "train-1")

    assert phase(capsys) == "Scheduling"


def test_group_of_labels_is_running_when_its_members_run(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    add(api, "train-0", "Running", nodeName="a")
    add(api, "train-1", "Running", nodeName="a")

    assert phase(capsys) == "Running"
