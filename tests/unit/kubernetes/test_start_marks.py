"""What is written of gangs that are whole, on an API server in memory."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("msgspec", reason="the extra kubernetes is not installed")

from gangsched.kubernetes._start_marks import BOUND_IN_START, WAS_WHOLE, differ_by_marks
from gangsched.model import Pod
from support.cluster_objects import GROUPS, PODS, pod_json
from support.memory_api import MemoryApi
from support.memory_cluster import all_bound, change, cluster, condition, put_gang, reasons
from support.running import on_a_loop, running, until

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

PREFIX = "pod-group.scheduling.sigs.k8s.io"


def add_member(api: MemoryApi, number: int, minimum: int = 3) -> None:
    pod = pod_json(f"g-{number}")
    pod["metadata"]["labels"] = {f"{PREFIX}/name": "g", f"{PREFIX}/min-available": str(minimum)}
    api.put(PODS, pod)


def gang_of_labels() -> MemoryApi:
    """Return a cluster with a gang of labels alone, of which a node takes two members."""
    api = cluster(2, gpu=2)
    for number in range(3):
        add_member(api, number)
    return api


def marked(api: MemoryApi, mark: str) -> dict[str, str]:
    """Return the node of each pod with an annotation, by name."""
    return {
        pod["metadata"]["name"]: pod["spec"]["nodeName"]
        for pod in api.objects[PODS].values()
        if mark in pod["metadata"].get("annotations", {})
    }


@on_a_loop
async def test_two_members_of_a_whole_gang_say_so_on_two_nodes() -> None:
    api = gang_of_labels()
    async with running(api):
        await until(lambda: len(marked(api, WAS_WHOLE)) == 2)
        await asyncio.sleep(0.6)  # no third member says so
        assert {*marked(api, WAS_WHOLE).values()} == {"n0", "n1"}
        assert len(marked(api, BOUND_IN_START)) == 3
        leaves = next(iter(marked(api, WAS_WHOLE)))
        api.remove(PODS, f"default/{leaves}")
        await until(lambda: len(marked(api, WAS_WHOLE)) == 2)
        assert leaves not in marked(api, WAS_WHOLE)
        add_member(api, 7)
        await until(lambda: "g-7" in marked(api, WAS_WHOLE))  # it says so with its bind
    assert "g-7" not in marked(api, BOUND_IN_START)


@on_a_loop
async def test_new_leader_writes_what_its_predecessor_could_not() -> None:
    api = gang_of_labels()
    for number in range(3):
        notes = {"annotations": {BOUND_IN_START: "true"}}
        node = {"nodeName": f"n{number % 2}"}
        change(api, PODS, f"default/g-{number}", spec=node, metadata=notes)
    async with running(api):
        await until(lambda: len(marked(api, WAS_WHOLE)) == 2)


@on_a_loop
async def test_member_that_was_replaced_under_its_name_has_the_mark_of_its_own_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The patch names the UID of the old pod, which the API server refuses as invalid."""
    api = gang_of_labels()
    replaced = list[str]()

    def replace(method: str, path: str) -> None:
        if method == "PATCH" and not replaced:
            name = path.split("/")[-2]
            replaced.append(name)
            api.remove(PODS, f"default/{name}")
            add_member(api, int(name[-1]))

    api.fault = replace
    async with running(api):
        await until(lambda: replaced and all_bound(api) and len(marked(api, WAS_WHOLE)) >= 2)
        await asyncio.sleep(0.6)
    (name,) = replaced
    assert name in marked(api, WAS_WHOLE)
    assert name not in marked(api, BOUND_IN_START)
    assert reasons(api, name) == ["Scheduled", "Scheduled"]
    assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == []


@on_a_loop
async def test_pods_of_a_group_with_a_status_and_lone_pods_have_no_annotations() -> None:
    api = cluster()
    put_gang(api, size=2)
    api.put(PODS, pod_json("lone"))
    add_member(api, 9, 1)
    async with running(api):
        await until(lambda: all_bound(api))
        await asyncio.sleep(0.6)
    assert marked(api, BOUND_IN_START) == marked(api, WAS_WHOLE) == {}


@on_a_loop
async def test_condition_of_a_native_group_follows_what_an_earlier_leader_has_bound() -> None:
    api = cluster()
    put_gang(api, size=2, nodeName="n0")
    async with running(api):
        await until(
            lambda: (
                condition(api, GROUPS, "g", "PodGroupInitiallyScheduled").get("status") == "True"
            )
        )


def test_versions_that_differ_by_these_annotations_alone_are_told_apart_from_others() -> None:
    before = Pod(name="a", uid="a", annotations={"x": "1"})
    marks = {"x": "1", WAS_WHOLE: "true"}
    assert differ_by_marks(before, Pod(name="a", uid="a", annotations=marks))
    assert not differ_by_marks(before, before)
    assert not differ_by_marks(before, Pod(name="a", uid="a", annotations={**marks, "x": "2"}))
    assert not differ_by_marks(before, Pod(name="a", uid="a", annotations=marks, priority=1))
