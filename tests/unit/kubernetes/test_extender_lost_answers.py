"""kube-scheduler does not learn how a request ended, or asks about what has changed meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from gangsched.events import Bind, NodeAdded, PodAdded
from gangsched.kubernetes.extender import _answers
from gangsched.kubernetes.extender._answers import Asked, Extender
from gangsched.kubernetes.extender._messages import MetaPod, MetaVictims
from gangsched.kubernetes.extender._plans import Nominate
from gangsched.membership import membership
from gangsched.memory import InMemoryCluster
from gangsched.model import GroupKey, Node, NodeName, Pod, PodUID
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.extender_client import extending
from support.memory_api import MemoryApi, lost_before
from support.running import on_a_loop, until

NAMES = ["n0", "n1", "n2"]


def gang(size: int) -> tuple[MemoryApi, list[str]]:
    api = MemoryApi()
    for name in NAMES:
        api.put(NODES, node_json(name))
    names = [f"g-{number}" for number in range(size)]
    for name in names:
        api.put(PODS, pod_json(name, group="g"))
    api.put(GROUPS, group_json("g", size))
    return api, names


def group_of(pod: Pod) -> GroupKey | None:
    claim = membership(pod)
    return None if claim is None else claim.group


def member(name: str, **named: Any) -> Pod:
    return Pod(name=name, uid=PodUID(name), requests={"cpu": 1}, pod_group="g", **named)


def answers(*pods: Pod) -> tuple[Extender, InMemoryCluster]:
    cluster = InMemoryCluster()
    for name in NAMES:
        cluster.apply(NodeAdded(Node(name=NodeName(name), allocatable={"cpu": 8, "pods": 8})))
    for pod in pods:
        cluster.apply(PodAdded(pod))
    return Extender(cluster, group_of, timeout=10.0), cluster


# Answers that are lost --------------------------------------------------------------------------


@on_a_loop
async def test_bound_member_of_which_the_answer_was_lost_is_answered_as_bound() -> None:
    """``httpTimeout`` has passed while the binds were under way: kube-scheduler tries again."""
    api, names = gang(2)
    async with extending(api) as asking:
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


@on_a_loop
async def test_member_that_is_bound_is_left_its_node_by_filter() -> None:
    """Without a node, kube-scheduler would write that a running pod is unschedulable."""
    api, names = gang(2)
    async with extending(api) as asking:
        before = {name: asking.pod(name) for name in names}
        nodes = {name: await asking.decided(name, NAMES) for name in names}
        await asyncio.gather(*(asking.bind(name, nodes[name]) for name in names))
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
        assert await asking.bind("g-2", await asking.decided("g-2", NAMES)) == ""
    assert all(api.pods().values())


@on_a_loop
async def test_held_members_come_back_by_another_kube_scheduler() -> None:
    """The first one is killed while two of three binds are held; the second one asks for all."""
    api, names = gang(3)
    async with extending(api) as asking:
        nodes = {name: await asking.decided(name, NAMES) for name in names}
        first = aiohttp.ClientSession()
        body = {"PodNamespace": "default"}
        held = [
            asyncio.create_task(
                first.post(
                    f"{asking.url}/bind",
                    json={
                        **body,
                        "PodName": name,
                        "PodUID": asking.pod(name)["metadata"]["uid"],
                        "Node": nodes[name],
                    },
                ).__aenter__()
            )
            for name in names[:2]
        ]
        await asyncio.sleep(0.1)
        for each in held:
            each.cancel()
        await first.close()
        await asyncio.gather(*held, return_exceptions=True)
        assert not any(api.pods().values())  # nothing is bound while no kube-scheduler asks
        ends = await asyncio.gather(*(asking.bind(name, nodes[name]) for name in names))
        assert ends == ["", "", ""]


@on_a_loop
async def test_second_kube_scheduler_gets_no_other_node_for_a_pod() -> None:
    """Two of them decide at once, against their election: the API server takes one bind."""
    api, names = gang(1)
    api.put(PODS, pod_json("solo"))
    async with extending(api) as asking:
        await asking.filter("solo", NAMES)
        ends = await asyncio.gather(asking.bind("solo", "n0"), asking.bind("solo", "n1"))
        assert sorted(map(bool, ends)) == [False, True]
        node = await asking.decided(names[0], NAMES)
        other = next(each for each in NAMES if each != node)
        ends = await asyncio.gather(asking.bind(names[0], node), asking.bind(names[0], other))
        assert ends[0] == ""
        assert "was decided to be on node" in ends[1]


# What is kept of requests -----------------------------------------------------------------------


def test_refused_pods_that_do_not_exist_are_forgotten_at_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pod of which the deletion was seen before its last request is never deleted again."""
    monkeypatch.setattr(_answers, "_MOST_ORDINARY", 10)
    asked, _cluster = answers()
    for number in range(1000):
        asked.filter(Asked(member(f"gone-{number}")), NAMES, 0.0)
    assert len(asked.plans._refused) + len(asked._early) <= 10
    asked._check()


def test_member_that_was_refused_before_it_was_known_is_nominated_by_the_decision() -> None:
    """The watch of kube-scheduler was ahead; nothing but the nomination would wake the pod."""
    early = member("early")
    asked, cluster = answers()
    assert asked.filter(Asked(early), NAMES, 0.0).names == []
    cluster.apply(PodAdded(early))
    decided = asked.observe([Bind(early.uid, NodeName("n1"), 1)], 0.0)
    assert decided == [Nominate(early.uid, NodeName("n1"))]
    assert len(asked._early) == 0


def test_refused_member_that_is_deleted_is_forgotten() -> None:
    known, unknown = member("known"), member("unknown")
    asked, _cluster = answers(known)
    for pod in (known, unknown):
        asked.filter(Asked(pod), NAMES, 0.0)
        asked.pod_is_gone(pod.uid)
    assert not asked.plans._refused
    assert not asked._early


def test_node_without_a_victim_is_left_out_of_the_answer() -> None:
    """kube-scheduler takes it for an error of the extender, and tries no other node either."""
    asked, _cluster = answers()
    pod = Pod(name="high", uid=PodUID("high"), requests={"cpu": 1})
    one = MetaVictims([MetaPod("x")], 0)
    given = {"n0": MetaVictims(None, 0), "n1": MetaVictims([], 0), "n2": one}
    assert asked.preempt(Asked(pod), given) == {"n2": one}
