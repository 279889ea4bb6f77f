"""A pod that is resized in place counts what it asks for, was allocated, or has: the largest."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import (
    Bind,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodUpdated,
    presets,
)
from gangsched.errors import ManifestError
from gangsched.kubernetes import read_notification
from gangsched.model import Resources

INFEASIBLE = [
    {"type": "PodScheduled", "status": "True"},
    {"type": "PodResizePending", "status": "True", "reason": "Infeasible"},
]
DEFERRED = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]


def container(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}


def report(name: str, used: str | None, allocated: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name}
    if used is not None:
        found["resources"] = {"requests": {"cpu": used}}
    if allocated is not None:
        found["allocatedResources"] = {"cpu": allocated}
    return found


def event(spec: dict[str, Any], status: dict[str, Any], how: str = "ADDED") -> Any:
    value = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": spec,
        "status": status,
    }
    return read_notification({"type": how, "object": value}).event


def counted(spec: dict[str, Any], **status: Any) -> Resources:
    found: Pod = event(spec, status).pod
    return found.requests


@pytest.mark.parametrize(
    ("used", "allocated", "conditions", "expected"),
    [
        ("2", "2", None, "2"),
        ("3", "2", None, "3"),
        ("2", "3", None, "3"),
        ("1", "1", None, "2"),
        ("1", "1", DEFERRED, "2"),
        ("1", "1", INFEASIBLE, "1"),
        ("1", "1500m", INFEASIBLE, "1500m"),
        ("1", None, None, "2"),
        ("3", None, None, "3"),
        (None, "3", None, "3"),
        (None, "1", INFEASIBLE, "1"),
    ],
)
def test_largest_amount_counts(
    used: str | None, allocated: str | None, conditions: Any, expected: str
) -> None:
    spec = {"containers": [container("c", "2")]}
    status = {"containerStatuses": [report("c", used, allocated)], "conditions": conditions}
    assert counted(spec, **status) == Resources({"cpu": expected})


def test_sums_are_compared_and_not_the_amounts_of_each_container() -> None:
    """As in Kubernetes 1.37; up to 1.36, such a pod counted for 6."""
    spec = {"containers": [container("c", "1"), container("d", "3")]}
    reports = [report("c", "3", "3"), report("d", "1", "1")]
    assert counted(spec, containerStatuses=reports) == Resources({"cpu": "4"})


def test_container_without_a_report_has_what_it_asks_for() -> None:
    spec = {"containers": [container("c", "2"), container("d", "1")]}
    assert counted(spec, containerStatuses=[report("c", "3", "1")]) == Resources({"cpu": "4"})
    found = counted(spec, containerStatuses=[report("c", "1", "1")], conditions=INFEASIBLE)
    assert found == Resources({"cpu": "1"})


def test_sidecars_and_init_containers_are_resized() -> None:
    init = [container("s", "1", restartPolicy="Always"), container("i", "1")]
    spec = {"containers": [container("c", "1")], "initContainers": init}
    reports = [report("s", "3", "3"), report("i", "1", "1")]
    assert counted(spec, initContainerStatuses=reports) == Resources({"cpu": "4"})
    reports[1] = report("i", "9", "9")
    assert counted(spec, initContainerStatuses=reports) == Resources({"cpu": "12"})


@pytest.mark.parametrize(
    ("conditions", "expected"), [(None, "4"), (DEFERRED, "4"), (INFEASIBLE, "3")]
)
def test_pod_as_a_whole_is_resized_alike(conditions: Any, expected: str) -> None:
    spec = {"containers": [container("c", "1")], "resources": {"requests": {"cpu": "4"}}}
    given = {"requests": {"cpu": "2", "memory": "1Gi"}}
    found = counted(spec, resources=given, allocatedResources={"cpu": "3"}, conditions=conditions)
    # what the pod does not ask for as a whole is that of its status, too
    assert found == Resources({"cpu": expected, "memory": "1Gi"})


@pytest.mark.parametrize(("conditions", "expected"), [(None, "9"), (INFEASIBLE, "8")])
def test_status_of_the_whole_pod_takes_the_place_of_its_containers(
    conditions: Any, expected: str
) -> None:
    spec = {"containers": [container("c", "9")]}
    given = {"requests": {"cpu": "8"}}
    reports = [report("c", "20", "20")]
    whole = {"resources": given, "allocatedResources": {"cpu": "7"}}
    found = counted(spec, **whole, containerStatuses=reports, conditions=conditions)
    assert found == Resources({"cpu": expected})


@pytest.mark.parametrize(
    "part", [{"resources": {"requests": {"cpu": "9"}}}, {"allocatedResources": {"cpu": "9"}}]
)
def test_half_a_status_of_the_whole_pod_is_not_read(part: dict[str, Any]) -> None:
    spec = {"containers": [container("c", "1")]}
    assert counted(spec, **part) == Resources({"cpu": 1})


def test_absent_and_empty_reports_change_nothing() -> None:
    spec = {"containers": [container("c", "2")]}
    several: list[dict[str, Any]] = [
        {"containerStatuses": None, "initContainerStatuses": []},
        {"containerStatuses": [{"name": "c", "resources": {}, "allocatedResources": None}]},
        {"containerStatuses": [{"name": "c", "resources": {"requests": None}}]},
        {"resources": None, "conditions": None},
    ]
    for status in several:
        assert counted(spec, **status) == Resources({"cpu": 2}), status


def test_malformed_report_is_refused_by_its_path() -> None:
    reports = [{"name": "c", "resources": {"requests": {"cpu": "much"}}}]
    with pytest.raises(ManifestError, match=r"status\.containerStatuses\[0\]\.resources"):
        counted({"containers": [container("c", "2")]}, containerStatuses=reports)


def test_capacity_is_free_once_the_pod_has_shrunk_and_not_before() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)

    def tell(change: Any) -> list[Any]:
        effects = list(scheduler.handle(cluster.apply(change), now=0.0))
        while (more := scheduler.schedule_one(now=0.0)) is not None:
            effects += more
        return effects

    small = {"nodeName": "n", "containers": [container("c", "1")]}
    tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 4})))
    still = {"phase": "Running", "containerStatuses": [report("c", "4", "4")]}
    tell(event(small, still))
    waiting = tell(PodAdded(Pod(name="q", requests={"cpu": 2})))
    assert not any(isinstance(effect, Bind) for effect in waiting)
    done = {"phase": "Running", "containerStatuses": [report("c", "1", "1")]}
    change = event(small, done, "MODIFIED")
    assert isinstance(change, PodUpdated)
    assert [effect.node for effect in tell(change) if isinstance(effect, Bind)] == ["n"]
