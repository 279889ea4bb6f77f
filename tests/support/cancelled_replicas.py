"""Replicas on an API server in memory that are cancelled at one step of their loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Literal

import pytest

from gangsched.kubernetes import LeaderElection, Settings
from gangsched.kubernetes import _replica as replicas
from gangsched.kubernetes._api import Api
from gangsched.kubernetes._leases import Election
from gangsched.kubernetes._measure import Measures
from gangsched.kubernetes._replica import Replica
from gangsched.kubernetes._shell import Shell
from gangsched.kubernetes.extender._term import ExtenderTerm, Holding
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.memory_api import Fault, MemoryApi
from support.stepped_loop import HungError, run_stepped

__all__ = ["Faults", "Kind", "steps_until", "survivors"]

Kind = Literal["scheduler", "extender"]
Faults = Callable[[str, str, float], Fault | None]
"""What goes wrong with a request, from its method, its path and the seconds since the start."""

SETTINGS: Final = Settings(leader_election=LeaderElection(resource_namespace="kube-system"))
_EPOCH: Final = 1_800_000_000.0
_LONGEST: Final = 0.9
"""Seconds of the loop that a replica may take to end. Less than a cancellation that is repeated."""


def steps_until(kind: Kind, seconds: float, faults: Faults | None = None) -> int:
    """Return after how many steps a replica has run for some seconds."""

    async def cancelled() -> None:
        task = asyncio.ensure_future(_run(kind, faults))
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.wait((task,))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replicas, "Election", _election)
        return run_stepped(cancelled(), limit=seconds + 60.0)


def survivors(
    kind: Kind, steps: range, faults: Faults | None = None, *, again_after: int | None = None
) -> list[int]:
    """Cancel a replica at each of some steps; return those at which it did not end.

    Args:
        kind: What the replica does when it leads.
        steps: Before which steps it is cancelled, each in a run of its own.
        faults: What goes wrong.
        again_after: After how many steps it is cancelled once more; None for never.
    """
    found: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replicas, "Election", _election)
        for step in steps:
            at = (step,) if again_after is None else (step, step + again_after)
            try:
                run_stepped(_run(kind, faults), *at, grace=_LONGEST)
            except HungError:
                found.append(step)
    return found


def _election(*args: Any, **named: Any) -> Election:
    clock = asyncio.get_running_loop().time
    return Election(*args, **{**named, "clock": clock, "draw": lambda: 0.5})


async def _run(kind: Kind, faults: Faults | None) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    api = MemoryApi(delay=0.003)
    api.put(NODES, node_json("n"))
    for group in ("g", "h"):
        api.put(GROUPS, group_json(group, 2))
        for number in range(2):
            api.put(PODS, pod_json(f"{group}-{number}", group=group))
    if faults is not None:
        api.fault = lambda method, path: faults(method, path, loop.time() - began)

    def clock() -> float:
        return _EPOCH + loop.time()

    async def term(api: Api, may_write: Callable[[], bool]) -> Any:
        measures = Measures(SETTINGS)
        if kind == "extender":
            return ExtenderTerm(api, SETTINGS, Holding(), (), {}, measures, clock, may_write)
        return Shell(
            api,
            SETTINGS,
            plugins=(),
            factories={},
            measures=measures,
            clock=clock,
            may_write=may_write,
        )

    await Replica(SETTINGS.leader_election, asyncio.Event(), term, lambda _leads: None).run(api)
