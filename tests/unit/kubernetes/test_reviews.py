"""Reviews of requests: what is asked of the API server, what is kept, and what may be shown."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from gangsched.explain import NotAdmitted, PartlyRunning, QueueTurn
from gangsched.kubernetes._api import ConnectionLost, Response
from gangsched.kubernetes._reviews import NotReviewedError, Reviews, UnknownAskerError
from gangsched.kubernetes._scope import (
    MOST_REVIEWED,
    NotReadableError,
    Scope,
    among,
    scope_of,
    whole_cluster,
)
from gangsched.model import GroupKey, Resources
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


def reviews(api: Any, clock: Callable[[], float] = lambda: 100.0) -> Reviews:
    return Reviews(lambda: api, clock)


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
    api, now = Reviewer(), [100.0]
    asked = reviews(api, lambda: now[0])

    async def is_allowed() -> bool:
        return await (await asked.asker("good")).may_list_pods("team")

    assert await is_allowed()
    api.allowed.clear()
    now[0] += 9.9
    assert await is_allowed()
    assert len(api.asked) == 2
    now[0] += 0.2
    assert not await is_allowed()
    assert len(api.asked) == 4
    assert not await is_allowed()  # a refusal is kept, too
    assert len(api.asked) == 4


@pytest.mark.parametrize("status", [0, 403, 500])
@on_a_loop
async def test_metrics_stay_readable_while_nothing_is_reviewed_and_nothing_else_does(
    status: int,
) -> None:
    api, now = Reviewer(), [100.0]
    api.allowed.add(("ann", "/metrics"))
    api.tokens["other"] = "bob"
    asked = reviews(api, lambda: now[0])

    async def may_get(token: str = "good") -> bool:
        return await (await asked.asker(token)).may_get("/metrics")

    assert await may_get()
    assert not await may_get("other")
    assert await (await asked.asker("good")).may_list_pods("team")
    api.status = status
    now[0] += 599.0
    assert await may_get()
    assert not await may_get("other")
    with pytest.raises(NotReviewedError):
        await (await asked.asker("good")).may_list_pods("team")
    with pytest.raises(NotReviewedError):
        await asked.asker("new")
    now[0] += 2.0
    with pytest.raises(NotReviewedError):
        await may_get()
    api.status = 201
    api.allowed.clear()
    assert not await may_get()
    api.status = status
    now[0] += 11.0
    assert not await may_get()  # the last answer counts


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
    api, now = Reviewer(), [100.0]
    api.allowed.add(("ann", "/metrics"))
    asked = reviews(api, lambda: now[0])
    assert await (await asked.asker("good")).may_get("/metrics")
    now[0] += 11.0
    api.asked.clear()
    api.gate.clear()
    strangers = [asyncio.create_task(asked.asker(f"wrong-{n}")) for n in range(40)]
    await asyncio.sleep(0.05)
    assert len(api.asked) == 2
    assert await (await asked.asker("good")).may_get("/metrics")  # it is known already
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
@on_a_loop
async def test_nothing_is_allowed_without_an_answer(status: int) -> None:
    api = Reviewer()
    asked = reviews(api)
    asker = await asked.asker("good")
    api.status = status
    for review in (asker.may_list_pods("team"), asked.asker("other"), reviews(None).asker("good")):
        with pytest.raises(NotReviewedError):
            await review


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
@on_a_loop
async def test_audience_is_asked_for_if_the_token_claims_it(
    token: str, audiences: list[str] | None
) -> None:
    api = Reviewer()
    with pytest.raises(UnknownAskerError):
        await reviews(api).asker(token)
    assert api.asked[0]["spec"].get("audiences") == audiences


# The namespaces that an answer may speak of -----------------------------------------------------


class Asker:
    """May list the pods of some namespaces; the empty name is all."""

    name = "ann"

    def __init__(self, *namespaces: str) -> None:
        self.namespaces = namespaces
        self.reviewed: list[str] = []

    async def may_get(self, path: str) -> bool:
        return False

    async def may_list_pods(self, namespace: str) -> bool:
        self.reviewed.append(namespace)
        return namespace in self.namespaces


@on_a_loop
async def test_scope_is_what_the_asker_may_read_and_has_asked_for() -> None:
    assert await scope_of(Asker(""), None) == Scope()
    assert await scope_of(Asker(""), "team") == Scope(asked="team")
    own = await scope_of(Asker("team"), "team")
    assert own is not None
    assert own.has("team/a")
    assert not own.has("other/a")
    assert await scope_of(Asker("team"), None) is None
    for wrong in ("other", ""):
        with pytest.raises(NotReadableError, match="ann may not list the pods"):
            await scope_of(Asker("team"), wrong)


@on_a_loop
async def test_namespaces_with_rows_are_reviewed_up_to_a_bound() -> None:
    asker = Asker("b", "c")
    scope = await among(asker, ["a", "b", "c"])
    assert [name for name in ("a/x", "b/x", "c/x") if scope.has(name)] == ["b/x", "c/x"]
    with pytest.raises(NotReadableError, match="name a namespace"):
        await among(asker, ["a"])
    asker.reviewed.clear()
    with pytest.raises(NotReadableError, match="namespace=NAME"):
        await among(asker, [f"n-{n}" for n in range(MOST_REVIEWED + 1)])
    assert asker.reviewed == []


@on_a_loop
async def test_scope_of_the_whole_cluster_needs_all_namespaces() -> None:
    assert await whole_cluster(Asker("")) == Scope()
    asker = Asker("team")
    with pytest.raises(NotReadableError, match="ann may not list the pods of all namespaces"):
        await whole_cluster(asker)
    assert asker.reviewed == [""]


OTHER = "(of another namespace)"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("reserved for pod group other/large", f"reserved for pod group {OTHER}"),
        ("pod other/a-0 and team/b-0.", f"pod {OTHER} and team/b-0."),
        ("waiting for other/a, other/b", f"waiting for {OTHER}, {OTHER}"),
        *(
            (text, text)
            for text in ("topology.kubernetes.io/zone and absent/name", "https://x/other/a")
        ),
    ],
)
def test_names_of_other_namespaces_are_left_out_of_sentences(text: str, shown: str) -> None:
    def exists(key: str) -> bool:
        return key.partition("/")[0] in ("team", "other")

    own = Scope(frozenset({"team"}))
    assert own.without_others([{"reason": text, "n": 1}], exists) == [{"reason": shown, "n": 1}]
    assert Scope().without_others(text, exists) == text


def test_what_is_said_of_other_queues_is_for_those_who_may_read_all_namespaces() -> None:
    one = Resources({"cpu": 1})
    turn = QueueTurn("a", one, one, one)
    waits = NotAdmitted("exceeded quota a: requested cpu=1", turn)
    whole = PartlyRunning(GroupKey("team/g"), 1, 1, waits, pending=1, is_below_minimum=False)
    own = Scope(frozenset({"team"}), "team")
    for why in (waits, whole):
        assert own.without_queues(why) == why  # it says no less of what decides
        assert str(Scope().without_queues(why)) == str(why)
    assert getattr(own.without_queues(waits), "turn", turn) is None
    rest = getattr(own.without_queues(whole), "rest", None)
    assert getattr(rest, "turn", turn) is None
