"""A pod whose group labels are malformed is refused; all others are scheduled as before."""

from __future__ import annotations

from typing import Any

import pytest

from support.cluster_objects import NODES, PODS, node_json, pod_json
from support.memory_api import MemoryApi
from support.running import on_a_loop, running, until

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

EVENTS = "/apis/events.k8s.io/v1/events"
PREFIX = "pod-group.scheduling.sigs.k8s.io"
MALFORMED = f"{PREFIX}/min-available must be an int >= 1, got '0'"


def malformed() -> dict[str, Any]:
    pod = pod_json("zero")
    pod["metadata"]["labels"] = {f"{PREFIX}/name": "zero", f"{PREFIX}/min-available": "0"}
    return pod


def is_bound(api: MemoryApi, name: str) -> bool:
    found = api.get(PODS, f"default/{name}") or {}
    return "nodeName" in found.get("spec", {})


def told_of(api: MemoryApi, name: str) -> list[str]:
    events = api.objects.get(EVENTS, {}).values()
    return [each["note"] for each in events if each["regarding"]["name"] == name]


@on_a_loop
async def test_malformed_claim_in_a_listing_keeps_no_other_pod_from_its_node() -> None:
    api = MemoryApi()
    api.put(NODES, node_json("n"))
    api.put(PODS, malformed())
    api.put(PODS, pod_json("a"))
    async with running(api):
        await until(lambda: is_bound(api, "a"))
        await until(lambda: told_of(api, "zero"))
    assert not is_bound(api, "zero")
    assert MALFORMED in told_of(api, "zero")[0]


@on_a_loop
async def test_malformed_claim_that_arrives_keeps_no_other_pod_from_its_node() -> None:
    api = MemoryApi()
    api.put(NODES, node_json("n"))
    async with running(api):
        api.put(PODS, pod_json("a"))
        await until(lambda: is_bound(api, "a"))
        api.put(PODS, malformed())
        await until(lambda: told_of(api, "zero"))
        api.put(PODS, pod_json("b"))
        await until(lambda: is_bound(api, "b"))
    assert not is_bound(api, "zero")


@on_a_loop
async def test_condition_of_a_pod_with_a_malformed_claim_names_label_and_value() -> None:
    api = MemoryApi()
    api.put(NODES, node_json("n"))
    api.put(PODS, malformed())

    def conditions() -> list[str]:
        found = api.get(PODS, "default/zero") or {}
        return [each["message"] for each in found.get("status", {}).get("conditions", ())]

    async with running(api):
        await until(conditions)
    assert MALFORMED in conditions()[0]
