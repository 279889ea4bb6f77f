"""Kueue's groups of plain pods are gangs, unless another spelling names one."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from gangsched.errors import InvalidPodGroupError
from gangsched.events import PodAdded
from gangsched.kubernetes import read_notification
from gangsched.membership import ADMISSION_SPELLINGS, SPELLINGS, Membership, Source, membership
from gangsched.model import GroupKey, Pod
from support.cluster_objects import NODES, PODS, node_json, pod_json
from support.memory_api import MemoryApi
from support.memory_cluster import all_bound, change, cluster
from support.running import on_a_loop, running, until

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

NAME: Final = "kueue.x-k8s.io/pod-group-name"
TOTAL: Final = "kueue.x-k8s.io/pod-group-total-count"
FAST: Final = "kueue.x-k8s.io/pod-group-fast-admission"
SERVING: Final = "kueue.x-k8s.io/pod-group-serving"
(KUEUE,) = ADMISSION_SPELLINGS


def claim(labels: dict[str, str], annotations: dict[str, str]) -> Membership | None:
    return membership(Pod(name="p", namespace="ns", labels=labels, annotations=annotations))


def member(name: str, total: int, *, gated: bool = False) -> dict[str, Any]:
    """Return a pod as Kueue's webhook leaves it."""
    pod = pod_json(name)
    pod["metadata"]["labels"] = {NAME: "g", "kueue.x-k8s.io/managed": "true"}
    pod["metadata"]["annotations"] = {TOTAL: str(total)}
    if gated:
        pod["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    return pod


# What is read -----------------------------------------------------------------------------------


def test_group_of_kueue_is_a_gang_with_its_total_as_minimum() -> None:
    found = claim({NAME: "g"}, {TOTAL: "3"})
    assert found == Membership(GroupKey("ns/g"), 3, KUEUE)


def test_total_is_read_from_an_annotation_only() -> None:
    found = claim({NAME: "g", TOTAL: "3"}, {})
    assert found == Membership(GroupKey("ns/g"), None, KUEUE)


@pytest.mark.parametrize("row", SPELLINGS[1:], ids=lambda row: row.name)
def test_other_spelling_precedes_that_of_kueue(row: Any) -> None:
    labels, annotations = {NAME: "g"}, {TOTAL: "3"}
    (labels if row.source is Source.LABEL else annotations)[row.name] = "other"
    assert claim(labels, annotations) == Membership(GroupKey("ns/other"), None, row)


def test_minimum_of_another_spelling_is_not_contradicted_by_the_total() -> None:
    labels = {
        NAME: "g",
        "pod-group.scheduling.sigs.k8s.io/name": "g",
        "pod-group.scheduling.sigs.k8s.io/min-available": "2",
    }
    found = claim(labels, {TOTAL: "3"})
    assert found is not None
    assert found.min_available == 2


@pytest.mark.parametrize("key", [FAST, SERVING])
def test_group_that_kueue_does_not_admit_as_a_whole_is_no_gang_and_a_note_says_so(key: str) -> None:
    assert claim({NAME: "g"}, {TOTAL: "3", key: "true"}) is None
    assert claim({NAME: "g"}, {TOTAL: "3", key: "false"}) is not None
    pod = member("g-0", 3)
    pod["metadata"]["annotations"][key] = "true"
    found = read_notification({"type": "ADDED", "object": pod})
    assert [note for note in found.notes if key in str(note) and "one by one" in str(note)]


@pytest.mark.parametrize(
    ("labels", "annotations", "field"),
    [
        ({NAME: ""}, {TOTAL: "3"}, NAME),
        ({NAME: "g"}, {TOTAL: "0"}, TOTAL),
        ({NAME: "g"}, {TOTAL: "three"}, TOTAL),
        ({}, {TOTAL: "3"}, NAME),
    ],
)
def test_malformed_group_of_kueue_is_refused(
    labels: dict[str, str], annotations: dict[str, str], field: str
) -> None:
    with pytest.raises(InvalidPodGroupError) as caught:
        claim(labels, annotations)
    assert caught.value.field == field


# What is scheduled ------------------------------------------------------------------------------


def running_group(gpu: int, *, gated: bool = False) -> MemoryApi:
    api = cluster(gpu=gpu)
    for n in range(3):
        api.put(PODS, member(f"g-{n}", 3, gated=gated))
    return api


@on_a_loop
async def test_half_of_a_group_of_kueue_is_not_started_and_a_replacement_starts() -> None:
    api = running_group(2)
    async with running(api):
        await asyncio.sleep(0.5)
        assert not any(api.pods().values()), "there is capacity for two of three"
        api.put(NODES, node_json("b", gpu=2))
        await until(lambda: all_bound(api))
        await asyncio.sleep(0.3)
        api.remove(PODS, "default/g-0")
        api.put(PODS, member("g-3", 3))
        await until(lambda: all_bound(api))


@on_a_loop
async def test_group_of_kueue_starts_when_the_gates_of_all_are_removed() -> None:
    api = running_group(4, gated=True)
    async with running(api):
        for n in range(3):
            await asyncio.sleep(0.1)
            assert not any(api.pods().values())
            change(api, PODS, f"default/g-{n}", spec={"schedulingGates": []})
        await until(lambda: all_bound(api))


# Groups of pod sets -----------------------------------------------------------------------------

TOGETHER: Final = "kueue.x-k8s.io/podset-group-name"


def of_pod_sets(**annotations: str) -> Pod:
    pod = member("p", 1)
    pod["metadata"]["annotations"] |= {TOGETHER: "lws"} | annotations
    found = read_notification({"type": "ADDED", "object": pod}, scheduler_names=None)
    assert isinstance(found.event, PodAdded)
    return found.event.pod


def test_pod_sets_in_one_domain_hold_a_pod_for_which_kueue_has_chosen_no_nodes() -> None:
    assert of_pod_sets().unmodelled == (TOGETHER,)
    assert of_pod_sets(**{TOGETHER: ""}).unmodelled == ()


def test_pod_sets_in_one_domain_are_on_the_nodes_that_kueue_has_chosen() -> None:
    assert of_pod_sets(**{"kueue.x-k8s.io/workload": "lws-1"}).unmodelled == ()
