"""A role of the builder may state its own constraints on nodes."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import (
    Bind,
    InMemoryCluster,
    InvalidValueError,
    Node,
    NodeAdded,
    Role,
    Taint,
    Toleration,
    gang,
    presets,
)
from gangsched.constraints import NodeSelectorRequirement, NodeSelectorTerm
from gangsched.model import Pod

CPU = Node(name="c", allocatable={"cpu": 8}, labels={"pool": "cpu"})
GPU = Node(
    name="g",
    allocatable={"cpu": 8},
    labels={"pool": "gpu"},
    taints=[Taint(key="gpu", effect="NoSchedule")],
)
TERM = NodeSelectorTerm((NodeSelectorRequirement("pool", "In", ("cpu",)),))

OTHER = NodeSelectorTerm((NodeSelectorRequirement("pool", "Exists"),))


def first_of(role: Role, **more: Any) -> Pod:
    return gang("g", roles={"a": role, "b": 1}, **more).pods[0]


def test_launcher_and_workers_start_on_nodes_of_their_own_kind() -> None:
    workers = Role(2, node_selector={"pool": "gpu"}, tolerations=[Toleration(key="gpu")])
    launcher = Role(1, affinity=[TERM])
    job = gang("mpi", roles={"launcher": launcher, "worker": workers}, cpu=2)
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    for event in (NodeAdded(GPU), NodeAdded(CPU), *job.events()):
        scheduler.handle(cluster.apply(event), now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    binds = {each.uid.split("/")[1]: each.node for each in effects if isinstance(each, Bind)}
    assert binds == {"mpi-launcher-0": "c", "mpi-worker-0": "g", "mpi-worker-1": "g"}


@pytest.mark.parametrize(
    ("name", "own", "common", "nothing"),
    [
        ("node_selector", {"pool": "cpu"}, {"pool": "gpu"}, {}),
        ("affinity", (TERM,), (OTHER,), ()),
        ("tolerations", (Toleration(key="x"),), (Toleration(key="y"),), ()),
    ],
)
def test_attribute_of_a_role_replaces_that_of_the_gang(
    name: str, own: Any, common: Any, nothing: Any
) -> None:
    made = gang("g", roles={"a": Role(1, **{name: own}), "b": Role(1)}, **{name: common})
    expected = [Pod(name="p", **{name: value}) for value in (own, common)]
    assert [getattr(pod, name) for pod in made.pods] == [getattr(pod, name) for pod in expected]
    bare = first_of(Role(1, **{name: nothing}), **{name: common})
    assert getattr(bare, name) == getattr(Pod(name="p"), name)


@pytest.mark.parametrize(
    ("own", "path"),
    [
        ({"node_selector": 3}, "node_selector"),
        ({"tolerations": 3}, "tolerations"),
        ({"affinity": 3}, "affinity"),
        ({"requests": 3}, "requests"),
        ({"requests": {"cpu": "x"}}, "requests.cpu"),
    ],
)
def test_malformed_attribute_of_a_role_is_named_by_its_path(own: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        first_of(Role(1, **own))
    assert caught.value.field == f"roles['a'].{path}"


def test_malformed_attribute_of_the_gang_is_named_as_given() -> None:
    with pytest.raises(InvalidValueError, match=r"^node_selector must be"):
        first_of(Role(1), node_selector=3)
