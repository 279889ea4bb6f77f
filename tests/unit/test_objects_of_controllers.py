"""What controllers of other projects create is read as the page of spellings says, and starts.

The documents in ``testdata/controllers`` state what the sources that ``index.yaml`` names write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pytest

from gangsched import (
    Bind,
    Effect,
    Event,
    Node,
    NodeAdded,
    PodGroup,
    PodGroupAdded,
    Role,
    Topology,
    presets,
)
from gangsched.simulation import Arrival, Simulator, Workload, load_manifests
from support.page_tables import tables_of
from support.root import ROOT

yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.once("reads files")

FILES = ROOT / "tests" / "testdata" / "controllers"
INDEX: list[dict[str, Any]] = yaml.safe_load((FILES / "index.yaml").read_text("utf-8"))
KINDS = {"Role": Role, "Topology": Topology}
RACK = "topology.kubernetes.io/rack"
HOLDS = "holds its pods: "


def written() -> dict[str, str]:
    """Return the tree of each row of the page, as it is written there."""
    (table,) = tables_of("reference/group-spellings.md", "## What controllers create")
    return {row: tree for row, _objects, tree in table}


@cache
def workload(file: str) -> Workload:
    path = FILES / f"{file}.yaml"
    return load_manifests(path.read_text("utf-8"), file=path.name)


def groups(file: str) -> list[PodGroup]:
    events = [arrival.event for arrival in workload(file).arrivals]
    return [event.group for event in events if isinstance(event, PodGroupAdded)]


class Started:
    """Notes which pods are bound."""

    def __init__(self) -> None:
        self.pods: set[str] = set()

    def event(self, event: Event, now: float) -> None:
        pass

    def settled(self, now: float) -> None:
        pass

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        self.pods |= {each.uid.partition("/")[2] for each in effects if isinstance(each, Bind)}


def simulated(file: str, *cpus: int, labels: Sequence[Mapping[str, str]] = ({},)) -> set[str]:
    """Return the pods that start on nodes with some CPUs, each with labels of its own."""
    nodes = [
        NodeAdded(Node(name=f"n{number}", allocatable={"cpu": cpu, "pods": 99}, labels=its))
        for number, (cpu, its) in enumerate(zip(cpus, labels, strict=True))
    ]
    arrivals = [*(Arrival(0.0, node) for node in nodes), *workload(file).arrivals]
    started = Started()
    Simulator(Workload(arrivals), presets.gang, observers=[started]).run(until=1.0)
    return started.pods


def test_page_has_each_controller_once_and_each_document_has_a_row() -> None:
    assert list(written()) == [each["row"] for each in INDEX]
    assert {path.stem for path in FILES.iterdir()} == {each["file"] for each in INDEX} | {"index"}


@pytest.mark.parametrize("row", INDEX, ids=lambda row: row["file"])
def test_objects_of_a_controller_are_the_tree_that_the_page_says(row: dict[str, Any]) -> None:
    tree = written()[row["row"]].strip("`")
    for group in groups(row["file"]):
        if tree.startswith(HOLDS):
            assert group.unmodelled == (tree.removeprefix(HOLDS).strip("`"),)
            continue
        assert group.unmodelled == ()
        said = eval(f"dict({tree})", KINDS)
        expected = PodGroup(name="g", **said)
        assert (group.roles, group.min_available) == (expected.roles, expected.min_available)


@pytest.mark.parametrize("row", INDEX, ids=lambda row: row["file"])
def test_simulation_starts_the_right_pods(row: dict[str, Any]) -> None:
    labels = [row.get("labels", {})]
    assert simulated(row["file"], row["cpu"], labels=labels) == set(row["starts"])


@pytest.mark.parametrize("row", INDEX, ids=lambda row: row["file"])
def test_no_pod_starts_if_there_is_room_for_one_too_few(row: dict[str, Any]) -> None:
    needed = min(group.min_available for group in groups(row["file"]))
    assert simulated(row["file"], needed - 1, labels=[row.get("labels", {})]) == set()


@pytest.mark.parametrize(
    ("file", "cpus", "racks", "starts"),
    [
        ("grove-kai-required", (6,), ("",), 0),
        ("grove-kai-required", (3, 3), ("a", "b"), 0),
        ("grove-kai-required", (3, 3), ("a", "a"), 6),
        ("grove-kai-required", (5, 1), ("a", "b"), 6),
        ("grove-kai-preferred", (3, 3), ("a", "b"), 6),
        ("grove-kai-preferred", (6,), ("",), 6),
    ],
)
def test_domain_of_a_scaling_group_is_a_rack(
    file: str, cpus: tuple[int, ...], racks: tuple[str, ...], starts: int
) -> None:
    labels = [{RACK: rack} if rack else {} for rack in racks]
    assert len(simulated(file, *cpus, labels=labels)) == starts
