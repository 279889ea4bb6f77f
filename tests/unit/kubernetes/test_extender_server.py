"""The extender on an API server in memory: requests over HTTP, binds, nominations."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import aiohttp
import pytest
import trustme
from attrs import evolve

from gangsched.errors import InvalidValueError
from gangsched.kubernetes.extender import Holding, run_extender, server_context
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.extender_client import Asking, extending
from support.memory_api import MemoryApi, refused
from support.running import ALONE, on_a_loop, until

NAMES = ["n0", "n1", "n2"]


def cluster(**node: Any) -> MemoryApi:
    api = MemoryApi()
    for name in NAMES:
        api.put(NODES, node_json(name, **node))
    return api


def gang(api: MemoryApi, size: int = 3, name: str = "g", **pod: Any) -> list[str]:
    names = [f"{name}-{n}" for n in range(size)]
    for each in names:
        api.put(PODS, pod_json(each, group=name, **pod))
    api.put(GROUPS, group_json(name, size))
    return names


async def bind(asking: Asking, name: str) -> str:
    return await asking.bind(name, await asking.decided(name, NAMES))


def nominated(api: MemoryApi, name: str) -> str | None:
    pod = api.get(PODS, f"default/{name}")
    assert pod is not None
    found: str | None = pod["status"].get("nominatedNodeName")
    return found


@on_a_loop
async def test_gang_is_bound_when_its_last_member_arrives() -> None:
    api = cluster()
    names = gang(api)
    async with extending(api) as asking:
        first = [asyncio.create_task(bind(asking, name)) for name in names[:2]]
        await asyncio.sleep(0.1)
        assert not any(api.pods().values())
        assert not any(task.done() for task in first)
        assert await bind(asking, names[2]) == ""
        assert await asyncio.gather(*first) == ["", ""]
    assert all(api.pods().values())


@on_a_loop
async def test_gang_that_does_not_fit_is_refused_and_binds_nothing() -> None:
    api = cluster(gpu=1)
    names = gang(api, 4)
    async with extending(api) as asking:
        for name in names:
            assert await asking.filter(name, NAMES) == []
        assert await asking.bind(names[0], "n0") != ""
        await asyncio.sleep(0.05)
    assert not any(api.pods().values())


@on_a_loop
async def test_refused_members_are_nominated_when_a_node_comes() -> None:
    api = cluster(gpu=1)
    names = gang(api, 4)
    async with extending(api) as asking:
        for name in names[:2]:
            assert await asking.filter(name, NAMES) == []
        api.put(NODES, node_json("late", gpu=1))
        await until(lambda: nominated(api, names[0]) and nominated(api, names[1]))
        await asyncio.sleep(0.05)
        assert nominated(api, names[2]) is None  # nothing has refused it: it is not asleep
        node = await asking.decided(names[0], [*NAMES, "late"])
        assert node == nominated(api, names[0])


@on_a_loop
async def test_gang_is_withdrawn_when_a_member_does_not_come_and_decided_anew() -> None:
    api = cluster()
    names = gang(api)
    async with extending(api, holding=Holding(timeout=0.3, grace=0.0)) as asking:
        first = [asyncio.create_task(bind(asking, name)) for name in names[:2]]
        problems = await asyncio.gather(*first)
        assert all("2 of 3 members came to be bound" in problem for problem in problems)
        assert not any(api.pods().values())
        again = [asyncio.create_task(bind(asking, name)) for name in names]
        assert await asyncio.gather(*again) == ["", "", ""]
    assert all(api.pods().values())


@on_a_loop
async def test_member_of_which_the_client_left_is_bound_with_its_gang() -> None:
    api = cluster()
    names = gang(api, 2)
    async with extending(api) as asking:
        left = asyncio.create_task(bind(asking, names[0]))
        await asyncio.sleep(0.1)
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)
        await asyncio.sleep(0.1)  # until the server has seen the connection close
        assert not any(api.pods().values())
        assert await bind(asking, names[1]) == ""
        await until(lambda: all(api.pods().values()))
        assert await bind(asking, names[0]) == ""


@on_a_loop
async def test_two_requests_for_one_member_get_the_same_end() -> None:
    api = cluster()
    names = gang(api, 2)
    async with extending(api) as asking:
        twice = [asyncio.create_task(bind(asking, names[0])) for _ in range(2)]
        await asyncio.sleep(0.05)
        twice[0].cancel()  # the other one still waits
        await asyncio.sleep(0.05)
        assert await bind(asking, names[1]) == ""
        assert await twice[1] == ""
        assert await asking.bind(names[0], api.pods()[f"default/{names[0]}"] or "") == ""


@on_a_loop
async def test_ordinary_pod_is_bound_as_kube_scheduler_decides() -> None:
    api = cluster()
    api.put(PODS, pod_json("solo"))
    async with extending(api) as asking:
        assert await asking.filter("solo", NAMES) == NAMES
        assert await asking.bind("solo", "n1") == ""
    assert api.pods()["default/solo"] == "n1"


@on_a_loop
async def test_ordinary_pod_is_bound_after_a_restart_of_the_extender() -> None:
    api = cluster()
    api.put(PODS, pod_json("solo"))
    async with extending(api) as asking:
        assert await asking.bind("solo", "n2") == ""
    assert api.pods()["default/solo"] == "n2"


@on_a_loop
async def test_problem_of_an_ordinary_bind_is_passed_on() -> None:
    api = cluster()
    api.put(PODS, pod_json("solo"))
    async with extending(api) as asking:
        await asking.filter("solo", NAMES)
        api.fault = lambda _method, path: (
            refused(409, "is being deleted") if path.endswith("/binding") else None
        )
        assert "is being deleted" in await asking.bind("solo", "n2")


@on_a_loop
async def test_member_whose_bind_was_refused_waits_for_another_decision() -> None:
    api = cluster()
    (name,) = gang(api, 1)
    settings = evolve(ALONE, initial_backoff=60.0, maximum_backoff=60.0)
    # a bind that is held back would hang
    async with extending(api, settings, holding=Holding(timeout=3600.0, grace=0.0)) as asking:
        node = await asking.decided(name, NAMES)
        api.fault = lambda _method, path: refused(422) if path.endswith("/binding") else None
        assert await asking.bind(name, node) != ""
        assert "nothing is decided" in await asking.bind(name, node)


@on_a_loop
async def test_deleted_member_lets_the_others_be_told() -> None:
    api = cluster()
    names = gang(api, 2)
    async with extending(api) as asking:
        first = asyncio.create_task(bind(asking, names[0]))
        await asyncio.sleep(0.1)
        api.remove(PODS, f"default/{names[1]}")
        assert "of its gang was deleted" in await first
    assert not any(api.pods().values())


@on_a_loop
async def test_members_that_were_refused_before_a_restart_are_nominated() -> None:
    api = cluster(gpu=1)
    names = gang(api, 4)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    for name in names:
        pod = api.get(PODS, f"default/{name}")
        assert pod is not None
        pod["status"]["conditions"] = [{**condition, "message": "0/3 nodes are available"}]
        api.put(PODS, pod)
    # a withdrawal would wake them, too, much later
    async with extending(api, holding=Holding(timeout=60.0, grace=0.0)):
        api.put(NODES, node_json("late", gpu=1))
        await until(lambda: all(nominated(api, name) for name in names))


@on_a_loop
async def test_nomination_is_taken_away_when_the_gang_is_withdrawn() -> None:
    api = cluster(gpu=1)
    names = gang(api, 4)
    async with extending(api, holding=Holding(timeout=0.2, grace=0.0)) as asking:
        for name in names:
            await asking.filter(name, NAMES)
        api.put(NODES, node_json("late", gpu=1))
        await until(lambda: nominated(api, names[0]))
        api.remove(NODES, "late")
        await until(lambda: not any(nominated(api, name) for name in names))


@on_a_loop
async def test_node_that_kube_scheduler_refuses_is_not_decided_again_at_once() -> None:
    api = cluster()
    names = gang(api, 1)
    async with extending(api) as asking:
        node = await asking.decided(names[0], NAMES)
        others = [name for name in NAMES if name != node]
        assert await asking.filter(names[0], others) == []
        await until(lambda: nominated(api, names[0]) == node)
        assert await asking.filter(names[0], others) == []  # now it is known to be refused
        assert await asking.decided(names[0], NAMES) in others


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
        assert status == 200
        assert len(answer["NodeNames"]) == 1


@on_a_loop
async def test_filter_does_not_wait_for_a_gang_that_was_tried() -> None:
    api = cluster(gpu=1)
    names = gang(api, 4)
    async with extending(api, holding=Holding(timeout=5.0, grace=3600.0)) as asking:
        await asyncio.sleep(0.2)
        assert await asking.filter(names[0], NAMES) == []


@on_a_loop
async def test_malformed_request_is_answered_with_its_field_and_value() -> None:
    api = cluster()
    async with extending(api) as asking:
        status, text = await asking.send("bind", {"PodName": "a"})
        assert (status, text) == (400, "PodNamespace must be present, got None\n")
        status, text = await asking.send("filter", {"Pod": {"spec": 7}, "NodeNames": []})
        assert status == 400
        assert text.startswith("Pod must be a pod: ")
        status, _text = await asking.send("unheard-of", {})
        assert status == 404


@on_a_loop
async def test_victims_are_answered_over_http() -> None:
    api = cluster()
    names = gang(api, 1)
    async with extending(api) as asking:
        victims = {"n0": {"Pods": [{"UID": "x"}], "NumPDBViolations": 0}}
        body = {"Pod": asking.pod(names[0]), "NodeNameToMetaVictims": victims}
        assert await asking.send("preempt", body) == (200, {"NodeNameToMetaVictims": {}})
        body["Pod"] = pod_json("high")
        body["Pod"]["metadata"]["uid"] = "high"
        assert await asking.send("preempt", body) == (200, {"NodeNameToMetaVictims": victims})
        status, scores = await asking.send("prioritize", {"Pod": body["Pod"], "NodeNames": NAMES})
        assert status == 200
        assert sorted(each["Score"] for each in scores) == [0, 10, 10]


@on_a_loop
async def test_requests_wait_for_nothing_when_the_extender_stops() -> None:
    api = cluster()
    names = gang(api, 2)
    async with extending(api) as asking:
        held = asyncio.create_task(bind(asking, names[0]))
        await asyncio.sleep(0.1)
    assert await held == "the extender stops"
    assert not any(api.pods().values())


@on_a_loop
async def test_pods_get_no_condition_and_no_event_from_the_extender() -> None:
    api = cluster(gpu=1)
    names = gang(api, 4)
    async with extending(api) as asking:
        await asking.filter(names[0], NAMES)
        await asyncio.sleep(0.2)
    pod = api.get(PODS, f"default/{names[0]}")
    assert pod is not None
    assert "conditions" not in pod["status"]
    events = api.objects.get("/apis/events.k8s.io/v1/events", {}).values()
    assert {each["regarding"]["kind"] for each in events} <= {"PodGroup"}


@on_a_loop
async def test_verbs_are_served_over_tls_to_clients_with_a_certificate(tmp_path: Any) -> None:
    authority = trustme.CA()
    issued, ours = authority.issue_cert("localhost"), authority.issue_cert("kube-scheduler")
    certificate, key, ca = tmp_path / "crt", tmp_path / "key", tmp_path / "ca"
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    authority.cert_pem.write_to_path(ca)
    client = ssl.create_default_context(cafile=str(ca))
    ours.configure_cert(client)
    context = server_context(certificate, key, ca)
    api = cluster()
    api.put(PODS, pod_json("solo"))
    async with extending(api, context=context, client=client) as asking:
        assert await asking.filter("solo", NAMES) == NAMES
        stranger = ssl.create_default_context(cafile=str(ca))
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientError):
                await session.post(f"{asking.url}/filter", ssl=stranger)


def test_certificate_that_cannot_be_read_is_named(tmp_path: Any) -> None:
    with pytest.raises(InvalidValueError, match=r"tls must be a certificate and its key: .*absent"):
        server_context(tmp_path / "absent", tmp_path / "absent")


@on_a_loop
async def test_replica_that_does_not_lead_answers_503_and_is_not_ready() -> None:
    api = cluster()
    api.fault = lambda _method, path: refused(403) if "/leases" in path else None
    stop, verbs = asyncio.Event(), list[int]()
    settings = type(ALONE)()  # with an election
    task = asyncio.create_task(
        run_extender(settings, listen=("127.0.0.1", 0), stop=stop, api=api, listening=verbs.append)
    )
    await until(lambda: verbs)
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"http://127.0.0.1:{verbs[0]}/filter", json={}) as response,
    ):
        assert response.status == 503
        assert "does not lead" in await response.text()
    stop.set()
    await task


@on_a_loop
async def test_restart_of_a_gang_is_counted_on_its_group() -> None:
    """The next leader counts on, as the second scheduler does."""
    api = cluster()
    names = gang(api, 2)
    group = api.get(GROUPS, "default/g")
    assert group is not None
    group["metadata"]["annotations"] = {"gangsched.io/restart-policy": "BelowMinimum"}
    api.put(GROUPS, group)
    async with extending(api) as asking:
        assert await asyncio.gather(*(bind(asking, name) for name in names)) == ["", ""]
        await asyncio.sleep(0.3)  # the reports of the binds
        api.remove(PODS, f"default/{names[0]}")
        await until(lambda: f"default/{names[1]}" not in api.pods())
        group = api.get(GROUPS, "default/g")
        assert group is not None
        assert group["metadata"]["annotations"]["gangsched.io/restarts"] == "1"


@on_a_loop
async def test_pod_of_another_scheduler_is_not_bound_whatever_filter_was_told() -> None:
    """What is said to ``filter`` proves nothing: a stranger who binds may have said it."""
    api = cluster()
    api.put(PODS, pod_json("theirs", scheduler="other"))
    async with extending(api) as asking:
        problem = await asking.bind("theirs", "n1")
        assert "pod default/theirs has the schedulerName 'other'" in problem
        assert "binds pods of gangsched: see --scheduler-name" in problem
        forged = asking.pod("theirs")
        forged["spec"]["schedulerName"] = "gangsched"
        status, _ = await asking.send("filter", {"Pod": forged, "NodeNames": NAMES})
        assert status == 200
        assert "schedulerName 'other'" in await asking.bind("theirs", "n1")
    assert api.pods()["default/theirs"] is None


@on_a_loop
async def test_pod_that_was_created_again_is_not_bound_by_its_old_uid() -> None:
    api = cluster()
    api.put(PODS, pod_json("solo"))
    async with extending(api) as asking:
        body = {"PodName": "solo", "PodNamespace": "default", "PodUID": "old", "Node": "n1"}
        _status, answer = await asking.send("bind", body)
        assert "has the UID" in answer["Error"]
    assert api.pods()["default/solo"] is None
