"""A PodGroup that cannot be read is reported as that, on the group and on its pods."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("msgspec", reason="the extra kubernetes is not installed")

from gangsched.cli import _kubectl
from gangsched.kubernetes import _client, _effects
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.extender_client import extending
from support.memory_api import MemoryApi
from support.recorded_objects import COMPOSITE_MEMBER
from support.running import ALONE, on_a_loop, running, until

EVENTS = "/apis/events.k8s.io/v1/events"
FIELD = "spec.disruptionMode"
BAD: dict[str, Any] = {"disruptionMode": {"gradual": {}}}
PROBLEM = f"{FIELD}: expected exactly one of single and all"
PREFIX = "pod-group.scheduling.sigs.k8s.io"
OLDER = "/apis/scheduling.k8s.io/v1alpha2/podgroups"


class Server(MemoryApi):
    """An API server whose clients have a namespace."""

    namespace = "default"


def cluster(size: int = 2) -> Server:
    """Return a cluster with a node and the pods of a gang."""
    api = Server()
    api.put(NODES, node_json("n"))
    for number in range(size):
        api.put(PODS, pod_json(f"g-{number}", group="g"))
    return api


def condition(api: MemoryApi, collection: str, name: str, kind: str) -> dict[str, Any]:
    """Return a condition of an object; empty if it has none of that type."""
    found = api.get(collection, f"default/{name}") or {}
    conditions = found.get("status", {}).get("conditions", ())
    return next((each for each in conditions if each["type"] == kind), dict[str, Any]())


def of_group(api: MemoryApi) -> dict[str, Any]:
    return condition(api, GROUPS, "g", "PodGroupInitiallyScheduled")


def of_pod(api: MemoryApi, name: str) -> dict[str, Any]:
    return condition(api, PODS, name, "PodScheduled")


def notes(api: MemoryApi, kind: str) -> dict[str, str]:
    """Return the notes of the failures of objects of a kind, by name."""
    return {
        each["regarding"]["name"]: each["note"]
        for each in api.objects.get(EVENTS, {}).values()
        if each["reason"] == "FailedScheduling" and each["regarding"]["kind"] == kind
    }


def is_said(api: MemoryApi) -> bool:
    """Return whether the group and both pods have a condition, and the group an event."""
    pods = all(of_pod(api, f"g-{number}") for number in range(2))
    return bool(pods and of_group(api) and notes(api, "PodGroup") and len(notes(api, "Pod")) >= 2)


@pytest.mark.parametrize("is_first", [True, False], ids=["group first", "pods first"])
@on_a_loop
async def test_group_that_cannot_be_read_is_reported_on_it_and_on_its_pods(is_first: bool) -> None:
    api = cluster()
    if is_first:
        api.put(GROUPS, group_json("g", 2, **BAD))
    async with asyncio.timeout(20), running(api):
        if not is_first:
            await asyncio.sleep(0.1)
            api.put(GROUPS, group_json("g", 2, **BAD))
        await until(lambda: is_said(api))
    found = of_group(api)
    assert (found["status"], found["reason"]) == ("False", "SchedulerError")
    said = (found["message"], notes(api, "PodGroup")["g"], *notes(api, "Pod").values())
    for text in (*said, *(of_pod(api, f"g-{number}")["message"] for number in range(2))):
        assert PROBLEM in text
    assert not any(api.pods().values())


@on_a_loop
async def test_value_of_the_field_is_named() -> None:
    api = cluster()
    api.put(GROUPS, group_json("g", 0))
    async with asyncio.timeout(20), running(api):
        await until(lambda: is_said(api))
    for text in (of_group(api)["message"], of_pod(api, "g-0")["message"]):
        assert "spec.schedulingPolicy.gang.minCount: expected an int >= 1, got 0" in text


@on_a_loop
async def test_group_that_can_be_read_again_starts() -> None:
    api = cluster()
    api.put(GROUPS, group_json("g", 2, **BAD))
    async with asyncio.timeout(20), running(api):
        await until(lambda: is_said(api))
        mended = api.get(GROUPS, "default/g")
        assert mended is not None
        mended["spec"]["disruptionMode"] = {"single": {}}
        api.put(GROUPS, mended)
        await until(lambda: all(api.pods().values()))
        await until(lambda: of_group(api)["status"] == "True")


@on_a_loop
async def test_another_problem_of_the_group_is_reported_anew() -> None:
    api = cluster()
    api.put(GROUPS, group_json("g", 2, **BAD))
    async with asyncio.timeout(20), running(api):
        await until(lambda: is_said(api))
        changed = api.get(GROUPS, "default/g")
        assert changed is not None
        changed["spec"]["disruptionMode"] = "Never"
        api.put(GROUPS, changed)
        await until(lambda: "got 'Never'" in of_group(api)["message"])
        await until(lambda: "got 'Never'" in of_pod(api, "g-1")["message"])


@on_a_loop
async def test_deleted_group_that_could_not_be_read_holds_no_pod() -> None:
    """The labels say what the group needs, so its pods start without the object."""
    api = Server()
    api.put(NODES, node_json("n"))
    for number in range(2):
        pod = pod_json(f"g-{number}")
        pod["metadata"]["labels"] = {f"{PREFIX}/name": "g", f"{PREFIX}/min-available": "2"}
        api.put(PODS, pod)
    api.put(GROUPS, group_json("g", 2, **BAD))
    async with asyncio.timeout(20), running(api):
        await until(lambda: PROBLEM in of_pod(api, "g-0").get("message", ""))
        assert not any(api.pods().values())
        api.remove(GROUPS, "default/g")
        await until(lambda: all(api.pods().values()))


@on_a_loop
async def test_condition_of_1_36_has_the_name_of_1_36() -> None:
    api = cluster()
    api.served = {"scheduling.k8s.io/v1alpha2"}
    api.put(OLDER, {**group_json("g", 2), "apiVersion": "scheduling.k8s.io/v1alpha2"})
    async with asyncio.timeout(20), running(api):
        await until(lambda: all(api.pods().values()))
        await until(lambda: condition(api, OLDER, "g", "PodGroupScheduled"))
    assert not condition(api, OLDER, "g", "PodGroupInitiallyScheduled")


@on_a_loop
async def test_group_with_a_parent_is_held_and_it_is_said_on_the_group_and_its_pods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_effects, "_INCOMPLETE_AFTER", 0.05)
    api = cluster(size=3)
    api.put(GROUPS, COMPOSITE_MEMBER)
    async with asyncio.timeout(20), running(api):
        await until(lambda: is_said(api))
        await asyncio.sleep(0.2)  # what is said of an incomplete group would come by now
    for text in (of_group(api)["message"], of_pod(api, "g-0")["message"]):
        assert "spec.parentCompositePodGroupName" in text
    assert "spec.parentCompositePodGroupName" in notes(api, "PodGroup")["g"]
    assert not any(api.pods().values())


@on_a_loop
async def test_members_of_a_group_are_told_what_holds_one_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_effects, "_INCOMPLETE_AFTER", 0.05)
    api = Server()
    api.put(NODES, node_json("n"))
    claims = [{"name": "gpu", "resourceClaimName": "c"}]
    api.put(PODS, pod_json("g-0", group="g", resourceClaims=claims))
    api.put(PODS, pod_json("g-1", group="g"))
    api.put(GROUPS, group_json("g", 2))
    async with asyncio.timeout(20), running(api):
        await until(lambda: of_group(api) and of_pod(api, "g-0") and of_pod(api, "g-1"))
    said = {each["message"] for each in (of_group(api), of_pod(api, "g-0"), of_pod(api, "g-1"))}
    assert said == {"its pods are held: not modelled: spec.resourceClaims"}


@on_a_loop
async def test_extender_reports_the_group() -> None:
    api = cluster()
    api.put(GROUPS, group_json("g", 2, **BAD))
    async with asyncio.timeout(20), extending(api, ALONE):
        await until(lambda: PROBLEM in of_group(api).get("message", ""))


def test_kubectl_gang_why_names_the_field_and_what_would_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = cluster()
    api.put(GROUPS, group_json("g", 2, **BAD))

    async def connect_client(**_named: Any) -> Server:
        return api

    monkeypatch.setattr(_client, "connect_client", connect_client)
    assert _kubectl.main(["why", "g", "--request-timeout", "5s"]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = dict(line.split(": ", 1) for line in lines)
    assert f"its PodGroup cannot be read: {PROBLEM}" in found["why"]
    assert found["what would help"] == f"correct the PodGroup g: {PROBLEM}"
