"""Kueue's topologies on an API server: levels from its objects, domains from its annotations."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

import pytest

from gangsched.kubernetes import _peers
from gangsched.kubernetes._client import connect
from support.control_plane import Account, Rule
from support.definitions import defined, definition
from support.running import on_a_loop, running
from support.scheduled_cluster import Cluster, cluster, documented_rights, eventually

__all__ = ["cluster"]

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

GROUP: Final = "kueue.x-k8s.io"
TOPOLOGIES: Final = f"/apis/{GROUP}/v1beta2/topologies"
RACK: Final = {f"{GROUP}/podset-required-topology": "example/rack"}


@pytest.fixture
def kueue(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster that serves ``Topology`` as Kueue defines it."""
    level = {"type": "object", "properties": {"nodeLabel": {"type": "string"}}}
    levels = {"type": "array", "items": level}
    spec = {"type": "object", "properties": {"levels": levels}}
    schema = {"type": "object", "properties": {"spec": spec}}
    topology = definition(f"{GROUP}/v1beta2", "Topology", "topologies", schema, scope="Cluster")
    with defined(cluster.plane.admin, topology):
        yield cluster


def add_topology(cluster: Cluster, *labels: str) -> None:
    body = {
        "apiVersion": f"{GROUP}/v1beta2",
        "kind": "Topology",
        "metadata": {"name": "default"},
        "spec": {"levels": [{"nodeLabel": label} for label in labels]},
    }
    cluster.plane.admin.create(TOPOLOGIES, body)


def add_racks(cluster: Cluster, *places: str) -> None:
    """Add a node with two GPUs for each ``block/rack``."""
    for place in places:
        cluster.add_nodes(1, gpu=2)
        block, rack = place.split("/")
        labels = {"example/block": block, "example/rack": rack}
        node = f"/api/v1/nodes/{cluster.nodes[-1]}"
        cluster.plane.admin.patch(node, {"metadata": {"labels": labels}})


def why(cluster: Cluster) -> str:
    return str((cluster.condition("g-0", "PodScheduled") or {}).get("message", ""))


def gang_in_a_rack(cluster: Cluster) -> None:
    cluster.add_group("g", 3)
    for n in range(3):
        cluster.add_pod(f"g-{n}", group="g", annotations=RACK)


@on_a_loop
async def test_levels_follow_the_topology_of_kueue_with_the_rights_of_the_chart(
    kueue: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_peers, "_LOOK_AT_LEVELS", 0.2)
    add_racks(kueue, "a/r1", "b/r1")
    add_topology(kueue, "example/block", "example/rack")
    gang_in_a_rack(kueue)
    rules = [*documented_rights(), Rule(["list"], ["topologies"], GROUP)]
    account = Account.create(kueue.plane.admin, "levels", rules)
    file = kueue.plane.kubeconfig(kueue.namespace, account.token)
    api = await connect(kubeconfig=str(file))
    settings = kueue.settings(levels_from="kueue")
    try:
        async with running(api, settings):
            # r1 of block a is not r1 of block b, so no rack has three GPUs
            await eventually(lambda: "example/rack" in why(kueue))
            assert not any(kueue.placed().values())
            kueue.plane.admin.delete(f"{TOPOLOGIES}/default")
            # without levels both are the rack r1
            await eventually(lambda: kueue.all_bound(3))
    finally:
        await api.aclose()
    assert "the levels of kueue are others now: the scheduler begins again" in caplog.text


@on_a_loop
async def test_scheduler_without_the_right_places_nothing_and_says_so(
    kueue: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    add_racks(kueue, "a/r1")
    kueue.add_gang("free", 2)
    account = Account.create(kueue.plane.admin, "no-levels", documented_rights())
    file = kueue.plane.kubeconfig(kueue.namespace, account.token)
    api = await connect(kubeconfig=str(file))
    said = f"topologies.{GROUP} is forbidden"
    try:
        with caplog.at_level(logging.WARNING, "gangsched.kubernetes"):
            async with running(api, kueue.settings(levels_from="kueue")):
                await eventually(lambda: said in caplog.text)
                assert not any(kueue.placed().values())
                rules = [*documented_rights(), Rule(["list"], ["topologies"], GROUP)]
                Account.create(kueue.plane.admin, "no-levels", rules)
                await eventually(lambda: kueue.all_bound(2))
    finally:
        await api.aclose()
