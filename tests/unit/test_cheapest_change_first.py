"""What would start a gang is printed in one order: the least added capacity first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gangsched.cli import _kubectl
from gangsched.cli._cheapest import cheapest_first
from gangsched.explain import NoNodeFits
from gangsched.kubernetes import _client
from gangsched.model import GroupKey, Node
from gangsched.what_if import Insufficient, SmallestChange, Sufficient
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.memory_api import MemoryApi

pytestmark = pytest.mark.once("compares values, and asks one scheduler")

G = GroupKey("default/g")
GPU = "nvidia.com/gpu"


def enough(nodes: int, name: str = "n", **allocatable: int | str) -> Sufficient:
    amounts = {GPU if each == "gpu" else each: amount for each, amount in allocatable.items()}
    return Sufficient(G, Node(name=name, allocatable=amounts), nodes, 0.0, 0.0)


def lacking(*, exhausted: bool) -> Insufficient:
    shape = Node(name="n", allocatable={"cpu": 1})
    return Insufficient(G, shape, 4, 0.0, NoNodeFits(1, "no"), exhausted=exhausted)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (enough(0, cpu=64, gpu=8), enough(1, cpu=1)),
        (enough(9, cpu=64, memory="9Gi"), enough(1, cpu=1, gpu=1)),
        (enough(2, cpu=64, gpu=1), enough(1, cpu=1, gpu=8)),
        (enough(2, cpu=4, gpu=1), enough(2, cpu=8, gpu=1)),
        (enough(1, cpu=4, memory="1Gi"), enough(1, cpu=4, memory="2Gi")),
        (enough(1, cpu=4), enough(2, cpu=2)),
        (enough(16, cpu=64, gpu=8), lacking(exhausted=True)),
        (lacking(exhausted=True), lacking(exhausted=False)),
    ],
)
def test_change_that_adds_less_comes_first(first: SmallestChange, second: SmallestChange) -> None:
    assert cheapest_first([second, first]) == (first, second)
    assert cheapest_first([first, second]) == (first, second)


def test_equal_changes_keep_their_order() -> None:
    """The most frequent kind of node is asked about first."""
    changes = [enough(1, "b", cpu=1), enough(1, "a", cpu=1)]
    assert cheapest_first(changes) == tuple(changes)


class Server(MemoryApi):
    """An API server whose clients have a namespace."""

    namespace = "default"


def test_kubectl_gang_why_prints_the_smaller_node_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = Server()

    async def connect_client(**_named: Any) -> Server:
        return api

    monkeypatch.setattr(_client, "connect_client", connect_client)
    for name, gpus in (("large-0", 8), ("large-1", 8), ("small", 1)):
        api.put(NODES, node_json(name, gpu=gpus))
    api.put(GROUPS, group_json("train", 1))
    api.put(PODS, pod_json("train-0", group="train"))
    for n, (node, gpus) in enumerate((("large-0", 8), ("large-1", 8), ("small", 1))):
        pod = pod_json(f"full-{n}", scheduler="default-scheduler", gpu=gpus)
        pod["spec"]["nodeName"] = node
        api.put(PODS, pod)
    assert _kubectl.main(["why", "train", "--ask-scheduler", "never"]) == 0
    lines = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith("what would help")
    ]
    assert len(lines) == 2
    assert f"{GPU}=1" in lines[0]
    assert f"{GPU}=8" in lines[1]
    assert _kubectl.main(["why", "train", "--ask-scheduler", "never", "-o", "json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert [each["shape"][GPU] for each in item["smallest_changes"]] == ["1", "8"]
