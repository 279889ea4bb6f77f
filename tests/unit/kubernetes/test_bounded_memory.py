"""What a scheduler remembers does not grow with the pods that came and went."""

from __future__ import annotations

import asyncio
import gc
import types
from collections import deque
from typing import Any

import pytest
from attrs import evolve

from gangsched._core import _claims
from gangsched.configuration.scheduler import check_settings
from gangsched.framework.nodes import node_classes
from gangsched.kubernetes import _cache, _caches, _decode, _echoes, _known, _recorder, _run
from gangsched.kubernetes._answers import Answers
from gangsched.kubernetes._cluster_settings import check_cluster_settings
from gangsched.kubernetes._shell import Shell
from gangsched.scheduler import Scheduler
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.memory_api import MemoryApi
from support.running import ALONE, on_a_loop, running, until

EVENTS = "/apis/events.k8s.io/v1/events"
_FEW = 8
"""To how much is remembered of what is gone, instead of some thousands."""
_ROUNDS = 15
_NOT_OURS = (
    *(type, types.ModuleType, types.FunctionType, types.FrameType, types.CodeType),
    *(MemoryApi, asyncio.AbstractEventLoop, asyncio.Task, asyncio.Future),
)


def held(root: object) -> int:
    """Return how many items all containers have that can be reached from an object."""
    seen: set[int] = {id(root)}
    waiting, items = [root], 0
    while waiting:
        found = waiting.pop()
        if isinstance(found, (dict, list, set, frozenset, tuple, deque)):
            items += len(found)
        for each in gc.get_referents(found):
            if id(each) not in seen and not isinstance(each, _NOT_OURS):
                seen.add(id(each))
                waiting.append(each)
    return items


async def _until_events(api: MemoryApi, count: int) -> None:
    await until(lambda: len(api.objects.get(EVENTS, {})) >= count)


async def come_and_go(api: MemoryApi, first: int) -> None:
    """Let gangs and other pods with names of their own be created, decided about and deleted."""
    for number in range(first, first + _ROUNDS):
        name = f"g{number}"
        names = [f"{name}-{n}" for n in range(3)]
        for each in names:
            api.put(PODS, pod_json(each, group=name))
        api.put(GROUPS, group_json(name, 3))
        api.put(PODS, pod_json(f"plain-{number}"))
        api.put(PODS, pod_json(f"too-large-{number}", gpu=99))
        api.put(PODS, pod_json(f"foreign-{number}", scheduler="other", nodeName="n"))
        names += [f"{each}-{number}" for each in ("plain", "too-large", "foreign")]
        await _until_events(api, 6 * (number + 1))  # of five pods and a group
        for each in names:
            api.remove(PODS, f"default/{each}")
        api.remove(GROUPS, f"default/{name}")
    await asyncio.sleep(0.2)


@on_a_loop
async def test_memory_does_not_grow_with_pods_that_are_gone() -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module, name in (
            (_cache, "_MOST_CLAIMS"),
            (_caches, "_MOST"),
            (_decode, "_MOST_GROUPS"),
            (_echoes, "_MOST"),
            (_known, "_MOST_GONE"),
            (_recorder, "_MOST_SERIES"),
            (_claims, "_SPARE"),
            (node_classes, "_SPARE"),
        ):
            patch.setattr(module, name, _FEW)
        # for a minute, a group is remembered whose members are gone
        defaults = Scheduler.__init__.__kwdefaults__
        assert defaults is not None
        patch.setitem(defaults, "group_grace", 0.0)
        shells: list[Shell] = []

        def remembered(*args: Any, **named: Any) -> Shell:
            shells.append(Shell(*args, **named))
            return shells[-1]

        patch.setattr(
            _run,
            "_import_scheduler",
            lambda: (remembered, Answers, check_settings, check_cluster_settings),
        )
        api = MemoryApi()
        api.put(NODES, node_json("n"))
        async with running(api, evolve(ALONE, partial_bound=0.2)):
            await come_and_go(api, 0)
            (shell,) = shells
            before = held(shell)
            await come_and_go(api, _ROUNDS)
            after = held(shell)
    # one item that stays for each gang would already be as many as there were rounds
    assert after - before < _ROUNDS, (before, after)
