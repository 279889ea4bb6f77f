"""An autoscaler that adds the nodes of the metric of pending demand, until all gangs run."""

from __future__ import annotations

import asyncio
import re

import pytest
from attrs import evolve

from gangsched.kubernetes._client import connect
from support.control_plane import Account
from support.control_plane.processes import free_ports
from support.patience import until
from support.running import on_a_loop, running
from support.scheduled_cluster import Cluster, cluster, documented_rights, eventually
from support.scraping import fetch

__all__ = ["cluster"]

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

SAMPLE = re.compile(r'^gangsched_pending_demand\{.*like="(?P<like>[^"]+)".*\} (?P<n>[\d.]+)$', re.M)


def demand(port: int) -> dict[str, int]:
    """Return how many more nodes are asked for, by the node that they are like."""
    text = until(lambda: fetch(port, "/metrics"))  # a busy scheduler may give none in time
    return {found["like"]: int(float(found["n"])) for found in SAMPLE.finditer(text)}


@on_a_loop
async def test_nodes_of_the_demand_start_every_gang(cluster: Cluster) -> None:
    pytest.importorskip("prometheus_client")
    cluster.add_nodes(1, gpu=4)
    cluster.add_gang("a", 8)
    cluster.add_gang("b", 6)
    (port,) = free_ports(1)
    settings = evolve(cluster.settings(), demand_interval=0.2)
    account = Account.create(cluster.plane.admin, "documented", documented_rights())
    api = await connect(kubeconfig=str(cluster.plane.kubeconfig("demand", account.token)))
    rounds = 0
    async with running(api, settings, serve=("127.0.0.1", port)):
        while not cluster.all_bound(14):
            rounds += 1
            assert rounds <= 4
            await eventually(lambda: cluster.all_bound(14) or demand(port))
            # not on the loop, which serves the page
            for like, count in (await asyncio.to_thread(demand, port)).items():
                assert like in cluster.nodes
                cluster.add_nodes(count, gpu=4)
            await eventually(lambda: not demand(port))
            await eventually(lambda: cluster.all_bound(14) or demand(port))
    await api.aclose()
    assert len(cluster.nodes) == 4  # 14 GPUs, four on each node
