"""The extender on an API server in memory: requests over HTTP, binds, nominations, its label."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import aiohttp
import pytest
from attrs import evolve

from gangsched.configuration import LeaderElection, Settings
from gangsched.events import PodAdded, PodUpdated
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._measure import Measures
from gangsched.kubernetes._requests import Requests
from gangsched.kubernetes.extender import Holding, _http, run_extender
from gangsched.kubernetes.extender._leader_label import LEADS, LeaderLabel
from gangsched.kubernetes.extender._nominator import Nominator
from gangsched.model import NodeName, Pod, PodUID
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json, put_gang
from support.extender_client import Asking, extending
from support.memory_api import MemoryApi, lost_before, refused
from support.patience import HANG
from support.running import ALONE, on_a_loop, until

NAMES = ["n0", "n1", "n2"]


def cluster(**node: Any) -> MemoryApi:
    api = MemoryApi()
    for name in NAMES:
        api.put(NODES, node_json(name, **node))
    return api


def gang(size: int, **node: Any) -> tuple[MemoryApi, list[str]]:
    """Return a cluster with a gang, and the names of its members."""
    api = cluster(**node)
    return api, put_gang(api, "g", size)


def solo(**pod: Any) -> MemoryApi:
    """Return a cluster with a pod without a group."""
    api = cluster()
    api.put(PODS, pod_json("solo", **pod))
    return api


async def bind(asking: Asking, name: str) -> str:
    return await asking.bind(name, await asking.decided(name, NAMES))


async def bind_all(asking: Asking, names: list[str]) -> list[str]:
    return await asyncio.gather(*(bind(asking, name) for name in names))


async def leaves(task: asyncio.Task[str], asking: Asking) -> None:
    """Let the client of a request leave, and the server see that."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.sleep(0.1)


def nominated(api: MemoryApi, name: str) -> str | None:
    found: str | None = api.objects[PODS][f"default/{name}"]["status"].get("nominatedNodeName")
    return found


# Gangs ------------------------------------------------------------------------------------------


@on_a_loop
async def test_gang_is_bound_when_its_last_member_arrives() -> None:
    api, names = gang(3)
    async with extending(api) as asking:
        first = [asyncio.create_task(bind(asking, name)) for name in names[:2]]
        await asyncio.sleep(0.1)
        assert not any(api.pods().values())
        assert not any(task.done() for task in first)
        assert await bind(asking, names[2]) == ""
        assert await asyncio.gather(*first) == ["", ""]
    assert all(api.pods().values())


@on_a_loop
async def test_gang_that_does_not_fit_binds_nothing_and_gets_no_condition_and_no_event() -> None:
    api, names = gang(4, gpu=1)
    async with extending(api, holding=Holding(timeout=5.0, grace=3600.0)) as asking:
        for name in names:  # of a gang that was tried, filter waits for no decision
            assert await asking.filter(name, NAMES) == []
        assert await asking.bind(names[0], "n0") != ""
        await asyncio.sleep(0.2)
    assert not any(api.pods().values())
    assert "conditions" not in api.objects[PODS]["default/g-0"]["status"]
    events = api.objects.get("/apis/events.k8s.io/v1/events", {}).values()
    assert {each["regarding"]["kind"] for each in events} <= {"PodGroup"}


@on_a_loop
async def test_refused_members_are_nominated_until_the_gang_is_withdrawn() -> None:
    api, names = gang(4, gpu=1)
    async with extending(api, holding=Holding(timeout=0.3, grace=0.0)) as asking:
        for name in names[:2]:
            assert await asking.filter(name, NAMES) == []
        api.put(NODES, node_json("late", gpu=1))
        await until(lambda: nominated(api, names[0]) and nominated(api, names[1]))
        assert nominated(api, names[2]) is None  # nothing has refused it: it is not asleep
        node = nominated(api, names[0])
        assert await asking.decided(names[0], [*NAMES, "late"]) == node
        api.remove(NODES, "late")
        await until(lambda: not any(nominated(api, name) for name in names))


@on_a_loop
async def test_members_that_were_refused_before_a_restart_are_nominated() -> None:
    api, names = gang(4, gpu=1)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    for pod in api.objects[PODS].values():
        pod["status"]["conditions"] = [{**condition, "message": "0/3 nodes are available"}]
    # a withdrawal would wake them, too, much later
    async with extending(api, holding=Holding(timeout=60.0, grace=0.0)):
        api.put(NODES, node_json("late", gpu=1))
        await until(lambda: all(nominated(api, name) for name in names))


@on_a_loop
async def test_gang_is_withdrawn_when_a_member_does_not_come_and_decided_anew() -> None:
    api, names = gang(3)
    async with extending(api, holding=Holding(timeout=0.3, grace=0.0)) as asking:
        problems = await bind_all(asking, names[:2])
        assert all("2 of 3 members came to be bound" in problem for problem in problems)
        assert not any(api.pods().values())
        assert await bind_all(asking, names) == ["", "", ""]
    assert all(api.pods().values())


@on_a_loop
async def test_deleted_member_lets_the_others_be_told() -> None:
    api, names = gang(2)
    async with extending(api) as asking:
        first = asyncio.create_task(bind(asking, names[0]))
        await asyncio.sleep(0.1)
        api.remove(PODS, f"default/{names[1]}")
        assert "of its gang was deleted" in await first
    assert not any(api.pods().values())


@on_a_loop
async def test_node_that_kube_scheduler_refuses_is_not_decided_again_at_once() -> None:
    api, (name,) = gang(1)
    async with extending(api) as asking:
        node = await asking.decided(name, NAMES)
        others = [each for each in NAMES if each != node]
        assert await asking.filter(name, others) == []
        await until(lambda: nominated(api, name) == node)
        assert await asking.filter(name, others) == []  # now it is known to be refused
        assert await asking.decided(name, NAMES) in others


@on_a_loop
async def test_member_whose_bind_was_refused_waits_for_another_decision() -> None:
    api, (name,) = gang(1)
    settings = evolve(ALONE, initial_backoff=60.0, maximum_backoff=60.0)
    # a bind that is held back would hang
    async with extending(api, settings, holding=Holding(timeout=3600.0, grace=0.0)) as asking:
        node = await asking.decided(name, NAMES)
        api.fault = lambda _method, path: refused(422) if path.endswith("/binding") else None
        assert await asking.bind(name, node) != ""
        assert "nothing is decided" in await asking.bind(name, node)


@on_a_loop
async def test_filter_waits_for_a_decision_that_is_a_moment_away() -> None:
    api = cluster()
    api.put(GROUPS, group_json("g", 1))
    async with extending(api, holding=Holding(timeout=5.0, grace=3.0)) as asking:
        pod = pod_json("g-0", group="g")
        pod["metadata"]["uid"] = "of-g-0"
        body = {"Pod": pod, "NodeNames": NAMES}
        early = asyncio.create_task(asking.send("filter", body))
        await asyncio.sleep(0.1)
        assert not early.done()
        api.put(PODS, pod)  # the watch of kube-scheduler was ahead of ours
        status, answer = await early
        assert (status, len(answer["NodeNames"])) == (200, 1)


@on_a_loop
async def test_requests_wait_for_nothing_when_the_extender_stops() -> None:
    api, names = gang(2)
    async with extending(api) as asking:
        held = asyncio.create_task(bind(asking, names[0]))
        await asyncio.sleep(0.1)
    assert await held == "the extender stops"
    assert not any(api.pods().values())


@on_a_loop
async def test_restart_of_a_gang_is_counted_on_its_group() -> None:
    """The next leader counts on, as the second scheduler does."""
    api, names = gang(2)
    metadata = api.objects[GROUPS]["default/g"]["metadata"]
    metadata["annotations"] = {"gangsched.io/restart-policy": "BelowMinimum"}
    async with extending(api) as asking:
        assert await bind_all(asking, names) == ["", ""]
        await asyncio.sleep(0.3)  # the reports of the binds
        api.remove(PODS, f"default/{names[0]}")
        await until(lambda: f"default/{names[1]}" not in api.pods())
        group = api.objects[GROUPS]["default/g"]
        assert group["metadata"]["annotations"]["gangsched.io/restarts"] == "1"


# Answers that are lost, and clients that leave --------------------------------------------------


@on_a_loop
async def test_member_of_which_the_client_left_is_bound_with_its_gang() -> None:
    api, names = gang(2)
    async with extending(api) as asking:
        twice = [asyncio.create_task(bind(asking, names[0])) for _ in range(3)]
        await asyncio.sleep(0.1)
        await leaves(twice[0], asking)  # the other ones still wait
        for task in twice[1:]:
            assert not task.done()
        await leaves(twice[1], asking)
        await leaves(twice[2], asking)
        assert not any(api.pods().values())
        assert await bind(asking, names[1]) == ""
        await until(lambda: all(api.pods().values()))
        assert await bind(asking, names[0]) == ""


@on_a_loop
async def test_gang_starts_although_each_bind_is_given_up_before_the_next_member_comes() -> None:
    """As with ``httpTimeout: 100ms`` and members that are tried one after the other."""
    api, names = gang(5)
    async with extending(api, holding=Holding(timeout=10.0, grace=0.0)) as asking:
        for name in names[:-1]:
            node = await asking.decided(name, NAMES)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await asking.bind(name, node)
            assert not any(api.pods().values())
        assert await bind(asking, names[-1]) == ""
        await until(lambda: all(api.pods().values()))
        assert await bind(asking, names[0]) == ""  # the try after the backoff


@on_a_loop
async def test_bound_member_is_left_its_node_whatever_kube_scheduler_has_heard() -> None:
    """``httpTimeout`` has passed while the binds were under way: kube-scheduler tries again.

    Without a node, kube-scheduler would write that a running pod is unschedulable.
    """
    api, names = gang(2)
    async with extending(api) as asking:
        before = {name: asking.pod(name) for name in names}
        nodes = {name: await asking.decided(name, NAMES) for name in names}
        api.delay = 0.3
        lost = [asyncio.create_task(asking.bind(name, nodes[name])) for name in names]
        await asyncio.sleep(0.1)
        for each in lost:
            each.cancel()
        await asyncio.gather(*lost, return_exceptions=True)
        again = [asyncio.create_task(asking.bind(name, nodes[name])) for name in names]
        assert await asyncio.gather(*again) == ["", ""]
        assert api.pods() == {f"default/{name}": node for name, node in nodes.items()}
        api.delay = 0.0
        await asyncio.sleep(0.2)
        for name in names:
            status, answer = await asking.send("filter", {"Pod": before[name], "NodeNames": NAMES})
            assert (status, answer["NodeNames"]) == (200, [nodes[name]])
            others = [each for each in NAMES if each != nodes[name]]
            assert await asking.filter(name, others) == []
            assert await asking.bind(name, nodes[name]) == ""
            assert await asking.bind(name, others[0]) != ""


@on_a_loop
async def test_gang_is_completed_after_a_restart_between_two_binds() -> None:
    """The new process finds two of three members bound, and decides about the third."""
    api, names = gang(3)
    api.fault = lambda _method, path: lost_before() if path.endswith("g-2/binding") else None
    with pytest.raises(ExceptionGroup):  # noqa: PT012
        async with asyncio.TaskGroup() as tasks, extending(api) as asking:
            for name in names:
                node = await asking.decided(name, NAMES)
                tasks.create_task(asking.bind(name, node))
            await until(lambda: sum(1 for node in api.pods().values() if node) == 2)
            raise RuntimeError("killed")
    assert api.pods()["default/g-2"] is None
    api.fault = lambda _method, _path: None
    async with extending(api) as asking:
        assert await bind(asking, "g-2") == ""
    assert all(api.pods().values())


@on_a_loop
async def test_equal_requests_get_one_end_and_others_no_other_node() -> None:
    """Two kube-schedulers decide at once, against their election."""
    api, names = gang(2)
    api.put(PODS, pod_json("solo"))
    async with extending(api) as asking:
        await asking.filter("solo", NAMES)
        ends = await asyncio.gather(asking.bind("solo", "n0"), asking.bind("solo", "n1"))
        assert sorted(map(bool, ends)) == [False, True]
        nodes = {name: await asking.decided(name, NAMES) for name in names}
        many = [asyncio.create_task(asking.bind("g-0", nodes["g-0"])) for _ in range(50)]
        await asyncio.sleep(0.1)
        assert not api.pods()["default/g-0"]
        other = next(each for each in NAMES if each != nodes["g-1"])
        assert "was decided to be on node" in await asking.bind("g-1", other)
        assert await asking.bind("g-1", nodes["g-1"]) == ""
        assert set(await asyncio.gather(*many)) == {""}
    assert {name: api.pods()[f"default/{name}"] for name in names} == nodes


def is_long(seen: list[int], count: int) -> bool:
    return len(seen) == count


def test_bind_that_is_given_up_is_counted_and_logged_once_in_a_while(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(
        Measures, "verb", lambda _self, verb, status: seen.append(status) if verb == "bind" else 0
    )
    api, names = gang(2)

    @on_a_loop
    async def story() -> None:
        async with extending(api) as asking:
            node = await asking.decided(names[0], NAMES)
            for count in range(1, 4):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.2):
                        await asking.bind(names[0], node)
                await until(partial(is_long, seen, count))
            assert await bind_all(asking, names) == ["", ""]

    with caplog.at_level(logging.WARNING, "gangsched.kubernetes.extender"):
        story()
    assert seen == [499, 499, 499, 200, 200]
    (said,) = (each.getMessage() for each in caplog.records if "gave up" in each.getMessage())
    assert said.startswith("kube-scheduler gave up the bind of default/g-0 after 0.2 s, before ")
    assert "httpTimeout" in said


# Ordinary pods ----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_filtered", [True, False], ids=["filtered", "after a restart"])
@on_a_loop
async def test_ordinary_pod_is_bound_as_kube_scheduler_decides(is_filtered: bool) -> None:
    api = solo()
    async with extending(api) as asking:
        if is_filtered:
            assert await asking.filter("solo", NAMES) == NAMES
        assert await asking.bind("solo", "n1") == ""
    assert api.pods()["default/solo"] == "n1"


@on_a_loop
async def test_problem_of_an_ordinary_bind_is_passed_on() -> None:
    api = solo()
    async with extending(api) as asking:
        await asking.filter("solo", NAMES)
        api.fault = lambda _method, path: (
            refused(409, "is being deleted") if path.endswith("/binding") else None
        )
        assert "is being deleted" in await asking.bind("solo", "n2")
        body = {"PodName": "solo", "PodNamespace": "default", "PodUID": "old", "Node": "n1"}
        _status, answer = await asking.send("bind", body)
        assert "has the UID" in answer["Error"]
    assert api.pods()["default/solo"] is None


@on_a_loop
async def test_pod_of_another_scheduler_is_not_bound_whatever_filter_was_told() -> None:
    """What is said to ``filter`` proves nothing: a stranger who binds may have said it."""
    api = solo(scheduler="other")
    async with extending(api) as asking:
        problem = await asking.bind("solo", "n1")
        assert "pod default/solo has the schedulerName 'other'" in problem
        assert "binds pods of gangsched: see --scheduler-name" in problem
        forged = asking.pod("solo")
        forged["spec"]["schedulerName"] = "gangsched"
        status, _ = await asking.send("filter", {"Pod": forged, "NodeNames": NAMES})
        assert status == 200
        assert "schedulerName 'other'" in await asking.bind("solo", "n1")
    assert api.pods()["default/solo"] is None


@on_a_loop
async def test_victims_and_scores_are_answered_over_http() -> None:
    api, (name,) = gang(1)
    async with extending(api) as asking:
        await asking.decided(name, NAMES)
        victims = {"n0": {"Pods": [{"UID": "x"}], "NumPDBViolations": 0}}
        body = {"Pod": asking.pod(name), "NodeNameToMetaVictims": victims}
        assert await asking.send("preempt", body) == (200, {"NodeNameToMetaVictims": {}})
        high = pod_json("high")
        high["metadata"]["uid"] = "high"
        body["Pod"] = high
        assert await asking.send("preempt", body) == (200, {"NodeNameToMetaVictims": victims})
        status, scores = await asking.send("prioritize", {"Pod": high, "NodeNames": NAMES})
        assert (status, sorted(each["Score"] for each in scores)) == (200, [0, 10, 10])


# Requests that kube-scheduler never sends -------------------------------------------------------

DEEP: Final = 100_000
SOLO: Final = {
    **pod_json("solo"),
    "metadata": {"name": "solo", "namespace": "default", "uid": "uid-of-solo"},
}


def request_of(pod: object = SOLO, **more: object) -> bytes:
    return json.dumps({"Pod": pod, "NodeNames": NAMES, **more}).encode()


MALFORMED = {
    "empty": b"",
    "a list": b"[]",
    "brackets without end": b"[" * DEEP,
    "a deep pod": b'{"NodeNames":[],"Pod":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "a deep object": b'{"NodeNames":[],"Pod":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}",
    "a deep unknown field": b'{"X":' + b"[" * DEEP + b"]" * DEEP + b',"Pod":{},"NodeNames":[]}',
    "a node that is not UTF-8": request_of(NodeNames=["?"]).replace(b'["?"]', b'["\xff"]'),
    "a pod that is not UTF-8": request_of().replace(b"uid-of-solo", b"\xff"),
    "half a surrogate": request_of(NodeNames=["?"]).replace(b"?", b"\\ud800"),
    "no number": b'{"Pod":NaN,"NodeNames":[]}',
    "text behind it": request_of() + b"x",
    "nodes as null": request_of(Nodes=None, NodeNames=None),
    "no names of nodes": json.dumps({"Pod": SOLO, "Nodes": {"items": []}}).encode(),
    "names that are an object": request_of(NodeNames={}),
    "no pod": request_of(None),
    "a node as the pod": request_of(node_json("n0")),
    "a pod without a spec": request_of({"spec": 7}),
    "an endless quantity": request_of(pod_json("s")).replace(b'"cpu": "1"', b'"cpu": "1e999999"'),
}


async def answer(asking: Asking, verb: str, body: bytes) -> tuple[int, str]:
    async with asking.session.post(f"{asking.url}/{verb}", data=body) as response:
        return response.status, await response.text()


def test_malformed_request_is_answered_with_400_and_leaves_the_log_empty(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @on_a_loop
    async def story() -> None:
        async with extending(cluster()) as asking:
            for name, body in MALFORMED.items():
                for verb in ("filter", "prioritize", "preempt", "bind"):
                    status, text = await answer(asking, verb, body)
                    assert (name, verb, status) == (name, verb, 400), text
                    assert len(text) < 1000
                status, text = await answer(asking, "filter", request_of())
                assert (status, json.loads(text)["NodeNames"]) == (200, NAMES)
            status, text = await answer(asking, "bind", b'{"PodName": "a"}')
            assert text == "PodNamespace must be present, got None\n"
            assert (await answer(asking, "unheard-of", b"{}"))[0] == 404

    with caplog.at_level(logging.WARNING, "gangsched.kubernetes.extender"):
        story()
    assert caplog.text == ""


@on_a_loop
async def test_unknown_repeated_and_unasked_nodes_are_answered_within_the_request() -> None:
    api, (name,) = gang(1)
    async with extending(api) as asking:
        assert await asking.decided(name, [*NAMES, *NAMES, "unheard-of"]) in NAMES
        assert await asking.filter(name, ["unheard-of"]) == []
        _, text = await answer(asking, "filter", request_of(Nodes={"items": [node_json("other")]}))
        assert json.loads(text)["NodeNames"] == NAMES


@on_a_loop
async def test_request_that_is_too_large_or_never_ends_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_http, "_LARGEST", 10_000)
    monkeypatch.setattr(_http, "_READING", 0.2)
    async with extending(cluster()) as asking:
        status, text = await answer(asking, "filter", request_of(NodeNames=["n" * 20_000]))
        assert (status, text) == (413, "the request has more than 10000 bytes\n")
        host, _, port = asking.url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        async with asyncio.timeout(HANG):
            found = await reader.read()  # until the server closes the connection
        writer.close()
        await writer.wait_closed()
        assert found.startswith(b"HTTP/1.1 408 ")


# Replicas: the one that leads has a label, by which a Service selects it ------------------------

KEY: Final = "default/replica"
SHORT: Final = Settings(
    leader_election=LeaderElection(lease_duration=1.5, renew_deadline=1.0, retry_period=0.1)
)


def label(api: MemoryApi, key: str = KEY) -> str | None:
    found: str | None = api.objects[PODS][key]["metadata"].get("labels", {}).get(LEADS)
    return found


def replicas(*names: str) -> MemoryApi:
    api = MemoryApi()
    for name in names:
        api.put(PODS, pod_json(name, scheduler="other", node="n"))
    return api


@asynccontextmanager
async def replica(
    api: MemoryApi, settings: Settings, pod: str | None = KEY, ports: list[int] | None = None
) -> AsyncIterator[asyncio.Event]:
    stop, ports = asyncio.Event(), [] if ports is None else ports
    listen = ("127.0.0.1", 0)
    work = run_extender(
        settings, listen=listen, stop=stop, api=api, listening=ports.append, pod=pod
    )
    task = asyncio.create_task(work)
    try:
        await until(lambda: ports or task.done())
        yield stop
        stop.set()
        async with asyncio.timeout(HANG):
            await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@on_a_loop
async def test_replica_that_does_not_lead_answers_503_and_ends_the_connection() -> None:
    """Else kube-scheduler would ask it for ever, by the connection that it keeps open."""
    api, ports = cluster(), list[int]()
    api.fault = lambda _method, path: refused(403) if "/leases" in path else None
    async with (
        replica(api, Settings(), None, ports),
        aiohttp.ClientSession() as session,
        session.post(f"http://127.0.0.1:{ports[0]}/filter", json={}) as response,
    ):
        assert response.status == 503
        assert response.headers["Connection"] == "close"
        assert "does not lead" in await response.text()


@on_a_loop
async def test_replica_without_election_is_labelled_while_it_runs() -> None:
    api, faults = replicas("replica"), [lost_before(), refused(500), refused(403)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("gangsched.kubernetes.extender._leader_label._PAUSE", 0.01)
        api.fault = lambda method, _path: faults.pop() if method == "PATCH" and faults else None
        async with replica(api, ALONE):
            await until(lambda: label(api) == "true")  # it is written again until it is taken
        assert label(api) == "false"


@on_a_loop
async def test_label_follows_the_lease() -> None:
    api = replicas("replica", "other")
    async with replica(api, SHORT) as stop:
        await until(lambda: label(api) == "true")
        async with replica(api, SHORT, "default/other"):
            await until(lambda: label(api, "default/other") == "false")
            await asyncio.sleep(0.3)
            assert (label(api), label(api, "default/other")) == ("true", "false")
            stop.set()
            await until(lambda: label(api, "default/other") == "true")
            assert label(api) == "false"
            api.fault = lambda method, path: (
                refused(409) if method == "PUT" and "/leases" in path else None
            )
            await until(lambda: label(api, "default/other") == "false")  # the Lease is lost


@on_a_loop
async def test_label_of_a_process_that_was_killed_is_taken_away_by_the_next_one() -> None:
    """A container that restarts keeps the labels of its pod."""
    api = replicas("replica")
    api.objects[PODS][KEY]["metadata"]["labels"] = {LEADS: "true", "app": "x"}
    api.fault = lambda _method, path: refused(403) if "/leases" in path else None
    async with replica(api, SHORT):
        await until(lambda: label(api) == "false")
    assert api.objects[PODS][KEY]["metadata"]["labels"] == {LEADS: "false", "app": "x"}


@pytest.mark.parametrize("pod", ["", "name", "a/b/c", "/b", "a/", "../x", "A/b"])
def test_pod_that_has_no_namespace_and_name_is_an_error(pod: str) -> None:
    with pytest.raises(ValueError, match=r"pod must be NAMESPACE/NAME, got "):
        LeaderLabel(pod)


# Nominations: only a change of ``nominatedNodeName`` wakes a pod of kube-scheduler --------------

A: Final = PodUID("a")
N, M = NodeName("n"), NodeName("m")


class Recorded(MemoryApi):
    """An API server in memory that keeps what nominations are written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str | None] = []

    async def request(self, method: str, path: str, **named: Any) -> Any:
        if method == "PATCH":
            self.written.append(json.loads(named["body"])["status"]["nominatedNodeName"])
        return await super().request(method, path, **named)


Nominating = tuple[Recorded, Cache, Nominator]


@asynccontextmanager
async def nominating() -> AsyncIterator[Nominating]:
    api, cache = Recorded(), Cache(None)
    given = pod_json("a")
    given["metadata"]["uid"] = "a"
    api.put(PODS, given)
    cache.cluster.apply(PodAdded(Pod(name="a", uid=A)))
    nominator = Nominator(Requests(api), cache, workers=2)
    task = asyncio.create_task(nominator.run())
    try:
        yield api, cache, nominator
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@on_a_loop
async def test_node_that_the_pod_has_already_is_taken_away_first() -> None:
    async with nominating() as (api, cache, nominator):
        cache.nominated[A] = "n"  # of an earlier process
        nominator.put(A, N)
        await until(lambda: api.written == [None, "n"])
        nominator.put(A, N)
        await until(lambda: api.written == [None, "n", None, "n"])
        nominator.put(A, M)
        await until(lambda: api.written[4:] == ["m"])


def withdrawn(_cache: Cache, nominator: Nominator) -> None:
    nominator.put(A, N)
    nominator.put(A, None)
    assert len(nominator) == 1


def bound(cache: Cache, nominator: Nominator) -> None:
    cache.cluster.apply(PodUpdated(Pod(name="a", uid=A, node_name="n")))
    nominator.put(A, N)


@pytest.mark.parametrize("happens", [withdrawn, bound, lambda _cache, each: each.put(A, None)])
@on_a_loop
async def test_pod_that_is_bound_or_withdrawn_gets_no_node(
    happens: Callable[[Cache, Nominator], None],
) -> None:
    async with nominating() as (api, cache, nominator):
        happens(cache, nominator)
        await until(lambda: not len(nominator))
        await asyncio.sleep(0.02)
        assert api.written in ([], [None])


@pytest.mark.parametrize(
    ("problem", "is_said"),
    [
        ("Forbidden: may not be set on pods that are already bound to a node", False),
        ("Invalid value: must be a DNS name", True),
    ],
)
@on_a_loop
async def test_refused_nomination_is_said_but_of_a_bound_pod_and_ends_nothing(
    problem: str, is_said: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with nominating() as (api, _cache, nominator):
        message = f"Pod is invalid: status.nominatedNodeName: {problem}"
        api.fault = lambda method, _path: refused(422, message) if method == "PATCH" else None
        nominator.put(A, N)
        await until(lambda: api.written == ["n"] and not len(nominator))
        api.fault = lambda _method, _path: None
        nominator.put(A, M)
        await until(lambda: api.written == ["n", "m"])
    assert (problem in caplog.text) is is_said
