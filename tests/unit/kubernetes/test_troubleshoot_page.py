"""What ``kubectl gang why`` says for each symptom of the page about troubles."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gangsched.cli import _kubectl
from gangsched.manifests.queues import QUEUE
from support.cluster_objects import (
    COMPOSITES,
    GROUPS,
    NODES,
    PODS,
    composite_json,
    group_json,
    node_json,
    pod_json,
)
from support.documents import ROOT
from support.memory_api import MemoryApi
from support.memory_cluster import change, put_gang

pytest.importorskip("yaml")
pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

PAGE = ROOT / "docs" / "how-to" / "troubleshoot-on-kubernetes.md"
QUOTA = """
quotas:
- {name: research, namespaces: [default], hard: {nvidia.com/gpu: 6}}
- {name: desk, nominal: {nvidia.com/gpu: 64}}
"""


def cluster(
    *nodes: dict[str, Any], pods: int = 2, minimum: int = 2, has_group: bool = True, **pod: Any
) -> MemoryApi:
    """Return a cluster with a gang ``g``; each pod requests a GPU."""
    api = MemoryApi()
    for node in nodes:
        api.put(NODES, node)
    put_gang(api, size=pods, grouped=False, **pod)
    if has_group:
        api.put(GROUPS, group_json("g", minimum))
    return api


def changed(api: MemoryApi, collection: str, key: str, **fields: Any) -> MemoryApi:
    change(api, collection, key, **fields)
    return api


def restarted() -> MemoryApi:
    notes = {"gangsched.io/restart-policy": "BelowMinimum", "gangsched.io/restarts": "1"}
    later = {"gangsched.io/restarting-until": "99999999999"}
    api = cluster(node_json("n"))
    return changed(api, GROUPS, "default/g", metadata={"annotations": {**notes, **later}})


def with_a_further_member() -> MemoryApi:
    api = cluster(node_json("n", gpu=2), pods=3)
    for key in ("default/g-0", "default/g-1"):
        changed(api, PODS, key, spec={"nodeName": "n"})
    return api


def child(*parents: dict[str, Any]) -> MemoryApi:
    """Return a cluster whose gang is below the parent ``tree``."""
    api = cluster(node_json("n"))
    api.composites = True
    for parent in parents:
        api.put(COMPOSITES, parent)
    return changed(api, GROUPS, "default/g", spec={"parentCompositePodGroupName": "tree"})


def malformed() -> MemoryApi:
    prefix = "pod-group.scheduling.sigs.k8s.io"
    api = cluster(node_json("n"), has_group=False)
    labels = {f"{prefix}/name": "g", f"{prefix}/min-available": "0"}
    for n in range(2):
        pod = pod_json(f"g-{n}")
        pod["metadata"]["labels"] = labels
        api.put(PODS, pod)
    return api


SYMPTOMS: dict[str, Callable[[], MemoryApi]] = {
    "fits now, and waits for its scheduler": lambda: cluster(node_json("n")),
    "its pods name the scheduler typo-sched, which is not gangsched": lambda: cluster(
        node_json("n"), scheduler="typo-sched"
    ),
    "waiting for 1 more member: 2 of 3 exist": lambda: cluster(node_json("n"), minimum=3),
    "its minimum is unknown": lambda: cluster(node_json("n"), has_group=False),
    "min-available must be an int >= 1": malformed,
    "at most 3 of 5 members fit: nvidia.com/gpu is short": lambda: cluster(
        node_json("n", gpu=3), pods=5, minimum=5
    ),
    "is free in pieces too small": lambda: cluster(
        node_json("a", gpu=3), node_json("b", gpu=3), pods=3, minimum=3, gpu=2
    ),
    "nodes are available": lambda: cluster(node_json("n", unschedulable=True)),
    "members are gated: wait": lambda: cluster(node_json("n"), schedulingGates=[{"name": "wait"}]),
    "more gated": lambda: cluster(node_json("n"), minimum=3, schedulingGates=[{"name": "wait"}]),
    "its pods are held: not modelled": lambda: cluster(
        node_json("n"), resourceClaims=[{"name": "x", "resourceClaimName": "x"}]
    ),
    "its PodGroup cannot be read": lambda: changed(
        cluster(node_json("n")), GROUPS, "default/g", spec={"disruptionMode": {"gradual": {}}}
    ),
    "a parent: it does not exist": child,
    "1 of 2 can start": lambda: child(composite_json("tree", 2)),
    "exceeded quota": lambda: cluster(node_json("n"), gpu=4),
    "queue lab does not exist": lambda: changed(
        cluster(node_json("n")), GROUPS, "default/g", metadata={"labels": {QUEUE: "lab"}}
    ),
    "is being restarted": restarted,
    "runs: 2 of 3 members hold nodes": with_a_further_member,
}


@pytest.fixture
def why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[[MemoryApi], str]:
    """Return what ``kubectl gang why g`` prints of a cluster."""
    config = tmp_path / "config.yaml"
    config.write_text(QUOTA, encoding="utf-8")

    def ask(api: MemoryApi) -> str:
        api.be_connected_to(monkeypatch)
        words = ["why", "g", "--request-timeout", "5s", "--config", str(config)]
        assert _kubectl.main(words) == 0
        return capsys.readouterr().out

    return ask


def symptoms() -> list[str]:
    """Return what the page says that ``kubectl gang why`` says."""
    section = PAGE.read_text("utf-8").split("## A pod stays pending\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    return [re.findall(r"`([^`]+)`", row.split(" | ")[0])[0] for row in rows]


def test_each_symptom_of_the_page_is_tested() -> None:
    if not PAGE.exists():
        pytest.skip("an installed copy: the pages are not here")
    assert sorted(symptoms()) == sorted(SYMPTOMS)


@pytest.mark.parametrize("said", SYMPTOMS)
def test_why_says_what_the_page_says(said: str, why: Callable[[MemoryApi], str]) -> None:
    assert said in why(SYMPTOMS[said]())


def test_why_says_what_keeps_the_replacement_of_a_lost_member(
    why: Callable[[MemoryApi], str],
) -> None:
    partly = changed(cluster(node_json("n", gpu=1)), PODS, "default/g-0", spec={"nodeName": "n"})
    assert "pod default/g-1 does not fit: 0/1 nodes are available" in why(partly)
    lost = cluster(node_json("n"), pods=1, nodeName="n")
    assert "1 of 2 members hold nodes; no other member exists" in why(lost)
