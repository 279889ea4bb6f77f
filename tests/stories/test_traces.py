"""Traces of jobs on a simulated cluster: where pods go, what is counted, and what files may say."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.story import Story, Way, each_way

from gangsched import (
    ClusterState,
    Node,
    NodeAdded,
    NodeName,
    PlacementStrategy,
    Scheduler,
    presets,
)
from gangsched.cli import main
from gangsched.simulation import Arrival, Simulator, Workload, load_trace, parse_nodes_shape
from gangsched.testing import make_pod

GPU = "nvidia.com/gpu"
COLUMNS = "job,submit_s,workers,gpus_per_worker,duration_s"

Command = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def command(folder: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command on the lines of a trace; return its JSON, or its error if it fails."""

    def run(name: str, lines: Sequence[str], *words: str, nodes: str = "2x4") -> Any:
        (folder / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        code = main((name, "--trace", "t.csv", "--nodes", nodes, "--output", "json", *words))
        captured = capsys.readouterr()
        return json.loads(captured.out) if code == 0 else captured.err

    return run


# Where single pods go -----------------------------------------------------------------------


def gang_scheduler(placement: PlacementStrategy) -> Callable[[ClusterState], Scheduler]:
    return lambda cluster: presets.gang(cluster, placement=placement)


@each_way
@pytest.mark.parametrize("placement", [PlacementStrategy.AUTO, PlacementStrategy.PACK])
def test_single_pod_is_packed_as_a_gang_of_one(way: Way, placement: PlacementStrategy) -> None:
    def where(**group: Any) -> dict[str, str]:
        story = Story(gang_scheduler(placement), way)
        for name, gpus in (("large", 8), ("small", 2), ("medium", 4)):
            story.tell(NodeAdded(Node(name=NodeName(name), allocatable={GPU: gpus})))
        for name, gpus in (("a", 1), ("b", 2), ("c", 1), ("d", 8)):
            story.add(make_pod(name, gpu=gpus, **({"group": name} | group if group else {})))
            story.decide()
            story.interrupt()
        return story.bound

    packed = {"a": "small", "b": "medium", "c": "small", "d": "large"}
    assert where() == packed
    assert where(min_available=1) == packed


def test_single_pods_leave_whole_nodes_to_large_ones() -> None:
    """At 85 % of the capacity, jobs of a whole node wait only where pods are spread."""
    draw = random.Random(0)
    rows, at = [COLUMNS], 0.0
    for number in range(2_000):
        at += draw.expovariate(0.038)
        gpus = draw.choice([1, 1, 1, 1, 2, 2, 4, 8])
        rows.append(f"j{number},{at:.0f},1,{gpus},{60 + draw.expovariate(1 / 3600):.0f}")
    nodes = Workload([Arrival(0.0, NodeAdded(node)) for node in parse_nodes_shape("50x8")])

    def waiting(placement: PlacementStrategy) -> int:
        run = Simulator(nodes + load_trace(rows, file="t.csv"), gang_scheduler(placement))
        run.run(until=at)
        return sum(pod.node_name is None for pod in run.cluster.pods())

    assert waiting(PlacementStrategy.SCORE) > 10
    assert waiting(PlacementStrategy.AUTO) <= 2
