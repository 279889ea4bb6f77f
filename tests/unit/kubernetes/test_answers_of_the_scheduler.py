"""``/gangs``, ``/queue``, ``/quotas`` and ``/why`` of a running scheduler, and their costs."""

from __future__ import annotations

import asyncio
import json
import math
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve, frozen

from gangsched.configuration import make_scheduler, read_settings
from gangsched.events import PodGroupAdded
from gangsched.kubernetes import LeaderElection, _answers
from gangsched.kubernetes._answers import Answers
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._gang_rows import read_gang_row
from gangsched.kubernetes._quota_rows import quota_item, read_quota_rows
from gangsched.kubernetes._reviews import EVERYTHING
from gangsched.listings import QuotaRow
from gangsched.model import PodGroup, Resources
from support.cluster_objects import NODES, PODS, node_json, put_gang
from support.control_plane.processes import free_ports
from support.memory_api import MemoryApi, refused
from support.patience import HANG, eventually
from support.running import ALONE, on_a_loop, running, until

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

Document = dict[str, Any]


@frozen
class Pages:
    """The pages of a scheduler at a port."""

    port: int

    async def get(self, target: str) -> tuple[int, Document]:
        """Return the status and the document of a page; 0 if nothing listens yet."""
        return await asyncio.to_thread(self.read, target)

    def read(self, target: str) -> tuple[int, Document]:
        url = f"http://127.0.0.1:{self.port}{target}"
        try:
            with urllib.request.urlopen(url, timeout=HANG) as page:
                return page.status, json.load(page)
        except urllib.error.HTTPError as error:
            with error:
                body = error.read()
            return error.code, json.loads(body) if body.startswith(b"{") else {}
        except urllib.error.URLError:
            return 0, {}

    async def until(self, target: str, true: Callable[[Document], object]) -> Document:
        """Return what a page answers, once that is so."""

        def look() -> Document:
            status, document = self.read(target)
            return document if status == 200 and true(document) else {}

        return await eventually(look)


@asynccontextmanager
async def serving(api: MemoryApi, settings: Any = ALONE, **named: Any) -> AsyncIterator[Pages]:
    (port,) = free_ports(1)
    async with running(api, settings, serve=("127.0.0.1", port), **named):
        yield Pages(port)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an answer take its time on a busy machine."""
    monkeypatch.setattr(_answers, "_PATIENCE", HANG)


def by_name(document: Document) -> dict[str, Document]:
    return {each["name"]: each for each in document["items"]}


@on_a_loop
async def test_gangs_are_what_the_running_scheduler_knows_of_them() -> None:
    api = MemoryApi()
    api.put(NODES, node_json("a", gpu=4))
    put_gang(api, "fits", 2)
    put_gang(api, "large", 5)
    put_gang(api, "waits", 1, minimum=3)
    put_gang(api, "theirs", 2, scheduler="other")
    async with serving(api) as pages:
        await until(lambda: api.pods()["default/fits-1"])
        document = await pages.until(
            "/gangs", lambda found: "does not fit" in by_name(found)["large"]["reason"]
        )
        unknown = await pages.get("/why?group=default/other")
        uid = api.objects[PODS]["default/fits-0"]["metadata"]["uid"]
        of_a_pod = await pages.get(f"/why?group={uid}")
        missing = await pages.get("/why")
    assert document["kind"] == "GangList"
    assert document["schedulerNames"] == ["gangsched"]
    assert document["total"] == 4
    rows = {row.name: row for row in map(read_gang_row, document["items"])}
    assert {name: (row.needed, row.have, row.held) for name, row in rows.items()} == {
        "fits": (2, 2, 2),
        "large": (5, 5, 0),
        "waits": (3, 1, 0),
        "theirs": (2, 0, 0),
    }
    assert rows["fits"].reason == ""
    assert "nvidia.com/gpu" in rows["large"].reason
    assert rows["waits"].reason.endswith("1 of 3 exist")
    assert rows["theirs"].phase == ""
    assert rows["theirs"].reason == "no pod with the schedulerName gangsched is a member"
    assert unknown[0] == 404
    assert "default/other" in unknown[1]["message"]
    assert of_a_pod[0] == missing[0] == 400
    assert missing[1]["message"] == "group: expected NAMESPACE/NAME, got ''"


@on_a_loop
async def test_why_of_a_gang_in_backoff_says_so() -> None:
    """A listing cannot tell: the backoff is in the memory of the scheduler alone."""
    api = MemoryApi()
    api.put(NODES, node_json("a", gpu=4))
    put_gang(api, "g", 3)
    api.fault = lambda method, path: (
        refused(422, "no") if method == "POST" and path.endswith("/binding") else None
    )
    async with serving(api) as pages:
        document = await pages.until(
            "/why?group=default/g",
            lambda found: "backing off until 20" in by_name(found)["g"]["why"],
        )
    (found,) = document["items"]
    assert found["reason"] == found["why"]
    assert found["have"] == 3


@on_a_loop
async def test_queue_has_the_order_in_which_gangs_are_tried() -> None:
    api = MemoryApi()
    for name, priority in (("low", 1), ("high", 9), ("mid", 5)):
        put_gang(api, name, 2, priority=priority)
    put_gang(api, "there", 1, minimum=2, namespace="ml")
    async with serving(api) as pages:
        document = await pages.until(
            "/queue?namespace=default",
            lambda found: ["fit" in each["state"] for each in found["items"]] == [True] * 3,
        )
        for page in ("/gangs", "/queue"):
            (item,) = (await pages.until(f"{page}?namespace=ml", bool))["items"]
            assert item["name"].rpartition("/")[2] == "there"
    assert document["kind"] == "QueueList"
    names = ["default/high", "default/mid", "default/low"]
    assert [each["name"] for each in document["items"]] == names
    assert all(each["gang"] and each["pods"] == each["needed"] == 2 for each in document["items"])


class Tenant:
    """An asker that may list the pods of one namespace."""

    name = "ann"

    async def may_get(self, path: str) -> bool:
        return False

    async def may_list_pods(self, namespace: str) -> bool:
        return namespace == "default"


@on_a_loop
async def test_quotas_are_for_those_who_may_list_the_pods_of_all_namespaces() -> None:
    asked = Asked(1, quotas=[{"name": "a", "namespaces": ["default"], "hard": {"cpu": 2}}])
    for query in ({}, {"namespace": "default"}):
        page = await asked.pages["/quotas"](query, Tenant())
        assert page.status == 403
        assert "ann may not list the pods of all namespaces" in json.loads(page.body)["message"]
    assert asked.driver.asked == 0
    assert (await asked.get("/gangs", namespace="default"))[0] == 200


@on_a_loop
async def test_quotas_are_answered_in_steps_parents_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_answers, "MOST_ROWS", 30)
    below = [{"name": f"q-{n}", "parent": "org"} for n in range(40)]
    asked = Asked(0, quotas=[*below, {"name": "org", "hard": {"cpu": 2}}])
    _status, document = await asked.get("/quotas")
    assert (document["kind"], document["total"]) == ("QuotaList", 41)
    assert [each["name"] for each in document["items"]][:2] == ["org", "q-0"]
    assert len(document["items"]) == 30
    assert asked.driver.asked == 3
    _status, document = await asked.get("/quotas", skip="30")
    assert document["items"][-1]["name"] == "q-39"


def test_quota_with_an_infinite_share_is_written_as_valid_json_and_read_back() -> None:
    row = QuotaRow(
        name="guests",
        parent=None,
        depth=0,
        used=Resources({"cpu": "1500m", "memory": "1Gi"}),
        nominal=Resources(),
        hard=Resources(),
        weight=0.0,
        share=math.inf,
        past=math.inf,
        pending=1,
    )
    text = json.dumps(quota_item(row), allow_nan=False)
    assert json.loads(text)["share"] is None
    assert read_quota_rows([json.loads(text)]) == (row,)


@on_a_loop
async def test_only_the_leader_answers_and_another_replica_says_which_one_leads() -> None:
    api, elected = MemoryApi(), evolve(ALONE, leader_election=LeaderElection())
    leases = "/apis/coordination.k8s.io/v1/leases"
    async with serving(api, elected):
        await until(lambda: api.objects.get(leases))
        (lease,) = api.objects[leases].values()
        said = f"{lease['spec']['holderIdentity']} leads"
        problem = {"apiVersion": "gangsched.kubectl/v1", "kind": "Problem", "message": said}
        async with serving(api, elected) as pages:
            await eventually(lambda: pages.read("/gangs") == (503, problem))


@on_a_loop
async def test_answers_are_not_served_if_they_are_turned_off() -> None:
    async with serving(MemoryApi(), answers=False) as pages:
        await eventually(lambda: pages.read("/gangs")[0])
        served = ("/gangs", "/queue", "/quotas", "/why")
        statuses = [(await pages.get(page))[0] for page in served]
    assert statuses == [404] * 4


# What an answer costs ---------------------------------------------------------------------------


class Driver:
    """A driver whose scheduler lists many groups, and counts the questions."""

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.asked = 0
        self.seconds = 0.0

    def ask(self, question: Callable[[Any], Any]) -> Any:
        self.asked += 1
        time.sleep(self.seconds)
        return question(self.scheduler)


class Asked:
    """The answers of a scheduler with some groups, of which so many binds are under way.

    *configured* is its configuration.
    """

    def __init__(self, groups: int, binds: int = 0, **configured: Any) -> None:
        cache = Cache(("gangsched",))
        for n in range(groups):
            cache.cluster.apply(PodGroupAdded(PodGroup(name=f"g-{n:05}", min_available=2)))
        settings = read_settings(configured)
        scheduler = make_scheduler(settings, cache.cluster, membership=cache.membership)
        scheduler.rebuild(now=0.0)
        self.driver, self.binds = Driver(scheduler), binds
        owner = SimpleNamespace(cache=cache, driver=self.driver, binds=lambda: self.binds)
        term: Any = SimpleNamespace(owner=owner)
        self.pages = Answers(settings, lambda: term, lambda: "", lambda: 0.0).pages()

    async def get(self, page: str = "/gangs", **query: str) -> tuple[int, Document]:
        found = await self.pages[page](query, EVERYTHING)
        return found.status, json.loads(found.body)


@on_a_loop
async def test_answer_is_bounded_and_says_how_many_rows_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_answers, "MOST_ROWS", 20)
    status, document = await Asked(25).get()
    assert (status, len(document["items"]), document["total"]) == (200, 20, 25)
    _status, rest = await Asked(25).get(skip="20")
    assert [each["name"] for each in rest["items"]] == [f"g-{n:05}" for n in range(20, 25)]
    for malformed in ("-1", "x", "9" * 5000):
        _status, again = await Asked(25).get(skip=malformed)
        assert again["items"] == document["items"]


@on_a_loop
async def test_groups_that_are_named_are_looked_up_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_answers, "MOST_ROWS", 20)
    asked = Asked(25)
    named = "default/g-00024,default/unknown,,other/g-00001,default/g-00003"
    status, document = await asked.get(groups=named, namespace="default")
    assert (status, document["total"]) == (200, 2)
    assert [each["name"] for each in document["items"]] == ["g-00003", "g-00024"]


@on_a_loop
async def test_other_tasks_run_between_the_steps_of_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Asked(200)
    turns, at_a_question = 0, list[int]()
    ask = asked.driver.ask

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def noted(question: Callable[[Any], Any]) -> Any:
        at_a_question.append(turns)
        return ask(question)

    monkeypatch.setattr(asked.driver, "ask", noted)
    task = asyncio.create_task(other())
    await asked.get()
    task.cancel()
    assert len(at_a_question) > 200 // 20
    assert len(set(at_a_question)) == len(at_a_question)


@on_a_loop
async def test_no_question_is_asked_while_binds_are_under_way() -> None:
    asked = Asked(1, binds=1)
    task = asyncio.create_task(asked.get())
    await asyncio.sleep(0.1)
    assert asked.driver.asked == 0
    asked.binds = 0
    assert len((await task)[1]["items"]) == 1


@on_a_loop
async def test_answers_take_a_tenth_of_the_time_at_most() -> None:
    asked = Asked(1)
    clock = asyncio.get_running_loop().time
    asked.driver.seconds = 0.02
    before = clock()
    for _ in range(2):
        await asked.get("/why", group="default/g-00000")
    assert clock() - before >= 0.02 + 9 * 0.02 + 0.02


@on_a_loop
async def test_too_many_questions_at_once_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_answers, "_PATIENCE", 0.05)  # those that wait are refused later
    asked = Asked(1, binds=1)
    pages = await asyncio.gather(*(asked.get() for _ in range(18)))
    assert {status for status, _document in pages} == {503}
    assert sum("too many" in document["message"] for _status, document in pages) == 2
