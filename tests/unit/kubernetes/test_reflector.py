"""List and watch, against a server that does what real ones do at their worst."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="the extra kubernetes is not installed")
pytest.importorskip("httptools", reason="the extra kubernetes-fast is not installed")

from gangsched.errors import ManifestError
from gangsched.kubernetes._decode import PodDecoder, PodFacts
from gangsched.kubernetes._reflector import Delta, Reflector, ReflectorState, Resource
from support.api_clients import TRANSPORTS, client_of
from support.api_objects import pod
from support.patience import HANG
from support.scripted_api import (
    Answer,
    ScriptedApi,
    abort,
    bookmark,
    event,
    reply,
    run,
    scripted_api,
    stream,
)

PODS = Resource("/api/v1/pods", "Pod")


class Watched:
    """A reflector that runs, and what it told."""

    def __init__(self, server: ScriptedApi) -> None:
        self.server = server
        self.batches: list[list[Delta[PodFacts]]] = []
        self.states: list[ReflectorState] = []
        self.pauses: list[float] = []
        self.told = asyncio.Event()
        self.reflector: Reflector[PodFacts]

    def sink(self, deltas: list[Delta[PodFacts]]) -> None:
        assert deltas
        self.batches.append(deltas)
        self.told.set()

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0.01)

    @property
    def deltas(self) -> list[str]:
        return [shown(delta) for batch in self.batches for delta in batch]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(HANG):
            while not condition():
                await asyncio.sleep(0.005)

    async def until_told(self, *deltas: str) -> None:
        """Wait until exactly these deltas were told."""
        try:
            await self.until(lambda: len(self.deltas) >= len(deltas))
            await asyncio.sleep(0.05)
        except TimeoutError:
            pass
        assert self.deltas == list(deltas)


def shown(delta: Delta[PodFacts]) -> str:
    if delta.identity is None:
        return delta.kind
    name = delta.identity.key.removeprefix("team/")
    return f"{delta.kind} {name} {delta.identity.uid} {delta.identity.resource_version}"


@asynccontextmanager
async def watched(
    transport: str = "httptools", *, decode: Callable[[Any], PodFacts] | None = None, **options: Any
) -> AsyncIterator[Watched]:
    async with scripted_api() as server, client_of(transport, server.access) as client:
        one = Watched(server)
        one.reflector = Reflector(
            client,
            PODS,
            decode or PodDecoder(),
            one.sink,
            random=lambda: 0.5,
            on_state=one.states.append,
            sleep=one.sleep,
            **options,
        )
        yield one


@asynccontextmanager
async def running(one: Watched) -> AsyncIterator[None]:
    task = asyncio.ensure_future(one.reflector.run())
    try:
        yield
    finally:
        task.cancel()
        (ended,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(ended, asyncio.CancelledError), ended


def added(name: str, version: str, uid: str | None = None) -> dict[str, object]:
    return event("ADDED", pod(name, version=version, uid=uid))


def modified(name: str, version: str, uid: str | None = None) -> dict[str, object]:
    return event("MODIFIED", pod(name, version=version, uid=uid))


def deleted(name: str, version: str, uid: str | None = None) -> dict[str, object]:
    return event("DELETED", pod(name, version=version, uid=uid))


def error(code: int, reason: str) -> dict[str, object]:
    return event("ERROR", {"kind": "Status", "code": code, "reason": reason, "message": "m"})


def page(*pods: dict[str, Any], version: str = "9", more: str = "") -> Answer:
    for each in pods:
        each.pop("kind", None)
        each.pop("apiVersion", None)
    metadata = {"resourceVersion": version, **({"continue": more} if more else {})}
    return reply(200, {"kind": "PodList", "metadata": metadata, "items": list(pods)})


SILENT = stream(ends=False)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_streamed_listing_is_followed_by_the_same_watch(transport: str) -> None:
    async def story() -> None:
        async with watched(transport) as one:
            one.server.answers(
                stream(
                    added("a", "3"),
                    added("b", "2"),
                    bookmark("5", ends=True),
                    modified("a", "6"),
                    deleted("b", "7"),
                    ends=False,
                )
            )
            async with running(one):
                await one.until_told(
                    "added a uid-a 3",
                    "added b uid-b 2",
                    "synced",
                    "modified a uid-a 6",
                    "deleted b uid-b 2",
                )
            assert one.reflector.synced
            (request,) = one.server.requests
            assert request.query["sendInitialEvents"] == "true"
            assert request.query["resourceVersionMatch"] == "NotOlderThan"
            assert request.query["allowWatchBookmarks"] == "true"
            assert request.query["watch"] == "true"
            assert 300 <= int(request.query["timeoutSeconds"]) <= 600
            assert [state.name for state in one.states] == ["listing", "watching"]

    run(story())


@pytest.mark.parametrize("status", [400, 422])
def test_server_without_watch_lists_is_listed_in_pages(status: int) -> None:
    async def story() -> None:
        async with watched(page=2) as one:
            one.server.answers(
                reply(status, {"code": status, "reason": "Invalid"}),
                page(pod("a", version="1"), pod("b", version="2"), more="next/2"),
                page(pod("c", version="3"), version="9"),
                stream(modified("c", "10"), ends=False),
            )
            async with running(one):
                await one.until_told(
                    "added a uid-a 1",
                    "added b uid-b 2",
                    "added c uid-c 3",
                    "synced",
                    "modified c uid-c 10",
                )
            _, first, second, watch = one.server.requests
            assert first.query["limit"] == "2"
            assert second.query["continue"] == "next/2"
            assert "resourceVersion" not in first.query
            assert watch.query["resourceVersion"] == "9"
            assert "sendInitialEvents" not in watch.query

    run(story())


def test_server_that_ignores_the_parameter_is_listed_in_pages() -> None:
    async def story() -> None:
        async with watched(first_event=0.1) as one:
            one.server.answers(
                stream(added("a", "1"), ends=False),
                page(pod("a", version="1")),
                SILENT,
            )
            async with running(one):
                await one.until_told("added a uid-a 1", "synced")

    run(story())


def test_pages_that_expire_under_way_are_listed_anew_in_one() -> None:
    async def story() -> None:
        async with watched(streaming=False, page=1) as one:
            one.server.answers(
                page(pod("a", version="1"), more="x"),
                reply(410, {"code": 410, "reason": "Expired"}),
                page(pod("b", version="2"), version="9"),
                SILENT,
            )
            async with running(one):
                await one.until_told(
                    "added a uid-a 1", "added b uid-b 2", "deleted a uid-a 1", "synced"
                )
            assert one.server.requests[2].query["limit"] == "0"

    run(story())


def test_watch_that_ends_resumes_after_the_last_event() -> None:
    async def story() -> None:
        async with watched() as one:
            one.server.answers(
                stream(added("a", "3"), bookmark("5", ends=True), modified("a", "7")),
                stream(bookmark("12"), pause=0.02),
                stream(modified("a", "13"), ends=False),
            )
            async with running(one):
                await one.until_told(
                    "added a uid-a 3", "synced", "modified a uid-a 7", "modified a uid-a 13"
                )
            versions = [each.query.get("resourceVersion") for each in one.server.requests]
            assert versions == ["", "7", "12"]
            assert one.pauses == []

    run(story())


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_watch_that_is_cut_resumes(transport: str) -> None:
    async def story() -> None:
        async with watched(transport) as one:
            one.server.answers(
                stream(added("a", "3"), bookmark("5", ends=True), abort=True, pause=0.03),
                abort(),
                stream(b'{"type":"MODIFIED","object":{"meta', abort=True, pause=0.03),
                stream(modified("a", "7"), ends=False),
            )
            async with running(one):
                await one.until_told("added a uid-a 3", "synced", "modified a uid-a 7")
            assert [each.query["resourceVersion"] for each in one.server.requests[1:]] == ["5"] * 3

    run(story())


def expired_status() -> Answer:
    return reply(410, {"kind": "Status", "code": 410, "reason": "Expired"})


@pytest.mark.parametrize(
    "gone",
    [expired_status(), stream(error(410, "Expired")), stream(error(410, "Gone"))],
    ids=["status", "expired line", "gone line"],
)
def test_expired_watch_lists_again_and_sweeps(gone: Answer) -> None:
    async def story() -> None:
        async with watched() as one:
            one.server.answers(
                stream(
                    *(added("a", "1"), added("b", "2"), added("c", "3"), added("d", "4")),
                    bookmark("5", ends=True),
                ),
                gone,
                stream(
                    *(added("a", "1"), added("c", "9"), added("d", "8", "new-d"), added("e", "7")),
                    bookmark("20", ends=True),
                    ends=False,
                ),
            )
            async with running(one):
                await one.until_told(
                    *("added a uid-a 1", "added b uid-b 2", "added c uid-c 3", "added d uid-d 4"),
                    "synced",
                    "modified c uid-c 9",
                    "deleted d uid-d 4",
                    "added d new-d 8",
                    "added e uid-e 7",
                    "deleted b uid-b 2",
                    "synced",
                )
            assert one.pauses == []

    run(story())


def test_listing_that_is_cut_sweeps_nothing() -> None:
    async def story() -> None:
        async with watched() as one:
            one.server.answers(
                stream(added("a", "1"), added("b", "2"), bookmark("5", ends=True)),
                expired_status(),
                stream(added("a", "1"), abort=True, pause=0.03),
                stream(added("a", "1"), added("b", "2"), bookmark("9", ends=True), ends=False),
            )
            async with running(one):
                await one.until_told("added a uid-a 1", "added b uid-b 2", "synced", "synced")
            # initial events come in no order, so a cut listing has no version to resume from
            versions = [each.query["resourceVersion"] for each in one.server.requests]
            assert versions == ["", "5", "", ""]

    run(story())


def test_stream_that_hangs_during_a_listing_is_listed_in_pages_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after a restart of the API server; what the stream has shown may be gone by then."""
    monkeypatch.setattr("gangsched.kubernetes._reflector._HANGS", 0.05)

    async def story() -> None:
        async with watched() as one:
            one.server.answers(
                stream(added("a", "1"), abort=True, pause=0.1),
                page(pod("b", version="2"), version="9"),
                expired_status(),
                stream(added("b", "2"), bookmark("12", ends=True), ends=False),
            )
            async with running(one):
                await one.until_told(
                    "added a uid-a 1", "added b uid-b 2", "deleted a uid-a 1", "synced", "synced"
                )
            streamed = ["sendInitialEvents" in each.query for each in one.server.requests]
            assert streamed == [True, False, False, True]

    run(story())


def test_object_that_a_silent_stream_has_shown_is_gone_if_the_list_has_it_not() -> None:
    async def story() -> None:
        async with watched(first_event=0.1) as one:
            one.server.answers(
                stream(added("a", "1"), ends=False),
                page(pod("b", version="2"), version="9"),
                SILENT,
            )
            async with running(one):
                await one.until_told(
                    "added a uid-a 1", "added b uid-b 2", "deleted a uid-a 1", "synced"
                )

    run(story())


def test_events_before_an_error_of_the_same_batch_are_told() -> None:
    async def story() -> None:
        async with watched() as one:
            lines = b"".join(
                bytes(_json(each)) + b"\n" for each in (modified("a", "7"), error(410, "Expired"))
            )
            one.server.answers(
                stream(added("a", "1"), bookmark("5", ends=True)),
                stream(lines),
                stream(added("a", "7"), bookmark("9", ends=True), ends=False),
            )
            async with running(one):
                await one.until_told("added a uid-a 1", "synced", "modified a uid-a 7", "synced")

    run(story())


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def test_expiry_after_expiry_waits_between_listings() -> None:
    async def story() -> None:
        async with watched() as one:
            one.server.answers(
                *[expired_status()] * 5, stream(bookmark("5", ends=True), ends=False)
            )
            async with running(one):
                await one.until(lambda: one.reflector.synced)
            assert len(one.pauses) == 4

    run(story())


@pytest.mark.parametrize("status", [401, 403, 500, 502])
def test_refusals_for_a_moment_wait_and_do_not_list(status: int) -> None:
    async def story() -> None:
        async with watched() as one:
            # the credentials are read again after 401, and are the same: one request, not two
            refusal = reply(status, {"kind": "Status", "code": status, "reason": "X"})
            one.server.answers(
                stream(added("a", "1"), bookmark("5", ends=True)),
                refusal,
                refusal,
                stream(modified("a", "6"), ends=False),
            )
            async with running(one):
                await one.until_told("added a uid-a 1", "synced", "modified a uid-a 6")
            assert one.server.requests[-1].query["resourceVersion"] == "5"
            assert len(one.pauses) == 2
            problem = next(state.problem for state in one.states if state.name == "waiting")
            assert str(status) in str(problem)

    run(story())


def test_version_from_the_future_lists_again_after_three_refusals() -> None:
    async def story() -> None:
        async with watched() as one:
            too_large = reply(504, {"kind": "Status", "code": 504, "reason": "Timeout"})
            one.server.answers(
                stream(added("a", "100"), bookmark("100", ends=True)),
                *[too_large] * 3,
                stream(added("a", "5"), bookmark("9", ends=True), ends=False),
            )
            async with running(one):
                await one.until_told("added a uid-a 100", "synced", "modified a uid-a 5", "synced")

    run(story())


def test_too_many_requests_waits_as_long_as_it_is_told() -> None:
    async def story() -> None:
        async with watched() as one:
            one.server.answers(
                stream(bookmark("5", ends=True)),
                reply(429, {"code": 429}, {"Retry-After": "7"}),
                SILENT,
            )
            async with running(one):
                await one.until(lambda: len(one.server.requests) == 3)
            assert one.pauses == [7.0]

    run(story())


def test_pauses_grow_and_a_success_ends_them() -> None:
    async def story() -> None:
        async with watched() as one:
            one.server.answers(
                *[abort()] * 10,
                stream(added("a", "1"), bookmark("5", ends=True), abort=True, pause=0.02),
                SILENT,
            )
            async with running(one):
                await one.until(lambda: len(one.server.requests) == 12)
                await asyncio.sleep(0.05)
            assert one.pauses[:4] == [0.1, 0.2, 0.4, 0.8]
            assert max(one.pauses) == 15.0
            assert one.pauses[-1] == 0.1

    run(story())


def test_event_of_a_watch_ends_the_growth_of_pauses() -> None:
    async def story() -> None:
        async with watched() as one:
            one.server.answers(
                stream(bookmark("5", ends=True)),
                abort(),
                abort(),
                stream(added("a", "6"), abort=True, pause=0.02),
                SILENT,
            )
            async with running(one):
                await one.until(lambda: len(one.server.requests) == 5)
            assert one.pauses == [0.1, 0.2, 0.1]

    run(story())


def test_second_end_of_the_initial_events_is_not_told() -> None:
    async def story() -> None:
        async with watched() as one:
            one.server.answers(
                stream(bookmark("5", ends=True), bookmark("6", ends=True), ends=False)
            )
            async with running(one):
                await one.until_told("synced")

    run(story())


def test_watch_that_ends_at_once_without_events_waits() -> None:
    async def story() -> None:
        async with watched() as one:
            one.server.answers(stream(bookmark("5", ends=True)), stream(), stream(), SILENT)
            async with running(one):
                await one.until(lambda: len(one.server.requests) == 4)
            assert len(one.pauses) == 2

    run(story())


def test_removed_resource_has_no_objects() -> None:
    async def story() -> None:
        async with watched() as one:
            missing = reply(404, {"kind": "Status", "code": 404, "reason": "NotFound"})
            one.server.answers(
                stream(added("a", "1"), bookmark("5", ends=True)),
                *[missing] * 4,
                stream(added("a", "9", "new"), bookmark("9", ends=True), ends=False),
            )
            async with running(one):
                await one.until_told(
                    "added a uid-a 1",
                    "synced",
                    "deleted a uid-a 1",
                    "synced",
                    "added a new 9",
                    "synced",
                )

    run(story())


def test_duplicated_and_late_events_are_ignored() -> None:
    async def story() -> None:
        async with watched() as one:
            one.server.answers(
                stream(
                    added("a", "1"),
                    bookmark("5", ends=True),
                    modified("a", "8"),
                    modified("a", "8"),
                    modified("a", "7"),
                    deleted("a", "9"),
                    modified("a", "8"),
                    deleted("a", "9"),
                    added("a", "10", "new"),
                    deleted("a", "9"),
                    ends=False,
                )
            )
            async with running(one):
                await one.until_told(
                    "added a uid-a 1",
                    "synced",
                    "modified a uid-a 8",
                    "deleted a uid-a 8",
                    "added a new 10",
                )

    run(story())


def test_recreated_object_whose_deletion_was_not_seen_is_deleted_first() -> None:
    async def story() -> None:
        async with watched() as one:
            one.server.answers(
                stream(
                    added("a", "1"), bookmark("5", ends=True), added("a", "8", "new"), ends=False
                )
            )
            async with running(one):
                await one.until_told(
                    "added a uid-a 1", "synced", "deleted a uid-a 1", "added a new 8"
                )

    run(story())


def test_object_that_cannot_be_read_is_told_as_refused() -> None:
    async def story() -> None:
        async with watched() as one:
            bad = pod("a", version="6", priority="high")
            one.server.answers(
                stream(
                    event("ADDED", bad),
                    bookmark("7", ends=True),
                    modified("a", "8"),
                    event("MODIFIED", pod("a", version="9", priority="high")),
                    deleted("a", "10"),
                    ends=False,
                )
            )
            async with running(one):
                await one.until_told(
                    "refused a uid-a 6",
                    "synced",
                    "modified a uid-a 8",
                    "refused a uid-a 9",
                    "deleted a uid-a 9",
                )
            refused = one.batches[0][0]
            assert isinstance(refused.error, ManifestError)
            assert refused.error.field == "spec.priority"

    run(story())


@pytest.mark.parametrize("line", [b"garbage\n", b'{"type":"WHAT","object":{}}\n', b"[]\n"])
def test_line_that_is_no_event_lists_again(line: bytes) -> None:
    async def story() -> None:
        async with watched() as one:
            one.server.answers(
                stream(added("a", "1"), bookmark("5", ends=True)),
                stream(line),
                stream(added("a", "6"), bookmark("9", ends=True), ends=False),
            )
            async with running(one):
                await one.until_told("added a uid-a 1", "synced", "modified a uid-a 6", "synced")

    run(story())


def test_silent_watch_ends_by_its_own_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gangsched.kubernetes._reflector._LEAST_WATCH", 0.1)
    monkeypatch.setattr("gangsched.kubernetes._reflector._MOST_WATCH", 0.1)
    monkeypatch.setattr("gangsched.kubernetes._reflector._SLACK", 0.1)

    async def story() -> None:
        async with watched() as one:
            one.server.answers(
                stream(added("a", "1"), bookmark("5", ends=True), ends=False),
                stream(modified("a", "6"), ends=False),
            )
            async with running(one):
                await one.until_told("added a uid-a 1", "synced", "modified a uid-a 6")

    run(story())


def test_query_of_the_resource_is_part_of_each_request() -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of("httptools", server.access) as client:
            server.answers(stream(bookmark("5", ends=True)), SILENT)
            resource = Resource("/api/v1/pods", "Pod", (("fieldSelector", "a=b,c!=d"),))
            reflector: Reflector[PodFacts] = Reflector(
                client, resource, PodDecoder(), lambda _deltas: None
            )
            task = asyncio.ensure_future(reflector.run())
            async with asyncio.timeout(HANG):
                while len(server.requests) < 2:
                    await asyncio.sleep(0.005)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert {each.query["fieldSelector"] for each in server.requests} == {"a=b,c!=d"}

    run(story())


def test_error_of_the_sink_ends_the_reflector() -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of("httptools", server.access) as client:
            server.answers(stream(added("a", "1"), bookmark("5", ends=True), ends=False))

            def sink(_deltas: list[Delta[PodFacts]]) -> None:
                raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await Reflector(client, PODS, PodDecoder(), sink).run()

    run(story())


def test_many_objects_come_in_few_batches() -> None:
    async def story() -> None:
        async with watched() as one:
            lines = b"".join(_json(added(f"p{n}", str(n + 1))) + b"\n" for n in range(500))
            one.server.answers(stream(lines, bookmark("900", ends=True), ends=False))
            async with running(one):
                await one.until(lambda: one.reflector.synced)
            assert len(one.deltas) == 501
            assert len(one.batches) < 50
            assert len(one.reflector) == 500

    run(story())
