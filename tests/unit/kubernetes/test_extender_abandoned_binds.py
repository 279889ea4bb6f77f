"""Binds that kube-scheduler no longer waits for: ``httpTimeout`` is too short for the gang."""

from __future__ import annotations

import asyncio
import logging

import pytest

from gangsched.kubernetes._measure import Measures
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.extender_client import Asking, extending
from support.memory_api import MemoryApi
from support.running import on_a_loop

NAMES = ["n0", "n1"]


async def give_up(asking: Asking, name: str, seconds: float) -> None:
    node = await asking.decided(name, NAMES)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await asking.bind(name, node)


def cluster() -> MemoryApi:
    api = MemoryApi()
    for name in NAMES:
        api.put(NODES, node_json(name))
    for name in ("g-0", "g-1"):
        api.put(PODS, pod_json(name, group="g"))
    api.put(GROUPS, group_json("g", 2))
    return api


def test_bind_that_is_given_up_is_counted_and_logged_once_in_a_while(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, int]] = []
    monkeypatch.setattr(Measures, "verb", lambda _self, verb, status: seen.append((verb, status)))

    @on_a_loop
    async def story() -> None:
        async with extending(cluster()) as asking:
            for _ in range(3):
                await give_up(asking, "g-0", 0.2)
                await asyncio.sleep(0.05)

    with caplog.at_level(logging.WARNING, "gangsched.kubernetes.extender"):
        story()
    assert seen.count(("bind", 499)) == 3
    assert ("bind", 200) not in seen
    (said,) = (each.getMessage() for each in caplog.records if "gave up" in each.getMessage())
    assert said.startswith("kube-scheduler gave up the bind of default/g-0 after 0.2 s, before ")
    assert "httpTimeout" in said


@on_a_loop
async def test_bind_that_is_answered_is_not_counted_as_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[str, int]] = []
    monkeypatch.setattr(Measures, "verb", lambda _self, verb, status: seen.append((verb, status)))
    async with extending(cluster()) as asking:
        nodes = {name: await asking.decided(name, NAMES) for name in ("g-0", "g-1")}
        ends = await asyncio.gather(*(asking.bind(name, node) for name, node in nodes.items()))
        assert ends == ["", ""]
    assert [status for verb, status in seen if verb == "bind"] == [200, 200]
