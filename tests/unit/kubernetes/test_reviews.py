"""Reviews of requests: what is asked of the API server, how often, and what is kept."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from gangsched.kubernetes._api import ConnectionLost, Response
from gangsched.kubernetes._reviews import NotReviewedError, Reviews, UnknownAskerError
from support.running import on_a_loop


class Reviewer:
    """An API server that reviews tokens and users, and counts what it is asked."""

    def __init__(self) -> None:
        self.tokens = {"good": "ann"}
        self.allowed: set[tuple[str, str]] = {("ann", "team")}
        self.asked: list[dict[str, Any]] = []
        self.status = 201
        self.gate = asyncio.Event()
        self.gate.set()

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, **named: Any
    ) -> Response:
        assert method == "POST"
        review = json.loads(body or b"")
        self.asked.append(review)
        await self.gate.wait()
        if self.status == 0:
            raise ConnectionLost(method, path, "cut off", sent=True)
        spec = review["spec"]
        status: dict[str, Any] = {}
        if review["kind"] == "TokenReview":
            user = self.tokens.get(spec["token"])
            status = {"authenticated": user is not None}
            if user is not None:
                status["user"] = {"username": user, "groups": ["g"], "extra": {"k": ["v"]}}
        else:
            where = spec.get("resourceAttributes", {}).get("namespace")
            path = spec.get("nonResourceAttributes", {}).get("path", where)
            status = {"allowed": (spec["user"], path) in self.allowed}
        return Response(self.status, {}, json.dumps({"status": status}).encode())


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def reviews(api: Any, clock: Callable[[], float] | None = None) -> Reviews:
    return Reviews(lambda: api, Clock() if clock is None else clock)


@on_a_loop
async def test_user_is_named_to_the_authorizer_with_groups_and_extra() -> None:
    api = Reviewer()
    asker = await reviews(api).asker("good")
    assert await asker.may_list_pods("team")
    assert not await asker.may_list_pods("")
    token, *access = api.asked
    assert token["spec"] == {"token": "good"}
    assert access[0]["spec"] == {
        "user": "ann",
        "groups": ["g"],
        "extra": {"k": ["v"]},
        "resourceAttributes": {
            "verb": "list",
            "group": "",
            "version": "v1",
            "resource": "pods",
            "namespace": "team",
        },
    }


@on_a_loop
async def test_answers_are_kept_for_ten_seconds_and_no_longer() -> None:
    api, clock = Reviewer(), Clock()
    asked = reviews(api, clock)

    async def is_allowed() -> bool:
        return await (await asked.asker("good")).may_list_pods("team")

    assert await is_allowed()
    api.allowed.clear()
    clock.now += 9.9
    assert await is_allowed()
    assert len(api.asked) == 2
    clock.now += 0.2
    assert not await is_allowed()
    assert len(api.asked) == 4
    assert not await is_allowed()  # a refusal is kept, too
    assert len(api.asked) == 4


@on_a_loop
async def test_number_of_answers_that_are_kept_is_bounded() -> None:
    api = Reviewer()
    asked = reviews(api)
    for n in range(1025):
        with pytest.raises(UnknownAskerError):
            await asked.asker(f"wrong-{n}")
    count = len(api.asked)
    for n in (1024, 1):  # the first one was forgotten
        with pytest.raises(UnknownAskerError):
            await asked.asker(f"wrong-{n}")
    assert len(api.asked) == count
    with pytest.raises(UnknownAskerError):
        await asked.asker("wrong-0")
    assert len(api.asked) == count + 1


@on_a_loop
async def test_strangers_cannot_flood_the_api_server() -> None:
    api = Reviewer()
    api.gate.clear()
    asked = reviews(api)
    strangers = [asyncio.create_task(asked.asker(f"wrong-{n}")) for n in range(40)]
    await asyncio.sleep(0.05)
    assert len(api.asked) == 2
    api.gate.set()
    ends = await asyncio.gather(*strangers, return_exceptions=True)
    refused = [end for end in ends if isinstance(end, NotReviewedError)]
    assert len(refused) == 40 - 18
    assert len(api.asked) == 18


@on_a_loop
async def test_requests_with_one_token_at_once_are_one_review() -> None:
    api = Reviewer()
    asked = reviews(api)
    await asyncio.gather(*(asked.asker("good") for _ in range(10)))
    assert len(api.asked) <= 2


@pytest.mark.parametrize("status", [0, 403, 500])
def test_nothing_is_allowed_without_an_answer(status: int) -> None:
    @on_a_loop
    async def run() -> None:
        api = Reviewer()
        asked = reviews(api)
        asker = await asked.asker("good")
        api.status = status
        with pytest.raises(NotReviewedError):
            await asker.may_list_pods("team")
        with pytest.raises(NotReviewedError):
            await asked.asker("other")
        with pytest.raises(NotReviewedError):
            await reviews(None).asker("good")

    run()


def jwt(audience: object) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"aud": audience}).encode()).rstrip(b"=")
    return f"h.{claims.decode()}.s"


@pytest.mark.parametrize(
    ("token", "audiences"),
    [
        (jwt("gangsched"), ["gangsched"]),
        (jwt(["other", "gangsched"]), ["gangsched"]),
        (jwt(["https://kubernetes.default.svc"]), None),
        (jwt({"gangsched": 1}), None),
        ("a.b.c", None),
        ("h.!!!.s", None),
        ("no-jwt", None),
    ],
)
def test_audience_is_asked_for_if_the_token_claims_it(
    token: str, audiences: list[str] | None
) -> None:
    @on_a_loop
    async def run() -> None:
        api = Reviewer()
        with pytest.raises(UnknownAskerError):
            await reviews(api).asker(token)
        assert api.asked[0]["spec"].get("audiences") == audiences

    run()
