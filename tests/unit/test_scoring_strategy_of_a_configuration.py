"""``scoringStrategy`` of ``NodeResourcesFit``: what counts, and the field that is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import Bind, InMemoryCluster, InvalidValueError, Node, NodeAdded, Pod, PodAdded
from gangsched.configuration import make_scheduler, read_settings
from gangsched.configuration.scheduler import check_settings

pytestmark = pytest.mark.once("reads configurations")

PATH = "profiles[0].pluginConfig[NodeResourcesFit].args.scoringStrategy"


def settings(strategy: object) -> Any:
    args = {"scoringStrategy": strategy}
    config = [{"name": "NodeResourcesFit", "args": args}]
    config += [{"name": "Coscheduling", "args": {"placement": "score"}}]
    return read_settings({"profiles": [{"pluginConfig": config}]})


def node_of(strategy: object) -> str:
    """Return the node of a pod: on ``cpus`` much cpu is used, and on ``memories`` much memory."""
    cluster = InMemoryCluster()
    scheduler = make_scheduler(settings(strategy), cluster)
    for name, requests in (
        ("cpus", {"cpu": 6, "memory": 1}),
        ("memories", {"cpu": 1, "memory": 6}),
    ):
        cluster.apply(NodeAdded(Node(name=name, allocatable={"cpu": 10, "memory": 10})))
        cluster.apply(PodAdded(Pod(name=f"on-{name}", node_name=name, requests=requests)))
    scheduler.rebuild(now=0.0)
    pod = Pod(name="p", requests={"cpu": 1, "memory": 1})
    scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    (found,) = (effect.node for effect in effects if isinstance(effect, Bind))
    return found


@pytest.mark.parametrize(
    ("kind", "heavy", "node"),
    [
        ("MostAllocated", "cpu", "cpus"),
        ("MostAllocated", "memory", "memories"),
        ("LeastAllocated", "cpu", "memories"),
        ("LeastAllocated", "memory", "cpus"),
    ],
)
def test_resource_with_the_larger_weight_decides(kind: str, heavy: str, node: str) -> None:
    resources = [
        {"name": name, **({"weight": 9} if name == heavy else {})} for name in ("cpu", "memory")
    ]
    assert node_of({"type": kind, "resources": resources}) == node


def test_resource_that_is_not_named_does_not_count() -> None:
    strategy = {"type": "MostAllocated", "resources": [{"name": "memory"}]}
    assert node_of(strategy) == "memories"


@pytest.mark.parametrize(
    ("strategy", "field", "value"),
    [
        ("MostAllocated", "", "MostAllocated"),
        ([], "", []),
        ({}, ".type", None),
        ({"type": "RequestedToCapacityRatio"}, ".type", "RequestedToCapacityRatio"),
        ({"type": "MostAllocated", "resource": []}, ".resource", []),
        ({"type": "MostAllocated", "shape": 1}, ".shape", 1),
        ({"type": "MostAllocated", "resources": []}, ".resources", []),
        ({"type": "MostAllocated", "resources": None}, ".resources", None),
        ({"type": "MostAllocated", "resources": {"cpu": 1}}, ".resources", {"cpu": 1}),
    ],
)
def test_field_that_is_wrong_is_named(strategy: object, field: str, value: object) -> None:
    with pytest.raises(InvalidValueError) as caught:
        check_settings(settings(strategy))
    assert (caught.value.field, caught.value.value) == (f"{PATH}{field}", value)


@pytest.mark.parametrize(
    ("entry", "field", "value"),
    [
        ("memory", "", "memory"),
        ({}, ".name", None),
        ({"name": ""}, ".name", ""),
        ({"name": "cpu"}, ".name", "cpu"),
        ({"name": "memory", "weight": 0}, ".weight", 0),
        ({"name": "memory", "weight": 101}, ".weight", 101),
        ({"name": "memory", "weight": "2"}, ".weight", "2"),
        ({"name": "memory", "weight": True}, ".weight", True),
        ({"name": "memory", "wieght": 2}, ".wieght", 2),
    ],
)
def test_entry_of_a_resource_that_is_wrong_is_named(
    entry: object, field: str, value: object
) -> None:
    strategy = {"type": "LeastAllocated", "resources": [{"name": "cpu"}, entry]}
    with pytest.raises(InvalidValueError) as caught:
        check_settings(settings(strategy))
    assert caught.value.field == f"{PATH}.resources[1]{field}"
    assert caught.value.value is value


def test_field_that_is_misspelt_is_suggested() -> None:
    with pytest.raises(InvalidValueError, match=r"did you mean resources\?"):
        check_settings(settings({"type": "MostAllocated", "resource": []}))
