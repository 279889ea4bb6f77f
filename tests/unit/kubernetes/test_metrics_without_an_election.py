"""The metrics of a scheduler without leader election, on an API server in memory."""

from __future__ import annotations

import asyncio
import re
from typing import Final

import pytest

from gangsched.kubernetes import LeaderElection, Settings
from support.cluster_objects import NODES, PODS, node_json, pod_json
from support.control_plane.processes import free_ports
from support.memory_api import MemoryApi
from support.root import ROOT
from support.running import ALONE, on_a_loop, running, until
from support.scraping import fetch, sample

pytest.importorskip("prometheus_client", reason="the extra metrics is not installed")
pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

ELECTED: Final = Settings(leader_election=LeaderElection(resource_namespace="kube-system"))
PAGE: Final = ROOT / "docs" / "how-to" / "operate-on-kubernetes.md"


async def shown(settings: Settings) -> str:
    """Return the metrics of a scheduler that has placed a pod."""
    api, (port,) = MemoryApi(), free_ports(1)
    api.put(NODES, node_json("n"))
    api.put(PODS, pod_json("p"))
    async with running(api, settings, serve=("127.0.0.1", port)):
        await until(lambda: api.pods()["default/p"])
        return await asyncio.to_thread(fetch, port, "/metrics")


@on_a_loop
async def test_scheduler_without_an_election_has_no_metric_of_a_leader() -> None:
    found = await shown(ALONE)
    assert "leader_election_master_status" not in found
    assert sample(found, "gangsched_ready") == 1


@on_a_loop
async def test_scheduler_that_was_elected_has_the_metric_of_a_leader() -> None:
    assert sample(await shown(ELECTED), "leader_election_master_status") == 1


def test_documented_alerts_that_need_a_series_name_one_that_is_always_there() -> None:
    named = set(re.findall(r"absent\((\w+)", PAGE.read_text(encoding="utf-8")))
    assert named == {"gangsched_ready"}
