"""Exclusive topologies of JobSet and LeaderWorkerSet: a domain for each job, set or sub group."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    Bound,
    InMemoryCluster,
    LabelledRole,
    LabelSelector,
    NodeAdded,
    PodGroup,
    Role,
    Topology,
    presets,
)
from gangsched.events import PodAdded, PodGroupAdded
from gangsched.kubernetes import read_notification
from gangsched.model._slices import number_of
from gangsched.simulation import load_manifests
from gangsched.testing import make_node
from support.cluster_objects import group_json, pod_json

JOBSET: Final = "jobset.sigs.k8s.io/"
LWS: Final = "leaderworkerset.sigs.k8s.io/"
OF_JOB: Final = f"alpha.{JOBSET}exclusive-topology"
pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

ALONE: Final = Topology("rack", exclusive="rack")
APART: Final = Topology("rack", exclusive="rack", apart="rack")


def of_jobs(jobs: int, size: int, role: str = "w", **spec: Any) -> list[dict[str, Any]]:
    """Return the pods of a replicated job, as JobSet's controller labels them."""
    found: list[dict[str, Any]] = []
    for job in range(jobs):
        for index in range(size):
            pod = pod_json(f"s-{role}-{job}-{index}", group="g", **spec)
            pod["metadata"]["labels"] = {
                f"{JOBSET}replicatedjob-name": role,
                f"{JOBSET}replicatedjob-replicas": str(jobs),
                f"{JOBSET}job-index": str(job),
                "batch.kubernetes.io/job-completion-index": str(index),
            }
            pod["metadata"]["annotations"] = {OF_JOB: "rack"}
            found.append(pod)
    return found


def of_set(
    size: int, sub_group: int = 0, asked: dict[str, str] | None = None
) -> list[dict[str, Any]]:
    """Return the pods of one set, as the controller of LeaderWorkerSet labels them."""
    found: list[dict[str, Any]] = []
    for index in range(size):
        pod = pod_json(f"serve-2-{index}" if index else "serve-2", group="g")
        labels = {f"{LWS}worker-index": str(index), f"{LWS}group-index": "2"}
        # the leader is the first pod of a StatefulSet of leaders, and here the third one
        labels["apps.kubernetes.io/pod-index"] = str(index or 2)
        notes = {f"{LWS}size": str(size), **{f"{LWS}{k}": v for k, v in (asked or {}).items()}}
        if sub_group:
            is_extra = (size - 1) % sub_group == 0 and size % sub_group != 0
            number = (max(index - 1, 0) if is_extra else index) // sub_group
            labels[f"{LWS}subgroup-index"] = str(number)
            notes[f"{LWS}subgroup-size"] = str(sub_group)
        pod["metadata"]["labels"], pod["metadata"]["annotations"] = labels, notes
        found.append(pod)
    return found


def group_of(minimum: int, *pods: dict[str, Any]) -> PodGroup:
    items = [group_json("g", minimum), *pods]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    events = [arrival.event for arrival in load_manifests(text, file="f").arrivals]
    assert [e.pod.unmodelled for e in events if isinstance(e, PodAdded)] == [()] * len(pods)
    (group,) = [event.group for event in events if isinstance(event, PodGroupAdded)]
    return group


def summary(group: PodGroup) -> tuple[Any, ...]:
    return group.topology, dict(group.roles), group.unmodelled


def test_job_that_is_alone_in_its_group_has_a_rack_of_its_own() -> None:
    assert summary(group_of(4, *of_jobs(1, 4))) == (ALONE, {}, ())


def test_each_job_of_a_job_set_has_a_rack_of_its_own() -> None:
    group = group_of(8, *of_jobs(2, 4))
    assert summary(group) == (None, {"w": Role(2, roles={"member": 4}, topology=APART)}, ())
    selector = LabelSelector({f"{JOBSET}replicatedjob-name": "w"})
    number = f"{JOBSET}job-index"
    assert group.labelled_roles == (LabelledRole("w/*/member", selector, number=number),)
    assert group.path_of("w", {f"{JOBSET}replicatedjob-name": "w", number: "1"}) == "w/1/member"


def test_driver_without_the_annotation_is_no_part_of_the_jobs() -> None:
    (driver,) = of_jobs(1, 1, "driver")
    del driver["metadata"]["annotations"]
    roles = {"w": Role(2, roles={"member": 4}, topology=APART)}
    assert summary(group_of(9, driver, *of_jobs(2, 4))) == (None, roles, ())


@pytest.mark.parametrize(
    ("minimum", "jobs", "why"),
    [
        (7, of_jobs(2, 4), "7 pods are not 2 jobs of one size"),
        (8, [*of_jobs(2, 2), *of_jobs(2, 2, "v")], "of jobs of several roles"),
    ],
)
def test_jobs_that_cannot_be_told_apart_hold_the_group(
    minimum: int, jobs: list[dict[str, Any]], why: str
) -> None:
    found = group_of(minimum, *jobs)
    assert found.unmodelled == (f"metadata.annotations.{OF_JOB} ({why})",)


_TERMS: Final[list[dict[str, Any]]] = [{"topologyKey": "rack", "labelSelector": {}}]
_REQUIRED: Final = {"requiredDuringSchedulingIgnoredDuringExecution": _TERMS}
WRITTEN: Final[list[dict[str, Any]]] = [
    {"nodeSelector": {"rack": "a"}},
    {"affinity": {"podAffinity": _REQUIRED, "podAntiAffinity": _REQUIRED}},
]


@pytest.mark.parametrize(
    "spec",
    WRITTEN,
    ids=["follower", "leader"],
)
def test_topology_that_the_webhook_has_written_into_a_pod_is_honoured_there(
    spec: dict[str, Any],
) -> None:
    written = of_jobs(2, 2, **spec)
    assert summary(group_of(4, *written)) == (None, {}, ())
    for pod, held in ((written[0], ()), (of_jobs(2, 2)[0], (OF_JOB,))):
        found = read_notification({"type": "ADDED", "object": pod}, scheduler_names=None)
        assert isinstance(found.event, PodAdded)
        assert found.event.pod.unmodelled == held


def test_set_has_a_rack_of_its_own_also_if_its_leader_starts_alone() -> None:
    for minimum in (4, 1):
        pods = of_set(4, asked={"exclusive-topology": "rack"})
        assert summary(group_of(minimum, *pods)) == (ALONE, {}, ())


@pytest.mark.parametrize("size", [8, 9], ids=["even", "leader is one too many"])
def test_each_sub_group_has_a_rack_of_its_own(size: int) -> None:
    asked = {"exclusive-topology": "block", "subgroup-exclusive-topology": "rack"}
    group = group_of(size, *of_set(size, 4, asked))
    roles = {"member": Role(2, roles={"member": 4}, topology=APART)}
    assert summary(group) == (Topology("block", exclusive="block"), roles, ())
    number = f"{LWS}subgroup-index"
    assert group.labelled_roles == (LabelledRole("member/*/member", number=number),)
    alone = group_of(size, *of_set(size, 4, {"subgroup-exclusive-topology": "rack"}))
    assert summary(alone) == (None, roles, ())


def test_sub_groups_of_a_set_that_starts_by_its_leader_hold_the_group() -> None:
    asked = {"subgroup-exclusive-topology": "rack"}
    why = f"metadata.annotations.{LWS}subgroup-exclusive-topology"
    few = "its group needs fewer pods than have it"
    assert group_of(1, *of_set(8, 4, asked)).unmodelled == (f"{why} ({few})",)
    sizes = "without the sizes of its sub groups"
    assert group_of(8, *of_set(8, asked=asked)).unmodelled == (f"{why} ({sizes})",)


def test_leader_has_the_first_number_of_its_set() -> None:
    pods = of_set(3)
    found = [number_of(pod["metadata"]["name"], pod["metadata"]["labels"]) for pod in pods]
    assert found == [0, 1, 2]


def test_jobs_start_in_racks_of_their_own_and_a_job_of_others_waits_for_one() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, levels=["rack"])
    for rack in ("a", "b"):
        node = make_node(f"n-{rack}", cpu=64, labels={"rack": rack})
        scheduler.handle(cluster.apply(NodeAdded(node)), now=0.0)
    other = [pod_json("other", group="h")]
    items = [group_json("g", 4), *of_jobs(2, 2), group_json("h", 1), *other]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    for arrival in load_manifests(text, file="f").arrivals:
        event = arrival.event
        if isinstance(event, PodAdded):
            event = PodAdded(evolve(event.pod, requests={"cpu": 1}))
        assert isinstance(event, PodAdded | PodGroupAdded)
        scheduler.handle(cluster.apply(event), now=0.0)
    placed: dict[str, str] = {}
    while (effects := scheduler.schedule_one(now=0.0)) is not None:
        for effect in effects:
            if isinstance(effect, Bind):
                placed[effect.uid.partition("/")[2]] = effect.node
                bound = Bound(effect.uid, effect.node, effect.attempt)
                scheduler.handle(cluster.apply(bound), now=0.0)
    assert placed["s-w-0-0"] == placed["s-w-0-1"] != placed["s-w-1-0"] == placed["s-w-1-1"]
    assert "other" not in placed
    assert "that another gang has for itself" in str(scheduler.why("default/h"))
