"""``/gangs``, ``/queue`` and ``/why`` of a running scheduler, over HTTP."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from gangsched.kubernetes import LeaderElection, _answers
from gangsched.kubernetes._answers import MOST_ROWS, Answers
from gangsched.kubernetes._gang_rows import read_gang_row
from gangsched.kubernetes._reviews import EVERYTHING
from gangsched.kubernetes._server import Page
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.control_plane.processes import free_ports
from support.memory_api import MemoryApi, refused
from support.patience import HANG
from support.running import ALONE, on_a_loop, running, until

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

Document = dict[str, Any]


def gang(api: MemoryApi, name: str, size: int, minimum: int | None = None, **pod: Any) -> None:
    namespace = pod.get("namespace", "default")
    api.put(GROUPS, group_json(name, size if minimum is None else minimum, namespace=namespace))
    for n in range(size):
        api.put(PODS, pod_json(f"{name}-{n}", group=name, **pod))


def fetch(port: int, target: str) -> tuple[int, Document]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{target}", timeout=HANG) as page:
            return page.status, json.load(page)
    except urllib.error.HTTPError as error:
        with error:
            body = error.read()
        return error.code, json.loads(body) if body.startswith(b"{") else {}
    except urllib.error.URLError:  # it does not listen yet
        return 0, {}


async def ask(port: int, target: str) -> tuple[int, Document]:
    return await asyncio.to_thread(fetch, port, target)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an answer take its time on a busy machine."""
    monkeypatch.setattr(_answers, "_PATIENCE", HANG)


async def answer(
    port: int, target: str, true: Callable[[Document], bool] = lambda _document: True
) -> Document:
    """Return what a page answers, once that is so."""
    async with asyncio.timeout(HANG):
        while True:
            status, document = await ask(port, target)
            if status == 200 and true(document):
                return document
            await asyncio.sleep(0.02)


def by_name(document: Document) -> dict[str, Document]:
    return {each["name"]: each for each in document["items"]}


def free_port() -> int:
    (port,) = free_ports(1)
    return port


@on_a_loop
async def test_gangs_are_what_the_running_scheduler_knows_of_them() -> None:
    api, port = MemoryApi(), free_port()
    api.put(NODES, node_json("a", gpu=4))
    gang(api, "fits", 2)
    gang(api, "large", 5)
    gang(api, "waits", 1, minimum=3)
    async with running(api, serve=("127.0.0.1", port)):
        await until(lambda: api.pods()["default/fits-1"])
        document = await answer(
            port, "/gangs", lambda found: "does not fit" in by_name(found)["large"]["reason"]
        )
    assert document["kind"] == "GangList"
    assert document["schedulerNames"] == ["gangsched"]
    assert document["total"] == 3
    rows = {row.name: row for row in map(read_gang_row, document["items"])}
    counts = {name: (row.needed, row.have, row.held) for name, row in rows.items()}
    assert counts == {"fits": (2, 2, 2), "large": (5, 5, 0), "waits": (3, 1, 0)}
    assert rows["fits"].reason == ""
    assert "nvidia.com/gpu" in rows["large"].reason
    assert rows["waits"].reason.endswith("1 of 3 exist")


@on_a_loop
async def test_why_of_a_gang_in_backoff_says_so() -> None:
    """A listing cannot tell: the backoff is in the memory of the scheduler alone."""
    api, port = MemoryApi(), free_port()
    api.put(NODES, node_json("a", gpu=4))
    gang(api, "g", 3)
    api.fault = lambda method, path: (
        refused(422, "no") if method == "POST" and path.endswith("/binding") else None
    )
    async with running(api, serve=("127.0.0.1", port)):
        document = await answer(
            port,
            "/why?group=default/g",
            lambda found: "backing off until 20" in by_name(found)["g"]["why"],
        )
    (found,) = document["items"]
    assert found["reason"] == found["why"]
    assert found["have"] == 3


@on_a_loop
async def test_queue_has_the_order_in_which_gangs_are_tried() -> None:
    api, port = MemoryApi(), free_port()
    for name, priority in (("low", 1), ("high", 9), ("mid", 5)):
        gang(api, name, 2, priority=priority)
    async with running(api, serve=("127.0.0.1", port)):
        document = await answer(
            port,
            "/queue",
            lambda found: ["fit" in each["state"] for each in found["items"]] == [True] * 3,
        )
    assert document["kind"] == "QueueList"
    assert [each["name"] for each in document["items"]] == [
        f"default/{name}" for name in ("high", "mid", "low")
    ]
    assert all(each["gang"] and each["pods"] == each["needed"] == 2 for each in document["items"])


@pytest.mark.parametrize("page", ["/gangs", "/queue"])
def test_namespace_restricts_a_list(page: str) -> None:
    @on_a_loop
    async def run() -> None:
        api, port = MemoryApi(), free_port()
        gang(api, "here", 1, minimum=2)
        gang(api, "there", 1, minimum=2, namespace="ml")
        async with running(api, serve=("127.0.0.1", port)):
            await answer(port, page, lambda found: len(found["items"]) == 2)
            in_one = await answer(port, f"{page}?namespace=ml")
        assert [name.rpartition("/")[2] for name in by_name(in_one)] == ["there"]

    run()


@on_a_loop
async def test_group_with_pods_of_another_scheduler_is_not_said_to_lack_pods() -> None:
    api, port = MemoryApi(), free_port()
    gang(api, "theirs", 2, scheduler="other")
    gang(api, "ours", 1)
    async with running(api, serve=("127.0.0.1", port)):
        document = await answer(port, "/gangs", lambda found: len(found["items"]) == 2)
    found = by_name(document)["theirs"]
    assert (found["have"], found["phase"]) == (0, "")
    assert found["reason"] == "no pod with the schedulerName gangsched is a member"


@on_a_loop
async def test_group_that_is_not_known_and_malformed_questions_are_refused() -> None:
    api, port = MemoryApi(), free_port()
    gang(api, "g", 1)
    uid = api.objects[PODS]["default/g-0"]["metadata"]["uid"]
    async with running(api, serve=("127.0.0.1", port)):
        await answer(port, "/gangs", lambda found: len(found["items"]) == 1)
        unknown = await ask(port, "/why?group=default/other")
        of_a_pod = await ask(port, f"/why?group={uid}")
        missing = await ask(port, "/why")
    assert unknown[0] == 404
    assert "default/other" in unknown[1]["message"]
    assert of_a_pod[0] == missing[0] == 400
    assert missing[1]["message"] == "group: expected NAMESPACE/NAME, got ''"


@on_a_loop
async def test_only_the_leader_answers_and_another_replica_says_which_one_leads() -> None:
    api = MemoryApi()
    first, second = free_ports(2)
    elected = evolve(ALONE, leader_election=LeaderElection())
    leases = "/apis/coordination.k8s.io/v1/leases"
    async with running(api, elected, serve=("127.0.0.1", first)):
        await until(lambda: api.objects.get(leases))
        (lease,) = api.objects[leases].values()
        said = f"{lease['spec']['holderIdentity']} leads"
        async with running(api, elected, serve=("127.0.0.1", second)), asyncio.timeout(HANG):
            while (await ask(second, "/gangs")) != (503, problem(said)):
                await asyncio.sleep(0.02)


def problem(message: str) -> Document:
    return {"apiVersion": "gangsched.kubectl/v1", "kind": "Problem", "message": message}


@on_a_loop
async def test_answers_are_not_served_if_they_are_turned_off() -> None:
    api, port = MemoryApi(), free_port()
    async with running(api, serve=("127.0.0.1", port), answers=False):
        while (await ask(port, "/gangs"))[0] == 0:
            await asyncio.sleep(0.02)
        pages = {page: (await ask(port, page))[0] for page in ("/gangs", "/queue", "/why")}
    assert pages == {"/gangs": 404, "/queue": 404, "/why": 404}


# What an answer costs ---------------------------------------------------------------------------


class Driver:
    """A driver whose scheduler lists many groups, and counts the questions."""

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.asked = 0

    def ask(self, question: Callable[[Any], Any]) -> Any:
        self.asked += 1
        return question(self.scheduler)


class Owner:
    def __init__(self, cache: Any, driver: Driver, binds: Callable[[], int]) -> None:
        self.cache, self.driver, self.binds = cache, driver, binds


class Term:
    def __init__(self, owner: Any) -> None:
        self.owner = owner


def answers_of(groups: int, binds: Callable[[], int] = lambda: 0) -> tuple[Answers, Driver]:
    from gangsched.configuration import make_scheduler
    from gangsched.events import PodGroupAdded
    from gangsched.kubernetes._cache import Cache
    from gangsched.model import PodGroup

    cache = Cache(("gangsched",))
    for n in range(groups):
        group = PodGroup(namespace="default", name=f"g-{n:05}", min_available=2)
        cache.cluster.apply(PodGroupAdded(group))
    scheduler = make_scheduler(ALONE, cache.cluster, membership=cache.membership)
    scheduler.rebuild(now=0.0)
    driver = Driver(scheduler)
    term: Any = Term(Owner(cache, driver, binds))
    return Answers(ALONE, lambda: term, lambda: "", lambda: 0.0), driver


def document_of(page: Page) -> Document:
    assert page.status == 200, page.body
    document: Document = json.loads(page.body)
    return document


@on_a_loop
async def test_answer_is_bounded_and_says_how_many_rows_there_are() -> None:
    answers, _driver = answers_of(MOST_ROWS + 5)
    document = document_of(await answers.pages()["/gangs"]({}, EVERYTHING))
    assert len(document["items"]) == MOST_ROWS
    assert document["total"] == MOST_ROWS + 5


@on_a_loop
async def test_other_tasks_run_between_the_steps_of_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers, driver = answers_of(200)
    turns, at_a_question = 0, list[int]()

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    ask = driver.ask

    def noted(question: Callable[[Any], Any]) -> Any:
        at_a_question.append(turns)
        return ask(question)

    monkeypatch.setattr(driver, "ask", noted)
    task = asyncio.create_task(other())
    await answers.pages()["/gangs"]({}, EVERYTHING)
    task.cancel()
    assert len(at_a_question) > 200 // 20
    assert len(set(at_a_question)) == len(at_a_question)


@on_a_loop
async def test_no_question_is_asked_while_binds_are_under_way() -> None:
    under_way = 1
    answers, driver = answers_of(1, lambda: under_way)
    asked = asyncio.create_task(as_task(answers, "/gangs"))
    await asyncio.sleep(0.1)
    assert driver.asked == 0
    under_way = 0
    assert len(document_of(await asked)["items"]) == 1


async def as_task(answers: Answers, path: str) -> Page:
    return await answers.pages()[path]({}, EVERYTHING)


@on_a_loop
async def test_answers_take_a_tenth_of_the_time_at_most() -> None:
    answers, driver = answers_of(1)
    clock = asyncio.get_running_loop().time
    began = clock()
    await answers.pages()["/gangs"]({}, EVERYTHING)
    free_at = answers._free_at  # the pause after the last step
    assert free_at > began
    real = driver.scheduler.why

    def slow(key: str, *, budget: int) -> Any:
        import time

        time.sleep(0.02)
        return real(key, budget=budget)

    driver.scheduler = _Slow(driver.scheduler, slow)
    before = clock()
    await answers.pages()["/why"]({"group": "default/g-00000"}, EVERYTHING)
    await answers.pages()["/why"]({"group": "default/g-00000"}, EVERYTHING)
    assert clock() - before >= 0.02 + 9 * 0.02 + 0.02


class _Slow:
    """A scheduler whose ``why`` takes its time."""

    def __init__(self, scheduler: Any, why: Callable[..., Any]) -> None:
        self._scheduler, self.why = scheduler, why

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scheduler, name)


@on_a_loop
async def test_too_many_questions_at_once_are_refused() -> None:
    answers, _driver = answers_of(1, lambda: 1)  # binds are under way
    pages = await asyncio.gather(*(as_task(answers, "/gangs") for _ in range(18)))
    refused_at_once = [page for page in pages if b"too many" in page.body]
    assert len(refused_at_once) == 2
    assert all(page.status == 503 for page in refused_at_once)
