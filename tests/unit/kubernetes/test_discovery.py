"""Which APIs of PodGroups a cluster serves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("aiohttp", reason="the extra kubernetes is not installed")
pytest.importorskip("httptools", reason="the extra kubernetes-fast is not installed")

from gangsched.errors import GangschedError
from gangsched.kubernetes._client import Client
from gangsched.kubernetes._discovery import (
    API_GROUPS,
    Dialect,
    DiscoveryFailed,
    discover,
    watch_dialects,
)
from gangsched.kubernetes._events import UnexpectedAnswer
from support.api_clients import client_of
from support.running import on_a_loop, until
from support.scripted_api import Answer, ScriptedApi, reply, scripted_api

CORE = Dialect("scheduling.k8s.io", "v1alpha2", "/apis/scheduling.k8s.io/v1alpha2/podgroups")
PLUGINS = Dialect("scheduling.x-k8s.io", "v1alpha1", "/apis/scheduling.x-k8s.io/v1alpha1/podgroups")

Answers = Mapping[str, Answer]


def api(group: str, *versions: str, of: int = -1) -> Answers:
    """Return the answers of an API group whose version at a place has PodGroups."""
    found = {"kind": "APIGroup", "versions": [{"version": each} for each in versions]}
    names = ("podgroups", "podgroups/status")
    resources = [{"name": name, "kind": "PodGroup"} for name in names]
    lists = {each: resources if each == versions[of] else [] for each in versions}
    return {f"/apis/{group}": reply(200, found)} | {
        f"/apis/{group}/{each}": reply(200, {"kind": "APIResourceList", "resources": found})
        for each, found in lists.items()
    }


TREES = Dialect(
    "scheduling.k8s.io",
    "v1alpha3",
    "/apis/scheduling.k8s.io/v1alpha3/compositepodgroups",
    "CompositePodGroup",
)

BOTH = {
    **api("scheduling.k8s.io", "v1", "v1alpha2", "v1alpha1", of=1),
    **api("scheduling.x-k8s.io", "v1alpha1"),
}
BROKEN = reply(500, {"message": "broken"})


def serve(server: ScriptedApi, answers: Answers) -> None:
    server.handler = lambda request: answers.get(request.path, reply(404, {"code": 404}))


@asynccontextmanager
async def serving(answers: Answers) -> AsyncIterator[tuple[ScriptedApi, Client]]:
    async with scripted_api() as server, client_of("httptools", server.access) as client:
        serve(server, answers)
        yield server, client


@on_a_loop
async def test_apis_with_pod_groups_are_found_in_the_order_of_precedence() -> None:
    async with serving(BOTH) as (server, client):
        assert await discover(client) == (CORE, PLUGINS)
        serve(server, api("scheduling.k8s.io", "v1alpha1"))  # a version of another form
        assert await discover(client) == ()
        serve(server, {**api("scheduling.volcano.sh", "v1beta1")})
        (dialect,) = await discover(client)
        assert dialect.group == "scheduling.volcano.sh"


@on_a_loop
async def test_both_kinds_of_kubernetes_are_found_in_the_versions_that_have_them() -> None:
    """As kube-apiserver 1.37 answers: PodGroups are in both versions, and the first one counts."""
    beta = api("scheduling.k8s.io", "v1", "v1beta1", "v1alpha3", of=1)
    names = ("podgroups", "podgroups/status", "workloads")
    kinds = ("PodGroup", "PodGroup", "Workload")
    alpha = [{"name": name, "kind": kind} for name, kind in zip(names, kinds, strict=True)]
    plural = "compositepodgroups"
    trees = [{"name": name, "kind": TREES.kind} for name in (plural, f"{plural}/status")]
    path = "/apis/scheduling.k8s.io/v1alpha3"
    async with serving({**beta, path: reply(200, {"resources": [*alpha, *trees]})}) as served:
        server, client = served
        found = await discover(client)
        assert [each.version for each in found] == ["v1beta1", "v1alpha3"]
        assert found[1] == TREES
        assert [each.source for each in found] == [
            "scheduling.k8s.io",
            "CompositePodGroup.scheduling.k8s.io",
        ]
        assert TREES.path_of("a/b") == f"{path}/namespaces/a/compositepodgroups/b"
        serve(server, {**beta, path: reply(200, {"resources": alpha})})
        assert await discover(client) == (found[0],)  # the feature gate is off


@on_a_loop
async def test_cluster_without_pod_groups_has_no_dialect() -> None:
    async with serving({}) as (server, client):
        assert await discover(client) == ()
        paths = sorted(each.path for each in server.requests)
        assert paths == sorted(f"/apis/{name}" for name in API_GROUPS)


@on_a_loop
async def test_status_of_a_dialect_may_be_part_of_the_object() -> None:
    resources = {
        "kind": "APIResourceList",
        "resources": [{"name": "podgroups", "kind": "PodGroup"}],
    }
    answers = {**api("scheduling.volcano.sh", "v1beta1")}
    answers["/apis/scheduling.volcano.sh/v1beta1"] = reply(200, resources)
    async with serving(answers) as (_server, client):
        (dialect,) = await discover(client)
        assert not dialect.status_subresource


@pytest.mark.parametrize("path", ["/apis/scheduling.k8s.io", "/apis/scheduling.k8s.io/v1alpha2"])
@on_a_loop
async def test_api_that_does_not_answer_is_an_error_and_not_absent(path: str) -> None:
    async with serving(BOTH | {path: BROKEN}) as (server, client):
        with pytest.raises(DiscoveryFailed, match="broken") as failed:
            await discover(client)
        assert failed.value.path == path
        serve(server, BOTH | {path: reply(200, [])})
        with pytest.raises(UnexpectedAnswer):
            await discover(client)


@on_a_loop
async def test_api_that_is_installed_or_removed_later_is_told() -> None:
    told: list[tuple[Dialect, ...]] = []
    problems: list[GangschedError] = []

    async def changed(dialects: tuple[Dialect, ...]) -> None:
        told.append(dialects)

    async with serving({}) as (server, client):
        watching = asyncio.ensure_future(
            watch_dialects(client, (), changed, interval=0.01, on_problem=problems.append)
        )
        await until(lambda: len(server.requests) > 8)
        assert told == []
        serve(server, BOTH)
        await until(lambda: told == [(CORE, PLUGINS)])
        server.handler = lambda _request: BROKEN
        await until(lambda: len(problems) > 0)
        assert len(told) == 1
        serve(server, {})
        await until(lambda: told[1:] == [()])
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
