"""The queues of YuniKorn on an API server: its ConfigMap is read, and no other."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

import pytest

from gangsched.kubernetes import _peers
from gangsched.kubernetes._client import connect
from gangsched.manifests.peer_quotas import CONFIG_MAPS
from support.control_plane import Account, Rule
from support.running import on_a_loop, running
from support.scheduled_cluster import Cluster, cluster, documented_rights, eventually

__all__ = ["cluster"]

pytest.importorskip("yaml")
pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

NAME: Final = CONFIG_MAPS[-1]
RIGHT: Final = Rule(["list"], ["configmaps"], names=CONFIG_MAPS)


def path(cluster: Cluster, name: str = "") -> str:
    return f"/api/v1/namespaces/{cluster.namespace}/configmaps" + (f"/{name}" if name else "")


def queues(gpus: int) -> dict[str, str]:
    limit = f"resources: {{max: {{nvidia.com/gpu: {gpus}}}}}"
    return {"queues.yaml": f"partitions: [{{name: default, queues: [{{name: a, {limit}}}]}}]"}


@pytest.fixture
def limited(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster with a queue of YuniKorn that has one GPU."""
    for name, data in ((NAME, queues(1)), ("other", {"queues.yaml": "{"})):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        cluster.plane.admin.create(path(cluster), body)
    yield cluster
    cluster.plane.admin.delete(path(cluster, NAME))


def why(cluster: Cluster, name: str) -> str:
    return str((cluster.condition(name, "PodScheduled") or {}).get("message", ""))


@on_a_loop
async def test_quotas_follow_the_config_map_with_the_rights_of_the_chart(
    limited: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_peers, "_LOOK_AT_QUOTAS", 0.2)
    limited.add_nodes(1, gpu=2)
    limited.add_group("g", 2)
    for name in ("g-0", "g-1"):
        pod = limited.pod(name, group="g")
        pod["metadata"]["labels"] = {"queue": "root.a"}
        limited.plane.admin.create(limited.path(), pod)
    account = Account.create(limited.plane.admin, "no-quotas", documented_rights())
    file = limited.plane.kubeconfig(limited.namespace, account.token)
    api = await connect(kubeconfig=str(file))
    try:
        with caplog.at_level(logging.WARNING, "gangsched.kubernetes"):
            async with running(api, limited.settings(quotas_from="yunikorn")):
                await eventually(lambda: "configmaps" in caplog.text)
                assert not any(limited.placed().values())
                rights = [*documented_rights(), RIGHT]
                Account.create(limited.plane.admin, "no-quotas", rights)
                await eventually(lambda: "exceeded quota root.a: " in why(limited, "g-0"))
                limited.plane.admin.patch(path(limited, NAME), {"data": queues(2)})
                await eventually(lambda: limited.all_bound(2))
    finally:
        await api.aclose()
