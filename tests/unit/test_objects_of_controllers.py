"""What controllers of other projects create is read as the page of spellings says, and starts.

The documents in ``testdata/controllers`` state what the sources that ``index.yaml`` names write.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from gangsched import Bind, Effect, Event, Node, NodeAdded, PodGroup, PodGroupAdded, Role, presets
from gangsched.simulation import Arrival, Simulator, Workload, load_manifests
from support.page_tables import tables_of
from support.root import ROOT

yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.once("reads files")

FILES = ROOT / "tests" / "testdata" / "controllers"
INDEX: list[dict[str, Any]] = yaml.safe_load((FILES / "index.yaml").read_text("utf-8"))
KINDS = {"Role": Role}
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


def simulated(file: str, cpu: int) -> set[str]:
    """Return the pods that start on a node with some CPUs."""
    node = Node(name="n", allocatable={"cpu": cpu, "pods": 99})
    arrivals = [Arrival(0.0, NodeAdded(node)), *workload(file).arrivals]
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
    assert simulated(row["file"], row["cpu"]) == set(row["starts"])


@pytest.mark.parametrize("row", INDEX, ids=lambda row: row["file"])
def test_no_pod_starts_if_there_is_room_for_one_too_few(row: dict[str, Any]) -> None:
    needed = min(group.min_available for group in groups(row["file"]))
    assert simulated(row["file"], cpu=needed - 1) == set()
