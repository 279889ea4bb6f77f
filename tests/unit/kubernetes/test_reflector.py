"""List and watch, against a server that does what real ones do at their worst.

What a server sends, and what the reflector tells, is written as words: ``+a3`` is the pod ``a`` of
version 3, added; ``~`` modified, ``-`` deleted, ``!`` not readable, ``/new`` of another UID.
``^5`` is the end of the initial events at version 5, told as ``^``; ``.12`` is a bookmark.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="the extra kubernetes is not installed")
pytest.importorskip("httptools", reason="the extra kubernetes-fast is not installed")

from gangsched.errors import ManifestError
from gangsched.kubernetes._decode import PodDecoder, PodFacts
from gangsched.kubernetes._reflector import Delta, Reflector, ReflectorState, Resource
from support.api_clients import TRANSPORTS, client_of
from support.api_objects import pod, raw
from support.patience import until_on_loop
from support.scripted_api import (
    Answer,
    Request,
    abort,
    bookmark,
    event,
    reply,
    run,
    scripted_api,
    stream,
)

PODS = Resource("/api/v1/pods", "Pod")
WORD = re.compile(r"([-+~!])([a-z]+\d*?)(\d+)(?:/(\w+))?$")
KINDS = {"+": "ADDED", "~": "MODIFIED", "-": "DELETED", "!": "MODIFIED"}
SIGNS = {"added": "+", "modified": "~", "deleted": "-", "refused": "!"}


def events(words: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for word in words.split():
        if word[0] in "^.":
            found.append(bookmark(word[1:], ends=word[0] == "^"))
        else:
            match = WORD.match(word)
            assert match, word
            sign, name, version, uid = match.groups()
            spec = {"priority": "high"} if sign == "!" else {}
            found.append(event(KINDS[sign], pod(name, version=version, uid=uid, **spec)))
    return found


def sends(words: str, **named: Any) -> Answer:
    return stream(*events(words), **named)


def stays(words: str = "") -> Answer:
    """Return an answer that does not end."""
    return sends(words, ends=False)


def cut(words: str) -> Answer:
    return sends(words, abort=True, pause=0.03)


def status(code: int, reason: str = "X", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return reply(code, {"kind": "Status", "code": code, "reason": reason}, named)


def page(words: str, *, version: str = "9", more: str = "") -> Answer:
    items: list[Any] = [each["object"] for each in events(words)]
    for item in items:
        del item["kind"], item["apiVersion"]
    metadata = {"resourceVersion": version, **({"continue": more} if more else {})}
    return reply(200, {"kind": "PodList", "metadata": metadata, "items": items})


def error(reason: str) -> dict[str, object]:
    return event("ERROR", {"kind": "Status", "code": 410, "reason": reason, "message": "m"})


EXPIRED = status(410, "Expired")


class Played:
    """What a reflector told of the answers of a server, and what it asked."""

    def __init__(
        self, *answers: Answer, transport: str = "httptools", resource: Resource = PODS
    ) -> None:
        self.answers, self.transport, self.resource = answers, transport, resource
        self.batches: list[list[Delta[PodFacts]]] = []
        self.states: list[ReflectorState] = []
        self.pauses: list[float] = []
        self.requests: Sequence[Request] = ()

    @property
    def told(self) -> str:
        return " ".join(shown(delta) for batch in self.batches for delta in batch)

    def versions(self) -> list[str | None]:
        return [each.query.get("resourceVersion") for each in self.requests]

    def until(self, condition: Callable[[Played], object], **options: Any) -> Played:
        run(self._run(condition, options))
        return self

    def until_told(self, words: str, **options: Any) -> Played:
        """Run the reflector until it has told this, and nothing more."""
        try:
            self.until(lambda one: len(one.told.split()) >= len(words.split()), **options)
        finally:
            assert self.told == words
        return self

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0.01)

    async def _run(self, condition: Callable[[Played], object], options: Any) -> None:
        async with scripted_api() as server, client_of(self.transport, server.access) as client:
            server.answers(*self.answers)
            self.requests = server.requests
            reflector = Reflector(
                *(client, self.resource, PodDecoder(), self.batches.append),
                random=lambda: 0.5,
                on_state=self.states.append,
                sleep=self._sleep,
                **options,
            )
            task = asyncio.ensure_future(reflector.run())
            await until_on_loop(lambda: condition(self))
            await asyncio.sleep(0.05)  # what may follow, and must not
            task.cancel()
            (ended,) = await asyncio.gather(task, return_exceptions=True)
            assert isinstance(ended, asyncio.CancelledError), ended


def shown(delta: Delta[PodFacts]) -> str:
    if delta.identity is None:
        assert delta.kind == "synced"
        return "^"
    name = delta.identity.key.removeprefix("team/")
    uid = delta.identity.uid
    other = "" if uid == f"uid-{name}" else f"/{uid}"
    return f"{SIGNS[delta.kind]}{name}{delta.identity.resource_version}{other}"


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_streamed_listing_is_followed_by_the_same_watch(transport: str) -> None:
    one = Played(stays("+a3 +b2 ^5 ~a6 -b7"), transport=transport).until_told("+a3 +b2 ^ ~a6 -b2")
    (request,) = one.requests
    query = dict(request.query)
    assert 300 <= int(query.pop("timeoutSeconds")) <= 600
    assert query.pop("resourceVersion") == ""
    assert query == {
        "watch": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    assert [state.name for state in one.states] == ["listing", "watching"]


@pytest.mark.parametrize("code", [400, 422])
def test_server_without_watch_lists_is_listed_in_pages(code: int) -> None:
    one = Played(status(code), page("+a1 +b2", more="next/2"), page("+c3"), stays("~c10"))
    one.until_told("+a1 +b2 +c3 ^ ~c10", page=2)
    _, first, second, watch = one.requests
    assert (first.query["limit"], second.query["continue"]) == ("2", "next/2")
    assert "resourceVersion" not in first.query
    assert watch.query["resourceVersion"] == "9"
    assert "sendInitialEvents" not in watch.query


@pytest.mark.parametrize(("listed", "told"), [("+a1", "+a1 ^"), ("+b2", "+a1 +b2 -a1 ^")])
def test_server_that_ignores_the_parameter_is_listed_in_pages(listed: str, told: str) -> None:
    """What the silent stream has shown is gone if the list has it not."""
    Played(stays("+a1"), page(listed), stays()).until_told(told, first_event=0.1)


def test_pages_that_expire_under_way_are_listed_anew_in_one() -> None:
    one = Played(page("+a1", more="x"), EXPIRED, page("+b2"), stays())
    one.until_told("+a1 +b2 -a1 ^", streaming=False, page=1)
    assert one.requests[2].query["limit"] == "0"


def test_watch_that_ends_resumes_after_the_last_event() -> None:
    one = Played(sends("+a3 ^5 ~a7"), sends(".12", pause=0.02), stays("~a13"))
    one.until_told("+a3 ^ ~a7 ~a13")
    assert one.versions() == ["", "7", "12"]
    assert one.pauses == []


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_watch_that_is_cut_resumes(transport: str) -> None:
    part = stream(b'{"type":"MODIFIED","object":{"meta', abort=True, pause=0.03)
    one = Played(cut("+a3 ^5"), abort(), part, stays("~a7"), transport=transport)
    one.until_told("+a3 ^ ~a7")
    assert one.versions() == ["", "5", "5", "5"]


@pytest.mark.parametrize(
    "gone",
    [EXPIRED, stream(error("Expired")), stream(error("Gone"))],
    ids=["status", "expired line", "gone line"],
)
def test_expired_watch_lists_again_and_sweeps(gone: Answer) -> None:
    again = stays("+a1 +c9 +d8/new +e7 ^20")
    one = Played(sends("+a1 +b2 +c3 +d4 ^5"), gone, again)
    one.until_told("+a1 +b2 +c3 +d4 ^ ~c9 -d4 +d8/new +e7 -b2 ^")
    assert one.pauses == []


def test_listing_that_is_cut_sweeps_nothing() -> None:
    one = Played(sends("+a1 +b2 ^5"), EXPIRED, cut("+a1"), stays("+a1 +b2 ^9"))
    one.until_told("+a1 +b2 ^ ^")
    # initial events come in no order, so a cut listing has no version to resume from
    assert one.versions() == ["", "5", "", ""]


def test_stream_that_hangs_during_a_listing_is_listed_in_pages_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after a restart of the API server; what the stream has shown may be gone by then."""
    monkeypatch.setattr("gangsched.kubernetes._reflector._HANGS", 0.05)
    hangs = sends("+a1", abort=True, pause=0.1)
    one = Played(hangs, page("+b2"), EXPIRED, stays("+b2 ^12")).until_told("+a1 +b2 -a1 ^ ^")
    streamed = ["sendInitialEvents" in each.query for each in one.requests]
    assert streamed == [True, False, False, True]


def test_events_before_an_error_of_the_same_batch_are_told() -> None:
    lines = b"".join(raw(each) + b"\n" for each in (*events("~a7"), error("Expired")))
    Played(sends("+a1 ^5"), stream(lines), stays("+a7 ^9")).until_told("+a1 ^ ~a7 ^")


def test_expiry_after_expiry_waits_between_listings() -> None:
    assert len(Played(*[EXPIRED] * 5, stays("^5")).until_told("^").pauses) == 4


@pytest.mark.parametrize("code", [401, 403, 500, 502])
def test_refusals_for_a_moment_wait_and_do_not_list(code: int) -> None:
    # the credentials are read again after 401, and are the same: one request, not two
    one = Played(sends("+a1 ^5"), status(code), status(code), stays("~a6")).until_told("+a1 ^ ~a6")
    assert one.versions()[-1] == "5"
    assert len(one.pauses) == 2
    problem = next(state.problem for state in one.states if state.name == "waiting")
    assert str(code) in str(problem)


def test_version_from_the_future_lists_again_after_three_refusals() -> None:
    too_large = status(504, "Timeout")
    one = Played(sends("+a100 ^100"), *[too_large] * 3, stays("+a5 ^9"))
    one.until_told("+a100 ^ ~a5 ^")


@pytest.mark.parametrize(
    ("answers", "pauses"),
    [
        ([sends("^5"), status(429, Retry_After="7"), stays()], [7.0]),
        ([sends("^5"), abort(), abort(), cut("+a6"), stays()], [0.1, 0.2, 0.1]),
        ([sends("^5"), stream(), stream(), stays()], [0.1, 0.2]),
    ],
    ids=["as the server asks", "an event ends their growth", "a watch that ends at once"],
)
def test_watch_pauses_before_it_is_repeated(answers: list[Answer], pauses: list[float]) -> None:
    one = Played(*answers).until(lambda one: len(one.requests) == len(answers))
    assert one.pauses == pauses


def test_pauses_grow_and_a_success_ends_them() -> None:
    one = Played(*[abort()] * 10, cut("+a1 ^5"), stays())
    one.until(lambda one: len(one.requests) == 12)
    assert one.pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert max(one.pauses) == 15.0
    assert one.pauses[-1] == 0.1


def test_removed_resource_has_no_objects() -> None:
    missing = status(404, "NotFound")
    one = Played(sends("+a1 ^5"), *[missing] * 4, stays("+a9/new ^9"))
    one.until_told("+a1 ^ -a1 ^ +a9/new ^")


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ("^5 ^6", "^"),
        ("+a1 ^5 ~a8 ~a8 ~a7 -a9 ~a8 -a9 +a10/new -a9", "+a1 ^ ~a8 -a8 +a10/new"),
        ("+a1 ^5 +a8/new", "+a1 ^ -a1 +a8/new"),
        ("!a6 ^7 ~a8 !a9 -a10", "!a6 ^ ~a8 !a9 -a9"),
    ],
    ids=["second end", "duplicated and late events", "deletion that was not seen", "unreadable"],
)
def test_odd_sequence_of_events_is_told_as_it_must_be(sent: str, told: str) -> None:
    one = Played(stays(sent)).until_told(told)
    refused = [each for batch in one.batches for each in batch if each.kind == "refused"]
    for each in refused:
        assert isinstance(each.error, ManifestError)
        assert each.error.field == "spec.priority"


@pytest.mark.parametrize("line", [b"garbage\n", b'{"type":"WHAT","object":{}}\n', b"[]\n"])
def test_line_that_is_no_event_lists_again(line: bytes) -> None:
    Played(sends("+a1 ^5"), stream(line), stays("+a6 ^9")).until_told("+a1 ^ ~a6 ^")


def test_silent_watch_ends_by_its_own_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_LEAST_WATCH", "_MOST_WATCH", "_SLACK"):
        monkeypatch.setattr(f"gangsched.kubernetes._reflector.{name}", 0.1)
    Played(stays("+a1 ^5"), stays("~a6")).until_told("+a1 ^ ~a6")


def test_query_of_the_resource_is_part_of_each_request() -> None:
    resource = Resource("/api/v1/pods", "Pod", (("fieldSelector", "a=b,c!=d"),))
    one = Played(sends("^5"), stays(), resource=resource).until(lambda one: len(one.requests) == 2)
    assert {each.query["fieldSelector"] for each in one.requests} == {"a=b,c!=d"}


def test_error_of_the_sink_ends_the_reflector() -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of("httptools", server.access) as client:
            server.answers(stays("+a1 ^5"))

            def sink(_deltas: list[Delta[PodFacts]]) -> None:
                raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await Reflector(client, PODS, PodDecoder(), sink).run()

    run(story())


def test_many_objects_come_in_few_batches() -> None:
    added = (event("ADDED", pod(f"p{n}", version=str(n + 1))) for n in range(500))
    lines = b"".join(raw(each) + b"\n" for each in added)
    one = Played(stream(lines, *events("^900"), ends=False)).until(lambda one: "^" in one.told)
    assert len(one.told.split()) == 501
    assert len(one.batches) < 50
