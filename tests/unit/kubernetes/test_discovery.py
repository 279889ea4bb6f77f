"""Which APIs of PodGroups a cluster serves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

pytest.importorskip("aiohttp", reason="the extra kubernetes is not installed")
pytest.importorskip("httptools", reason="the extra kubernetes-fast is not installed")

from gangsched.errors import GangschedError
from gangsched.kubernetes._discovery import (
    API_GROUPS,
    Dialect,
    DiscoveryFailed,
    discover,
    watch_dialects,
)
from gangsched.kubernetes._events import UnexpectedAnswer
from support.api_clients import client_of
from support.scripted_api import Answer, Request, reply, run, scripted_api

CORE = Dialect("scheduling.k8s.io", "v1alpha2", "/apis/scheduling.k8s.io/v1alpha2/podgroups")
PLUGINS = Dialect("scheduling.x-k8s.io", "v1alpha1", "/apis/scheduling.x-k8s.io/v1alpha1/podgroups")


def group(*versions: str) -> Answer:
    return reply(200, {"kind": "APIGroup", "versions": [{"version": each} for each in versions]})


def resources(*names: str, kind: str = "PodGroup") -> Answer:
    each = [{"name": name, "kind": kind} for name in names]
    return reply(200, {"kind": "APIResourceList", "resources": each})


def serving(answers: Mapping[str, Answer]) -> Callable[[Request], Answer]:
    return lambda request: answers.get(request.path, reply(404, {"code": 404}))


BOTH = {
    "/apis/scheduling.k8s.io": group("v1", "v1alpha2", "v1alpha1"),
    "/apis/scheduling.k8s.io/v1": resources("priorityclasses", kind="PriorityClass"),
    "/apis/scheduling.k8s.io/v1alpha2": resources("podgroups", "podgroups/status"),
    "/apis/scheduling.x-k8s.io": group("v1alpha1"),
    "/apis/scheduling.x-k8s.io/v1alpha1": resources("podgroups", "podgroups/status"),
}


def test_apis_with_pod_groups_are_found_in_the_order_of_precedence() -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of("httptools", server.access) as client:
            server.handler = serving(BOTH)
            assert await discover(client) == (CORE, PLUGINS)

    run(story())


def test_cluster_without_pod_groups_has_no_dialect() -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of("httptools", server.access) as client:
            server.handler = serving({})
            assert await discover(client) == ()
            assert sorted(each.path for each in server.requests) == sorted(
                f"/apis/{name}" for name in API_GROUPS
            )

    run(story())


def test_version_of_another_form_is_not_used() -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of("httptools", server.access) as client:
            server.handler = serving(
                {
                    "/apis/scheduling.k8s.io": group("v1alpha1"),
                    "/apis/scheduling.k8s.io/v1alpha1": resources("podgroups"),
                }
            )
            assert await discover(client) == ()

    run(story())


def test_status_of_a_dialect_may_be_part_of_the_object() -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of("httptools", server.access) as client:
            server.handler = serving(
                {
                    "/apis/scheduling.volcano.sh": group("v1beta1"),
                    "/apis/scheduling.volcano.sh/v1beta1": resources("podgroups"),
                }
            )
            (dialect,) = await discover(client)
            assert not dialect.status_subresource

    run(story())


@pytest.mark.parametrize("path", ["/apis/scheduling.k8s.io", "/apis/scheduling.k8s.io/v1alpha2"])
def test_api_that_does_not_answer_is_an_error_and_not_absent(path: str) -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of("httptools", server.access) as client:
            server.handler = serving(BOTH | {path: reply(500, {"message": "broken"})})
            with pytest.raises(DiscoveryFailed, match="broken") as failed:
                await discover(client)
            assert failed.value.path == path
            server.handler = serving(BOTH | {path: reply(200, [])})
            with pytest.raises(UnexpectedAnswer):
                await discover(client)

    run(story())


def test_api_that_is_installed_or_removed_later_is_told() -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of("httptools", server.access) as client:
            told: list[tuple[Dialect, ...]] = []
            problems: list[GangschedError] = []

            async def changed(dialects: tuple[Dialect, ...]) -> None:
                told.append(dialects)

            async def until(condition: Callable[[], bool]) -> None:
                while not condition():
                    await asyncio.sleep(0.01)

            server.handler = serving({})
            watching = asyncio.ensure_future(
                watch_dialects(client, (), changed, interval=0.01, on_problem=problems.append)
            )
            await until(lambda: len(server.requests) > 8)
            assert told == []
            server.handler = serving(BOTH)
            await until(lambda: told == [(CORE, PLUGINS)])
            server.handler = lambda _request: reply(500, {"message": "broken"})
            await until(lambda: len(problems) > 0)
            assert len(told) == 1
            server.handler = serving({})
            await until(lambda: told[1:] == [()])
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    run(story())
