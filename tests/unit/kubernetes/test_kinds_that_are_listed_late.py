"""A kind whose listing hangs, as after a restart of the API server: what needs it is held."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from attrs import define, evolve, field

from gangsched.kubernetes import ProfileSettings
from gangsched.kubernetes._api import Response
from support.cluster_objects import (
    CLAIMS,
    GROUPS,
    NODES,
    PODS,
    VOLUMES,
    claim_json,
    node_json,
    pod_json,
    put_gang,
    uses_claim,
    volume_json,
)
from support.extender_client import extending
from support.memory_api import MemoryApi
from support.running import ALONE, on_a_loop, running, until

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")


@define(eq=False)
class Hanging(MemoryApi):
    """An API server that does not answer any read of one collection until ``answers`` is set."""

    hangs: str = ""
    answers: asyncio.Event = field(factory=asyncio.Event)

    async def request(self, method: str, path: str, **named: Any) -> Response:
        if method == "GET" and path.partition("?")[0] == self.hangs:
            await self.answers.wait()
        return await super().request(method, path, **named)

    async def watch(self, path: str, *, timeout: float) -> AsyncIterator[Sequence[bytes]]:
        if path.partition("?")[0] == self.hangs:
            await self.answers.wait()
        async for lines in super().watch(path, timeout=timeout):
            yield lines

    def holds(self, name: str, kind: str) -> bool:
        """Return whether a pod says that it is held for a kind."""
        conditions = self.objects[PODS][f"default/{name}"]["status"].get("conditions", [])
        needs = f"needs {kind} objects: they are not listed yet"
        return any(needs in each["message"] for each in conditions)


def hanging(collection: str) -> Hanging:
    """Return a cluster with a pod that needs nothing, and a gang of two."""
    api = Hanging(hangs=collection)
    api.put(NODES, node_json("n0", gpu=8))
    api.put(PODS, pod_json("plain"))
    put_gang(api, "g", 2)
    return api


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the scheduler wait no longer than a moment for a kind."""
    monkeypatch.setattr("gangsched.kubernetes._shell._LATE", 0.2)


@on_a_loop
async def test_pods_with_claims_are_held_while_claims_are_not_listed_and_others_start() -> None:
    api, kind = hanging(CLAIMS), "PersistentVolumeClaim"
    api.put(VOLUMES, volume_json("v", claimRef={"namespace": "default", "name": "c"}))
    bound = {"volumeName": "v", "storageClassName": ""}
    api.put(CLAIMS, claim_json("c", status={"phase": "Bound"}, **bound))
    api.put(PODS, pod_json("held", volumes=uses_claim("c")))
    async with running(api):
        await until(lambda: api.pods()["default/plain"] == api.pods()["default/g-0"] == "n0")
        await until(lambda: api.holds("held", kind))
        api.put(PODS, pod_json("later", volumes=uses_claim("c")))
        await until(lambda: api.holds("later", kind))
        assert api.pods()["default/held"] is None
        api.answers.set()
        await until(lambda: not api.holds("held", kind))


@on_a_loop
async def test_gangs_are_held_while_their_groups_are_not_listed_and_other_pods_start() -> None:
    api = hanging(GROUPS)
    group, _, version = next(iter(api.served)).partition("/")
    kind = f"PodGroup.{version}.{group}"
    async with running(api):
        await until(lambda: api.pods()["default/plain"] == "n0")
        await until(lambda: api.holds("g-0", kind) and api.holds("g-1", kind))
        assert api.pods()["default/g-0"] is None
        api.answers.set()
        await until(lambda: all(api.pods().values()))


@pytest.mark.parametrize("hangs", [NODES, GROUPS])
@on_a_loop
async def test_nothing_is_decided_without_a_kind_that_all_decisions_depend_on(hangs: str) -> None:
    """Nodes always; groups if pods are preempted, since victims are whole gangs."""
    profile = ProfileSettings(args={"DefaultPreemption": {}})
    settings = evolve(ALONE, profile=profile) if hangs == GROUPS else ALONE
    api = hanging(hangs)
    async with running(api, settings):
        await asyncio.sleep(0.5)
        assert api.pods()["default/plain"] is None
        api.answers.set()
        await until(lambda: api.pods()["default/plain"] == "n0")


@on_a_loop
async def test_extender_answers_without_claims_that_are_not_listed() -> None:
    async with extending(hanging(CLAIMS)) as asking:
        assert await asking.decided("g-0", ["n0"]) == "n0"
